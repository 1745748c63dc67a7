//! The mesh gate with five real processes: who is honest, who rejects, who is silent, who lies, and what nobody gets
//! through.

mod auto;
mod busy;
mod doors;
mod held_out;
mod page;
mod step;
mod transport;
mod trouble;
mod votes;

use std::time::Duration;

use herm::receipt::Signer;
use herm::successor::gate::mesh::{CollectedVotes, gather};
use herm::successor::gate::{
    Consensus, HttpTransport, Member, Mesh, MeshProposal, Nonce, Signed, SignedConsensus, SignedProposal, SignedVote,
    Transport as _, Vote, VoteSubject,
};
use herm::successor::{Evaluation, Patch, PatchBase, VerdictRuling};
use herm::{Clock as _, Layout, Reader, SystemClock, ids::SystemRandom};
use herm_tests::operator::{Operator, Serving};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The program.
const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");
/// So long a vote may take on a machine that has much to do. Nothing waits for it that is not broken.
const PATIENCE: Duration = Duration::from_secs(240);
/// So long the silent are waited for, once everyone else has their vote written down.
const SILENCE: Duration = Duration::from_secs(8);
/// An evaluation of a node's own, where it has one.
const OWN: &str = "own.json";
/// The brain all of them have.
const BRAIN: &str = "7";

/// One operator of the mesh.
struct Place {
    name: String,
    operator: Operator,
    signer: Signer,
    serving: Option<Serving>,
    /// Where someone else answers in its place.
    elsewhere: Option<String>,
}

/// Five operators who know each other's keys.
struct Town {
    places: Vec<Place>,
    runtime: tokio::runtime::Runtime,
    transport: HttpTransport,
}

/// What the role of a node's brain is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The one that everyone has.
    Common,
    /// Another one: its brain is not the one that is proposed for.
    Other,
}

impl Town {
    /// Five operators with the same brain, all running.
    fn honest() -> Self {
        Self::of([Role::Common; 5])
    }

    /// Five operators with these brains, all running.
    fn of(roles: [Role; 5]) -> Self {
        let mut town = Self::asleep(roles);
        for place in &mut town.places {
            place.serving = Some(place.operator.serve());
        }
        town
    }

    /// The same, none of them running.
    fn asleep(roles: [Role; 5]) -> Self {
        Self::asleep_with(roles, "")
    }

    /// The same, with more of a configuration.
    fn asleep_with(roles: [Role; 5], more: &str) -> Self {
        let places: Vec<Place> = (1..)
            .zip(roles)
            .map(|(number, role)| {
                let operator = with_brain(Operator::new(HERM), role);
                let key = Layout::new(operator.brains()).signing_key();
                let signer = Signer::load_or_create(&key, &SystemRandom).expect("a key");
                Place { name: format!("node-{number}"), operator, signer, serving: None, elsewhere: None }
            })
            .collect();
        // Nodes answer and do not ask, so where the others are is nothing they need to know.
        for place in &places {
            place.configure(&places, more);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { places, runtime, transport: HttpTransport::new().expect("a client") }
    }

    /// A node, counted from 1 as their names are.
    fn node(&self, number: usize) -> &Place {
        &self.places[number - 1]
    }

    /// The mesh as the proposer sees it: everyone where they listen, or where nobody does.
    fn mesh(&self) -> Mesh {
        let members = self.places.iter().map(|place| Member {
            name: place.name.clone(),
            key: place.signer.public().clone(),
            url: place.url(),
        });
        Mesh::new(members.collect(), None).expect("a mesh")
    }

    /// A proposal of node 1 in an epoch, for its brain as it is.
    fn proposal(&self, epoch: u64) -> SignedProposal {
        self.proposal_of(epoch, &self.node(1).signer)
    }

    fn proposal_of(&self, epoch: u64, proposer: &Signer) -> SignedProposal {
        self.proposal_with(epoch, proposer, &evaluation())
    }

    fn proposal_with(&self, epoch: u64, proposer: &Signer, evaluation: &Evaluation) -> SignedProposal {
        self.proposal_for(epoch, proposer, evaluation, self.node(1).base())
    }

    fn proposal_for(&self, epoch: u64, proposer: &Signer, evaluation: &Evaluation, base: PatchBase) -> SignedProposal {
        MeshProposal::new(&patch(), evaluation, base, epoch, SystemClock.now(), &SystemRandom, proposer).unwrap()
    }

    /// One member's vote.
    fn ask(&self, number: usize, proposal: &SignedProposal) -> herm::Result<SignedVote> {
        let mesh = self.mesh();
        self.runtime.block_on(self.transport.ask(&mesh.members()[number - 1], proposal, PATIENCE))
    }

    /// Asks everyone, and counts.
    fn decide(&self, proposal: &SignedProposal, within: Duration) -> SignedConsensus {
        let mesh = self.mesh();
        let gathered = self.runtime.block_on(gather(&mesh, &self.transport, proposal, None, within));
        self.conclude(proposal, gathered)
    }

    fn conclude(&self, proposal: &SignedProposal, gathered: CollectedVotes) -> SignedConsensus {
        Consensus::conclude(&self.mesh(), proposal, gathered, SystemClock.now(), &self.node(1).signer).unwrap()
    }

    /// Tells a member what came of it.
    fn tell(&self, number: usize, consensus: &SignedConsensus) -> herm::Result<()> {
        let mesh = self.mesh();
        self.runtime.block_on(self.transport.tell(&mesh.members()[number - 1], consensus, PATIENCE))
    }
}

impl Place {
    /// Writes its configuration: everyone, where they are now.
    fn configure(&self, everyone: &[Self], more: &str) {
        let mut config = format!("{more}\n[mesh.verify]\nwall_secs = 200\nmicro_usd = 1000000\n");
        let own = self.operator.path().join(OWN);
        if own.exists() {
            config.push_str(&format!("evaluation = {own:?}\n"));
        }
        for place in everyone {
            let (name, key, url) = (&place.name, place.signer.public(), place.url());
            config.push_str(&format!("[mesh.members.{name}]\nkey = \"{key}\"\nurl = \"{url}\"\n"));
        }
        std::fs::write(self.operator.path().join("config.toml"), &config).expect("a configuration");
    }

    /// Gives it an evaluation of its own, before it is configured.
    fn holds_out(&self, evaluation: &Value) {
        std::fs::write(self.operator.path().join(OWN), evaluation.to_string()).expect("an evaluation");
    }

    fn url(&self) -> String {
        match (&self.elsewhere, &self.serving) {
            (Some(url), _) => url.clone(),
            (None, Some(serving)) => format!("http://{}", serving.address()),
            // Nobody listens at the discard port.
            (None, None) => "http://127.0.0.1:9".to_owned(),
        }
    }

    fn serving(&self) -> &Serving {
        self.serving.as_ref().expect("it runs")
    }

    /// The brain as documents of earlier versions name it: all of it.
    fn base(&self) -> PatchBase {
        let brain = BRAIN.parse().unwrap();
        let reader = Reader::open(&Layout::new(self.operator.brains()), &brain).unwrap();
        PatchBase { brain, version: reader.lock().version, bundle_hash: reader.lock().bundle_hash, touched: None }
    }

    /// Stops its process where it stands, until it goes on.
    fn fall_silent(&self) {
        self.serving().signal(Signal::STOP);
    }

    fn go_on(&self) {
        self.serving().signal(Signal::CONT);
    }
}

fn with_brain(operator: Operator, role: Role) -> Operator {
    match role {
        Role::Common => operator.with_plain_brain(BRAIN),
        Role::Other => {
            let from = operator.path().join("other");
            std::fs::create_dir_all(&from).unwrap();
            std::fs::write(from.join("system.md"), "You answer in JSON, and only in JSON.\n").unwrap();
            let manifest = r#"{ "schema": "herm/manifest@1", "name": "PLAIN", "tools": [] }"#;
            std::fs::write(from.join("manifest.json"), manifest).unwrap();
            let run = operator.herm().run(&["init", BRAIN, "--from", from.to_str().unwrap()]);
            assert_eq!(run.code, 0, "{run:?}");
            operator
        }
    }
}

/// A patch that is good for long conversations.
fn patch() -> Patch {
    let file = json!({
        "schema": "herm/patch@1",
        "title": "Keep what was asked for",
        "changes": [{ "kind": "component", "component": "compressor", "to": "salient" }],
    });
    Patch::parse(file.to_string().as_bytes()).unwrap()
}

/// A short look at long conversations.
fn evaluation() -> Evaluation {
    let file = json!({
        "schema": "herm/evaluation@1",
        "title": "What is left of long sessions",
        "parts": [
            { "kind": "compress", "name": "long", "sessions": 8 },
            { "kind": "suite", "name": "asked", "tasks": [checked("yes")] },
        ],
        "goals": [{ "metric": "keptFacts" }],
    });
    Evaluation::parse(file.to_string().as_bytes()).unwrap()
}

/// The same without any check: it says nothing of what the brain answers.
fn unchecked() -> Evaluation {
    let mut evaluation = evaluation();
    evaluation.parts.truncate(1);
    evaluation
}

/// A task that is answered so, and checked for it.
fn checked(answer: &str) -> Value {
    json!({
        "name": answer, "input": "go", "replies": [json!({ "done": answer }).to_string()],
        "checks": [{ "answerHas": answer }],
    })
}

/// A vote that someone signs without having looked.
fn claim(about: &VoteSubject, ruling: VerdictRuling, signer: &Signer) -> SignedVote {
    let vote = Vote {
        about: about.clone(),
        ruling,
        verdict_hash: Some(format!("sha256:{}", "0".repeat(64))),
        local_verdict_hash: None,
        reason: None,
        node: signer.public().to_string(),
        nonce: Nonce::new(&SystemRandom).unwrap(),
        at: SystemClock.now(),
    };
    Signed::seal(vote, signer).unwrap()
}

/// How it was counted: approvals, answers, whether it passed.
fn counts(consensus: &SignedConsensus) -> (usize, usize, bool) {
    let tally = &consensus.predicate().tally;
    (tally.approvals, tally.responders, tally.passed)
}

/// Members without a vote, with what came instead.
fn silent(consensus: &SignedConsensus) -> Vec<(&str, &str)> {
    consensus.predicate().silent.iter().map(|one| (one.name.as_str(), one.why.as_str())).collect()
}

fn as_json(document: &impl serde::Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}
