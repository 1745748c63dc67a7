//! Is a brain what its lock says?

use super::journal;
use super::journal_check::{self, JournalCheck};
use super::open::{self, Brain};
use super::pending_files;
use super::reader::Reader;
use super::receipt_keys::ReceiptKeys;
use super::settle;
use crate::bundle::{BundlePart, Lockfile, PartDigests, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{self, Dir, OddEntry, Root, ScanAction, Survey, SurveyLimits};
use crate::ids::{BrainId, Digest, RelPath};
use crate::layout::{self, Layout};
use crate::memory::{self, Database, Table};
use crate::skill::{Index, IndexCache};

/// Content that differs from what the last step left.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Drift {
    /// Files with other content.
    pub changed: Vec<RelPath>,
    /// Files no step wrote.
    pub added: Vec<RelPath>,
    /// Files that are gone.
    pub removed: Vec<RelPath>,
    /// Tables of `memory.db` whose rows are not those of the last step.
    pub tables: Vec<&'static str>,
    /// `bundle.lock.json` is not the lock of the last step.
    #[serde(rename = "lockFile")]
    pub lock_file: bool,
}

impl Drift {
    pub(super) fn between(database: &Database, tree: &Tree, lock_file: bool) -> Result<Self> {
        let mut drift = Self { lock_file, ..Self::default() };
        let mut expected = journal::entries(&database.connection)?;
        for (path, digest) in tree.iter() {
            match expected.remove(path) {
                None => drift.added.push(path.clone()),
                Some(before) if before != digest => drift.changed.push(path.clone()),
                Some(_) => {}
            }
        }
        drift.removed = expected.into_keys().collect();
        Ok(drift)
    }

    /// Whether files, tables and the lock file are all as the last step left them.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Everything that differs, one line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (what, paths) in [("changed", &self.changed), ("added", &self.added), ("removed", &self.removed)] {
            lines.extend(paths.iter().map(|path| format!("{what}: {path}")));
        }
        lines.extend(self.tables.iter().map(|table| format!("changed: {} table {table}", layout::DATABASE)));
        if self.lock_file {
            lines.push(format!("changed: {}", layout::LOCK));
        }
        lines
    }

    pub(super) fn into_error(self, id: &BrainId) -> Error {
        let lines = self.lines();
        let shown = lines.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let more = lines.len().saturating_sub(5);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = if lines.is_empty() { "rows of memory.db".to_owned() } else { shown };
        Error::corrupt(format!("brain {id} is not what its lock says ({what}{more})")).hint(format!(
            "see everything with `herm brain verify {id}`; if the edits are yours, take them over with `herm brain adopt {id}`"
        ))
    }
}

/// The outcome of a full verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrainVerifyReport {
    /// The bundle hash of the lock.
    pub expected: Digest,
    /// The bundle hash computed from nothing.
    pub computed: Digest,
    /// The parts computed from nothing.
    pub parts: PartDigests,
    /// Files, tables and the lock file that differ from what the last step left.
    pub drift: Drift,
    /// Files that are no part of a brain and not hashed.
    pub stray: Vec<String>,
    /// Links, devices and unreadable names.
    pub odd: Vec<OddEntry>,
    /// Problems SQLite found in the file itself.
    pub database: Vec<String>,
    /// Whether the journal is what the receipts say.
    pub journal: JournalCheck,
    /// How many files the bundle has.
    pub files: usize,
    /// How many bytes of content were read to compute the digests.
    pub bytes: u64,
}

impl BrainVerifyReport {
    /// Whether the brain is exactly what its lock says.
    pub fn is_sound(&self) -> bool {
        self.expected == self.computed
            && self.drift.is_empty()
            && self.database.is_empty()
            && self.journal.wrong.is_empty()
            && self.odd.is_empty()
    }
}

/// What a look at the files gives.
pub(super) struct FileScan {
    pub(super) top: Dir,
    pub(super) survey: Survey,
}

/// Surveys a brain's files and hashes those whose digest is not known from `earlier`.
pub(super) fn scan_files(root: &Root, earlier: Dir) -> Result<FileScan> {
    let mut top = earlier;
    let survey = fsio::survey(root, &mut top, SurveyLimits::default(), &wanted)?;
    Ok(FileScan { top, survey })
}

/// The tree of a surveyed brain, and the files that are no part of it.
pub(super) fn tree_of(top: &Dir) -> Result<(Tree, Vec<String>)> {
    let mut files = Vec::new();
    let mut stray = Vec::new();
    top.for_each_file(&mut |path, node| {
        match node.digest {
            Some(digest) => files.push((path.parse::<RelPath>()?, digest)),
            None => stray.push(path.to_owned()),
        }
        Ok(())
    })?;
    files.sort_unstable();
    Ok((Tree::from_sorted(files), stray))
}

/// Content is hashed, strangers are listed, and what is herm's own is passed over.
fn wanted(path: &str) -> ScanAction {
    if layout::is_not_content(path) {
        ScanAction::Skip
    } else if BundlePart::of(path).is_some() {
        ScanAction::Digest
    } else {
        ScanAction::List
    }
}

/// A brain that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedBrain {
    /// The lock of its last step.
    pub lock: Lockfile,
    /// What the check of its files, tables and receipts found.
    pub report: BrainVerifyReport,
}

/// Verifies a brain. Its lock is held meanwhile, so that it does not move; nothing in it is written. Files that an
/// interrupted step still owes count as what the journal will make of them. Receipts of any key vouch for the journal.
pub fn examine(layout: &Layout, id: &BrainId, wait: std::time::Duration) -> Result<VerifiedBrain> {
    examine_with(layout, id, wait, &ReceiptKeys::Any)
}

/// The same, where only receipts of `keys` vouch for the journal.
pub fn examine_with(
    layout: &Layout,
    id: &BrainId,
    wait: std::time::Duration,
    keys: &ReceiptKeys,
) -> Result<VerifiedBrain> {
    if layout.brain(id).symlink_metadata().is_err() {
        return Err(open::no_such_brain(layout, id));
    }
    let _guard = open::take_lock(layout, id, wait)?;
    let reader = Reader::open(layout, id)?;
    let connection = &reader.database.connection;
    let flushed = journal::load_state(connection)?.flushed;
    let owed = flushed < journal::last_step(connection)?;
    let lock = reader.lock().clone();
    let lock_file = match reader.root().read(&layout::rel(layout::LOCK)?, 1 << 20) {
        // Far too large to be a lock.
        Err(error) if error.kind() == ErrorKind::InvalidInput => true,
        read => match read? {
            // It is written again from memory.db, which keeps it too.
            None => false,
            Some(bytes) if Lockfile::is_foreign(&bytes) => {
                return Err(Lockfile::parse(&bytes)
                    .err()
                    .unwrap_or_else(|| Error::internal("a foreign lock was read")));
            }
            Some(bytes) => bytes != lock.to_bytes()? && !owed,
        },
    };
    let report = report(&reader.database, reader.root(), &lock, flushed, lock_file, keys)?;
    Ok(VerifiedBrain { lock, report })
}

/// Recomputes everything from nothing. Files of the steps up to `written` are in place.
fn report(
    database: &Database,
    root: &Root,
    lock: &Lockfile,
    written: i64,
    lock_file: bool,
    keys: &ReceiptKeys,
) -> Result<BrainVerifyReport> {
    let connection = &database.connection;
    let problems = database.integrity()?;
    let looked = scan_files(root, Dir::default())?;
    let (mut tree, stray) = tree_of(&looked.top)?;
    for change in pending_files::files(connection, root, written)? {
        tree.put(&change.path, change.after);
    }
    let (usage, mut tables) = memory::recompute(connection, BundlePart::Usage.name(), &Table::USAGE)?;
    let (memory, more) = memory::recompute(connection, BundlePart::Memory.name(), &Table::MEMORY)?;
    tables.extend(more);
    let [system, layer1, skills, patterns] = settle::file_parts(&mut tree);
    let parts = PartDigests { system, layer1, skills, patterns, usage, memory };
    let mut drift = Drift::between(database, &tree, lock_file)?;
    drift.tables = tables;
    let mut journal = journal_check::check(connection, 1, keys)?;
    journal.wrong.extend(journal_check::check_contents(connection)?);
    let mut odd = looked.survey.odd;
    odd.extend(forged_index(root)?);
    Ok(BrainVerifyReport {
        expected: lock.bundle_hash,
        computed: parts.root(),
        parts,
        drift,
        stray,
        odd,
        database: problems,
        journal,
        files: tree.len(),
        bytes: looked.survey.bytes,
    })
}

/// The kept index of skills, if it says what no skill says: it is no content, but prompts are made from it.
fn forged_index(root: &Root) -> Result<Option<OddEntry>> {
    let kept = IndexCache::load(root, &layout::rel(layout::INDEX_CACHE)?);
    if kept.is_empty() {
        return Ok(None);
    }
    let mut read = IndexCache::default();
    Index::build_with(root, layout::SKILLS_DIR, Some(&mut read))?;
    let forged = kept.contradiction(&read).is_some();
    let entry =
        || OddEntry { path: layout::INDEX_CACHE.to_owned(), what: "an index that differs from the skills; delete it" };
    Ok(forged.then(entry))
}

impl Brain {
    /// Recomputes everything from nothing: every file is read, every row hashed.
    pub fn verify(&self) -> Result<BrainVerifyReport> {
        let lock_file = self.drift.as_ref().is_some_and(|drift| drift.lock_file);
        report(&self.database, &self.root, &self.lock, self.materialised, lock_file, &self.receipt_keys()?)
    }
}
