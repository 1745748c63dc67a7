//! What came of a proposal: a document that lists every vote, signed by the proposer, who counted them. Nobody has to
//! believe the count, since everybody can repeat it.

use serde::{Deserialize, Serialize};

use super::approval::{check_base, check_verdict};
use super::epoch::VoteStore;
use super::mesh::{CollectedVotes, Mesh, NonVoter, SignedProposal};
use super::nonce::{Nonce, NonceStore};
use super::signed::{Predicate, Signed, StatementSubject, check_hash};
use super::vote::{SignedVote, VoteStatus, VoteSubject, VoteTally, tally};
use super::{GateGrant, Grantor};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::receipt::Signer;
use crate::{PatchBase, Verdict};

/// What the predicate of a consensus is.
pub const CONSENSUS_TYPE: &str = "urn:herm:consensus:1";

/// The most votes that a consensus lists.
const MOST_VOTES: usize = 400;

/// What came of a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consensus {
    /// The proposal that the votes are about.
    pub about: VoteSubject,
    /// The proposal's nonce: a consensus is good for one time.
    pub nonce: Nonce,
    /// Who proposed and counted, by key.
    pub proposer: String,
    /// The count as the proposer made it; [`Signed::recount`] makes it again.
    pub tally: VoteTally,
    /// Members that gave no vote, and why as far as is known.
    pub silent: Vec<NonVoter>,
    /// Every vote that came, also those that do not count.
    pub votes: Vec<SignedVote>,
    /// When it was counted.
    pub at: Timestamp,
}

/// A consensus with the signature of the proposer, who counted.
pub type SignedConsensus = Signed<Consensus>;

impl Predicate for Consensus {
    const TYPE: &'static str = CONSENSUS_TYPE;
    const WHAT: &'static str = "a consensus";

    fn subjects(&self) -> Vec<StatementSubject> {
        vec![
            StatementSubject::document("proposal", &self.about.proposal),
            StatementSubject::document("patch", &self.about.patch_hash),
            StatementSubject::brain(&self.about.base),
        ]
    }

    fn author(&self) -> Option<&str> {
        Some(&self.proposer)
    }

    fn validate(&self) -> Result<()> {
        if self.votes.len() > MOST_VOTES {
            return Err(Error::invalid(format!("a consensus has at most {MOST_VOTES} votes")));
        }
        // Anybody else who counted could leave out the votes they do not like, and close the epoch with that.
        if self.about.proposer != self.proposer {
            return Err(Error::refused(format!(
                "{} says what came of a proposal of {}",
                self.proposer, self.about.proposer
            ))
            .hint("only the proposer says what came of it"));
        }
        check_hash("a proposal", &self.about.proposal)
    }
}

impl Consensus {
    /// Counts what was gathered, and signs the count.
    pub fn conclude(
        mesh: &Mesh,
        proposal: &SignedProposal,
        gathered: CollectedVotes,
        at: Timestamp,
        proposer: &Signer,
    ) -> Result<SignedConsensus> {
        let about = proposal.question();
        let consensus = Self {
            tally: tally(mesh, &about, &gathered.votes),
            about,
            nonce: proposal.predicate().nonce.clone(),
            proposer: proposal.predicate().proposer.clone(),
            silent: gathered.silent,
            votes: gathered.votes,
            at,
        };
        Signed::seal(consensus, proposer)
    }
}

impl Signed<Consensus> {
    /// Counts again, with the members and the quorum of this place. A document that was counted otherwise, or by
    /// someone who is no member, is refused.
    pub fn recount(&self, mesh: &Mesh) -> Result<VoteTally> {
        if mesh.member(self.key()).is_none() {
            return Err(Error::refused(format!("{} signed the consensus and is no member here", self.key()))
                .hint("check `[mesh.members]` of the configuration"));
        }
        let said = self.predicate();
        let again = tally(mesh, &said.about, &said.votes);
        // Members may be called otherwise here; who they are and how they count is the same.
        let figures = |one: &VoteTally| (one.members, one.quorum, one.responders, one.approvals, one.passed);
        if figures(&again) != figures(&said.tally) {
            return Err(Error::refused(format!(
                "the consensus was counted as {:?}, and here it is {:?}",
                said.tally.words(),
                again.words()
            ))
            .hint("all members need the same members and the same quorum"));
        }
        Ok(again)
    }
}

/// Lets a consensus through the gate, once. The votes are counted again; the verdict is this operator's own and must
/// approve, too; a brain that has moved since is another one; and its epoch closes with this consensus and no other.
pub fn check(
    consensus: &SignedConsensus,
    verdict: &Verdict,
    base_now: &PatchBase,
    mesh: &Mesh,
    epochs: &VoteStore,
    nonces: &mut NonceStore,
) -> Result<GateGrant> {
    let granted = examine(consensus, verdict, base_now, mesh, nonces)?;
    close_with(epochs, consensus)?;
    spend(consensus, nonces)?;
    Ok(granted)
}

/// Uses a consensus up.
pub(super) fn spend(consensus: &SignedConsensus, nonces: &mut NonceStore) -> Result<()> {
    match nonces.spend(consensus.key(), &consensus.predicate().nonce, consensus.hash())? {
        true => Ok(()),
        false => Err(used_before(consensus)),
    }
}

fn used_before(consensus: &SignedConsensus) -> Error {
    Error::refused(format!("the consensus on {} was used before", consensus.predicate().about.proposal))
        .hint("a consensus is good for one time; propose the patch again")
}

/// Asks everything of a consensus, and uses nothing up.
pub(super) fn examine(
    consensus: &SignedConsensus,
    verdict: &Verdict,
    base_now: &PatchBase,
    mesh: &Mesh,
    nonces: &NonceStore,
) -> Result<GateGrant> {
    let said = consensus.predicate();
    let counted = consensus.recount(mesh)?;
    if !counted.passed {
        return Err(Error::refused(format!("the mesh did not agree ({})", counted.words()))
            .hint("the consensus lists every vote; change the patch and propose it again"));
    }
    if said.about.patch_hash != verdict.patch_hash {
        return Err(Error::refused(format!(
            "the mesh agreed on the patch {}, not on {}",
            said.about.patch_hash, verdict.patch_hash
        ))
        .hint("propose this patch"));
    }
    if let Some(moved) = said.about.base.moved(&verdict.base) {
        return Err(Error::refused(format!("the mesh agreed for another brain than the verdict's: {moved}"))
            .hint("propose the patch for the brain as it is"));
    }
    match own_vote(said, verdict)? {
        // Who took part in the vote is bound by it, also where its own successor ruled otherwise.
        true => check_base(verdict, base_now)?,
        false => check_verdict(verdict, base_now)?,
    }
    if nonces.is_spent(consensus.key(), &said.nonce)? {
        return Err(used_before(consensus));
    }
    let approving = counted.counted.iter().filter(|one| one.standing == VoteStatus::Approve);
    Ok(GateGrant {
        patch_hash: said.about.patch_hash.clone(),
        base: verdict.base.clone(),
        verdict_hash: verdict.hash()?,
        by: Grantor::Mesh(approving.map(|one| one.key.clone()).collect()),
        document: consensus.hash().to_owned(),
    })
}

/// Whether one of the votes rests on this very verdict.
fn own_vote(said: &Consensus, verdict: &Verdict) -> Result<bool> {
    let hash = verdict.hash()?;
    Ok(said.votes.iter().any(|vote| vote.predicate().verdict_hash.as_ref() == Some(&hash)))
}

/// Closes an epoch with this consensus; one that was closed with another, or lies before a closed one, is refused.
pub(super) fn close_with(epochs: &VoteStore, consensus: &SignedConsensus) -> Result<()> {
    let about = &consensus.predicate().about;
    let (brain, epoch) = (&about.base.brain, about.epoch);
    if let Some(closing) = epochs.closing(brain, epoch)? {
        if closing.hash() == consensus.hash() {
            return Ok(());
        }
        return Err(Error::conflict(format!("epoch {epoch} of brain {brain} was closed with another consensus"))
            .hint("propose the patch in the next epoch"));
    }
    epochs.check_open(brain, epoch)?;
    match epochs.close(consensus)? {
        true => Ok(()),
        // Someone closed it at the same moment.
        false => Err(Error::conflict(format!("epoch {epoch} of brain {brain} was closed just now"))
            .hint("look at what closed it, and propose the patch in the next epoch")),
    }
}
