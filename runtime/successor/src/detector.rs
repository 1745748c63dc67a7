//! The bottleneck detector that runs by itself: after sessions, off the caller's path, within a budget. It looks, ranks and
//! drafts, and writes down what it found; it judges nothing and applies nothing. A draft goes on as any other patch does:
//! `herm successor auto`, or `evaluate` with the files it left.
//!
//! Give it to a harness with [`HarnessBuilder::after_session`](crate::harness::HarnessBuilder::after_session). What it leaves
//! is described in `docs/operate/autogenesis.md`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::auto::{USUAL_TASKS, pending, stages};
use crate::bottleneck::{self, Bottleneck, MOST_TASKS, ObservationEnv};
use crate::brain::Reader;
use crate::clock::Timestamp;
use crate::draft_patch::{self, DraftContext, DraftTarget, PatchDraft, material::BackendPricing};
use crate::error::{Error, Result};
use crate::fsio::{self, Root, SyncTiming};
use crate::harness::{Harness, SessionHook};
use crate::ids::BrainId;
use crate::layout::Layout;
use crate::records::json;

/// The format of what was found.
pub const FOUND_SCHEMA: &str = "herm/found@1";
/// What was found; the drafted patch; the evaluation that would show whether it helps.
const FOUND: &str = "found.json";
const PATCH: &str = "patch.json";
const EVALUATION: &str = "evaluation.json";
/// The largest file that is read back.
const MOST_BYTES: u64 = 8 << 20;

/// What a detector may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetectorOptions {
    /// At least so long between two looks at a brain; zero is after every session.
    pub every: Duration,
    /// How many of the last tasks are looked at, 1 to 500.
    pub tasks: usize,
    /// How long a look may take. When it is over no further task is read, nor a further turn of one; the tasks that were
    /// read to their end are what counts.
    pub within: Duration,
}

impl Default for DetectorOptions {
    fn default() -> Self {
        Self { every: Duration::from_secs(3_600), tasks: USUAL_TASKS, within: Duration::from_secs(2) }
    }
}

impl DetectorOptions {
    /// The rules it obeys.
    pub fn validate(&self) -> Result<()> {
        if !(1..=MOST_TASKS).contains(&self.tasks) {
            return Err(Error::invalid(format!("the tasks that are looked at are 1 to {MOST_TASKS}")));
        }
        if self.within.is_zero() || self.within > Duration::from_secs(60) {
            return Err(Error::invalid("a look takes 1 to 60000 milliseconds"));
        }
        Ok(())
    }
}

/// What one look found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DetectorReport {
    /// The format of this report, [`FOUND_SCHEMA`].
    pub schema: &'static str,
    /// The brain that was looked at.
    pub brain: BrainId,
    /// The brain's version when it was looked at.
    pub version: u64,
    /// When the look began; the next is due [`DetectorOptions::every`] later.
    pub at: Timestamp,
    /// How many tasks were looked at.
    pub tasks: usize,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// What reached its threshold, the worst first.
    pub bottlenecks: Vec<Bottleneck>,
    /// The same in sentences.
    pub sentences: Vec<String>,
    /// The patch that was drafted, where there is one; its files are beside this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<DraftNote>,
    /// Why others have no patch.
    pub passed_over: Vec<String>,
}

/// A draft, as it is noted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftNote {
    /// What the patch changes.
    pub aim: DraftTarget,
    /// The hash of the patch file, as `sha256:…`.
    pub patch: String,
    /// The title of the patch, one line.
    pub title: String,
    /// The hash of the evaluation that would show whether it helps, as `sha256:…`.
    pub evaluation: String,
}

/// Looks at brains after their sessions.
#[derive(Debug, Default)]
pub struct Detector {
    how: DetectorOptions,
    last: Mutex<HashMap<BrainId, Timestamp>>,
}

impl Detector {
    /// One that takes no more than this.
    pub fn new(how: DetectorOptions) -> Result<Self> {
        how.validate()?;
        Ok(Self { how, last: Mutex::default() })
    }

    /// Whether it is time, and then it counts as looked at: of two sessions that end together, one looks.
    fn is_due(&self, layout: &Layout, brain: &BrainId, now: Timestamp) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Of an earlier process, its notes tell.
        let before = last.get(brain).copied().or_else(|| last_look(layout, brain));
        let every = i64::try_from(self.how.every.as_millis()).unwrap_or(i64::MAX);
        // A clock that was ahead once does not keep it away.
        let is_early = |before: Timestamp| (0..every).contains(&now.millis().saturating_sub(before.millis()));
        if before.is_some_and(is_early) {
            last.insert(brain.clone(), before.unwrap_or(now));
            return false;
        }
        last.insert(brain.clone(), now);
        true
    }
}

impl SessionHook for Detector {
    fn after(&self, harness: &Harness, brain: &BrainId) {
        if !self.is_due(harness.layout(), brain, harness.now()) {
            return;
        }
        match look(harness, brain, &self.how) {
            Ok(found) => {
                let worst = found.sentences.first().map_or("nothing", String::as_str);
                let draft = found.draft.as_ref().map_or("none", |draft| draft.title.as_str());
                tracing::info!(%brain, tasks = found.tasks, millis = found.millis, worst, draft, "looked for bottlenecks");
            }
            Err(error) => tracing::warn!(%brain, %error, "looking for bottlenecks did not finish"),
        }
    }
}

/// Looks at a brain once, drafts a patch where something holds it up and a template could help, and keeps both.
/// Blocks for about as long as the budget says. It reads without the brain's lock, so the owner may be at work.
pub fn look(harness: &Harness, brain: &BrainId, how: &DetectorOptions) -> Result<DetectorReport> {
    let (began, at) = (Instant::now(), harness.now());
    let until = began + how.within;
    let reader = Reader::open(harness.layout(), brain)?;
    let speakers = stages::speakers(harness, &reader, None)?;
    let context_bytes = speakers.backends.first().and_then(|first| first.capabilities().context_bytes);
    let around = ObservationEnv { toolbox: harness.toolbox().clone(), context_bytes };
    let seen = bottleneck::observe_within(&reader, &around, how.tasks, Some(until))?;
    let bottlenecks = bottleneck::detect(&seen.tasks, &seen.standing);
    let (drafted, passed_over) = match bottlenecks.is_empty() {
        true if Instant::now() >= until => (None, vec!["no time was left to look at more tasks".to_owned()]),
        true => (None, Vec::new()),
        false if Instant::now() >= until => (None, vec!["no time was left to draft a patch".to_owned()]),
        false => {
            let scene = DraftContext::of(&reader, &around.toolbox, &seen)?;
            let material = draft_patch::material_within(&reader, BackendPricing::of(&speakers), Some(until))?;
            draft_patch::first(&bottlenecks, &scene, &material, &pending::tried(harness, &reader)?)?
        }
    };
    let found = DetectorReport {
        schema: FOUND_SCHEMA,
        brain: brain.clone(),
        version: reader.lock().version,
        at,
        tasks: seen.tasks.len(),
        millis: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        sentences: bottlenecks.iter().map(Bottleneck::sentence).collect(),
        bottlenecks,
        draft: drafted.as_ref().map(note).transpose()?,
        passed_over,
    };
    keep(harness.layout(), &found, drafted.as_ref())?;
    Ok(found)
}

fn note(drafted: &PatchDraft) -> Result<DraftNote> {
    Ok(DraftNote {
        aim: drafted.aim,
        patch: drafted.patch.hash(),
        title: drafted.patch.title().to_owned(),
        evaluation: drafted.evaluation.hash()?,
    })
}

/// Where the notes of a brain are.
pub fn notes(layout: &Layout, brain: &BrainId) -> std::path::PathBuf {
    layout.successors().join("drafts").join(brain.as_str())
}

fn keep(layout: &Layout, found: &DetectorReport, drafted: Option<&PatchDraft>) -> Result<()> {
    let place = notes(layout, &found.brain);
    fsio::create_dirs(&place)?;
    let root = Root::open(&place)?;
    match drafted {
        Some(drafted) => {
            root.replace(&PATCH.parse()?, drafted.patch.bytes(), SyncTiming::Later)?;
            root.replace(&EVALUATION.parse()?, &json(&drafted.evaluation)?, SyncTiming::Later)?;
        }
        // A draft of an earlier look is for a brain that has moved on.
        None => {
            for name in [PATCH, EVALUATION] {
                root.remove(&name.parse()?)?;
            }
        }
    }
    root.replace(&FOUND.parse()?, &json(found)?, SyncTiming::Later)?;
    root.clear_temporaries()
}

/// When the last look at a brain was, by its notes.
fn last_look(layout: &Layout, brain: &BrainId) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct LastReport {
        at: Timestamp,
    }
    let bytes = fsio::read_regular(&notes(layout, brain).join(FOUND), MOST_BYTES).ok()?;
    serde_json::from_slice::<LastReport>(&bytes).ok().map(|looked| looked.at)
}
