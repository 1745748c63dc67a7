//! A patch on the brain itself, behind its gates, and the way back. Each is a step like any other: one transaction, a
//! signed receipt that says why, in the brain's lineage.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::json;

use crate::apply::{self, AppliedPatch};
use crate::brain::{Brain, OnChanged, Reader, StepKind, StepRecord, UndoOutcome};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::gate::{Gate, GatePass};
use crate::harness::Harness;
use crate::ids::{BrainId, Digest, RelPath, sha256};
use crate::layout::{self, Layout};
use crate::patch::{Patch, PatchChange};
use crate::records::VerdictRecord;
use crate::verdict::{BaseDigests, PatchBase};

/// How many steps back a patch is looked for.
const MOST_STEPS: usize = 10_000;

/// What a brain is at this moment to a patch, as gates know it.
pub fn base_of(brain: &Brain, patch: &Patch) -> Result<PatchBase> {
    let lock = brain.lock();
    let touched = touched(patch, |path| brain.entry(path))?;
    let base =
        PatchBase { brain: brain.id().clone(), version: lock.version, bundle_hash: lock.bundle_hash, touched: None };
    Ok(PatchBase { touched: Some(touched), ..base })
}

/// The same as [`base_of`], read without the brain's lock: its owner may be at work.
pub fn base_from_reader(reader: &Reader, patch: &Patch) -> Result<PatchBase> {
    let lock = reader.lock();
    let touched = touched(patch, |path| reader.entry(path))?;
    let base =
        PatchBase { brain: reader.id().clone(), version: lock.version, bundle_hash: lock.bundle_hash, touched: None };
    Ok(PatchBase { touched: Some(touched), ..base })
}

/// What a patch rests on, given the digest of each file.
fn touched(patch: &Patch, entry: impl Fn(&RelPath) -> Result<Option<Digest>>) -> Result<BaseDigests> {
    let mut lines = String::new();
    for path in patch.files() {
        let digest = entry(&path)?.map_or_else(|| "-".to_owned(), |digest| digest.to_string());
        lines.push_str(&format!("{path} {digest}\n"));
    }
    Ok(BaseDigests {
        role: entry(&layout::rel(layout::SYSTEM)?)?,
        manifest: entry(&layout::rel(layout::MANIFEST)?)?,
        tuning: entry(&layout::rel(layout::TUNING)?)?,
        files: (!lines.is_empty()).then(|| format!("sha256:{}", sha256(lines.as_bytes()))),
    })
}

/// Refuses a verdict whose brain is no longer what was judged, and names what changed.
fn check_base(layout: &Layout, record: &VerdictRecord, now: &PatchBase) -> Result<()> {
    let Some(moved) = record.verdict.base.moved(now) else { return Ok(()) };
    let then = record.verdict.base.version;
    let reader = Reader::open(layout, &now.brain)?;
    let mut changed = BTreeSet::new();
    for path in record.patch.files() {
        let last = reader.file_versions(std::slice::from_ref(&path), 1)?;
        changed.extend(last.iter().any(|last| last.version.unsigned_abs() > then).then(|| path.to_string()));
    }
    let named = match changed.is_empty() {
        true => String::new(),
        false => format!(" ({})", changed.into_iter().collect::<Vec<_>>().join(", ")),
    };
    Err(Error::refused(format!("the brain has moved: {moved}{named}"))
        .hint("have the patch evaluated again against the brain as it is"))
}

/// Applies the patch of a verdict to its brain, between tasks. The gates are asked once more with the brain in hand: one
/// that has moved since is another brain.
pub async fn adopt(harness: &Harness, record: &VerdictRecord, passed: &GatePass) -> Result<AppliedPatch> {
    allowed(harness, &record.patch)?;
    let (patch, passed) = (record.patch.clone(), passed.clone());
    let because = json!({
        "verdict": record.verdict.hash()?,
        "granted": passed.granted(),
    });
    let (brain, judged) = (record.verdict.base.brain.clone(), record.verdict.identity.after.clone());
    harness
        .with_brain(&brain, move |brain| {
            passed.covers(&patch, &base_of(brain, &patch)?)?;
            let after = apply::identity(brain, Some(&apply::stage(brain, &patch, passed.writer())?))?;
            if Some(&after) != judged.as_ref() {
                return Err(Error::refused(format!(
                    "the patch makes the brain {after}, and something else was judged"
                ))
                .hint("have the patch evaluated and approved again, by this version of herm"));
            }
            apply::apply(brain, &patch, passed.writer(), because)
        })
        .await
}

/// Whether the patch of a verdict could be applied now, once `gate` opens. Gates open once: ask this before them.
pub async fn rehearse(harness: &Harness, record: &VerdictRecord, gate: Gate) -> Result<()> {
    allowed(harness, &record.patch)?;
    let (layout, record) = (harness.layout().clone(), record.clone());
    let brain = record.verdict.base.brain.clone();
    harness
        .with_brain(&brain, move |brain| {
            apply::rehearse(brain, &record.patch, gate.writer())?;
            check_base(&layout, &record, &base_of(brain, &record.patch)?)
        })
        .await
}

fn allowed(harness: &Harness, patch: &Patch) -> Result<()> {
    let brings_program = |change: &PatchChange| matches!(change, PatchChange::Tool { executable: Some(_), .. });
    if patch.changes().iter().any(brings_program) && !harness.permissions().process {
        return Err(Error::refused("the patch brings a program, and tools may not start processes here")
            .hint("allow it with `process = true` in `[tools]` of the configuration"));
    }
    Ok(())
}

/// A patch in a brain's lineage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineageEntry {
    /// The step that applied it.
    pub step: i64,
    /// The version it made.
    pub version: i64,
    /// What it was called.
    pub title: String,
    /// When the step was settled.
    pub at: Timestamp,
    /// Whether it was taken back since.
    pub taken_back: bool,
}

/// The patches that were applied to a brain, newest first.
pub fn lineage(reader: &Reader) -> Result<Vec<LineageEntry>> {
    let steps = reader.history(MOST_STEPS)?;
    let patched = steps.iter().filter(|step| step.kind == StepKind::Patch).map(|step| {
        let title = step.summary.strip_prefix(apply::SUMMARY).unwrap_or(&step.summary).to_owned();
        let taken_back = !stands(&steps, step.seq);
        LineageEntry { step: step.seq, version: step.version, title, at: step.at, taken_back }
    });
    Ok(patched.collect())
}

/// Whether a step still stands: it was not undone, or the undo was.
pub(super) fn stands(steps: &[StepRecord], seq: i64) -> bool {
    let is_undo = |step: &&StepRecord| step.seq > seq && step.kind.undoes() == Some(seq);
    // Newest first. Steps only ever undo earlier ones, so this ends.
    steps.iter().find(is_undo).is_none_or(|undo| !stands(steps, undo.seq))
}

/// Takes the step of a patch back, as a step of its own. What was changed again since is a conflict.
pub async fn take_back(harness: &Harness, brain: &BrainId, step: i64) -> Result<UndoOutcome> {
    let is_patch = lineage(&Reader::open(harness.layout(), brain)?)?.iter().any(|patch| patch.step == step);
    if !is_patch {
        return Err(Error::not_found(format!("step {step} of brain {brain} applied no patch"))
            .hint("`herm successor lineage ID` lists those that did; `herm brain undo` takes other steps back"));
    }
    harness
        .with_brain(brain, move |brain| {
            let undone = brain.undo(step, OnChanged::Refuse)?;
            // The indexes follow the tuning that holds.
            let followed = brain.tuning().and_then(|tuning| brain.try_migrations(&tuning.migrations));
            if let Err(error) = followed {
                // It is taken back all the same; the next open sees to the indexes.
                tracing::warn!(%error, "indexes of the tuning are not as it says yet");
            }
            Ok(undone)
        })
        .await
}
