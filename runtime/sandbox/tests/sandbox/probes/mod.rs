//! What is tried from inside. A probe either finds itself stopped, or says what it reached.
//!
//! Each runs in a process of its own, since some are ended by the filter and some would change what comes after. A probe
//! that is harmless on the host is also run there, by the same user, and must get through: otherwise it shows nothing.

mod files;
mod kernel;
mod network;
mod processes;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Things of the host that are really there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Targets {
    /// A directory of the host into which everybody may write.
    pub open_directory: PathBuf,
    /// A file that only its owner, the caller, can read.
    pub secret: PathBuf,
    /// A file that everybody can read.
    pub readable: PathBuf,
    /// What stands in both.
    pub secret_text: String,
    /// A file of the caller that is bound into the sandbox, at the place where it is seen.
    pub bound: PathBuf,
    /// A socket of the host with a path.
    pub socket: PathBuf,
    /// An abstract socket of the host.
    pub abstract_socket: String,
    /// Ports of the host, on 127.0.0.1, on ::1, and on every address.
    pub port: u16,
    pub port6: u16,
    pub datagrams: u16,
    /// An address of the host that is not its loopback.
    pub address: Option<String>,
    /// The process that builds the sandbox.
    pub parent: i32,
    /// System V shared memory of the host.
    pub memory_key: i32,
    /// The name of the host.
    pub host_name: String,
    /// The home of the user that runs the suite.
    pub home: PathBuf,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// It was stopped, like this.
    Stopped(String),
    /// It got through, and reached this.
    Reached(String),
}

/// On whose account a probe must get through on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Any user who runs it.
    Anybody,
    /// Root alone has the right.
    Root,
    /// It would do harm there, or the machine may not have what it reaches for. The ablation has to show it.
    None,
}

/// Something that is tried.
pub struct Probe {
    pub name: &'static str,
    pub control: Control,
    pub run: fn(&Targets) -> Found,
}

/// Everything that must be stopped.
pub fn escapes() -> Vec<Probe> {
    let mut all = files::escapes();
    all.extend(network::escapes());
    all.extend(processes::escapes());
    all.extend(kernel::escapes());
    all
}

/// Everything that must work: a sandbox in which nothing works would stop every probe.
pub fn positives() -> Vec<Probe> {
    let mut all = files::positives();
    all.extend(network::positives());
    all.extend(processes::positives());
    all
}

fn probe(name: &'static str, control: Control, run: fn(&Targets) -> Found) -> Probe {
    Probe { name, control, run }
}

/// Stopped if it failed, however.
fn denied<T>(result: io::Result<T>, reached: impl Into<String>) -> Found {
    match result {
        Ok(_) => Found::Reached(reached.into()),
        Err(error) => Found::Stopped(error.to_string()),
    }
}

/// Stopped only if the kernel did not even look at it.
fn filtered(result: io::Result<i64>) -> Found {
    match result {
        Ok(value) => Found::Reached(format!("carried out: {value}")),
        Err(error) => match error.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS) => Found::Stopped(error.to_string()),
            _ => Found::Reached(format!("the kernel looked at it: {error}")),
        },
    }
}

/// Stopped if the secret is not in what was read.
fn without_secret(read: io::Result<Vec<u8>>, targets: &Targets) -> Found {
    match read {
        Err(error) => Found::Stopped(error.to_string()),
        Ok(bytes) => {
            let secret = targets.secret_text.as_bytes();
            if bytes.windows(secret.len()).any(|window| window == secret) {
                Found::Reached("read the secret".into())
            } else {
                Found::Stopped("read something else".into())
            }
        }
    }
}

/// For probes that must work: the other way round.
fn works<T>(result: io::Result<T>, what: &str) -> Found {
    match result {
        Ok(_) => Found::Reached(what.into()),
        Err(error) => Found::Stopped(format!("{what}: {error}")),
    }
}
