//! From the transcript of a task to a worked example.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{EXAMPLE_BYTES, Example, ExampleCall, MOST_CALLS};
use crate::checks::{text_of, words};
use crate::memory::EvidenceStatus;
use crate::redact::redact;
use crate::session::Transcript;
use crate::session::grounding::{Ground, Grounding, unsupported};
use crate::skill::guard::{ObjectionWeight, objections};
use crate::text;
use crate::text::words::is_stop_word;

/// The most characters of a question that an example keeps: the kind of task shows in its beginning.
const QUESTION_CHARS: usize = 400;
/// The most characters of a result that an example keeps.
const RESULT_CHARS: usize = 320;
/// An answer in which so many words stand twice rambles.
const REPEATED_RUN: usize = 5;
/// The most bytes of one argument; a longer one is the matter of its task.
const ARGUMENT_BYTES: usize = 200;

/// Makes an example of a task that went well: the calls that went well, each once, with the lines of their results that
/// the answer or a later call used. None where the task has nothing to show, or more than an example holds.
pub fn harvest(transcript: &Transcript, role: &str) -> Option<Example> {
    let answer: Value = serde_json::from_str(transcript.stop.answer.as_deref()?).ok()?;
    let plain = |text: &str| plain(text, transcript.guarded);
    let question = plain(&text::head(transcript.input.trim(), QUESTION_CHARS));
    let mut calls: Vec<ExampleCall> = Vec::new();
    for turn in &transcript.turns {
        let (Some(call), Some(report)) = (&turn.call, &turn.report) else { continue };
        if report.status != EvidenceStatus::Ok {
            continue;
        }
        if call.args.values().any(|value| value.to_string().len() > ARGUMENT_BYTES) {
            return None;
        }
        let same = calls.iter().any(|known| known.tool == call.tool && known.args == call.args);
        if !same {
            let (tool, args) = (call.tool.clone(), call.args.clone());
            calls.push(ExampleCall { tool, args, result: report.text.clone() });
        }
    }
    drop_unused(&mut calls, &question, &answer);
    if calls.is_empty() || calls.len() > MOST_CALLS {
        return None;
    }
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
            call.result = plain(&matter(&call.result, &used));
        }
    }
    let answer = short(answer, &calls, &question, role);
    let example = Example { task: transcript.task.clone(), question, calls, answer };
    let written = serde_json::to_string(&example).ok()?;
    // A secret in an argument or an answer is no example for anybody, and an order to whoever reads it is none.
    (written.len() <= EXAMPLE_BYTES && redact(&written) == written && !(transcript.guarded && gives_orders(&example)))
        .then_some(example)
}

/// Whether a text of the example speaks to whoever reads it. The texts are looked at as they will be shown: in the file
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
    let ground = Ground { question: &transcript.input, role, examples: "", has_schema: false };
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
fn matter(result: &str, used: &[String]) -> String {
    let telling = |word: &&String| !is_stop_word(word);
    let used: Vec<&String> = used.iter().filter(telling).collect();
    let mut kept = String::new();
    for line in result.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let said = words(line);
        if used.iter().any(|word| said.contains(word)) && kept.len() + line.len() < RESULT_CHARS {
            if !kept.is_empty() {
                kept.push('\n');
            }
            kept.push_str(line);
        }
    }
    match kept.is_empty() {
        true => text::head(result.trim(), RESULT_CHARS),
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
