//! Is a brain what its lock says?

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::behind;
use super::history::StepKind;
use super::journal::{self, FileChange};
use super::journal_check::{self, JournalCheck};
use super::manifest::Manifest;
use super::open::{self, Brain};
use super::reader::Reader;
use super::repair::Repair;
use super::settle::{self, Settled};
use super::tape;
use super::witness::Move;
use crate::bundle::{Lockfile, Part, Parts, Tree};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{self, Dir, Limits, Look, Odd, Root, Survey};
use crate::ids::{BrainId, Digest, RelPath, Slug};
use crate::layout::{self, Layout};
use crate::memory::{self, Database, Table, sql};
use crate::skill::{self, CreatedBy, Usage};

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

    /// Whether nothing differs.
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
pub struct Report {
    /// The bundle hash of the lock.
    pub expected: Digest,
    /// The bundle hash computed from nothing.
    pub computed: Digest,
    /// The parts computed from nothing.
    pub parts: Parts,
    /// What differs.
    pub drift: Drift,
    /// Files that are no part of a brain and not hashed.
    pub stray: Vec<String>,
    /// Links, devices and unreadable names.
    pub odd: Vec<Odd>,
    /// Problems SQLite found in the file itself.
    pub database: Vec<String>,
    /// Whether the journal is what the receipts say.
    pub journal: JournalCheck,
    /// Files and bytes read.
    pub files: usize,
    /// Bytes read.
    pub bytes: u64,
}

impl Report {
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
pub(super) struct Looked {
    pub(super) top: Dir,
    pub(super) survey: Survey,
}

/// Surveys a brain's files and hashes those whose digest is not known from `earlier`.
pub(super) fn look(root: &Root, earlier: Dir) -> Result<Looked> {
    let mut top = earlier;
    let survey = fsio::survey(root, &mut top, Limits::default(), &wanted)?;
    Ok(Looked { top, survey })
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
fn wanted(path: &str) -> Look {
    if layout::is_not_content(path) {
        Look::Skip
    } else if Part::of(path).is_some() {
        Look::Digest
    } else {
        Look::List
    }
}

/// A brain that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// The lock of its last step.
    pub lock: Lockfile,
    /// What was found.
    pub report: Report,
}

/// Verifies a brain. Its lock is held meanwhile, so that it does not move; nothing in it is written. Files that an
/// interrupted step still owes count as what the journal will make of them.
pub fn examine(layout: &Layout, id: &BrainId, wait: std::time::Duration) -> Result<Examined> {
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
    let report = report(&reader.database, reader.root(), &lock, flushed, lock_file)?;
    Ok(Examined { lock, report })
}

/// Recomputes everything from nothing. Files of the steps up to `written` are in place.
fn report(database: &Database, root: &Root, lock: &Lockfile, written: i64, lock_file: bool) -> Result<Report> {
    let connection = &database.connection;
    let problems = database.integrity()?;
    let looked = look(root, Dir::default())?;
    let (mut tree, stray) = tree_of(&looked.top)?;
    for change in behind::files(connection, root, written)? {
        tree.put(&change.path, change.after);
    }
    let (usage, mut tables) = memory::recompute(connection, Part::Usage.name(), &Table::USAGE)?;
    let (memory, more) = memory::recompute(connection, Part::Memory.name(), &Table::MEMORY)?;
    tables.extend(more);
    let [system, layer1, skills, patterns] = settle::file_parts(&mut tree);
    let parts = Parts { system, layer1, skills, patterns, usage, memory };
    let mut drift = Drift::between(database, &tree, lock_file)?;
    drift.tables = tables;
    let mut journal = journal_check::check(connection, 1)?;
    journal.wrong.extend(journal_check::check_contents(connection)?);
    Ok(Report {
        expected: lock.bundle_hash,
        computed: parts.root(),
        parts,
        drift,
        stray,
        odd: looked.survey.odd,
        database: problems,
        journal,
        files: tree.len(),
        bytes: looked.survey.bytes,
    })
}

impl Brain {
    /// Recomputes everything from nothing: every file is read, every row hashed.
    pub fn verify(&self) -> Result<Report> {
        let lock_file = self.drift.as_ref().is_some_and(|drift| drift.lock_file);
        report(&self.database, &self.root, &self.lock, self.materialised, lock_file)
    }

    /// The skills whose main file is among these, with what is recorded of them.
    fn rewritten(&self, changed: &[RelPath]) -> Result<Vec<(Slug, Usage)>> {
        let paths: Vec<RelPath> = self.tree()?.below(layout::SKILLS_DIR).cloned().collect();
        let mut found = Vec::new();
        for place in skill::all_skills(&paths, layout::SKILLS_DIR) {
            if changed.contains(&place.main) {
                let usage = self.database.skill_usage_of(&place.slug)?;
                found.extend(usage.map(|usage| (place.slug, usage)));
            }
        }
        Ok(found)
    }

    /// Takes over what someone changed by hand, as a step of its own, so that no later step is
    /// blamed for it. `None` where there is nothing to take over.
    pub fn adopt(&mut self) -> Result<Option<Settled>> {
        self.take_over(None)
    }

    /// Takes over what is there as a step of its own: edits by hand, or what is left after a loss.
    pub(super) fn take_over(&mut self, repair: Option<Repair<'_>>) -> Result<Option<Settled>> {
        if self.poisoned {
            return Err(Error::unavailable("this brain must be opened again after a failed write")
                .hint("close it and open it again"));
        }
        let problems = self.database.integrity()?;
        if let Some(problem) = problems.first() {
            return Err(Error::corrupt(format!("memory.db is damaged and cannot be taken over: {problem}"))
                .hint("restore the brain from a snapshot"));
        }
        let looked = look(&self.root, Dir::default())?;
        if let Some(odd) = looked.survey.odd.first() {
            return Err(Error::refused(format!("{} is {} and cannot be part of a brain", odd.path, odd.what))
                .hint("replace it with a regular file, or remove it"));
        }
        let (tree, _) = tree_of(&looked.top)?;
        if tree.get(&layout::rel(layout::SYSTEM)?).is_none() {
            return Err(Error::refused("system.md is gone, and a brain without its role cannot be taken over")
                .hint("put system.md back; its last settled content is in the brain's history"));
        }
        let manifest = layout::rel(layout::MANIFEST)?;
        if tree.get(&manifest).is_some()
            && let Some(bytes) = self.root.read(&manifest, layout::MAX_FILE_BYTES)?
        {
            Manifest::parse(&bytes)?;
        }
        let drift = Drift::between(&self.database, &tree, false)?;
        let known: BTreeMap<RelPath, Digest> = journal::entries(&self.database.connection)?;
        let mut changes = Vec::new();
        for path in drift.changed.iter().chain(&drift.added).chain(&drift.removed) {
            changes.push(FileChange { path: path.clone(), before: known.get(path).copied(), after: tree.get(path) });
        }
        self.tree = OnceCell::from(tree);
        let rewritten = if repair.is_some() { Vec::new() } else { self.rewritten(&drift.changed)? };
        let before = repair.map_or_else(|| self.lock.clone(), |(lost, _)| lost.chained.clone());
        let now = self.clock().now();
        let failed = |source| sql("adopt", source);
        let transaction = self.database.connection.transaction().map_err(failed)?;
        let mut writer = memory::Writer::new(&transaction);
        for slug in new_skills(&drift.added, &known, self.tree.get()) {
            // A person put it there: what is recorded of an earlier skill of that name is not about this one. After a
            // loss nobody knows who wrote it, and it gets no more trust than what an agent wrote.
            let by = if repair.is_some() { CreatedBy::Agent } else { CreatedBy::User };
            writer.usage(&slug, &Usage::new(by, now))?;
        }
        let is_ours = !rewritten.is_empty();
        for (slug, usage) in rewritten {
            // A person's words now: nothing unattended writes them again.
            writer.usage(&slug, &Usage { created_by: CreatedBy::User, ..usage })?;
        }
        let undo = writer.into_undo();
        memory::rehash(&transaction)?;
        memory::rebuild_indexes(&transaction)?;
        if let Some(tree) = self.tree.get() {
            journal::replace_entries(&transaction, tree.iter())?;
        }
        let parts = settle::parts(self.tree.get_mut().unwrap_or(&mut Tree::default()), &transaction)?;
        let next = match repair {
            None => before.next(parts, now),
            Some((lost, _)) => Some(before.follow(lost.version, parts, now)),
        };
        let mut receipt = None;
        if let Some(lock) = &next {
            // What is noted here of whose a skill is was not changed by hand.
            let rows = (parts.usage != before.parts.usage && !is_ours) || parts.memory != before.parts.memory;
            let what = match (changes.len(), rows) {
                (0, _) => "rows of memory.db".to_owned(),
                (count, false) => files_word(count),
                (count, true) => format!("{} and rows of memory.db", files_word(count)),
            };
            let (kind, summary, report) = match repair {
                None => (StepKind::Import, format!("adopted {what} changed by hand"), None),
                Some((lost, report)) => (StepKind::Restore, lost.line(), Some(report)),
            };
            if let Some((lost, _)) = repair {
                lost.keep(&transaction, &self.lock)?;
            }
            let seq = journal::add_step(&transaction, kind, &summary, now, lock, Some(before.bundle_hash))?;
            memory::undo::keep(&transaction, seq, &undo)?;
            for change in &changes {
                journal::add_change(&transaction, seq, change)?;
                if let (Some(digest), Some(content)) =
                    (change.after, self.root.read(&change.path, layout::MAX_FILE_BYTES)?)
                {
                    if Digest::of(&content) != digest {
                        return Err(Error::conflict(format!("{} is being changed right now", change.path))
                            .hint("try again when nobody edits the brain"));
                    }
                    journal::keep_blob(&transaction, &digest, &content)?;
                }
            }
            journal::save_lock(&transaction, lock, true)?;
            let files: Vec<_> = changes.iter().map(FileChange::record).collect();
            let moved = Move {
                brain: &self.id,
                seq: 0,
                kind,
                summary: &summary,
                at: now,
                before: Some(&before),
                after: lock,
                files: &files,
                previous: None,
                journal: None,
                report,
            };
            receipt = tape::attest(&transaction, self.witness.as_deref(), seq, moved)?;
        }
        transaction.commit().map_err(failed)?;
        self.survey = looked.top;
        self.drift = None;
        if let Some(lock) = next {
            self.lock = lock;
        }
        // The files are there already; only the lock and the receipt are still to be written.
        self.write_tape(self.materialised)?;
        self.materialised = journal::last_step(&self.database.connection)?;
        self.changed_files.extend(changes.iter().map(|change| change.path.clone()));
        self.root.replace(&layout::rel(layout::LOCK)?, &self.lock.to_bytes()?, fsio::Sync::Later)?;
        self.unflushed = true;
        self.flush()?;
        if self.lock == before {
            return Ok(None);
        }
        Ok(Some(Settled {
            moved: true,
            version: self.lock.version,
            before: before.bundle_hash,
            after: self.lock.bundle_hash,
            parts: before.parts.moved(&self.lock.parts),
            files: changes.into_iter().map(|change| change.path).collect(),
            receipt,
        }))
    }
}

/// The skills whose main files are among the files that were added, unless they were only moved.
fn new_skills(added: &[RelPath], known: &BTreeMap<RelPath, Digest>, tree: Option<&Tree>) -> Vec<Slug> {
    let before: Vec<RelPath> = known.keys().cloned().collect();
    let active = |place: &skill::Place| !place.main.as_str().starts_with(&format!("{}/", layout::ARCHIVE_DIR));
    let known: BTreeSet<Slug> =
        skill::all_skills(&before, layout::SKILLS_DIR).filter(active).map(|place| place.slug).collect();
    let all: Vec<RelPath> = tree.map(|tree| tree.below(layout::SKILLS_DIR).cloned().collect()).unwrap_or_default();
    skill::all_skills(&all, layout::SKILLS_DIR)
        .filter(|place| active(place) && added.contains(&place.main) && !known.contains(&place.slug))
        .map(|place| place.slug)
        .collect()
}

fn files_word(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}
