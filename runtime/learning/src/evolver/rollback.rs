//! Taking an applied change back, main file and support files together, and the drill that shows it
//! could be taken back: everything restored into an empty directory, every digest checked.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::brain::{Brain, OnChanged, SettledStep};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{self, Root, SyncTiming};
use crate::ids::{Digest, RelPath, Slug};
use crate::layout;
use crate::memory::{EvolverChange, TrialRestart, TrialState};

/// How a rollback went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RollbackReport {
    /// Whether the change was taken back.
    pub rolled_back: bool,
    /// `rolled-back`, `already-as-before` or `target-changed`.
    pub reason: &'static str,
    /// What exactly stood in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The step whose change it is.
    pub manifest: i64,
    /// The files that were put back.
    pub files: Vec<RelPath>,
    /// How the brain moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledStep>,
}

/// The change that a step applied.
pub fn change_of(brain: &Brain, step: i64) -> Result<EvolverChange> {
    brain.evolver_rows().changes_of(step)?.into_iter().next().ok_or_else(|| {
        Error::not_found(format!("step {step} of brain {} is no change of the evolver's", brain.id()))
            .hint(format!("`herm evolve report {}` lists the changes that were applied", brain.id()))
    })
}

/// The step whose change of a skill is on trial; `None` where the skill is on no trial, or on one that no
/// change of the evolver's began.
pub fn change_on_trial(brain: &Brain, skill: &Slug) -> Result<Option<i64>> {
    if brain.trial(skill)?.is_none_or(|trial| trial.state != TrialState::Trial) {
        return Ok(None);
    }
    let Some(TrialRestart { step, .. }) = brain.trial_restart(skill)? else { return Ok(None) };
    let changes = brain.evolver_rows().changes_of(step)?;
    let stands = changes.iter().any(|change| change.skill == *skill && change.rolled_back_at.is_none());
    Ok(stands.then_some(step))
}

/// Takes the change of a step back, as a step of its own.
pub fn rollback(brain: &mut Brain, step: i64, on_changed: OnChanged) -> Result<RollbackReport> {
    change_of(brain, step)?;
    let refused = |reason, detail| RollbackReport {
        rolled_back: false,
        reason,
        detail,
        manifest: step,
        files: Vec::new(),
        settled: None,
    };
    match brain.undo(step, on_changed) {
        Ok(undone) => match undone.settled {
            Some(settled) => Ok(RollbackReport {
                rolled_back: true,
                reason: "rolled-back",
                detail: None,
                manifest: step,
                files: undone.plan.files.into_iter().map(|file| file.path).collect(),
                settled: Some(settled),
            }),
            None => {
                // Someone put it back already: it does not stand any more.
                let now = brain.clock().now();
                brain.write_evolver_rows(|notes| notes.mark_rolled_back(step, now))?;
                Ok(refused("already-as-before", None))
            }
        },
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Ok(refused("target-changed", Some(error.message().to_owned())))
        }
        Err(error) => Err(error),
    }
}

/// How one part of a drill went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DrillCheck {
    /// What was checked holds.
    Pass,
    /// It holds, but something beside it is gone.
    Warn,
    /// It does not hold.
    Fail,
    /// There was nothing to check.
    Skipped,
}

/// How a drill went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrillReport {
    /// The step whose change was drilled.
    pub manifest: i64,
    /// `pass`, `partial` or `fail`.
    pub status: &'static str,
    /// When the drill was made.
    pub at: Timestamp,
    /// What was checked, each by its name and with its result.
    pub checks: Vec<(&'static str, DrillCheck)>,
    /// The files that were restored, by their paths in the brain.
    pub restored: Vec<RelPath>,
    /// What did not hold.
    pub errors: Vec<String>,
    /// What is gone beside it.
    pub warnings: Vec<String>,
}

/// Restores what a change replaced into `into`, which must be empty or not be there, and checks every
/// digest. The brain stays as it is; how it went is remembered.
pub fn drill(brain: &mut Brain, step: i64, into: &Path) -> Result<DrillReport> {
    let brains = brain.path().parent().map(Path::to_owned).unwrap_or_default();
    if is_inside(into, &brains)? {
        return Err(Error::refused(format!("{} is where brains live", into.display()))
            .hint("name an empty directory elsewhere, or none for a temporary one"));
    }
    restore_into(brain, step, into)
}

/// Whether a path, which need not be there yet, lies inside a directory.
fn is_inside(path: &Path, dir: &Path) -> Result<bool> {
    let real = |path: &Path| path.canonicalize().map_err(|source| Error::io("find", path, source));
    let here = std::env::current_dir().map_err(|source| Error::io("find", Path::new("."), source))?;
    let full = here.join(path);
    let there = full.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    Ok(real(there)?.starts_with(real(dir)?))
}

fn restore_into(brain: &mut Brain, step: i64, into: &Path) -> Result<DrillReport> {
    let change = change_of(brain, step)?;
    let root = empty_directory(into)?;
    let mut drilled = DrillReport {
        manifest: step,
        status: "pass",
        at: brain.clock().now(),
        checks: Vec::new(),
        restored: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    let record = brain.step(step)?;
    let named = |digest: Option<Digest>| json!(digest);
    let told: Vec<(String, Value, Value)> = listed(&change.manifest);
    let (mut target, mut support) = (DrillCheck::Skipped, DrillCheck::Skipped);
    for file in &record.changes {
        let as_told = told.iter().any(|(path, before, after)| {
            path == file.path.as_str() && *before == named(file.before) && *after == named(file.after)
        });
        let outcome = match as_told {
            true => restore(brain, &root, &file.path, file.before),
            false => Err(format!("{} is not in the manifest as the journal has it", file.path)),
        };
        let is_main = file.path.name() == layout::SKILL_FILE || is_target(&change, &file.path);
        let mark = if is_main { &mut target } else { &mut support };
        match outcome {
            Ok(restored) => {
                drilled.restored.extend(restored.then(|| file.path.clone()));
                *mark = if *mark == DrillCheck::Fail { DrillCheck::Fail } else { DrillCheck::Pass };
            }
            Err(why) => {
                drilled.errors.push(why);
                *mark = DrillCheck::Fail;
            }
        }
    }
    drilled.checks.push(("target-recovery", target));
    drilled.checks.push(("support-files-recovery", support));
    let references = evidence_references(brain, &change.manifest, &mut drilled.warnings)?;
    drilled.checks.push(("evidence-references", references));
    let provenance = match change.manifest.get("source").and_then(Value::as_str) {
        Some(_) => DrillCheck::Pass,
        None => DrillCheck::Skipped,
    };
    drilled.checks.push(("provenance-metadata", provenance));
    drilled.checks.push(("receipt", receipt(brain, step, &mut drilled.warnings)?));
    drilled.status = match &drilled.checks {
        checks if checks.iter().any(|(_, mark)| *mark == DrillCheck::Fail) => "fail",
        checks if checks.iter().any(|(_, mark)| *mark == DrillCheck::Warn) => "partial",
        _ => "pass",
    };
    let state = json!({ "manifest": step, "status": drilled.status, "at": drilled.at });
    brain.write_evolver_rows(|notes| notes.set_drill(&state))?;
    Ok(drilled)
}

/// The same in a directory beside the brain that is cleared away afterwards.
pub fn drill_in_staging(brain: &mut Brain, step: i64) -> Result<DrillReport> {
    let aside = brain.staging();
    if aside.symlink_metadata().is_ok() {
        fsio::remove_tree(&aside)?;
    }
    let drilled = restore_into(brain, step, &aside);
    let cleared = if aside.symlink_metadata().is_ok() { fsio::remove_tree(&aside) } else { Ok(()) };
    let drilled = drilled?;
    cleared?;
    Ok(drilled)
}

/// A directory that is empty, made where it is not there.
fn empty_directory(into: &Path) -> Result<Root> {
    fsio::create_dirs(into)?;
    let root = Root::open(into)?;
    if root.list()?.is_empty() {
        return Ok(root);
    }
    Err(Error::refused(format!("{} is not empty", into.display()))
        .hint("a drill restores into a directory of its own; name an empty one"))
}

/// The files of a manifest: path, digest before, digest after.
fn listed(manifest: &Value) -> Vec<(String, Value, Value)> {
    let files = manifest.get("files").and_then(Value::as_array).cloned().unwrap_or_default();
    let one =
        |file: &Value| Some((file.get("path")?.as_str()?.to_owned(), file["before"].clone(), file["after"].clone()));
    files.iter().filter_map(one).collect()
}

/// Puts what a file was into the directory, and reads it back. Whether there was anything.
fn restore(brain: &Brain, root: &Root, path: &RelPath, before: Option<Digest>) -> Result<bool, String> {
    let Some(digest) = before else { return Ok(false) };
    let content = brain.settled_content(&digest).map_err(|error| error.message().to_owned())?;
    let content = content.ok_or_else(|| format!("the journal has lost what {path} was before"))?;
    root.replace(path, &content, SyncTiming::Now).map_err(|error| error.message().to_owned())?;
    let read = root.read(path, layout::MAX_FILE_BYTES).map_err(|error| error.message().to_owned())?;
    match read.is_some_and(|read| Digest::of(&read) == digest) {
        true => Ok(true),
        false => Err(format!("{path} was restored and is not what it was")),
    }
}

fn evidence_references(brain: &Brain, manifest: &Value, warnings: &mut Vec<String>) -> Result<DrillCheck> {
    let ids = manifest.get("evidence").and_then(|evidence| evidence.get("ids")).and_then(Value::as_array);
    let ids: Vec<i64> = ids.into_iter().flatten().filter_map(Value::as_i64).collect();
    if ids.is_empty() {
        return Ok(DrillCheck::Skipped);
    }
    let view = brain.evidence_view();
    let mut gone = 0;
    for id in &ids {
        gone += usize::from(!view.known(*id)?);
    }
    if gone == 0 {
        return Ok(DrillCheck::Pass);
    }
    warnings.push(format!("{gone} of the {} pieces of evidence it rests on were let go since", ids.len()));
    Ok(DrillCheck::Warn)
}

fn receipt(brain: &Brain, step: i64, warnings: &mut Vec<String>) -> Result<DrillCheck> {
    if brain.receipts(1, u64::MAX)?.iter().any(|receipt| receipt.step == step) {
        return Ok(DrillCheck::Pass);
    }
    warnings.push("the step has no receipt: it was settled without someone to sign".to_owned());
    Ok(DrillCheck::Warn)
}

/// Whether unattended changes may go on: the last applied change must have passed a drill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrillGate {
    /// Nothing was applied yet.
    NoPriorApply,
    /// The last change passed.
    RestoreDrillPassed,
    /// No change was ever drilled.
    RestoreDrillMissing,
    /// An earlier change was drilled, and not the last one.
    RestoreDrillStale,
    /// The last drill did not pass.
    RestoreDrillFailed,
}

impl DrillGate {
    /// Whether it is open.
    pub fn is_open(self) -> bool {
        matches!(self, Self::NoPriorApply | Self::RestoreDrillPassed)
    }

    /// The name that reports and refusals have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoPriorApply => "no-prior-apply",
            Self::RestoreDrillPassed => "restore-drill-passed",
            Self::RestoreDrillMissing => "restore-drill-missing",
            Self::RestoreDrillStale => "restore-drill-stale",
            Self::RestoreDrillFailed => "restore-drill-failed",
        }
    }

    /// Judges by the changes, newest first, and the last drill.
    pub fn judge(changes: &[EvolverChange], drill: Option<&Value>) -> Self {
        let Some(last) = changes.iter().find(|change| change.rolled_back_at.is_none()) else {
            return Self::NoPriorApply;
        };
        let Some(drill) = drill else { return Self::RestoreDrillMissing };
        // One that is partial restored everything; evidence it rests on was let go since, as it is in time.
        let restored = matches!(drill["status"].as_str(), Some("pass" | "partial"));
        match (drill["manifest"].as_i64() == Some(last.step), restored) {
            (false, _) => Self::RestoreDrillStale,
            (true, false) => Self::RestoreDrillFailed,
            (true, true) => Self::RestoreDrillPassed,
        }
    }
}

/// Whether a path is the main file that was changed, as it was named before or after.
fn is_target(change: &EvolverChange, path: &RelPath) -> bool {
    change.manifest.get("targetPath").and_then(Value::as_str) == Some(path.as_str())
}
