//! The one way a step is committed.
//!
//! Every step of a brain ends in [`commit_step`], whatever made it: a task, an adoption, a fork, a repair, or the
//! creation of the brain. It holds the rows, the journal, the lock and the receipt in one `BEGIN IMMEDIATE` transaction.
//! A step has happened exactly if that transaction was committed; files are made from it afterwards.

use std::borrow::Cow;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde_json::Value;

use super::draft::Draft;
use super::evidence;
use super::history::{ChangeRecord, StepKind};
use super::journal::{self, FileChange};
use super::receipt_log;
use super::repair::LostSteps;
use super::settle::{self, StepTranscript};
use super::step_signer::{Receipt, StepChange, StepSigner};
use crate::bundle::{BrainOrigin, LOCK_SCHEMA, Lockfile, PartDigests, Tree};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{Root, SyncTiming};
use crate::ids::{BrainId, Digest, RelPath};
use crate::layout;
use crate::memory::undo::RowUndo;
use crate::memory::{self, Database, sql};

/// A step, complete but for its rows.
pub(super) struct StepPlan<'a> {
    /// The brain that moves.
    pub(super) brain: &'a BrainId,
    /// Who signs the receipt; without one the step has none.
    pub(super) signer: Option<&'a dyn StepSigner>,
    pub(super) now: Timestamp,
    pub(super) kind: StepKind,
    pub(super) summary: Summary<'a>,
    /// What the receipt says beyond the move.
    pub(super) report: Option<&'a Value>,
    /// What the step follows.
    pub(super) base: Base<'a>,
    pub(super) changes: &'a [FileChange],
    pub(super) contents: &'a dyn Contents,
    /// The telemetry that is written with the step.
    pub(super) telemetry: Option<&'a Draft>,
    pub(super) transcript: Option<&'a StepTranscript<'a>>,
}

/// The step in a line.
pub(super) enum Summary<'a> {
    Text(&'a str),
    /// Made from the parts that the step leads to.
    OfParts(&'a dyn Fn(&PartDigests) -> String),
}

/// What a step follows.
#[derive(Clone, Copy)]
pub(super) enum Base<'a> {
    /// Nothing: the step makes the brain.
    New { origin: &'a BrainOrigin, expected: Option<Digest> },
    /// The lock of the step before. A step that leaves the bundle as it was is not made.
    Lock(&'a Lockfile),
    /// Like `Lock`, for rows that others wrote: they are kept also where no step is made.
    Edited(&'a Lockfile),
    /// Steps that are lost, behind the last lock that `memory.db` still has.
    Lost { lost: &'a LostSteps, lock: &'a Lockfile },
}

/// What changed files held before the step and hold after it. The journal keeps it.
pub(super) trait Contents {
    /// The content before and after; `None` where there is none, or where the journal has it already.
    fn of(&self, change: &FileChange) -> Result<[Option<Cow<'_, [u8]>>; 2]>;
}

/// For steps whose contents the journal has already.
pub(super) struct AlreadyKept;

impl Contents for AlreadyKept {
    fn of(&self, _: &FileChange) -> Result<[Option<Cow<'_, [u8]>>; 2]> {
        Ok([None, None])
    }
}

/// What a committed step led to.
pub(super) struct Committed {
    pub(super) lock: Lockfile,
    pub(super) receipt: Option<Receipt>,
}

/// Why a step was not committed.
pub(super) struct CommitError {
    pub(super) error: Error,
    /// COMMIT itself failed: whether the disk has the step is known only after a fresh open.
    pub(super) in_doubt: bool,
}

impl From<Error> for CommitError {
    fn from(error: Error) -> Self {
        Self { error, in_doubt: false }
    }
}

impl From<CommitError> for Error {
    fn from(failed: CommitError) -> Self {
        failed.error
    }
}

/// Commits a step. `write_rows` writes its rows and returns what they were before; `tree` has the files as the step
/// leaves them. `None` where the bundle would not move.
pub(super) fn commit_step(
    connection: &Connection,
    tree: &mut Tree,
    plan: &StepPlan<'_>,
    write_rows: impl FnOnce(&Connection) -> Result<Vec<RowUndo>>,
) -> Result<Option<Committed>, CommitError> {
    let _span = tracing::info_span!("commit", herm.brain = %plan.brain).entered();
    let failed = |source| sql("commit a step", source);
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(failed)?;
    let undo = write_rows(&transaction)?;
    let parts = settle::parts(tree, &transaction)?;
    let committed = match plan.base.next(parts, plan.now)? {
        Some(lock) => {
            let receipt = write_step(&transaction, plan, &lock, &undo)?;
            Some(Committed { lock, receipt })
        }
        None if matches!(plan.base, Base::Edited(_)) => None,
        None => return Ok(None),
    };
    #[cfg(test)]
    tests::refuse_commit_if_told(&transaction);
    transaction.commit().map_err(|source| {
        let error = failed(source);
        // A damaged index shows here too, but then nothing was written.
        CommitError { in_doubt: error.kind() != ErrorKind::Corrupt, error }
    })?;
    Ok(committed)
}

/// Writes everything of a step but its rows: the journal, the lock, the receipt.
fn write_step(
    connection: &Connection,
    plan: &StepPlan<'_>,
    lock: &Lockfile,
    undo: &[RowUndo],
) -> Result<Option<Receipt>> {
    let text;
    let summary = match plan.summary {
        Summary::Text(summary) => summary,
        Summary::OfParts(of) => {
            text = of(&lock.parts);
            &text
        }
    };
    match plan.base {
        Base::New { .. } => journal::create_state(connection, lock)?,
        Base::Lost { lost, lock } => lost.keep(connection, lock)?,
        Base::Lock(_) | Base::Edited(_) => {}
    }
    let before = plan.base.before();
    let seq =
        journal::add_step(connection, plan.kind, summary, plan.now, lock, before.map(|before| before.bundle_hash))?;
    memory::undo::keep(connection, seq, undo)?;
    if let Some(draft) = plan.telemetry {
        let first_evidence = evidence::keep(connection, draft, seq, plan.now)?;
        if let Some(transcript) = plan.transcript {
            journal::keep_transcript(connection, seq, transcript, first_evidence)?;
        }
    }
    for change in plan.changes {
        journal::add_change(connection, seq, change)?;
        for (digest, content) in [change.before, change.after].into_iter().zip(plan.contents.of(change)?) {
            if let (Some(digest), Some(content)) = (digest, content) {
                journal::keep_blob(connection, &digest, &content)?;
            }
        }
    }
    let usage_moved = before.is_none_or(|before| before.parts.usage != lock.parts.usage);
    match plan.base {
        // Its files are written before anyone sees it.
        Base::New { .. } => journal::mark_flushed(connection, seq, false)?,
        Base::Lock(_) | Base::Edited(_) | Base::Lost { .. } => journal::save_lock(connection, lock, usage_moved)?,
    }
    let files: Vec<ChangeRecord> = plan.changes.iter().map(FileChange::record).collect();
    let moved = StepChange {
        brain: plan.brain,
        seq: 0,
        kind: plan.kind,
        summary,
        at: plan.now,
        before,
        after: lock,
        files: &files,
        previous: None,
        journal: None,
        report: plan.report,
    };
    receipt_log::sign_step(connection, plan.signer, seq, moved)
}

impl<'a> Base<'a> {
    /// The lock before the step; `None` for the step that makes the brain.
    fn before(self) -> Option<&'a Lockfile> {
        match self {
            Self::New { .. } => None,
            Self::Lock(lock) | Self::Edited(lock) => Some(lock),
            Self::Lost { lost, .. } => Some(&lost.chained),
        }
    }

    /// The lock after the step; `None` where the bundle does not move.
    fn next(self, parts: PartDigests, now: Timestamp) -> Result<Option<Lockfile>> {
        match self {
            Self::New { origin, expected } => {
                let bundle_hash = parts.root();
                if let Some(expected) = expected.filter(|expected| *expected != bundle_hash) {
                    return Err(Error::refused(format!(
                        "the bundle hashes to {bundle_hash}, and {expected} was expected"
                    ))
                    .hint("get the bundle again from where the hash comes from; nothing was written"));
                }
                Ok(Some(Lockfile {
                    schema: LOCK_SCHEMA.to_owned(),
                    bundle_hash,
                    version: 1,
                    last_updated: now,
                    parent: None,
                    parts,
                    origin: origin.clone(),
                }))
            }
            Self::Lock(lock) | Self::Edited(lock) => Ok(lock.next(parts, now)),
            Self::Lost { lost, .. } => Ok(Some(lost.chained.follow(lost.version, parts, now))),
        }
    }
}

/// Writes the files of a brain that nobody sees yet, beside its content, and makes everything durable.
pub(super) fn finish_new_brain(
    root: &Root,
    database: Database,
    committed: &Committed,
    content: impl Iterator<Item = RelPath>,
) -> Result<()> {
    /// Up to so many files are synced one by one; for more, one call for the whole file system is faster.
    const FILES_ONE_BY_ONE: usize = 64;
    settle::write_sidecar(&database, root)?;
    root.replace(&layout::rel(layout::LOCK)?, &committed.lock.to_bytes()?, SyncTiming::Later)?;
    if let Some(receipt) = &committed.receipt {
        let line = format!("{}\n", receipt.envelope);
        root.replace(&layout::rel(layout::RECEIPTS)?, line.as_bytes(), SyncTiming::Later)?;
    }
    drop(database);
    root.clear_temporaries()?;
    let mut paths: Vec<RelPath> = content.collect();
    for name in [layout::LOCK, layout::USAGE_SIDECAR, layout::DATABASE, layout::RECEIPTS] {
        paths.push(layout::rel(name)?);
    }
    if paths.len() > FILES_ONE_BY_ONE && root.sync_file_system()? {
        return Ok(());
    }
    settle::sync_files(root, &paths)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::{Path, PathBuf};

    use rusqlite::Connection;
    use rusqlite::config::DbConfig;

    use super::super::draft::Draft;
    use super::super::history::StepKind;
    use super::super::hydrate::{BrainSource, HydrateOutcome, Seed};
    use super::super::open::{Brain, BrainOptions, OnDrift};
    use super::super::reader::Reader;
    use super::super::repair::{self, OnLoss, RepairReport};
    use super::super::settle::{Step, StepTranscript};
    use super::super::undo::OnChanged;
    use crate::error::{Error, ErrorKind, Result};
    use crate::ids::BrainId;
    use crate::layout::{self, Layout};
    use crate::memory::vectors::PendingVectors;
    use crate::skill::CreatedBy;

    fn skill(slug: &str) -> String {
        format!("---\nname: {slug}\ndescription: Greets. Use when someone arrives.\n---\n# Greet\n")
    }

    /// A step that makes a skill, with a transcript.
    fn learn(brain: &mut Brain, slug: &str) -> Result<()> {
        let mut draft = Draft::new();
        brain.edit(&mut draft).create_skill(&slug.parse()?, &skill(slug), CreatedBy::Agent)?;
        let transcript = Some(StepTranscript { task: "t", digest: "d", content: b"{}" });
        brain.settle_step(&draft, &Step { kind: StepKind::Task, summary: slug, report: None, transcript }).map(drop)
    }

    #[expect(clippy::disallowed_methods, reason = "a person edits a file by hand")]
    fn adopt(brain: &mut Brain) -> Result<()> {
        let role = brain.path().join("system.md");
        std::fs::write(role, "You answer in JSON, and briefly.\n").unwrap();
        brain.adopt().map(drop)
    }

    type Write = fn(&mut Brain) -> Result<()>;

    const WRITES: [(&str, Write); 6] = [
        ("settle", |brain| learn(brain, "say-goodbye")),
        ("adopt", adopt),
        ("undo", |brain| brain.undo(2, OnChanged::Refuse).map(drop)),
        ("keep vectors", |brain| brain.keep_vectors("m", &[], &PendingVectors::default()).map(drop)),
        ("prune transcripts", |brain| brain.prune_transcripts(0).map(drop)),
        ("flush", Brain::flush),
    ];

    #[test]
    fn a_commit_that_fails_closes_the_brain_to_every_write_and_a_fresh_open_tells_where_it_stands() {
        for (what, write) in WRITES {
            let dir = tempfile::tempdir().unwrap();
            let (layout, id) = (Layout::new(dir.path()), "7".parse().unwrap());
            let options = BrainOptions { on_drift: OnDrift::Report, ..BrainOptions::default() };
            let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
            let (mut brain, _) = Brain::hydrate(&layout, &id, &BrainSource::Seed(seed), &options).unwrap();
            learn(&mut brain, "say-hello").unwrap();
            brain.database.connection.commit_hook(Some(|| true)).unwrap();
            write(&mut brain).expect_err(what);
            brain.database.connection.commit_hook(None::<fn() -> bool>).unwrap();
            for (_, second) in WRITES {
                let refused = second(&mut brain).expect_err(what);
                let said = "brain 7 must be opened again after a failed write";
                assert_eq!((refused.kind(), refused.message()), (ErrorKind::Unavailable, said), "{what}");
            }
            drop(brain);
            // The hook let nothing through, and nothing of the write is there. Now it can be done.
            let mut brain = Brain::open(&layout, &id, &options).unwrap();
            assert_eq!((brain.lock().version, brain.history(9).unwrap().len()), (2, 2), "{what}");
            if brain.drift().is_some() {
                brain.adopt().unwrap();
            }
            write(&mut brain).unwrap_or_else(|error| panic!("{what}: {error}"));
            brain.close().unwrap();
        }
    }

    thread_local! {
        static REFUSES: Cell<bool> = const { Cell::new(false) };
    }

    /// Lets the COMMIT fail where a test on this thread wants that: a row refers to one that never comes. Steps that make
    /// a brain, or repair one, open their database themselves, so a test cannot put a hook on it.
    pub(super) fn refuse_commit_if_told(connection: &Connection) {
        if REFUSES.get() {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true).unwrap();
            let missing = "CREATE TEMP TABLE one (id INTEGER PRIMARY KEY);
                CREATE TEMP TABLE other (one REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED);
                INSERT INTO other VALUES (1);";
            connection.execute_batch(missing).unwrap();
        }
    }

    /// Does something whose step fails at its COMMIT.
    fn refused<T>(what: &str, write: impl FnOnce() -> Result<T>) {
        REFUSES.set(true);
        let done = write();
        REFUSES.set(false);
        let Err(error) = done else { panic!("{what} went well") };
        assert!(error.message().starts_with("cannot commit a step: FOREIGN KEY"), "{what}: {error}");
    }

    /// What stands in the directory of brains, but for locks.
    fn standing(layout: &Layout) -> Vec<String> {
        let entries = std::fs::read_dir(layout.brains()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with(".lock") && !name.ends_with(".lock"));
        names.sort();
        names
    }

    fn made(layout: &Layout, id: &BrainId, options: &BrainOptions) -> Result<(Brain, HydrateOutcome)> {
        let seed = Seed { id, files: &[("system.md", b"You answer in JSON.\n")] };
        Brain::hydrate(layout, id, &BrainSource::Seed(seed), options)
    }

    #[test]
    fn a_brain_whose_first_commit_fails_is_not_there_and_can_be_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (layout, options) = (Layout::new(dir.path()), BrainOptions::default());
        let (id, new) = ("7".parse().unwrap(), "8".parse().unwrap());
        refused("create", || made(&layout, &id, &options));
        assert_eq!(standing(&layout), Vec::<String>::new());
        let (mut brain, outcome) = made(&layout, &id, &options).unwrap();
        assert_eq!((outcome, brain.lock().version), (HydrateOutcome::Created, 1));
        learn(&mut brain, "say-hello").unwrap();
        let lock = brain.lock().clone();
        brain.close().unwrap();
        for version in [None, Some(1)] {
            let reader = Reader::open(&layout, &id).unwrap();
            refused("fork", || reader.fork(version, &layout, &new, &options));
            assert_eq!(standing(&layout), ["7"], "{version:?}");
        }
        Reader::open(&layout, &id).unwrap().fork(None, &layout, &new, &options).unwrap();
        let forked = Brain::open(&layout, &new, &options).unwrap();
        assert_eq!((forked.lock().version, forked.lock().bundle_hash), (1, lock.bundle_hash));
        assert_eq!(*Brain::open(&layout, &id, &options).unwrap().lock(), lock, "the other is as it was");
    }

    fn replace(file: &Path, with: &Path) {
        std::fs::copy(with, file).unwrap();
    }

    #[test]
    fn a_repair_whose_commit_fails_names_the_same_loss_again_and_can_be_done_again() {
        let dir = tempfile::tempdir().unwrap();
        let (layout, id) = (Layout::new(dir.path().join("brains")), "7".parse().unwrap());
        let options = BrainOptions::default();
        let (mut brain, _) = made(&layout, &id, &options).unwrap();
        learn(&mut brain, "say-hello").unwrap();
        brain.close().unwrap();
        // The database of an earlier version: the step to version 3 is lost.
        let (database, earlier): (PathBuf, PathBuf) =
            (layout.brain(&id).join(layout::DATABASE), dir.path().join("earlier.db"));
        replace(&earlier, &database);
        let mut brain = Brain::open(&layout, &id, &options).unwrap();
        learn(&mut brain, "say-goodbye").unwrap();
        brain.close().unwrap();
        replace(&database, &earlier);
        let repair = |on_loss| -> Result<RepairReport> {
            let mut vouch = |_: &str| Err(Error::corrupt("nobody signed it"));
            repair::repair(&layout, &id, &options, on_loss, &mut vouch)
        };
        let lost = repair(OnLoss::Report).unwrap().lost;
        assert_eq!(lost.iter().map(|lost| lost.version).collect::<Vec<_>>(), [3]);
        refused("repair", || repair(OnLoss::Accept));
        assert_eq!(Brain::open(&layout, &id, &options).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(repair(OnLoss::Report).unwrap().lost, lost);
        assert_eq!(repair(OnLoss::Accept).unwrap().settled.unwrap().version, 4);
        let mut brain = Brain::open(&layout, &id, &options).unwrap();
        assert!(brain.verify().unwrap().is_sound());
        learn(&mut brain, "say-good-evening").unwrap();
        brain.close().unwrap();
    }
}
