//! The review queue: changes that are held for a person, changes that are proposed to be taken back, and work that
//! was mined from observations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::apply::{self, EvolverApproval, SkillApplyReason, SkillApplyResult};
use super::mining::{self, CandidateKind, ReviewCandidate, ReviewStatus};
use super::report::ChangeOutcome;
use super::rollback::{self, RollbackReport};
use super::verification::VerificationOptions;
use crate::brain::{Brain, OnChanged};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, Slug};
use crate::memory::{EvidenceView, EvolverRows, EvolverWriter, QueueRow, StoredWord};
use crate::skill::change::{SkillProposal, SkillUpdate};

/// How many rows are mined at a time.
const MINED_ROWS: usize = 500;

/// A change in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedReview {
    /// Its id in the queue.
    pub id: String,
    /// What a person said of it so far: one that was rejected is not brought up again.
    pub status: StoredWord<ReviewStatus>,
}

/// What is decided about changes of skills, and what waits.
#[derive(Debug, Default)]
pub(super) struct Decisions(Vec<QueueRow>);

impl Decisions {
    pub(super) fn read(rows: &EvolverRows<'_>) -> Result<Self> {
        rows.queue(None, Some(CandidateKind::Change)).map(Self)
    }

    /// What stands of a skill on evidence up to `last`: a person's no, or a change of this very text that
    /// waits. Newer evidence is a new question.
    pub(super) fn of(&self, skill: &Slug, text: Digest, last: i64) -> Option<QueuedReview> {
        let rests_on =
            |row: &&QueueRow| row.entry["metadata"]["through"].as_i64().is_some_and(|through| last <= through);
        let of_skill = || self.0.iter().filter(|row| row.skill.as_ref() == Some(skill)).filter(rests_on);
        let rejected = of_skill().find(|row| row.status == ReviewStatus::Rejected);
        let waits = || {
            let fits = |row: &&QueueRow| row.entry["metadata"]["expected_digest"] == json!(text);
            of_skill().filter(fits).find(|row| row.status == ReviewStatus::Pending)
        };
        rejected.or_else(waits).map(|row| QueuedReview { id: row.id.clone(), status: row.status.clone() })
    }
}

/// Holds a change until a person accepts it. One that waits for the same skill is superseded; one that was
/// decided about stays decided.
pub fn enqueue_update(brain: &mut Brain, change: &SkillUpdate, why: &str) -> Result<QueuedReview> {
    let content = serde_json::to_string(change)
        .map_err(|source| Error::internal("a change could not be written as JSON").because(source))?;
    let through = change.why["evidence"]["through"].as_i64();
    let digest = SkillProposal::from(change.clone()).digest();
    let candidate = ReviewCandidate::change(&change.skill, change.expected, digest, through, why);
    let row = row(brain.clock().now(), &candidate, Some(content))?;
    if let Some(known) = brain.evolver_rows().queued(&row.id)?
        && known.status != ReviewStatus::Superseded
    {
        return Ok(QueuedReview { id: known.id, status: known.status });
    }
    // What tasks propose is not the evolver's to put aside, and neither is a merge.
    let earlier: Vec<String> = waiting_changes(brain, &change.skill)?
        .into_iter()
        .filter(|row| row.entry["metadata"]["by"].is_null())
        .map(|row| row.id)
        .collect();
    brain.write_evolver_rows(|notes| {
        for old in &earlier {
            notes.set_status(old, ReviewStatus::Superseded, row.created_at)?;
        }
        match notes.enqueue(&row)? {
            true => Ok(true),
            false => notes.revive(&row),
        }
    })?;
    Ok(QueuedReview { id: row.id, status: row.status })
}

/// The row of a change that a task may not make by itself.
pub fn proposed_row(proposed: &SkillProposal, at: Timestamp, why: &str) -> Result<QueueRow> {
    let content = serde_json::to_string(proposed)
        .map_err(|source| Error::internal("a change could not be written as JSON").because(source))?;
    row(at, &ReviewCandidate::proposed(proposed, why), Some(content))
}

/// Holds merges of skills until a person accepts them. Others that wait are superseded: the skills are not as they were.
/// Returns the ids of those that wait now and did not before.
pub(super) fn enqueue_merges(brain: &mut Brain, merges: &[(SkillProposal, String)]) -> Result<Vec<String>> {
    let now = brain.clock().now();
    let mut rows = Vec::new();
    for (proposed, why) in merges {
        let content = serde_json::to_string(proposed)
            .map_err(|source| Error::internal("a change could not be written as JSON").because(source))?;
        rows.push(row(now, &ReviewCandidate::consolidation(proposed, why), Some(content))?);
    }
    let pending = brain.evolver_rows().queue(Some(ReviewStatus::Pending), Some(CandidateKind::Change))?;
    let merging = pending.iter().filter(|row| row.entry["metadata"]["by"] == mining::CONSOLIDATION);
    let stale = merging.filter(|old| !rows.iter().any(|row| row.id == old.id)).map(|old| &old.id);
    let stale: Vec<&String> = stale.collect();
    brain.write_evolver_rows(|notes| {
        for old in stale {
            notes.set_status(old, ReviewStatus::Superseded, now)?;
        }
        let mut new = Vec::new();
        for row in &rows {
            if notes.enqueue(row)? || notes.revive(row)? {
                new.push(row.id.clone());
            }
        }
        Ok(new)
    })
}

/// The skills of the merges that a person rejected: of each, the names of all of them.
pub(super) fn rejected_merges(rows: &EvolverRows<'_>) -> Result<Vec<BTreeSet<String>>> {
    let rejected = rows.queue(Some(ReviewStatus::Rejected), Some(CandidateKind::Change))?;
    let merges = rejected.iter().filter(|row| row.entry["metadata"]["by"] == mining::CONSOLIDATION);
    let names = |row: &QueueRow| {
        let merged = row.entry["metadata"]["merges"].as_array().cloned().unwrap_or_default();
        let merged = merged.into_iter().filter_map(|name| name.as_str().map(str::to_owned));
        merged.chain(row.skill.as_ref().map(|skill| skill.to_string())).collect()
    };
    Ok(merges.map(names).collect())
}

/// What accepting a queued change would do; `None` where the row is not a change.
pub fn proposed_of(row: &QueueRow) -> Option<SkillProposal> {
    row.content.as_deref().and_then(|content| serde_json::from_str(content).ok())
}

/// The held changes of a skill.
fn waiting_changes(brain: &Brain, skill: &Slug) -> Result<Vec<QueueRow>> {
    let rows = brain.evolver_rows().queue(Some(ReviewStatus::Pending), Some(CandidateKind::Change))?;
    Ok(rows.into_iter().filter(|row| row.skill.as_ref() == Some(skill)).collect())
}

/// Held changes of a skill that was changed otherwise can no longer be made.
pub(super) fn supersede(brain: &mut Brain, skill: &Slug) -> Result<()> {
    let held = waiting_changes(brain, skill)?;
    if held.is_empty() {
        return Ok(());
    }
    let now = brain.clock().now();
    brain.write_evolver_rows(|notes| {
        held.iter().try_for_each(|row| notes.set_status(&row.id, ReviewStatus::Superseded, now).map(|_| ()))
    })
}

fn row(at: Timestamp, candidate: &ReviewCandidate, content: Option<String>) -> Result<QueueRow> {
    candidate.check()?;
    let entry = serde_json::to_value(candidate)
        .map_err(|source| Error::internal("a candidate could not be written as JSON").because(source))?;
    Ok(QueueRow {
        id: candidate.id.clone(),
        kind: candidate.kind.into(),
        skill: candidate.target_skill.clone(),
        status: ReviewStatus::Pending.into(),
        entry,
        content,
        created_at: at,
        updated_at: at,
    })
}

/// Queues candidates; which of them are new.
pub fn enqueue(brain: &mut Brain, candidates: &[ReviewCandidate]) -> Result<Vec<bool>> {
    let now = brain.clock().now();
    let rows = candidates.iter().map(|candidate| row(now, candidate, None)).collect::<Result<Vec<_>>>()?;
    brain.write_evolver_rows(|notes: &EvolverWriter<'_>| rows.iter().map(|row| notes.enqueue(row)).collect())
}

/// The candidates that the newest evidence since `since` gives: what failed, as work for a person.
pub fn mine_evidence(evidence: &EvidenceView<'_>, since: Timestamp) -> Result<Vec<ReviewCandidate>> {
    let rows = evidence.recent(since, MINED_ROWS)?;
    let found = rows.iter().filter_map(mining::from_evidence).map(|observation| mining::mine(&observation));
    let mut candidates: Vec<ReviewCandidate> =
        found.filter(|candidate| candidate.kind != CandidateKind::Ignore).collect();
    candidates.sort_by(|a, b| a.id.cmp(&b.id));
    candidates.dedup_by(|a, b| a.id == b.id);
    Ok(candidates)
}

/// Proposes to take back changes whose skills did worse since; the ids of those that wait now. One that a
/// person rejected is not brought up again.
pub fn propose_rollbacks(brain: &mut Brain, outcomes: &[ChangeOutcome]) -> Result<Vec<String>> {
    let worse: Vec<ReviewCandidate> =
        outcomes.iter().filter(|outcome| outcome.proposed_rollback).map(ChangeOutcome::candidate).collect();
    if worse.is_empty() {
        return Ok(Vec::new());
    }
    enqueue(brain, &worse)?;
    let waiting = brain.evolver_rows().queue(Some(ReviewStatus::Pending), Some(CandidateKind::Rollback))?;
    let ids = worse.into_iter().map(|candidate| candidate.id);
    Ok(ids.filter(|id| waiting.iter().any(|row| row.id == *id)).collect())
}

/// What accepting something did.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewOutcome {
    /// The change was made, or could not be.
    Change(SkillApplyResult),
    /// The change was taken back, or could not be.
    Rollback(RollbackReport),
    /// Noted; the work itself is a person's.
    Noted,
}

impl ReviewOutcome {
    /// Whether it came to what was wanted.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Change(applied) => applied.applied || applied.reason == SkillApplyReason::Unchanged,
            Self::Rollback(rolled_back) => rolled_back.is_as_before(),
            Self::Noted => true,
        }
    }
}

/// The changes of skills that wait, by their ids.
pub fn waiting_proposals(rows: &EvolverRows<'_>) -> Result<Vec<(String, SkillProposal)>> {
    let mut waiting = Vec::new();
    for row in rows.queue(Some(ReviewStatus::Pending), Some(CandidateKind::Change))? {
        // A list has no contents.
        let proposed = rows.queued(&row.id)?.as_ref().and_then(proposed_of);
        waiting.extend(proposed.map(|proposed| (row.id, proposed)));
    }
    Ok(waiting)
}

/// A change that waits.
pub fn waiting_proposal(rows: &EvolverRows<'_>, brain: &BrainId, id: &str) -> Result<SkillProposal> {
    let row = pending_of(rows, brain, id)?;
    proposed_of(&row)
        .ok_or_else(|| Error::refused(format!("{id} is not a change of a skill")).hint("accept or reject it by hand"))
}

/// Makes a change that rehearsals proved. Nobody approved this one: it is as unattended as a pass with a standing approval,
/// and its manifest says what the rehearsals found.
pub fn accept_proven(
    brain: &mut Brain,
    id: &str,
    verification: &VerificationOptions,
    found: &Value,
) -> Result<ReviewOutcome> {
    accept_as(brain, id, EvolverApproval::Standing, verification, Some(found))
}

/// Accepts something that waits. What cannot be done stays pending.
pub fn accept(brain: &mut Brain, id: &str, verification: &VerificationOptions) -> Result<ReviewOutcome> {
    accept_as(brain, id, EvolverApproval::Given, verification, None)
}

fn accept_as(
    brain: &mut Brain,
    id: &str,
    approval: EvolverApproval,
    verification: &VerificationOptions,
    found: Option<&Value>,
) -> Result<ReviewOutcome> {
    let row = pending(brain, id)?;
    let accepted = match row.kind.required()? {
        CandidateKind::Change => {
            let content = row.content.as_deref().unwrap_or_default();
            let mut proposed: SkillProposal = serde_json::from_str(content).map_err(|source| {
                Error::corrupt(format!("the change {id} is not one herm wrote"))
                    .hint("reject it; the next pass makes a new one")
                    .because(source)
            })?;
            let (content, expected) = (json!(proposed.digest()), json!(proposed.change.expected));
            let about = &row.entry["metadata"];
            if about["content_digest"] != content || about["expected_digest"] != expected {
                return Err(Error::corrupt(format!("the change {id} is not the one that was reviewed"))
                    .hint("reject it; the next pass makes a new one"));
            }
            if let (Some(found), Some(why)) = (found, proposed.change.why.as_object_mut()) {
                why.insert("rehearsed".to_owned(), found.clone());
            }
            ReviewOutcome::Change(apply::apply_proposed(brain, &proposed, approval, verification)?)
        }
        CandidateKind::Rollback => {
            let first = row.entry["metadata"]["first"].as_i64().unwrap_or(i64::MAX);
            ReviewOutcome::Rollback(rollback_since(brain, row.skill.as_ref(), first)?)
        }
        _ => ReviewOutcome::Noted,
    };
    if accepted.is_done() {
        set(brain, id, ReviewStatus::Accepted)?;
    }
    Ok(accepted)
}

/// Takes the changes of a skill back from the newest to the one of step `first`; how the last of them went.
fn rollback_since(brain: &mut Brain, skill: Option<&Slug>, first: i64) -> Result<RollbackReport> {
    let changes = brain.evolver_rows().changes(skill)?;
    let standing = changes.iter().filter(|change| change.step >= first && change.rolled_back_at.is_none());
    let steps: Vec<i64> = standing.map(|change| change.step).collect();
    let mut last = None;
    for step in steps {
        let done = rollback::rollback(brain, step, OnChanged::Refuse)?;
        let goes_on = done.is_as_before();
        last = Some(done);
        if !goes_on {
            break;
        }
    }
    last.ok_or_else(|| {
        Error::conflict("none of these changes stands any more").hint("reject the entry: there is nothing to take back")
    })
}

/// Rejects something that waits.
pub fn reject(brain: &mut Brain, id: &str) -> Result<()> {
    pending(brain, id)?;
    set(brain, id, ReviewStatus::Rejected)
}

fn set(brain: &mut Brain, id: &str, status: ReviewStatus) -> Result<()> {
    let now = brain.clock().now();
    brain.write_evolver_rows(|notes| notes.set_status(id, status, now)).map(|_| ())
}

fn pending(brain: &Brain, id: &str) -> Result<QueueRow> {
    pending_of(&brain.evolver_rows(), brain.id(), id)
}

fn pending_of(rows: &EvolverRows<'_>, brain: &BrainId, id: &str) -> Result<QueueRow> {
    let row = rows.queued(id)?.ok_or_else(|| {
        Error::not_found(format!("there is nothing {id:?} in the queue of brain {brain}"))
            .hint(format!("see what waits with `herm evolve queue list {brain}`"))
    })?;
    match row.status == ReviewStatus::Pending {
        true => Ok(row),
        false => Err(Error::conflict(format!("{id} was {} already", row.status)).hint("nothing more is to be done")),
    }
}

/// What a queue row says, for people and programs: its entry with its status.
pub fn to_json(row: &QueueRow) -> Value {
    let mut entry = row.entry.clone();
    if let Some(fields) = entry.as_object_mut() {
        fields.insert("status".to_owned(), json!(row.status));
        fields.insert("created_at".to_owned(), json!(row.created_at));
        fields.insert("updated_at".to_owned(), json!(row.updated_at));
    }
    entry
}
