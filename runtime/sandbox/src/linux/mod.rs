//! The sandbox as Linux builds it.
//!
//! From outside to inside: [`spawn`] writes orders and starts our own binary again; [`stage`] gives up what it holds and
//! makes namespaces; [`view`] makes the root; [`init`] stays as process 1; [`restrict`] and [`filter`] take the last
//! rights; [`canary`] tries to get out; [`supervise`] stays with it until it ended.

mod bubblewrap;
mod canary;
mod cgroup;
mod filter;
mod handle;
mod init;
pub(crate) mod leftovers;
mod restrict;
mod sample;
mod spawn;
mod stage;
mod streams;
mod supervise;
mod sys;
mod tree;
mod view;
mod wire;

use std::process::Stdio;

pub(crate) use handle::{CountedPipe, Handle, Killer};
pub(crate) use spawn::spawn;
pub(crate) use stage::take_over;

use crate::availability::Availability;
use crate::report::{LayerReport, Tier};
use crate::spec::{SandboxLayer, TierPolicy};

pub(crate) fn available() -> Availability {
    let abi = sys::landlock_abi();
    let landlock = if abi > 0 { format!("ABI {abi}") } else { "the kernel has no Landlock".into() };
    let filter = if filter::exists() { "the kernel has filters" } else { "the kernel has no filters" };
    let layers = vec![
        LayerReport { layer: SandboxLayer::Landlock, on: abi > 0, detail: landlock },
        LayerReport { layer: SandboxLayer::Seccomp, on: filter::exists(), detail: filter.into() },
    ];
    let (tiers, mut why_not) = match TierPolicy::BestFirst.to_try() {
        Ok(tiers) => (tiers, Vec::new()),
        Err(refusal) => (Vec::new(), Tier::ALL.map(|tier| (tier, refusal.message())).to_vec()),
    };
    let tier = tiers.into_iter().find(|tier| {
        let works = match tier {
            Tier::Namespaces => namespaces_work(),
            Tier::Bubblewrap => bubblewrap::works(),
        };
        works.map_err(|why| why_not.push((*tier, why))).is_ok()
    });
    Availability { tier, layers, why_not }
}

fn namespaces_work() -> Result<(), String> {
    if !stage::is_registered() {
        return Err("this program never called run_if_reexec, so it cannot try".into());
    }
    let tried = stage::command(stage::TRY).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match tried.map(|status| status.code()) {
        Err(error) => Err(format!("our own binary cannot be started again: {error}")),
        Ok(Some(0)) => Ok(()),
        Ok(Some(errno)) => {
            Err(format!("cannot make namespaces: {}", stage::in_words(std::io::Error::from_raw_os_error(errno))))
        }
        Ok(None) => Err("the process that tried was ended".into()),
    }
}
