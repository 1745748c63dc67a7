//! Systems without namespaces: no sandbox can be built, and everything says so.

use std::io;

use crate::availability::Availability;
use crate::error::Refusal;
use crate::exit::{Ending, How, Used};
use crate::process::Running;
use crate::report::Tier;
use crate::spec::Spec;

const WHY: &str = "sandboxes need Linux";

pub(crate) fn take_over() {}

pub(crate) fn spawn(_: Spec) -> Result<Running, Refusal> {
    Err(Refusal::Unavailable { why: available().why_not })
}

pub(crate) fn available() -> Availability {
    let why_not = vec![(Tier::Namespaces, WHY.to_owned()), (Tier::Bubblewrap, WHY.to_owned())];
    Availability { tier: None, layers: Vec::new(), why_not }
}

/// The counterpart of the Linux handle; [`spawn`] never returns one here.
#[derive(Debug)]
pub(crate) struct Handle;

impl Handle {
    pub(crate) fn wait(&mut self) -> Ending {
        Ending { how: How::Broken(WHY.into()), used: Used::default(), terminated_within: None }
    }

    pub(crate) fn killer(&self) -> Killer {
        Killer
    }
}

/// The counterpart of the Linux killer; there is never anything to end here.
#[derive(Debug, Clone)]
pub(crate) struct Killer;

impl Killer {
    pub(crate) fn kill(&self) {}
}

/// The counterpart of the Linux pipe; there is never a program to read from here.
#[derive(Debug)]
pub(crate) struct CountedPipe;

impl CountedPipe {
    pub(crate) fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}

/// What a lease needs of any system.
pub(crate) mod place {
    use std::hash::{BuildHasher as _, Hasher as _};
    use std::io;
    use std::path::Path;

    pub(crate) fn random_name() -> io::Result<String> {
        let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
        Ok(format!("herm-{random:016x}"))
    }

    pub(crate) fn make_passage(path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    pub(crate) fn make_private(path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    #[expect(clippy::disallowed_methods, reason = "nothing hostile ever ran in it here")]
    pub(crate) fn remove(path: &Path) -> io::Result<()> {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    pub(crate) fn boot() -> Option<String> {
        None
    }

    pub(crate) fn end_process(_: i32, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    pub(crate) fn end_members(_: &Path) -> io::Result<u32> {
        Ok(0)
    }

    pub(crate) fn remove_group(_: &Path) -> io::Result<bool> {
        Ok(false)
    }

    pub(crate) fn unmount_below(_: &Path) -> io::Result<u32> {
        Ok(0)
    }
}
