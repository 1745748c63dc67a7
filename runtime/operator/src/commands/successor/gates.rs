//! `herm successor key|approve|reject|propose|apply|rollback|lineage`: from a verdict to a step, through the gates.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use herm::fsio::{Root, SyncTiming};
use herm::ids::SystemRandom;
use herm::receipt::Signer;
use herm::successor::audit::{APPROVAL_FILE as APPROVAL, CONSENSUS_FILE as CONSENSUS};
use herm::successor::gate::{
    self, ApprovalDecision, DecisionStore, Gate, HttpTransport, MeshNode, MeshNodeParts, SignedApproval,
    StewardApproval, VoteStore,
};
use herm::successor::{VerdictRecord, VerdictRuling, VerdictStore, lineage};
use herm::{BrainId, Clock as _, Error, ErrorKind, Reader, Result, SystemClock};
use serde_json::{Value, json};

use super::super::{in_runtime, to_json};
use super::harness;
use crate::cli::Decide;
use crate::config::Settings;
use crate::operations::patches::{AppliedPatch, TakenBackPatch, apply_with, take_back_with};
use crate::operations::server_requests;
use crate::operations::verifier::verifier;
use crate::output::{Answer, columns};

/// How long an approval is good, unless said.
const USUAL_HOURS: u64 = 72;

/// The public half of a steward's key.
pub(super) fn show_key(file: &Path) -> Result<Answer> {
    let key = Signer::load(file)?.public().to_string();
    Ok(Answer::new(format!("{key}\n"), json!({ "key": key })))
}

/// Signs a decision about a verdict with a steward's key, and keeps it: for the gate among those of all stewards, and
/// beside the verdict as the last one.
pub(super) fn decide(settings: &Settings, arguments: &Decide, decision: ApprovalDecision) -> Result<Answer> {
    let record = VerdictStore::new(&settings.layout).find(&arguments.verdict)?;
    let signer = Signer::load(&arguments.key)?;
    let lasts = Duration::from_secs(arguments.hours.unwrap_or(USUAL_HOURS).saturating_mul(3_600));
    let mut said = StewardApproval::new(&record.verdict, decision, SystemClock.now(), lasts, &SystemRandom)?;
    if let Some(note) = &arguments.note {
        said = said.noting(note);
    }
    let signed = said.sign(&signer)?;
    let line = signed.to_line()?;
    DecisionStore::open(&settings.layout)?.keep(&signed)?;
    Root::open(&record.path)?.replace(&APPROVAL.parse()?, line.as_bytes(), SyncTiming::Now)?;
    let word = if decision == ApprovalDecision::Approve { "approved" } else { "rejected" };
    let ruling = record.verdict.verdict.name();
    let text = format!(
        "{word}: {} of {} until {}\nthe verdict is {ruling}\n",
        record.patch.title(),
        record.name,
        signed.predicate().expires_at
    );
    let warnings = warnings(settings, &record, &signed)?;
    let json = json!({
        "verdict": record.name,
        "ruling": ruling,
        "decision": word,
        "approval": value(&line)?,
        "warnings": warnings,
    });
    let answer = Answer::new(text, json);
    Ok(if warnings.is_empty() { answer } else { answer.note(warnings.join("\n")) })
}

/// What a steward should know who has just signed.
fn warnings(settings: &Settings, record: &VerdictRecord, signed: &SignedApproval) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let stewards = settings.gates()?.stewards;
    if !stewards.has(signed.key()) {
        warnings.push(format!("{} is no steward here: no gate will open for it", signed.key()));
    }
    if signed.predicate().decision == ApprovalDecision::Reject {
        return Ok(warnings);
    }
    if record.verdict.verdict != VerdictRuling::Approve {
        warnings.push(format!("the verdict is {}: no gate opens for that", record.verdict.verdict.name()));
    }
    // A steward's machine may have no key of an operator, and gets none by this.
    let own = settings.signer.existing().ok().map(|own| own.public().to_string());
    if record.envelope.keyid() != own.as_deref() {
        let (by, own) = (record.envelope.keyid().unwrap_or("nobody"), own.as_deref().unwrap_or("without a key"));
        warnings.push(format!("{by} signed the verdict, not this operator ({own}): it cannot be applied here"));
    }
    let decisions = DecisionStore::open(&settings.layout)?.about(&record.verdict.hash()?)?;
    if let Some(other) = gate::rejection(&decisions, &record.verdict.hash()?, &stewards, SystemClock.now()) {
        warnings.push(format!(
            "the steward {} rejected it: the gate stays shut until {}",
            other.key(),
            other.predicate().expires_at
        ));
    }
    Ok(warnings)
}

fn value(line: &str) -> Result<Value> {
    serde_json::from_str(line).map_err(|source| Error::internal("a document is not JSON").because(source))
}

/// Asks the mesh about the patch of a verdict, and keeps what came of it beside the verdict.
pub(super) fn propose(settings: &Settings, wanted: &str, seconds: Option<u64>) -> Result<Answer> {
    let record = VerdictStore::new(&settings.layout).find(wanted)?;
    let gates = settings.gates()?;
    let members = gates.mesh.ok_or_else(|| {
        Error::invalid("there is no mesh to ask").hint("name its members in `[mesh.members]` of the configuration")
    })?;
    let within = Duration::from_secs(seconds.unwrap_or(900));
    let concluded = in_runtime(async {
        let node = MeshNode::new(MeshNodeParts {
            mesh: members.clone(),
            signer: settings.signer.get()?.clone(),
            book: VoteStore::open(&settings.layout)?,
            verifier: verifier(&harness(settings)?, settings.config.mesh.clone().unwrap_or_default().verifying()?),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        })?;
        let transport = HttpTransport::new()?;
        node.propose(&record.verdict, &record.patch, &record.evaluation, &transport, within).await
    })?;
    let signed = concluded.consensus;
    Root::open(&record.path)?.replace(&CONSENSUS.parse()?, signed.to_line()?.as_bytes(), SyncTiming::Now)?;
    let tally = &signed.predicate().tally;
    let mut text = format!("{}\n", tally.words());
    let names = |key: &str| {
        let member = members.members().iter().find(|member| member.key.to_string() == key);
        member.map_or_else(|| key.to_owned(), |member| member.name.clone())
    };
    // Each member that is not in step is named: silent, with another brain, or not told what came of it.
    for one in &signed.predicate().silent {
        text.push_str(&format!("no vote of {}: {}\n", one.name, one.why));
    }
    for one in &tally.not_counted {
        text.push_str(&format!("not counted: {}: {}\n", names(&one.key), one.why));
    }
    for one in &concluded.untold {
        text.push_str(&format!("not told: {}: {}; it asks when it is back\n", one.name, one.why));
    }
    let mut json = json!({
        "verdict": record.name,
        "tally": to_json(tally)?,
        "silent": to_json(&signed.predicate().silent)?,
        "untold": to_json(&concluded.untold)?,
        "consensus": value(&signed.to_line()?)?,
    });
    if tally.passed && settings.applying()?.is_due(SystemClock.now()) && gates.gate == Gate::Mesh {
        match server_requests::server_runs(&settings.layout) {
            true => text.push_str("the server of these brains applies it\n"),
            false => {
                let applied = apply(settings, &record.name)?;
                text.push_str(&applied.text);
                json["applied"] = applied.json;
            }
        }
    }
    let code = if tally.passed { crate::exit::DONE } else { crate::exit::NEGATIVE };
    Ok(Answer::new(text, json).code(code))
}

/// Applies the patch of a verdict whose gates are open.
pub(super) fn apply(settings: &Settings, wanted: &str) -> Result<Answer> {
    let applied = apply_verdict(settings, wanted)?;
    let AppliedPatch { title, brain, version, identity, step, .. } = &applied;
    let text = format!(
        "applied: {title}\nbrain {brain} is now version {version}; its identity is {}\nreceipt signed; `herm successor rollback {brain} --step {step}` takes it back\n",
        identity.after,
    );
    Ok(Answer::new(text, to_json(&applied)?))
}

/// Applies the patch of a verdict; by the server, where it holds the brain.
pub(super) fn apply_verdict(settings: &Settings, wanted: &str) -> Result<AppliedPatch> {
    let record = VerdictStore::new(&settings.layout).find(wanted)?;
    let here = beside_a_server(settings);
    let applied = here.while_leased(&record.verdict.base.brain, || {
        on_a_thread(async {
            let harness = harness(&here)?;
            let applied = apply_with(&harness, &here, &record).await;
            harness.shutdown().await?;
            applied
        })
    });
    let asked = || server_requests::apply(&settings.layout, &record.name);
    let applied = or_the_server(settings, applied, asked)?;
    Ok(AppliedPatch { title: record.patch.title().to_owned(), ..applied })
}

/// The settings of a command that would change a brain:
/// where a server runs, it does not wait for a brain that the server keeps open.
fn beside_a_server(settings: &Settings) -> Settings {
    let mut here = settings.clone();
    if server_requests::server_runs(&settings.layout) {
        here.lock_wait = Duration::ZERO;
    }
    here
}

/// What a command came to; or what the server did instead, where it holds the brain.
fn or_the_server<T>(settings: &Settings, done: Result<T>, ask: impl FnOnce() -> Result<T>) -> Result<T> {
    match done {
        Err(error) if error.kind() == ErrorKind::Conflict && server_requests::server_runs(&settings.layout) => ask(),
        other => other,
    }
}

/// Runs what waits, beside a runtime that already waits on this thread for a lease.
fn on_a_thread<T: Send>(work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| in_runtime(work)).join();
        done.unwrap_or_else(|_| Err(Error::internal("applying was interrupted").hint("look at `herm brain history`")))
    })
}

/// Takes an applied patch back.
pub(super) fn rollback(settings: &Settings, id: &str, step: Option<i64>) -> Result<Answer> {
    let id: BrainId = id.parse()?;
    let step = match step {
        Some(step) => step,
        None => lineage(&Reader::open(&settings.layout, &id)?)?
            .iter()
            .find(|patch| !patch.taken_back)
            .map(|patch| patch.step)
            .ok_or_else(|| {
                Error::not_found(format!("no patch of brain {id} is in force")).hint("there is nothing to take back")
            })?,
    };
    let taken_back = take_back(settings, &id, step)?;
    let text = match taken_back.version {
        Some(version) => format!("took back step {step}; brain {id} is now version {version}\n"),
        None => format!("step {step} was taken back already; brain {id} stays as it is\n"),
    };
    Ok(Answer::new(text, to_json(&taken_back)?))
}

/// Takes the patch of a step back; by the server, where it holds the brain.
pub(super) fn take_back(settings: &Settings, id: &BrainId, step: i64) -> Result<TakenBackPatch> {
    let here = beside_a_server(settings);
    let undone = here.while_leased(id, || {
        on_a_thread(async {
            let harness = harness(&here)?;
            let undone = take_back_with(&harness, id, step).await;
            harness.shutdown().await?;
            undone
        })
    });
    or_the_server(settings, undone, || server_requests::take_back(&settings.layout, id, step))
}

/// The patches that were applied to a brain.
pub(super) fn show_lineage(settings: &Settings, id: &str) -> Result<Answer> {
    let id: BrainId = id.parse()?;
    let reader = Reader::open(&settings.layout, &id)?;
    let patches = lineage(&reader)?;
    let mut rows = vec![["STEP", "VERSION", "WHEN", "PATCH", ""].map(str::to_owned).to_vec()];
    for patch in &patches {
        rows.push(vec![
            patch.step.to_string(),
            patch.version.to_string(),
            patch.at.to_string(),
            patch.title.clone(),
            if patch.taken_back { "taken back".to_owned() } else { String::new() },
        ]);
    }
    let text = if patches.is_empty() { format!("no patch was applied to brain {id}\n") } else { columns(&rows) };
    Ok(Answer::new(text, json!({ "brain": id, "patches": to_json(&patches)?, "tuning": to_json(&reader.tuning()?)? })))
}
