//! Looking at a brain while another process owns it. Never waits for the owner and writes nothing: what an interrupted
//! step still owes is read from the journal.

use std::collections::BTreeMap;
use std::path::Path;

use super::history::{self, StepRecord};
use super::journal;
use super::lost_steps::SideFiles;
use super::manifest::BrainManifest;
use super::open;
use super::receipt_log;
use super::verify;
use crate::bundle::Lockfile;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{Dir, Root};
use crate::ids::{BrainId, Digest, RelPath, Slug};
use crate::layout::{self, Layout};
use crate::memory::vectors::{self, PendingVectors};
use crate::memory::{Access, Database, HybridResults, QueryVector, Search, SearchResults, hybrid, search, sql};
use crate::skill::{Index, SkillUsage, store};
use crate::tuning::Tuning;

/// How much a brain holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct BrainCounts {
    /// Skills in the index.
    pub skills: usize,
    /// Skills in the archive.
    pub archived: usize,
    /// Markdown files that are directly in `patterns/`.
    pub patterns: usize,
    /// Messages of all subscribers in the memory.
    pub messages: u64,
    /// Facts of all subscribers in the memory.
    pub facts: u64,
    /// Tasks in the log.
    pub tasks: u64,
    /// Steps in the history.
    pub steps: u64,
}

/// A brain that is only looked at.
#[derive(Debug)]
pub struct Reader {
    id: BrainId,
    root: Root,
    pub(super) database: Database,
    lock: Lockfile,
}

impl Reader {
    /// Opens a brain for looking. Refused as `Corrupt` where something that stands beside `memory.db` is further than it.
    pub fn open(layout: &Layout, id: &BrainId) -> Result<Self> {
        Self::open_once(layout, id).or_else(|error| match error.kind() {
            // A restored brain may have taken the place of the one whose files were read first: look again.
            ErrorKind::Corrupt => Self::open_once(layout, id),
            _ => Err(error),
        })
    }

    fn open_once(layout: &Layout, id: &BrainId) -> Result<Self> {
        let path = layout.brain(id);
        let root = Root::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => open::no_such_brain(layout, id),
            _ => error,
        })?;
        let beside = SideFiles::read(&root)?;
        let database = open::open_database(&path.join(layout::DATABASE), id, Access::Read)?;
        let lock = journal::load_state(&database.connection)?.lock;
        if let Some(ahead) = beside.ahead_of(&lock, &receipt_log::head(&database.connection)?) {
            return Err(ahead.into_error(id, &lock));
        }
        Ok(Self { id: id.clone(), root, database, lock })
    }

    /// Opens a brain that stands anywhere, as it is: nothing is recovered.
    pub fn at(path: &Path, id: &BrainId) -> Result<Self> {
        let root = Root::open(path)?;
        let database = open::open_database(&path.join(layout::DATABASE), id, Access::Read)?;
        let lock = journal::load_state(&database.connection)?.lock;
        Ok(Self { id: id.clone(), root, database, lock })
    }

    /// Whether files are not as the last step left them, or there are any that no step wrote.
    pub fn differs_from_its_steps(&self) -> Result<bool> {
        let looked = verify::scan_files(&self.root, Dir::default())?;
        let (tree, stray) = verify::tree_of(&looked.top)?;
        let drift = verify::Drift::between(&self.database, &tree, false)?;
        let none = drift.changed.is_empty() && drift.added.is_empty() && drift.removed.is_empty();
        Ok(!none || !stray.is_empty() || !looked.survey.odd.is_empty())
    }

    /// The number that names this brain's directory below `brains`.
    pub fn id(&self) -> &BrainId {
        &self.id
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// The lock of the last step.
    pub fn lock(&self) -> &Lockfile {
        &self.lock
    }

    pub(super) fn set_lock(&mut self, lock: Lockfile) {
        self.lock = lock;
    }

    /// The name and tool whitelist, where the brain has them.
    pub fn manifest(&self) -> Result<Option<BrainManifest>> {
        let path = layout::rel(layout::MANIFEST)?;
        let Some(bytes) = self.read_current(&path, 1 << 20)? else { return Ok(None) };
        BrainManifest::parse(&bytes).map(Some).map_err(|error| {
            Error::corrupt(format!("manifest.json of brain {}: {}", self.id, error.message()))
                .hint("put the file back as it was, or restore the brain from a snapshot")
        })
    }

    /// Which components and constants the brain runs with.
    pub fn tuning(&self) -> Result<Tuning> {
        let path = layout::rel(layout::TUNING)?;
        self.read_current(&path, layout::MAX_FILE_BYTES)?
            .map_or_else(|| Ok(Tuning::default()), |bytes| Tuning::parse(&bytes))
    }

    /// A text file of the brain, or `None` where there is none. Unreadable is an error.
    pub fn text(&self, path: &crate::ids::RelPath) -> Result<Option<String>> {
        match self.read_current(path, layout::MAX_FILE_BYTES)? {
            None => Ok(None),
            Some(bytes) => String::from_utf8(bytes).map(Some).map_err(|source| {
                Error::corrupt(format!("{path} is not UTF-8 text"))
                    .hint("save it as UTF-8, and take the change over with `herm brain adopt ID`")
                    .because(source)
            }),
        }
    }

    /// A file of the brain, or `None` where there is none.
    pub fn file(&self, path: &RelPath) -> Result<Option<Vec<u8>>> {
        self.root.read(path, layout::MAX_FILE_BYTES)
    }

    /// The files in a skill's directory but its main file, by their paths inside it.
    pub fn skill_files(&self, dir: &RelPath, main: &RelPath) -> Result<Vec<String>> {
        let below = format!("{dir}/");
        let entries = journal::entries(&self.database.connection)?;
        let inside = entries.into_keys().filter(|path| path != main);
        Ok(inside.filter_map(|path| path.as_str().strip_prefix(&below).map(str::to_owned)).collect())
    }

    /// A file of at most `max` bytes, or `None` where there is none.
    pub(super) fn read_file(&self, path: &crate::ids::RelPath, max: u64) -> Result<Option<Vec<u8>>> {
        self.root.read(path, max)
    }

    /// The digest of a file of the bundle, as the last step left it; `None` where there is none.
    pub fn entry(&self, path: &RelPath) -> Result<Option<Digest>> {
        journal::entry(&self.database.connection, path)
    }

    /// The names in the archive.
    pub fn archived(&self) -> Result<Vec<Slug>> {
        Ok(self.archived_skills()?.into_iter().map(|(slug, _)| slug).collect())
    }

    /// The archived skills with the main file that a restore would bring back.
    pub fn archived_skills(&self) -> Result<Vec<(Slug, RelPath)>> {
        let archive = format!("{}/", layout::ARCHIVE_DIR);
        let entries = journal::entries(&self.database.connection)?;
        let inside: Vec<_> = entries.into_keys().filter(|path| path.as_str().starts_with(&archive)).collect();
        Ok(store::archived_skills(&inside))
    }

    /// The telemetry of all skills.
    pub fn usage(&self) -> Result<BTreeMap<Slug, SkillUsage>> {
        self.database.skill_usage()
    }

    /// Searches the memory. A damaged index shows in the answer; the owner of the brain rebuilds it.
    pub fn search(&self, wanted: &Search<'_>) -> Result<SearchResults> {
        search::search(&self.database.connection, wanted)
    }

    /// The same by words, and by meaning where that is given.
    pub fn search_hybrid(&self, wanted: &Search<'_>, sought: Option<&QueryVector>) -> Result<HybridResults> {
        hybrid::search(&self.database.connection, wanted, sought)
    }

    /// What is to be done so that rows have vectors of a model: at most so many texts.
    pub fn vectors_due(&self, model: &str, most: usize) -> Result<PendingVectors> {
        vectors::due(&self.database.connection, model, most)
    }

    /// How many rows lack a vector of a model.
    pub fn count_vectors_due(&self, model: &str) -> Result<u64> {
        vectors::count_due(&self.database.connection, model)
    }

    /// What is to be done so that skills have vectors of a model.
    pub fn skill_vectors_due<'s>(
        &self,
        model: &str,
        skills: impl Iterator<Item = (&'s str, &'s str)>,
    ) -> Result<PendingVectors> {
        vectors::skills_due(&self.database.connection, model, skills)
    }

    /// The last `limit` steps, newest first.
    pub fn history(&self, limit: usize) -> Result<Vec<StepRecord>> {
        history::read(&self.database, limit)
    }

    /// How much the brain holds; `skills` is its index.
    pub fn counts(&self, skills: &Index) -> Result<BrainCounts> {
        let rows = |table: &str| -> Result<u64> {
            self.database
                .connection
                .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0))
                .map(i64::unsigned_abs)
                .map_err(|source| sql("read memory.db", source))
        };
        let below = format!("{}/", layout::PATTERNS_DIR);
        let is_pattern = |path: &RelPath| {
            path.as_str().strip_prefix(&below).is_some_and(|name| name.ends_with(".md") && !name.contains('/'))
        };
        let patterns = journal::entries(&self.database.connection)?.into_keys().filter(is_pattern).count();
        Ok(BrainCounts {
            skills: skills.len(),
            archived: self.archived()?.len(),
            patterns,
            messages: rows("messages")?,
            facts: rows("facts")?,
            tasks: rows("task_log")?,
            steps: rows("steps")?,
        })
    }
}
