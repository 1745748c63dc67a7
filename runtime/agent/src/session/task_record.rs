//! What a task leaves in the brain's memory: its messages, its line in the log, its evidence.

use serde_json::Value;

use super::machine::{Machine, Stop};
use super::transcript::{Transcript, Turn};
use crate::brain::Draft;
use crate::ids::Slug;
use crate::memory::{
    Evidence, EvidenceStatus, KeptArguments, MessageEntry, MessageRole, SessionEvidence, SessionOrigin, TaskEntry,
    TrialTask, TurnEvidence, UNKNOWN_TOOL, preview,
};
use crate::skill::quotation::QuotableTexts;
use crate::task::{StopReason, TaskStatus};
use crate::text::{self, head};
use crate::tool::TaskFrame;

/// How much of a text is remembered.
const INPUT_CHARS: usize = 8_000;
const ANSWER_CHARS: usize = 8_000;
const SUMMARY_CHARS: usize = 180;
/// The most characters of a model's name: endpoints say what they like.
const NAME_CHARS: usize = 64;
/// In the place of words that only their subscriber may read.
const QUOTED: &str = "[quotes the subscriber]";
const PRIVATE: &str = "[private]";

/// A task that is over, as its step tells it.
#[derive(Debug, Clone, Copy)]
pub struct TaskRecord<'a> {
    /// What names the task: its brain, subscriber, input and moment.
    pub frame: &'a TaskFrame,
    /// What the task has seen of its subscriber, where it is private.
    pub private: Option<&'a QuotableTexts>,
    /// What was said and done.
    pub turns: &'a [Turn],
    /// Its machine, at its end.
    pub machine: &'a Machine,
    /// Why the task ended, with the answer or a message.
    pub stop: &'a Stop,
    /// The skills that were loaded, each with the turn in which the task first had it; 0 before the first turn.
    pub loaded: &'a [(Slug, u32)],
    /// The model that spoke last.
    pub model: Option<&'a str>,
    /// The backend that spoke last.
    pub backend: &'a str,
}

impl TaskRecord<'_> {
    /// Adds the account to the step of the task.
    pub fn write(&self, draft: &mut Draft) {
        let Self { frame, stop, .. } = *self;
        let task = frame.task.to_string();
        let status = stop.reason.status();
        if status != TaskStatus::Failed {
            let message = |role, content: String| MessageEntry {
                task: task.clone(),
                subscriber: frame.subscriber,
                role,
                content,
                at: frame.at,
            };
            // What was asked and what was answered. The calls between are in the transcript: as messages
            // they would only be found again by a search for the same words.
            draft.message(message(MessageRole::User, head(&frame.input, INPUT_CHARS)));
            // What nothing vouches for is not remembered as an answer.
            if let Some(answer) = stop.answer.as_ref().filter(|_| status == TaskStatus::Converged) {
                draft.message(message(MessageRole::Assistant, head(answer, ANSWER_CHARS)));
            }
        }
        draft.task(TaskEntry {
            task: task.clone(),
            subscriber: frame.subscriber,
            outcome: status,
            summary: summary(stop),
            at: frame.at,
        });
        self.write_calls(&task, draft);
        self.write_session(&task, draft);
        self.write_turn(task, draft);
    }

    /// Adds how good the answer was, and what of the learned had a part in it.
    pub fn write_learning(&self, transcript: &Transcript, micro_usd: u64, draft: &mut Draft) {
        draft.outcome(&self.frame.task, transcript.outcome.clone());
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let errors = self.machine.calls().iter().filter(|call| call.status != EvidenceStatus::Ok).count();
        for shown in transcript.shown.iter().filter(|shown| shown.trial) {
            draft.trial_task(TrialTask {
                skill: shown.skill.clone(),
                task: self.frame.task.to_string(),
                arm: shown.arm,
                at: self.frame.at,
                score: transcript.outcome.value.score(),
                errors: count(errors),
                turns: u32::from(self.machine.turns()),
                micro_usd,
                rehearsed: false,
            });
        }
    }

    fn write_calls(&self, task: &str, draft: &mut Draft) {
        let mut summaries: Vec<String> = self.machine.calls().iter().map(|call| preview(&call.summary)).collect();
        if let Some(private) = self.private {
            for summary in &mut summaries {
                // What a tool quotes, names and numbers may be the subscriber's; the kind of thing it said is not.
                let quotes = private.repeated(summary, "").is_some();
                *summary = if quotes { QUOTED.to_owned() } else { text::class(summary) };
            }
        }
        for (call, summary) in self.machine.calls().iter().zip(summaries) {
            let made = self.turns.get(call.turn.saturating_sub(1) as usize).and_then(|turn| turn.call.as_ref());
            draft.evidence(Evidence {
                task: task.to_owned(),
                turn: call.turn,
                tool: self.tool_name(&call.tool).to_owned(),
                status: call.status,
                skills: self.loaded_before(call.turn),
                args: Evidence::digest_of_args(made.map(|made| &made.args)),
                // Evidence is for everyone's skills: what a subscriber's task gave to tools is not in it.
                arguments: made.filter(|_| !self.is_private()).map(|made| KeptArguments::of(&made.args)),
                summary,
                millis: call.millis,
                at: self.frame.at,
            });
        }
    }

    fn is_private(&self) -> bool {
        self.private.is_some() || self.frame.is_private()
    }

    /// The skills that the task had when it made a call in this turn: what came before them says nothing about them.
    fn loaded_before(&self, turn: u32) -> Vec<Slug> {
        self.loaded.iter().filter(|(_, since)| *since < turn).map(|(slug, _)| slug.clone()).collect()
    }

    /// The name of a tool that is there, or one that could be; of any other, only that it is not.
    fn tool_name<'t>(&self, tool: &'t str) -> &'t str {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
        let could_be = !self.frame.is_private() && !tool.is_empty() && tool.bytes().all(plain);
        if self.machine.knows(tool) || could_be { tool } else { UNKNOWN_TOOL }
    }

    fn write_session(&self, task: &str, draft: &mut Draft) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let calls = self.machine.calls();
        draft.session(SessionEvidence {
            task: task.to_owned(),
            at: self.frame.at,
            completed: self.stop.reason.status() == TaskStatus::Converged,
            interrupted: matches!(self.stop.reason, StopReason::Cancelled | StopReason::Deadline),
            model: self.model_name(),
            platform: self.backend.to_owned(),
            turns: u32::from(self.machine.turns()),
            calls: count(calls.len()),
            errors: count(calls.iter().filter(|call| call.status != EvidenceStatus::Ok).count()),
            skills: self.loaded.iter().map(|(slug, _)| slug.clone()).collect(),
            origin: SessionOrigin::Live,
        });
    }

    fn write_turn(&self, task: String, draft: &mut Draft) {
        // Evidence is for everyone's skills. What one subscriber asked and heard is in the messages, which
        // know whose they are.
        let preview = |text: &str| if self.frame.is_private() { PRIVATE.to_owned() } else { preview(text) };
        let answered = self.stop.answer.as_deref().filter(|_| self.stop.reason == StopReason::Final);
        draft.turn(TurnEvidence {
            task,
            number: 1,
            at: self.frame.at,
            model: self.model_name(),
            platform: self.backend.to_owned(),
            asked: preview(&self.frame.input),
            answered: answered.map(preview).unwrap_or_default(),
        });
    }

    fn model_name(&self) -> String {
        head(self.model.unwrap_or_default(), NAME_CHARS)
    }
}

/// A task in a line.
pub fn summary(stop: &Stop) -> String {
    let said = match (&stop.answer, &stop.message) {
        (Some(answer), _) if stop.reason == StopReason::Final => gist(answer),
        (_, Some(message)) => message.clone(),
        (_, None) => stop.reason.name().to_owned(),
    };
    text::line(&said, SUMMARY_CHARS)
}

/// The sentence of an answer that says most.
fn gist(answer: &str) -> String {
    let value: Value = serde_json::from_str(answer).unwrap_or_default();
    let field = |name: &&str| value[*name].as_str().map(str::to_owned);
    ["summary", "answer", "result", "verdict", "message", "status"]
        .iter()
        .find_map(field)
        .unwrap_or_else(|| answer.to_owned())
}
