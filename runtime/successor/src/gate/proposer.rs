//! The proposer: from a verdict of its own to what the mesh says of it.

use std::time::Duration;

use futures_util::future::join_all;

use super::approval::check_verdict;
use super::consensus::{Consensus, SignedConsensus};
use super::mesh::{CollectedVotes, MeshProposal, NonVoter, SignedProposal, Transport, gather_others};
use super::node::MeshNode;
use crate::error::{Error, Result};
use crate::{Evaluation, Patch, Verdict};

/// How long a member is waited for when it is told what came of a proposal.
const TELLING: Duration = Duration::from_secs(30);

/// What came of a proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct ProposalResult {
    /// The signed proposal that members voted on.
    pub proposal: SignedProposal,
    /// What the mesh said.
    pub consensus: SignedConsensus,
    /// Members that could not be told, and why.
    pub untold: Vec<NonVoter>,
}

impl MeshNode {
    /// Proposes what this operator's own successor approved of, in the next epoch, and counts the votes that come
    /// within a while. Its own vote rests on one more successor, like everybody's. The consensus is kept; if enough
    /// answered, it closes the epoch here and, once they are told, with the others. Whether it passed is in it:
    /// [`pass`](super::pass) opens the gate.
    pub async fn propose(
        &self,
        verdict: &Verdict,
        patch: &Patch,
        evaluation: &Evaluation,
        transport: &dyn Transport,
        within: Duration,
    ) -> Result<ProposalResult> {
        check_verdict(verdict, &verdict.base)?;
        if verdict.patch_hash != patch.hash() || verdict.evaluation_hash != evaluation.hash()? {
            return Err(Error::invalid("the verdict is about another patch or another evaluation")
                .hint("propose what was evaluated"));
        }
        let parts = self.parts();
        let (base, now) = (verdict.base.clone(), parts.clock.now());
        let epoch = parts.book.next(&base.brain)?;
        let proposal = MeshProposal::new(patch, evaluation, base, epoch, now, &*parts.random, &parts.signer)?;
        let proposal = parts.book.proposed(proposal)?;
        let others = gather_others(&parts.mesh, transport, &proposal, Some(self.key()), within);
        let (own, mut gathered): (_, CollectedVotes) = tokio::join!(self.vote(&proposal), others);
        match (own, parts.mesh.member(self.key())) {
            (Ok(vote), _) => gathered.votes.push(vote),
            (Err(error), Some(member)) => gathered.silent.push(NonVoter::of(member, &error)),
            (Err(error), None) => return Err(error),
        }
        let consensus = Consensus::conclude(&parts.mesh, &proposal, gathered, parts.clock.now(), &parts.signer)?;
        parts.book.keep(&consensus)?;
        let tally = &consensus.predicate().tally;
        if !tally.is_decided() {
            return Ok(ProposalResult { proposal, consensus, untold: Vec::new() });
        }
        self.close(&consensus)?;
        let others = parts.mesh.members().iter().filter(|member| member.key != *self.key());
        let told = join_all(others.map(|member| {
            let consensus = &consensus;
            async move { (member, transport.tell(member, consensus, TELLING).await) }
        }));
        let untold = told
            .await
            .into_iter()
            .filter_map(|(member, told)| told.err().map(|error| NonVoter::of(member, &error)))
            .collect();
        Ok(ProposalResult { proposal, consensus, untold })
    }
}
