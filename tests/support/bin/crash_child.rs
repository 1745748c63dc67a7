//! A process that changes brain 1 until it is done or killed. It says "ack VERSION HASH" on
//! standard output after each step that it was told is settled.
//!
//! Usage: crash-child OPERATION BRAINS [NAME COUNT]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use herm::brain::{OnDrift, OnExisting};
use herm::ids::SystemRandom;
use herm::memory::{MessageEntry, MessageRole, TaskEntry, TaskStatus, layers};
use herm::skill::CreatedBy;
use herm::snapshot::store::LocalStore;
use herm::snapshot::{Encryption, OperatorKey, RestoreOptions, Vault};
use herm::{Brain, BrainOptions, Draft, Error, Layout, Result, SettledStep, StepKind};
use herm_tests::brains::{seed_files, skill_text, slug};
use herm_tests::meaning::{Letters, embed_all};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [operation, brains, rest @ ..] = arguments.as_slice() else { return ExitCode::from(2) };
    let layout = Layout::new(brains);
    let done = match operation.as_str() {
        "settle-loop" => settle_loop(&layout),
        "settle" => once(&layout, |brain| settle(brain, 1)),
        "evolve-loop" => evolve_loop(&layout),
        "vectors-loop" => vectors_loop(&layout),
        "archive" => once(&layout, archive),
        "hydrate" => hydrate(&layout),
        "adopt" => adopt(&layout),
        "undo" => once(&layout, undo),
        "fork" => fork(&layout),
        "repair" => repair(&layout),
        "push" => on_runtime(push(&layout)),
        "restore" => on_runtime(restore(&layout)),
        "tasks" => {
            let name = rest.first().map_or("", String::as_str);
            tasks(&layout, name, rest.get(1).and_then(|count| count.parse().ok()).unwrap_or(1))
        }
        "hold" => hold(&layout),
        _ => return ExitCode::from(2),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be what fails.
            let _ = writeln!(std::io::stderr(), "error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn opening() -> BrainOptions {
    BrainOptions {
        wait: Duration::from_secs(30),
        clock: Arc::new(herm::SystemClock),
        on_drift: OnDrift::Refuse,
        signer: Some(Arc::new(herm_tests::signer())),
        trusted: Vec::new(),
    }
}

fn acknowledge(settled: &SettledStep) -> Result<()> {
    say(&format!("ack {} {}", settled.version, settled.after))
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|source| Error::io("write", Path::new("standard output"), source))
}

fn open(layout: &Layout) -> Result<Brain> {
    Brain::open(layout, &"1".parse()?, &opening())
}

fn once(layout: &Layout, work: impl FnOnce(&mut Brain) -> Result<SettledStep>) -> Result<()> {
    let mut brain = open(layout)?;
    acknowledge(&work(&mut brain)?)?;
    brain.close()
}

/// One step that touches everything: rows, telemetry, Layer 1, a flat skill, a support file.
fn settle(brain: &mut Brain, n: u64) -> Result<SettledStep> {
    let mut draft = Draft::new();
    let at = brain.clock().now();
    draft.message(MessageEntry {
        task: format!("t{n}"),
        subscriber: None,
        role: MessageRole::User,
        content: format!("step {n}"),
        at,
    });
    let mut editor = brain.edit(&mut draft);
    editor.edit_skill(&slug("flat-one"), &skill_text("flat-one", &format!("step {n}")))?;
    editor.write_skill_file(&slug("dir-one"), "references/step.md", format!("step {n}\n").into_bytes())?;
    let edits = [layers::LayerEdit::Add { content: format!("step {n}") }];
    editor.edit_layer(herm::brain::MemoryLayer::Memory, &edits)?;
    if n.is_multiple_of(5) {
        editor.create_skill(&slug(&format!("made-{n}")), &skill_text(&format!("made-{n}"), "x"), CreatedBy::Agent)?;
    }
    brain.settle(&draft, StepKind::Task, &format!("step {n}"))
}

fn settle_loop(layout: &Layout) -> Result<()> {
    let mut brain = open(layout)?;
    say("open")?;
    loop {
        let next = brain.lock().version;
        acknowledge(&settle(&mut brain, next)?)?;
        if next.is_multiple_of(7) {
            brain.flush()?;
        }
        if next.is_multiple_of(5) {
            brain.close_unsynced()?;
            brain = open(layout)?;
        }
    }
}

/// Settles, and makes vectors of what was said, over and over.
fn vectors_loop(layout: &Layout) -> Result<()> {
    let mut brain = open(layout)?;
    let reader = herm::Reader::open(layout, brain.id())?;
    say("open")?;
    loop {
        let next = brain.lock().version;
        acknowledge(&settle(&mut brain, next)?)?;
        // Another model every few steps: then all of them are made again.
        let model = Letters::named(&format!("letters@{}", next / 8));
        embed_all(&mut brain, &reader, &model)?;
    }
}

fn archive(brain: &mut Brain) -> Result<SettledStep> {
    let mut draft = Draft::new();
    brain.edit(&mut draft).archive_skill(&slug("dir-one"))?;
    brain.settle(&draft, StepKind::Maintenance, "archive")
}

/// Takes over what was changed by hand.
fn adopt(layout: &Layout) -> Result<()> {
    let mut brain = Brain::open(layout, &"1".parse()?, &BrainOptions { on_drift: OnDrift::Report, ..opening() })?;
    let settled = brain.adopt()?.ok_or_else(|| Error::internal("nothing was changed by hand"))?;
    acknowledge(&settled)?;
    brain.close()
}

/// Undoes the last step.
fn undo(brain: &mut Brain) -> Result<SettledStep> {
    let last = brain.history(1)?.first().map_or(0, |step| step.seq);
    let undone = brain.undo(last, herm::brain::OnChanged::Refuse)?;
    undone.settled.ok_or_else(|| Error::internal("nothing was undone"))
}

/// Makes brain 2 from brain 1.
fn fork(layout: &Layout) -> Result<()> {
    let reader = herm::Reader::open(layout, &"1".parse()?)?;
    let lock = reader.fork(None, layout, &"2".parse()?, &opening())?;
    say(&format!("ack {} {}", lock.version, lock.bundle_hash))
}

/// Goes on without the step that `memory.db` has lost.
fn repair(layout: &Layout) -> Result<()> {
    let trusted = herm::receipt::TrustedKeys::Keys(vec![herm_tests::signer().public().clone()]);
    let repaired = herm::receipt::repair(layout, &"1".parse()?, &opening(), &trusted, herm::brain::OnLoss::Accept)?;
    acknowledge(&repaired.settled.ok_or_else(|| Error::internal("nothing was lost"))?)
}

/// Runs without tokio's IO driver: that wakes threads by writing to an event counter, and a call that is made to fail is
/// to be one of the product's.
fn on_runtime(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.map_err(|source| Error::internal("no runtime").because(source))?.block_on(work)
}

fn vault(layout: &Layout) -> Result<Vault> {
    let store = Arc::new(LocalStore::open(&layout.brains().join(".store"))?);
    let key = Encryption::Key(OperatorKey::from_bytes([1; 32]));
    Ok(Vault::new(store, key, "the child", Arc::new(SystemRandom), Arc::new(herm::SystemClock)))
}

async fn push(layout: &Layout) -> Result<()> {
    vault(layout)?.push(layout, &"1".parse()?).await.map(drop)
}

/// Restores brain 1 from the last snapshot.
async fn restore(layout: &Layout) -> Result<()> {
    let options = RestoreOptions {
        version: None,
        in_place: OnExisting::Refuse,
        trusted: herm::receipt::TrustedKeys::Keys(vec![herm_tests::signer().public().clone()]),
        wait: Duration::from_secs(20),
        progress: None,
        inspect: None,
    };
    vault(layout)?.restore(layout, &"1".parse()?, &options).await?;
    let lock = herm::Reader::open(layout, &"1".parse()?)?.lock().clone();
    say(&format!("ack {} {}", lock.version, lock.bundle_hash))
}

fn hydrate(layout: &Layout) -> Result<()> {
    let files = seed_files();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    let id = "1".parse()?;
    let source = herm::BrainSource::Seed(herm::Seed { id: &id, files: &files });
    let (brain, _) = Brain::hydrate(layout, &id, &source, &opening())?;
    let lock = brain.lock();
    say(&format!("ack {} {}", lock.version, lock.bundle_hash))?;
    brain.close()
}

/// Many short tasks, each with its own open and close, as several processes would do.
fn tasks(layout: &Layout, name: &str, count: usize) -> Result<()> {
    for n in 0..count {
        let mut brain = open(layout)?;
        let mut draft = Draft::new();
        let at = brain.clock().now();
        let (task, summary) = (format!("{name}-{n}"), format!("task {n} of {name}"));
        draft.task(TaskEntry { task, subscriber: None, outcome: TaskStatus::Converged, summary: summary.clone(), at });
        acknowledge(&brain.settle(&draft, StepKind::Task, &summary)?)?;
        brain.close()?;
    }
    Ok(())
}

/// Holds the brain until it is killed.
fn hold(layout: &Layout) -> Result<()> {
    let brain = open(layout)?;
    say(&format!("holding {}", brain.id()))?;
    loop {
        std::thread::park();
    }
}

/// Changes a skill as the evolver does, over and over: its text and a file beside it in one step, after a verifier has
/// seen both, and now and then takes one back. Each text tells which change it is.
fn evolve_loop(layout: &Layout) -> Result<()> {
    let mut brain = open(layout)?;
    say("open")?;
    loop {
        let number = brain.lock().version + 1;
        let step = evolve(&mut brain, number)?;
        if number.is_multiple_of(4) {
            let done = herm::evolver::rollback(&mut brain, step, herm::brain::OnChanged::Refuse)?;
            if let Some(settled) = done.settled {
                acknowledge(&settled)?;
            }
        }
        if number.is_multiple_of(5) {
            brain.close_unsynced()?;
            brain = open(layout)?;
        }
    }
}

/// One change; the number of its step.
fn evolve(brain: &mut Brain, number: u64) -> Result<i64> {
    let skill = slug("dir-one");
    let text = herm::evolver::EvolverView::of_brain(brain)?.text(&skill)?;
    let expected = text.ok_or_else(|| Error::not_found("the skill is gone"))?.digest;
    let beside = ("references/change.md".to_owned(), Some(format!("change {number}\n")));
    let change = herm::evolver::SkillUpdate {
        skill,
        expected,
        content: skill_text("dir-one", &format!("change {number}")),
        support: vec![beside],
        why: serde_json::json!({ "what": "notes" }),
    };
    let verification = herm::evolver::verification::VerificationOptions {
        verify: Some("grep -q change \"$HERM_EVOLVE_TARGET_PATH\" references/change.md".to_owned()),
        ..Default::default()
    };
    let done = herm::evolver::apply(brain, &change, herm::evolver::EvolverApproval::Given, &verification)?;
    match (done.manifest, &done.settled) {
        (Some(step), Some(settled)) => acknowledge(settled).map(|()| step),
        _ => Err(Error::internal(format!("not applied: {done:?}"))),
    }
}
