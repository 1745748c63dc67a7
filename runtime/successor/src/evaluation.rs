//! The evaluation task: what a successor runs on both sides, what must hold, and what counts as better.
//! The format is described in `docs/reference/evaluation.md`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::ids::sha256;
use crate::measure::Metric;
use crate::task::{TaskLimits, TaskStatus};

/// The format this build reads.
pub const EVALUATION_SCHEMA: &str = "herm/evaluation@1";
/// The largest evaluation file.
const MAX_BYTES: usize = 4 << 20;
/// The most cases of one evaluation, repetitions included.
const MAX_CASES: u64 = 20_000;

/// The longest name of a part or a task: every sample has it.
const MAX_NAME: usize = 200;
/// The most bytes that the measurements may come to, at worst. The parent keeps them all, and an
/// audit reads them again.
const MAX_MEASUREMENTS: u64 = 120 << 20;
/// What one sample comes to at worst, and what one check of it beside its words.
const SAMPLE_BYTES: u64 = 1_200;
const CHECK_BYTES: u64 = 1_000;
/// So much of a text stands in the words of a check.
const QUOTED: usize = 120;

/// The most goals and guards of one evaluation, together: each is compared in every resample.
pub const MAX_CONDITIONS: usize = 64;

/// What a successor runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evaluation {
    /// The format, [`EVALUATION_SCHEMA`]; a file with any other is refused.
    pub schema: String,
    /// What it is about, in a line.
    pub title: String,
    /// Where generated data and resampling begin.
    #[serde(default = "one")]
    pub seed: u64,
    /// How often every case is run on each side.
    #[serde(default = "once")]
    pub repeat: u32,
    /// Who answers where a case brings no replies of its own.
    #[serde(default)]
    pub speaker: BackendChoice,
    /// The parts that are run, at least one; their names differ.
    pub parts: Vec<EvaluationPart>,
    /// What should get better. At least one must, for an approval.
    #[serde(default)]
    pub goals: Vec<Goal>,
    /// What must not get worse. That checks still pass is always one of them.
    #[serde(default)]
    pub guards: Vec<Guard>,
}

fn one() -> u64 {
    1
}

fn once() -> u32 {
    1
}

/// Who answers where a case brings no replies of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendChoice {
    /// The embedded backend, inside the sandbox: no model, no money.
    #[default]
    Reflex,
    /// The brain's own backend, through the broker, within the money budget.
    Brain,
}

/// One part of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum EvaluationPart {
    /// Tasks whose answers are checked.
    Suite {
        /// The name of the part; goals and guards refer to it.
        name: String,
        /// The tasks. Each starts from the same brain; nothing one of them does is seen by another.
        tasks: Vec<WrittenTask>,
    },
    /// The brain's own last tasks, from their receipts: the recorded replies where the conversation is
    /// unchanged, the speaker where it is not.
    Replay {
        /// The name of the part; goals and guards refer to it.
        name: String,
        /// How many of the newest tasks.
        last: u32,
    },
    /// Long generated sessions that do not fit the conversation: what is left of them?
    Compress {
        /// The name of the part; goals and guards refer to it.
        name: String,
        /// How many sessions are generated, at least one. Each is a case.
        sessions: u32,
        /// How many tool results each has: 1 to 7.
        #[serde(default = "seven")]
        results: u8,
        /// About how many bytes each result has.
        #[serde(default = "result_bytes")]
        result_bytes: usize,
        /// How many bytes the conversation may have.
        #[serde(default = "context_bytes")]
        context_bytes: usize,
    },
    /// Generated lives of skills, of which is known whether each is used again: what would the curator retire?
    Curate {
        /// The name of the part; goals and guards refer to it.
        name: String,
        /// How many lives are generated, at least one. Each is a case.
        lives: u32,
        /// How many skills each has: 1 to 1,000.
        #[serde(default = "forty")]
        skills: u32,
    },
    /// Many calls of one tool at once.
    Calls {
        /// The name of the part; goals and guards refer to it.
        name: String,
        /// The name of the tool that is called.
        tool: String,
        /// The arguments, the same for every call.
        args: Map<String, Value>,
        /// What the task's input is while it runs.
        #[serde(default)]
        input: String,
        /// How many calls in all: 1 to 100,000.
        calls: u32,
        /// How many at once.
        at_once: u32,
    },
    /// A command in a sandbox of its own, with the brain below `/work/brains`.
    /// Files that it leaves in `/work/artifacts` are kept.
    Command {
        /// The name of the part; goals and guards refer to it.
        name: String,
        /// The program and its arguments.
        argv: Vec<String>,
        /// The exit code that passes.
        #[serde(default)]
        exit: i32,
    },
}

fn seven() -> u8 {
    7
}

fn forty() -> u32 {
    40
}

fn result_bytes() -> usize {
    12_000
}

fn context_bytes() -> usize {
    24_000
}

impl EvaluationPart {
    /// The name that goals, guards and samples refer to the part by.
    pub fn name(&self) -> &str {
        match self {
            Self::Suite { name, .. }
            | Self::Replay { name, .. }
            | Self::Compress { name, .. }
            | Self::Curate { name, .. }
            | Self::Calls { name, .. }
            | Self::Command { name, .. } => name,
        }
    }

    /// What its samples come to at worst, on one side and once.
    fn measured_bytes(&self) -> u64 {
        let sample = SAMPLE_BYTES + self.name().len() as u64;
        match self {
            Self::Suite { tasks, .. } => tasks
                .iter()
                .map(|task| {
                    let checks = task.checks.iter().map(|check| CHECK_BYTES + 2 * check.words().len() as u64);
                    sample + 2 * task.name.len() as u64 + CHECK_BYTES + checks.sum::<u64>()
                })
                .sum(),
            Self::Replay { .. }
            | Self::Compress { .. }
            | Self::Curate { .. }
            | Self::Calls { .. }
            | Self::Command { .. } => (sample + CHECK_BYTES) * self.cases(),
        }
    }

    fn cases(&self) -> u64 {
        match self {
            Self::Suite { tasks, .. } => tasks.len() as u64,
            Self::Replay { last, .. } => u64::from(*last),
            Self::Compress { sessions, .. } => u64::from(*sessions),
            Self::Curate { lives, .. } => u64::from(*lives),
            Self::Calls { .. } | Self::Command { .. } => 1,
        }
    }
}

/// A task of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenTask {
    /// The name of the task, unique in its suite: at most 200 bytes.
    pub name: String,
    /// The input of the task; not blank.
    pub input: String,
    /// What the model says, one a turn; without them the speaker answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies: Option<Vec<String>>,
    /// What it may use up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TaskLimits>,
    /// What must hold. Checked by the parent, never inside.
    #[serde(default)]
    pub checks: Vec<EvaluationCheck>,
}

/// What must hold of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum EvaluationCheck {
    /// The task ends with this status.
    Status(TaskStatus),
    /// The answer has this text.
    AnswerHas(String),
    /// The answer does not have this text.
    AnswerLacks(String),
    /// The answer is JSON and has this value at this pointer.
    AnswerAt {
        /// Where in the answer: a JSON pointer as `/total/0`.
        pointer: String,
        /// The value that must be there.
        equals: Value,
    },
    /// At most so many turns.
    TurnsAtMost(u32),
    /// At most so many tool calls.
    CallsAtMost(u32),
    /// The tool of this name ran at least once.
    Called(String),
    /// This tool did not run.
    NotCalled(String),
    /// At most so many tokens.
    TokensAtMost(u64),
    /// At most so many milliseconds on the wall.
    MillisAtMost(u64),
    /// At most so many bytes of memory at once.
    MemoryAtMost(u64),
}

impl EvaluationCheck {
    /// What must hold, in words.
    pub fn words(&self) -> String {
        match self {
            Self::Status(status) => format!("it ends {}", status.name()),
            Self::AnswerHas(text) => format!("the answer has {}", quoted(text)),
            Self::AnswerLacks(text) => format!("the answer does not have {}", quoted(text)),
            Self::AnswerAt { pointer, equals } => {
                format!("the answer has {} at {}", shortened(&equals.to_string()), shortened(pointer))
            }
            Self::TurnsAtMost(most) => format!("at most {most} turns"),
            Self::CallsAtMost(most) => format!("at most {most} tool calls"),
            Self::Called(tool) => format!("{} runs", shortened(tool)),
            Self::NotCalled(tool) => format!("{} does not run", shortened(tool)),
            Self::TokensAtMost(most) => format!("at most {most} tokens"),
            Self::MillisAtMost(most) => format!("at most {most} ms"),
            Self::MemoryAtMost(most) => format!("at most {most} bytes of memory"),
        }
    }
}

/// A text in quotes; of a long one the beginning, and a digest that tells it from others.
fn quoted(text: &str) -> String {
    match text.chars().nth(QUOTED) {
        None => format!("{text:?}"),
        Some(_) => format!("{:?}… ({} bytes, {:.12})", beginning(text), text.len(), sha256(text.as_bytes())),
    }
}

fn shortened(text: &str) -> String {
    match text.chars().nth(QUOTED) {
        None => text.to_owned(),
        Some(_) => format!("{}… ({} bytes, {:.12})", beginning(text), text.len(), sha256(text.as_bytes())),
    }
}

fn beginning(text: &str) -> &str {
    text.char_indices().nth(QUOTED).map_or(text, |(at, _)| &text[..at])
}

/// What should get better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Goal {
    /// The metric that should get better.
    pub metric: Metric,
    /// In which part; in all, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// By how much at least, as a share of the baseline: 0.02 is 2 %.
    #[serde(default = "two_percent")]
    pub by: f64,
}

/// What must not get worse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guard {
    /// The metric that must not get worse.
    pub metric: Metric,
    /// In which part; in all, where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// How much worse it may be, as a share of the baseline.
    #[serde(default = "five_percent")]
    pub slack: f64,
}

fn two_percent() -> f64 {
    0.02
}

fn five_percent() -> f64 {
    0.05
}

impl Evaluation {
    /// Reads an evaluation file.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let hint = "docs/reference/evaluation.md describes the file";
        if bytes.len() > MAX_BYTES {
            return Err(Error::invalid(format!("an evaluation has at most {MAX_BYTES} bytes")).hint(hint));
        }
        Self::read_back(bytes)
    }

    /// Reads an evaluation that herm wrote: with its defaults filled in it may be larger than the file it came from.
    pub(super) fn read_back(bytes: &[u8]) -> Result<Self> {
        let hint = "docs/reference/evaluation.md describes the file";
        let evaluation: Self = serde_json::from_slice(bytes)
            .map_err(|source| Error::invalid(format!("that is not an evaluation: {source}")).hint(hint))?;
        evaluation.validate()?;
        Ok(evaluation)
    }

    /// Whether it looks at tasks: some with checks, or those of the brain once more. What only measures time or
    /// compression would approve of an agent that answers anything at all.
    pub fn has_checks(&self) -> bool {
        self.parts.iter().any(|part| match part {
            EvaluationPart::Suite { tasks, .. } => tasks.iter().any(|task| !task.checks.is_empty()),
            EvaluationPart::Replay { .. } => true,
            EvaluationPart::Compress { .. }
            | EvaluationPart::Curate { .. }
            | EvaluationPart::Calls { .. }
            | EvaluationPart::Command { .. } => false,
        })
    }

    /// The hash that names it: SHA-256 of its canonical form.
    pub fn hash(&self) -> Result<String> {
        let bytes = serde_json::to_vec(self)
            .map_err(|source| Error::internal("an evaluation cannot be written").because(source))?;
        Ok(format!("sha256:{}", sha256(&bytes)))
    }

    /// The evaluation without parts for which there was nothing to run, unless it measures something in them.
    #[must_use]
    pub fn without(&self, empty: &[String]) -> Self {
        let is_measured = |part: &str| {
            let goals = self.goals.iter().map(|goal| goal.part.as_deref());
            goals.chain(self.guards.iter().map(|guard| guard.part.as_deref())).any(|named| named == Some(part))
        };
        let mut without = self.clone();
        without.parts.retain(|part| !empty.iter().any(|empty| empty == part.name()) || is_measured(part.name()));
        without
    }

    /// The rules evaluations obey.
    pub fn validate(&self) -> Result<()> {
        let bad = |what: String| Err(Error::invalid(what).hint("docs/reference/evaluation.md describes the file"));
        if self.schema != EVALUATION_SCHEMA {
            return bad(format!(
                "the evaluation has the format {:?}; this herm reads {EVALUATION_SCHEMA:?}",
                self.schema
            ));
        }
        if self.parts.is_empty() {
            return bad("an evaluation needs at least one part".to_owned());
        }
        if self.repeat == 0 || self.repeat > 1_000 {
            return bad(format!("cases are repeated 1 to 1,000 times, not {}", self.repeat));
        }
        let mut names: Vec<&str> = self.parts.iter().map(EvaluationPart::name).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) || names.iter().any(|name| name.trim().is_empty()) {
            return bad("every part of an evaluation needs a name of its own".to_owned());
        }
        let cases: u64 =
            self.parts.iter().map(EvaluationPart::cases).sum::<u64>().saturating_mul(u64::from(self.repeat));
        if cases > MAX_CASES {
            return bad(format!("an evaluation has at most {MAX_CASES} cases, not {cases}"));
        }
        for part in &self.parts {
            validate_part(part)?;
        }
        let measured: u64 = self.parts.iter().map(EvaluationPart::measured_bytes).sum();
        if measured.saturating_mul(2).saturating_mul(u64::from(self.repeat)) > MAX_MEASUREMENTS {
            return bad(format!(
                "what it measures would come to more than {} MiB: it has too many cases, checks or repetitions",
                MAX_MEASUREMENTS >> 20
            ));
        }
        if self.goals.len() + self.guards.len() > MAX_CONDITIONS {
            return bad(format!("an evaluation has at most {MAX_CONDITIONS} goals and guards"));
        }
        let wanted = self.goals.iter().map(|goal| (&goal.part, goal.by));
        for (part, share) in wanted.chain(self.guards.iter().map(|guard| (&guard.part, guard.slack))) {
            if let Some(part) = part
                && !names.contains(&part.as_str())
            {
                return bad(format!("there is no part {part:?} to measure"));
            }
            if !(0.0..=10.0).contains(&share) {
                return bad(format!("{share} is not a share: 0.05 is 5 %"));
            }
        }
        Ok(())
    }
}

fn validate_part(part: &EvaluationPart) -> Result<()> {
    let name = part.name();
    let bad = |what: &str| {
        Err(Error::invalid(format!("part {}: {what}", quoted(name)))
            .hint("docs/reference/evaluation.md describes the file"))
    };
    if name.len() > MAX_NAME {
        return bad("its name has more than 200 bytes");
    }
    match part {
        EvaluationPart::Suite { tasks, .. } => {
            if tasks.iter().any(|task| task.name.len() > MAX_NAME) {
                return bad("the name of a task has more than 200 bytes");
            }
            if tasks.is_empty() {
                return bad("a suite needs tasks");
            }
            let mut names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
            names.sort_unstable();
            if names.windows(2).any(|pair| pair[0] == pair[1]) {
                return bad("two tasks have the same name");
            }
            for task in tasks {
                if task.input.trim().is_empty() {
                    return bad("a task has no input");
                }
                if let Some(limits) = &task.limits {
                    limits.validate()?;
                }
            }
        }
        EvaluationPart::Replay { last, .. } if *last == 0 => return bad("it replays at least one task"),
        EvaluationPart::Compress { sessions, results, result_bytes, context_bytes, .. } => {
            if *sessions == 0 || !(1..=7).contains(results) {
                return bad("it has at least one session of 1 to 7 results");
            }
            if !(256..=1 << 20).contains(result_bytes) || !(4 << 10..=16 << 20).contains(context_bytes) {
                return bad("a result has 256 bytes to 1 MiB, a conversation 4 KiB to 16 MiB");
            }
        }
        EvaluationPart::Curate { lives, skills, .. } if *lives == 0 || !(1..=1_000).contains(skills) => {
            return bad("it has at least one life of 1 to 1,000 skills");
        }
        EvaluationPart::Calls { calls, at_once, .. }
            if *calls == 0 || *at_once == 0 || *calls > 100_000 || *at_once > 10_000 =>
        {
            return bad("1 to 100,000 calls, 1 to 10,000 at once");
        }
        EvaluationPart::Command { argv, .. } if argv.is_empty() => return bad("it names no program"),
        EvaluationPart::Replay { .. }
        | EvaluationPart::Curate { .. }
        | EvaluationPart::Calls { .. }
        | EvaluationPart::Command { .. } => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluation(repeat: u32, checks: Vec<Value>) -> Result<Evaluation> {
        let task = serde_json::json!({ "name": "t", "input": "go", "replies": ["{}"], "checks": checks });
        let file = serde_json::json!({
            "schema": EVALUATION_SCHEMA, "title": "x", "repeat": repeat,
            "parts": [{ "kind": "suite", "name": "s", "tasks": [task] }],
        });
        Evaluation::parse(file.to_string().as_bytes())
    }

    #[test]
    fn a_long_text_in_a_check_is_named_and_not_carried_along() {
        // Eight bytes each when it is shown.
        let text = "\u{200b}".repeat(200_000);
        let words = [
            EvaluationCheck::AnswerHas(text.clone()),
            EvaluationCheck::AnswerLacks(text.clone()),
            EvaluationCheck::Called(text.clone()),
            EvaluationCheck::AnswerAt { pointer: text.clone(), equals: text.clone().into() },
        ]
        .map(|check| check.words());
        assert!(words.iter().all(|words| words.len() < 3_000), "{words:?}");
        let other = EvaluationCheck::AnswerHas(format!("{text}x")).words();
        assert_ne!(words[0], other, "two texts that begin alike are two checks");
        assert_eq!(EvaluationCheck::AnswerHas("fine".into()).words(), "the answer has \"fine\"");
    }

    #[test]
    fn what_was_written_down_is_read_back_however_much_larger_it_became() {
        let longest = MAX_BYTES - 300;
        let file = evaluation(1, vec![serde_json::json!({ "answerHas": "x".repeat(longest) })]).unwrap();
        let written = super::super::records::json(&file).unwrap();
        assert!(written.len() > MAX_BYTES, "{}", written.len());
        assert!(Evaluation::parse(&written).is_err(), "nobody else's file may be so large");
        assert_eq!(Evaluation::read_back(&written).unwrap(), file);
    }

    #[test]
    fn what_it_measures_is_bounded_before_anything_runs() {
        let check = || serde_json::json!({ "turnsAtMost": 1 });
        assert!(evaluation(1_000, vec![check(); 10]).is_ok());
        let refused = evaluation(1_000, vec![check(); 20_000]).unwrap_err();
        assert!(refused.message().starts_with("what it measures would come to more than 120 MiB"), "{refused}");
        let mut named = evaluation(1, vec![check()]).unwrap();
        if let EvaluationPart::Suite { tasks, .. } = &mut named.parts[0] {
            tasks[0].name = "n".repeat(201);
        }
        assert!(named.validate().is_err());
    }
}
