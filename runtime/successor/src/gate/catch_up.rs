//! What a member missed while it was away: it asks the others which epochs were closed, and gets what closed them
//! with what was proposed. The proposer signed both, so it does not matter which member hands them on.

use serde::{Deserialize, Serialize};

use super::consensus::SignedConsensus;
use super::mesh::SignedProposal;
use super::node::MeshNode;
use super::nonce::Nonce;
use super::signed::{Predicate, Signed, StatementSubject};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, sha256};
use crate::receipt::PublicKey;

/// What the predicate of such a question is.
pub const CATCH_UP_TYPE: &str = "urn:herm:behind:1";
/// The most epochs in one answer: who missed more asks again.
const MOST_EPOCHS: u64 = 4;

/// What a member asks that may have missed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CatchUpRequest {
    /// The brain whose closed epochs are asked for.
    pub brain: BrainId,
    /// The last epoch of it that is closed here; 0 where there is none.
    pub closed: u64,
    /// Who asks, by key.
    pub node: String,
    /// Whom it asks, by key: nobody else answers.
    pub to: String,
    /// Makes it unlike any other.
    pub nonce: Nonce,
    /// When, by the clock of who asks: for readers, nothing rests on it.
    pub at: Timestamp,
}

/// Such a question with its member's signature.
pub type SignedCatchUpRequest = Signed<CatchUpRequest>;

impl Predicate for CatchUpRequest {
    const TYPE: &'static str = CATCH_UP_TYPE;
    const WHAT: &'static str = "a question for what was missed";

    fn subjects(&self) -> Vec<StatementSubject> {
        let asked = sha256(format!("{} {} {}", self.brain, self.closed, self.nonce).as_bytes());
        vec![StatementSubject::document("question", &asked)]
    }

    fn author(&self) -> Option<&str> {
        Some(&self.node)
    }
}

/// An epoch that was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedEpoch {
    /// The consensus that closed the epoch.
    pub consensus: SignedConsensus,
    /// What was proposed, where the member that answers has kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<SignedProposal>,
}

impl MeshNode {
    /// The question for what this node missed of a brain, to one member.
    pub fn behind(&self, brain: &BrainId, to: &PublicKey) -> Result<SignedCatchUpRequest> {
        let parts = self.parts();
        let asked = CatchUpRequest {
            brain: brain.clone(),
            closed: parts.book.closed(brain)?,
            node: self.key().to_string(),
            to: to.to_string(),
            nonce: Nonce::new(&*parts.random)?,
            at: parts.clock.now(),
        };
        Signed::seal(asked, &parts.signer)
    }

    /// What a member missed, as far as this node knows: the next epochs after the one it names, in order.
    pub fn missed(&self, asked: &SignedCatchUpRequest) -> Result<Vec<ClosedEpoch>> {
        let said = asked.predicate();
        if self.mesh().member(asked.key()).is_none() || said.to != self.key().to_string() {
            return Err(Error::refused(format!("{} is no member here, or asked somebody else", asked.key()))
                .hint("members of the mesh are named in `[mesh.members]` of each"));
        }
        let (book, first) = (self.book(), said.closed.saturating_add(1));
        let last = book.closed(&said.brain)?.min(first.saturating_add(MOST_EPOCHS - 1));
        let mut missed = Vec::new();
        for epoch in first..=last {
            if let Some(consensus) = book.closing(&said.brain, epoch)? {
                let proposal = book.asked(&consensus.predicate().about.proposal)?;
                missed.push(ClosedEpoch { consensus, proposal });
            }
        }
        Ok(missed)
    }
}
