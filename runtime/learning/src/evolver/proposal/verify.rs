//! Judges a proposal that was read from somewhere. It may be forged or broken: whatever is not of the
//! form expected fails its check, with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::{ActionKind, MAX_GROUNDING_IDS, SCHEMA_VERSION};
use crate::ids::{Digest, Slug};
use crate::text;

/// Words of which no action may have one.
const DESTRUCTIVE: [&str; 6] = ["delete", "remove", "archive", "rename", "merge", "prune"];
/// What such a word may end in, instead of its last `e`.
const ENDINGS: [&str; 10] = ["e", "es", "ed", "er", "ers", "ing", "al", "als", "ion", "ions"];
const MAX_ACTIONS: usize = 100;
/// The longest kind or description, in bytes.
const MAX_ACTION_BYTES: usize = 4_000;

/// What is true now, to judge a proposal by.
pub struct Facts<'a> {
    /// The skill that was asked about.
    pub skill: Slug,
    /// How many events there are of it.
    pub events: u64,
    /// Whether there is evidence of that number about that skill.
    pub known_ids: &'a dyn Fn(i64) -> bool,
    /// The digest of the skill's text; none where there is no such skill.
    pub current_digest: Option<Digest>,
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Facts");
        shown.field("skill", &self.skill).field("events", &self.events).finish_non_exhaustive()
    }
}

/// Whether a proposal holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProposalVerdict {
    /// The form of this document.
    pub schema_version: &'static str,
    /// Whether every check passed.
    pub passed: bool,
    /// The checks by name.
    pub checks: BTreeMap<&'static str, bool>,
    /// Why those that failed did.
    pub failures: Vec<String>,
    /// What a pass means.
    pub policy: &'static str,
}

const POLICY: &str = "a proposal that passes may be read by a person; it applies nothing by itself";

/// Judges a proposal against what is true now; every check runs, and a failed one adds a line to `failures`.
pub fn verify(proposal: &Value, facts: &Facts<'_>) -> ProposalVerdict {
    let results = [
        ("schema_version", schema(proposal)),
        ("dry_run", flag(proposal, "dry_run", true)),
        ("requires_human_approval", flag(proposal, "requires_human_approval", true)),
        ("mutation_forbidden", flag(proposal, "mutation_allowed", false)),
        ("skill_matches", skill(proposal, facts)),
        ("grounded", grounded(proposal, facts)),
        ("grounding_ids_exist", ids(proposal, facts)),
        ("digest_current", digest(proposal, facts)),
        ("actions_known", actions(proposal).and_then(|actions| known(&actions))),
        ("no_destructive_action", actions(proposal).and_then(|actions| gentle(&actions))),
    ];
    let checks = results.iter().map(|(name, result)| (*name, result.is_ok())).collect();
    let mut failures: Vec<String> = results.into_iter().filter_map(|(_, result)| result.err()).collect();
    // Two checks may fail for the same reason.
    failures.dedup();
    ProposalVerdict { schema_version: SCHEMA_VERSION, passed: failures.is_empty(), checks, failures, policy: POLICY }
}

/// A value as it is shown in a reason.
fn shown(value: Option<&Value>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(Value::String(text)) => format!("{:?}", text::line(text, 60)),
        Some(Value::Array(_)) => "a list".to_owned(),
        Some(Value::Object(_)) => "an object".to_owned(),
        Some(plain) => plain.to_string(),
    }
}

fn schema(proposal: &Value) -> Result<(), String> {
    if !proposal.is_object() {
        return Err(format!("the proposal is not a JSON object but {}", shown(Some(proposal))));
    }
    let version = proposal.get("schema_version");
    if version.and_then(Value::as_str) == Some(SCHEMA_VERSION) {
        return Ok(());
    }
    Err(format!("schema_version is {} and must be {SCHEMA_VERSION:?}", shown(version)))
}

fn flag(proposal: &Value, name: &str, expected: bool) -> Result<(), String> {
    let found = proposal.get(name);
    if found == Some(&Value::Bool(expected)) {
        return Ok(());
    }
    Err(format!("{name} is {} and must be {expected}", shown(found)))
}

fn skill(proposal: &Value, facts: &Facts<'_>) -> Result<(), String> {
    let found = proposal.get("skill_name");
    if found.and_then(Value::as_str) == Some(facts.skill.as_str()) {
        return Ok(());
    }
    Err(format!("skill_name is {} and must be \"{}\"", shown(found), facts.skill))
}

fn grounded(proposal: &Value, facts: &Facts<'_>) -> Result<(), String> {
    let found = proposal.get("grounding_event_count");
    match found.and_then(Value::as_u64) {
        None | Some(0) => Err(format!("grounding_event_count is {} and must be a number above 0", shown(found))),
        Some(_) if facts.events == 0 => Err(format!("there is no evidence of {} in the window", facts.skill)),
        Some(_) => Ok(()),
    }
}

fn ids(proposal: &Value, facts: &Facts<'_>) -> Result<(), String> {
    let found = proposal.get("grounding_event_ids");
    let Some(list) = found.and_then(Value::as_array) else {
        return Err(format!("grounding_event_ids is {} and must be a list of numbers", shown(found)));
    };
    let count = proposal.get("grounding_event_count").and_then(Value::as_u64).unwrap_or(0);
    let expected = usize::try_from(count).unwrap_or(usize::MAX).min(MAX_GROUNDING_IDS);
    if list.is_empty() || list.len() != expected {
        return Err(format!("grounding_event_ids names {} events and must name {expected}", list.len()));
    }
    let mut seen = BTreeSet::new();
    for id in list {
        let Some(number) = id.as_i64() else {
            return Err(format!("grounding_event_ids has {}, which is no number of evidence", shown(Some(id))));
        };
        if !seen.insert(number) {
            return Err(format!("grounding_event_ids names {number} twice"));
        }
        if !(facts.known_ids)(number) {
            return Err(format!("there is no evidence {number} of {}", facts.skill));
        }
    }
    Ok(())
}

fn digest(proposal: &Value, facts: &Facts<'_>) -> Result<(), String> {
    let found = proposal.get("skill_digest");
    let named = match found {
        Some(Value::Null) => None,
        Some(Value::String(text)) => match text.parse::<Digest>() {
            Ok(digest) => Some(digest),
            Err(_) => return Err(format!("skill_digest is {}, which is no digest", shown(found))),
        },
        _ => return Err(format!("skill_digest is {} and must be a digest or null", shown(found))),
    };
    if named == facts.current_digest {
        return Ok(());
    }
    Err(format!("the text of {} is no longer the one that the proposal was made for", facts.skill))
}

/// The kind and the description of each action; an error says which one is not well formed.
fn actions(proposal: &Value) -> Result<Vec<(&str, &str)>, String> {
    let found = proposal.get("proposed_actions");
    let Some(list) = found.and_then(Value::as_array) else {
        return Err(format!("proposed_actions is {} and must be a list", shown(found)));
    };
    if list.is_empty() || list.len() > MAX_ACTIONS {
        return Err(format!("proposed_actions has {} entries and must have 1 to {MAX_ACTIONS}", list.len()));
    }
    let text = |action: &'_ Value, name: &str| -> Result<(), String> {
        match action.get(name).and_then(Value::as_str) {
            Some(text) if text.len() <= MAX_ACTION_BYTES => Ok(()),
            Some(_) => Err(format!("the {name} of a proposed action is longer than {MAX_ACTION_BYTES} bytes")),
            None => Err(format!("the {name} of a proposed action is {}, not a text", shown(action.get(name)))),
        }
    };
    let mut actions = Vec::with_capacity(list.len());
    for action in list {
        text(action, "kind")?;
        text(action, "description")?;
        let get = |name: &str| action.get(name).and_then(Value::as_str).unwrap_or_default();
        actions.push((get("kind"), get("description")));
    }
    Ok(actions)
}

fn known(actions: &[(&str, &str)]) -> Result<(), String> {
    let is_known = |kind: &str| ActionKind::ALL.iter().any(|known| known.name() == kind);
    match actions.iter().find(|(kind, _)| !is_known(kind)) {
        None => Ok(()),
        Some((kind, _)) => Err(format!("{:?} is not a kind of action", text::line(kind, 60))),
    }
}

fn gentle(actions: &[(&str, &str)]) -> Result<(), String> {
    let texts = actions.iter().flat_map(|(kind, description)| [kind, description]);
    match texts.filter_map(|text| destructive(text)).next() {
        None => Ok(()),
        Some(word) => Err(format!("a proposed action says {word:?}; a proposal never takes anything away")),
    }
}

/// The first word of a text that would take something away.
fn destructive(text: &str) -> Option<String> {
    let plain: String = text.chars().filter_map(plain).collect();
    let runs = plain.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty());
    // A run as a whole, and the words within it.
    let words = runs.flat_map(|run| std::iter::once(run.to_owned()).chain(humps(run)));
    words.map(|word| word.to_lowercase()).find(|word| is_destructive(word))
}

fn is_destructive(word: &str) -> bool {
    DESTRUCTIVE.iter().any(|token| {
        let stem = token.strip_suffix('e').unwrap_or(token);
        word.strip_prefix(stem).is_some_and(|rest| ENDINGS.contains(&rest))
    })
}

/// A character as it reads: full-width forms are their plain ones, and what cannot be seen is not there.
fn plain(c: char) -> Option<char> {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0),
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => None,
        _ => Some(c),
    }
}

/// The words of `camelCase`, `HTTPServer` and `word2word`.
fn humps(run: &str) -> Vec<String> {
    let chars: Vec<char> = run.chars().collect();
    let mut words = vec![String::new()];
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at));
        let after = chars.get(at + 1);
        let begins = before.is_some_and(|before| {
            (c.is_uppercase() && !before.is_uppercase())
                || (c.is_uppercase() && after.is_some_and(|after| after.is_lowercase()))
                || (c.is_numeric() != before.is_numeric())
        });
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(*c);
        }
    }
    words
}
