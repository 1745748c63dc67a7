//! Why a program was not started. Each refusal has a sentence and a next step.

use std::fmt;

use crate::report::Tier;

/// Why a program was not started. Nothing of the sandbox is left when it is returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpawnError {
    /// This process never called [`run_if_reexec`](crate::run_if_reexec), so its binary cannot be started as a stage.
    NotRegistered,
    /// No tier works here.
    Unavailable {
        /// Each tier that was tried, and why it does not work.
        why: Vec<(Tier, String)>,
    },
    /// A probe of the canary got out: the program was not started.
    Escaped {
        /// The name of the probe, as in [`ProbeResult::probe`](crate::ProbeResult::probe).
        probe: String,
        /// What the probe reached, in words.
        detail: String,
    },
    /// The spec asks for something that cannot be.
    Invalid {
        /// Which rule it breaks.
        what: String,
        /// How to put the spec right.
        hint: String,
    },
    /// A step of the set-up failed.
    Setup {
        /// The step that failed, in words that follow "cannot".
        step: String,
        /// The error of the operating system, or what was missing.
        why: String,
        /// What the operator can do about it.
        hint: String,
    },
}

impl SpawnError {
    /// The stable name of the refusal, as in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotRegistered => "not_registered",
            Self::Unavailable { .. } => "unavailable",
            Self::Escaped { .. } => "escaped",
            Self::Invalid { .. } => "invalid",
            Self::Setup { .. } => "setup",
        }
    }

    /// Why nothing was started, in one sentence without a full stop.
    pub fn message(&self) -> String {
        match self {
            Self::NotRegistered => "this program cannot build a sandbox: its main never called run_if_reexec".into(),
            Self::Unavailable { why } => {
                let tiers: Vec<_> = why.iter().map(|(tier, why)| format!("{}: {why}", tier.name())).collect();
                format!("no sandbox can be built here: {}", tiers.join("; "))
            }
            Self::Escaped { probe, detail } => {
                format!("the sandbox does not hold, so nothing was started in it: the probe {probe} got out ({detail})")
            }
            Self::Invalid { what, .. } => what.clone(),
            Self::Setup { step, why, .. } => format!("cannot {step}: {why}"),
        }
    }

    /// What the caller or the operator can do next.
    pub fn hint(&self) -> String {
        match self {
            Self::NotRegistered => "call herm_sandbox::run_if_reexec() first in main".into(),
            Self::Unavailable { .. } => "allow unprivileged user namespaces (sysctl user.max_user_namespaces, \
                 kernel.apparmor_restrict_unprivileged_userns), run as root, or install bubblewrap"
                .into(),
            Self::Escaped { .. } => "do not run untrusted code on this machine; report what the probe reached".into(),
            Self::Invalid { hint, .. } | Self::Setup { hint, .. } => hint.clone(),
        }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.message(), self.hint())
    }
}

impl std::error::Error for SpawnError {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_whose_main_never_took_over_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let lease = crate::SandboxLease::take(place.path()).unwrap();
        let spec = crate::SandboxSpec::new(crate::SandboxProgram::CurrentExe, &lease);
        let refusal = crate::spawn(spec).unwrap_err();
        assert_eq!(refusal, SpawnError::NotRegistered);
        assert!(refusal.hint().contains("run_if_reexec"));
    }

    #[test]
    fn an_unavailable_sandbox_says_why_for_each_tier() {
        let why = vec![(Tier::Namespaces, "no".to_owned()), (Tier::Bubblewrap, "not installed".to_owned())];
        let message = SpawnError::Unavailable { why }.message();
        assert_eq!(message, "no sandbox can be built here: namespaces: no; bubblewrap: not installed");
    }
}
