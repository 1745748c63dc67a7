//! `references/examples.md` of a procedure's skill: a heading and a fenced JSON line for each example, oldest first.
//! The page is `docs/reference/examples.md`.

use super::nearest::{features, likeness};
use super::{Example, procedure_slug};
use crate::error::Result;
use crate::ids::Slug;
use crate::session::reply::Edition;
use crate::text;

/// Where the examples of a procedure stand, relative to its skill.
pub const EXAMPLES_FILE: &str = "references/examples.md";
/// The most examples of a procedure.
pub const MOST_EXAMPLES: usize = 24;
/// The most examples of one shape: each more says less.
const MOST_OF_A_SHAPE: usize = 4;
/// The characters of a question that its heading shows.
const HEADING_CHARS: usize = 80;

const HEAD: &str =
    "# Examples\n\nTasks that went well, told short. herm shows the nearest one to the next task of the kind.\n";

/// Reads the examples. What a person wrote around them is passed over, and so is what is not an example.
pub fn parse(text: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        match line.trim() {
            "```json" => fenced = true,
            "```" => fenced = false,
            line if fenced => examples.extend(serde_json::from_str::<Example>(line).ok()),
            _ => {}
        }
    }
    examples.truncate(MOST_EXAMPLES);
    examples
}

/// Writes the file of the examples, in the given order.
pub fn write(examples: &[Example]) -> Result<String> {
    let mut text = HEAD.to_owned();
    for example in examples {
        let line = serde_json::to_string(example)
            .map_err(|source| crate::error::Error::internal("an example cannot be written").because(source))?;
        text.push_str(&format!("\n## {}\n\n```json\n{line}\n```\n", text::line(&example.question, HEADING_CHARS)));
    }
    Ok(text)
}

/// Which example makes room for one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomRule {
    /// The oldest: the rule of transcripts up to the third edition.
    Oldest,
    /// The older of the two whose questions are most alike: kinds of which there is one example stay.
    MostAlike,
}

impl RoomRule {
    /// The rule of a transcript of this edition.
    pub fn of(reading: Edition) -> Self {
        if reading < Edition::Fourth { Self::Oldest } else { Self::MostAlike }
    }
}

/// The examples with one more; none where it says nothing that they do not say.
pub fn with(mut examples: Vec<Example>, new: Example, rule: RoomRule) -> Option<Vec<Example>> {
    let asks = |example: &Example| crate::checks::words(&example.question);
    if examples.iter().any(|known| known.task == new.task || asks(known) == asks(&new)) {
        return None;
    }
    let shape = new.shape();
    let alike: Vec<usize> =
        examples.iter().enumerate().filter(|(_, known)| known.shape() == shape).map(|(at, _)| at).collect();
    if alike.len() >= MOST_OF_A_SHAPE {
        return None;
    }
    examples.push(new);
    while examples.len() > MOST_EXAMPLES {
        let at = match rule {
            RoomRule::Oldest => 0,
            RoomRule::MostAlike => most_alike(&examples),
        };
        examples.remove(at);
    }
    Some(examples)
}

/// The place of the older of the two examples whose questions share most; the oldest where none share anything.
fn most_alike(examples: &[Example]) -> usize {
    let questions: Vec<Vec<u64>> = examples.iter().map(|example| features(&example.question)).collect();
    let mut best = (0.0, 0);
    for (at, one) in questions.iter().enumerate() {
        for other in questions.iter().skip(at + 1) {
            let score = likeness(one, other);
            if score > best.0 {
                best = (score, at);
            }
        }
    }
    best.1
}

/// The examples without that of a task; none where there is none of it.
pub fn without(mut examples: Vec<Example>, task: &crate::ids::TaskId) -> Option<Vec<Example>> {
    let before = examples.len();
    examples.retain(|known| known.task != *task);
    (examples.len() < before).then_some(examples)
}

/// The main file of a procedure's skill.
pub fn skill_text(slug: &Slug, example: &Example) -> String {
    let tools: Vec<&str> = example.tools().collect();
    let (listed, question) = (tools.join(", then "), text::line(&example.question, HEADING_CHARS));
    let described = format!("How tasks such as \"{question}\" went well: {listed}.");
    let quoted = serde_json::Value::from(described).to_string();
    let steps: String = tools.iter().enumerate().map(|(at, tool)| format!("{}. Call `{tool}`.\n", at + 1)).collect();
    format!(
        "---\nname: {slug}\ndescription: {quoted}\nmetadata:\n  kind: procedure\n---\nWhat tasks of this kind did when they went \
         well:\n\n{steps}{}. Answer from what it returned.\n\nThe [examples](references/examples.md) show it done.\n",
        tools.len() + 1
    )
}

/// The skill that keeps the examples of this one's procedure.
pub fn slug_of(example: &Example) -> Option<Slug> {
    procedure_slug(example.tools())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::exemplar::tests::{example, example_of};
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again_whatever_stands_around_it() {
        let examples = vec![example("Where is the rope?"), example("Where is the \"big\" lamp?\nNow!")];
        let text = write(&examples).unwrap();
        assert_eq!(parse(&text), examples);
        let edited = format!("A note by a person.\n\n{text}\n```json\n{{\"no\": \"example\"}}\n```\nmore\n");
        assert_eq!(parse(&edited), examples);
    }

    #[test]
    fn each_shape_has_a_few_and_a_question_is_kept_once() {
        let mut examples = Vec::new();
        for n in 0..9 {
            if let Some(more) = with(examples.clone(), example(&format!("Where is thing{n}?")), RoomRule::MostAlike) {
                examples = more;
            }
        }
        assert_eq!(examples.len(), MOST_OF_A_SHAPE);
        assert!(with(examples.clone(), examples[0].clone(), RoomRule::MostAlike).is_none());
        let other =
            example_of("Where is that?", &[("find_thing", json!({ "list": "attic" }), "It is in box 7.")], "box 7");
        let more = with(examples.clone(), other.clone(), RoomRule::MostAlike).unwrap();
        assert_eq!(more.last(), Some(&other));
        assert_eq!(without(more, &other.task).unwrap(), examples);
        assert!(without(examples, &other.task).is_none());
    }

    #[test]
    fn of_two_that_are_alike_the_older_makes_room_and_the_only_one_of_a_kind_stays() {
        let of = |question: &str, list: usize| {
            example_of(
                question,
                &[("find_thing", json!({ "list": format!("list{list}") }), "It is in box 7.")],
                "box 7",
            )
        };
        let mut examples = vec![of("Who signs the permit for the harbour?", 0)];
        for n in 1..MOST_EXAMPLES {
            examples.push(of(&format!("Where is the {} of room{n}?", ["lamp", "rope"][n % 2]), n));
        }
        let new = of("How heavy is the anvil?", 99);
        let by = |rule| with(examples.clone(), new.clone(), rule).unwrap();
        assert_eq!(by(RoomRule::Oldest), [&examples[1..], std::slice::from_ref(&new)].concat());
        let kept = by(RoomRule::MostAlike);
        assert_eq!((kept.len(), &kept[0], kept.last()), (MOST_EXAMPLES, &examples[0], Some(&new)));
        assert!(!kept.contains(&examples[1]), "the older of two alike");
    }

    #[test]
    fn the_skill_of_a_procedure_is_a_skill() {
        let example = example("Where is \"it\"?\nNow");
        let slug = slug_of(&example).unwrap();
        assert_eq!(slug.as_str(), "how-to-find-thing");
        let text = skill_text(&slug, &example);
        let document = crate::skill::Document::read(text.as_bytes()).unwrap();
        assert!(document.description().unwrap().contains("Where is \"it\"?"));
        assert!(crate::session::exemplar::is_procedure(&slug));
        let long = procedure_slug(["a-very-long-name-of-a-tool-that-goes-on-and-on-and-on", "b"].into_iter()).unwrap();
        let other = procedure_slug(["a-very-long-name-of-a-tool-that-goes-on-and-on-and-on", "c"].into_iter()).unwrap();
        assert!(long.as_str().len() <= 64 && long != other);
    }
}
