//! Files that are behind the journal. A step is committed before its files are written, so a crash leaves them so; the
//! next open for writing brings them up to it, and a [`Reader`] reads them as if that had happened.

use rusqlite::Connection;

use super::journal::{self, FileChange};
use super::reader::Reader;
use crate::error::Result;
use crate::fsio::{self, Root, SyncTiming};
use crate::ids::{Digest, RelPath};
use crate::layout;
use crate::skill::{Index, IndexCache};

/// The files that the journal would bring from something it knows to what its steps after `flushed` say.
pub(super) fn files(connection: &Connection, root: &Root, flushed: i64) -> Result<Vec<FileChange>> {
    let mut behind = Vec::new();
    for change in journal::unflushed(connection, flushed)? {
        let found = root.read(&change.path, layout::MAX_FILE_BYTES)?;
        if is_behind(connection, &change, found.as_deref(), flushed)? {
            behind.push(change);
        }
    }
    Ok(behind)
}

/// Whether a file is behind what the journal says. Content that a step settled is kept and can be replaced, and so can
/// a torn piece of what comes after; anything else was edited since, and stays.
pub(super) fn is_behind(
    connection: &Connection,
    change: &FileChange,
    found: Option<&[u8]>,
    flushed: i64,
) -> Result<bool> {
    let Some(found) = found else { return Ok(change.after.is_some()) };
    let digest = Digest::of(found);
    if Some(digest) == change.after {
        return Ok(false);
    }
    Ok(journal::find_blob(connection, &digest)?.is_some() || is_torn_piece(connection, &change.path, found, flushed)?)
}

/// Whether what is there is a torn piece of anything that the steps after `flushed` put there.
pub(super) fn is_torn_piece(connection: &Connection, path: &RelPath, found: &[u8], flushed: i64) -> Result<bool> {
    if found.is_empty() {
        return Ok(true);
    }
    let changes = journal::changes(connection, flushed.saturating_add(1), i64::MAX)?;
    let settled = changes.iter().filter(|(_, change)| change.path == *path);
    for digest in settled.flat_map(|(_, change)| [change.before, change.after]).flatten() {
        if journal::find_blob(connection, &digest)?.is_some_and(|whole| is_torn(found, &whole)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `found` is what a power cut can leave of `whole`: a beginning of it, then nothing or zeros.
fn is_torn(found: &[u8], whole: &[u8]) -> bool {
    let same = found.iter().zip(whole).take_while(|(a, b)| a == b).count();
    found.iter().skip(same).all(|byte| *byte == 0)
}

impl Reader {
    /// A file of at most `max` bytes as the last step left it, even if a crash kept it from being written. A file that
    /// someone edited is read as it is.
    pub(super) fn read_current(&self, path: &RelPath, max: u64) -> Result<Option<Vec<u8>>> {
        let found = self.root().read(path, max)?;
        let connection = &self.database.connection;
        let Some(flushed) = journal::unflushed_since(connection)? else { return Ok(found) };
        let change = journal::unflushed(connection, flushed)?.into_iter().find(|change| change.path == *path);
        match change {
            Some(change) if is_behind(connection, &change, found.as_deref(), flushed)? => {
                change.after.map(|after| journal::blob(connection, &after)).transpose()
            }
            _ => Ok(found),
        }
    }

    /// The skill index as the last step left it.
    pub fn skills(&self) -> Result<Index> {
        let connection = &self.database.connection;
        let below = format!("{}/", layout::SKILLS_DIR);
        let is_behind = match journal::unflushed_since(connection)? {
            None => false,
            Some(flushed) => {
                files(connection, self.root(), flushed)?.iter().any(|change| change.path.as_str().starts_with(&below))
            }
        };
        if !is_behind {
            let mut cache = IndexCache::load(self.root(), &layout::rel(layout::INDEX_CACHE)?);
            return Index::build_with(self.root(), layout::SKILLS_DIR, Some(&mut cache));
        }
        // Only the owner of the brain may write its files: they are put together elsewhere, where nobody else looks.
        let place = fsio::create_scratch("herm-skills")?;
        let index = Root::open(&place).and_then(|scratch| {
            for (path, digest) in journal::entries(connection)? {
                if path.as_str().starts_with(&below) {
                    scratch.replace(&path, &journal::blob(connection, &digest)?, SyncTiming::Later)?;
                }
            }
            Index::build(&scratch, layout::SKILLS_DIR)
        });
        // What is left of it is nobody's business and holds nothing up.
        let _ = fsio::remove_tree(&place);
        index
    }
}
