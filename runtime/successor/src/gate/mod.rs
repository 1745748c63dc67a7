//! Gates: nothing is applied because of a verdict alone.
//!
//! - The human gate is [`approval`]: a steward signs for one patch, one brain as it is, one verdict, once.
//! - The mesh gate is [`mesh`]: nodes that do not trust each other's word verify a [`Proposal`] each by
//!   itself, sign a [`Vote`], and [`vote::tally`] counts. The count is a signed
//!   [`Consensus`].
//! - [`Gate`] says which of them must open. What comes through is [`Passed`]: nobody else can make one, and whoever
//!   applies a patch asks for it.
//!
//! Formats, rules and threats are in `docs/operate/gates.md`.

pub mod approval;
pub mod consensus;
mod decisions;
mod epoch;
mod http;
pub mod mesh;
pub mod missed;
mod node;
mod nonce;
mod proposer;
mod signed;
pub mod vote;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::{Base, Patch, Verdict};
use crate::clock::Moment;
use crate::error::{Error, Result};

pub use approval::{Approval, Decision, SignedApproval, Stewards};
pub use consensus::{Consensus, SignedConsensus};
pub use decisions::{DecisionBook, rejection};
pub use epoch::EpochBook;
pub use http::HttpTransport;
pub use mesh::{Member, Mesh, Proposal, SignedProposal, Transport, Verified, Verifier};
pub use missed::{Behind, Missed, SignedBehind};
pub use node::{Node, NodeParts};
pub use nonce::{Nonce, NonceBook};
pub use proposer::Concluded;
pub use signed::{Predicate, Signed, Subject};
pub use vote::{Question, SignedVote, Tally, Vote};

/// Which gates must open before a patch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// A steward approves.
    #[default]
    Human,
    /// The mesh agrees.
    Mesh,
    /// Both.
    Both,
}

impl Gate {
    /// The stable name.
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

    /// Opens, if what must be granted was granted, and all of it for the same patch, brain and verdict.
    pub fn open(self, granted: Vec<Granted>) -> Result<Passed> {
        let by_steward = granted.iter().any(|one| matches!(one.by, By::Steward(_)));
        let by_mesh = granted.iter().any(|one| matches!(one.by, By::Mesh(_)));
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
        let same = |one: &Granted| {
            one.patch_hash == first.patch_hash && one.base == first.base && one.verdict_hash == first.verdict_hash
        };
        if !all.all(same) {
            return Err(Error::refused("the gate stays shut: what was granted is not for the same patch and brain")
                .hint("have the same verdict approved by all who must approve"));
        }
        Ok(Passed { granted })
    }
}

/// What is brought to the gates, and what they go by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Brought<'a> {
    /// What was decided about the verdict, by whoever, and who the stewards are.
    pub decisions: Option<(&'a [SignedApproval], &'a Stewards)>,
    /// What the mesh said, and who its members are.
    pub consensus: Option<(&'a SignedConsensus, &'a Mesh, &'a EpochBook)>,
}

/// Passes all the gates that must open, or none: an approval is not used up because the mesh did not agree, nor the
/// other way round. `base_now` is the brain as it is at this moment.
pub fn pass(
    gate: Gate,
    brought: Brought<'_>,
    verdict: &Verdict,
    base_now: &Base,
    now: Moment,
    nonces: &mut NonceBook,
) -> Result<Passed> {
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

/// Who granted something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A steward, by key.
    Steward(String),
    /// Members of the mesh who approved, by key.
    Mesh(Vec<String>),
}

/// One gate has opened for one patch, one brain as it is, and one verdict. Only gates make it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Granted {
    patch_hash: String,
    base: Base,
    verdict_hash: String,
    by: By,
    document: String,
}

impl Granted {
    /// Who granted it.
    pub fn by(&self) -> &By {
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

/// Every gate that must open has opened. Whoever applies a patch asks for this, and asks it once more with the brain in
/// hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Passed {
    granted: Vec<Granted>,
}

impl Passed {
    /// Refuses another patch, or a brain that has moved since.
    pub fn covers(&self, patch: &Patch, base_now: &Base) -> Result<()> {
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
    pub fn granted(&self) -> &[Granted] {
        &self.granted
    }
}
