//! A plan: the calls of an example, with what stays the same from task to task. Pure.
//!
//! A backend that holds replies to a schema is held to the plan, call by call, until a call fails: then every legal reply
//! is legal again. A value that the example took from its question is taken from the question of this task, and one
//! that it took from a result from a result of this task: a small model copies the example's own otherwise.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{ArgumentSource, Example};
use crate::checks::words;
use crate::session::few_shot;
use crate::text::words::{each_term, is_stop_word};
use crate::tool::ToolSpec;

/// The most values that an argument can be held to; with more to choose from, any is legal.
const MOST_VALUES: usize = 160;
/// The bytes of question and results that values are taken from.
const SOURCE_BYTES: usize = 4_096;

/// The calls to make, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    steps: Vec<Step>,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    tool: String,
    args: Vec<(String, Argument)>,
}

/// Where the value of an argument comes from.
#[derive(Debug, Clone, PartialEq)]
enum Argument {
    /// It is always this one.
    Constant(Value),
    /// Some words of the question.
    FromQuestion { words: usize },
    /// Some words of a result.
    FromResult { words: usize },
    /// Some words of the question or of a result: a tool's own example knows of no call before it. Not all of them are among
    /// `vocabulary`, the words in which the tool speaks of itself.
    FromTask { words: usize, vocabulary: BTreeSet<String> },
    /// Anything.
    Open,
}

impl Plan {
    /// The plan of an example, where all of its tools are there.
    pub fn of(example: &Example, tools: &[&ToolSpec]) -> Option<Self> {
        let mut steps = Vec::with_capacity(example.calls.len());
        for (at, call) in example.calls.iter().enumerate() {
            tools.iter().find(|card| card.name == call.tool)?;
            let argument = |value: &Value| {
                let words = words(&crate::checks::text_of(value)).len();
                match example.source_of(at, value) {
                    ArgumentSource::Constant => Argument::Constant(value.clone()),
                    ArgumentSource::Question => Argument::FromQuestion { words },
                    ArgumentSource::Result => Argument::FromResult { words },
                    ArgumentSource::Structure => Argument::Open,
                }
            };
            let args = call.args.iter().map(|(name, value)| (name.clone(), argument(value))).collect();
            steps.push(Step { tool: call.tool.clone(), args });
        }
        (!steps.is_empty()).then_some(Self { steps })
    }

    /// What the tools' own examples say of single calls. It has an order of no meaning: it is for [`Self::hold`] alone.
    pub fn of_cards(tools: &[&ToolSpec]) -> Self {
        let step = |card: &&ToolSpec| {
            let shown = few_shot::example_of(card, "");
            let asked = words(&shown.question);
            let args = shown.args.as_object().into_iter().flatten().filter_map(|(name, value)| {
                let said = words(value.as_str()?);
                let is_asked = !said.is_empty() && asked.windows(said.len()).any(|run| run == said);
                let matter = stems(value.as_str()?);
                let known = vocabulary_of(card).chain(stems(&shown.question));
                let vocabulary = || known.filter(|stem| !matter.contains(stem)).collect();
                is_asked.then(|| (name.clone(), Argument::FromTask { words: said.len(), vocabulary: vocabulary() }))
            });
            Step { tool: card.name.clone(), args: args.collect() }
        };
        Self { steps: tools.iter().map(step).filter(|step| !step.args.is_empty()).collect() }
    }

    /// The tool of a step, none behind the last.
    pub fn tool(&self, step: usize) -> Option<&str> {
        self.steps.get(step).map(|step| step.tool.as_str())
    }

    /// The tools with the arguments that come from question or results held to those: a small model copies the example's
    /// own otherwise. It holds also when the plan itself is lifted: what went wrong may have been the value and not the way.
    pub fn hold(&self, tools: &[&ToolSpec], question: &str, results: &[&str]) -> Vec<ToolSpec> {
        let held = |card: &&ToolSpec| {
            let mut card = ToolSpec::clone(card);
            let Some(step) = self.steps.iter().find(|step| step.tool == card.name) else { return card };
            for (name, argument) in &step.args {
                let declared = &card.schema["properties"][name];
                card.schema["properties"][name] = match argument {
                    Argument::FromQuestion { words } => one_of(declared, &[question], *words),
                    Argument::FromResult { words } => one_of(declared, results, *words),
                    Argument::FromTask { words, vocabulary } => {
                        matter(one_of(declared, &[&[question], results].concat(), *words), vocabulary)
                    }
                    Argument::Constant(_) | Argument::Open => continue,
                };
            }
            card
        };
        tools.iter().map(held).collect()
    }

    /// The one legal reply of a step as a schema, given the question and the results so far; none behind the last, where
    /// the answer comes.
    pub fn legal(&self, step: usize, tools: &[&ToolSpec], question: &str, results: &[&str]) -> Option<Value> {
        let step = self.steps.get(step)?;
        let card = tools.iter().find(|card| card.name == step.tool)?;
        let mut properties = Map::new();
        for (name, argument) in &step.args {
            let declared = card.schema["properties"].get(name).cloned().unwrap_or_else(|| json!({}));
            let schema = match argument {
                Argument::Constant(value) => json!({ "const": value }),
                Argument::FromQuestion { words } => one_of(&declared, &[question], *words),
                Argument::FromResult { words } => one_of(&declared, results, *words),
                Argument::FromTask { .. } | Argument::Open => declared,
            };
            properties.insert(name.clone(), schema);
        }
        let required: Vec<&String> = step.args.iter().map(|(name, _)| name).collect();
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["tool", "args"],
            "properties": {
                "tool": { "const": step.tool },
                "args": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": required,
                    "properties": properties,
                },
            },
        }))
    }
}

/// The declared schema, held to the values that the sources have: runs of words, up to one more than the example had. Left
/// as it is where it says itself which values there are, or the sources have too many.
fn one_of(declared: &Value, sources: &[&str], most_words: usize) -> Value {
    if declared.get("enum").is_some() || declared.get("const").is_some() {
        return declared.clone();
    }
    let is_kind = |kind: &str| declared["type"] == kind;
    let mut values: Vec<Value> = Vec::new();
    let mut left = SOURCE_BYTES;
    for source in sources.iter().rev() {
        let source = source.get(..left.min(source.len())).unwrap_or_default();
        left -= source.len();
        // What stands between two marks is no run of words.
        for piece in source.split(['\n', ',', ';', '!', '?', '"', '(', ')', '[', ']', ':']) {
            let tokens: Vec<&str> = piece.split_whitespace().map(bare).filter(|token| !token.is_empty()).collect();
            for length in 1..=most_words + 1 {
                values.extend(tokens.windows(length).filter(|run| says_something(run)).filter_map(|run| {
                    let text = run.join(" ");
                    match () {
                        () if is_kind("integer") => text.parse::<i64>().ok().map(Value::from),
                        () if is_kind("number") => text.parse::<f64>().ok().map(Value::from),
                        () => Some(Value::from(text)),
                    }
                }));
            }
        }
    }
    let fits = |value: &Value| crate::schema::problems(declared, value).is_empty();
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(value.to_string()) && fits(value));
    match values.len() {
        0 => declared.clone(),
        many if many > MOST_VALUES => declared.clone(),
        _ => json!({ "enum": values }),
    }
}

/// The stems of the words in which a tool speaks of itself: they are not what a task is about.
fn vocabulary_of(card: &ToolSpec) -> impl Iterator<Item = String> {
    let names = card.schema["properties"].as_object().into_iter().flat_map(Map::keys);
    let names = names.map(|name| name.replace(['_', '-'], " ")).collect::<Vec<_>>().join(" ");
    stems(&format!("{} {names}", card.description)).into_iter()
}

fn stems(text: &str) -> Vec<String> {
    let mut stems = Vec::new();
    each_term(text, |term| {
        stems.push(term.to_owned());
        true
    });
    stems
}

/// The values that say something besides the vocabulary; all of them where none does.
fn matter(held: Value, vocabulary: &BTreeSet<String>) -> Value {
    let values = held["enum"].as_array().into_iter().flatten();
    let says_more = |value: &&Value| match value.as_str() {
        Some(text) => stems(text).iter().any(|stem| !vocabulary.contains(stem)),
        None => true,
    };
    let matter: Vec<&Value> = values.filter(says_more).collect();
    if matter.is_empty() { held.clone() } else { json!({ "enum": matter }) }
}

fn bare(token: &str) -> &str {
    token.trim_matches(|c: char| !c.is_alphanumeric())
}

fn says_something(run: &[&str]) -> bool {
    let edge = |token: Option<&&str>| token.is_some_and(|token| !is_stop_word(&token.to_lowercase()));
    // A run begins and ends with a word that says something.
    edge(run.first()) && edge(run.last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::exemplar::tests::example_of;
    use crate::tool::Permission;

    #[test]
    fn without_an_example_the_tools_own_say_what_comes_from_the_task() {
        let schema = json!({ "type": "object", "required": ["piece", "list"], "properties": {
            "piece": { "type": "string" }, "list": { "enum": ["red", "blue"] }, "count": { "type": "integer" } } });
        let find = ToolSpec::new("find", "Finds.", Permission::Read, schema);
        let shown = json!({ "piece": "globe", "list": "red" });
        let find = find.with_few_shot("Where is the globe?", shown, "In bay 9.", "bay 9");
        let held = Plan::of_cards(&[&find]).hold(&[&find], "Where is the old harp?", &["The lute is elsewhere."]);
        assert_eq!(
            held[0].schema["properties"]["piece"],
            json!({ "enum": ["lute", "elsewhere", "old", "harp", "old harp"] })
        );
        assert_eq!(held[0].schema["properties"]["list"], json!({ "enum": ["red", "blue"] }));
        let nothing_to_take = Plan::of_cards(&[&find]).hold(&[&find], "?", &[]);
        assert_eq!(nothing_to_take[0].schema, find.schema);
    }

    #[test]
    fn what_comes_from_the_question_or_a_result_stays_open_and_the_rest_is_pinned() {
        let example = example_of(
            "Which room has order 572?",
            &[
                ("find", json!({ "order": "572", "book": "blue" }), "Order 572 is entry 9 of the ledger."),
                ("read", json!({ "entry": 9, "code": "Q7" }), "Entry 9: room 31."),
            ],
            "room 31",
        );
        let schema = json!({ "type": "object", "properties": {
            "order": { "type": "string" }, "book": { "enum": ["red", "blue"] }, "more": { "type": "string" } } });
        let find = ToolSpec::new("find", "Finds.", Permission::Read, schema);
        let read = ToolSpec::new(
            "read",
            "Reads.",
            Permission::Read,
            json!({ "type": "object", "properties": {
            "entry": { "type": "integer" }, "code": { "type": "string" } } }),
        );
        let plan = Plan::of(&example, &[&find, &read]).unwrap();
        let first = plan.legal(0, &[&find, &read], "Which room has order 31?", &[]).unwrap();
        assert_eq!(
            first["properties"]["args"]["properties"],
            json!({ "order": { "enum": ["room", "order", "31", "order 31"] }, "book": { "const": "blue" } })
        );
        let second = plan
            .legal(1, &[&find, &read], "Which room has order 31?", &["Order 31 is entry 44 of the ledger."])
            .unwrap();
        assert_eq!(
            second["properties"]["args"]["properties"],
            json!({ "entry": { "enum": [31, 44] }, "code": { "const": "Q7" } })
        );
        assert_eq!((plan.tool(1), plan.tool(2)), (Some("read"), None));
        assert!(plan.legal(2, &[&find, &read], "", &[]).is_none());
        assert!(Plan::of(&example, &[&find]).is_none(), "a tool that is not there makes no plan");
    }
}
