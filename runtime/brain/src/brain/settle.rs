//! One step: a single transaction, then files that can be made again from it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::commit::{self, Base, CommitError, Committed, Contents, StepPlan, Summary};
use super::draft::Draft;
use super::history::StepKind;
use super::journal::{self, FileChange};
use super::open::Brain;
use super::step_signer::Receipt;
use super::verify::Drift;
use crate::bundle::{BundlePart, Lockfile, PartDigests, Tree};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::SyncTiming;
use crate::ids::{BrainId, Digest, RelPath};
use crate::layout;
use crate::memory::undo::RowUndo;
use crate::memory::vectors::{self, EmbeddedText, PendingVectors};
use crate::memory::{self, Database, MemoryWriter, Table, sql};
use crate::skill;

/// How a step moved a brain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledStep {
    /// Whether the bundle moved at all.
    pub moved: bool,
    /// The version after the step; the one before where nothing moved.
    pub version: u64,
    /// The bundle hash before.
    pub before: Digest,
    /// The bundle hash now.
    pub after: Digest,
    /// The parts of the bundle whose digest changed; empty where nothing moved.
    pub parts: Vec<BundlePart>,
    /// The files that moved.
    pub files: Vec<RelPath>,
    /// The receipt, where the brain was opened with someone to sign.
    #[serde(skip)]
    pub receipt: Option<Receipt>,
}

impl SettledStep {
    /// A step that led to `committed`.
    pub(super) fn moved(before: &Lockfile, committed: &Committed, changes: &[FileChange]) -> Self {
        let after = &committed.lock;
        Self {
            moved: true,
            version: after.version,
            before: before.bundle_hash,
            after: after.bundle_hash,
            parts: before.parts.moved(&after.parts),
            files: changes.iter().map(|change| change.path.clone()).collect(),
            receipt: committed.receipt.clone(),
        }
    }

    fn unmoved(lock: &Lockfile) -> Self {
        Self {
            moved: false,
            version: lock.version,
            before: lock.bundle_hash,
            after: lock.bundle_hash,
            parts: Vec::new(),
            files: Vec::new(),
            receipt: None,
        }
    }
}

/// What files held before a step, by path.
type OldContents = BTreeMap<RelPath, Vec<u8>>;

/// The contents of a draft's files.
struct DraftContents<'a> {
    draft: &'a Draft,
    old: &'a OldContents,
}

impl Contents for DraftContents<'_> {
    fn of(&self, change: &FileChange) -> Result<[Option<Cow<'_, [u8]>>; 2]> {
        let new = self.draft.files.get(&change.path).and_then(Option::as_ref);
        Ok([self.old.get(&change.path), new].map(|content| content.map(|content| Cow::Borrowed(content.as_slice()))))
    }
}

/// What a step is, beside what it changes.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Why the brain moves.
    pub kind: StepKind,
    /// The step in a line.
    pub summary: &'a str,
    /// What its receipt says beyond the move.
    pub report: Option<&'a serde_json::Value>,
    /// The task and the bytes of its transcript.
    pub transcript: Option<StepTranscript<'a>>,
}

/// What was said and done in a task, to be kept beside the content.
#[derive(Debug, Clone, Copy)]
pub struct StepTranscript<'a> {
    /// The id of the task, under which the transcript is found again.
    pub task: &'a str,
    /// The digest that its receipt names.
    pub digest: &'a str,
    /// The transcript itself, whose digest is `digest`.
    pub content: &'a [u8],
}

impl Brain {
    /// Commits `draft` as one step. On an error nothing has changed; on success the step is on
    /// the disk, and its files are in place (or are put there by the next open).
    pub fn settle(&mut self, draft: &Draft, kind: StepKind, summary: &str) -> Result<SettledStep> {
        self.settle_step(draft, &Step { kind, summary, report: None, transcript: None })
    }

    /// Like [`settle`](Self::settle), with what the step's receipt says and what is kept with it.
    pub fn settle_step(&mut self, draft: &Draft, step: &Step<'_>) -> Result<SettledStep> {
        let span = settle_span(&self.id, step.kind);
        let settled = span.in_scope(|| {
            self.check_usable()?;
            self.settling = true;
            let settled = self.settle_now(draft, step);
            self.settling = false;
            settled
        });
        match &settled {
            Ok(settled) => span.record("herm.version", settled.version).record("herm.moved", settled.moved),
            Err(error) => span.record("error.type", error.kind().name()).record("otel.status_code", "ERROR"),
        };
        settled
    }

    fn settle_now(&mut self, draft: &Draft, step: &Step<'_>) -> Result<SettledStep> {
        if self.behind {
            self.materialise()?;
        }
        self.tree()?;
        let (changes, old) = self.changes_of(draft)?;
        let before = self.lock.clone();
        self.put_in_tree(&changes, |change| change.after);
        let now = self.clock().now();
        let mut committed = self.commit(draft, &changes, &old, step, now);
        let is_damaged =
            |error: &Error| error.kind() == ErrorKind::Corrupt && std::error::Error::source(error).is_some();
        if committed.as_ref().is_err_and(is_damaged) && !self.poisoned {
            // A damaged index is derived data and is built again; damaged rows fail here as well.
            committed = self.heal_indexes().and_then(|()| {
                tracing::warn!(brain = %self.id(), "the full-text index was damaged and has been rebuilt");
                self.commit(draft, &changes, &old, step, now)
            });
        }
        let committed = match committed {
            Ok(Some(committed)) => committed,
            unmoved_or_failed => {
                self.put_in_tree(&changes, |change| change.before);
                return unmoved_or_failed.map(|_| SettledStep::unmoved(&before));
            }
        };
        let settled = SettledStep::moved(&before, &committed, &changes);
        self.lock = committed.lock;
        self.unflushed = true;
        self.steps_since_flush += 1;
        self.behind = true;
        // The step is committed. Files that cannot be written now are written before the next
        // step or by the next open; the caller's answer stands either way.
        if let Err(error) = self.materialise() {
            tracing::warn!(brain = %self.id(), %error, "files of a settled step are still to be written");
        }
        Ok(settled)
    }

    fn put_in_tree(&mut self, changes: &[FileChange], to: impl Fn(&FileChange) -> Option<Digest>) {
        if let Some(tree) = self.tree.get_mut() {
            for change in changes {
                tree.put(&change.path, to(change));
            }
        }
    }

    /// The file changes a draft really makes, and what the files held before.
    fn changes_of(&self, draft: &Draft) -> Result<(Vec<FileChange>, OldContents)> {
        let (mut changes, mut old) = (Vec::new(), OldContents::new());
        for (path, content) in &draft.files {
            if BundlePart::of(path.as_str()).is_none() {
                return Err(Error::invalid(format!("{path} is not part of a brain"))
                    .hint("docs/reference/brain.md lists what a brain holds"));
            }
            if content.as_ref().is_some_and(|content| content.len() as u64 > layout::MAX_FILE_BYTES) {
                return Err(Error::invalid(format!("{path} is larger than {} bytes", layout::MAX_FILE_BYTES))
                    .hint("make it smaller"));
            }
            let before = self.tree()?.get(path);
            let after = content.as_deref().map(Digest::of);
            if before != after {
                // Everything that could stand in the way of the file is found before the commit.
                let there = self.root.can_hold(path)?;
                if there && before.is_none() {
                    return Err(Error::conflict(format!(
                        "{path} of brain {} was put there by something other than herm",
                        self.id()
                    ))
                    .hint(format!(
                        "look with `herm brain verify {0}`; take it over with `herm brain adopt {0}`",
                        self.id()
                    )));
                }
                old.extend(self.read_content(path)?.map(|content| (path.clone(), content)));
                changes.push(FileChange { path: path.clone(), before, after });
            }
        }
        Ok((changes, old))
    }

    /// Commits the draft's step. `None` where the bundle would not move.
    fn commit(
        &mut self,
        draft: &Draft,
        changes: &[FileChange],
        old: &OldContents,
        step: &Step<'_>,
        now: Timestamp,
    ) -> Result<Option<Committed>> {
        let tree = self.tree.get_mut().ok_or_else(|| Error::internal("the tree is not built"))?;
        let plan = StepPlan {
            brain: &self.id,
            signer: self.signer.as_deref(),
            now,
            kind: step.kind,
            summary: Summary::Text(step.summary),
            report: step.report,
            base: Base::Lock(&self.lock),
            changes,
            contents: &DraftContents { draft, old },
            telemetry: Some(draft),
            transcript: step.transcript.as_ref(),
        };
        let committed = commit::commit_step(&self.database.connection, tree, &plan, |connection| {
            if row_parts(connection)? != (self.lock.parts.usage, self.lock.parts.memory) {
                return Err(Drift::default().into_error(&self.id));
            }
            write_rows(connection, draft)
        });
        self.or_poison(committed)
    }

    /// After a COMMIT that failed, nobody knows what the disk holds: only a fresh open can tell.
    pub(super) fn or_poison<T>(&mut self, committed: std::result::Result<T, CommitError>) -> Result<T> {
        committed.map_err(|failed| {
            self.poisoned |= failed.in_doubt;
            failed.error
        })
    }

    /// Brings the files to what the journal says. Can be repeated at any time.
    pub(super) fn materialise(&mut self) -> Result<()> {
        for change in journal::unflushed(&self.database.connection, self.materialised)? {
            let path = &change.path;
            match change.after {
                None => self.root.remove(path)?,
                Some(digest) => {
                    let content = journal::blob(&self.database.connection, &digest)?;
                    self.root.replace(path, &content, SyncTiming::Later)?;
                }
            }
            self.survey.forget(path);
            self.changed_files.push(path.clone());
        }
        self.write_lock_and_receipts()
    }

    /// Writes the lock and the receipts of the steps since the files were last written.
    pub(super) fn write_lock_and_receipts(&mut self) -> Result<()> {
        self.root.replace(&layout::rel(layout::LOCK)?, &self.lock.to_bytes()?, SyncTiming::Later)?;
        self.write_receipt_log(self.materialised)?;
        self.materialised = journal::last_step(&self.database.connection)?;
        self.behind = false;
        Ok(())
    }

    /// Keeps vectors that were made for what was due; how many are kept. They are part of no hash: this is no step.
    pub fn keep_vectors(&mut self, model: &str, made: &[EmbeddedText], due: &PendingVectors) -> Result<u64> {
        self.check_usable()?;
        self.beside_steps(|connection| vectors::keep(connection, model, made, due))
    }

    /// Lets go of all transcripts but those of the last `keep` steps; how many went.
    pub fn prune_transcripts(&mut self, keep: u64) -> Result<u64> {
        self.check_usable()?;
        let connection = &self.database.connection;
        let until = journal::last_step(connection)?.saturating_sub(i64::try_from(keep).unwrap_or(i64::MAX));
        let due: bool = connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM transcripts WHERE step <= ?1)")
            .and_then(|mut count| count.query_row([until], |row| row.get(0)))
            .map_err(|source| sql("read memory.db", source))?;
        if !due {
            return Ok(0);
        }
        self.beside_steps(|connection| {
            connection
                .prepare_cached("DELETE FROM transcripts WHERE step <= ?1")
                .and_then(|mut prune| prune.execute([until]))
                .map(|count| count as u64)
                .map_err(|source| sql("write memory.db", source))
        })
    }

    /// Makes the files of settled steps durable and empties the journal's redo list. Off the
    /// caller's path: until then a crash is repaired from the journal. The telemetry sidecar follows
    /// when the brain is closed: with thousands of skills it takes longer than everything else.
    pub fn flush(&mut self) -> Result<()> {
        self.flush_with(Sidecar::Later)
    }

    /// Like [`flush`](Self::flush), with the telemetry sidecar.
    pub(super) fn finish_files(&mut self) -> Result<()> {
        let stale = journal::load_state(&self.database.connection)?.sidecar_stale;
        self.unflushed |= stale;
        self.flush_with(Sidecar::Now)
    }

    fn flush_with(&mut self, sidecar: Sidecar) -> Result<()> {
        self.check_usable()?;
        if self.behind {
            self.materialise()?;
        }
        if !self.unflushed {
            return Ok(());
        }
        let connection = &self.database.connection;
        let state = journal::load_state(connection)?;
        let last = journal::last_step(connection)?;
        let mut paths: Vec<RelPath> =
            journal::unflushed(connection, state.flushed)?.into_iter().map(|change| change.path).collect();
        paths.push(layout::rel(layout::LOCK)?);
        paths.push(layout::rel(layout::RECEIPTS)?);
        let mut write_sidecar_now = state.sidecar_stale && sidecar == Sidecar::Now;
        if write_sidecar_now {
            write_sidecar_now = write_sidecar(&self.database, &self.root)?;
            paths.extend(write_sidecar_now.then(|| layout::rel(layout::USAGE_SIDECAR)).transpose()?);
        }
        sync_files(&self.root, &paths)?;
        if sidecar == Sidecar::Later {
            // The checkpoint first: the write after it begins a new log, which takes a sync more, and
            // that must not fall on the next step. A brain that is being closed needs none: SQLite
            // moves the log into the database as it lets go.
            self.database.checkpoint()?;
        }
        self.mark_flushed(last, state.sidecar_stale && !write_sidecar_now)?;
        self.unflushed = false;
        self.steps_since_flush = 0;
        Ok(())
    }

    /// Says that the files are durable, and counts new evidence: it takes no sync of its own here.
    fn mark_flushed(&mut self, last: i64, sidecar_stale: bool) -> Result<()> {
        let mark = |connection: &rusqlite::Connection| journal::mark_flushed(connection, last, sidecar_stale);
        let mut uncounted = None;
        let marked = self.beside_steps(|connection| {
            memory::fold_evidence(connection).inspect_err(|error| uncounted = Some(error.to_string()))?;
            mark(connection)
        });
        let Some(error) = uncounted else { return marked };
        // Counts are derived, and durable files do not wait for them.
        tracing::warn!(error, "evidence was not counted");
        self.beside_steps(mark)
    }
}

/// The span of one step, from the comparison of files to the files that follow the commit.
fn settle_span(brain: &BrainId, kind: StepKind) -> tracing::Span {
    tracing::info_span!(
        "settle",
        otel.status_code = tracing::field::Empty,
        herm.brain = %brain,
        herm.step.kind = kind.action().unwrap_or_else(|| kind.name()),
        herm.version = tracing::field::Empty,
        herm.moved = tracing::field::Empty,
        error.type = tracing::field::Empty,
    )
}

/// When the telemetry sidecar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sidecar {
    Now,
    Later,
}

/// Waits until files and the directories that name them are on the disk.
pub(super) fn sync_files(root: &crate::fsio::Root, paths: &[RelPath]) -> Result<()> {
    let mut dirs = std::collections::BTreeSet::new();
    for path in paths {
        root.sync(path)?;
        let mut above = path.parent();
        while let Some(dir) = above {
            above = dir.parent();
            dirs.insert(dir);
        }
    }
    // Deepest first: a directory is on the disk before the one that names it.
    for dir in dirs.iter().rev() {
        root.sync_dir(Some(dir))?;
    }
    root.sync_dir(None)
}

/// Writes the telemetry for readers; whether it could be. The rows are what counts: a directory, or whatever else is in
/// the place of the file, keeps nobody from the brain.
pub(super) fn write_sidecar(database: &Database, root: &crate::fsio::Root) -> Result<bool> {
    let path = layout::rel(layout::USAGE_SIDECAR)?;
    if let Err(error) = root.can_hold(&path)
        && error.kind() == ErrorKind::Refused
    {
        tracing::warn!(%error, "the usage of skills is in memory.db alone; remove what is in the place of the file");
        return Ok(false);
    }
    let bytes = skill::sidecar(&database.skill_usage()?)?;
    root.replace(&path, &bytes, SyncTiming::Later)?;
    Ok(true)
}

pub(super) fn write_rows(connection: &rusqlite::Connection, draft: &Draft) -> Result<Vec<RowUndo>> {
    let mut writer = MemoryWriter::new(connection);
    for message in &draft.messages {
        writer.message(message)?;
    }
    for fact in &draft.facts {
        writer.fact(fact)?;
    }
    for task in &draft.tasks {
        writer.task(task, draft.telemetry.outcomes.of_task(&task.task))?;
    }
    for (task, reports) in draft.telemetry.outcomes.of_earlier_tasks(&draft.tasks) {
        writer.outcome(task, reports)?;
    }
    for (slug, usage) in &draft.usage {
        writer.usage(slug, usage)?;
    }
    writer.finish()
}

/// The digest of every part, from the tree and from the hash nodes of the rows.
pub(super) fn parts(tree: &mut Tree, connection: &rusqlite::Connection) -> Result<PartDigests> {
    let [system, layer1, skills, patterns] = file_parts(tree);
    let (usage, memory) = row_parts(connection)?;
    Ok(PartDigests { system, layer1, skills, patterns, usage, memory })
}

/// The digests of the parts made of files.
pub(super) fn file_parts(tree: &mut Tree) -> [Digest; 4] {
    [BundlePart::System, BundlePart::Layer1, BundlePart::Skills, BundlePart::Patterns].map(|part| tree.part(part))
}

/// The digests of the parts made of rows: usage and memory.
pub(super) fn row_parts(connection: &rusqlite::Connection) -> Result<(Digest, Digest)> {
    Ok((
        memory::stored(connection, BundlePart::Usage.name(), &Table::USAGE)?,
        memory::stored(connection, BundlePart::Memory.name(), &Table::MEMORY)?,
    ))
}
