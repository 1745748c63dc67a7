//! A house full of things: a family of tasks of one kind. Every thing is on one list, and the role does not say which.

use async_trait::async_trait;
use herm::successor::statistics::SplitMix64;
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec};
use herm::{Error, Result};
use serde_json::{Map, Value, json};

/// What the agent is told.
pub(super) const ROLE: &str = "You find things. Look every thing up with a tool, then answer with its box.\n";
/// The lists there are.
const LISTS: [&str; 4] = ["attic", "cellar", "garage", "kitchen"];
/// The one that has everything.
const RIGHT: &str = "cellar";
/// The things there are.
const NAMES: [&str; 60] = [
    "lamp",
    "rope",
    "kettle",
    "ladder",
    "hammer",
    "basket",
    "mirror",
    "violin",
    "globe",
    "clock",
    "candle",
    "blanket",
    "bucket",
    "compass",
    "drum",
    "easel",
    "fan",
    "guitar",
    "helmet",
    "iron",
    "jar",
    "kite",
    "lantern",
    "map",
    "needle",
    "oar",
    "piano",
    "quilt",
    "radio",
    "saddle",
    "tent",
    "umbrella",
    "vase",
    "wagon",
    "axe",
    "bell",
    "cup",
    "desk",
    "flag",
    "glove",
    "camera",
    "pillow",
    "shovel",
    "trumpet",
    "bicycle",
    "suitcase",
    "broom",
    "statue",
    "teapot",
    "carpet",
    "curtain",
    "dictionary",
    "telescope",
    "wheel",
    "whistle",
    "notebook",
    "scissors",
    "bottle",
    "ball",
    "anchor",
];

/// A thing, and the box it lies in.
#[derive(Debug, Clone)]
pub(super) struct Thing {
    name: &'static str,
    number: usize,
}

impl Thing {
    pub(super) fn question(&self) -> String {
        format!("Where is the {}?", self.name)
    }

    /// Whether an answer names its box, and not one that only begins like it.
    pub(super) fn is_in(&self, answer: &str) -> bool {
        let wanted = format!("box {}", self.number);
        answer
            .match_indices(&wanted)
            .any(|(at, _)| !answer[at + wanted.len()..].starts_with(|next: char| next.is_ascii_digit()))
    }
}

/// The first `count` tasks of the family: always the same.
pub(super) fn things(count: usize) -> Result<Vec<Thing>> {
    if count > NAMES.len() {
        return Err(Error::invalid(format!("there are {} tasks in this family", NAMES.len())));
    }
    let mut stream = SplitMix64::new(9);
    Ok(NAMES.iter().take(count).map(|name| Thing { name, number: 10 + stream.below(80) }).collect())
}

/// What a person would write down.
pub(super) fn skill() -> String {
    format!(
        "---\nname: find-a-thing\ndescription: \"Finds a thing: ask the list {RIGHT}. Use when someone asks where a thing \
         is.\"\n---\nCall find_thing with the list {RIGHT}. Answer with the box.\n"
    )
}

/// The tool of the house.
pub(super) struct FindThing {
    card: ToolSpec,
    things: Vec<Thing>,
}

impl FindThing {
    pub(super) fn new(things: &[Thing]) -> Self {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["thing", "list"],
            "properties": { "thing": { "type": "string", "maxLength": 24 }, "list": { "enum": LISTS } },
        });
        let about = "Says in which box a thing lies. Each list knows the things of one place.";
        let card = ToolSpec::new("find_thing", about, Permission::Read, schema).with_few_shot(
            "Where is the chair?",
            json!({ "thing": "chair", "list": "kitchen" }),
            "The chair is in box 95.",
            "box 95",
        );
        Self { card, things: things.to_vec() }
    }
}

#[async_trait]
impl Tool for FindThing {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput> {
        let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, list) = (text("thing").trim().to_lowercase(), text("list"));
        match self.things.iter().find(|thing| thing.name == name).filter(|_| list == RIGHT) {
            Some(thing) => Ok(ToolOutput::new(format!("The {name} is in box {}.", thing.number), "found")),
            None => Err(Error::not_found(format!("the list {list} has no {name}; ask another list"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_box_whole() {
        let lamp = Thing { name: "lamp", number: 12 };
        assert!(lamp.is_in(r#"{"answer": "box 12"}"#) && lamp.is_in("It is in box 12."));
        assert!(!lamp.is_in(r#"{"answer": "box 123"}"#) && !lamp.is_in("box 1"));
    }

    #[test]
    fn a_family_is_always_the_same_and_has_an_end() {
        let (a, b) = (things(60).unwrap(), things(40).unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a.name, a.number) == (b.name, b.number)));
        assert!(things(61).is_err());
    }
}
