//! `[evolver]` of the configuration.

use std::time::Duration;

use herm::evolver::apply::EvolverApproval;
use herm::evolver::pass::{EvolverPassMode, EvolverPassOptions};
use herm::evolver::verification::VerificationOptions;
use herm::evolver::{EvolverPolicy, EvolverRoundOptions};
use herm::harness::EvolverOptions;
use herm::{Error, Result};

/// What the evolver does by itself with what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EvolverMode {
    /// Nothing: it does not run after sessions.
    Off,
    /// It holds each change until a person accepts it.
    #[default]
    Hold,
    /// It changes skills that the agent itself wrote.
    Apply,
}

/// How skills are improved from evidence after sessions.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EvolverEntry {
    /// What it does with what it finds: off, hold or apply; hold unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<EvolverMode>,
    /// At least so many hours between two passes over a brain; 24 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_hours: Option<u32>,
    /// Days of evidence a pass looks at; 7 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// Skills a pass changes at most, 1 to 25; 3 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_skills: Option<usize>,
    /// Events that a skill needs; 2 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_evidence: Option<u64>,
    /// Variants of a block that are compared, 1 to 4; 1 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variants: Option<usize>,
    /// Whether skills that others rest on are left alone. On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect_core_skills: Option<bool>,
    /// Where not empty, only these skills; * and ? stand for characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Never these skills, also where `allow` has them; * and ? stand for characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block: Vec<String>,
    /// A cheap command that must succeed before a change is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_verify_command: Option<String>,
    /// The command that must succeed before a change is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify_command: Option<String>,
    /// Whether the last applied change must have passed a drill. Off, unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_restore_drill: Option<bool>,
    /// Days that evidence is kept; 90 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_days: Option<u32>,
    /// MiB that a brain's evidence may take; 64 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_mib: Option<u32>,
}

impl EvolverEntry {
    /// How the evolver runs after sessions. Where it is off, evidence is still counted and let go.
    pub fn evolving(&self) -> Result<EvolverOptions> {
        let usual = EvolverOptions::default();
        let hours = |hours: u32| Duration::from_secs(u64::from(hours) * 3_600);
        Ok(EvolverOptions { routine: self.routine()?, every: self.every_hours.map_or(usual.every, hours) })
    }

    /// What it does each time.
    pub fn routine(&self) -> Result<EvolverRoundOptions> {
        let usual = EvolverRoundOptions::default();
        let mode = self.mode.unwrap_or_default();
        let options = EvolverPassOptions {
            days: self.days.unwrap_or(usual.options.days),
            max_skills: self.max_skills.unwrap_or(usual.options.max_skills),
            min_evidence: self.min_evidence.unwrap_or(usual.options.min_evidence),
            variants: self.variants.unwrap_or(usual.options.variants),
            policy: EvolverPolicy {
                protect_core_skills: self.protect_core_skills.unwrap_or(true),
                allow: self.allow.clone(),
                block: self.block.clone(),
            },
            mode: match mode {
                EvolverMode::Off => EvolverPassMode::DryRun,
                EvolverMode::Hold => EvolverPassMode::Pending,
                EvolverMode::Apply => EvolverPassMode::ApplyLowRisk,
            },
            // To write `apply` into the configuration is to say yes.
            approval: if mode == EvolverMode::Apply { EvolverApproval::Given } else { EvolverApproval::Missing },
            verification: self.verification(),
            require_restore_drill: self.require_restore_drill.unwrap_or(false),
        };
        options.check().map_err(|error| {
            Error::invalid(format!("[evolver]: {}", error.message())).hint("leave it out for the default")
        })?;
        Ok(EvolverRoundOptions {
            options,
            keep_days: self.keep_days.unwrap_or(usual.keep_days),
            keep_bytes: self.keep_mib.map_or(usual.keep_bytes, |mib| u64::from(mib) << 20),
        })
    }

    /// Who may be changed by itself: what the flags say, and never what this file keeps out.
    pub fn policy(&self, flags: EvolverPolicy) -> EvolverPolicy {
        let block = self.block.iter().chain(&flags.block).cloned().collect();
        let allow = if flags.allow.is_empty() { self.allow.clone() } else { flags.allow };
        EvolverPolicy { block, allow, ..flags }
    }

    /// Whether it is turned off.
    pub fn is_off(&self) -> bool {
        self.mode == Some(EvolverMode::Off)
    }

    /// What a change has to pass.
    pub fn verification(&self) -> VerificationOptions {
        VerificationOptions {
            staged: true,
            pre_verify: self.pre_verify_command.clone(),
            verify: self.verify_command.clone(),
            ..VerificationOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> EvolverEntry {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn unless_said_otherwise_changes_are_held_and_evidence_is_kept_for_a_while() {
        let evolving = read("").evolving().unwrap();
        let options = &evolving.routine.options;
        assert_eq!((options.mode, options.approval), (EvolverPassMode::Pending, EvolverApproval::Missing));
        assert_eq!((options.days, options.max_skills, options.min_evidence, options.variants), (7, 3, 2, 1));
        assert!(options.policy.protect_core_skills);
        assert_eq!((evolving.routine.keep_days, evolving.routine.keep_bytes), (90, 64 << 20));
        assert_eq!(evolving.every, Duration::from_secs(24 * 3_600));
    }

    #[test]
    fn what_is_written_is_what_runs() {
        let text = "mode = \"apply\"\nevery_hours = 0\ndays = 30\nmax_skills = 25\nmin_evidence = 5\nvariants = 4\n\
            protect_core_skills = false\nallow = [\"a*\"]\nblock = [\"ab*\"]\nverify_command = \"true\"\n\
            require_restore_drill = true\nkeep_days = 10\nkeep_mib = 1\n";
        let evolving = read(text).evolving().unwrap();
        let options = evolving.routine.options;
        assert_eq!((options.mode, options.approval), (EvolverPassMode::ApplyLowRisk, EvolverApproval::Given));
        assert_eq!((options.days, options.max_skills, options.min_evidence, options.variants), (30, 25, 5, 4));
        let policy = EvolverPolicy { protect_core_skills: false, allow: vec!["a*".into()], block: vec!["ab*".into()] };
        assert_eq!((options.policy, options.require_restore_drill), (policy, true));
        assert_eq!((options.verification.verify.as_deref(), options.verification.staged), (Some("true"), true));
        assert_eq!(
            (evolving.routine.keep_days, evolving.routine.keep_bytes, evolving.every),
            (10, 1 << 20, Duration::ZERO)
        );
        assert_eq!(read("mode = \"off\"").evolving().unwrap().routine.options.mode, EvolverPassMode::DryRun);
        let error = read("max_skills = 26").evolving().unwrap_err();
        assert!(error.message().starts_with("[evolver]: max-skills is 26"), "{error}");
        assert!(toml::from_str::<EvolverEntry>("maxskills = 3").is_err());
    }
}
