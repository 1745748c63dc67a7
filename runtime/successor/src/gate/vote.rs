//! Votes, and how they are counted.
//!
//! A proposal passes when at least two thirds of those who answered approve, **and** as many members approve as the
//! quorum asks. The quorum counts approvals, not answers: otherwise a member who rejects could complete it, and say no
//! to the effect of yes.

use serde::{Deserialize, Serialize};

use super::mesh::Mesh;
use super::nonce::Nonce;
use super::signed::{Predicate, Signed, StatementSubject, check_hash};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::{PatchBase, VerdictRuling};

/// What the predicate of a vote is.
pub const VOTE_TYPE: &str = "urn:herm:vote:1";
/// The longest reason of a vote, in bytes.
const MAX_REASON: usize = 40;

/// What a vote is about. All of it must be right, or the vote is about something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VoteSubject {
    /// The proposal: `sha256:…` of its statement.
    pub proposal: String,
    /// The hash of the patch file, as `sha256:…`.
    pub patch_hash: String,
    /// The brain, as it was proposed.
    pub base: PatchBase,
    /// The epoch in which it was proposed.
    pub epoch: u64,
    /// Who proposed it, by key: nobody else says what came of it.
    pub proposer: String,
}

impl VoteSubject {
    /// What is different about a vote's question, if anything.
    fn difference(&self, other: &Self) -> Option<String> {
        let why = if other.epoch != self.epoch {
            format!("it is of epoch {}, not {}", other.epoch, self.epoch)
        } else if other.patch_hash != self.patch_hash {
            format!("it is about the patch {}", other.patch_hash)
        } else if !self.base.is_named_by(&other.base) {
            format!("it is about brain {} version {}", other.base.brain, other.base.version)
        } else if other.proposal != self.proposal {
            format!("it is about the proposal {}", other.proposal)
        } else if other.proposer != self.proposer {
            format!("it is about a proposal of {}", other.proposer)
        } else {
            return None;
        };
        Some(why)
    }
}

/// What a node found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Vote {
    /// What it is about.
    pub about: VoteSubject,
    /// The ruling of the node's own successor.
    pub ruling: VerdictRuling,
    /// The verdict of the node's own successor; nothing where it did not come to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_hash: Option<String>,
    /// The verdict on the node's own evaluation, which the proposer did not choose; nothing where it has none, or did
    /// not come to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_verdict_hash: Option<String>,
    /// Why the ruling is not that of the verdict, or why there is none: `another_base`, `no_checks`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whose vote it is, by key.
    pub node: String,
    /// Makes it unlike any other.
    pub nonce: Nonce,
    /// When, by the node's clock: for readers, nothing rests on it.
    pub at: Timestamp,
}

/// A vote with its node's signature.
pub type SignedVote = Signed<Vote>;

impl Predicate for Vote {
    const TYPE: &'static str = VOTE_TYPE;
    const WHAT: &'static str = "a vote";

    fn subjects(&self) -> Vec<StatementSubject> {
        vec![
            StatementSubject::document("proposal", &self.about.proposal),
            StatementSubject::document("patch", &self.about.patch_hash),
            StatementSubject::brain(&self.about.base),
        ]
    }

    fn author(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn validate(&self) -> Result<()> {
        check_hash("a proposal", &self.about.proposal)?;
        check_hash("a patch", &self.about.patch_hash)?;
        let is_name = |reason: &String| {
            (1..=MAX_REASON).contains(&reason.len()) && reason.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        };
        if !self.reason.as_ref().is_none_or(is_name) {
            return Err(Error::invalid(format!("the reason of a vote is 1 to {MAX_REASON} of a-z and _")));
        }
        for hash in self.verdict_hash.iter().chain(&self.local_verdict_hash) {
            check_hash("a verdict", hash)?;
        }
        match (&self.verdict_hash, &self.local_verdict_hash, self.ruling) {
            (None, _, VerdictRuling::Approve) => {
                Err(Error::invalid("a vote that approves names the verdict it rests on"))
            }
            (None, Some(_), _) => Err(Error::invalid("a vote with a local verdict names that of the proposal, too")),
            _ => Ok(()),
        }
    }
}

impl Vote {
    /// Why a vote does not count: it costs its node nothing and says nothing of the patch, so it neither counts
    /// nor closes an epoch.
    fn unjudged(&self) -> Option<String> {
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        self.verdict_hash.is_none().then(|| format!("it rests on no verdict{reason}"))
    }
}

/// How a member's answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VoteStatus {
    /// It approves: the only answer that the quorum counts.
    Approve,
    /// It rejects the patch.
    Reject,
    /// It wants a revision: no approval.
    NeedsRevision,
    /// It signed two different votes on the same question: counts as a reject.
    Equivocation,
}

/// A member whose answer counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedVote {
    /// The member's name in the configuration of the node that counts.
    pub name: String,
    /// The member's public key, as text.
    pub key: String,
    /// How the member's answer counts.
    pub standing: VoteStatus,
}

/// A vote that does not count, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RejectedVote {
    /// The public key that signed it, a member's or not.
    pub key: String,
    /// Why it does not count.
    pub why: String,
}

/// Votes on one proposal, counted by the rules of one mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VoteTally {
    /// How many members the mesh has.
    pub members: usize,
    /// How many of them must approve.
    pub quorum: usize,
    /// Members whose answer counts.
    pub responders: usize,
    /// How many members approve.
    pub approvals: usize,
    /// Whether the proposal passes.
    pub passed: bool,
    /// Those whose answer counts, in the order of the members.
    pub counted: Vec<CountedVote>,
    /// Votes that do not count.
    pub not_counted: Vec<RejectedVote>,
}

impl VoteTally {
    /// Whether enough answered that it says something: what fewer say closes no epoch, and can be asked again.
    pub fn is_decided(&self) -> bool {
        self.responders >= self.quorum
    }

    /// The count in a sentence.
    pub fn words(&self) -> String {
        let passed = if self.passed { "passed" } else { "not passed" };
        format!(
            "{passed}: {} of {} who answered approve; {} of {} members must",
            self.approvals, self.responders, self.quorum, self.members
        )
    }
}

/// Counts votes. The order they came in does not matter, and a key counts once however often it speaks.
pub fn tally(mesh: &Mesh, about: &VoteSubject, votes: &[SignedVote]) -> VoteTally {
    let mut not_counted = Vec::new();
    let mut good: Vec<&SignedVote> = Vec::new();
    for vote in votes {
        let why = match mesh.member(vote.key()) {
            None => Some("its key is no member's".to_owned()),
            Some(_) => about.difference(&vote.predicate().about).or_else(|| vote.predicate().unjudged()),
        };
        match why {
            Some(why) => not_counted.push(RejectedVote { key: vote.key().to_string(), why }),
            None => good.push(vote),
        }
    }
    not_counted.sort();
    not_counted.dedup();
    let counted: Vec<CountedVote> = mesh
        .members()
        .iter()
        .filter_map(|member| {
            let mut own = good.iter().filter(|vote| *vote.key() == member.key);
            let first = own.next()?;
            let standing = match first.predicate().ruling {
                // A node writes its vote down before it gives it away, so an honest one has one.
                _ if own.any(|other| other.hash() != first.hash()) => VoteStatus::Equivocation,
                VerdictRuling::Approve => VoteStatus::Approve,
                VerdictRuling::Reject => VoteStatus::Reject,
                VerdictRuling::NeedsRevision => VoteStatus::NeedsRevision,
            };
            Some(CountedVote { name: member.name.clone(), key: member.key.to_string(), standing })
        })
        .collect();
    let responders = counted.len();
    let approvals = counted.iter().filter(|one| one.standing == VoteStatus::Approve).count();
    VoteTally {
        members: mesh.members().len(),
        quorum: mesh.quorum(),
        responders,
        approvals,
        passed: 3 * approvals >= 2 * responders && approvals >= mesh.quorum(),
        counted,
        not_counted,
    }
}
