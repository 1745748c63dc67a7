//! `herm run`: a task, from the question to the answer with its receipt.

use std::io::Read as _;

use herm::brain::OnDrift;
use herm::task::SettleMode;
use herm::{
    Brain, BrainId, BrainSource, CancelToken, Error, ErrorKind, Harness, Outcome, Reader, Result, RunOptions,
    StopReason, SubscriberId, Task, TaskEvent, TaskStatus,
};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{finish, to_json};
use crate::backends;
use crate::cli::{Cli, RunTask};
use crate::config::Settings;
use crate::exit;
use crate::live::{ProgressDisplay, verb, wish};
use crate::mcp;
use crate::output::{self, Answer};
use crate::seeds;
use crate::spinner::TICK;

pub(super) fn run(settings: &Settings, arguments: &RunTask, cli: &Cli) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let mut limits = settings.config.limits.unwrap_or_default().limits();
    limits.turns = arguments.max_turns.unwrap_or(limits.turns);
    limits.deadline_secs = arguments.deadline.unwrap_or(limits.deadline_secs);
    limits.validate()?;
    let subscriber = arguments.subscriber.as_deref().map(str::parse::<SubscriberId>).transpose()?;
    let input = input(arguments, &id, limits.input_bytes)?;
    let keep = if arguments.dry_run { SettleMode::DryRun } else { SettleMode::Settle };
    let preload = arguments.no_preload.then_some(false);
    let task = Task { subscriber, input, limits, keep, backend: arguments.backend.clone(), preload, ..Task::default() };
    task.validate()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| Error::unavailable("no threads can be started").because(source))?;
    let (tools, warnings) = runtime.block_on(mcp::connect(settings))?;
    let snapshotting = runtime.block_on(settings.snapshotting())?;
    let elsewhere = match &snapshotting {
        Some(how) if settings.layout.brain(&id).symlink_metadata().is_err() => {
            runtime.block_on(how.vault.trusted_head(&settings.layout, &id))?.is_some()
        }
        _ => false,
    };
    let (backend, model) = (arguments.backend.as_deref(), arguments.model.as_deref());
    let harness = backends::harness(settings, backend, model, tools, snapshotting)?;
    // A brain that has lived elsewhere is restored, never begun anew.
    if !elsewhere {
        make_from_seed(settings, &id)?;
    }
    let mut outcome = runtime.block_on(follow(&harness, &id, task, arguments.events, cli.quiet || cli.json))?;
    outcome.warnings.splice(0..0, warnings);
    // The answer first: files and snapshots are flushed while it is read. A JSON document says what became of them too,
    // and comes when that is known.
    let mut answer = answer(&outcome, arguments)?;
    let printed = if cli.json { Ok(()) } else { output::print_text(&std::mem::take(&mut answer.text)) };
    let unfinished = runtime.block_on(harness.shutdown()).err().map(|error| {
        format!(
            "the step is settled, but not everything of brain {id} could be finished ({}); the next command finishes it",
            error.message()
        )
    });
    // A reader that has seen enough closes the pipe; any other failure to print is one.
    if let Err(source) = printed
        && source.kind() != std::io::ErrorKind::BrokenPipe
    {
        return Err(Error::unavailable("the answer could not be written").because(source));
    }
    if arguments.events {
        return Ok(answer);
    }
    let answer = if outcome.settled.is_some() { tell_waiting(settings, &id, answer) } else { answer };
    Ok(answer.unfinished(unfinished))
}

/// Says how many changes wait for a person, those that were found after the task among them. A brain that cannot be read
/// now says nothing: the task is settled all the same.
fn tell_waiting(settings: &Settings, id: &BrainId, mut answer: Answer) -> Answer {
    let waiting = Reader::open(&settings.layout, id).and_then(|reader| reader.evolver_rows().waiting());
    let Ok(waiting) = waiting else { return answer };
    answer.json["waiting"] = json!(waiting);
    if waiting == 0 {
        return answer;
    }
    let said = if waiting == 1 { "1 change waits".to_owned() } else { format!("{waiting} changes wait") };
    let line = format!("{said}: `herm evolve queue list {id}`");
    let note = answer.note.take().map_or_else(|| line.clone(), |note| format!("{note}\n{line}"));
    answer.note(note)
}

/// The first run makes the brain, if its number has a seed.
fn make_from_seed(settings: &Settings, id: &BrainId) -> Result<()> {
    if settings.layout.brain(id).symlink_metadata().is_ok() || seeds::files(id.as_str()).is_none() {
        return Ok(());
    }
    if settings.layout.last_seen_snapshot(id).exists() {
        return Err(Error::refused(format!("brain {id} was here, and is not any more: it is not begun anew")).hint(
            format!(
                "bring it back with `herm restore {id}`; to begin anew all the same, remove {}",
                settings.layout.last_seen_snapshot(id).display()
            ),
        ));
    }
    let source = BrainSource::Seed(seeds::get(id)?);
    let (brain, _) = Brain::hydrate(&settings.layout, id, &source, &settings.open_options(OnDrift::Refuse))?;
    finish(brain).map(|_| ())
}

fn input(arguments: &RunTask, id: &BrainId, most: usize) -> Result<String> {
    let bytes = if let Some(name) = &arguments.example {
        return example(id, name);
    } else if let Some(path) = &arguments.file {
        read_file(path, most)?
    } else {
        match arguments.text.as_deref() {
            Some("-") => {
                let mut bytes = Vec::new();
                // One more than allowed is enough to see that it is too much.
                let mut stdin = std::io::stdin().lock().take(most as u64 + 1);
                stdin
                    .read_to_end(&mut bytes)
                    .map_err(|source| Error::unavailable("standard input cannot be read").because(source))?;
                bytes
            }
            Some(text) => return Ok(text.to_owned()),
            None => {
                return Err(Error::invalid("what should the agent do?")
                    .hint("give a text, --file FILE, --example, or `-` to read standard input"));
            }
        }
    };
    String::from_utf8(bytes)
        .map_err(|source| Error::invalid("the input is not UTF-8 text").hint("save it as UTF-8").because(source))
}

/// The file of `--file`. What is wrong with it is told in terms of the task, not of a brain's files.
fn read_file(path: &std::path::Path, most: usize) -> Result<Vec<u8>> {
    herm::fsio::read_regular(path, most as u64).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            Error::invalid(format!("{} has more than the {most} bytes an input may have", path.display()))
                .hint("send less, or raise limits.input_bytes in the configuration (8 MiB at most)")
        }
        ErrorKind::Refused => Error::invalid(format!("{} is not a file that can be read", path.display()))
            .hint("name a text file, or `-` to read standard input"),
        _ => error,
    })
}

/// An example of the agent's seed, by name or by the beginning of it.
fn example(id: &BrainId, name: &str) -> Result<String> {
    let files = seeds::get(id)?.files;
    let mut examples = files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix("examples/")?, *bytes)));
    let names: Vec<&str> = examples.clone().map(|(name, _)| name).collect();
    match examples.find(|(example, _)| example.starts_with(name)) {
        Some((_, bytes)) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        None => Err(Error::not_found(format!("agent {id} has no example {name:?}"))
            .hint(format!("there are: {}", names.join(", ")))),
    }
}

async fn follow(harness: &Harness, id: &BrainId, task: Task, as_lines: bool, quiet: bool) -> Result<Outcome> {
    let (events, mut heard) = tokio::sync::mpsc::unbounded_channel::<TaskEvent>();
    let cancel = CancelToken::new();
    let interrupted = cancel.clone();
    // From here on, not from when someone first waits for it.
    let mut keys = signal(SignalKind::interrupt())
        .map_err(|source| Error::unavailable("Ctrl-C cannot be waited for").because(source))?;
    tokio::spawn(async move {
        if keys.recv().await.is_some() {
            interrupted.cancel();
        }
    });
    let shown = tokio::spawn(async move {
        let mut live = ProgressDisplay::new(quiet || as_lines);
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let event = tokio::select! {
                event = heard.recv() => event,
                _ = ticks.tick(), if live.moves() => {
                    live.tick();
                    continue;
                }
            };
            let Some(event) = event else { break };
            live.show(&event);
            if as_lines && let Ok(line) = serde_json::to_string(&event) {
                // A reader that has seen enough does not end the task.
                let _ = output::print(&format!("{line}\n"));
            }
        }
    });
    let outcome =
        harness.run_with(id, task, RunOptions { events: Some(events), cancel, ..RunOptions::default() }).await;
    // The sender went with the task: what was said is shown.
    let _ = shown.await;
    outcome
}

fn answer(outcome: &Outcome, arguments: &RunTask) -> Result<Answer> {
    let code = match (outcome.status, outcome.stop) {
        // The answer is there; that it is safe elsewhere was asked for, and is not.
        _ if outcome.unpushed.is_some() => exit::UNAVAILABLE,
        (TaskStatus::Converged, _) => exit::DONE,
        (_, StopReason::Backend) => exit::UNAVAILABLE,
        _ => exit::NEGATIVE,
    };
    let json = to_json(outcome)?;
    if arguments.events {
        let line = json!({ "event": "outcome", "outcome": json });
        return Ok(Answer::new(format!("{line}\n"), line).code(code));
    }
    let text = match &outcome.answer {
        Some(answer) => format!("{answer}\n"),
        None => String::new(),
    };
    Ok(Answer::new(text, json).code(code).note(note(outcome)))
}

/// What became of the task, for people.
fn note(outcome: &Outcome) -> String {
    let mut lines = Vec::new();
    if let Some(message) = &outcome.message {
        lines.push(format!("{}: {message}", outcome.status.name()));
        if outcome.stop == StopReason::Backend {
            lines.push(
                "  hint: see that the endpoint runs and takes this key, or choose another with --backend".to_owned(),
            );
        }
    }
    for warning in outcome.unpushed.iter().chain(&outcome.warnings) {
        lines.push(format!("note: {warning}"));
    }
    let learned: Vec<String> =
        outcome.skills_changed.iter().map(|moved| format!("{} {}", verb(moved.change), moved.slug)).collect();
    let model = outcome.model.as_deref().unwrap_or("nobody");
    let mut said =
        format!("{} · {} turns, {} calls · {model}", outcome.status.name(), outcome.turns, outcome.calls.len());
    if !learned.is_empty() {
        said.push_str(&format!(" · {}", learned.join(", ")));
    }
    lines.push(said);
    // After a dry run nothing waits.
    if outcome.settled.is_some() && !outcome.skills_proposed.is_empty() {
        let wishes = outcome.skills_proposed.iter().map(|moved| format!("{} {}", wish(moved.change), moved.slug));
        let wishes = wishes.collect::<Vec<_>>().join(", ");
        lines.push(format!("waits for review: {wishes} · see `herm evolve queue list {}`", outcome.brain));
    }
    match &outcome.settled {
        Some(settled) => lines.push(format!(
            "brain {} is now version {} · receipt signed: look with `herm receipts verify {}`",
            outcome.brain, settled.version, outcome.brain
        )),
        None => lines.push("dry run: nothing was settled".to_owned()),
    }
    lines.join("\n")
}
