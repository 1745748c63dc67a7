//! The directory of a record as it is: every name in it with its digest, links and the like named and never followed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Result;
use crate::fsio::{DirEntryKind, Root};
use crate::ids::{RelPath, sha256};
use crate::records::{EVALUATION, MEASUREMENTS, MOST, PATCH, SIGNED, VERDICT};

/// The most names that are looked at; a record has a few hundred at most.
const MOST_NAMES: usize = 4_096;
/// The deepest directory that is looked into.
const DEEPEST: usize = 12;
/// Files whose content is read again, not only hashed.
const READ: [&str; 5] = [VERDICT, SIGNED, PATCH, EVALUATION, MEASUREMENTS];

/// What a name in a record stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Thing {
    /// A regular file that could be read.
    File {
        /// The SHA-256 of its content, which must be that of the artifact in the verdict.
        sha256: String,
        /// How many bytes it has.
        bytes: u64,
    },
    /// Something else, or a file that cannot be read, in words.
    Odd(String),
}

/// A record as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Folder {
    /// Everything but directories, by path.
    pub(super) things: BTreeMap<String, Thing>,
    /// The content of the files that are read again.
    pub(super) contents: BTreeMap<&'static str, Vec<u8>>,
    /// Whether there was more than is looked at.
    pub(super) is_cut: bool,
}

impl Folder {
    /// Reads a record. What is wrong inside is part of it; only a directory that cannot be opened is an error.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let root = Root::open(path)?;
        let mut folder = Self::default();
        let mut dirs: Vec<(Option<RelPath>, usize)> = vec![(None, 0)];
        while let Some((dir, depth)) = dirs.pop() {
            let entries = match &dir {
                None => root.list()?,
                Some(below) => match root.below(below) {
                    Ok(Some(below)) => below.list()?,
                    Ok(None) => continue,
                    Err(error) => {
                        folder.things.insert(below.to_string(), Thing::Odd(error.message().to_owned()));
                        continue;
                    }
                },
            };
            for entry in entries {
                let name = match &dir {
                    None => entry.name.clone(),
                    Some(dir) => format!("{dir}/{}", entry.name),
                };
                if folder.things.len() >= MOST_NAMES {
                    folder.is_cut = true;
                    return Ok(folder);
                }
                match (entry.kind, name.parse::<RelPath>()) {
                    (DirEntryKind::Other(what), _) => drop(folder.things.insert(name, Thing::Odd(what.to_owned()))),
                    (_, Err(_)) => drop(folder.things.insert(name, Thing::Odd("a name that no record has".to_owned()))),
                    (DirEntryKind::Dir, Ok(path)) if depth < DEEPEST => dirs.push((Some(path), depth + 1)),
                    (DirEntryKind::Dir, Ok(_)) => folder.is_cut = true,
                    (DirEntryKind::File, Ok(path)) => folder.file(&root, &path),
                }
            }
        }
        Ok(folder)
    }

    fn file(&mut self, root: &Root, path: &RelPath) {
        let thing = match root.read(path, MOST) {
            Ok(Some(content)) => {
                let thing = Thing::File { sha256: sha256(&content), bytes: content.len() as u64 };
                if let Some(name) = READ.iter().find(|name| **name == path.as_str()) {
                    self.contents.insert(name, content);
                }
                thing
            }
            Ok(None) => Thing::Odd("gone while it was looked at".to_owned()),
            Err(error) => Thing::Odd(error.message().to_owned()),
        };
        self.things.insert(path.to_string(), thing);
    }
}
