//! What is to run, what it is given, and what stands around it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::SpawnError;
use crate::janitor::SandboxLease;
use crate::limits::SandboxLimits;
use crate::report::Tier;

/// The descriptor on which the program finds its channel.
pub const CHANNEL_DESCRIPTOR: i32 = 3;
/// The variable that names the channel's descriptor, set only if there is a channel.
pub const CHANNEL_VARIABLE: &str = "HERM_CHANNEL";

/// A program and the sandbox around it.
#[derive(Debug)]
pub struct SandboxSpec {
    /// The program that is started inside.
    pub program: SandboxProgram,
    /// Its arguments, without the program's own name.
    pub args: Vec<String>,
    /// Its whole environment: nothing else is passed on.
    pub environment: Vec<(String, String)>,
    /// What it can see of the host, read-only.
    pub binds: Vec<Bind>,
    /// The lease under which the sandbox lives: it names what is to be removed should this process die.
    pub lease: SandboxLease,
    /// The host's directory that becomes `/work`, writable. If the caller is root, the directory and everything in it
    /// is given to the sandbox's transient user.
    pub work: PathBuf,
    /// What it may take.
    pub limits: SandboxLimits,
    /// Where the program's standard input comes from.
    pub stdin: StdinMode,
    /// Where the program's standard output goes.
    pub stdout: OutputMode,
    /// Where the program's standard error goes.
    pub stderr: OutputMode,
    /// A socket that the program finds at [`CHANNEL_DESCRIPTOR`], its only connection to the outside.
    pub channel: Option<OwnedFd>,
    /// Which layers stand around the program: all, outside of negative controls.
    pub layers: SandboxLayers,
    /// Whether control groups are used.
    pub cgroups: CgroupPolicy,
    /// Which tiers may be used.
    pub tiers: TierPolicy,
}

impl SandboxSpec {
    /// A program in the directory of a lease, with the default limits, every layer, no arguments, no environment,
    /// no binds and no streams.
    pub fn new(program: SandboxProgram, lease: &SandboxLease) -> Self {
        Self {
            program,
            args: Vec::new(),
            environment: Vec::new(),
            binds: Vec::new(),
            lease: lease.clone(),
            work: lease.work(),
            limits: SandboxLimits::default(),
            stdin: StdinMode::Null,
            stdout: OutputMode::Null,
            stderr: OutputMode::Null,
            channel: None,
            layers: SandboxLayers::all(),
            cgroups: CgroupPolicy::WhereWritable,
            tiers: TierPolicy::BestFirst,
        }
    }
}

/// What is started in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxProgram {
    /// The caller's own binary, with the shared libraries it has loaded. Its `main` runs again, inside, and sees the
    /// arguments; [`run_if_reexec`](crate::run_if_reexec) returns there as usual.
    CurrentExe,
    /// A path inside, such as `/bin/sh`.
    At(PathBuf),
}

/// A file or directory of the host, read-only inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Where it is on the host.
    pub host: PathBuf,
    /// Where it is inside.
    pub inside: PathBuf,
    /// Whether it is left out if the host does not have it; otherwise its absence refuses the spawn.
    pub optional: bool,
}

impl Bind {
    /// The same path inside as on the host.
    pub fn same(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { host: path.clone(), inside: path, optional: false }
    }

    /// A path of the host at another place inside.
    pub fn at(host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        Self { host: host.into(), inside: inside.into(), optional: false }
    }

    /// What a usual system needs to run its programs: `/usr`, `/bin`, `/lib` and their like. It holds no home, no
    /// `/etc` beyond the linker's cache, no `/var`, no `/run`.
    pub fn system() -> Vec<Self> {
        ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/nix/store"]
            .iter()
            .map(|path| Self { optional: true, ..Self::same(Path::new(path)) })
            .collect()
    }
}

/// Where standard input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinMode {
    /// It ends at once: the program reads nothing.
    Null,
    /// The caller writes it, through [`SandboxProcess::stdin`](crate::SandboxProcess::stdin).
    Piped,
}

/// Where an output stream goes. Standard output and standard error together are bounded by [`SandboxLimits::output`].
#[derive(Debug)]
pub enum OutputMode {
    /// Nowhere; it is not counted either.
    Null,
    /// The caller reads it, through [`SandboxProcess::stdout`](crate::SandboxProcess::stdout) or
    /// [`SandboxProcess::stderr`](crate::SandboxProcess::stderr). What is read is counted; what is not read stays in the pipe.
    Piped,
    /// Into a file of the host. The program never holds the file: the supervisor writes it, up to the limit.
    File(File),
}

/// Whether control groups bound memory, processes and CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupPolicy {
    /// Where the caller may make them; elsewhere resource limits and sampling do it.
    WhereWritable,
    /// Never: resource limits and sampling bound the program instead.
    Never,
}

/// The variable with which an operator names the one tier that may be used.
pub const TIER_VARIABLE: &str = "HERM_SANDBOX_TIER";

/// Which tiers may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierPolicy {
    /// The first that works, in the order of [`Tier`], unless [`TIER_VARIABLE`] names one.
    BestFirst,
    /// This one or none.
    Only(Tier),
}

impl TierPolicy {
    /// The tiers to try, in order.
    pub(crate) fn to_try(self) -> Result<Vec<Tier>, SpawnError> {
        match self {
            Self::Only(tier) => Ok(vec![tier]),
            Self::BestFirst => match std::env::var_os(TIER_VARIABLE) {
                Some(named) => tier_named(&named.to_string_lossy()).map(|tier| vec![tier]),
                None => Ok(Tier::ALL.to_vec()),
            },
        }
    }
}

fn tier_named(name: &str) -> Result<Tier, SpawnError> {
    Tier::ALL.into_iter().find(|tier| tier.name() == name).ok_or_else(|| SpawnError::Invalid {
        what: format!("{TIER_VARIABLE} is {name:?}, and no tier is called that"),
        hint: "set it to namespaces or bubblewrap, or unset it".into(),
    })
}

/// One of the walls around the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLayer {
    /// Descriptors of the caller are closed.
    Descriptors,
    /// The environment is only what the spec lists.
    Environment,
    /// A user of its own for each sandbox; only if the caller is root.
    TransientUser,
    /// A root that holds only the binds.
    MountView,
    /// Processes outside cannot be seen.
    ProcessNamespace,
    /// A network with nothing but its own loopback.
    NetworkNamespace,
    /// System V shared memory and message queues of its own.
    IpcNamespace,
    /// A host name of its own.
    HostName,
    /// No further user namespaces inside.
    NestedNamespaces,
    /// No capabilities, not even in the sandbox's own user namespace.
    Capabilities,
    /// The kernel's file, signal and abstract-socket rules.
    Landlock,
    /// The filter that refuses system calls by which a program could get out.
    Seccomp,
    /// Refusal of the program if a probe of the canary gets out. Without it, the probes run and are only reported.
    Canary,
}

impl SandboxLayer {
    /// Every layer, from the outside in.
    pub const ALL: [Self; 13] = [
        Self::Descriptors,
        Self::Environment,
        Self::TransientUser,
        Self::MountView,
        Self::ProcessNamespace,
        Self::NetworkNamespace,
        Self::IpcNamespace,
        Self::HostName,
        Self::NestedNamespaces,
        Self::Capabilities,
        Self::Landlock,
        Self::Seccomp,
        Self::Canary,
    ];
}

/// Which layers stand: all of them, except in a negative control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLayers {
    off: Vec<SandboxLayer>,
}

impl SandboxLayers {
    /// Every layer stands, as it must for a program that is not trusted.
    pub fn all() -> Self {
        Self { off: Vec::new() }
    }

    /// **For negative controls only**: a sandbox with holes, to show that the probes which a layer stops get out
    /// without it. Never run anything in it that you would not run without a sandbox.
    pub fn with_holes_for_a_negative_control(off: &[SandboxLayer]) -> Self {
        Self { off: off.to_vec() }
    }

    /// Whether a layer stands.
    pub fn has(&self, layer: SandboxLayer) -> bool {
        !self.off.contains(&layer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_called_by_its_name_and_anything_else_is_refused() {
        for tier in Tier::ALL {
            assert_eq!(tier_named(tier.name()), Ok(tier));
        }
        for name in ["", "none", "Namespaces"] {
            let refusal = tier_named(name).unwrap_err();
            assert!(refusal.message().contains(TIER_VARIABLE) && refusal.hint().contains("bubblewrap"), "{refusal}");
        }
    }
}
