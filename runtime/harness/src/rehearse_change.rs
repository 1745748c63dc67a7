//! A change of a learned skill that waits for a person is rehearsed: kept tasks run with the skill as it would be, and as it
//! is. What is proven that way is made, what does harm is rejected, and anything else goes on waiting.

use serde::Serialize;
use serde_json::json;

use super::Harness;
use super::rehearse::{AnswerRater, Plan, RehearsalOptions, RehearsalReport};
use super::replay::blocking;
use crate::brain::Reader;
use crate::error::{Error, Result};
use crate::evolver::apply::SkillApplyResult;
use crate::evolver::review_queue::{self, ReviewOutcome};
use crate::ids::BrainId;
use crate::layout::Layout;
use crate::session::CancelToken;
use crate::skill::CreatedBy;
use crate::skill::change::{SkillAction, SkillProposal};
use crate::trial::paired::{self, PairedSummary, ScorePair};
use crate::trial::sequential::TrialVerdict;

/// What became of a change that was rehearsed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RehearsedChange {
    /// The pairs prove it, and it was made, or what stood in the way.
    Made(Box<SkillApplyResult>),
    /// The pairs show harm: it was rejected, and is not brought up again.
    Rejected,
    /// The pairs decide nothing: it waits for a person.
    Waits,
}

/// What the rehearsal of a change found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeRehearsal {
    /// The id of the change in the review queue.
    pub change: String,
    /// The tasks that ran, with the changed skill and with the skill as it is. No trial ends by it.
    #[serde(flatten)]
    pub report: RehearsalReport,
    /// What became of the change.
    pub came: RehearsedChange,
}

impl Harness {
    /// Rehearses a change from the review queue. Only a change of the text of a skill that the agent wrote itself can be;
    /// `NotFound` and `Conflict` say that the change does not wait, `Refused` that it is another kind of change.
    pub async fn rehearse_change(
        &self,
        id: &BrainId,
        change: &str,
        options: &RehearsalOptions,
    ) -> Result<ChangeRehearsal> {
        self.rehearse_change_until(id, change, options, None, &CancelToken::new()).await
    }

    pub(super) async fn rehearse_change_until(
        &self,
        id: &BrainId,
        change: &str,
        options: &RehearsalOptions,
        rater: Option<&dyn AnswerRater>,
        cancel: &CancelToken,
    ) -> Result<ChangeRehearsal> {
        let (layout, brain, name) = (self.layout().clone(), id.clone(), change.to_owned());
        let plan = blocking(move || plan_of(&layout, &brain, &name)).await?;
        let (mut report, _) = self.run_plan(id, options, rater, cancel, plan).await?;
        let pairs: Vec<ScorePair> =
            report.tasks.iter().map(|task| ScorePair { with: task.with, without: task.without }).collect();
        report.summary = paired::summarise(&pairs);
        let came = match paired::decide(&pairs).map(|decision| decision.verdict) {
            Some(TrialVerdict::Proven) => self.make(id, change, report.summary).await?,
            Some(TrialVerdict::Harmful) => {
                let name = change.to_owned();
                self.with_brain(id, move |brain| review_queue::reject(brain, &name)).await?;
                RehearsedChange::Rejected
            }
            Some(TrialVerdict::Unproven) | None => RehearsedChange::Waits,
        };
        Ok(ChangeRehearsal { change: change.to_owned(), report, came })
    }

    async fn make(&self, id: &BrainId, change: &str, found: PairedSummary) -> Result<RehearsedChange> {
        let evolving = self.inner.evolving.as_ref();
        let verification = evolving.map(|evolving| evolving.routine.options.verification.clone()).unwrap_or_default();
        let name = change.to_owned();
        let accepted = self
            .with_brain(id, move |brain| review_queue::accept_proven(brain, &name, &verification, &json!(found)))
            .await?;
        match accepted {
            ReviewOutcome::Change(applied) => Ok(RehearsedChange::Made(Box::new(applied))),
            ReviewOutcome::Rollback(_) | ReviewOutcome::Noted => {
                Err(Error::internal(format!("{change} is a change, and was taken for something else")))
            }
        }
    }
}

/// The changes of a brain that wait and can be rehearsed.
pub(super) fn waiting(reader: &Reader) -> Result<Vec<String>> {
    let usage = reader.usage()?;
    let waiting = review_queue::waiting_proposals(&reader.evolver_rows())?;
    let is_own = |proposed: &SkillProposal| {
        usage.get(&proposed.change.skill).is_some_and(|usage| usage.created_by == CreatedBy::Agent && !usage.pinned)
    };
    Ok(waiting.into_iter().filter(|(_, proposed)| is_text(proposed) && is_own(proposed)).map(|(id, _)| id).collect())
}

/// Whether a proposal changes the text of one skill, and nothing else.
fn is_text(proposed: &SkillProposal) -> bool {
    proposed.act == SkillAction::Edit && proposed.merges.is_empty()
}

fn plan_of(layout: &Layout, id: &BrainId, change: &str) -> Result<Plan> {
    let reader = Reader::open(layout, id)?;
    let proposed = review_queue::waiting_proposal(&reader.evolver_rows(), id, change)?;
    if !is_text(&proposed) {
        return Err(Error::refused(format!("{change} makes, archives or merges skills, and cannot be rehearsed"))
            .hint("look at it, and accept or reject it by hand"));
    }
    // Also refuses skills that people wrote or pinned.
    Plan::of_change(&reader, &proposed.change)
}
