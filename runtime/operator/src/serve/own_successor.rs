//! How this operator verifies the proposals of others: with a successor of its own, on its own copy of the brain.

use std::sync::Arc;

use async_trait::async_trait;
use herm::successor::gate::{Proposal, Verifier};
use herm::successor::{Base, Budget, Verdict};
use herm::{BrainId, Error, Layout, Reader, Result};

use crate::config::Settings;

/// A successor of this operator's own.
struct OwnSuccessor {
    settings: Settings,
    budget: Budget,
}

/// Who verifies here.
pub(super) fn verifier(settings: &Settings) -> Result<Arc<dyn Verifier>> {
    let budget = settings.said.mesh.clone().unwrap_or_default().budget()?;
    Ok(Arc::new(OwnSuccessor { settings: settings.clone(), budget }))
}

#[async_trait]
impl Verifier for OwnSuccessor {
    async fn base(&self, brain: &BrainId) -> Result<Base> {
        let (layout, brain) = (self.settings.layout.clone(), brain.clone());
        let looking = tokio::task::spawn_blocking(move || base_of(&layout, &brain));
        looking.await.map_err(|_| Error::internal("looking at a brain was interrupted"))?
    }

    async fn verify(&self, proposal: &Proposal) -> Result<Verdict> {
        evaluate(&self.settings, proposal, self.budget).await
    }
}

/// A brain as it is here.
fn base_of(layout: &Layout, brain: &BrainId) -> Result<Base> {
    let reader = Reader::open(layout, brain)?;
    let lock = reader.lock();
    Ok(Base { brain: brain.clone(), version: lock.version, bundle_hash: lock.bundle_hash })
}

/// The one place where a proposal of another member meets the successor.
async fn evaluate(_: &Settings, _: &Proposal, _: Budget) -> Result<Verdict> {
    Err(Error::unavailable("this herm has no successor yet").hint("use a build that has one"))
}
