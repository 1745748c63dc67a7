//! Whoever proposes: from a verdict of its own to what the mesh says of it.

use std::time::Duration;

use futures_util::future::join_all;

use super::approval::check_verdict;
use super::consensus::{Consensus, SignedConsensus};
use super::epoch::EpochBook;
use super::mesh::{Mesh, Proposal, SignedProposal, Silent, Transport, gather};
use super::nonce::Nonce;
use super::signed::Signed;
use super::vote::Vote;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::ids::Random;
use crate::receipt::Signer;
use crate::successor::{Evaluation, Patch, Verdict};

/// How long a member is waited for when it is told what came of a proposal.
const TELLING: Duration = Duration::from_secs(30);

/// A member that proposes.
#[derive(Clone, Copy)]
pub struct Proposer<'a> {
    /// The members.
    pub mesh: &'a Mesh,
    /// The proposer's own key, a member's.
    pub signer: &'a Signer,
    /// What it remembers; its server has the same book.
    pub book: &'a EpochBook,
    /// How the others are asked.
    pub transport: &'a dyn Transport,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Randomness.
    pub random: &'a dyn Random,
}

/// What came of a proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct Concluded {
    /// What was proposed.
    pub proposal: SignedProposal,
    /// What the mesh said.
    pub consensus: SignedConsensus,
    /// Members that could not be told, and why.
    pub untold: Vec<Silent>,
}

impl Proposer<'_> {
    /// Proposes what this operator's own successor approved of, in the next epoch, and counts the votes that come
    /// within a while. Its own vote is the verdict. The consensus is kept; if enough answered, it closes the epoch here
    /// and, once they are told, with the others. Whether it passed is in it: [`check`](super::consensus::check) opens
    /// the gate.
    pub async fn propose(
        &self,
        verdict: &Verdict,
        patch: &Patch,
        evaluation: &Evaluation,
        within: Duration,
    ) -> Result<Concluded> {
        check_verdict(verdict, &verdict.base)?;
        if verdict.patch_hash != patch.hash() || verdict.evaluation_hash != evaluation.hash()? {
            return Err(Error::invalid("the verdict is about another patch or another evaluation")
                .hint("propose what was evaluated"));
        }
        if self.mesh.member(self.signer.public()).is_none() {
            return Err(Error::refused(format!("{} is no member of the mesh", self.signer.public()))
                .hint("name this operator's key in `[mesh.members]`; `herm receipts key` prints it"));
        }
        let epoch = self.book.next(&verdict.base.brain)?;
        let base = verdict.base.clone();
        let proposal = Proposal::new(patch, evaluation, base, epoch, self.clock.now(), self.random, self.signer)?;
        let own = Vote {
            about: proposal.question(),
            ruling: verdict.verdict,
            verdict_hash: Some(verdict.hash()?),
            reason: None,
            node: self.signer.public().to_string(),
            nonce: Nonce::new(self.random)?,
            at: self.clock.now(),
        };
        let own = self.book.record(Signed::seal(own, self.signer)?)?;
        let gathered = gather(self.mesh, self.transport, &proposal, Some(own), within).await;
        let consensus = Consensus::conclude(self.mesh, &proposal, gathered, self.clock.now(), self.signer)?;
        self.book.keep(&consensus)?;
        let tally = &consensus.said().tally;
        if tally.responders < tally.quorum {
            return Ok(Concluded { proposal, consensus, untold: Vec::new() });
        }
        super::consensus::close_with(self.book, &consensus)?;
        let others = self.mesh.members().iter().filter(|member| member.key != *self.signer.public());
        let told = join_all(others.map(|member| {
            let consensus = &consensus;
            async move { (member, self.transport.tell(member, consensus, TELLING).await) }
        }));
        let untold = told
            .await
            .into_iter()
            .filter_map(|(member, told)| told.err().map(|error| Silent::of(member, &error)))
            .collect();
        Ok(Concluded { proposal, consensus, untold })
    }
}
