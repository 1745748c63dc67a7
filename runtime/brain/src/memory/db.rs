//! The one place where SQLite is opened.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::detached_index::DetachedIndex;
use super::schema::SCHEMA_VERSION;
use crate::error::{Error, Result};

/// No single value is larger: files of a brain, the largest thing stored, stay below it.
const MAX_VALUE_BYTES: i32 = 64 << 20;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Settling: there is one, and its owner holds the brain's lock.
    Write,
    /// Looking, while the owner of the brain may write.
    Read,
}

/// A connection to a brain's `memory.db`.
#[derive(Debug)]
pub struct Database {
    /// The connection itself, for statements of the crates that stand on this one.
    pub connection: Connection,
    /// Whether a full-text index, or a part of one, was missing when it was opened.
    pub(crate) lacks_index: bool,
    /// The schema of the file: the present one, or an earlier one until it is [made writable](Self::make_writable).
    pub(super) schema: i64,
}

impl Database {
    /// Makes a new, empty `memory.db`.
    pub fn create(path: &Path) -> Result<Self> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        configure(&connection, Access::Write)?;
        Self::create_tables(&connection)?;
        Ok(Self { connection, lacks_index: false, schema: SCHEMA_VERSION })
    }

    /// Makes an empty `memory.db` of a schema for rows that are about to arrive. Nothing is durable before it is opened
    /// again: the caller that fills it throws it away when something goes wrong.
    pub(crate) fn create_for_restore(path: &Path, schema: i64) -> Result<Self> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        configure(&connection, Access::Write)?;
        let failed = |source| sql("make memory.db", source);
        connection.pragma_update(None, "journal_mode", "MEMORY").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
        Self::create_tables_of(&connection, schema)?;
        Ok(Self { connection, lacks_index: false, schema })
    }

    /// Begins to fill it.
    pub(crate) fn begin_restore(&self) -> Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(|source| sql("fill memory.db", source))
    }

    /// Makes what did not travel: hash nodes and full-text indexes.
    pub(crate) fn finish_restore(&self) -> Result<()> {
        super::logical::rehash(&self.connection)?;
        super::index::rebuild_in_one_go(&self.connection)?;
        self.connection.execute_batch("COMMIT").map_err(|source| sql("fill memory.db", source))
    }

    /// The same, where the full-text indexes are built beside it; they are asked for when they are needed.
    pub(crate) fn finish_restore_with(&self, indexes: impl FnOnce() -> Result<DetachedIndex>) -> Result<()> {
        super::logical::rehash(&self.connection)?;
        indexes()?.move_into(&self.connection)?;
        self.connection.execute_batch("COMMIT").map_err(|source| sql("fill memory.db", source))
    }

    /// Opens an existing `memory.db`; says plainly what is wrong with one that cannot be used. Nothing is written: a file
    /// of an earlier schema stays as it is, its tables that are missing are read as empty ones, and a log stays where
    /// there is one. Who writes calls `make_writable` first.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        check_header(path)?;
        let has_log = has_log(path);
        let connection = connect(path, OpenFlags::empty())?;
        let database = Self { connection, lacks_index: false, schema: SCHEMA_VERSION };
        // The log may hold more than SQLite can see.
        database.keep_log(has_log)?;
        configure(&database.connection, access)?;
        let (schema, lacks_index) = Self::check_schema(&database.connection, access)?;
        if access == Access::Read {
            let only_looks = database.connection.pragma_update(None, "query_only", true);
            only_looks.map_err(|source| sql("open memory.db", source))?;
        }
        Ok(Self { schema, lacks_index, ..database })
    }

    /// Opens one that has lost nothing, to write to it.
    pub(crate) fn open_writable(path: &Path) -> Result<Self> {
        let mut database = Self::open(path, Access::Write)?;
        database.make_writable()?;
        Ok(database)
    }

    /// Brings a file of an earlier schema up to date, and lets its log go when it is closed. Its owner calls this once it
    /// is certain that nothing was lost.
    pub(crate) fn make_writable(&mut self) -> Result<()> {
        self.keep_log(false)?;
        self.upgrade()
    }

    /// Whether the last connection to close leaves the write-ahead log as it is, instead of moving it into the database.
    fn keep_log(&self, keep: bool) -> Result<()> {
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)
            .map(drop)
            .map_err(|source| sql("open memory.db", source))
    }

    /// Moves what the write-ahead log holds into the database. Off the caller's path.
    pub fn checkpoint(&self) -> Result<()> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(|source| sql("checkpoint memory.db", source))
    }

    /// Makes the write-ahead log now, so that the syncs this takes do not fall on the first step: a
    /// commit that changes nothing. Where it fails, this connection must not be written with.
    pub(crate) fn begin_log(&self) -> Result<()> {
        Self::write_mark(&self.connection).map_err(|source| sql("open memory.db for writing", source))
    }

    /// Writes a copy of everything, as it is at this moment, into a new file.
    pub(crate) fn copy_to(&self, path: &str) -> Result<()> {
        let failed = |source| sql("copy memory.db", source);
        // A connection that only looks refuses every kind of writing, this one too.
        self.connection.pragma_update(None, "query_only", false).map_err(failed)?;
        let copied = self.connection.execute("VACUUM INTO ?1", [path]).map(|_| ()).map_err(failed);
        self.connection.pragma_update(None, "query_only", true).map_err(failed)?;
        copied
    }

    /// The same by SQLite's backup, which is faster and keeps free pages.
    pub(crate) fn back_up(&self, path: &Path) -> Result<()> {
        let failed = |source| sql("copy memory.db", source);
        let mut copy = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        // It is for looking at and throwing away: nobody waits for a disk.
        copy.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
        copy.pragma_update(None, "journal_mode", "OFF").map_err(failed)?;
        let backup = rusqlite::backup::Backup::new(&self.connection, &mut copy).map_err(failed)?;
        // All pages in one step: one read transaction, one moment.
        match backup.step(-1).map_err(failed)? {
            rusqlite::backup::StepResult::Done => Ok(()),
            _ => Err(Error::unavailable("memory.db is busy and was not copied").hint("try again")),
        }
    }

    /// Opens, or makes, a database beside the brains that is not a brain's memory: the server database. It is as
    /// durable as a memory; its tables are its owner's.
    pub fn open_server_db(path: &Path) -> Result<Connection> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        configure(&connection, Access::Write)?;
        // Nobody waits for a commit here for long: SQLite may choose when to tidy its log.
        connection
            .pragma_update(None, "wal_autocheckpoint", 1_000)
            .map_err(|source| sql("open the server database", source))?;
        Ok(connection)
    }

    /// Whether the SQLite inside this program has full-text search that works.
    pub fn probe_full_text() -> Result<bool> {
        let failed = |source| sql("try full-text search", source);
        let connection = Connection::open_in_memory().map_err(failed)?;
        connection
            .execute_batch(
                "CREATE VIRTUAL TABLE probe USING fts5(text); INSERT INTO probe VALUES ('a herm stands here')",
            )
            .map_err(failed)?;
        connection
            .query_row("SELECT count(*) FROM probe WHERE probe MATCH 'stands'", [], |row| row.get::<_, i64>(0))
            .map(|found| found == 1)
            .map_err(failed)
    }

    /// SQLite's own check of the file's structure: one line a problem, none if it is sound.
    pub fn integrity(&self) -> Result<Vec<String>> {
        let failed = |source| sql("check memory.db", source);
        let mut statement = self.connection.prepare("PRAGMA quick_check(20)").map_err(failed)?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        let mut problems = Vec::new();
        for line in lines {
            match line.map_err(failed)? {
                fine if fine == "ok" => {}
                problem => problems.push(problem),
            }
        }
        Ok(problems)
    }
}

#[expect(clippy::disallowed_methods, reason = "every connection is opened here")]
fn connect(path: &Path, extra: OpenFlags) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW | extra;
    // SQLite's NOFOLLOW refuses links anywhere in the path, the brains directory's own included.
    let path = resolve_above_brain(path);
    Connection::open_with_flags(&path, flags).map_err(|source| sql("open memory.db", source))
}

/// The brains directory may lie behind links (`/tmp` on some systems); the brain may not.
fn resolve_above_brain(path: &Path) -> PathBuf {
    let parts = (path.file_name(), path.parent().and_then(Path::file_name));
    let above = path.parent().and_then(Path::parent);
    match (parts, above.map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir }.canonicalize())) {
        ((Some(file), Some(brain)), Some(Ok(above))) => above.join(brain).join(file),
        _ => path.to_owned(),
    }
}

fn configure(connection: &Connection, access: Access) -> Result<()> {
    let run = || -> rusqlite::Result<()> {
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        // A database can come from elsewhere: no schema trickery, no writes to shadow tables.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        // Plans that do not depend on bound values: without this, many statements are prepared
        // again each time a value is bound.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
        if access == Access::Write {
            connection.pragma_update(None, "journal_mode", "WAL")?;
        }
        // NORMAL loses acknowledged rows in a power cut; FULL costs one sync a commit.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Checkpoints are ours to time, so that they never fall on a caller's commit.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.set_prepared_statement_cache_capacity(192);
        Ok(())
    };
    run().map_err(|source| sql("open memory.db", source))
}

/// Whether there is a write-ahead log that holds something.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Path::new(&log).metadata().is_ok_and(|meta| meta.len() > 0)
}

/// SQLite finds some damage only when it meets it; these two are cheap to see at once.
fn check_header(path: &Path) -> Result<()> {
    let failed = |source: std::io::Error| Error::io("open", path, source);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP => Error::refused(format!("{} is a symbolic link; herm does not follow links", path.display()))
            .hint("replace the link with the file itself"),
        other => failed(other.into()),
    })?;
    let mut file = std::fs::File::from(fd);
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(Error::corrupt(format!("{} is not a regular file", path.display()))
            .hint("put the brain's own memory.db back, or restore the brain from a snapshot"));
    }
    let size = meta.len();
    let mut header = [0u8; 100];
    let read = file.read(&mut header).map_err(failed)?;
    let not_sqlite = || {
        Error::corrupt(format!("{} is not a SQLite database", path.display()))
            .hint("put the brain's own memory.db back, or restore the brain from a snapshot")
    };
    if read < header.len() || !header.starts_with(b"SQLite format 3\0") {
        return Err(not_sqlite());
    }
    let page_size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        other => u64::from(other),
    };
    let pages = u64::from(u32::from_be_bytes([header[28], header[29], header[30], header[31]]));
    // With a log beside it the file may rightly be shorter until the next checkpoint.
    if !has_log(path) && size < pages * page_size {
        return Err(Error::corrupt(format!(
            "{} is cut short: it has {size} bytes and should have {}",
            path.display(),
            pages * page_size
        ))
        .hint("restore the brain from a snapshot; nothing was written"));
    }
    Ok(())
}

/// Classifies a SQLite error: damage is `Corrupt`, a full disk or a busy file `Unavailable`.
pub fn sql(doing: &str, source: rusqlite::Error) -> Error {
    let code = source.sqlite_error_code();
    let error = match code {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::corrupt(format!("cannot {doing}: the database is damaged"))
                .hint("stop writing; run `herm brain verify ID`, then restore the brain from a snapshot")
        }
        Some(_) if is_lost_index(&source) => {
            Error::corrupt(format!("cannot {doing}: {source}")).hint("restore the brain from a snapshot")
        }
        Some(ErrorCode::DiskFull) => Error::unavailable(format!("cannot {doing}: the disk is full"))
            .hint("free some space and try again; the next open finds out which step is the last"),
        Some(ErrorCode::ReadOnly) => Error::unavailable(format!("cannot {doing}: memory.db is read-only"))
            .hint("give the user that runs herm write access to the brain's directory"),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            Error::unavailable(format!("cannot {doing}: the file cannot be opened"))
                .hint("check that the brain's directory exists, is writable and that descriptors are left")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::unavailable(format!("cannot {doing}: another process is using memory.db"))
                .hint("try again in a moment")
        }
        Some(ErrorCode::SystemIoFailure) => Error::unavailable(format!(
            "cannot {doing}: the disk failed or is full ({source})"
        ))
        .hint("free some space or check the disk, and try again; the next open finds out which step is the last"),
        Some(_) => Error::unavailable(format!("cannot {doing}: {source}")).hint("try again in a moment"),
        None if is_bad_value(&source) => {
            Error::corrupt(format!("cannot {doing}: a row holds what no herm wrote ({source})"))
                .hint("restore the brain from a snapshot")
        }
        None => Error::internal(format!("cannot {doing}: {source}")),
    };
    let error = if code.is_some_and(is_passing) { error.passing() } else { error };
    error.because(source)
}

/// Whether SQLite may do the same later, without anyone changing anything.
fn is_passing(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        || matches!(code, ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::CannotOpen)
}

/// Whether a stored value is not of the kind its column holds.
fn is_bad_value(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, QueryReturnedNoRows, Utf8Error,
    };
    matches!(
        error,
        FromSqlConversionFailure(..)
            | IntegralValueOutOfRange(..)
            | InvalidColumnType(..)
            | QueryReturnedNoRows
            | Utf8Error(..)
    )
}

/// Whether an error means that stored pages are damaged.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || is_lost_index(error)
}

/// At open every table is there; an index, or a part of one, may be missing and is then made again.
fn is_lost_index(error: &rusqlite::Error) -> bool {
    let text = error.to_string();
    ["no such table", "vtable constructor failed", "invalid fts5 file format"].iter().any(|sign| text.contains(sign))
}
