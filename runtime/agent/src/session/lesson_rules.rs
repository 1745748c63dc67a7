//! Whether what a model wrote down about a task says anything. Pure.
//!
//! A small model that is asked what a task taught often repeats what it just read: the question, its placeholders, the
//! role. Such a skill takes room and does harm.

use std::collections::BTreeSet;

use super::synthesis::SynthesizedSkill;
use super::transcript::Turn;
use crate::checks::words;
use crate::text::words::is_stop_word;

/// Runs of so many words tell a copy from a coincidence.
const RUN: usize = 4;
/// A skill with more than this part of its runs in the question is a copy of it.
const COPIED_PART: f64 = 0.4;
/// What the question puts where the model is to write.
const PLACEHOLDERS: [&str; 6] = [
    "lower-case-name",
    "name-from-the-list",
    "what it does use when",
    "markdown",
    "the whole new markdown",
    "use when",
];

/// What a lesson is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct LessonContext<'a> {
    /// What the model was told when it was asked for the lesson, without the account of the task.
    pub(super) instructions: &'a str,
    /// The role of the agent.
    pub(super) role: &'a str,
    /// What was asked of the agent.
    pub(super) input: &'a str,
    /// What the task did.
    pub(super) turns: &'a [Turn],
    /// The tools there are.
    pub(super) tools: &'a [String],
}

/// Why a lesson is not kept; none where it says something.
pub(super) fn objection(lesson: &SynthesizedSkill, context: &LessonContext<'_>) -> Option<String> {
    let said = words(&format!("{}\n{}", lesson.description, lesson.body));
    let is_placeholder = |text: &str| {
        let plain = words(text).join(" ");
        plain.is_empty() || PLACEHOLDERS.iter().any(|placeholder| words(placeholder).join(" ") == plain)
    };
    let places = [lesson.slug.as_str(), lesson.description.as_str(), lesson.body.as_str()];
    if let Some(place) = places.into_iter().find(|place| is_placeholder(place)) {
        return Some(format!("it leaves {place:?} as it stood in the question"));
    }
    if copied_part(&said, &words(context.instructions)) > COPIED_PART {
        return Some("it repeats the question".to_owned());
    }
    let calls: Vec<_> = context.turns.iter().filter_map(|turn| turn.call.as_ref()).collect();
    let mentions = |name: &str| {
        let name = words(name);
        !name.is_empty() && said.windows(name.len()).any(|window| window == name)
    };
    // A name of one plain word, such as `read`, is a word as well.
    let is_name = |tool: &&String| tool.contains(['_', '-']);
    let never_called = |tool: &&String| !calls.iter().any(|call| call.tool == **tool);
    if let Some(tool) = context.tools.iter().filter(is_name).filter(never_called).find(|tool| mentions(tool)) {
        return Some(format!("it names {tool}, which the task did not call"));
    }
    let told: String = context
        .turns
        .iter()
        .map(|turn| {
            let args = turn.call.as_ref().map(|call| format!("{} {:?}", call.tool, call.args)).unwrap_or_default();
            format!("{args}\n{}\n", turn.report.as_ref().map(|report| report.text.as_str()).unwrap_or_default())
        })
        .collect();
    let known = format!("{told}\n{}\n{}\n{}", context.role, context.input, context.tools.join(" "));
    if let Some(name) = identifiers(&lesson.body).into_iter().find(|name| !known.contains(name.as_str())) {
        return Some(format!("it names {name}, which did not occur in the task"));
    }
    let in_role: BTreeSet<String> = words(context.role).into_iter().collect();
    let new: BTreeSet<&String> =
        said.iter().filter(|word| !is_stop_word(word) && !in_role.contains(*word) && word.len() > 2).collect();
    new.is_empty().then(|| "it says nothing that the role does not say".to_owned())
}

/// The part of a text's runs of words that another has.
fn copied_part(said: &[String], source: &[String]) -> f64 {
    let runs: BTreeSet<&[String]> = source.windows(RUN).collect();
    let all = said.windows(RUN).count();
    let copied = said.windows(RUN).filter(|run| runs.contains(run)).count();
    if all == 0 { 0.0 } else { copied as f64 / all as f64 }
}

/// Words that can only be names of tools, arguments or fields: `order_id`.
fn identifiers(body: &str) -> Vec<String> {
    body.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| word.trim_matches('_').contains('_'))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::EvidenceStatus;
    use crate::session::exemplar::tests::transcript;
    use serde_json::json;

    fn judged(name: &str, description: &str, body: &str) -> Option<String> {
        let lesson = SynthesizedSkill {
            slug: name.parse().unwrap(),
            description: description.to_owned(),
            body: body.to_owned(),
        };
        let turns = transcript(
            "Where is the lamp?",
            &[
                ("find_thing", json!({ "list": "attic" }), EvidenceStatus::Failed, "the list attic has no lamp"),
                ("find_thing", json!({ "list": "cellar" }), EvidenceStatus::Ok, "The lamp is in box_id 57."),
            ],
            "{}",
        )
        .turns;
        let tools = ["find_thing".to_owned(), "skill_view".to_owned(), "recall".to_owned()];
        objection(
            &lesson,
            &LessonContext {
                instructions: "You read how a task was solved and decide whether it taught a procedure worth keeping: steps in \
                order, which tool with which arguments.",
                role: "You find things. Look every thing up with a tool.",
                input: "Where is the lamp?",
                turns: &turns,
                tools: &tools,
            },
        )
    }

    #[test]
    fn a_lesson_that_names_what_worked_is_kept() {
        assert_eq!(
            judged("find-a-thing", "Finds a thing. Use when asked where.", "Call find_thing with list cellar first."),
            None
        );
        assert_eq!(
            judged("find-a-thing", "Finds a thing.", "The cellar knows most; take its box_id as the answer."),
            None
        );
    }

    #[test]
    fn what_says_nothing_of_the_task_is_refused_with_the_reason() {
        for (body, why) in [
            ("The whole new Markdown", "as it stood"),
            ("You read how a task was solved and decide whether it taught a procedure worth keeping.", "repeats"),
            ("Call skill_view with the cellar first.", "skill_view"),
            ("Pass the order_id to the cellar list.", "order_id"),
        ] {
            let judged = judged("find-a-thing", "Finds things for people.", body);
            assert!(judged.as_deref().is_some_and(|said| said.contains(why)), "{body}: {judged:?}");
        }
        let empty = judged("find-thing", "Look things up", "Look every thing up with a tool.");
        assert!(empty.is_some_and(|said| said.contains("nothing that the role")));
    }
}
