//! What a process gives up before the program starts: capabilities, and what Landlock and the filter take.

use std::io;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::thread::CapabilitySet;

use super::view;
use super::wire::Orders;
use super::{filter, sys};
use crate::report::{LayerReport, Tier};
use crate::spec::SandboxLayer;

/// The newest Landlock that this file knows to ask for; the kernel gives what it has.
const NEWEST: ABI = ABI::V9;

/// An error with what was tried.
type Failure = (String, io::Error);

/// Drops every capability, for this process and everything it starts.
pub(crate) fn drop_capabilities() -> Result<(), Failure> {
    let step = || "drop capabilities".to_owned();
    let gone = rustix::thread::CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    // A process with no right to lower the bounding set has nothing in the sets that matter either.
    let held = rustix::thread::capabilities(None).map_err(|error| (step(), error.into()))?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        sys::empty_bounding_set().map_err(|error| (step(), error))?;
    }
    rustix::thread::clear_ambient_capability_set().map_err(|error| (step(), error.into()))?;
    rustix::thread::set_capabilities(None, gone).map_err(|error| (step(), error.into()))
}

/// Keeps every capability over `exec`: only for negative controls.
pub(crate) fn keep_capabilities() -> Result<(), Failure> {
    let step = || "keep capabilities".to_owned();
    let mut held = rustix::thread::capabilities(None).map_err(|error| (step(), error.into()))?;
    held.inheritable = held.permitted;
    rustix::thread::set_capabilities(None, held).map_err(|error| (step(), error.into()))?;
    sys::raise_ambient_set();
    Ok(())
}

/// Restricts files, abstract sockets and signals with Landlock, as far as the kernel has it.
pub(crate) fn landlock(orders: &Orders) -> Result<LayerReport, Failure> {
    let step = || "set Landlock rules".to_owned();
    let report = |on, detail: String| LayerReport { layer: SandboxLayer::Landlock, on, detail };
    let status = restrict_files(orders).map_err(|error| (step(), error))?;
    Ok(match status {
        RulesetStatus::NotEnforced => report(false, "the kernel has no Landlock".into()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => {
            report(true, format!("ABI {}", sys::landlock_abi()))
        }
    })
}

fn restrict_files(orders: &Orders) -> io::Result<RulesetStatus> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(landlock::Ruleset::create)
        .map_err(io::Error::other)?;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let mut allowed: Vec<(&Path, BitFlags<AccessFs>)> = vec![
        (view::work_inside(orders), all),
        (Path::new("/tmp"), all),
        (Path::new("/proc"), read),
        (&orders.program, read),
        (Path::new("/etc/passwd"), read),
        (Path::new("/etc/group"), read),
        (Path::new("/etc/hosts"), read),
    ];
    let devices: Vec<_> = view::DEVICES.iter().map(|name| Path::new("/dev").join(name)).collect();
    allowed.extend(devices.iter().map(|path| (path.as_path(), device)));
    allowed.extend(orders.binds.iter().map(|bind| (bind.inside.as_path(), read)));
    for (path, access) in allowed {
        let descriptor = match PathFd::new(path) {
            Ok(descriptor) => descriptor,
            // What is optional may be missing; what is missing needs no rule.
            Err(_) if std::fs::symlink_metadata(path).is_err() => continue,
            Err(error) => return Err(io::Error::other(error)),
        };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
        rules = rules.add_rule(PathBeneath::new(descriptor, access)).map_err(io::Error::other)?;
    }
    let status = rules.restrict_self().map_err(io::Error::other)?;
    Ok(status.ruleset)
}

/// Takes the last rights away, in the order in which each still can be taken.
pub(crate) fn restrict(orders: &Orders) -> Result<Vec<LayerReport>, Failure> {
    let layers = &orders.layers;
    let mut reports = Vec::new();
    let mut note = |layer, on, detail: &str| reports.push(LayerReport { layer, on, detail: detail.into() });
    const OFF: &str = "switched off for a negative control";

    if layers.has(SandboxLayer::Capabilities) {
        drop_capabilities()?;
        note(SandboxLayer::Capabilities, true, "none held, none can be gained");
    } else {
        keep_capabilities()?;
        note(SandboxLayer::Capabilities, false, OFF);
    }
    rustix::thread::set_no_new_privs(true).map_err(|error| ("set no_new_privs".into(), error.into()))?;
    if layers.has(SandboxLayer::Landlock) {
        let report = landlock(orders)?;
        note(report.layer, report.on, &report.detail);
    } else {
        note(SandboxLayer::Landlock, false, OFF);
    }
    if layers.has(SandboxLayer::Seccomp) {
        let denied = filter::install().map_err(|error| ("install the system-call filter".to_owned(), error))?;
        note(SandboxLayer::Seccomp, true, &format!("{denied} system calls denied"));
    } else {
        note(SandboxLayer::Seccomp, false, OFF);
    }
    let nested = match (layers.has(SandboxLayer::NestedNamespaces), orders.tier) {
        (false, _) => (false, OFF),
        (true, Tier::Namespaces) => (true, "user.max_user_namespaces is 0 inside"),
        (true, Tier::Bubblewrap) => (true, "by bubblewrap where it can, and by the filter"),
    };
    note(SandboxLayer::NestedNamespaces, nested.0, nested.1);
    Ok(reports)
}
