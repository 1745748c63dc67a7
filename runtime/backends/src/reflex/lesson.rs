//! What a hard task taught, as a procedure: the calls in their order, and the patterns they were about.

use serde_json::{Value, json};

use herm_agent::backend::{CompletionRequest, ToolPurpose};

use super::report;
use super::talk::{self, Skill, Step, is_name, skill_lines};
use crate::skill::PatternSeverity as Severity;

/// How many patterns a procedure is about.
const PATTERNS: usize = 2;
/// The longest name of a skill.
const NAME_CHARS: usize = 64;
const DESCRIPTION_CHARS: usize = 400;

/// Decides what is kept of a task, from its calls and from the skills that the question lists.
pub(super) fn write(ask: &CompletionRequest) -> Value {
    let question = ask.messages.last().map_or("", |message| &*message.content);
    let (listing, _) = question.split_once("\n# Task\n").unwrap_or((question, ""));
    let mut done = talk::steps(ask);
    done.retain(|step| is_name(step.tool));
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

/// The worst patterns that hit, by name.
fn patterns<'a>(done: &[Step<'a>]) -> Vec<&'a str> {
    let mut found: Vec<(Severity, &'a str)> = Vec::new();
    for hit in report::hits(done) {
        if !found.iter().any(|(_, pattern)| *pattern == hit.pattern) {
            found.push((hit.severity, &hit.pattern));
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

fn description(patterns: &[&str], done: &[Step<'_>]) -> String {
    let scanner = done.iter().find(|step| step.hits().is_some()).map_or("a scan", |step| step.tool);
    let mut text = format!("Use when {scanner} hits {}.", patterns.join(" and "));
    for pattern in patterns {
        let mut notes = done.iter().filter_map(Step::notes).flatten();
        let told = notes.find(|note| note.pattern == *pattern && note.description.ends_with('.'));
        if let Some(note) = told.filter(|note| text.len() + note.description.len() < DESCRIPTION_CHARS) {
            text.push(' ');
            text.push_str(&note.description);
        }
    }
    text
}

fn body(patterns: &[&str], done: &[Step<'_>]) -> String {
    let names = patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(" and ");
    let mut steps: Vec<String> = Vec::new();
    for call in done.iter().filter(|call| call.is_ok()) {
        let tool = call.tool;
        let step = match call.purpose {
            Some(ToolPurpose::Outlines) => format!("Call `{tool}` to see what stands where."),
            Some(ToolPurpose::Scans) => {
                format!("Call `{tool}` and take the hits by pattern, worst first. Here they were of {names}.")
            }
            Some(ToolPurpose::ExplainsPatterns) => {
                format!("Call `{tool}` with `name` for {names}, and read how to confirm each.")
            }
            Some(ToolPurpose::LoadsSkill) => match call.arg("name").filter(|name| is_name(name)) {
                Some(name) => format!("Call `{tool}` for `{name}` and follow it."),
                None => format!("Call `{tool}` for the procedure that fits."),
            },
            Some(ToolPurpose::Recalls) => {
                format!("Call `{tool}` with the names in the input and the worst pattern.")
            }
            _ => format!("Call `{tool}`."),
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
    let failed: Vec<&str> = done.iter().filter(|call| !call.is_ok()).map(|call| call.tool).collect();
    if !failed.is_empty() {
        text.push_str(&format!("\nDid not work, and was done without: `{}`.\n", failed.join("`, `")));
    }
    text
}
