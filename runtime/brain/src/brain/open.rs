//! Opening a brain: lock, recover, look at the files, check the lock.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use super::evolver_access::changed_by_hand;
use super::history::{self, StepRecord};
use super::journal::{self, FileChange};
use super::lost_steps::SideFiles;
use super::manifest::BrainManifest;
use super::pending_files;
use super::receipt_log;
use super::settle;
use super::step_signer::StepSigner;
use super::verify::{self, Drift};
use crate::bundle::{Lockfile, Tree};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{self, Dir, OsLock, Root};
use crate::ids::{BrainId, Digest, RelPath};
use crate::layout::{self, Layout};
use crate::memory::{
    self, Access, Database, HybridResults, MemorySource, QueryVector, Search, SearchResults, hybrid, search,
};
use crate::signing::PublicKey;
use crate::skill::command::Commands;
use crate::skill::{Index, SkillCatalog};
use crate::tuning::{Migration, Tuning};

/// The files of a brain are made durable every so many steps, and when it is closed. Until then a crash
/// is repaired from the journal.
pub const STEPS_BETWEEN_FLUSHES: u64 = 16;

/// What to do about content that is not what the lock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDrift {
    /// Refuse to open, and name the files.
    Refuse,
    /// Open all the same; [`Brain::drift`] has the files and, while there are any, nothing can be
    /// settled. Needs no space on the disk.
    Report,
}

/// How to open a brain.
#[derive(Debug, Clone)]
pub struct BrainOptions {
    /// How long to wait for another process that holds the brain.
    pub wait: Duration,
    /// Where "now" comes from.
    pub clock: Arc<dyn Clock>,
    /// What to do about edits that no step made.
    pub on_drift: OnDrift,
    /// Who signs the steps; without one they have no receipts.
    pub signer: Option<Arc<dyn StepSigner>>,
    /// Keys beside the signer's whose receipts vouch for steps: of operators that had the brain before.
    pub trusted: Vec<PublicKey>,
}

impl Default for BrainOptions {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            on_drift: OnDrift::Refuse,
            signer: None,
            trusted: Vec::new(),
        }
    }
}

/// An open brain. Its owner holds the brain's lock until this value is gone.
#[derive(Debug)]
pub struct Brain {
    pub(super) id: BrainId,
    clock: Arc<dyn Clock>,
    pub(super) signer: Option<Arc<dyn StepSigner>>,
    pub(super) trusted: Vec<PublicKey>,
    pub(super) root: Root,
    pub(super) database: Database,
    /// The files by path, built when first asked for: an open that finds everything unchanged
    /// does not need it.
    pub(super) tree: OnceCell<Tree>,
    pub(super) lock: Lockfile,
    pub(super) survey: Dir,
    pub(super) drift: Option<Drift>,
    /// Settled steps whose files are not yet synced.
    pub(super) unflushed: bool,
    /// How many of them.
    pub(super) steps_since_flush: u64,
    /// Settled steps whose files are not yet written.
    pub(super) behind: bool,
    /// The last step whose files are written.
    pub(super) materialised: i64,
    /// A commit failed half-way: only a fresh open knows what is so.
    pub(super) poisoned: bool,
    /// A settle has begun and not come back: a panic went through it.
    pub(super) settling: bool,
    /// Whether it was opened to be changed, so that its caches may be.
    pub(super) may_write_caches: bool,
    /// Files that changed since the skill index was last brought up to date.
    pub(super) changed_files: Vec<RelPath>,
    pub(super) index: Option<Index>,
    /// Made from the index when they are first asked for.
    pub(super) catalog: Option<SkillCatalog>,
    pub(super) commands: Option<Commands>,
    // Last, so that the lock is released after everything else is closed.
    pub(super) _guard: OsLock,
}

impl Brain {
    /// Opens a brain that is on this machine.
    pub fn open(layout: &Layout, id: &BrainId, opening: &BrainOptions) -> Result<Self> {
        let path = layout.brain(id);
        if let Err(error) = path.symlink_metadata() {
            return Err(match error.kind() {
                std::io::ErrorKind::NotFound => no_such_brain(layout, id),
                _ => Error::io("open", &path, error),
            });
        }
        let guard = take_lock(layout, id, opening.wait)?;
        Self::open_locked(layout, id, opening, guard)
    }

    pub(super) fn open_locked(layout: &Layout, id: &BrainId, opening: &BrainOptions, guard: OsLock) -> Result<Self> {
        let (mut brain, beside) = Self::connect(layout, id, opening, guard)?;
        if let Some(ahead) = beside.ahead_of(&brain.lock, &receipt_log::head(&brain.database.connection)?) {
            return Err(ahead.into_error(id, &brain.lock));
        }
        brain.database.make_writable()?;
        if brain.database.lacks_index {
            brain.heal_indexes()?;
        }
        let cached = fsio::load_cache(&brain.root, &layout::rel(layout::SURVEY_CACHE)?);
        let (survey, parts) = cached.unwrap_or_default();
        brain.survey = survey;
        brain.recover(brain.materialised)?;
        brain.check_receipt_log()?;
        brain.look(&parts, opening.on_drift)?;
        if opening.on_drift == OnDrift::Refuse {
            brain.database.begin_log()?;
            brain.migrate();
            brain.may_write_caches = true;
        }
        Ok(brain)
    }

    /// Opens the database of a brain and nothing else, with what stood beside it before. Nothing of the brain is written:
    /// a database of an earlier schema is not upgraded, and its log stays as it is until someone says otherwise.
    pub(super) fn connect(
        layout: &Layout,
        id: &BrainId,
        opening: &BrainOptions,
        guard: OsLock,
    ) -> Result<(Self, SideFiles)> {
        clear_staging(layout, id)?;
        let path = layout.brain(id);
        let root = Root::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => no_such_brain(layout, id),
            _ => error,
        })?;
        let beside = SideFiles::read(&root)?;
        let database = open_database(&path.join(layout::DATABASE), id, Access::Write)?;
        let state = journal::load_state(&database.connection)?;
        let brain = Self {
            id: id.clone(),
            clock: Arc::clone(&opening.clock),
            signer: opening.signer.clone(),
            trusted: opening.trusted.clone(),
            root,
            database,
            tree: OnceCell::new(),
            lock: state.lock,
            survey: Dir::default(),
            drift: None,
            unflushed: false,
            steps_since_flush: 0,
            behind: false,
            materialised: state.flushed,
            poisoned: false,
            settling: false,
            may_write_caches: false,
            changed_files: Vec::new(),
            index: None,
            catalog: None,
            commands: None,
            _guard: guard,
        };
        Ok((brain, beside))
    }

    /// Brings the indexes that the tuning asks for up to date. They only make searches better: what is wrong with them
    /// is reported when the tuning is changed, and must not keep the brain from being opened.
    pub(super) fn migrate(&mut self) {
        let mut wanted = || -> Result<bool> {
            let file = self.root.read(&layout::rel(layout::TUNING)?, 1 << 20)?;
            let tuning = file.map_or_else(|| Ok(Tuning::default()), |bytes| Tuning::parse(&bytes))?;
            memory::reconcile_migrations(&mut self.database.connection, &tuning.migrations)
        };
        if let Err(error) = wanted() {
            tracing::warn!(brain = %self.id, %error, "indexes of the tuning are not made");
        }
    }

    /// The same for someone who wants to know.
    pub fn try_migrations(&mut self, migrations: &[Migration]) -> Result<()> {
        memory::reconcile_migrations(&mut self.database.connection, migrations).map(drop)
    }

    /// Finishes what a crash left: the journal is the truth, the files follow. A brain that was only set
    /// aside has its files in place, and stays to be flushed.
    fn recover(&mut self, flushed: i64) -> Result<()> {
        self.root.clear_temporaries()?;
        let last = journal::last_step(&self.database.connection)?;
        if last == flushed {
            return Ok(());
        }
        let mut in_place = true;
        for change in journal::unflushed(&self.database.connection, flushed)? {
            in_place &= self.redo(&change)?;
        }
        self.write_receipt_log(flushed)?;
        self.materialised = last;
        let (lock, bytes) = (layout::rel(layout::LOCK)?, self.lock.to_bytes()?);
        if self.root.read(&lock, 1 << 20).ok().flatten().is_none_or(|found| found != bytes) {
            in_place = false;
            self.root.replace(&lock, &bytes, fsio::SyncTiming::Later)?;
        }
        self.unflushed = true;
        self.steps_since_flush = last.abs_diff(flushed);
        if in_place && self.steps_since_flush < STEPS_BETWEEN_FLUSHES {
            return Ok(());
        }
        tracing::info!(brain = %self.id, from = flushed, to = last, "finishing what was interrupted");
        self.finish_files()
    }

    /// Brings one file to what the journal says; whether it was so already. What was edited since stays, as drift.
    fn redo(&mut self, change: &FileChange) -> Result<bool> {
        let path = &change.path;
        let found = self.root.read(path, layout::MAX_FILE_BYTES)?;
        if found.as_deref().map(Digest::of) == change.after {
            return Ok(true);
        }
        let connection = &self.database.connection;
        if !pending_files::is_behind(connection, change, found.as_deref(), self.materialised)? {
            tracing::warn!(brain = %self.id, %path, "edited since an interrupted step; left as it is");
            return Ok(false);
        }
        match change.after.map(|after| journal::blob(connection, &after)).transpose()? {
            Some(after) => self.root.replace(path, &after, fsio::SyncTiming::Later)?,
            None => self.root.remove(path)?,
        }
        self.survey.forget(path);
        Ok(false)
    }

    /// Looks at the files, hashes what changed, and compares with the lock. `cached` are the
    /// digests of the file parts as of the earlier survey: they stand if nothing moved.
    fn look(&mut self, cached: &[Digest], on_drift: OnDrift) -> Result<()> {
        let looked = verify::scan_files(&self.root, std::mem::take(&mut self.survey))?;
        self.survey = looked.top;
        let unchanged = !looked.survey.changed && cached == self.file_parts();
        if !unchanged {
            self.tree()?;
        }
        let lock_on_disk = self.read_lock_file()?;
        let rows = settle::row_parts(&self.database.connection)?;
        let rows_as_locked = rows == (self.lock.parts.usage, self.lock.parts.memory);
        let files_as_locked = unchanged || {
            let tree = self.tree.get_mut().ok_or_else(|| Error::internal("the tree is not built"))?;
            settle::file_parts(tree) == self.file_parts()
        };
        if files_as_locked && looked.survey.changed {
            self.save_survey();
        }
        if files_as_locked && rows_as_locked && lock_on_disk {
            return Ok(());
        }
        let drift = Drift::between(&self.database, self.tree()?, !lock_on_disk)?;
        match on_drift {
            OnDrift::Report => {
                self.drift = Some(drift);
                Ok(())
            }
            OnDrift::Refuse => Err(drift.into_error(&self.id)),
        }
    }

    /// The digests of the parts made of files, as the lock has them.
    fn file_parts(&self) -> [Digest; 4] {
        let parts = &self.lock.parts;
        [parts.system, parts.layer1, parts.skills, parts.patterns]
    }

    /// Keeps the survey for the next open. It belongs to the parts of the lock.
    fn save_survey(&self) {
        let saved = layout::rel(layout::SURVEY_CACHE)
            .and_then(|path| fsio::save_cache(&self.root, &path, &self.survey, &self.file_parts()));
        if let Err(error) = saved {
            // Only a cache: without it the next open reads every file once.
            tracing::debug!(brain = %self.id, %error, "survey not kept");
        }
    }

    /// The files by path.
    pub(super) fn tree(&self) -> Result<&Tree> {
        if self.tree.get().is_none() {
            let (tree, _) = verify::tree_of(&self.survey)?;
            // Set once: nobody else can have built it in between.
            let _ = self.tree.set(tree);
        }
        self.tree.get().ok_or_else(|| Error::internal("the tree is not built"))
    }

    /// Whether the lock file is the one of the last step. A missing one is written again; one of
    /// another format means that another herm owns this brain.
    fn read_lock_file(&self) -> Result<bool> {
        let path = layout::rel(layout::LOCK)?;
        self.root.can_hold(&path)?;
        let read = match self.root.read(&path, 1 << 20) {
            // Far too large to be a lock.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(false),
            read => read?,
        };
        match read {
            None => {
                self.root.replace(&path, &self.lock.to_bytes()?, fsio::SyncTiming::Now)?;
                Ok(true)
            }
            Some(bytes) if Lockfile::is_foreign(&bytes) => Lockfile::parse(&bytes).map(|_| false),
            Some(bytes) => Ok(bytes == self.lock.to_bytes()?),
        }
    }

    /// The number that names this brain's directory below `brains`.
    pub fn id(&self) -> &BrainId {
        &self.id
    }

    /// The brain's directory, as it was opened.
    pub fn path(&self) -> &std::path::Path {
        self.root.path()
    }

    /// Where "now" comes from.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The lock of the last step.
    pub fn lock(&self) -> &Lockfile {
        &self.lock
    }

    /// Content that no step made, where it was opened with [`OnDrift::Report`].
    pub fn drift(&self) -> Option<&Drift> {
        self.drift.as_ref()
    }

    /// Whether it can go on settling; if not, it must be opened again.
    pub fn is_usable(&self) -> bool {
        !self.poisoned && !self.settling && self.drift.is_none()
    }

    /// Whether a step may be committed at all, edits by hand or not.
    pub(super) fn check_committable(&self) -> Result<()> {
        if self.poisoned || self.settling {
            return Err(Error::unavailable(format!("brain {} must be opened again after a failed write", self.id))
                .hint("close it and open it again; the open finds out which step is the last"));
        }
        Ok(())
    }

    pub(super) fn check_usable(&self) -> Result<()> {
        self.check_committable()?;
        match &self.drift {
            Some(drift) => Err(drift.clone().into_error(&self.id)),
            None => Ok(()),
        }
    }

    /// A file of the bundle, checked against its digest as it is read; `None` where there is none.
    pub fn read_content(&self, path: &RelPath) -> Result<Option<Vec<u8>>> {
        let Some(expected) = self.tree()?.get(path) else { return Ok(None) };
        match self.root.read(path, layout::MAX_FILE_BYTES)? {
            Some(content) if Digest::of(&content) == expected => Ok(Some(content)),
            _ => Err(changed_by_hand(&self.id, path)),
        }
    }

    /// The digest of a file of the bundle, as the last step left it; `None` where there is none.
    pub fn entry(&self, path: &RelPath) -> Result<Option<Digest>> {
        journal::entry(&self.database.connection, path)
    }

    /// Searches the memory. A damaged index is rebuilt at once.
    pub fn search(&mut self, wanted: &Search<'_>) -> Result<SearchResults> {
        let found = search::search(&self.database.connection, wanted)?;
        if found.degraded {
            self.heal_indexes()?;
        }
        Ok(found)
    }

    /// Searches the memory by words, and by meaning where that is given. A damaged index is rebuilt at once.
    pub fn search_hybrid(&mut self, wanted: &Search<'_>, sought: Option<&QueryVector>) -> Result<HybridResults> {
        let near = hybrid::search(&self.database.connection, wanted, sought)?;
        if near.found.degraded {
            self.heal_indexes()?;
        }
        Ok(near)
    }

    /// The whole texts of hits that belong to one subscriber.
    pub fn private_texts(&self, rows: impl IntoIterator<Item = (MemorySource, i64)>) -> Result<Vec<String>> {
        search::private_texts(&self.database.connection, rows)
    }

    /// Builds damaged full-text indexes again from the rows.
    pub(super) fn heal_indexes(&mut self) -> Result<()> {
        let path = self.root.path().join(layout::DATABASE);
        memory::heal_indexes(&self.database.connection, || Database::open_writable(&path))?;
        // The old connection remembers the index as it was.
        self.database = Database::open_writable(&path)?;
        Ok(())
    }

    /// The name and tool whitelist, where the brain has them.
    pub fn manifest(&self) -> Result<Option<BrainManifest>> {
        match self.read_content(&layout::rel(layout::MANIFEST)?)? {
            None => Ok(None),
            Some(bytes) => BrainManifest::parse(&bytes).map(Some),
        }
    }

    /// Which components and constants the brain runs with.
    pub fn tuning(&self) -> Result<Tuning> {
        match self.read_content(&layout::rel(layout::TUNING)?)? {
            None => Ok(Tuning::default()),
            Some(bytes) => Tuning::parse(&bytes),
        }
    }

    /// The number the next piece of evidence will have.
    pub fn next_evidence(&self) -> Result<i64> {
        self.database.next_evidence()
    }

    /// How many steps were settled since the files were last made durable.
    pub fn steps_since_flush(&self) -> u64 {
        self.steps_since_flush
    }

    /// Roughly how many bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        // SQLite's statements and full-text tables, measured on small brains.
        const BASE: usize = 448 << 10;
        // SQLite's page cache, which holds a small database whole.
        const MOST_PAGES: u64 = 2 << 20;
        // Per file: its node of the survey, its place in the tree, and its entry of the index.
        const PER_FILE: usize = 600;
        let database = layout::rel(layout::DATABASE).and_then(|path| self.root.stat(&path)).ok().flatten();
        let pages = database.map_or(MOST_PAGES, |stat| stat.size.min(MOST_PAGES));
        BASE + usize::try_from(pages).unwrap_or(0) + PER_FILE * self.survey.count_files()
    }

    /// The last `limit` steps, newest first.
    pub fn history(&self, limit: usize) -> Result<Vec<StepRecord>> {
        history::read(&self.database, limit)
    }

    /// Lets go without waiting for the disk. Its steps are settled and its files in place; what was not
    /// synced is checked by the next open, which can make it again from the journal.
    pub fn close_unsynced(mut self) -> Result<()> {
        if !self.is_usable() || self.steps_since_flush >= STEPS_BETWEEN_FLUSHES {
            return self.close();
        }
        if self.behind {
            self.materialise()?;
        }
        if !self.changed_files.is_empty() || self.unflushed {
            self.save_survey();
        }
        self.root.clear_temporaries()
    }

    /// Makes everything durable, saves the survey for the next open, and lets go.
    pub fn close(mut self) -> Result<()> {
        if self.is_usable() {
            let settled_something = self.unflushed || self.behind || !self.changed_files.is_empty();
            self.finish_files()?;
            if settled_something {
                self.save_survey();
            }
            self.root.clear_temporaries()?;
        }
        Ok(())
    }
}

pub(super) fn take_lock(layout: &Layout, id: &BrainId, wait: Duration) -> Result<OsLock> {
    fsio::create_dirs(&layout.locks())?;
    OsLock::acquire(&layout.lock_file(id), &format!("brain {id}"), wait)
}

/// Removes a brain that a crash left half made. Its owner is gone: the caller holds the lock.
pub(super) fn clear_staging(layout: &Layout, id: &BrainId) -> Result<()> {
    let staging = layout.staging(id);
    if staging.symlink_metadata().is_err() {
        return Ok(());
    }
    fsio::remove_tree(&staging)
}

pub(super) fn open_database(path: &std::path::Path, id: &BrainId, access: Access) -> Result<Database> {
    Database::open(path, access).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::corrupt(format!("brain {id} has no memory.db"))
            .hint("restore the brain from a snapshot, or put the file back"),
        _ => error,
    })
}

pub(super) fn no_such_brain(layout: &Layout, id: &BrainId) -> Error {
    Error::not_found(format!("there is no brain {id} in {}", layout.brains().display()))
        .hint(format!("make it with `herm init {id}`, or point --brains at the right directory"))
}

/// The numbers of the brains in a directory, in numeric order. A damaged one is among them.
pub fn list(layout: &Layout) -> Result<Vec<BrainId>> {
    let names = match std::fs::read_dir(layout.brains()) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", layout.brains(), error)),
    };
    let mut ids = Vec::new();
    for name in names {
        let name = name.map_err(|error| Error::io("list", layout.brains(), error))?;
        let is_dir = name.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
        let id = name.file_name().to_str().and_then(|text| text.parse::<BrainId>().ok());
        ids.extend(id.filter(|_| is_dir));
    }
    ids.sort_by(|a, b| (a.as_str().len(), a.as_str()).cmp(&(b.as_str().len(), b.as_str())));
    Ok(ids)
}
