//! A patch that becomes a step, through the gates, and is taken back.

use std::path::{Path, PathBuf};

use herm::successor::audit::{APPROVAL_FILE as APPROVAL, CONSENSUS_FILE as CONSENSUS};
use herm::successor::gate::{
    self, DecisionStore, GateEvidence, NonceStore, SignedApproval, SignedConsensus, VoteStore,
};
use herm::successor::{VerdictRecord, base_from_reader, lineage};
use herm::{BrainId, Clock as _, Digest, Error, Harness, Reader, Result, SystemClock, fsio};
use serde::{Deserialize, Serialize};

use crate::config::Settings;

/// The largest document of a gate, in bytes.
pub(super) const MAX_GATE_DOCUMENT: u64 = 8 << 20;

/// A patch that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppliedPatch {
    /// The patch's title. The document for programs has never had it.
    #[serde(skip_serializing, default)]
    pub(crate) title: String,
    /// The brain that moved.
    pub(crate) brain: BrainId,
    /// Its version after the step.
    pub(crate) version: u64,
    /// Its bundle hash after the step.
    pub(crate) after: Digest,
    /// The runtime's identity before and after.
    pub(crate) identity: IdentityChange,
    /// The number of the step: what `rollback` takes back.
    pub(crate) step: i64,
}

/// The identity of the runtime as a brain tunes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdentityChange {
    before: String,
    pub(crate) after: String,
}

/// A patch that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakenBackPatch {
    /// The brain whose patch was taken back.
    pub(crate) brain: BrainId,
    /// The step that had applied the patch.
    pub(crate) step: i64,
    /// The brain's version now; nothing where the step had been taken back before.
    pub(crate) version: Option<u64>,
}

/// Applies the patch of a verdict with a harness that can own its brain. An approval is good for one time: it is not used
/// up for what could not be done anyway.
pub(crate) async fn apply_with(harness: &Harness, settings: &Settings, record: &VerdictRecord) -> Result<AppliedPatch> {
    if record.envelope.keyid() != Some(settings.signer.get()?.public().to_string().as_str()) {
        return Err(Error::refused("the verdict is not one that this operator signed")
            .hint("evaluate the patch here: a verdict counts where it was made"));
    }
    herm::successor::rehearse(harness, record, settings.gates()?.gate).await?;
    let (asked, about) = (settings.clone(), record.clone());
    let passed = tokio::task::spawn_blocking(move || open_gates(&asked, &about))
        .await
        .map_err(|_| Error::internal("asking the gates was interrupted"))??;
    let applied = herm::successor::adopt(harness, record, &passed).await?;
    let (brain, settled) = (&record.verdict.base.brain, &applied.settled);
    let step = step_of(settings, brain)?;
    Ok(AppliedPatch {
        title: record.patch.title().to_owned(),
        brain: brain.clone(),
        version: settled.version,
        after: settled.after,
        identity: IdentityChange { before: applied.identity.0, after: applied.identity.1 },
        step,
    })
}

/// Takes a patch back with a harness that can own its brain.
pub(crate) async fn take_back_with(harness: &Harness, id: &BrainId, step: i64) -> Result<TakenBackPatch> {
    let undone = herm::successor::take_back(harness, id, step).await?;
    Ok(TakenBackPatch { brain: id.clone(), step, version: undone.settled.map(|settled| settled.version) })
}

/// The last step that applied a patch.
fn step_of(settings: &Settings, brain: &BrainId) -> Result<i64> {
    Ok(lineage(&Reader::open(&settings.layout, brain)?)?.first().map_or(0, |patch| patch.step))
}

/// Every decision about a verdict: those that were signed here, and one that was put beside it.
pub(super) fn decisions(settings: &Settings, record: &VerdictRecord) -> Result<Vec<SignedApproval>> {
    let mut decisions = DecisionStore::open(&settings.layout)?.about(&record.verdict.hash()?)?;
    if record.path.join(APPROVAL).symlink_metadata().is_ok() {
        decisions.push(SignedApproval::parse(&document(record, APPROVAL, "herm successor approve")?)?);
    }
    Ok(decisions)
}

/// Asks every gate that must open.
fn open_gates(settings: &Settings, record: &VerdictRecord) -> Result<gate::GatePass> {
    let gates = settings.gates()?;
    let base_now = base_from_reader(&Reader::open(&settings.layout, &record.verdict.base.brain)?, &record.patch)?;
    let mut nonces = NonceStore::open(&settings.layout)?;
    let decisions = match gates.gate.needs_steward() {
        true => Some(decisions(settings, record)?),
        false => None,
    };
    if decisions.as_ref().is_some_and(Vec::is_empty) {
        return Err(missing(record, APPROVAL, "herm successor approve"));
    }
    let consensus = match gates.gate.needs_mesh() {
        true => Some(SignedConsensus::parse(&document(record, CONSENSUS, "herm successor propose")?)?),
        false => None,
    };
    let epochs = VoteStore::open(&settings.layout)?;
    let brought = GateEvidence {
        decisions: decisions.as_deref().map(|decisions| (decisions, &gates.stewards)),
        consensus: consensus.as_ref().zip(gates.mesh.as_ref()).map(|(signed, mesh)| (signed, mesh, &epochs)),
    };
    gate::pass(gates.gate, brought, &record.verdict, &base_now, SystemClock.now(), &mut nonces)
}

fn missing(record: &VerdictRecord, name: &str, command: &str) -> Error {
    Error::refused(format!("the gate stays shut: verdict {} has no {name}", record.name))
        .hint(format!("run `{command} {}` first", record.name))
}

fn document(record: &VerdictRecord, name: &str, command: &str) -> Result<String> {
    let path: PathBuf = record.path.join(name);
    let bytes = fsio::read_regular(Path::new(&path), 8 << 20).map_err(|_| missing(record, name, command))?;
    String::from_utf8(bytes).map_err(|_| Error::corrupt(format!("{name} is not text")).hint("make it again"))
}
