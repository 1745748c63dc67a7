//! Gates: nothing is applied because of a verdict alone.
//!
//! - The human gate is [`approval`]: a steward signs for one patch, one brain as it is, one verdict, once.
//! - The mesh gate is [`mesh`]: nodes that do not trust each other's word verify a [`MeshProposal`] each by itself,
//!   sign a [`Vote`], and [`vote::tally`] counts. The count is a signed [`Consensus`].
//! - [`Gate`] says which of them must open. What comes through is [`GatePass`]: nobody else can make one, and the
//!   code that applies a patch asks for it.
//!
//! Formats, rules and threats are in `docs/operate/gates.md`.

pub mod approval;
pub mod catch_up;
pub mod consensus;
mod decisions;
mod epoch;
mod http;
pub mod mesh;
mod node;
mod nonce;
mod proposer;
mod signed;
pub mod vote;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::{Patch, PatchBase, Verdict};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::skill::provenance::SkillWriter;

pub use approval::{ApprovalDecision, SignedApproval, StewardApproval, Stewards};
pub use catch_up::{CatchUpRequest, ClosedEpoch, SignedCatchUpRequest};
pub use consensus::{Consensus, SignedConsensus};
pub use decisions::{DecisionStore, rejection};
pub use epoch::VoteStore;
pub use http::HttpTransport;
pub use mesh::{Member, Mesh, MeshProposal, NodeVerdicts, PatchVerifier, SignedProposal, Transport};
pub use node::{MeshNode, MeshNodeParts};
pub use nonce::{Nonce, NonceStore};
pub use proposer::ProposalResult;
pub use signed::{Predicate, Signed, StatementSubject};
pub use vote::{SignedVote, Vote, VoteSubject, VoteTally};

/// Which gates must open before a patch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// A steward has to approve.
    #[default]
    Human,
    /// The mesh has to agree.
    Mesh,
    /// A steward has to approve and the mesh has to agree.
    Both,
}

impl Gate {
    /// The name in the configuration and in output: `human`, `mesh` or `both`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Mesh => "mesh",
            Self::Both => "both",
        }
    }

    /// Whether a steward must approve.
    pub fn needs_steward(self) -> bool {
        matches!(self, Self::Human | Self::Both)
    }

    /// Whether the mesh must agree.
    pub fn needs_mesh(self) -> bool {
        matches!(self, Self::Mesh | Self::Both)
    }

    /// As whom a patch writes skills that comes through: a steward who approves it is a person.
    pub fn writer(self) -> SkillWriter {
        if self.needs_steward() { SkillWriter::Person } else { SkillWriter::Patch }
    }

    /// Opens, if what must be granted was granted, and all of it for the same patch, brain and verdict.
    pub fn open(self, granted: Vec<GateGrant>) -> Result<GatePass> {
        let by_steward = granted.iter().any(|one| matches!(one.by, Grantor::Steward(_)));
        let by_mesh = granted.iter().any(|one| matches!(one.by, Grantor::Mesh(_)));
        if self.needs_steward() && !by_steward {
            return Err(Error::refused("the gate stays shut: no steward approved").hint("run `herm successor approve`"));
        }
        if self.needs_mesh() && !by_mesh {
            return Err(Error::refused("the gate stays shut: the mesh did not agree")
                .hint("propose the patch to the mesh, and wait for its votes"));
        }
        let mut all = granted.iter();
        let Some(first) = all.next() else {
            return Err(Error::refused("the gate stays shut: nobody granted anything"));
        };
        let same = |one: &GateGrant| {
            one.patch_hash == first.patch_hash && one.base == first.base && one.verdict_hash == first.verdict_hash
        };
        if !all.all(same) {
            return Err(Error::refused("the gate stays shut: what was granted is not for the same patch and brain")
                .hint("have the same verdict approved by all who must approve"));
        }
        Ok(GatePass { granted })
    }
}

/// What is brought to the gates, and what they go by.
#[derive(Debug, Clone, Copy, Default)]
pub struct GateEvidence<'a> {
    /// All that was decided about the verdict, also by keys of no steward, and who the stewards are.
    pub decisions: Option<(&'a [SignedApproval], &'a Stewards)>,
    /// What the mesh said, and who its members are.
    pub consensus: Option<(&'a SignedConsensus, &'a Mesh, &'a VoteStore)>,
}

/// Passes all the gates that must open, or none: an approval is not used up because the mesh did not agree, nor the
/// other way round. `base_now` is the brain as it is at this moment.
pub fn pass(
    gate: Gate,
    brought: GateEvidence<'_>,
    verdict: &Verdict,
    base_now: &PatchBase,
    now: Timestamp,
    nonces: &mut NonceStore,
) -> Result<GatePass> {
    let mut granted = Vec::new();
    let consensus = brought.consensus.filter(|_| gate.needs_mesh());
    let mut approval = None;
    if let Some((decisions, stewards)) = brought.decisions.filter(|_| gate.needs_steward()) {
        let (chosen, by_steward) = decisions::choose(decisions, verdict, base_now, stewards, now, nonces)?;
        approval = Some(chosen);
        granted.push(by_steward);
    }
    if let Some((consensus, mesh, _)) = consensus {
        granted.push(consensus::examine(consensus, verdict, base_now, mesh, nonces)?);
    }
    let passed = gate.open(granted)?;
    if let Some((consensus, _, epochs)) = consensus {
        consensus::close_with(epochs, consensus)?;
        consensus::spend(consensus, nonces)?;
    }
    if let Some(approval) = approval {
        approval::spend(approval, nonces)?;
    }
    Ok(passed)
}

/// Who let a patch through one gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grantor {
    /// A steward, by key.
    Steward(String),
    /// Members of the mesh who approved, by key.
    Mesh(Vec<String>),
}

/// One gate has opened for one patch, one brain as it is, and one verdict. Only gates make it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateGrant {
    patch_hash: String,
    base: PatchBase,
    verdict_hash: String,
    by: Grantor,
    document: String,
}

impl GateGrant {
    /// The steward or the members who let it through.
    pub fn by(&self) -> &Grantor {
        &self.by
    }

    /// The hash of the document that grants it.
    pub fn document(&self) -> &str {
        &self.document
    }

    /// The verdict it rests on.
    pub fn verdict_hash(&self) -> &str {
        &self.verdict_hash
    }
}

/// Every gate that must open has opened. The code that applies a patch asks for this, and checks it once more against
/// the brain as it then is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct GatePass {
    granted: Vec<GateGrant>,
}

impl GatePass {
    /// As whom the patch writes skills: see [`Gate::writer`].
    pub fn writer(&self) -> SkillWriter {
        match self.granted.iter().any(|one| matches!(one.by, Grantor::Steward(_))) {
            true => SkillWriter::Person,
            false => SkillWriter::Patch,
        }
    }

    /// Refuses another patch, or a brain that has moved since.
    pub fn covers(&self, patch: &Patch, base_now: &PatchBase) -> Result<()> {
        for one in &self.granted {
            if one.patch_hash != patch.hash() {
                return Err(Error::refused(format!(
                    "the gate opened for the patch {}, not for {}",
                    one.patch_hash,
                    patch.hash()
                )));
            }
            if let Some(moved) = one.base.moved(base_now) {
                return Err(Error::refused(format!(
                    "brain {} has moved since the gate opened: {moved}",
                    one.base.brain
                ))
                .hint("have the patch evaluated and approved again, for the brain as it is"));
            }
        }
        Ok(())
    }

    /// What was granted, for the record.
    pub fn granted(&self) -> &[GateGrant] {
        &self.granted
    }
}
