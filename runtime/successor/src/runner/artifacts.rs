//! Files that commands left in `/work/artifacts`, copied out safely: regular files only, a bounded number of bounded
//! size, no link followed at any level. Nobody is inside any more when this runs.

use std::path::Path;

use herm_sandbox::SandboxLease;

use crate::error::Result;
use crate::fsio::{DirEntryKind, Root, SyncTiming};
use crate::ids::RelPath;
use crate::measure::EvaluationArm;

/// Where commands leave them.
const INSIDE: &str = "artifacts";
/// The most files of one side.
const MOST_FILES: usize = 64;
/// The most bytes of one side.
const MOST_BYTES: u64 = 16 << 20;
/// The most directories that are looked into.
const MOST_DIRS: usize = 64;
/// The deepest of them.
const MOST_DEPTH: usize = 8;

/// Copies the artifacts of both sides below `to`; what was left behind, in words.
pub(crate) fn collect(leases: &[SandboxLease; 2], to: &Path) -> Result<Vec<String>> {
    let target = Root::open(to)?;
    let mut left = Vec::new();
    for (arm, lease) in EvaluationArm::BOTH.into_iter().zip(leases) {
        let inside: RelPath = INSIDE.parse()?;
        // A link in its place is not followed: then there is nothing.
        let Ok(Some(root)) = Root::open(&lease.work()).and_then(|work| work.below(&inside)) else { continue };
        let mut taking = Taking { arm, files: 0, bytes: 0, left: Vec::new() };
        taking.take(&root, &target);
        left.append(&mut taking.left);
    }
    Ok(left)
}

struct Taking {
    arm: EvaluationArm,
    files: usize,
    bytes: u64,
    left: Vec<String>,
}

impl Taking {
    fn take(&mut self, root: &Root, target: &Root) {
        let mut dirs: Vec<Option<RelPath>> = vec![None];
        let mut looked = 0;
        while let Some(dir) = dirs.pop() {
            looked += 1;
            if looked > MOST_DIRS {
                self.leave("more directories");
                return;
            }
            let below = match &dir {
                None => root.list(),
                Some(dir) => match root.below(dir) {
                    Ok(Some(below)) => below.list(),
                    _ => continue,
                },
            };
            let Ok(below) = below else {
                self.leave("a directory that cannot be read");
                continue;
            };
            for entry in below {
                let name = match &dir {
                    None => entry.name.clone(),
                    Some(dir) => format!("{dir}/{}", entry.name),
                };
                let Ok(path) = name.parse::<RelPath>() else {
                    self.leave("a name that cannot be kept");
                    continue;
                };
                match entry.kind {
                    DirEntryKind::Dir if path.as_str().split('/').count() > MOST_DEPTH => {
                        self.leave("a directory that is too deep");
                    }
                    DirEntryKind::Dir => dirs.push(Some(path)),
                    DirEntryKind::File if self.files >= MOST_FILES => {
                        self.leave("more files");
                        return;
                    }
                    DirEntryKind::File => self.copy(root, target, &path),
                    DirEntryKind::Other(what) => self.leave(what),
                }
            }
        }
    }

    fn copy(&mut self, root: &Root, target: &Root, path: &RelPath) {
        // One that is too large, or cannot be read, stays behind.
        let Ok(Some(content)) = root.read(path, MOST_BYTES - self.bytes) else {
            self.leave("a file that is too large or cannot be read");
            return;
        };
        self.files += 1;
        self.bytes += content.len() as u64;
        let to = format!("artifacts/{}/{path}", self.arm.name()).parse::<RelPath>();
        if !to.is_ok_and(|to| target.replace(&to, &content, SyncTiming::Later).is_ok()) {
            self.leave("a file that cannot be kept");
        }
    }

    fn leave(&mut self, what: &str) {
        let sentence = format!("An artifact of the {} side stays behind: {what}.", self.arm.name());
        if !self.left.contains(&sentence) {
            self.left.push(sentence);
        }
    }
}
