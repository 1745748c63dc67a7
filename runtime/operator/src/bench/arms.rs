//! The ways to learn that are compared.

use herm::task::{ExamplePick, LearningOptions};
use herm::{Error, Result};

/// One way to learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arm {
    /// Nothing is learned and nothing is shown.
    None,
    /// A person's skill is shown; nothing is learned.
    Curated,
    /// Tasks that went well are shown as examples.
    Examples,
    /// Examples, and the plan that they have in common.
    Plans,
    /// Skills that the agent writes itself.
    SelfWritten,
    /// Everything, each learned thing on trial.
    Trials,
    /// Examples, but any instead of the nearest: the control of the choice.
    Random,
}

/// All of them, in the order of the table.
pub(crate) const ARMS: [Arm; 7] =
    [Arm::None, Arm::Curated, Arm::Examples, Arm::Plans, Arm::SelfWritten, Arm::Trials, Arm::Random];

impl Arm {
    /// The name on the command line and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Curated => "curated",
            Self::Examples => "examples",
            Self::Plans => "plans",
            Self::SelfWritten => "self-written",
            Self::Trials => "trials",
            Self::Random => "random",
        }
    }

    /// The name in the table.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::None => "no learning",
            Self::Curated => "curated skill",
            Self::Examples => "examples",
            Self::Plans => "examples with plans",
            Self::SelfWritten => "self-written skills",
            Self::Trials => "everything, with trials",
            Self::Random => "a random example",
        }
    }

    /// Reads names separated by commas, in the order of the table.
    pub(crate) fn parse_all(names: &str) -> Result<Vec<Self>> {
        let mut arms = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let arm = ARMS.into_iter().find(|arm| arm.name() == name).ok_or_else(|| {
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

    /// Whether the brain begins with the skill that a person wrote.
    pub(super) fn has_skill(self) -> bool {
        self == Self::Curated
    }

    /// What is on while it learns. Where nobody says which answers were good, those count whose every word comes from a
    /// result.
    pub(super) fn learning(self, labels: bool) -> LearningOptions {
        let off = LearningOptions::OFF;
        let examples = LearningOptions { learns: true, examples: true, preload: true, unrated: !labels, ..off };
        match self {
            Self::None => off,
            Self::Curated => LearningOptions { preload: true, ..off },
            Self::Examples => examples,
            Self::Plans => LearningOptions { plans: true, ..examples },
            Self::SelfWritten => LearningOptions { learns: true, synthesis: true, preload: true, ..off },
            Self::Trials => LearningOptions { synthesis: true, plans: true, trials: true, ..examples },
            Self::Random => LearningOptions { pick: ExamplePick::Random, ..examples },
        }
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
        assert_eq!(Arm::parse_all("trials, none,none,,").unwrap(), [Arm::None, Arm::Trials]);
        assert_eq!(Arm::parse_all(&ARMS.map(Arm::name).join(",")).unwrap(), ARMS);
        for bad in ["", " , ", "nonne", "None"] {
            assert!(Arm::parse_all(bad).unwrap_err().hint_text().unwrap().contains("none"), "{bad}");
        }
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
