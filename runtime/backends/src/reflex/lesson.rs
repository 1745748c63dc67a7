//! What a hard task taught, as a procedure: the calls in their order, and the patterns they were about.

use serde_json::{Map, Value, json};

use super::hits::{self, is_name};
use super::notes;
use super::talk::{Skill, skill_lines};
use crate::skill::PatternSeverity as Severity;

/// How many patterns a procedure is about.
const PATTERNS: usize = 2;
/// The longest name of a skill.
const NAME_CHARS: usize = 64;
const DESCRIPTION_CHARS: usize = 400;

/// A call as the record tells it.
struct Done<'a> {
    tool: &'a str,
    args: Map<String, Value>,
    worked: bool,
    result: &'a str,
}

impl Done<'_> {
    fn arg(&self, name: &str) -> Option<&str> {
        self.args.get(name).and_then(Value::as_str)
    }
}

/// Decides what is kept of a task, from the question that tells it.
pub(super) fn write(question: &str) -> Value {
    // The task's text stands above this heading, so the last one is the runtime's; the answer is one
    // line of JSON, so the last of those is too.
    let (above, below) = question.rsplit_once("\n# What was done\n").unwrap_or((question, ""));
    let (record, _) = below.rsplit_once("\n# Final answer\n").unwrap_or((below, ""));
    let (listing, _) = above.split_once("\n# Task\n").unwrap_or((above, ""));
    let done = calls(record);
    let patterns = patterns(&done);
    if patterns.is_empty() {
        return none("no pattern hit: there is no procedure to write down");
    }
    let name = name(&patterns);
    let skills = skill_lines(listing);
    if skills.iter().any(|skill| skill.name == name) {
        return none(&format!("the skill {name} says so already"));
    }
    if let Some(skill) = skills.iter().find(|skill| covers(skill, &patterns)) {
        return none(&format!("the skill {} covers these patterns", skill.name));
    }
    let archived = listing.lines().find_map(|line| line.strip_prefix("Archived, and brought back by an update: "));
    let is_archived = archived.is_some_and(|names| names.split(", ").any(|archived| archived == name));
    let action = if is_archived { "update" } else { "create" };
    let description = description(&patterns, &done);
    json!({ "action": action, "name": name, "description": description, "body": body(&patterns, &done) })
}

fn none(reason: &str) -> Value {
    json!({ "action": "none", "reason": reason })
}

/// `2. scan {} → ok`, and what it returned below.
fn calls(record: &str) -> Vec<Done<'_>> {
    let mut calls: Vec<Done<'_>> = Vec::new();
    let mut last = 0;
    let mut at = 0;
    let mut begun = 0;
    for line in record.split_inclusive('\n') {
        let start = at;
        at += line.len();
        // Numbers only grow; a line of a result that looks like a call seldom fits in.
        if let Some((number, call)) = call(line.trim_end()).filter(|(number, _)| *number > last) {
            if let Some(before) = calls.last_mut() {
                before.result = record.get(begun..start).unwrap_or_default();
            }
            (last, begun) = (number, at);
            calls.push(call);
        }
    }
    if let Some(before) = calls.last_mut() {
        before.result = record.get(begun..).unwrap_or_default();
    }
    calls
}

fn call(line: &str) -> Option<(usize, Done<'_>)> {
    let (number, rest) = line.split_once(". ")?;
    let (call, status) = rest.rsplit_once(" → ")?;
    let (tool, args) = call.split_once(' ')?;
    let worked = match status {
        "ok" => true,
        "failed" | "refused" => false,
        _ => return None,
    };
    let args = serde_json::from_str(args).unwrap_or_default();
    is_name(tool).then_some((number.parse().ok()?, Done { tool, args, worked, result: "" }))
}

/// The worst patterns that hit, by name.
fn patterns<'a>(done: &[Done<'a>]) -> Vec<&'a str> {
    let scans = done.iter().filter(|call| call.tool == "scan" && call.worked);
    let mut found: Vec<(Severity, &'a str)> = Vec::new();
    for hit in scans.flat_map(|call| hits::hits(call.result)) {
        if !found.iter().any(|(_, pattern)| *pattern == hit.pattern) {
            found.push((hit.severity, hit.pattern));
        }
    }
    found.sort_by_key(|(severity, _)| *severity);
    // By name, so that the same patterns give the same skill whichever was the first line.
    let mut patterns: Vec<&str> = found.into_iter().map(|(_, pattern)| pattern).take(PATTERNS).collect();
    patterns.sort_unstable();
    patterns
}

fn name(patterns: &[&str]) -> String {
    let mut name = format!("check-{}", patterns.join("-and-").replace('_', "-"));
    if name.len() > NAME_CHARS {
        name = format!("check-{}", patterns.first().unwrap_or(&"patterns").replace('_', "-"));
        name.truncate(NAME_CHARS);
    }
    name.trim_end_matches('-').to_owned()
}

/// Whether a skill names every word of the patterns.
fn covers(skill: &Skill<'_>, patterns: &[&str]) -> bool {
    let text = format!("{} {}", skill.name, skill.description).to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    patterns.iter().flat_map(|pattern| pattern.split(['-', '_'])).all(|word| words.contains(&word))
}

fn description(patterns: &[&str], done: &[Done<'_>]) -> String {
    let mut text = format!("Use when scan hits {}.", patterns.join(" and "));
    let searches = done.iter().filter(|call| call.tool == "pattern_search" && call.worked);
    let notes: Vec<notes::Note> = searches.flat_map(|call| notes::notes(call.result, call.arg("name"))).collect();
    for pattern in patterns {
        let told = notes.iter().find(|note| note.pattern == *pattern && note.description.ends_with('.'));
        if let Some(note) = told.filter(|note| text.len() + note.description.len() < DESCRIPTION_CHARS) {
            text.push(' ');
            text.push_str(&note.description);
        }
    }
    text
}

fn body(patterns: &[&str], done: &[Done<'_>]) -> String {
    let names = patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(" and ");
    let mut steps: Vec<String> = Vec::new();
    for call in done.iter().filter(|call| call.worked) {
        let step = match call.tool {
            "outline" => "Call `outline` to see what stands where.".to_owned(),
            "scan" => format!("Call `scan` and take the hits by pattern, worst first. Here they were of {names}."),
            "pattern_search" => {
                format!("Call `pattern_search` with `name` for {names}, and read how to confirm each.")
            }
            "skill_view" => match call.arg("name").filter(|name| is_name(name)) {
                Some(name) => format!("Call `skill_view` for `{name}` and follow it."),
                None => "Call `skill_view` for the procedure that fits.".to_owned(),
            },
            "recall" => "Call `recall` with the names in the input and the worst pattern.".to_owned(),
            tool => format!("Call `{tool}`."),
        };
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps.push("Read every line that hit, and those around it, before calling a match a finding.".to_owned());
    steps.push("Answer with one finding a pattern: its lines, what confirms it, and what to do.".to_owned());
    let mut text = format!("# Check {}\n\n", patterns.join(" and "));
    text.push_str("Written from the record of one task by reflex-1. No language model wrote it.\n\n## Steps\n\n");
    for (number, step) in (1..).zip(steps) {
        text.push_str(&format!("{number}. {step}\n"));
    }
    text.push_str(&format!(
        "\n## What is known\n\n{names}: their signals matched. A signal is a hint; no match was confirmed by eye.\n"
    ));
    let failed: Vec<&str> = done.iter().filter(|call| !call.worked).map(|call| call.tool).collect();
    if !failed.is_empty() {
        text.push_str(&format!("\nDid not work, and was done without: `{}`.\n", failed.join("`, `")));
    }
    text
}
