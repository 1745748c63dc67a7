//! A node of the mesh: it takes proposals of other members, verifies each by itself, and gives one vote.

use std::sync::Arc;

use super::consensus::{SignedConsensus, close_with};
use super::epoch::VoteStore;
use super::mesh::{Mesh, NodeVerdicts, PatchVerifier, SignedProposal};
use super::nonce::Nonce;
use super::signed::Signed;
use super::vote::{SignedVote, Vote, VoteTally};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::ids::Random;
use crate::receipt::{PublicKey, Signer};
use crate::{Verdict, VerdictRuling};

/// What a node is made of.
#[derive(Clone)]
pub struct MeshNodeParts {
    /// The mesh it belongs to; the node's own key is one of its members'.
    pub mesh: Mesh,
    /// The node's own key, a member's.
    pub signer: Signer,
    /// The votes it gave and the epochs that are closed, on disk.
    pub book: VoteStore,
    /// Judges proposals with a successor of this node.
    pub verifier: Arc<dyn PatchVerifier>,
    /// Dates votes, proposals and consensuses.
    pub clock: Arc<dyn Clock>,
    /// Makes the nonces of what this node signs.
    pub random: Arc<dyn Random>,
}

/// A node. Cheap to clone.
#[derive(Clone)]
pub struct MeshNode(Arc<MeshNodeParts>);

impl std::fmt::Debug for MeshNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({})", self.0.signer.public())
    }
}

/// Why a node does not judge: the brain here is not the one that was proposed for.
const ANOTHER_BASE: &str = "another_base";
/// Why it rejects what the proposal's evaluation approves of: that evaluation checks nothing, and there is no other.
const NO_CHECKS: &str = "no_checks";
/// Why it rejects: the node's own evaluation shows that something gets worse.
const LOCAL_REGRESSION: &str = "local_regression";
/// Why it rejects: the node's own evaluation showed nothing, since none of it ran, or the brain passes none of it as it is.
const LOCAL_UNMEASURED: &str = "local_unmeasured";

impl MeshNode {
    /// A node of these parts. Its key must be a member's: nobody would count its votes.
    pub fn new(parts: MeshNodeParts) -> Result<Self> {
        let key = parts.signer.public();
        if parts.mesh.member(key).is_none() {
            return Err(Error::invalid(format!("this operator's key {key} is not among the members of the mesh"))
                .hint("name it in `[mesh.members]`; `herm receipts key` prints it"));
        }
        Ok(Self(Arc::new(parts)))
    }

    /// The mesh that this node belongs to.
    pub fn mesh(&self) -> &Mesh {
        &self.0.mesh
    }

    pub(super) fn parts(&self) -> &MeshNodeParts {
        &self.0
    }

    /// The node's own key.
    pub fn key(&self) -> &PublicKey {
        self.0.signer.public()
    }

    /// The votes this node gave and the epochs that are closed.
    pub fn book(&self) -> &VoteStore {
        &self.0.book
    }

    /// Whether a proposal may be voted on: a member made it, and its epoch is open. The vote, where it was given before.
    pub fn admit(&self, proposal: &SignedProposal) -> Result<Option<SignedVote>> {
        if self.0.mesh.member(proposal.key()).is_none() {
            return Err(Error::refused(format!("{} signed the proposal and is no member here", proposal.key()))
                .hint("members of the mesh are named in `[mesh.members]` of each"));
        }
        self.0.book.check_open(&proposal.predicate().base.brain, proposal.predicate().epoch)?;
        self.0.book.vote(proposal.hash())
    }

    /// Verifies a proposal and gives the node's one vote on it. It is on the disk before anyone sees it; but a vote
    /// without a verdict, which counts for nothing, is not written down at all: it costs the proposer nothing.
    pub async fn vote(&self, proposal: &SignedProposal) -> Result<SignedVote> {
        let (node, asked) = (self.clone(), proposal.clone());
        if let Some(vote) = off_the_executor(move || node.admit(&asked)).await? {
            return Ok(vote);
        }
        let found = self.find(proposal).await?;
        let vote = Vote {
            about: proposal.question(),
            ruling: found.ruling,
            verdict_hash: found.verdict_hash,
            local_verdict_hash: found.local_verdict_hash,
            reason: found.reason.map(str::to_owned),
            node: self.0.signer.public().to_string(),
            nonce: Nonce::new(&*self.0.random)?,
            at: self.0.clock.now(),
        };
        let vote = Signed::seal(vote, &self.0.signer)?;
        if vote.predicate().verdict_hash.is_none() {
            return Ok(vote);
        }
        let (book, asked) = (self.0.book.clone(), proposal.clone());
        off_the_executor(move || {
            // It may have been closed while the successor ran.
            let about = &vote.predicate().about;
            book.check_open(&about.base.brain, about.epoch)?;
            book.keep_asked(&asked)?;
            book.record(vote)
        })
        .await
    }

    /// Verifies what the mesh agreed to while this node was away: the hash of its own verdict, which approves. Refused where
    /// this node's own successor does not; a conflict where its brain is not the one that was agreed for.
    pub async fn catch_up(&self, consensus: &SignedConsensus, proposal: &SignedProposal) -> Result<String> {
        let (said, about) = (proposal.predicate(), &consensus.predicate().about);
        if *about != proposal.question() || !consensus.recount(&self.0.mesh)?.passed {
            return Err(Error::refused("the mesh did not agree to this proposal"));
        }
        let now = self.0.verifier.base(&said.base.brain, &said.patch()?).await?;
        if let Some(moved) = said.base.moved(&now) {
            return Err(Error::conflict(format!(
                "brain {} is not the one that the mesh agreed for: {moved}",
                now.brain
            ))
            .hint("bring it to where the others are, by a snapshot of theirs or by the patches it missed"));
        }
        let found = self.judge(proposal).await?;
        match (found.ruling, found.verdict_hash) {
            (VerdictRuling::Approve, Some(verdict)) => Ok(verdict),
            (ruling, _) => {
                let why = found.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
                Err(Error::refused(format!(
                    "the mesh agreed to a patch of brain {}, and here the verdict is {}{why}: it is not applied",
                    now.brain,
                    ruling.name()
                )))
            }
        }
    }

    async fn find(&self, proposal: &SignedProposal) -> Result<NodeFinding> {
        let (said, verifier) = (proposal.predicate(), &self.0.verifier);
        if said.base.moved(&verifier.base(&said.base.brain, &said.patch()?).await?).is_some() {
            return Ok(NodeFinding::unjudged(ANOTHER_BASE));
        }
        if proposal.key() != self.key() {
            let (book, asked) = (self.0.book.clone(), proposal.clone());
            off_the_executor(move || book.claim(&asked)).await?;
        }
        self.judge(proposal).await
    }

    /// What this node's own successors say of a proposal.
    async fn judge(&self, proposal: &SignedProposal) -> Result<NodeFinding> {
        let (said, verifier) = (proposal.predicate(), &self.0.verifier);
        let NodeVerdicts { verdict, local } = verifier.verify(said).await?;
        let is_about = |one: &Verdict| one.patch_hash == said.patch_hash;
        let is_asked = is_about(&verdict) && verdict.evaluation_hash == said.evaluation.hash()?;
        if !is_asked || !local.iter().all(is_about) {
            return Err(Error::internal("the successor judged something else than what was proposed"));
        }
        if [Some(&verdict), local.as_ref()].into_iter().flatten().any(|one| said.base.moved(&one.base).is_some()) {
            // The brain moved after it was looked at.
            return Ok(NodeFinding::unjudged(ANOTHER_BASE));
        }
        let reason = match &local {
            _ if verdict.verdict != VerdictRuling::Approve => None,
            Some(local) => objection(local),
            None => (!said.evaluation.has_checks()).then_some(NO_CHECKS),
        };
        Ok(NodeFinding {
            ruling: if reason.is_some() { VerdictRuling::Reject } else { verdict.verdict },
            verdict_hash: Some(verdict.hash()?),
            local_verdict_hash: local.as_ref().map(Verdict::hash).transpose()?,
            reason,
        })
    }

    /// Takes note of what came of a proposal: its epoch is closed from now on. The votes are counted again, and as many
    /// members must have voted as the quorum asks; else one member alone could close epochs.
    pub fn close(&self, consensus: &SignedConsensus) -> Result<VoteTally> {
        let tally = consensus.recount(&self.0.mesh)?;
        if !tally.is_decided() {
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
struct NodeFinding {
    ruling: VerdictRuling,
    verdict_hash: Option<String>,
    local_verdict_hash: Option<String>,
    reason: Option<&'static str>,
}

impl NodeFinding {
    /// Nothing, for a reason.
    fn unjudged(reason: &'static str) -> Self {
        Self { ruling: VerdictRuling::Reject, verdict_hash: None, local_verdict_hash: None, reason: Some(reason) }
    }
}

/// What speaks against a patch in the verdict on the node's own evaluation. It need not get better there, but nothing may
/// get worse, and something must have been looked at: guards that are broken are a REJECT.
fn objection(local: &Verdict) -> Option<&'static str> {
    if local.verdict == VerdictRuling::Reject || local.checks.regressed > 0 {
        return Some(LOCAL_REGRESSION);
    }
    let is_measured = match local.checks.total {
        0 => local.statistics.iter().any(|one| one.pairs > 0),
        // That a task ends as before the baseline always passes: a brain that fails every check of the operator's own still
        // passes half of them.
        _ => local.checks.baseline_passed * 2 > local.checks.total,
    };
    (!is_measured).then_some(LOCAL_UNMEASURED)
}

/// Runs what waits for the disk on a thread of its own.
async fn off_the_executor<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal("reading the votes was interrupted"))?
}
