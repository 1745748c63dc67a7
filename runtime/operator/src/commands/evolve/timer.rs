//! The timer that lets the evolver pass by itself.

use herm::evolver::backfill::{self, BackfillScope};
use herm::evolver::pass::EvolverPassOptions;
use herm::{BrainId, Error, Reader, Result};
use serde_json::json;

use super::pass::backfilled_text;
use super::{check_days, owning, verification, with_id};
use crate::cli::{Bootstrap, InstallAuto, Timer};
use crate::commands::to_json;
use crate::config::Settings;
use crate::exit;
use crate::output::Answer;
use crate::timer::{
    self, Activation, EnableOptions, Installed, Machine, Schedule, Scheduler, StopOptions, TimerPlan, Uninstalled,
    carried,
};

pub(super) fn install_auto(settings: &Settings, arguments: &InstallAuto) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let enabling = if arguments.enable { EnableOptions::Now } else { EnableOptions::FilesOnly };
    let (plan, withheld) = plan(settings, &id, &arguments.timer)?;
    let scheduler = Scheduler::of_this_machine();
    let installed = timer::install(&plan, scheduler, enabling, &Machine::here()?)?;
    let mut json = with_id(&id, &installed)?;
    json["schedule"] = json!(plan.schedule.to_string());
    json["command"] = json!(command(&plan));
    json["withheld"] = json!(withheld);
    let code = if installed.activation.has_failed() { exit::UNAVAILABLE } else { exit::DONE };
    let text = installed_text(&id, &installed, &plan, &withheld);
    Ok(Answer::new(text, json).code(code).note(scheduler.remark()))
}

pub(super) fn bootstrap(settings: &Settings, arguments: &Bootstrap) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let scope = BackfillScope { days: check_days(arguments.days)?, limit: None };
    let mut said = arguments.timer.clone();
    said.policy.semantic_candidates |= arguments.semantic;
    said.policy.rerank_candidates |= arguments.semantic;
    // What the timer cannot be is known before anything is taken in.
    let (plan, withheld) = plan(settings, &id, &said)?;
    let machine = Machine::here()?;
    let usual = super::default_sessions();
    let found = usual.as_deref().filter(|dir| dir.is_dir());
    let (backfilled, unfinished) = match arguments.sessions_dir.as_deref().or(found) {
        None => (None, None),
        Some(dir) => {
            let (done, unfinished) = owning(settings, &id, |brain| backfill::backfill(brain, dir, scope))?;
            (Some(done), unfinished)
        }
    };
    let enabling = if arguments.no_enable { EnableOptions::FilesOnly } else { EnableOptions::Now };
    let scheduler = Scheduler::of_this_machine();
    let installed = timer::install(&plan, scheduler, enabling, &machine)?;
    let mut text = match &backfilled {
        Some(done) => backfilled_text(done),
        None => match &usual {
            Some(dir) => format!("no earlier sessions: none were named, and there is no {}\n", dir.display()),
            None => "no earlier sessions were named\n".to_owned(),
        },
    };
    text.push_str(&installed_text(&id, &installed, &plan, &withheld));
    let next = [
        format!("herm evolve report {id}"),
        format!("herm evolve auto-run {id}"),
        format!("herm evolve queue list {id}"),
    ];
    let json = json!({
        "id": id, "backfill": to_json(&backfilled)?, "auto_timer": to_json(&installed)?,
        "schedule": plan.schedule.to_string(), "command": command(&plan), "withheld": withheld,
        "semantic_requested": said.policy.semantic_candidates, "rerank_requested": said.policy.rerank_candidates,
        "next_steps": next,
    });
    let unread = backfilled.as_ref().is_some_and(|done| done.files_failed > 0);
    let code = match (installed.activation.has_failed(), unread) {
        (true, _) => exit::UNAVAILABLE,
        (false, true) => exit::NEGATIVE,
        (false, false) => exit::DONE,
    };
    Ok(Answer::new(text, json).note(scheduler.remark()).unfinished(unfinished).code(code))
}

pub(super) fn uninstall_auto(id: &BrainId, keep_enabled: bool) -> Result<Answer> {
    let stopping = if keep_enabled { StopOptions::FilesOnly } else { StopOptions::Now };
    let done = timer::uninstall(id, Scheduler::of_this_machine(), stopping, &Machine::here()?)?;
    let Uninstalled { removed, activation, .. } = &done;
    let mut text = match removed.is_empty() {
        true => format!("brain {id} has no timer\n"),
        false => removed.iter().map(|path| format!("removed {}\n", path.display())).collect(),
    };
    if let Activation::Failed(why) = activation {
        text.push_str(&format!("the scheduler was not told: {why}\n"));
    }
    Ok(Answer::new(text, with_id(id, &done)?))
}

/// What the timer runs: this program, on this brain, as the flags say.
fn plan(settings: &Settings, id: &BrainId, said: &Timer) -> Result<(TimerPlan, Vec<String>)> {
    // A timer for a brain that is not there would fail every day.
    Reader::open(&settings.layout, id)?;
    if settings.evolver().is_off() {
        return Err(Error::refused("the configuration turns the evolver off, and a timer would turn it on again")
            .hint("change mode in [evolver], or leave the timer out"));
    }
    let usual = EvolverPassOptions::default();
    let options = EvolverPassOptions {
        days: said.window_days.unwrap_or(usual.days),
        max_skills: said.max_skills.unwrap_or(usual.max_skills),
        min_evidence: said.min_evidence.unwrap_or(usual.min_evidence),
        variants: said.variants.unwrap_or(usual.variants),
        ..usual
    };
    options.check()?;
    verification(&said.verifiers)?;
    let here = std::env::current_dir().map_err(|source| Error::io("find", ".".as_ref(), source))?;
    let program = std::env::current_exe().map_err(|source| Error::io("find", "herm".as_ref(), source))?;
    let brains = here.join(settings.layout.brains());
    let text = |path: &std::path::Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::invalid(format!("{} is not UTF-8", path.display())).hint("move it to a place with a plain path")
        })
    };
    let mut arguments: Vec<String> = vec!["--brains".to_owned(), text(&brains)?];
    if let Some(file) = &settings.file {
        arguments.extend(["--config".to_owned(), text(&here.join(file))?]);
    }
    arguments.extend(["--json", "evolve", "auto-run", id.as_str()].map(str::to_owned));
    match said.proposal_only {
        true => arguments.push("--hold".to_owned()),
        false => arguments.extend(["--apply-low-risk", "--approve-auto-apply", "--staged-verify"].map(str::to_owned)),
    }
    let mut flag = |is_on: bool, name: &str| {
        if is_on {
            arguments.push(name.to_owned());
        }
    };
    flag(said.require_restore_drill, "--require-restore-drill");
    flag(said.policy.no_protect_core_skills, "--no-protect-core-skills");
    flag(said.policy.semantic_candidates, "--semantic-candidates");
    flag(said.policy.rerank_candidates, "--rerank-candidates");
    let verify_cwd = said.verifiers.verify_cwd.as_ref().map(|dir| text(&here.join(dir))).transpose()?;
    let number = |value: Option<usize>| value.map(|value| value.to_string());
    let valued = [
        ("--days", said.window_days.map(|days| days.to_string())),
        ("--max-skills", number(said.max_skills)),
        ("--min-evidence", said.min_evidence.map(|least| least.to_string())),
        ("--variants", number(said.variants)),
        ("--pre-verify-command", said.verifiers.pre_verify_command.clone()),
        ("--verify-command", said.verifiers.verify_command.clone()),
        ("--verify-cwd", verify_cwd),
    ];
    let globs = |name, globs: &[String]| globs.iter().map(move |glob| (name, Some(glob.clone()))).collect::<Vec<_>>();
    let allowed = globs("--allow-auto-apply-skill", &said.policy.allow_auto_apply_skill);
    let blocked = globs("--block-auto-apply-skill", &said.policy.block_auto_apply_skill);
    for (name, value) in valued.into_iter().chain(allowed).chain(blocked) {
        if let Some(value) = value {
            // As one word: a value may begin with a hyphen.
            arguments.push(format!("{name}={value}"));
        }
    }
    let carried = carried(std::env::vars_os(), &here);
    let plan = TimerPlan {
        brain: id.clone(),
        program,
        arguments,
        environment: carried.environment,
        schedule: said.schedule.parse::<Schedule>()?,
        working_dir: brains,
    };
    Ok((plan, carried.withheld))
}

fn command(plan: &TimerPlan) -> Vec<String> {
    std::iter::once(plan.program.display().to_string()).chain(plan.arguments.iter().cloned()).collect()
}

fn installed_text(id: &BrainId, installed: &Installed, plan: &TimerPlan, withheld: &[String]) -> String {
    let mut text = format!("a timer of brain {id}, {}\n", plan.schedule);
    text.push_str(match plan.arguments.iter().any(|word| word == "--hold") {
        true => "it holds what it finds until a person accepts it\n",
        false => "it changes skills that the agent wrote by itself; --proposal-only would hold the changes instead\n",
    });
    text.push_str(&format!("  {}\n", command(plan).join(" ")));
    text.extend(installed.paths.iter().map(|path| format!("  {}\n", path.display())));
    text.push_str(&match &installed.activation {
        Activation::Done(_) => "it is enabled\n".to_owned(),
        Activation::NotAsked => format!("it is not enabled: `herm evolve install-auto {id} --enable` does that\n"),
        Activation::Failed(why) => format!("its files are there, but it is not enabled: {why}\n"),
    });
    for name in withheld {
        text.push_str(&format!("{name} does not go along: it holds a secret, or cannot be written down\n"));
    }
    text
}
