//! Whether what a model wrote down about a task says anything. Pure.
//!
//! A small model that is asked what a task taught often repeats what it just read: the question, its placeholders, the
//! role, the skill that stood before it. Such a skill takes room and does harm: "load skill X" stands in the way of X.

use std::collections::BTreeSet;

use super::synthesis::SynthesizedSkill;
use super::transcript::Turn;
use crate::checks::words;
use crate::ids::Slug;
use crate::text::words::is_stop_word;
use crate::tool::says_nothing_new;

/// Runs of so many words tell a copy from a coincidence.
const RUN: usize = 4;
/// A skill with more than this part of its runs in the question is a copy of it.
const COPIED_PART: f64 = 0.4;
/// A skill with more than this part of its runs in another skill is that skill once more.
const SAME_PART: f64 = 0.75;
/// What a sentence says that only sends the reader to a skill.
const POINTING: &str = "according answer apply call check consult described follow given guide instructions list load open \
                        procedure question read refer rely rules run skill skills step steps task use using view";
/// The tools that only look something up.
const LOOKUPS: [&str; 3] = ["skill_view", "skills_list", "recall"];
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
    /// The skills there are.
    pub(super) skills: &'a [KnownSkill],
}

/// A skill that a lesson may point at or repeat.
#[derive(Debug, Clone)]
pub(super) struct KnownSkill {
    pub(super) slug: Slug,
    /// What it says, where the lesson may come from it and the agent did not write it.
    pub(super) expert: Option<String>,
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
    let mentions = |name: &str| contains(&said, &words(name));
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
    if let Some(slug) = points_at(lesson, context) {
        return Some(format!("it only points at skill {slug}"));
    }
    let body = words(&lesson.body);
    let repeats = |known: &&KnownSkill| known.expert.as_ref().is_some_and(|text| is_same(&body, &words(text)));
    if let Some(known) = context.skills.iter().find(repeats) {
        return Some(format!("it says what skill {} says", known.slug));
    }
    says_nothing_new(&said, context.role).then(|| "it says nothing that the role does not say".to_owned())
}

/// The skill that a lesson sends its reader to, where it does nothing else: no sentence names a tool that does the work, or
/// says anything without naming a skill.
fn points_at<'a>(lesson: &SynthesizedSkill, context: &LessonContext<'a>) -> Option<&'a Slug> {
    let others = || context.skills.iter().map(|known| &known.slug).filter(|slug| **slug != lesson.slug);
    let worked = |said: &[String]| {
        let tools = context.tools.iter().filter(|tool| !LOOKUPS.contains(&tool.as_str()));
        tools.into_iter().any(|tool: &String| contains(said, &words(tool)))
    };
    let mut pointed = None;
    for sentence in lesson.body.split(['.', ';', '\n', '!', '?']) {
        let said = words(sentence);
        let named = others().find(|slug| names(&said, slug));
        // The name of a skill often has that of a tool in it.
        if worked(&without(&said, named)) {
            return None;
        }
        let plain =
            |word: &String| is_stop_word(word) || word.len() <= 2 || POINTING.split(' ').any(|known| known == word);
        if named.is_none() && !said.iter().all(plain) {
            return None;
        }
        pointed = pointed.or(named);
    }
    pointed
}

/// Whether a sentence names a skill. A name of one plain word, such as `weather`, is a word as well: it names the
/// skill only beside the word skill.
fn names(said: &[String], slug: &Slug) -> bool {
    let name = words(slug.as_str());
    match name.as_slice() {
        [one] => said.windows(2).any(|pair| pair.contains(one) && pair.iter().any(|word| word.starts_with("skill"))),
        name => contains(said, name),
    }
}

/// A sentence without the name of a skill.
fn without(said: &[String], slug: Option<&Slug>) -> Vec<String> {
    let name = slug.map(|slug| words(slug.as_str())).unwrap_or_default();
    let at = said.windows(name.len().max(1)).position(|window| window == name).unwrap_or(said.len());
    said.iter().take(at).chain(said.iter().skip(at + name.len())).cloned().collect()
}

fn contains(said: &[String], name: &[String]) -> bool {
    !name.is_empty() && said.windows(name.len()).any(|window| window == name)
}

/// Whether a text is another one, but for a few words.
fn is_same(said: &[String], other: &[String]) -> bool {
    said == other || copied_part(said, other) > SAME_PART
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

    const EXPERT: &str = "Ask the cellar before the attic. Take the number of the box from the line that names the \
                          thing, and answer with that number and nothing else.";

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
        let skills = [("where-things-lie", Some(EXPERT)), ("weather", None), ("find-thing-fast", None)]
            .map(|(slug, expert)| KnownSkill { slug: slug.parse().unwrap(), expert: expert.map(str::to_owned) });
        objection(
            &lesson,
            &LessonContext {
                instructions: "You read how a task was solved and decide whether it taught a procedure worth keeping: steps in \
                order, which tool with which arguments.",
                role: "You find things. Look every thing up with a tool.",
                input: "Where is the lamp?",
                turns: &turns,
                tools: &tools,
                skills: &skills,
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

    #[test]
    fn a_lesson_that_only_points_at_another_skill_is_refused() {
        for (body, skill) in [
            ("Load skill where-things-lie.", "where-things-lie"),
            ("See where-things-lie. Then follow its steps.", "where-things-lie"),
            ("1. Use the where things lie procedure for every lamp.\n2. Answer.", "where-things-lie"),
            ("Load the skill weather before the answer.", "weather"),
            ("Load find-thing-fast.", "find-thing-fast"),
        ] {
            let why = judged("find-a-thing", "Finds a thing. Use when asked where a lamp stands.", body);
            assert_eq!(why, Some(format!("it only points at skill {skill}")), "{body}");
        }
        for body in [
            "Follow where-things-lie, but call find_thing with list cellar first.",
            "See where-things-lie. The attic never knows lamps.",
            "In bad weather the cellar floods, so take the number from the list.",
        ] {
            assert_eq!(judged("find-a-thing", "Finds a thing.", body), None, "{body}");
        }
    }

    #[test]
    fn a_lesson_that_repeats_the_skill_it_came_from_is_refused_under_any_name() {
        let nearly = EXPERT.replace("nothing else", "nothing more");
        for name in ["find-a-thing", "where-things-lie"] {
            let why = judged(name, "Finds a thing.", &nearly);
            assert_eq!(why.as_deref(), Some("it says what skill where-things-lie says"), "{name}");
        }
        let more = "Ask the cellar before the attic. Where it fails, call find_thing with the singular of the word.";
        assert_eq!(judged("find-a-thing", "Finds a thing.", more), None);
    }
}
