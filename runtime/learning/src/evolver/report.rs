//! What the evidence says: counts by skill and tool, the newest rows, and how skills did before and
//! after each change that was applied to them. Read-only.

use serde::Serialize;
use serde_json::json;

use super::EvidenceRow;
use super::mining::ReviewCandidate;
use super::outcome::{Estimate, OutcomeComparison, OutcomeSample, OutcomeVerdict, compare};
use super::view::EvolverView;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::Slug;
use crate::memory::{EvidenceSummary, EvolverChange, OutcomeCounts, SessionEvidence, TurnEvidence, window_start};

/// How many rows and turns are shown.
const SHOWN_ROWS: usize = 20;
const SHOWN_TURNS: usize = 10;
/// How far back from a change its "before" reaches.
const BEFORE_DAYS: i64 = 30;
const DAY: i64 = 86_400_000;

/// What the evidence says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvidenceReport {
    /// How many days it covers.
    pub days: u32,
    /// The skill it is about; all where none is named.
    pub skill: Option<Slug>,
    /// Where the window begins.
    pub since: Timestamp,
    /// How many events, errors, turns and skills the window has.
    pub summary: EvidenceSummary,
    /// How good the answers of its tasks were, as far as is known.
    pub task_outcomes: OutcomeCounts,
    /// The newest tool events.
    pub skill_evidence: Vec<EvidenceRow>,
    /// The newest questions and answers.
    pub recent_turns: Vec<(i64, TurnEvidence)>,
    /// How skills did before and after the changes that were applied to them.
    pub outcomes: Vec<ChangeOutcome>,
}

/// How a skill did before and after a change, or several that followed on each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeOutcome {
    /// The step that applied the last of the changes.
    pub manifest: i64,
    /// The step that applied the first of them.
    pub first: i64,
    /// How many they are.
    pub changes: usize,
    /// The skill that was changed.
    pub skill: Slug,
    /// When the first was applied.
    pub applied_at: Timestamp,
    /// When it was taken back.
    pub rolled_back_at: Option<Timestamp>,
    /// Before and after, with counts and intervals.
    #[serde(flatten)]
    pub outcome: OutcomeComparison,
    /// Whether there is enough evidence that it got worse, and the change still stands.
    pub proposed_rollback: bool,
}

impl ChangeOutcome {
    /// The proposal to take the change back.
    pub fn candidate(&self) -> ReviewCandidate {
        let (before, after) = (&self.outcome.before, &self.outcome.after);
        let of = |estimate: Option<Estimate>| estimate.map_or(0.0, |estimate| estimate.value);
        let score_fell = self.outcome.score_change.is_some_and(|change| change.high < 0.0);
        let errors_rose = self.outcome.error_rate_change.is_some_and(|change| change.low > 0.0);
        let why = match (score_fell, errors_rose) {
            (true, _) => format!(
                "since step {} the mean score of answers went from {:.2} to {:.2}",
                self.first,
                of(before.mean_score),
                of(after.mean_score)
            ),
            (false, true) => format!(
                "since step {} errors went from {:.0} % to {:.0} % of calls",
                self.first,
                of(before.error_rate) * 100.0,
                of(after.error_rate) * 100.0
            ),
            (false, false) => format!(
                "since step {} turns went from {:.1} to {:.1} a session",
                self.first,
                of(before.mean_turns),
                of(after.mean_turns)
            ),
        };
        ReviewCandidate::rollback(&self.skill, self.first, &why)
    }
}

/// Reads the evidence of the last `days` days, of one skill or of all.
pub fn report(ground: &EvolverView<'_>, days: u32, skill: Option<&Slug>) -> Result<EvidenceReport> {
    let since = window_start(ground.now, days);
    let mut summary = ground.evidence.summary(since)?;
    let mut task_outcomes = OutcomeCounts::default();
    if let Some(skill) = skill {
        let tally = ground.evidence.counts_of(skill, since)?;
        summary.tool_events = tally.events;
        summary.error_events = tally.errors;
        summary.skill_events = tally.skill_events;
        summary.skills.retain(|tally| tally.skill == *skill);
        summary.tools.clear();
        let sessions = ground.evidence.sessions_with(skill, since, Timestamp(i64::MAX))?;
        for session in &sessions {
            task_outcomes.add(ground.evidence.value_of(session)?, 1);
        }
        summary.session_events = sessions.len() as u64;
        summary.turn_events = ground.evidence.turns_with(skill, since, usize::MAX)?.len() as u64;
    } else {
        task_outcomes = ground.evidence.outcome_counts(since)?;
    }
    let skill_evidence = match skill {
        Some(skill) => ground.evidence.of_skill(skill, since, SHOWN_ROWS)?,
        None => ground.evidence.recent(since, SHOWN_ROWS)?,
    };
    Ok(EvidenceReport {
        days,
        skill: skill.cloned(),
        since,
        summary,
        task_outcomes,
        skill_evidence,
        recent_turns: match skill {
            Some(skill) => ground.evidence.turns_with(skill, since, SHOWN_TURNS)?,
            None => ground.evidence.recent_turns(since, SHOWN_TURNS)?,
        },
        outcomes: outcomes(ground, skill)?,
    })
}

/// Changes of a skill that are judged together: notes are written anew with every day's evidence, and a
/// day is too short to say what came of them.
struct Era<'a> {
    skill: &'a Slug,
    /// The changes of the era, oldest first.
    changes: Vec<&'a EvolverChange>,
    begun: Timestamp,
    /// When it was taken back, or the next era of the skill began.
    ended: Option<Timestamp>,
}

/// The eras of the changes, which are given newest first; newest first.
fn eras(changes: &[EvolverChange]) -> Vec<Era<'_>> {
    let is_notes = |change: &EvolverChange| change.manifest["what"] == "notes";
    let mut eras: Vec<Era<'_>> = Vec::new();
    for change in changes.iter().rev() {
        let Some(begun) = applied_at(change) else { continue };
        let current = eras.iter_mut().rev().find(|era| era.skill == &change.skill);
        if let Some(era) = current {
            let goes_on = era.ended.is_none() && is_notes(change) && era.changes.iter().all(|one| is_notes(one));
            if goes_on {
                era.changes.push(change);
                era.ended = change.rolled_back_at;
                continue;
            }
            era.ended.get_or_insert(begun);
        }
        eras.push(Era { skill: &change.skill, changes: vec![change], begun, ended: change.rolled_back_at });
    }
    eras.reverse();
    eras
}

/// How skills did before and after their changes, newest first. Notes that follow on notes are one era:
/// before the first of them, and since.
pub fn outcomes(ground: &EvolverView<'_>, skill: Option<&Slug>) -> Result<Vec<ChangeOutcome>> {
    let changes = ground.rows.changes(skill)?;
    let eras = eras(&changes);
    let mut outcomes = Vec::new();
    for (at, era) in eras.iter().enumerate() {
        let (Some(first), Some(last)) = (era.changes.first(), era.changes.last()) else { continue };
        let older = eras.iter().skip(at + 1).find(|older| older.skill == era.skill);
        // From when the text was last what it was just before.
        let from = older.and_then(|older| older.ended).unwrap_or(Timestamp(i64::MIN));
        let earliest = Timestamp(era.begun.millis().saturating_sub(BEFORE_DAYS * DAY)).max(from);
        let before = ground.evidence.sessions_with(era.skill, earliest, era.begun)?;
        let after = ground.evidence.sessions_with(era.skill, era.begun, era.ended.unwrap_or(ground.now))?;
        let outcome = compare(&sample(ground, &before)?, &sample(ground, &after)?);
        outcomes.push(ChangeOutcome {
            manifest: last.step,
            first: first.step,
            changes: era.changes.len(),
            skill: era.skill.clone(),
            applied_at: era.begun,
            rolled_back_at: last.rolled_back_at,
            outcome,
            proposed_rollback: era.ended.is_none() && outcome.verdict == OutcomeVerdict::Worse,
        });
    }
    Ok(outcomes)
}

fn applied_at(change: &EvolverChange) -> Option<Timestamp> {
    serde_json::from_value(change.manifest.get("appliedAt").cloned().unwrap_or(json!(null))).ok()
}

fn sample(ground: &EvolverView<'_>, sessions: &[SessionEvidence]) -> Result<OutcomeSample> {
    let mut sample = OutcomeSample::default();
    for session in sessions {
        sample.sessions += 1;
        sample.calls += u64::from(session.calls);
        sample.errors += u64::from(session.errors);
        sample.turns_sum += u64::from(session.turns);
        sample.turns_squares += u64::from(session.turns) * u64::from(session.turns);
        sample.completed += u64::from(session.completed);
        if let Some(score) = ground.evidence.value_of(session)?.score() {
            sample.rated += 1;
            sample.score_hundredths += hundredths(score);
        }
    }
    Ok(sample)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number from 0 to 100")]
fn hundredths(score: f64) -> u64 {
    (score.clamp(0.0, 1.0) * 100.0).round() as u64
}
