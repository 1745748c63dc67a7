//! How this operator verifies the proposals of others: with a successor of its own, on its own copy of the brain.

use std::sync::Arc;

use async_trait::async_trait;
use herm::successor::gate::{Proposal, Verifier};
use herm::successor::{Base, Budget, SuccessorFork, Verdict};
use herm::{BrainId, Error, Harness, Reader, Result};

/// A successor of this operator's own.
struct OwnSuccessor {
    harness: Harness,
    budget: Budget,
}

/// Who verifies here, within a budget.
pub(crate) fn verifier(harness: &Harness, budget: Budget) -> Arc<dyn Verifier> {
    Arc::new(OwnSuccessor { harness: harness.clone(), budget })
}

#[async_trait]
impl Verifier for OwnSuccessor {
    async fn base(&self, brain: &BrainId) -> Result<Base> {
        let (layout, brain) = (self.harness.layout().clone(), brain.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let reader = Reader::open(&layout, &brain)?;
            let lock = reader.lock();
            Ok(Base { brain, version: lock.version, bundle_hash: lock.bundle_hash })
        });
        looking.await.map_err(|_| Error::internal("looking at a brain was interrupted"))?
    }

    async fn verify(&self, proposal: &Proposal) -> Result<Verdict> {
        let mut fork = SuccessorFork::new(&self.harness, &proposal.base.brain, proposal.patch()?).await?;
        let verdict = fork.evaluate(&proposal.evaluation, self.budget).await;
        // The verdict is what was asked for; what is left of the fork is swept when the next one is made.
        if let Err(error) = fork.destroy().await {
            tracing::warn!(%error, "what a successor left is still there");
        }
        verdict
    }
}
