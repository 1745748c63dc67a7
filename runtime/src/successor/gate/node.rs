//! A node of the mesh: it takes proposals of other members, verifies each by itself, and gives one vote.

use std::sync::Arc;

use super::consensus::{SignedConsensus, close_with};
use super::epoch::EpochBook;
use super::mesh::{Mesh, Proposal, SignedProposal, Verifier};
use super::nonce::Nonce;
use super::signed::Signed;
use super::vote::{SignedVote, Tally, Vote};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::ids::Random;
use crate::receipt::{PublicKey, Signer};
use crate::successor::Ruling;

/// What a node is made of.
#[derive(Clone)]
pub struct NodeParts {
    /// The members.
    pub mesh: Mesh,
    /// The node's own key, a member's.
    pub signer: Signer,
    /// What it remembers.
    pub book: EpochBook,
    /// Who verifies.
    pub verifier: Arc<dyn Verifier>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

/// A node. Cheap to clone.
#[derive(Clone)]
pub struct Node(Arc<NodeParts>);

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({})", self.0.signer.public())
    }
}

/// Why a node rejects without looking at the patch: the brain here is not the one that was proposed for.
const ANOTHER_BASE: &str = "another_base";

impl Node {
    /// A node of these parts. Its key must be a member's: nobody would count its votes.
    pub fn new(parts: NodeParts) -> Result<Self> {
        let key = parts.signer.public();
        if parts.mesh.member(key).is_none() {
            return Err(Error::invalid(format!("this operator's key {key} is not among the members of the mesh"))
                .hint("name it in `[mesh.members]`; `herm receipts key` prints it"));
        }
        Ok(Self(Arc::new(parts)))
    }

    /// The members.
    pub fn mesh(&self) -> &Mesh {
        &self.0.mesh
    }

    pub(super) fn parts(&self) -> &NodeParts {
        &self.0
    }

    /// The node's own key.
    pub fn key(&self) -> &PublicKey {
        self.0.signer.public()
    }

    /// What it remembers.
    pub fn book(&self) -> &EpochBook {
        &self.0.book
    }

    /// Whether a proposal may be voted on: a member made it, and its epoch is open. The vote, where it was given before.
    pub fn admit(&self, proposal: &SignedProposal) -> Result<Option<SignedVote>> {
        if self.0.mesh.member(proposal.key()).is_none() {
            return Err(Error::refused(format!("{} signed the proposal and is no member here", proposal.key()))
                .hint("members of the mesh are named in `[mesh.members]` of each"));
        }
        self.0.book.check_open(&proposal.said().base.brain, proposal.said().epoch)?;
        self.0.book.vote(proposal.hash())
    }

    /// Verifies a proposal and gives the node's one vote on it. It is on the disk before anyone sees it.
    pub async fn vote(&self, proposal: &SignedProposal) -> Result<SignedVote> {
        let (node, asked) = (self.clone(), proposal.clone());
        if let Some(vote) = off_the_executor(move || node.admit(&asked)).await? {
            return Ok(vote);
        }
        let found = self.find(proposal.said()).await?;
        let vote = Vote {
            about: proposal.question(),
            ruling: found.ruling,
            verdict_hash: found.verdict_hash,
            reason: found.reason.map(str::to_owned),
            node: self.0.signer.public().to_string(),
            nonce: Nonce::new(&*self.0.random)?,
            at: self.0.clock.now(),
        };
        let vote = Signed::seal(vote, &self.0.signer)?;
        let book = self.0.book.clone();
        off_the_executor(move || {
            // It may have been closed while the successor ran.
            let about = &vote.said().about;
            book.check_open(&about.base.brain, about.epoch)?;
            book.record(vote)
        })
        .await
    }

    async fn find(&self, proposal: &Proposal) -> Result<Found> {
        if self.0.verifier.base(&proposal.base.brain).await? != proposal.base {
            return Ok(Found { ruling: Ruling::Reject, verdict_hash: None, reason: Some(ANOTHER_BASE) });
        }
        let verdict = self.0.verifier.verify(proposal).await?;
        if verdict.patch_hash != proposal.patch_hash || verdict.evaluation_hash != proposal.evaluation.hash()? {
            return Err(Error::internal("the successor judged something else than what was proposed"));
        }
        let verdict_hash = Some(verdict.hash()?);
        Ok(match verdict.base == proposal.base {
            true => Found { ruling: verdict.verdict, verdict_hash, reason: None },
            // The brain moved after it was looked at.
            false => Found { ruling: Ruling::Reject, verdict_hash, reason: Some(ANOTHER_BASE) },
        })
    }

    /// Takes note of what came of a proposal: its epoch is closed from now on. The votes are counted again, and as many
    /// members must have voted as the quorum asks; else one member alone could close epochs.
    pub fn close(&self, consensus: &SignedConsensus) -> Result<Tally> {
        let tally = consensus.recount(&self.0.mesh)?;
        if tally.responders < tally.quorum {
            return Err(Error::refused(format!(
                "{} members voted, and {} must have before an epoch is closed for everyone",
                tally.responders, tally.quorum
            ))
            .hint("propose the patch again when more members answer"));
        }
        close_with(&self.0.book, consensus)?;
        Ok(tally)
    }
}

/// What a node found.
struct Found {
    ruling: Ruling,
    verdict_hash: Option<String>,
    reason: Option<&'static str>,
}

/// Runs what waits for the disk on a thread of its own.
async fn off_the_executor<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal("looking into the book was interrupted"))?
}
