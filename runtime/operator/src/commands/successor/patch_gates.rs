//! The gates of this operator, as the loop knows them: looked at without using anything up, and gone through by the
//! commands that people use as well.

use async_trait::async_trait;
use herm::successor::VerdictRecord;
use herm::successor::auto::{GateStatus, PatchGates};
use herm::successor::gate::Mesh;
use herm::{BrainId, Error, Result};

use super::gates;
use crate::config::Settings;
use crate::operations::gate_status::{counted, standing};

/// The gates of this operator.
pub(super) struct OperatorGates {
    settings: Settings,
}

impl OperatorGates {
    /// As the settings say.
    pub(super) fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone() }
    }

    /// Runs a command as people do, on a thread of its own: it brings its own runtime.
    async fn command<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Settings) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let settings = self.settings.clone();
        let done = tokio::task::spawn_blocking(move || work(&settings));
        done.await.map_err(|_| Error::internal("a gate was interrupted"))?
    }
}

#[async_trait]
impl PatchGates for OperatorGates {
    async fn look(&self, record: &VerdictRecord) -> Result<GateStatus> {
        let (settings, record) = (self.settings.clone(), record.clone());
        let looking = tokio::task::spawn_blocking(move || standing(&settings, &record));
        looking.await.map_err(|_| Error::internal("looking at a gate was interrupted"))?
    }

    async fn ask(&self, record: &VerdictRecord) -> Result<GateStatus> {
        let gates = self.settings.gates()?;
        // Of a mesh that too few answered for, nothing is known: it is asked again.
        let is_open = |mesh: &Mesh| Ok::<_, Error>(counted(record, mesh)?.is_none_or(|(tally, _)| !tally.is_decided()));
        if gates.gate.needs_mesh() && gates.mesh.as_ref().map_or(Ok(true), is_open)? {
            let name = record.name.clone();
            self.command(move |settings| gates::propose(settings, &name, None)).await?;
        }
        self.look(record).await
    }

    async fn apply(&self, record: &VerdictRecord) -> Result<u64> {
        let name = record.name.clone();
        Ok(self.command(move |settings| gates::apply_verdict(settings, &name)).await?.version)
    }

    async fn take_back(&self, brain: &BrainId, step: i64) -> Result<u64> {
        let brain = brain.clone();
        let taken_back = self.command(move |settings| gates::take_back(settings, &brain, step)).await?;
        taken_back.version.ok_or_else(|| {
            Error::conflict("the brain did not move").hint("`herm brain history ID` shows what happened to it")
        })
    }
}
