//! Whether a changed skill stands up: a structural check in this process, then the commands that the
//! operator named, cheap before expensive, the first failure ends it.
//!
//! The commands see the change before it is made: in a directory of their own lie the skill as it would
//! be, as it is, and the manifest. Nothing they do there reaches the brain.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::prepare::structural;
use crate::ids::{Digest, Slug};
use crate::redact;
use crate::skill::shell::{CommandEnd, CommandResult, ProcessRunner};

/// How long a command may take.
pub const TIMEOUT: Duration = Duration::from_secs(300);
/// How much of what a command said is kept: the end of it.
const KEPT_OUTPUT: usize = 4_000;
/// The codes that shells use for what has no code of its own.
const TIMED_OUT: i32 = 124;
const NOT_STARTED: i32 = 125;

/// What a change has to pass.
#[derive(Debug, Clone, Default)]
pub struct VerificationOptions {
    /// Whether each stage is shown by itself. A command before the main one implies it.
    pub staged: bool,
    /// A cheap command that is run first.
    pub pre_verify: Option<String>,
    /// The command that decides.
    pub verify: Option<String>,
    /// Where they run [default: the directory of the skill as it would be].
    pub directory: Option<PathBuf>,
    /// How long each may take [default: 300 seconds].
    pub timeout: Option<Duration>,
}

impl VerificationOptions {
    /// Whether something outside of this process has a say.
    pub fn has_commands(&self) -> bool {
        self.pre_verify.is_some() || self.verify.is_some()
    }

    fn is_staged(&self) -> bool {
        self.staged || self.pre_verify.is_some()
    }
}

/// One stage of a verification: the built-in checks, or a command of the operator's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerificationStage {
    /// `builtin-structural`, `pre-verify-command` or `verify-command`.
    pub name: &'static str,
    /// Whether the stage passed; a stage that did not ends the verification.
    pub passed: bool,
    /// The code a command ended with; 124 took too long, 125 could not be started.
    pub exit_code: Option<i32>,
    /// The end of what it said.
    pub output: String,
}

/// How a verification went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkillVerification {
    /// Whether there was anything beyond the structural check.
    pub enabled: bool,
    /// Whether every stage passed.
    pub passed: bool,
    /// The code of the last command that ran.
    pub exit_code: Option<i32>,
    /// The end of what it said.
    pub output: String,
    /// The stages, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<VerificationStage>,
    /// The one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_stage: Option<&'static str>,
}

/// What the commands are given to look at.
#[derive(Debug, Clone)]
pub struct VerificationTrial<'a> {
    /// The skill that is to be changed.
    pub skill: &'a Slug,
    /// The main file as it would be.
    pub target: &'a Path,
    /// The main file as it is.
    pub backup: &'a Path,
    /// What is to be changed and why, as JSON.
    pub manifest: &'a Path,
    /// The digest of the main file as it is.
    pub original: Digest,
    /// The digest of the main file as it would be.
    pub new: Digest,
}

/// The structural check alone.
pub fn check_structure(content: &str) -> VerificationStage {
    let outcome = structural(content);
    VerificationStage {
        name: "builtin-structural",
        passed: outcome.is_ok(),
        exit_code: None,
        output: outcome.err().unwrap_or_default(),
    }
}

/// Puts a change through its stages. `trial` is only needed where there are commands.
pub fn verify(
    verification: &VerificationOptions,
    content: &str,
    trial: Option<&VerificationTrial<'_>>,
) -> SkillVerification {
    let mut stages = vec![check_structure(content)];
    let commands = [("pre-verify-command", &verification.pre_verify), ("verify-command", &verification.verify)];
    for (name, command) in commands {
        let (Some(command), Some(trial)) = (command, trial) else { continue };
        if stages.iter().all(|stage| stage.passed) {
            stages.push(run(verification, name, command, trial));
        }
    }
    let failed_stage = stages.iter().find(|stage| !stage.passed).map(|stage| stage.name);
    let last = stages.last().filter(|stage| stage.exit_code.is_some() || !stage.passed);
    SkillVerification {
        enabled: verification.is_staged() || verification.has_commands(),
        passed: failed_stage.is_none(),
        exit_code: last.and_then(|stage| stage.exit_code),
        output: last.map(|stage| stage.output.clone()).unwrap_or_default(),
        failed_stage,
        stages: if verification.is_staged() { stages } else { Vec::new() },
    }
}

fn run(
    verification: &VerificationOptions,
    name: &'static str,
    command: &str,
    trial: &VerificationTrial<'_>,
) -> VerificationStage {
    let beside = trial.target.parent().map(Path::to_owned).unwrap_or_default();
    let mut runner = ProcessRunner::new(verification.directory.clone().unwrap_or(beside))
        .timeout(verification.timeout.unwrap_or(TIMEOUT))
        .variable("HERM_EVOLVE_SKILL", trial.skill.as_str())
        .variable("HERM_EVOLVE_TARGET_PATH", trial.target)
        .variable("HERM_EVOLVE_BACKUP_PATH", trial.backup)
        .variable("HERM_EVOLVE_MANIFEST_PATH", trial.manifest)
        .variable("HERM_EVOLVE_ORIGINAL_DIGEST", trial.original.to_string())
        .variable("HERM_EVOLVE_NEW_DIGEST", trial.new.to_string());
    for name in ["HOME", "USER", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            runner = runner.variable(name, value);
        }
    }
    let CommandResult { end, output: said } = runner.finish(command);
    let (exit_code, output) = match end {
        CommandEnd::Exited(code) => (code, said),
        CommandEnd::Killed(signal) => (128 + signal, said),
        CommandEnd::TimedOut => {
            (TIMED_OUT, "it took too long and was ended, with everything it had started".to_owned())
        }
        CommandEnd::NotRun(why) => (NOT_STARTED, format!("it could not be run: {why}")),
    };
    VerificationStage {
        name,
        passed: exit_code == 0,
        exit_code: Some(exit_code),
        output: tail(&redact::scrub(&output)),
    }
}

/// The end of a text.
fn tail(text: &str) -> String {
    let skip = text.chars().count().saturating_sub(KEPT_OUTPUT);
    text.chars().skip(skip).collect()
}
