//! Systems without namespaces: no sandbox can be built, and everything says so.

use std::io;

use crate::availability::Availability;
use crate::ending::{Ending, How, Used};
use crate::refusal::Refusal;
use crate::report::Tier;
use crate::running::Running;
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

/// Never made here.
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

/// Never made here.
#[derive(Debug, Clone)]
pub(crate) struct Killer;

impl Killer {
    pub(crate) fn kill(&self) {}
}

/// Never made here.
#[derive(Debug)]
pub(crate) struct CountedPipe;

impl CountedPipe {
    pub(crate) fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}
