//! What a node remembers of the mesh: the votes it gave, and the epochs that are closed. Files that are created once and
//! never replaced, so that neither a restart nor a second process makes a node say two things.

use std::sync::Arc;

use super::consensus::SignedConsensus;
use super::mesh::SignedProposal;
use super::nonce::gates;
use super::signed::{Signed, check_hash};
use super::vote::SignedVote;
use crate::error::{Error, Result};
use crate::fsio::Root;
use crate::ids::{BrainId, RelPath, sha256};
use crate::layout::Layout;

/// The largest file that a node keeps: a consensus of 99 members, or a proposal with its patch.
const MAX_BYTES: u64 = 16 << 20;
/// How far ahead of the last closed epoch a proposal may be. A node that was away has missed some; a number out of
/// nowhere must not use up all there are.
const AHEAD: u64 = 1_024;

/// What a node remembers of the mesh.
#[derive(Debug, Clone)]
pub struct VoteStore {
    root: Arc<Root>,
}

impl VoteStore {
    /// Opens the votes that are kept in the directory of these brains, and creates it where it is missing.
    pub fn open(layout: &Layout) -> Result<Self> {
        Ok(Self { root: Arc::new(gates(layout, &["votes", "epochs", "consensus", "proposals", "verified", "asked"])?) })
    }

    /// The last closed epoch of a brain; 0 where there is none.
    pub fn closed(&self, brain: &BrainId) -> Result<u64> {
        let Some(epochs) = self.root.below(&format!("epochs/{brain}").parse()?)? else { return Ok(0) };
        let names = epochs.list()?;
        let numbers = names.iter().filter_map(|entry| entry.name.strip_suffix(".json")?.parse::<u64>().ok());
        Ok(numbers.max().unwrap_or(0))
    }

    /// The epoch that a new proposal for a brain is of.
    pub fn next(&self, brain: &BrainId) -> Result<u64> {
        self.closed(brain)?
            .checked_add(1)
            .ok_or_else(|| Error::corrupt(format!("the epochs of brain {brain} are used up")))
    }

    /// Refuses an epoch that is closed, or one out of nowhere.
    pub fn check_open(&self, brain: &BrainId, epoch: u64) -> Result<()> {
        let closed = self.closed(brain)?;
        if epoch <= closed {
            return Err(Error::conflict(format!(
                "epoch {epoch} of brain {brain} is closed; the next is {}",
                closed + 1
            ))
            .hint("propose it again in the next epoch"));
        }
        if epoch - closed > AHEAD {
            return Err(Error::refused(format!(
                "epoch {epoch} of brain {brain} is out of nowhere; the next is {}",
                closed + 1
            ))
            .hint("propose it in the next epoch"));
        }
        Ok(())
    }

    /// Closes an epoch with what came of it; `false` where it was closed before, and then by what it was closed stays.
    pub fn close(&self, consensus: &SignedConsensus) -> Result<bool> {
        let about = &consensus.predicate().about;
        let epochs: RelPath = format!("epochs/{}", about.base.brain).parse()?;
        let is_first = self.root.below(&epochs)?.is_none();
        let made =
            self.root.create(&epochs.join(&format!("{:020}.json", about.epoch))?, consensus.to_line()?.as_bytes())?;
        if is_first {
            self.root.sync_dir(Some(&"epochs".parse()?))?;
        }
        Ok(made)
    }

    /// What closed an epoch of a brain.
    pub fn closing(&self, brain: &BrainId, epoch: u64) -> Result<Option<SignedConsensus>> {
        self.read(&format!("epochs/{brain}/{epoch:020}.json").parse()?)
    }

    /// Keeps what came of a proposal, whether or not it closes an epoch.
    pub fn keep(&self, consensus: &SignedConsensus) -> Result<()> {
        self.root.create(&place("consensus", consensus.hash())?, consensus.to_line()?.as_bytes()).map(drop)
    }

    /// What came of a proposal, by the hash of the consensus.
    pub fn kept(&self, consensus: &str) -> Result<Option<SignedConsensus>> {
        self.read(&place("consensus", consensus)?)
    }

    /// Keeps a proposal that was voted on: who was away asks for it.
    pub fn keep_asked(&self, proposal: &SignedProposal) -> Result<()> {
        self.root.create(&place("asked", proposal.hash())?, proposal.to_line()?.as_bytes()).map(drop)
    }

    /// A proposal that was voted on, by its hash.
    pub fn asked(&self, proposal: &str) -> Result<Option<SignedProposal>> {
        self.read(&place("asked", proposal)?)
    }

    /// The vote that was given on a proposal.
    pub fn vote(&self, proposal: &str) -> Result<Option<SignedVote>> {
        self.read(&place("votes", proposal)?)
    }

    /// Takes note that a proposal is about to be verified. Until the epoch is closed or the brain moves, a member has one
    /// verified: another one of it is refused. It is for the node to say which epoch that is, not for the proposal.
    pub fn claim(&self, proposal: &SignedProposal) -> Result<()> {
        let (base, key) = (&proposal.predicate().base, proposal.key());
        // Neither the version nor the files of a patch: a proposer could choose them so that each proposal is another.
        let what = match &base.touched {
            Some(touched) => touched.runtime(),
            None => format!("{} {}", base.version, base.bundle_hash),
        };
        let whose = sha256(format!("{key} {what}").as_bytes());
        let place: RelPath = format!("verified/{}/{:020}-{whose}", base.brain, self.closed(&base.brain)?).parse()?;
        if self.root.create(&place, proposal.hash().as_bytes())? {
            return Ok(());
        }
        match self.root.read(&place, MAX_BYTES)? {
            Some(earlier) if earlier != proposal.hash().as_bytes() => Err(Error::conflict(format!(
                "another proposal of this member for brain {} is verified, and the epoch is open: {}",
                base.brain,
                String::from_utf8_lossy(&earlier)
            ))
            .hint("propose that one again until enough members answer, or wait until the epoch is closed")),
            _ => Ok(()),
        }
    }

    /// Writes a proposal of this node's own down. Where the same was proposed in the same epoch before, it is that one:
    /// members who have voted say the same again, and the others have one to verify.
    pub fn proposed(&self, proposal: SignedProposal) -> Result<SignedProposal> {
        let said = proposal.predicate();
        let (base, evaluation) = (&said.base, said.evaluation.hash()?);
        let of = match &base.touched {
            Some(touched) => format!("{} {}", touched.runtime(), touched.files.as_deref().unwrap_or("-")),
            None => format!("{} {}", base.version, base.bundle_hash),
        };
        let what = sha256(
            format!("{} {} {of} {evaluation} {} {}", said.proposer, base.brain, said.patch_hash, said.epoch).as_bytes(),
        );
        let place: RelPath = format!("proposals/{what}.json").parse()?;
        if self.root.create(&place, proposal.to_line()?.as_bytes())? {
            return Ok(proposal);
        }
        self.read(&place)?.ok_or_else(|| Error::corrupt(format!("{place} was there and is gone")))
    }

    /// Writes a vote down, before anyone sees it. Where one was written down before, that one is the vote.
    pub fn record(&self, vote: SignedVote) -> Result<SignedVote> {
        let place = place("votes", &vote.predicate().about.proposal)?;
        if self.root.create(&place, vote.to_line()?.as_bytes())? {
            return Ok(vote);
        }
        self.read(&place)?.ok_or_else(|| Error::corrupt(format!("{place} was there and is gone")))
    }

    fn read<T: super::Predicate>(&self, place: &RelPath) -> Result<Option<Signed<T>>> {
        let Some(bytes) = self.root.read(place, MAX_BYTES)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        Signed::parse(&text).map(Some).map_err(|error| {
            Error::corrupt(format!("{} is not what was written there: {}", place, error.message()))
                .hint("move the file aside and look at it")
        })
    }
}

fn place(dir: &str, hash: &str) -> Result<RelPath> {
    check_hash(if dir == "consensus" { "a consensus" } else { "a proposal" }, hash)?;
    format!("{dir}/{}.json", hash.trim_start_matches("sha256:")).parse()
}
