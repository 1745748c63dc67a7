//! Tests of the gates, with real keys and real files.

mod approvals;
mod doors;
mod nodes;
mod tallies;

use std::sync::Mutex;

use super::mesh::{Member, Mesh, MeshProposal, SignedProposal};
use super::nonce::Nonce;
use super::signed::Signed;
use super::vote::{SignedVote, Vote, VoteSubject};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::{Digest, Random, SystemRandom};
use crate::layout::Layout;
use crate::receipt::Signer;
use crate::{
    CheckCounts, Evaluation, Patch, PatchBase, RuntimeIdentity, SandboxSummary, SuccessorBudget, SuccessorUsage,
    VERDICT_SCHEMA, Verdict, VerdictRuling,
};

/// A moment that stands still.
const NOW: Timestamp = Timestamp(1_790_000_000_000);
const DAY: i64 = 24 * 3_600_000;

/// A directory of brains.
fn brains() -> (tempfile::TempDir, Layout) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path().join("brains"));
    (dir, layout)
}

fn key(number: u8) -> Signer {
    Signer::from_seed([number; 32])
}

fn base() -> PatchBase {
    PatchBase { brain: "1".parse().unwrap(), version: 4, bundle_hash: Digest::of(b"a brain"), touched: None }
}

fn patch(title: &str) -> Patch {
    let text = format!(
        r#"{{ "schema": "herm/patch@1", "title": "{title}", "changes": [{{ "kind": "role", "content": "You answer.\n" }}] }}"#
    );
    Patch::parse(text.as_bytes()).unwrap()
}

fn evaluation() -> Evaluation {
    let text = r#"{ "schema": "herm/evaluation@1", "title": "it answers",
        "parts": [{ "kind": "suite", "name": "asked", "tasks": [{ "name": "one", "input": "hello", "checks": [{ "answerHas": "hello" }] }] }] }"#;
    Evaluation::parse(text.as_bytes()).unwrap()
}

fn verdict(ruling: VerdictRuling) -> Verdict {
    Verdict {
        schema: VERDICT_SCHEMA.to_owned(),
        verdict: ruling,
        confidence: 0.94,
        patch_hash: patch("shorter").hash(),
        evaluation_hash: evaluation().hash().unwrap(),
        evaluation_summary: "312 of 312 checks pass.".to_owned(),
        caveats: Vec::new(),
        left_out: Vec::new(),
        artifacts: Vec::new(),
        reason: None,
        base: base(),
        identity: RuntimeIdentity::default(),
        budget: SuccessorBudget::default(),
        spent: SuccessorUsage::default(),
        walls: SandboxSummary::default(),
        seed: 1,
        checks: CheckCounts::default(),
        statistics: Vec::new(),
        started_at: NOW,
        ended_at: NOW,
    }
}

/// A mesh of keys 1 to `count`.
fn mesh(count: u8) -> Mesh {
    mesh_with(count, None)
}

fn mesh_with(count: u8, quorum: Option<usize>) -> Mesh {
    let member = |number: u8| Member {
        name: format!("node-{number}"),
        key: key(number).public().clone(),
        url: "http://127.0.0.1:9".to_owned(),
    };
    Mesh::new((1..=count).map(member).collect(), quorum).unwrap()
}

fn proposal(epoch: u64, by: u8) -> SignedProposal {
    proposal_with(epoch, by, &evaluation())
}

fn proposal_with(epoch: u64, by: u8, evaluation: &Evaluation) -> SignedProposal {
    MeshProposal::new(&patch("shorter"), evaluation, base(), epoch, NOW, &SystemRandom, &key(by)).unwrap()
}

/// A vote of somebody who did not judge.
fn unjudged(about: &VoteSubject, by: u8) -> SignedVote {
    let judged = vote(about, VerdictRuling::Reject, by);
    let said = Vote { verdict_hash: None, reason: Some("another_base".to_owned()), ..judged.predicate().clone() };
    Signed::seal(said, &key(by)).unwrap()
}

fn vote(about: &VoteSubject, ruling: VerdictRuling, by: u8) -> SignedVote {
    let signer = key(by);
    let said = Vote {
        about: about.clone(),
        ruling,
        verdict_hash: Some(verdict(ruling).hash().unwrap()),
        local_verdict_hash: None,
        reason: None,
        node: signer.public().to_string(),
        nonce: Nonce::new(&SystemRandom).unwrap(),
        at: NOW,
    };
    Signed::seal(said, &signer).unwrap()
}

/// Numbers that count up, so that what is made is the same every time.
#[derive(Debug, Default)]
struct Counting(Mutex<u8>);

impl Random for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        let mut at = self.0.lock().unwrap();
        for byte in bytes {
            *at = at.wrapping_add(1);
            *byte = *at;
        }
        Ok(())
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().message().to_owned()
}
