//! What an evaluation can be built from: the brain's own last tasks. What a subscriber asked is never copied into an
//! evaluation, for evaluations travel; such tasks are only ever replayed from the brain itself.

use std::collections::BTreeSet;
use std::time::Instant;

use serde::Serialize;

use herm_backends::Reflex;

use crate::backend::{Backend as _, Chain};
use crate::brain::{Reader, StepKind};
use crate::error::Result;
use crate::evaluation::{EvaluationCheck, WrittenTask};
use crate::redact;
use crate::session::Transcript;
use crate::task::{StopReason, TaskStatus};

/// The most tasks that are replayed.
pub const MOST_REPLAYS: u32 = 20;
/// The most tasks that are written into a suite.
const MOST_WRITTEN: usize = 8;
/// The longest input that is written into a suite.
const MOST_INPUT: usize = 64 << 10;
/// How far back tasks are looked for.
const MOST_STEPS: usize = 200;
/// What is searched for where no task has searched.
const ANYTHING: &str = "the last result";

/// Who speaks for the brain, as far as an evaluation cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendPricing {
    /// The embedded backend: it can speak inside a sandbox, and says the same each time.
    Embedded,
    /// A backend with a price: it can speak through the broker.
    Priced,
    /// A backend without a known price: it cannot speak in an evaluation.
    Unpriced,
}

impl BackendPricing {
    /// The pricing of the first backend of a chain, which is the one that is asked.
    pub fn of(chain: &Chain) -> Self {
        match chain.backends.first() {
            Some(first) if first.name() == Reflex.name() => Self::Embedded,
            Some(first) if first.capabilities().price.is_some() => Self::Priced,
            _ => Self::Unpriced,
        }
    }
}

/// What an evaluation can be built from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationInputs {
    /// Which kind of backend answers for the brain.
    pub voice: BackendPricing,
    /// How many of the last tasks can be replayed; none where nobody could go on from a record.
    pub replays: u32,
    /// Tasks of nobody in particular that came to an answer.
    #[serde(skip)]
    pub everyday: Vec<WrittenTask>,
    /// Tasks of nobody in particular that used up all turns or got stuck.
    #[serde(skip)]
    pub unfinished: Vec<WrittenTask>,
    /// The smallest conversation that a task could have, in bytes.
    pub context_limit: usize,
    /// What the memory is searched for.
    #[serde(skip)]
    pub query: String,
}

/// Gathers the inputs without the brain's lock, so the owner may be at work.
pub fn material(reader: &Reader, voice: BackendPricing) -> Result<EvaluationInputs> {
    material_within(reader, voice, None)
}

/// The same from as many tasks as can be read until a moment, the newest first.
pub fn material_within(reader: &Reader, voice: BackendPricing, until: Option<Instant>) -> Result<EvaluationInputs> {
    let mut found = EvaluationInputs {
        voice,
        replays: 0,
        everyday: Vec::new(),
        unfinished: Vec::new(),
        context_limit: usize::MAX,
        query: ANYTHING.to_owned(),
    };
    let mut known = BTreeSet::new();
    let mut has_query = false;
    for step in reader.history(MOST_STEPS)?.into_iter().filter(|step| step.kind == StepKind::Task && step.version > 1) {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let Some(content) = reader.transcript(step.seq)? else { continue };
        let transcript = Transcript::parse(&content)?;
        found.context_limit = found.context_limit.min(transcript.limits.context_bytes);
        if voice != BackendPricing::Unpriced && found.replays < MOST_REPLAYS && reader.receipt_of(step.seq)?.is_some() {
            found.replays += 1;
        }
        let is_nobodys = transcript.subscriber.is_none()
            && transcript.input.len() <= MOST_INPUT
            && redact::find(&transcript.input).is_empty();
        if !is_nobodys {
            continue;
        }
        if !has_query && let Some(query) = searched_for(&transcript) {
            (found.query, has_query) = (query, true);
        }
        let room = match transcript.stop.reason {
            StopReason::Final => &mut found.everyday,
            StopReason::Ceiling | StopReason::Stuck => &mut found.unfinished,
            _ => continue,
        };
        if room.len() < MOST_WRITTEN && known.insert(transcript.input.clone()) {
            let number = room.len() + 1;
            room.push(written(number, transcript, voice));
        }
    }
    if found.context_limit == usize::MAX {
        found.context_limit = crate::task::TaskLimits::default().context_bytes;
    }
    Ok(found)
}

fn searched_for(transcript: &Transcript) -> Option<String> {
    let calls = transcript.turns.iter().filter_map(|turn| turn.call.as_ref());
    let query = calls.into_iter().find(|call| call.tool == "recall")?.args.get("query")?.as_str()?;
    (!query.trim().is_empty() && query.len() <= 200 && redact::find(query).is_empty()).then(|| query.to_owned())
}

/// A task as a suite has it. Where the embedded backend spoke, it speaks again; otherwise the recorded replies do.
fn written(number: usize, transcript: Transcript, voice: BackendPricing) -> WrittenTask {
    let is_unfinished = matches!(transcript.stop.reason, StopReason::Ceiling | StopReason::Stuck);
    let speaks_again = is_unfinished || (voice == BackendPricing::Embedded && transcript.backend == Reflex.name());
    let replies = transcript.turns.iter().map(|turn| turn.reply.text.clone()).collect();
    WrittenTask {
        name: format!("task {number}"),
        input: transcript.input,
        replies: (!speaks_again).then_some(replies),
        limits: Some(crate::task::TaskLimits { total_tokens: None, micro_usd: None, ..transcript.limits }),
        checks: vec![EvaluationCheck::Status(TaskStatus::Converged)],
    }
}
