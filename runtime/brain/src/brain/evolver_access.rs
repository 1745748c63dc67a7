//! What the evolver needs of a brain beside its steps: the skills as the last step left them, earlier
//! content, and a place where a change is tried before it is made.

use std::path::PathBuf;

use super::history::{self, StepRecord};
use super::open::Brain;
use super::reader::Reader;
use super::{diff, journal};
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, RelPath, Slug};
use crate::layout;
use crate::skill::all_skills;

/// How often a file is looked at that is not what the journal says.
const LOOKS: usize = 50;

impl Brain {
    /// The files of the skills, in path order.
    pub fn skill_paths(&self) -> Result<Vec<RelPath>> {
        Ok(self.tree()?.below(layout::SKILLS_DIR).cloned().collect())
    }

    /// The support files of a skill, by their path inside it.
    pub fn skill_files(&self, slug: &Slug) -> Result<Vec<(String, Vec<u8>)>> {
        let paths = self.skill_paths()?;
        let places = all_skills(&paths, layout::SKILLS_DIR);
        let Some(place) = places.into_iter().find(|place| place.slug == *slug) else { return Ok(Vec::new()) };
        let Some(dir) = place.dir() else { return Ok(Vec::new()) };
        let inside = format!("{dir}/");
        let mut files = Vec::new();
        for path in paths.iter().filter(|path| **path != place.main) {
            if let (Some(file), Some(content)) = (path.as_str().strip_prefix(&inside), self.read_content(path)?) {
                files.push((file.to_owned(), content));
            }
        }
        Ok(files)
    }

    /// The digest of a file of the bundle; `None` where there is none.
    pub fn content_digest(&self, path: &RelPath) -> Result<Option<Digest>> {
        Ok(self.tree()?.get(path))
    }

    /// The step with the number `seq`, with its file changes; `NotFound` where the journal has none.
    pub fn step(&self, seq: i64) -> Result<StepRecord> {
        history::expect(&self.database, self.id(), seq)
    }

    /// The number of the last step.
    pub fn last_step(&self) -> Result<i64> {
        journal::last_step(&self.database.connection)
    }

    /// Content that a step settled, checked against its digest; `None` where the journal has lost it.
    pub fn settled_content(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        diff::content(&self.database, &self.root, digest)
    }

    /// A directory beside the brain, for what is not yet part of it. The next open clears it away.
    pub fn staging(&self) -> PathBuf {
        let above = self.path().parent().map(PathBuf::from).unwrap_or_default();
        layout::Layout::new(above).staging(self.id())
    }
}

impl Reader {
    /// The files of the skills, in path order.
    pub fn skill_paths(&self) -> Result<Vec<RelPath>> {
        let inside = format!("{}/", layout::SKILLS_DIR);
        let entries = journal::entries(&self.database.connection)?;
        Ok(entries.into_keys().filter(|path| path.as_str().starts_with(&inside)).collect())
    }

    /// A file of the bundle as the last step left it; `None` where there is none.
    pub fn settled_file(&self, path: &RelPath) -> Result<Option<Vec<u8>>> {
        // Between looking at the journal and at the file, its owner may have settled a step: look again.
        for _ in 0..LOOKS {
            let Some(expected) = journal::entry(&self.database.connection, path)? else { return Ok(None) };
            match self.read_file(path, layout::MAX_FILE_BYTES)? {
                Some(content) if Digest::of(&content) == expected => return Ok(Some(content)),
                _ => std::thread::yield_now(),
            }
        }
        Err(changed_by_hand(self.id(), path))
    }
}

pub(super) fn changed_by_hand(id: &BrainId, path: &RelPath) -> Error {
    Error::conflict(format!("{path} of brain {id} was changed by something other than herm"))
        .hint(format!("look with `herm brain verify {id}`; take the edit over with `herm brain adopt {id}`"))
}
