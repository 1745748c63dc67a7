//! What the main files of skills said, kept on disk between two processes.
//!
//! Only ever a shortcut: a file is known by its size, times and inode, as in the survey of a brain, else by the digest of
//! its bytes, else it is read and parsed. A cache that is missing, damaged, of another version or not a regular file knows
//! nothing, and the index comes out the same.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::document::Document;
use super::provenance;
use crate::error::{Error, Result};
use crate::fsio::{Root, Stat, SyncTiming};
use crate::ids::{Digest, RelPath};

/// What a cache of this reader begins with. Another version may read files otherwise.
const FORMAT: &str = concat!("herm/skill-index@1 ", env!("CARGO_PKG_VERSION"));
const MAX_BYTES: u64 = 64 << 20;
/// Fewer files than this are parsed sooner than a cache of them is worth its place.
const FEW: usize = 64;
/// A cache is written anew when more than one in so many files was not known by its times.
const STALE_PART: usize = 16;
/// Files changed this shortly before the cache was written may change again without a visible change of their times.
const RACY_NANOS: i64 = 50_000_000;

/// What a main file says that the index shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexFacts {
    pub(crate) name: Option<String>,
    pub(crate) description: Arc<str>,
    pub(crate) platforms: Vec<String>,
    pub(crate) triggers: Vec<String>,
    pub(crate) requires: Vec<String>,
    pub(crate) pinned: bool,
}

impl IndexFacts {
    pub(crate) fn of(document: &Document) -> Self {
        Self {
            name: document.name(),
            description: document.description().unwrap_or_default().into(),
            platforms: document.platforms(),
            triggers: document.triggers(),
            requires: document.requires(),
            pinned: provenance::says_pinned(document.raw().get(..document.body_start()).unwrap_or_default()),
        }
    }
}

/// Size, times and inode of a file, as [`Stat`] has them.
type Seen = (u64, i64, i64, u64);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    path: String,
    /// What `stat` said before the file was read; none where that cannot be trusted.
    seen: Option<Seen>,
    digest: Digest,
    facts: Arc<IndexFacts>,
}

/// The facts of an index's files: those known from before, and those of this run.
#[derive(Debug, Default)]
pub struct IndexCache {
    by_path: HashMap<String, Record>,
    by_digest: HashMap<Digest, Arc<IndexFacts>>,
    current: Vec<Record>,
    unknown: usize,
}

impl IndexCache {
    /// Reads the cache at `rel`; one that cannot be used knows nothing.
    pub fn load(root: &Root, rel: &RelPath) -> Self {
        let bytes = match root.read(rel, MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Self::default(),
            Err(error) => {
                tracing::debug!(%error, "skill index not read");
                return Self::default();
            }
        };
        let records = parse(&bytes).unwrap_or_default();
        let by_digest = records.iter().map(|record| (record.digest, Arc::clone(&record.facts))).collect();
        let by_path = records.into_iter().map(|record| (record.path.clone(), record)).collect();
        Self { by_path, by_digest, ..Self::default() }
    }

    /// The facts of a file that looks as it did.
    pub(crate) fn by_stat(&mut self, path: &RelPath, stat: &Stat) -> Option<Arc<IndexFacts>> {
        let record = self.by_path.remove(path.as_str()).filter(|record| record.seen == Some(seen(stat)))?;
        let facts = Arc::clone(&record.facts);
        self.current.push(record);
        Some(facts)
    }

    /// The facts of a file with this content, which is only parsed if no file had it.
    pub(crate) fn by_content(
        &mut self,
        path: &RelPath,
        stat: Option<Stat>,
        content: &[u8],
        parse: impl FnOnce() -> std::result::Result<IndexFacts, String>,
    ) -> std::result::Result<Arc<IndexFacts>, String> {
        let digest = Digest::of(content);
        let facts = match self.by_digest.get(&digest) {
            Some(facts) => Arc::clone(facts),
            None => Arc::new(parse()?),
        };
        self.unknown += 1;
        let seen = stat.as_ref().map(seen);
        self.current.push(Record { path: path.to_string(), seen, digest, facts: Arc::clone(&facts) });
        Ok(facts)
    }

    /// Whether it knows nothing.
    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// A file of which this cache says something else than what `read` found in it: then the cache was forged, for it is
    /// only written from files.
    pub fn contradiction<'r>(&self, read: &'r IndexCache) -> Option<&'r str> {
        let differs = |record: &&Record| {
            let by_path = self.by_path.get(&record.path);
            let looks_alike = by_path.filter(|kept| kept.seen.is_some() && kept.seen == record.seen);
            looks_alike.is_some_and(|kept| kept.digest != record.digest || kept.facts != record.facts)
                || self.by_digest.get(&record.digest).is_some_and(|kept| *kept != record.facts)
        };
        read.current.iter().find(differs).map(|record| record.path.as_str())
    }

    /// Whether so many files were not known that writing the cache anew is worth it.
    pub fn is_stale(&self) -> bool {
        self.current.len() >= FEW && self.unknown * STALE_PART > self.current.len()
    }

    /// Writes the facts of this run. Not synced: losing them costs one reading of the files.
    pub fn save(&mut self, root: &Root, rel: &RelPath) -> Result<()> {
        // The file system's own idea of "now" is the time of a file just written.
        root.replace(rel, FORMAT.as_bytes(), SyncTiming::Later)?;
        let now = root.stat(rel)?.map_or(i64::MIN, |stat| stat.mtime);
        for record in &mut self.current {
            record.seen = record.seen.filter(|(_, mtime, ctime, _)| *mtime.max(ctime) < now.saturating_sub(RACY_NANOS));
        }
        let records = serde_json::to_vec(&self.current)
            .map_err(|source| Error::internal("the skill index cannot be written").because(source))?;
        root.replace(rel, &[head(&records).as_bytes(), &records].concat(), SyncTiming::Later)
    }
}

fn seen(stat: &Stat) -> Seen {
    (stat.size, stat.mtime, stat.ctime, stat.ino)
}

/// The first lines of a cache: its format, and the digest of what follows.
fn head(records: &[u8]) -> String {
    format!("{FORMAT}\n{}\n", Digest::of(records))
}

fn parse(bytes: &[u8]) -> Option<Vec<Record>> {
    let at = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).nth(1)?;
    let (found, records) = bytes.split_at_checked(at)?;
    if found != head(records).as_bytes() {
        return None;
    }
    serde_json::from_slice(records).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    fn facts(name: &str) -> IndexFacts {
        IndexFacts::of(&Document::read(format!("---\nname: {name}\n---\n").as_bytes()).unwrap())
    }

    /// A cache of `count` files that were changed at these nanoseconds, saved at the file system's time.
    fn saved(count: usize, mtime: i64) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let mut cache = IndexCache::default();
        for n in 0..count {
            let stat = Stat { size: 1, mtime, ctime: mtime, ino: n as u64 };
            let name = format!("s{n}");
            cache.by_content(&path(&name), Some(stat), name.as_bytes(), || Ok(facts(&name))).unwrap();
        }
        cache.save(&root, &path("index")).unwrap();
        (dir, root)
    }

    fn stat(mtime: i64, ino: u64) -> Stat {
        Stat { size: 1, mtime, ctime: mtime, ino }
    }

    #[test]
    fn a_file_that_looks_as_it_did_is_known() {
        let (_dir, root) = saved(2, 7);
        let mut cache = IndexCache::load(&root, &path("index"));
        assert_eq!(cache.by_stat(&path("s1"), &stat(7, 1)).as_deref(), Some(&facts("s1")));
        assert_eq!(cache.by_stat(&path("s0"), &stat(8, 0)), None, "another time");
        assert_eq!(cache.by_stat(&path("s2"), &stat(7, 2)), None, "another file");
    }

    #[test]
    fn a_file_that_may_have_changed_since_is_known_by_its_content_alone() {
        let (_dir, root) = saved(1, i64::MAX);
        let mut cache = IndexCache::load(&root, &path("index"));
        assert_eq!(cache.by_stat(&path("s0"), &stat(i64::MAX, 0)), None);
        let parse = || Err("it was parsed again".to_owned());
        assert_eq!(cache.by_content(&path("moved"), None, b"s0", parse).as_deref(), Ok(&facts("s0")));
        assert_eq!(
            cache.by_content(&path("s0"), None, b"other", || Ok(facts("other"))).as_deref(),
            Ok(&facts("other"))
        );
    }

    #[test]
    fn a_cache_is_written_for_many_files_and_when_many_are_new() {
        let (_dir, root) = saved(FEW, 7);
        for (new, is_stale) in [(0, false), (FEW / STALE_PART, false), (FEW / STALE_PART + 1, true)] {
            let mut cache = IndexCache::load(&root, &path("index"));
            for n in 0..FEW {
                let name = path(&format!("s{n}"));
                let found = cache.by_stat(&name, &stat(if n < new { 8 } else { 7 }, n as u64));
                if found.is_none() {
                    cache.by_content(&name, None, b"new", || Ok(facts("new"))).unwrap();
                }
            }
            assert_eq!(cache.is_stale(), is_stale, "{new} of {FEW}");
        }
        assert!(!IndexCache::default().is_stale());
    }
}
