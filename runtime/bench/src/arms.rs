//! The ways to learn that are compared.

use std::time::Duration;

use herm::evolver::EvolverRoundOptions;
use herm::evolver::apply::EvolverApproval;
use herm::evolver::pass::{EvolverPassMode, EvolverPassOptions};
use herm::harness::{CuratorOptions, EvolverOptions};
use herm::task::{ExamplePick, LearningOptions};
use herm::{Error, Result};

/// One way to learn, which a table compares with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BenchArm {
    /// Nothing is learned and nothing is shown.
    None,
    /// A person's skill is shown; nothing is learned.
    Curated,
    /// Tasks that went well are shown as examples.
    Examples,
    /// Examples on trial, and no plan.
    ExamplesTrials,
    /// Examples, and the plan that they have in common.
    Plans,
    /// Skills that the agent writes itself.
    SelfWritten,
    /// Everything, the evolver's lessons and merges among it, each learned thing on trial.
    Trials,
    /// Examples, but any instead of the nearest: the control of the choice.
    Random,
}

/// All of them, in the order of the table.
pub const ARMS: [BenchArm; 8] = [
    BenchArm::None,
    BenchArm::Curated,
    BenchArm::Examples,
    BenchArm::ExamplesTrials,
    BenchArm::Plans,
    BenchArm::SelfWritten,
    BenchArm::Trials,
    BenchArm::Random,
];

/// Arms that are compared with each other, besides each with no learning.
pub(super) const COMPARED: [(BenchArm, BenchArm); 1] = [(BenchArm::Examples, BenchArm::Random)];

impl BenchArm {
    /// The name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Curated => "curated",
            Self::Examples => "examples",
            Self::ExamplesTrials => "examples-trials",
            Self::Plans => "plans",
            Self::SelfWritten => "self-written",
            Self::Trials => "trials",
            Self::Random => "random",
        }
    }

    /// The name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::None => "no learning",
            Self::Curated => "curated skill",
            Self::Examples => "examples",
            Self::ExamplesTrials => "examples with trials",
            Self::Plans => "examples with plans",
            Self::SelfWritten => "self-written skills",
            Self::Trials => "everything, with trials",
            Self::Random => "a random example",
        }
    }

    /// Reads names separated by commas, in the order of the table.
    pub fn parse_all(names: &str) -> Result<Vec<Self>> {
        let mut arms = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let arm = Self::named(name).ok_or_else(|| {
                Error::invalid(format!("there is no arm {name:?}"))
                    .hint(format!("there are {}", ARMS.map(Self::name).join(", ")))
            })?;
            arms.push(arm);
        }
        arms.sort_unstable();
        arms.dedup();
        if arms.is_empty() {
            return Err(
                Error::invalid("no arm is named").hint(format!("name some of {}", ARMS.map(Self::name).join(",")))
            );
        }
        Ok(arms)
    }

    /// The arm of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ARMS.into_iter().find(|arm| arm.name() == name)
    }

    /// Whether the brain begins with the skill that a person wrote.
    pub(super) fn has_skill(self) -> bool {
        self == Self::Curated
    }

    /// What is on while it learns. Where nobody says which answers were good,
    /// those count whose every word comes from a result.
    pub(super) fn learning(self, labels: bool) -> LearningOptions {
        let off = LearningOptions::OFF;
        let examples = LearningOptions { learns: true, examples: true, preload: true, unrated: !labels, ..off };
        match self {
            Self::None => off,
            Self::Curated => LearningOptions { preload: true, ..off },
            Self::Examples => examples,
            Self::ExamplesTrials => LearningOptions { trials: true, ..examples },
            Self::Plans => LearningOptions { plans: true, ..examples },
            Self::SelfWritten => LearningOptions { learns: true, synthesis: true, preload: true, ..off },
            Self::Trials => LearningOptions { synthesis: true, plans: true, trials: true, ..examples },
            Self::Random => LearningOptions { pick: ExamplePick::Random, ..examples },
        }
    }

    /// Whether it learns from tasks, and so from demonstrations.
    pub(super) fn learns(self) -> bool {
        self.learning(true).learns
    }

    /// Whether what it learned is on trial.
    pub(super) fn has_trials(self) -> bool {
        self.learning(true).trials
    }

    /// The curator and the evolver of the learning half. The evolver makes its changes without asking and looks after
    /// every task: a measurement lasts less than its usual day, and each change is on trial.
    pub(super) fn maintenance(self) -> (Option<CuratorOptions>, Option<EvolverOptions>) {
        if self != Self::Trials {
            return (None, None);
        }
        let options = EvolverPassOptions {
            mode: EvolverPassMode::ApplyLowRisk,
            approval: EvolverApproval::Given,
            ..EvolverPassOptions::default()
        };
        let routine = EvolverRoundOptions { options, ..EvolverRoundOptions::default() };
        (Some(CuratorOptions::default()), Some(EvolverOptions { routine, every: Duration::ZERO }))
    }

    /// What is on while it is measured: what was learned is shown, and nothing new is learned.
    pub(super) fn frozen(self) -> LearningOptions {
        LearningOptions { learns: false, synthesis: false, ..self.learning(true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_named_in_any_order_and_counted_once() {
        assert_eq!(BenchArm::parse_all("trials, none,none,,").unwrap(), [BenchArm::None, BenchArm::Trials]);
        assert_eq!(BenchArm::parse_all(&ARMS.map(BenchArm::name).join(",")).unwrap(), ARMS);
        for bad in ["", " , ", "nonne", "None"] {
            assert!(BenchArm::parse_all(bad).unwrap_err().hint_text().unwrap().contains("none"), "{bad}");
        }
    }

    #[test]
    fn the_evolver_changes_skills_in_the_arm_of_everything_alone() {
        for arm in ARMS {
            let (curating, evolving) = arm.maintenance();
            let everything = arm == BenchArm::Trials;
            assert_eq!((curating.is_some(), evolving.is_some()), (everything, everything));
        }
        let routine = BenchArm::Trials.maintenance().1.unwrap().routine.options;
        assert_eq!((routine.mode, routine.approval), (EvolverPassMode::ApplyLowRisk, EvolverApproval::Given));
    }

    #[test]
    fn nothing_is_written_down_while_an_arm_is_measured() {
        for arm in ARMS {
            let (learning, frozen) = (arm.learning(true), arm.frozen());
            assert!(!frozen.synthesis && !frozen.learns);
            let (learns, synthesis) = (learning.learns, learning.synthesis);
            assert_eq!(LearningOptions { learns, synthesis, ..frozen }, learning);
            assert_eq!(arm.learning(false).unrated, learning.examples);
        }
    }
}
