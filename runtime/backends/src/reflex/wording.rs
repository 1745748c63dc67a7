//! What there is to say, in sentences. Everything says plainly that it is a match of a signal.

use herm_agent::backend::{RecalledLine, ToolPurpose};
use herm_brain::memory::{EvidenceStatus, MemorySource};
use herm_core::text::sentences;

use super::report::{Finding, Report};
use super::talk::{Step, is_name};
use crate::redact::redact;

const QUOTE_CHARS: usize = 160;
const QUOTE_WORDS: usize = 30;
const RESULT_CHARS: usize = 600;
const RECALL_CHARS: usize = 160;
/// How many findings the summary names, and how many lines a finding.
const NAMED_FINDINGS: usize = 4;
const NAMED_LINES: usize = 12;
/// What is said of a result that came as text alone.
const LACKS_DATA: &str = "its result came as text alone, and no language model read it";

/// The first sentences of a text, at most `most`.
fn first(text: &str, most: usize) -> String {
    let sentences = sentences(text);
    sentences.get(..most).unwrap_or(&sentences).join(" ")
}

/// A text on one line, cut at `most` characters, without secrets.
pub(super) fn short(text: &str, most: usize) -> String {
    let clean = redact(text.get(..8 * RESULT_CHARS).unwrap_or(text));
    let mut words = String::new();
    for word in clean.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > 4 * most {
            break;
        }
    }
    match words.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()),
        None => words,
    }
}

pub(super) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `line 68`, `lines 68 and 71`, `lines 1, 2, 3 and 9 more`.
pub(super) fn place(finding: &Finding<'_>) -> String {
    let shown: Vec<String> = finding.lines.iter().take(NAMED_LINES).map(u64::to_string).collect();
    match (shown.as_slice(), finding.total.saturating_sub(shown.len() as u64)) {
        ([only], 0) => format!("line {only}"),
        ([all @ .., last], 0) => format!("lines {} and {last}", all.join(", ")),
        (all, more) => format!("lines {} and {more} more", all.join(", ")),
    }
}

/// What a line says, where it may be repeated.
pub(super) fn quote(report: &Report<'_>, line: u64) -> Option<String> {
    let text = report.lines.get(&line).filter(|_| report.may_quote(line))?;
    Some(short(text, QUOTE_CHARS)).filter(|quote| !quote.is_empty())
}

/// At most thirty exact words of a finding's first line: those of the sentence that has most
/// in common with the pattern.
pub(super) fn exact_quote(report: &Report<'_>, finding: &Finding<'_>, line: u64) -> Option<String> {
    let text = report.lines.get(&line).filter(|_| report.may_quote(line))?;
    let description = report.note(finding.pattern).map_or("", |note| &note.description).to_lowercase();
    let fits = |sentence: &&&str| {
        let words = sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3);
        let known = |word: &str| finding.pattern.contains(word) || description.contains(word);
        words.filter(|word| known(&word.to_lowercase())).count()
    };
    // Of equals the first: `max_by_key` would take the last.
    let sentences = sentences(text);
    let best = sentences.iter().rev().max_by_key(fits)?;
    Some(first_words(best, QUOTE_WORDS).to_owned()).filter(|quote| redact(quote) == *quote)
}

/// The beginning of a text, `most` words long, exactly as it stands.
fn first_words(text: &str, most: usize) -> &str {
    let mut words = 0;
    let mut in_word = false;
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            in_word = false;
        } else if !in_word {
            in_word = true;
            words += 1;
            if words > most {
                return text.get(..at).unwrap_or(text).trim_end();
            }
        }
    }
    text.trim_end()
}

/// A finding in a few words, with the function it is in.
pub(super) fn title(report: &Report<'_>, finding: &Finding<'_>) -> String {
    let name = match report.note(finding.pattern).and_then(|note| note.title.clone()) {
        Some(title) => title,
        None => {
            let words = finding.pattern.replace(['-', '_'], " ");
            let mut letters = words.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
        }
    };
    let mut functions: Vec<&str> = finding.lines.iter().filter_map(|line| report.outline.function(*line)).collect();
    functions.dedup();
    match functions.as_slice() {
        [] => name,
        [one] => format!("{name} in `{one}`"),
        [one, other] => format!("{name} in `{one}` and `{other}`"),
        [one, more @ ..] => format!("{name} in `{one}` and {} more places", more.len()),
    }
}

/// Where it is, and what its first line says.
fn shown(report: &Report<'_>, finding: &Finding<'_>) -> String {
    let line = finding.line();
    let place = place(finding);
    let place = format!("L{}", place.strip_prefix('l').unwrap_or(&place));
    match quote(report, line) {
        Some(quote) if finding.lines.len() > 1 => format!("{place}; line {line} reads `{quote}`"),
        Some(quote) => format!("{place} reads `{quote}`"),
        None if !report.may_quote(line) => format!("{place}, not quoted as it may hold a secret"),
        None => place,
    }
}

/// What the lines show, and that nothing else is claimed.
pub(super) fn evidence(report: &Report<'_>, finding: &Finding<'_>) -> String {
    let shown = shown(report, finding);
    format!("{shown}: a match of the pattern {}. Nothing is inferred from it.", finding.pattern)
}

/// What the pattern means, and what to ask before believing it.
pub(super) fn meaning(report: &Report<'_>, finding: &Finding<'_>) -> String {
    let Some(note) = report.note(finding.pattern) else {
        return "The pattern's text was not read in this task.".to_owned();
    };
    let what = if note.what.is_empty() { first(&note.description, 2) } else { first(&note.what, 2) };
    [what, first(&note.why, 1)].join(" ").trim().to_owned()
}

/// What is wrong, where, and what would confirm it.
pub(super) fn explanation(report: &Report<'_>, finding: &Finding<'_>) -> String {
    // Where no fix is known, the questions stand in its place.
    let note = report.note(finding.pattern).filter(|note| !note.fix.is_empty());
    let ask = note.and_then(|note| note.confirm.first()).map(|question| first(question, 2));
    let ask = ask.map(|question| format!(" To confirm it, ask first: {question}")).unwrap_or_default();
    let (shown, meaning) = (shown(report, finding), meaning(report, finding));
    format!("{shown}: a match of the pattern {}, to be confirmed. {meaning}{ask}", finding.pattern)
}

/// What to do about a finding, a sentence each.
pub(super) fn steps(report: &Report<'_>, finding: &Finding<'_>) -> Vec<String> {
    let note = report.note(finding.pattern);
    let fix = note.map_or("", |note| &note.fix);
    if !fix.is_empty() {
        return sentences(fix).into_iter().map(str::to_owned).collect();
    }
    let questions = note.into_iter().flat_map(|note| note.confirm.iter().take(2));
    let begins = ["Confirm it first:", "Then:"];
    let mut steps: Vec<String> =
        begins.iter().zip(questions).map(|(begin, question)| format!("{begin} {}", first(question, 2))).collect();
    steps.push(format!("What to do is in the pattern {}, which was not read in full.", finding.pattern));
    steps
}

/// A finding on one line.
pub(super) fn one_line(report: &Report<'_>, finding: &Finding<'_>) -> String {
    format!("{} ({}, {})", title(report, finding), finding.severity.name(), place(finding))
}

/// The whole in a few words.
pub(super) fn headline(report: &Report<'_>) -> String {
    let patterns = (report.findings.len() + report.left_out) as u64;
    if patterns == 0 {
        return "No pattern matched".to_owned();
    }
    format!("Matches of {} to confirm", count(patterns, "pattern"))
}

/// The whole in a paragraph.
pub(super) fn summary(report: &Report<'_>) -> String {
    let size = report.outline.size().map(|size| format!(" ({size})")).unwrap_or_default();
    let scanned = report.talk.calls(ToolPurpose::Scans).find(|step| step.is_ok());
    let mut text = "No language model spoke. ".to_owned();
    if let Some(worst) = report.findings.first() {
        let all = (report.findings.len() + report.left_out) as u64;
        let named: Vec<String> =
            report.findings.iter().take(NAMED_FINDINGS).map(|finding| one_line(report, finding)).collect();
        let more = all.saturating_sub(named.len() as u64);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        text.push_str(&format!(
            "Signals of {} match {} of the input{size}; each is a hint that someone has to confirm by eye. \
             Worst first: {}{more}. Start at line {}.",
            count(all, "pattern"),
            count(report.hits(), "place"),
            named.join("; "),
            worst.line(),
        ));
    } else if report.left_out > 0 {
        text.push_str(&format!("{} matched, too many to list here.", count(report.left_out as u64, "pattern")));
    } else if let Some(step) = scanned.filter(|step| step.lacks_data()) {
        text.push_str(&format!("The input was scanned, but what {} found is not known: {LACKS_DATA}.", step.tool));
    } else if scanned.is_some() {
        text.push_str(&format!(
            "No signal of the pattern library matches the input{size}. That proves nothing: signals see one line at a \
             time, and no logic."
        ));
    } else {
        text.push_str("The input was not scanned for patterns.");
    }
    if let Some(time) = report.outline.span() {
        text.push_str(&format!(" {time}."));
    }
    let is_other =
        |step: &&Step<'_>| matches!(step.purpose, None | Some(ToolPurpose::Writes | ToolPurpose::ReachesOut));
    for step in report.talk.steps.iter().filter(|step| step.is_ok()).filter(is_other).take(2) {
        text.push_str(&format!(" {} returned: {}", step.tool, step.said.quote(RESULT_CHARS)));
    }
    text
}

/// What was really done, a line each.
pub(super) fn checked(report: &Report<'_>) -> Vec<String> {
    let mut checked = Vec::new();
    for step in report.talk.steps.iter().filter(|step| is_name(step.tool)) {
        let what = match (step.status, step.purpose) {
            (EvidenceStatus::Failed, _) => format!("failed: {}", step.said.quote(RECALL_CHARS)),
            (EvidenceStatus::Refused, _) => format!("was refused: {}", step.said.quote(RECALL_CHARS)),
            (_, Some(ToolPurpose::Outlines | ToolPurpose::Scans | ToolPurpose::ExplainsPatterns))
                if step.lacks_data() =>
            {
                LACKS_DATA.to_owned()
            }
            (_, Some(ToolPurpose::Outlines)) => {
                report.outline.size().into_iter().chain(report.outline.facts()).collect::<Vec<_>>().join("; ")
            }
            (_, Some(ToolPurpose::Scans)) if report.findings.is_empty() => step.said.quote(RECALL_CHARS),
            (_, Some(ToolPurpose::Scans)) => {
                let patterns = (report.findings.len() + report.left_out) as u64;
                format!("{} of {}, none confirmed by eye", count(report.hits(), "hit"), count(patterns, "pattern"))
            }
            (_, Some(ToolPurpose::ExplainsPatterns)) => match step.arg("name") {
                Some(name) => format!("the pattern {} was read in full", short(name, 64)),
                None => "the beginnings of the other patterns that hit were read".to_owned(),
            },
            (_, Some(ToolPurpose::LoadsSkill)) => {
                let name = short(step.arg("name").unwrap_or("a skill"), 64);
                format!("{name} was loaded; its steps take judgement and were not carried out")
            }
            _ if step.recalled().is_some_and(<[_]>::is_empty) => "nothing like it in earlier tasks".to_owned(),
            _ => step.said.quote(RECALL_CHARS),
        };
        checked.push(format!("{}: {what}", step.tool));
    }
    checked
}

/// What earlier tasks said.
pub(super) fn recalled(report: &Report<'_>) -> Vec<String> {
    let lines = report.talk.steps.iter().filter_map(Step::recalled).flatten();
    lines.take(5).map(|line| short(&dated(line), RECALL_CHARS)).collect()
}

fn dated(line: &RecalledLine) -> String {
    let source = match line.source {
        MemorySource::Message => "message",
        MemorySource::Fact => "fact",
        MemorySource::Task => "task",
    };
    format!("{} {source}: {}", line.date, line.text)
}

/// What was not done and cannot be known.
pub(super) fn limits(report: &Report<'_>) -> String {
    let mut text = "No language model read the input. Signals match single lines: they see no logic, no order of \
                    events and nothing that is missing, and what has no signal was not looked for. No match was \
                    confirmed by eye, nothing was run, and severities are those of the patterns, not of this case."
        .to_owned();
    if report.left_out > 0 {
        let left = count(report.left_out as u64, "pattern");
        text.push_str(&format!(" {left} more hit and had to be left out to keep the answer short."));
    }
    text
}
