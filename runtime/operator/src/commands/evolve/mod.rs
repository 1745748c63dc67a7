//! `herm evolve`: the evolver by hand.
//!
//! - `look`: status, report, analyze, candidates. They read, and take no lock.
//! - `review`: propose, verify, mine, queue.
//! - `change`: apply, rollback, drill.
//! - `pass`: auto-run, backfill.
//! - `timer`: bootstrap, install-auto, uninstall-auto.

mod change;
mod inspect;
mod pass;
mod rankers;
mod review;
mod timer;

use std::path::PathBuf;

use herm::brain::OnDrift;
use herm::evolver::EvolverView;
use herm::evolver::verification::VerificationOptions;
use herm::{Brain, BrainId, Clock as _, Error, Reader, Result, Slug, SystemClock};
use serde_json::{Value, json};

use super::{finish, to_json};
use crate::cli::{Evolve, Verifiers};
use crate::config::Settings;
use crate::operations::external_skills;
use crate::output::Answer;

pub(super) fn run(settings: &Settings, command: &Evolve) -> Result<Answer> {
    match command {
        Evolve::Status { id } => inspect::status(settings, &id.parse()?),
        Evolve::Report { id, days } => inspect::report(settings, &id.parse()?, *days),
        Evolve::Analyze(arguments) => inspect::analyze(settings, arguments),
        Evolve::Candidates(arguments) => inspect::candidates(settings, arguments),
        Evolve::Propose(arguments) => review::propose(settings, arguments),
        Evolve::Verify { id, proposal, skill, days } => {
            review::verify(settings, &id.parse()?, proposal, skill.as_deref(), *days)
        }
        Evolve::Mine(arguments) => review::mine(settings, arguments),
        Evolve::Queue(command) => review::queue(settings, command),
        Evolve::Apply(arguments) => change::apply(settings, arguments),
        Evolve::Rollback { id, manifest, force } => change::rollback(settings, &id.parse()?, *manifest, *force),
        Evolve::Drill { id, manifest, into } => change::drill(settings, &id.parse()?, *manifest, into.as_deref()),
        Evolve::AutoRun(arguments) => pass::auto_run(settings, arguments),
        Evolve::Backfill(arguments) => pass::backfill(settings, arguments),
        Evolve::Bootstrap(arguments) => timer::bootstrap(settings, arguments),
        Evolve::InstallAuto(arguments) => timer::install_auto(settings, arguments),
        Evolve::UninstallAuto { id, keep_enabled } => timer::uninstall_auto(&id.parse()?, *keep_enabled),
    }
}

/// Looks at a brain, without its lock.
fn looking<T>(settings: &Settings, id: &BrainId, look: impl FnOnce(&EvolverView<'_>) -> Result<T>) -> Result<T> {
    let reader = Reader::open(&settings.layout, id)?;
    let ground = EvolverView::of_reader(&reader, SystemClock.now())?.with_external(external_skills(settings)?);
    look(&ground)
}

/// Opens a brain, does something with it, and lets go of it; with its lease, where brains are leased.
/// What could not be finished comes along.
fn owning<T>(
    settings: &Settings,
    id: &BrainId,
    work: impl FnOnce(&mut Brain) -> Result<T>,
) -> Result<(T, Option<String>)> {
    settings.while_leased(id, || {
        let mut brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Refuse))?;
        let done = work(&mut brain);
        let unfinished = finish(brain);
        Ok((done?, unfinished?))
    })
}

/// Where another agent's program keeps its sessions, unless it is told otherwise:
/// `sessions` in `$HERMES_HOME`, else in `~/.hermes`.
fn default_sessions() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = set("HERMES_HOME").or_else(|| Some(set("HOME")?.join(".hermes")))?;
    Some(home.join("sessions"))
}

fn verification(said: &Verifiers) -> Result<VerificationOptions> {
    let directory = match &said.verify_cwd {
        None => None,
        Some(dir) => Some(dir.canonicalize().map_err(|source| Error::io("open", dir, source))?),
    };
    Ok(VerificationOptions {
        staged: said.staged_verify,
        pre_verify: said.pre_verify_command.clone(),
        verify: said.verify_command.clone(),
        directory,
        timeout: None,
    })
}

/// A skill of which there is neither a text nor evidence.
fn unknown_skill(id: &BrainId, skill: &Slug) -> Error {
    Error::not_found(format!("brain {id} has no skill {skill}, and no evidence of one"))
        .hint(format!("see its skills with `herm skills list {id}`"))
}

/// How many days a window may have.
fn check_days(days: u32) -> Result<u32> {
    match days {
        1..=3650 => Ok(days),
        _ => {
            Err(Error::invalid(format!("--days is {days}, and goes from 1 to 3650"))
                .hint("leave it out for the default"))
        }
    }
}

/// A result as JSON, with the brain's number first.
fn with_id(id: &BrainId, value: &impl serde::Serialize) -> Result<Value> {
    let mut document = json!({ "id": id });
    if let (Some(fields), Value::Object(more)) = (document.as_object_mut(), to_json(value)?) {
        fields.extend(more);
    }
    Ok(document)
}
