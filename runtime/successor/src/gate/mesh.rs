//! The mesh gate: members who verify a proposal each by itself. Nobody is believed because they said so: a vote counts
//! for the key that signed it, and a proposal only if a member made it. The formats and the rules are in `docs/operate/gates.md`.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::consensus::SignedConsensus;
use super::nonce::Nonce;
use super::signed::{Predicate, Signed, StatementSubject, check_hash};
use super::vote::{SignedVote, VoteSubject};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Random};
use crate::receipt::{PublicKey, Signer};
use crate::{Evaluation, Patch, PatchBase, Verdict};

/// What the predicate of a proposal is.
pub const PROPOSAL_TYPE: &str = "urn:herm:proposal:1";
/// The fewest members that must approve, whatever is configured: one is no mesh.
pub const LEAST_QUORUM: usize = 2;
/// The most members of a mesh: a consensus lists the votes of all in one file.
const MOST_MEMBERS: usize = 99;

/// A member of the mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What it is called here.
    pub name: String,
    /// The key its proposals and votes are signed with.
    pub key: PublicKey,
    /// Where it answers: `https://node.example`.
    pub url: String,
}

/// The members, and how many of them must approve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mesh {
    members: Vec<Member>,
    quorum: usize,
}

impl Mesh {
    /// A mesh of these members. Unless said, more than half of them must approve; never fewer than two.
    pub fn new(members: Vec<Member>, quorum: Option<usize>) -> Result<Self> {
        let bad = |what: String| Err(Error::invalid(what).hint("see `[mesh]` in docs/operate/gates.md"));
        let count = members.len();
        if !(LEAST_QUORUM..=MOST_MEMBERS).contains(&count) {
            return bad(format!("a mesh has {LEAST_QUORUM} to {MOST_MEMBERS} members, not {count}"));
        }
        let (mut names, mut keys) = (BTreeSet::new(), BTreeSet::new());
        for member in &members {
            if member.name.trim().is_empty() || !names.insert(member.name.as_str()) {
                return bad(format!("every member of a mesh needs a name of its own, not {:?}", member.name));
            }
            if !keys.insert(member.key.to_string()) {
                return bad(format!("{} is the key of two members; a key has one vote", member.key));
            }
        }
        let quorum = quorum.unwrap_or((count / 2 + 1).max(LEAST_QUORUM));
        if !(LEAST_QUORUM..=count).contains(&quorum) {
            return bad(format!("the quorum of {count} members is {LEAST_QUORUM} to {count}, not {quorum}"));
        }
        Ok(Self { members, quorum })
    }

    /// The members, in the order of the configuration.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many must approve.
    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// The member with this key.
    pub fn member(&self, key: &PublicKey) -> Option<&Member> {
        self.members.iter().find(|member| member.key == *key)
    }
}

/// What the mesh is asked: whether this patch, judged by this evaluation, makes this brain better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeshProposal {
    /// The patch file, as it is.
    pub patch: String,
    /// The hash of the patch file, as `sha256:…`.
    pub patch_hash: String,
    /// What every node runs.
    pub evaluation: Evaluation,
    /// The brain, as it is.
    pub base: PatchBase,
    /// The round. An epoch that is closed is never voted in again.
    pub epoch: u64,
    /// Who proposes, by key.
    pub proposer: String,
    /// Makes two proposals of the same thing two.
    pub nonce: Nonce,
    /// When, by the proposer's clock: for readers, nothing rests on it.
    pub at: Timestamp,
}

/// A proposal with its proposer's signature.
pub type SignedProposal = Signed<MeshProposal>;

impl Predicate for MeshProposal {
    const TYPE: &'static str = PROPOSAL_TYPE;
    const WHAT: &'static str = "a proposal";

    fn subjects(&self) -> Vec<StatementSubject> {
        vec![StatementSubject::document("patch", &self.patch_hash), StatementSubject::brain(&self.base)]
    }

    fn author(&self) -> Option<&str> {
        Some(&self.proposer)
    }

    fn validate(&self) -> Result<()> {
        check_hash("a patch", &self.patch_hash)?;
        let found = self.patch()?.hash();
        if found != self.patch_hash {
            return Err(Error::invalid(format!(
                "the proposal says its patch is {}, and it is {found}",
                self.patch_hash
            )));
        }
        if self.epoch == 0 {
            return Err(Error::invalid("epochs are counted from 1"));
        }
        self.evaluation.validate()
    }
}

impl MeshProposal {
    /// A proposal by the holder of this key.
    pub fn new(
        patch: &Patch,
        evaluation: &Evaluation,
        base: PatchBase,
        epoch: u64,
        at: Timestamp,
        random: &dyn Random,
        proposer: &Signer,
    ) -> Result<SignedProposal> {
        let text = String::from_utf8(patch.bytes().to_vec())
            .map_err(|source| Error::invalid("the patch is not UTF-8 text").because(source))?;
        let proposal = Self {
            patch: text,
            patch_hash: patch.hash(),
            evaluation: evaluation.clone(),
            base,
            epoch,
            proposer: proposer.public().to_string(),
            nonce: Nonce::new(random)?,
            at,
        };
        Signed::seal(proposal, proposer)
    }

    /// Parses the patch file again: an error where it breaks a rule of patches.
    pub fn patch(&self) -> Result<Patch> {
        Patch::parse(self.patch.as_bytes())
    }
}

impl Signed<MeshProposal> {
    /// What a vote about it has to name.
    pub fn question(&self) -> VoteSubject {
        let said = self.predicate();
        VoteSubject {
            proposal: self.hash().to_owned(),
            patch_hash: said.patch_hash.clone(),
            base: said.base.clone(),
            epoch: said.epoch,
            proposer: said.proposer.clone(),
        }
    }
}

/// Judges a proposal by itself, with a successor of its own.
#[async_trait]
pub trait PatchVerifier: Send + Sync {
    /// The brain as it is here, to a patch.
    async fn base(&self, brain: &BrainId, patch: &Patch) -> Result<PatchBase>;

    /// Evaluates the patch here, and says what came of it.
    async fn verify(&self, proposal: &MeshProposal) -> Result<NodeVerdicts>;
}

/// What a node found by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeVerdicts {
    /// The verdict on the proposal's evaluation, which the proposer chose.
    pub verdict: Verdict,
    /// The verdict on an evaluation of the node's own, where it has one. It is needed only where the other approves.
    pub local: Option<Verdict>,
}

/// How members are asked.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Asks one member for its vote and waits no longer than `within`. The vote is one that the member's own key
    /// signed; anything else is an error.
    async fn ask(&self, member: &Member, proposal: &SignedProposal, within: Duration) -> Result<SignedVote>;

    /// Tells one member what came of a proposal, so that it closes the epoch, too.
    async fn tell(&self, member: &Member, consensus: &SignedConsensus, within: Duration) -> Result<()>;
}

/// A member that gave no vote, and why as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NonVoter {
    /// The member's name in the configuration of the proposer.
    pub name: String,
    /// The member's public key, as text.
    pub key: String,
    /// What came instead of a vote.
    pub why: String,
}

impl NonVoter {
    pub(super) fn of(member: &Member, error: &Error) -> Self {
        Self { name: member.name.clone(), key: member.key.to_string(), why: error.message().to_owned() }
    }
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectedVotes {
    /// Votes with the signature of the member that was asked; not counted yet.
    pub votes: Vec<SignedVote>,
    /// Members that gave no vote.
    pub silent: Vec<NonVoter>,
}

/// Asks every member at once. `own` is the proposer's own vote, where it has one already; it is not asked again.
pub async fn gather(
    mesh: &Mesh,
    transport: &dyn Transport,
    proposal: &SignedProposal,
    own: Option<SignedVote>,
    within: Duration,
) -> CollectedVotes {
    let mut gathered = gather_others(mesh, transport, proposal, own.as_ref().map(SignedVote::key), within).await;
    gathered.votes.extend(own);
    gathered
}

/// Asks every member at once but the one with this key.
pub(super) async fn gather_others(
    mesh: &Mesh,
    transport: &dyn Transport,
    proposal: &SignedProposal,
    own: Option<&PublicKey>,
    within: Duration,
) -> CollectedVotes {
    let asked = mesh.members.iter().filter(|member| Some(&member.key) != own);
    let answers = join_all(asked.map(|member| async move {
        let answer = match tokio::time::timeout(within, transport.ask(member, proposal, within)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::unavailable(format!("no vote within {} s", within.as_secs_f64()))),
        };
        (member, answer.and_then(|vote| signed_by(member, vote)))
    }));
    let mut gathered = CollectedVotes::default();
    for (member, answer) in answers.await {
        match answer {
            Ok(vote) => gathered.votes.push(vote),
            Err(error) => gathered.silent.push(NonVoter::of(member, &error)),
        }
    }
    gathered
}

/// A vote, if exactly this member signed it.
pub(super) fn signed_by(member: &Member, vote: SignedVote) -> Result<SignedVote> {
    if *vote.key() == member.key {
        return Ok(vote);
    }
    Err(Error::refused(format!("{} answered with a vote that {} signed", member.name, vote.key()))
        .hint("a member answers with its own vote; check its key in `[mesh.members]`"))
}
