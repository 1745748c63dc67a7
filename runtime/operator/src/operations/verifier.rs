//! How this operator verifies the proposals of others: with a successor of its own, on its own copy of the brain.

use std::sync::Arc;

use async_trait::async_trait;
use herm::successor::gate::{MeshProposal, NodeVerdicts, PatchVerifier};
use herm::successor::{Evaluation, Patch, PatchBase, SuccessorFork, Verdict, VerdictRuling, base_from_reader};
use herm::{BrainId, Error, Harness, Reader, Result};

use crate::config::VerifyOptions;

/// A successor of this operator's own.
struct OwnSuccessor {
    harness: Harness,
    how: VerifyOptions,
}

/// The verifier of this operator, which judges proposals in forks of its own brains.
pub(crate) fn verifier(harness: &Harness, how: VerifyOptions) -> Arc<dyn PatchVerifier> {
    Arc::new(OwnSuccessor { harness: harness.clone(), how })
}

impl OwnSuccessor {
    /// Judges the patch of a proposal by an evaluation, in a fork that is gone afterwards.
    async fn judge(&self, proposal: &MeshProposal, evaluation: &Evaluation) -> Result<Verdict> {
        let mut fork = SuccessorFork::new(&self.harness, &proposal.base.brain, proposal.patch()?).await?;
        let verdict = fork.evaluate(evaluation, self.how.budget).await;
        // The verdict is what was asked for; what is left of the fork is swept when the next one is made.
        if let Err(error) = fork.destroy().await {
            tracing::warn!(%error, "what a successor left is still there");
        }
        verdict
    }
}

#[async_trait]
impl PatchVerifier for OwnSuccessor {
    async fn base(&self, brain: &BrainId, patch: &Patch) -> Result<PatchBase> {
        let (layout, brain, patch) = (self.harness.layout().clone(), brain.clone(), patch.clone());
        let looking = tokio::task::spawn_blocking(move || base_from_reader(&Reader::open(&layout, &brain)?, &patch));
        looking.await.map_err(|_| Error::internal("looking at a brain was interrupted"))?
    }

    async fn verify(&self, proposal: &MeshProposal) -> Result<NodeVerdicts> {
        let verdict = self.judge(proposal, &proposal.evaluation).await?;
        let local = match &self.how.local {
            Some(evaluation) if verdict.verdict == VerdictRuling::Approve => {
                Some(self.judge(proposal, evaluation).await?)
            }
            _ => None,
        };
        Ok(NodeVerdicts { verdict, local })
    }
}
