//! A pass over the skills with enough evidence: who is eligible, what each block would say, and, where
//! the operator allows it, the changes themselves, each a step of its own.

mod plan;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::EvidenceCounts;
use super::apply::{self, EvolverApproval, SkillApplyResult, SkillUpdate};
use super::mining::ReviewStatus;
use super::policy::{EvolverPolicy, NOT_AGENT_CREATED, SkillSource};
use super::prepare::SizeStrategy;
use super::review_queue::{self, QueuedReview};
use super::rollback::{self, DrillGate};
use super::select::{RankedSkill, RankerChain, Selection};
use super::variants::Variant;
use super::verification::VerificationOptions;
use super::view::EvolverView;
use crate::brain::Brain;
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath, Slug};
use crate::skill::provenance::{SkillWriter, WriteRuling};

/// Why a skill is not changed whose last change is on trial.
pub const ON_TRIAL: &str = "last-change-on-trial";

/// The schema of a run's report.
pub const RUN_SCHEMA: &str = "herm/evolver-run/v1";

/// What a pass does with what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvolverPassMode {
    /// Says what it would do.
    DryRun,
    /// Holds each change until a person accepts it.
    Pending,
    /// Makes the changes, where there is an approval.
    ApplyLowRisk,
}

/// How a pass goes.
#[derive(Debug, Clone)]
pub struct EvolverPassOptions {
    /// How many days back it looks.
    pub days: u32,
    /// How many skills it changes at most.
    pub max_skills: usize,
    /// How many events make a skill eligible.
    pub min_evidence: u64,
    /// How many variants of a block are compared.
    pub variants: usize,
    /// Who may be changed.
    pub policy: EvolverPolicy,
    /// What happens with what it finds.
    pub mode: EvolverPassMode,
    /// Whether the operator said that it may write by itself.
    pub approval: EvolverApproval,
    /// What a change has to pass.
    pub verification: VerificationOptions,
    /// Whether the last change must have passed a drill.
    pub require_restore_drill: bool,
}

impl Default for EvolverPassOptions {
    fn default() -> Self {
        Self {
            days: 7,
            max_skills: 3,
            min_evidence: 2,
            variants: 1,
            policy: EvolverPolicy::default(),
            mode: EvolverPassMode::DryRun,
            approval: EvolverApproval::Missing,
            verification: VerificationOptions::default(),
            require_restore_drill: false,
        }
    }
}

impl EvolverPassOptions {
    /// Whether it puts anything into the queue: not where it only looks, or where nobody said yes.
    pub(super) fn may_hold(&self) -> bool {
        match self.mode {
            EvolverPassMode::DryRun => false,
            EvolverPassMode::Pending => true,
            EvolverPassMode::ApplyLowRisk => self.approval == EvolverApproval::Given,
        }
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        let within = |what: &str, value: u64, range: std::ops::RangeInclusive<u64>| match range.contains(&value) {
            true => Ok(()),
            false => {
                Err(Error::invalid(format!("{what} is {value}, and goes from {} to {}", range.start(), range.end()))
                    .hint("leave it out for the default"))
            }
        };
        within("days", u64::from(self.days), 1..=3650)?;
        within("max-skills", self.max_skills as u64, 1..=25)?;
        within("min-evidence", self.min_evidence, 1..=1000)?;
        within("variants", self.variants as u64, 1..=4)
    }
}

/// What became of a skill in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EvolverCandidateStatus {
    /// Its block is ready.
    Planned,
    /// Its block was written.
    Applied,
    /// Its block waits for a person.
    Pending,
    /// There is nothing new to say.
    Unchanged,
    /// It is left alone.
    Skipped,
}

/// A skill in a pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvolverCandidate {
    /// The skill that was looked at.
    pub skill_name: Slug,
    /// Always low: only the managed block is written.
    pub risk: &'static str,
    /// Why it stands where it does.
    pub selection: RankedSkill,
    /// Where its main file stands; none where there is no such file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_path: Option<RelPath>,
    /// Where it comes from.
    pub source: SkillSource,
    /// Whether it may be changed without a person.
    pub source_writable: bool,
    /// What became of it.
    pub status: EvolverCandidateStatus,
    /// Why it has this status: the name of a rule, or an error's message.
    pub reason: String,
    /// The new text and its variants; none where nothing was prepared.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlannedSkillUpdate>,
    /// How the change went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply_result: Option<SkillApplyResult>,
    /// Its id in the queue, where it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    #[serde(skip)]
    change: Option<SkillUpdate>,
    /// What only a person may do.
    #[serde(skip)]
    proposal: Option<SkillUpdate>,
}

/// What was prepared for a skill.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedSkillUpdate {
    /// How many variants were asked for.
    pub variants_requested: usize,
    /// The variants that were made, each with its score.
    pub variants: Vec<Variant>,
    /// The one that is written.
    pub selected_variant: Value,
    /// The digest of the main file now.
    pub current_digest: Digest,
    /// Whether the main file changes.
    pub new_content_changed: bool,
    /// Where the evidence goes.
    pub size_strategy: SizeStrategy,
    /// Support files that are written.
    pub support_files: Vec<&'static str>,
    /// How large it is and becomes.
    pub content_size: Value,
    /// How much evidence there is.
    pub evidence_summary: EvidenceCounts,
}

/// What a pass found and did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvolverPassReport {
    /// The format of the report and its version.
    pub schema_version: &'static str,
    /// What it does with what it finds.
    pub mode: EvolverPassMode,
    /// What keeps it safe.
    pub safety: Value,
    /// How it was asked for.
    pub config: Value,
    /// Who was eligible, and in which order.
    pub selection: Selection,
    /// How many of each.
    pub summary: Value,
    /// What ended the pass early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The skills that were looked at, in the order of the selection.
    pub candidates: Vec<EvolverCandidate>,
}

/// What a pass would do. Changes nothing.
pub fn plan(
    ground: &EvolverView<'_>,
    options: &EvolverPassOptions,
    ranking: RankerChain<'_>,
) -> Result<EvolverPassReport> {
    plan::beyond(ground, options, ranking, &Tried::default())
}

/// What was tried in a pass so far.
#[derive(Debug, Default)]
struct Tried {
    skills: BTreeSet<Slug>,
    /// How many of them changed, or wait to.
    changed: usize,
}

impl EvolverPassReport {
    /// How many skills were changed, or wait to be.
    pub fn changed(&self) -> usize {
        self.candidates.iter().filter(|one| one.is_done()).count()
    }

    fn count(&mut self) {
        let count = |status: EvolverCandidateStatus| self.candidates.iter().filter(|one| one.status == status).count();
        let (planned, applied, pending) = (
            count(EvolverCandidateStatus::Planned),
            count(EvolverCandidateStatus::Applied),
            count(EvolverCandidateStatus::Pending),
        );
        self.summary = json!({
            "planned": planned + applied + pending,
            "applied": applied,
            "pending": pending,
            "unchanged": count(EvolverCandidateStatus::Unchanged),
            "skipped": count(EvolverCandidateStatus::Skipped),
            "not_reached": self.selection.order.len().saturating_sub(self.candidates.len()),
        });
    }
}

/// Runs a pass over a brain: one `maintenance` step for each skill that changes. A skill whose change does
/// not verify gives its place to the next one, as long as not too many do.
pub fn run(
    brain: &mut Brain,
    options: &EvolverPassOptions,
    ranking: RankerChain<'_>,
    external: &[Slug],
) -> Result<EvolverPassReport> {
    let beyond = |brain: &Brain, tried: &Tried| {
        let ground = EvolverView::of_brain(brain)?.with_external(external.iter().cloned());
        plan::beyond(&ground, options, ranking, tried)
    };
    let mut tried = Tried::default();
    let mut run = beyond(brain, &tried)?;
    let taken_back = brain.undone_skills()?;
    let (mut attempts, mut from) = (0, 0);
    loop {
        for candidate in run.candidates.iter_mut().skip(from) {
            let Some(change) = candidate.change.take().or_else(|| candidate.proposal.take()) else { continue };
            let support = change.support.iter().filter_map(|(_, content)| content.as_deref());
            let written = [change.content.as_str()].into_iter().chain(support).map(str::as_bytes);
            let done = match brain.rule_on(SkillWriter::Evolver, &change.skill, written, &taken_back) {
                Err(error) => Err(error),
                Ok(WriteRuling::Allow) => {
                    attempts += 1;
                    carry_out(brain, options, candidate, &change)
                }
                Ok(WriteRuling::Propose(_)) => propose(brain, options, candidate, &change),
                Ok(WriteRuling::Refuse(_)) => {
                    (candidate.status, candidate.reason) =
                        (EvolverCandidateStatus::Skipped, "undone-needs-a-person".to_owned());
                    Ok(())
                }
            };
            if let Err(error) = done {
                // Said with what was done before it, which stands.
                (candidate.status, candidate.reason) = (EvolverCandidateStatus::Skipped, error.message().to_owned());
                run.error = Some(error.message().to_owned());
                break;
            }
            tried.changed += usize::from(candidate.is_done());
        }
        from = run.candidates.len();
        tried.skills.extend(run.candidates.iter().map(|one| one.skill_name.clone()));
        let writes = options.mode == EvolverPassMode::ApplyLowRisk && options.approval == EvolverApproval::Given;
        let is_over = tried.changed >= options.max_skills || attempts >= 2 * options.max_skills;
        if !writes || is_over || run.error.is_some() || from >= run.selection.order.len() {
            break;
        }
        run.candidates.extend(beyond(brain, &tried)?.candidates);
    }
    for candidate in run.candidates.iter_mut().filter(|one| one.change.is_some() || one.proposal.is_some()) {
        (candidate.status, candidate.reason) = (EvolverCandidateStatus::Skipped, "not-reached".to_owned());
    }
    run.count();
    Ok(run)
}

/// Puts a change into the queue that only a person may make. Where changes are made, it counts as skipped all the same.
fn propose(
    brain: &mut Brain,
    options: &EvolverPassOptions,
    candidate: &mut EvolverCandidate,
    change: &SkillUpdate,
) -> Result<()> {
    let held = review_queue::enqueue_update(brain, change, &format!("skill {} is not the agent's own", change.skill))?;
    candidate.hold(held);
    if options.mode == EvolverPassMode::ApplyLowRisk && candidate.status == EvolverCandidateStatus::Pending {
        (candidate.status, candidate.reason) = (EvolverCandidateStatus::Skipped, NOT_AGENT_CREATED.to_owned());
    }
    Ok(())
}

/// Does with one change what the mode says.
fn carry_out(
    brain: &mut Brain,
    options: &EvolverPassOptions,
    candidate: &mut EvolverCandidate,
    change: &SkillUpdate,
) -> Result<()> {
    match options.mode {
        EvolverPassMode::DryRun => {}
        EvolverPassMode::Pending => {
            let held = review_queue::enqueue_update(brain, change, &candidate.reason)?;
            candidate.hold(held);
        }
        EvolverPassMode::ApplyLowRisk if let Some(why) = drill_missing(brain, options)? => {
            (candidate.status, candidate.reason) = (EvolverCandidateStatus::Skipped, why);
        }
        // Changed again, it would never be known what the change was worth.
        EvolverPassMode::ApplyLowRisk if rollback::change_on_trial(brain, &change.skill)?.is_some() => {
            (candidate.status, candidate.reason) = (EvolverCandidateStatus::Skipped, ON_TRIAL.to_owned());
        }
        EvolverPassMode::ApplyLowRisk => {
            let applied = apply::apply(brain, change, options.approval.of_a_pass(), &options.verification)?;
            candidate.status =
                if applied.applied { EvolverCandidateStatus::Applied } else { EvolverCandidateStatus::Skipped };
            candidate.reason = match applied.reason {
                "approval-required" => "auto-approval-required".to_owned(),
                reason => reason.to_owned(),
            };
            candidate.apply_result = Some(applied);
        }
    }
    Ok(())
}

impl EvolverCandidate {
    /// Whether it was changed, or waits to be.
    fn is_done(&self) -> bool {
        matches!(self.status, EvolverCandidateStatus::Applied | EvolverCandidateStatus::Pending)
    }

    fn hold(&mut self, held: QueuedReview) {
        (self.status, self.reason) = match held.status == ReviewStatus::Pending.name() {
            true => (EvolverCandidateStatus::Pending, format!("held as {}", held.id)),
            false => (EvolverCandidateStatus::Skipped, format!("{}-before: {}", held.status, held.id)),
        };
        self.held = Some(held.id);
    }
}

/// Why a change must wait for a drill. Asked before each: the one before it is not drilled yet.
pub(super) fn drill_missing(brain: &Brain, options: &EvolverPassOptions) -> Result<Option<String>> {
    if !options.require_restore_drill {
        return Ok(None);
    }
    let rows = brain.evolver_rows();
    let gate = DrillGate::judge(&rows.changes(None)?, rows.drill()?.as_ref());
    Ok((!gate.is_open()).then(|| format!("restore-drill-required: {}", gate.name())))
}
