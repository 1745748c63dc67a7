//! `learning`: a switch, or a section.

use herm::task::LearningOptions;
use herm::trial::sequential::{MOST_TASKS, TrialPolicy};
use herm::{Error, Result};

/// What agents learn from their tasks: `true`, `false`, or a section.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum LearningEntry {
    /// All of it, or nothing new.
    Switch(bool),
    /// Part of it, as the section says.
    Section(LearningSection),
}

/// What agents learn, and how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LearningSection {
    /// Whether tasks leave something for the next ones. On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether the model is asked what a hard task taught. On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<bool>,
    /// Whether tasks with a good outcome leave a worked example, which the next ones of their kind are shown.
    /// On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examples: Option<bool>,
    /// Whether a backend that holds replies to a schema is held to the calls of the example. On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans: Option<bool>,
    /// Whether skills that match and the nearest example are put before a task. On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preload: Option<bool>,
    /// Whether what was learned is on trial until its gain is known. On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<bool>,
    /// The share of matching tasks that are shown what is on trial, 0 to 1; one half, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_share: Option<f64>,
    /// The tasks with a known outcome after which a trial ends as unproven; 200, unless said otherwise, and at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_tasks: Option<usize>,
    /// The days after which a trial ends as unproven; 60, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_days: Option<u32>,
    /// The kept tasks that each skill on trial is rehearsed on by itself, after tasks; none, unless said otherwise.
    /// Each asks the model twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rehearsals: Option<usize>,
    /// Whether a task of which nobody says how good it was leaves an example too, where every word of its answer comes from
    /// a result. Off, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrated: Option<bool>,
}

impl LearningEntry {
    /// As the harness takes it, with how trials are held.
    pub fn options(self) -> Result<(LearningOptions, TrialPolicy)> {
        let said = match self {
            Self::Switch(learns) => return Ok((learns.into(), TrialPolicy::default())),
            Self::Section(section) => section,
        };
        if said.trial_share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(
                Error::invalid("learning.trial_share is not between 0 and 1").hint("0.5 shows it to every second task")
            );
        }
        if said.trial_tasks.is_some_and(|tasks| tasks == 0 || tasks > MOST_TASKS) {
            return Err(Error::invalid(format!("learning.trial_tasks is not between 1 and {MOST_TASKS}"))
                .hint("200 is usual; with fewer, small differences are not found"));
        }
        let trials = TrialPolicy::default();
        let trials = TrialPolicy {
            most_tasks: said.trial_tasks.unwrap_or(trials.most_tasks),
            most_days: said.trial_days.unwrap_or(trials.most_days),
            share: said.trial_share.unwrap_or(trials.share),
            rehearsals: said.rehearsals.unwrap_or(trials.rehearsals),
        };
        let usual = LearningOptions::default();
        let options = LearningOptions {
            learns: said.enabled.unwrap_or(usual.learns),
            synthesis: said.synthesis.unwrap_or(usual.synthesis),
            examples: said.examples.unwrap_or(usual.examples),
            plans: said.plans.unwrap_or(usual.plans),
            preload: said.preload.unwrap_or(usual.preload),
            trials: said.trials.unwrap_or(usual.trials),
            unrated: said.unrated.unwrap_or(usual.unrated),
            pick: usual.pick,
        };
        Ok((options, trials))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Only {
        learning: LearningEntry,
    }

    fn read(text: &str) -> Result<(LearningOptions, TrialPolicy)> {
        toml::from_str::<Only>(text).unwrap().learning.options()
    }

    #[test]
    fn a_switch_and_a_section_are_read_and_what_is_not_said_is_as_usual() {
        assert_eq!(read("learning = false").unwrap(), (false.into(), TrialPolicy::default()));
        assert_eq!(read("learning = true").unwrap(), (LearningOptions::default(), TrialPolicy::default()));
        let (options, trials) = read("[learning]\ntrials = false\ntrial_share = 0.25\nunrated = true").unwrap();
        assert_eq!(options, LearningOptions { trials: false, unrated: true, ..LearningOptions::default() });
        assert_eq!(trials, TrialPolicy { share: 0.25, ..TrialPolicy::default() });
        let (_, trials) = read("[learning]\ntrial_tasks = 80\ntrial_days = 7\nrehearsals = 12").unwrap();
        assert_eq!((trials.most_tasks, trials.most_days, trials.rehearsals), (80, 7, 12));
        assert!(read("[learning]\ntrial_tasks = 500").is_err());
        assert!(read("[learning]\ntrial_share = 1.5").is_err());
        assert!(toml::from_str::<Only>("[learning]\ntrails = false").is_err());
    }
}
