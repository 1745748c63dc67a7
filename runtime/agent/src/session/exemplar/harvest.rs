//! From the transcript of a task to a worked example.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;

use super::{EXAMPLE_BYTES, Example, ExampleCall, MOST_CALLS};
use crate::checks::{text_of, words};
use crate::memory::EvidenceStatus;
use crate::redact::redact;
use crate::session::Transcript;
use crate::session::grounding::{Ground, Grounding, unsupported};
use crate::session::reply::Edition;
use crate::skill::guard::{ObjectionWeight, objections};
use crate::text;
use crate::text::words::{is_stop_word, is_unspaced};

/// An answer in which so many words stand twice rambles.
const REPEATED_RUN: usize = 5;
/// The bytes of a question in which the words of an example are looked for.
const INPUT_BYTES: usize = 16 << 10;

/// How much of a task an example keeps.
#[derive(Debug, Clone, Copy)]
struct Room {
    calls: usize,
    /// The most bytes of one argument; a longer one is the matter of its task.
    argument_bytes: usize,
    question_chars: usize,
    result_chars: usize,
    /// Whether of a longer question the sentences stay that its calls took their values from; its beginning otherwise.
    excerpts: bool,
}

/// By the rules of transcripts up to the third edition.
const FIRST_ROOM: Room =
    Room { calls: 4, argument_bytes: 200, question_chars: 400, result_chars: 320, excerpts: false };
/// The most that is tried first; of a task with many calls less of each stays.
const ROOMS: [Room; 3] = [
    Room { calls: MOST_CALLS, argument_bytes: 600, question_chars: 400, result_chars: 320, excerpts: true },
    Room { calls: MOST_CALLS, argument_bytes: 600, question_chars: 300, result_chars: 140, excerpts: true },
    Room { calls: MOST_CALLS, argument_bytes: 600, question_chars: 200, result_chars: 70, excerpts: true },
];

/// Makes an example of a task that went well: the calls that went well, each once, with the lines of their results that
/// the answer or a later call used. None where the task has nothing to show, or more than an example holds.
pub fn harvest(transcript: &Transcript, role: &str) -> Option<Example> {
    match transcript.reading < Edition::Fourth {
        true => fitting(transcript, role, FIRST_ROOM),
        false => ROOMS.iter().find_map(|room| fitting(transcript, role, *room)),
    }
}

fn fitting(transcript: &Transcript, role: &str, room: Room) -> Option<Example> {
    let answer: Value = serde_json::from_str(transcript.stop.answer.as_deref()?).ok()?;
    let plain = |text: &str| plain(text, transcript.guarded);
    let mut calls: Vec<ExampleCall> = Vec::new();
    for turn in &transcript.turns {
        let (Some(call), Some(report)) = (&turn.call, &turn.report) else { continue };
        if report.status != EvidenceStatus::Ok {
            continue;
        }
        if call.args.values().any(|value| value.to_string().len() > room.argument_bytes) {
            return None;
        }
        let same = calls.iter().any(|known| known.tool == call.tool && known.args == call.args);
        if !same {
            let (tool, args) = (call.tool.clone(), call.args.clone());
            calls.push(ExampleCall { tool, args, result: report.text.clone() });
        }
    }
    let input = transcript.input.trim();
    let head = || plain(&text::head(input, room.question_chars));
    // What was asked, for telling what is new in results and answer.
    let asked = match room.excerpts {
        true => input.get(..input.floor_char_boundary(INPUT_BYTES)).unwrap_or(input).to_owned(),
        false => head(),
    };
    drop_unused(&mut calls, &asked, &answer);
    if calls.is_empty() || calls.len() > room.calls {
        return None;
    }
    let question = match room.excerpts {
        true => plain(&excerpt(&asked, &calls, room.question_chars)),
        false => head(),
    };
    // What a later call or the answer took from each result.
    for at in 0..calls.len() {
        let used: Vec<String> = calls
            .iter()
            .skip(at + 1)
            .map(|call| text_of(&Value::Object(call.args.clone())))
            .chain([text_of(&answer)])
            .flat_map(|text| words(&text))
            .collect();
        if let Some(call) = calls.get_mut(at) {
            call.result = plain(&matter(&call.result, &used, room.result_chars));
        }
    }
    let answer = short(answer, &calls, &asked, role);
    let example = Example { task: transcript.task.clone(), question, calls, answer };
    let written = serde_json::to_string(&example).ok()?;
    // A secret in an argument or an answer is not an example for anybody, and an order to the reader is not one either.
    (written.len() <= EXAMPLE_BYTES && redact(&written) == written && !(transcript.guarded && gives_orders(&example)))
        .then_some(example)
}

/// The characters on each side of a value that are kept of a long sentence.
const AROUND: usize = 70;

/// What a long question is kept as: the sentences that its calls took their values from, those that ask, the first and the
/// last. `…` stands for what was left out.
fn excerpt(input: &str, calls: &[ExampleCall], chars: usize) -> String {
    if input.chars().count() <= chars {
        return input.to_owned();
    }
    let values: Vec<String> = calls
        .iter()
        .flat_map(|call| call.args.values())
        .filter(|value| value.is_string() || value.is_number())
        .map(|value| text_of(value).trim().to_owned())
        .filter(|text| !text.is_empty() && text.chars().count() <= AROUND)
        .collect();
    let sentences = sentences(input);
    let mut ranked: Vec<(usize, usize, String)> = Vec::new();
    for (at, sentence) in sentences.iter().enumerate() {
        let held = values.iter().find_map(|value| stands_in(sentence, value));
        let rank = match held {
            Some(_) => 0,
            None if sentence.ends_with('?') => 1,
            None if at + 1 == sentences.len() => 2,
            None if at == 0 => 3,
            None => continue,
        };
        ranked.push((rank, at, around(sentence, held.unwrap_or(0..0))));
    }
    ranked.sort_by_key(|(rank, at, _)| (*rank, *at));
    let mut left = chars;
    let mut kept: Vec<(usize, String)> = Vec::new();
    for (_, at, text) in ranked {
        if let Some(rest) = left.checked_sub(text.chars().count() + 3) {
            left = rest;
            kept.push((at, text));
        }
    }
    if kept.is_empty() {
        return format!("{}…", text::head(input, chars));
    }
    kept.sort_unstable();
    let (mut short, mut next) = (String::new(), 0);
    for (at, text) in &kept {
        short.push_str(match () {
            () if *at > next => " … ",
            () if *at > 0 => " ",
            () => "",
        });
        short.push_str(text);
        next = at + 1;
    }
    if next < sentences.len() {
        short.push_str(" …");
    }
    short.trim().to_owned()
}

fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for line in text.lines() {
        let mut start = 0;
        let ends = line.match_indices(['.', '?', '!', '。', '？', '！']).map(|(at, mark)| at + mark.len());
        for end in ends.filter(|end| line.get(*end..).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))) {
            sentences.push(line.get(start..end).unwrap_or_default().trim());
            start = end;
        }
        sentences.push(line.get(start..).unwrap_or_default().trim());
    }
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

/// Where a value stands in a sentence as words of its own.
fn stands_in(sentence: &str, value: &str) -> Option<Range<usize>> {
    let lower = sentence.to_lowercase();
    // Where small letters are of another length, places would not be those of the sentence.
    let (text, value) = match lower.len() == sentence.len() {
        true => (lower.as_str(), value.to_lowercase()),
        false => (sentence, value.to_owned()),
    };
    let is_apart = |(at, found): &(usize, &str)| {
        let (before, behind) = (text.get(..*at), text.get(at + found.len()..));
        let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_unspaced(c));
        let begins_joined = found.chars().next().is_some_and(|c| c.is_alphanumeric() && !is_unspaced(c));
        let joins_before = begins_joined && joins(before.and_then(|text| text.chars().next_back()));
        let joins_behind = joins(behind.and_then(|text| text.chars().next()));
        !joins_before && !joins_behind
    };
    text.match_indices(value.as_str()).find(is_apart).map(|(at, found)| at..at + found.len())
}

/// A sentence, or of a long one what stands around a place in it.
fn around(sentence: &str, place: Range<usize>) -> String {
    if sentence.chars().count() <= 3 * AROUND {
        return sentence.to_owned();
    }
    let start = sentence.floor_char_boundary(place.start.saturating_sub(AROUND));
    let end = sentence.ceil_char_boundary((place.end + AROUND).min(sentence.len()));
    let (before, rest) = sentence.split_at(start);
    let (kept, behind) = rest.split_at(end - start);
    // Whole words, where there are blanks.
    let kept = match kept.find(char::is_whitespace) {
        Some(at) if !before.is_empty() && start + at < place.start => kept.get(at..).unwrap_or(kept),
        _ => kept,
    };
    let cut = kept.rfind(char::is_whitespace).filter(|at| *at + AROUND > kept.len());
    let kept = match cut {
        Some(at) if !behind.is_empty() => kept.get(..at).unwrap_or(kept),
        _ => kept,
    };
    let (open, close) = (if before.is_empty() { "" } else { "… " }, if behind.is_empty() { "" } else { " …" });
    format!("{open}{}{close}", kept.trim())
}

/// Whether a text of the example gives orders to its reader. The texts are looked at as they will be shown: in the file
/// they stand as quotations, which the guard of skills lets pass.
fn gives_orders(example: &Example) -> bool {
    let refuses = |text: &str| {
        MARKS.iter().any(|mark| text.contains(mark))
            || objections(text).iter().any(|found| found.weight == ObjectionWeight::Refusal)
    };
    let called = |call: &ExampleCall| refuses(&call.result) || refuses(&text_of(&Value::Object(call.args.clone())));
    refuses(&example.question) || example.calls.iter().any(called) || refuses(&text_of(&example.answer))
}

/// Whether every fact of an answer comes from a result: what is kept where nobody says whether a task went well.
pub fn is_grounded(transcript: &Transcript, role: &str) -> bool {
    let Some(answer) = &transcript.stop.answer else { return false };
    let ground = Ground { question: &transcript.input, role, examples: "", values: &[], has_schema: false };
    let results = || {
        transcript
            .turns
            .iter()
            .filter_map(|turn| turn.report.as_ref())
            .filter(|report| report.status == EvidenceStatus::Ok)
    };
    let value: Value = serde_json::from_str(answer).unwrap_or_default();
    let asked = words(&transcript.input);
    let says_more = words(&text_of(&value)).iter().any(|word| !asked.contains(word) && !is_stop_word(word));
    says_more
        && unsupported(answer, &ground, results().map(|report| report.text.as_str()), Grounding::Strict).is_empty()
}

/// Leaves out calls whose results neither a later call nor the answer used, as long as one is left.
fn drop_unused(calls: &mut Vec<ExampleCall>, question: &str, answer: &Value) {
    let asked = words(question);
    let mut at = calls.len();
    while at > 0 {
        at -= 1;
        let later: Vec<String> = calls
            .iter()
            .skip(at + 1)
            .map(|call| text_of(&Value::Object(call.args.clone())))
            .chain([text_of(answer)])
            .flat_map(|text| words(&text))
            .filter(|word| !asked.contains(word) && !is_stop_word(word))
            .collect();
        let Some(call) = calls.get(at) else { continue };
        let told = words(&call.result);
        let elsewhere = |word: &String| {
            calls.iter().enumerate().any(|(other, call)| other != at && words(&call.result).contains(word))
        };
        let is_used = later.iter().any(|word| told.contains(word) && !elsewhere(word));
        if !is_used && calls.len() > 1 && later.iter().any(elsewhere) {
            calls.remove(at);
        }
    }
}

/// The lines of a result that say what was used of it; its beginning where no line does.
fn matter(result: &str, used: &[String], most: usize) -> String {
    let telling = |word: &&String| !is_stop_word(word);
    let used: Vec<&String> = used.iter().filter(telling).collect();
    let mut kept = String::new();
    for line in result.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let said = words(line);
        if used.iter().any(|word| said.contains(word)) && kept.len() + line.len() < most {
            if !kept.is_empty() {
                kept.push('\n');
            }
            kept.push_str(line);
        }
    }
    match kept.is_empty() {
        true => text::head(result.trim(), most),
        false => kept,
    }
}

/// The answer, cut to what it shares with the results where it is one text that rambles: what is shown is imitated, and of a
/// rambling answer a small model imitates the rambling.
fn short(answer: Value, calls: &[ExampleCall], question: &str, role: &str) -> Value {
    let Value::Object(mut fields) = answer else { return answer };
    let only = match fields.iter().next() {
        Some((name, Value::String(text))) if fields.len() == 1 => (name.clone(), text.clone()),
        _ => return Value::Object(fields),
    };
    let (name, text) = only;
    let known: Vec<String> =
        calls.iter().flat_map(|call| words(&call.result)).chain(words(question)).chain(words(role)).collect();
    // The longest run of words that results, question or role have.
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let is_known = |token: &&str| {
        let said = words(token);
        !said.is_empty() && said.iter().all(|word| known.contains(word))
    };
    if tokens.len() <= EXAMPLE_BYTES / 4 && repeats_itself(&text) {
        let told = |word: &String| calls.iter().any(|call| words(&call.result).contains(word));
        let asked = words(question);
        let cut = shortest_run(&tokens, |word| told(word) && !asked.contains(word) && !is_stop_word(word));
        if let Some(cut) = cut {
            fields.insert(name, Value::String(trimmed(&cut)));
        }
        return Value::Object(fields);
    }
    if tokens.iter().all(&is_known) {
        return Value::Object(fields);
    }
    let (mut best, mut start) = (0..0, 0);
    for at in 0..=tokens.len() {
        if !tokens.get(at).is_some_and(is_known) {
            if at - start > best.len() {
                best = start..at;
            }
            start = at + 1;
        }
    }
    let told: Vec<String> =
        calls.iter().flat_map(|call| words(&call.result)).filter(|word| !is_stop_word(word)).collect();
    let kept = tokens.get(best).unwrap_or_default().join(" ");
    let asked = words(question);
    // A piece that only repeats the question says nothing.
    let says = words(&kept).iter().any(|word| told.contains(word) && !asked.contains(word));
    let whole = words(&text).iter().filter(|word| told.contains(word) && !asked.contains(word)).count();
    let part = words(&kept).iter().filter(|word| told.contains(word) && !asked.contains(word)).count();
    if says && part == whole {
        fields.insert(name, Value::String(trimmed(&kept)));
    }
    Value::Object(fields)
}

fn trimmed(text: &str) -> String {
    text.trim_matches(|c: char| matches!(c, '.' | ',' | ';' | ':')).to_owned()
}

/// Whether some words stand in a text twice, in a row each time.
fn repeats_itself(text: &str) -> bool {
    let said = words(text);
    let mut seen = BTreeSet::new();
    said.windows(REPEATED_RUN).any(|run| !seen.insert(run))
}

/// The shortest run of a text that has every word which says something; none where no word does.
fn shortest_run(tokens: &[&str], says: impl Fn(&String) -> bool) -> Option<String> {
    let telling: Vec<Vec<String>> =
        tokens.iter().map(|token| words(token).into_iter().filter(&says).collect()).collect();
    let all: BTreeSet<&String> = telling.iter().flatten().collect();
    let has_all = |run: &[Vec<String>]| run.iter().flatten().collect::<BTreeSet<_>>() == all;
    let length = (1..=tokens.len()).find(|length| telling.windows(*length).any(has_all))?;
    let start = telling.windows(length).position(has_all)?;
    (!all.is_empty()).then(|| tokens.get(start..start + length).unwrap_or_default().join(" "))
}

/// Marks of chat formats. A blank behind the first character makes plain text of them.
const MARKS: [&str; 9] =
    ["<|", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<start_of_turn>", "<end_of_turn>", "<s>", "</s>"];

/// A text without what could be taken for a message of the loop, a piece of an example or a mark of a chat format.
fn plain(text: &str, guarded: bool) -> String {
    let mut text = text
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect::<String>()
        .replace("[result of", "(result of")
        .replace("```", "'''");
    for mark in if guarded { &MARKS[..] } else { &MARKS[..1] } {
        let (first, rest) = mark.split_at(1);
        text = text.replace(mark, &format!("{first} {rest}"));
    }
    let poses = |line: &str| {
        let line = line.trim_start();
        line.starts_with("Question:") || line.starts_with('{') && line.contains("\"tool\"")
    };
    match guarded && text.lines().any(poses) {
        true => text
            .lines()
            .map(|line| if poses(line) { format!("> {line}") } else { line.to_owned() })
            .collect::<Vec<_>>()
            .join("\n"),
        false => text,
    }
}

#[cfg(test)]
mod tests;
