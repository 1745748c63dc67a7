//! The open database: one thread writes, many writes a commit.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herm::memory::{Database, sql};
use herm::{Error, Layout, Result, fsio};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::server_layout::ServerLayout;

/// The tables, in the order of their versions.
const MIGRATIONS: [&str; 4] = [
    "
CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  hash BLOB NOT NULL,
  subscriber TEXT,
  agents TEXT,
  operations TEXT NOT NULL,
  rate INTEGER NOT NULL,
  micro_usd INTEGER,
  spent INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT;
CREATE TABLE tasks (
  id TEXT PRIMARY KEY,
  agent TEXT NOT NULL,
  owner TEXT NOT NULL,
  key TEXT,
  idempotency BLOB UNIQUE,
  digest BLOB NOT NULL,
  request TEXT,
  state TEXT NOT NULL,
  cancelled INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  status TEXT,
  outcome TEXT,
  problem TEXT,
  payment TEXT
) STRICT;
CREATE INDEX tasks_by_owner ON tasks (owner, id);
CREATE INDEX tasks_by_agent ON tasks (agent, id);
CREATE INDEX tasks_by_state ON tasks (state, id);
CREATE INDEX tasks_unfinished ON tasks (state) WHERE finished_at IS NULL;
CREATE INDEX tasks_by_end ON tasks (finished_at);
CREATE TABLE payments (
  id BLOB PRIMARY KEY,
  task TEXT NOT NULL UNIQUE,
  payment TEXT NOT NULL,
  is_open INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE TABLE paused (
  agent TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT;
CREATE TABLE generation (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  keys INTEGER NOT NULL
) STRICT;
INSERT INTO generation (one, keys) VALUES (1, 0);
",
    "
ALTER TABLE tasks ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN spent_last INTEGER NOT NULL DEFAULT 0;
",
    "ALTER TABLE tasks ADD COLUMN value TEXT;",
    "ALTER TABLE tasks ADD COLUMN deadline INTEGER;",
];

/// How many writes wait at most; the next one waits for room.
const WAITING: usize = 4_096;
/// How many writes share a commit at most.
const TOGETHER: usize = 256;

/// A write, and what to tell its caller once it is committed or is not. Given an error, it writes nothing and
/// has that to tell.
type Work = Box<dyn FnOnce(std::result::Result<&Connection, &Error>) -> (Done, CommitCallback) + Send>;
type CommitCallback = Box<dyn FnOnce(Option<&Error>) + Send>;

/// Whether a piece of work is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Keep,
    Discard,
}

/// The open database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerDb {
    writes: mpsc::Sender<Work>,
    reading: Arc<Mutex<Connection>>,
    /// For lists, which may take longer than a request may wait for the connection.
    listing: Arc<Mutex<Connection>>,
}

impl ServerDb {
    /// Opens the database of these brains, or begins one.
    pub fn open(layout: &Layout) -> Result<Self> {
        let path = ServerLayout::of(layout).database();
        let writing = open(&path)?;
        let (reading, listing) = (open(&path)?, open(&path)?);
        let (writes, waiting) = mpsc::channel(WAITING);
        std::thread::Builder::new()
            .name("book".into())
            .spawn(move || write_all(&writing, waiting))
            .map_err(|source| Error::unavailable("no thread can be started").because(source))?;
        let shared = |connection| Arc::new(Mutex::new(connection));
        Ok(Self { writes, reading: shared(reading), listing: shared(listing) })
    }

    /// Writes, and waits until it is on disk.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            let done = connection.map_err(again).and_then(work);
            let how = if done.is_ok() { Done::Keep } else { Done::Discard };
            let told: CommitCallback = Box::new(move |lost| {
                let done = match lost {
                    None => done,
                    Some(error) => Err(again(error)),
                };
                // A caller that no longer waits does not need to know.
                let _ = tell.send(done);
            });
            (how, told)
        });
        let gone = || Error::internal("the server's database is closed");
        self.writes.send(work).await.map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// Reads what takes a moment, on the caller's own thread.
    pub fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        work(&self.connection())
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what may take a while, off the executor's threads.
    pub async fn list<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let listing = Arc::clone(&self.listing);
        let read = tokio::task::spawn_blocking(move || work(&listing.lock().unwrap_or_else(PoisonError::into_inner)));
        read.await.map_err(|_| Error::internal("reading the server's database was interrupted"))?
    }

    /// Pauses a brain, or lets it go on.
    pub async fn set_paused(&self, agent: &herm::BrainId, at: Option<herm::Timestamp>) -> Result<()> {
        let agent = agent.to_string();
        self.write(move |connection| {
            let done = match at {
                Some(at) => {
                    connection.execute("INSERT OR IGNORE INTO paused (agent, at) VALUES (?1, ?2)", (agent, at.millis()))
                }
                None => connection.execute("DELETE FROM paused WHERE agent = ?1", [agent]),
            };
            done.map(|_| ()).map_err(failed)
        })
        .await
    }

    /// The brains that are paused.
    pub fn paused(&self) -> Result<Vec<herm::BrainId>> {
        self.read(|connection| {
            let mut all = connection.prepare_cached("SELECT agent FROM paused").map_err(failed)?;
            let rows = all.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
            rows.map(|agent| agent.map_err(failed)?.parse()).collect()
        })
    }
}

/// Opens the file and brings its tables up to date, for a command beside the server. The file is for its owner alone: it
/// holds answers.
pub fn open(path: &Path) -> Result<Connection> {
    use std::os::unix::fs::PermissionsExt as _;
    if let Some(dir) = path.parent() {
        fsio::create_dirs(dir)?;
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
            .map_err(|source| Error::io("protect", dir, source))?;
    }
    let connection = Database::open_server_db(path)?;
    let known = MIGRATIONS.len() as i64;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if version > known {
        return Err(Error::corrupt(format!("{} was written by a newer herm", path.display()))
            .hint("use the herm that wrote it, or a newer one; nothing was changed"));
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        connection.execute_batch(migration).map_err(failed)?;
    }
    connection.pragma_update(None, "user_version", known).map_err(failed)?;
    connection.execute_batch("COMMIT").map_err(failed)?;
    Ok(connection)
}

/// Commits what waits, together, until nobody is left who could write.
fn write_all(connection: &Connection, mut waiting: mpsc::Receiver<Work>) {
    let mut batch = Vec::new();
    while let Some(first) = waiting.blocking_recv() {
        batch.push(first);
        while batch.len() < TOGETHER
            && let Ok(next) = waiting.try_recv()
        {
            batch.push(next);
        }
        let mut told: Vec<CommitCallback> = Vec::with_capacity(batch.len());
        let mut works = batch.drain(..);
        let committed = run(connection, "BEGIN IMMEDIATE")
            .and_then(|()| works.try_for_each(|work| one(connection, work, &mut told)))
            .and_then(|()| run(connection, "COMMIT"));
        if let Err(error) = &committed {
            tracing::error!(%error, "the server's database was not written");
            // Nothing to take back is no further trouble.
            let _ = run(connection, "ROLLBACK");
        }
        // Those whose turn did not come hear the same.
        if let Err(error) = &committed {
            told.extend(works.map(|work| work(Err(error)).1));
        }
        told.into_iter().for_each(|tell| tell(committed.as_ref().err()));
    }
}

/// Does one piece of work within the commit; one that fails leaves nothing behind.
fn one(connection: &Connection, work: Work, told: &mut Vec<CommitCallback>) -> Result<()> {
    if let Err(error) = run(connection, "SAVEPOINT work") {
        told.push(work(Err(&error)).1);
        return Err(error);
    }
    let (done, tell) = work(Ok(connection));
    told.push(tell);
    if done == Done::Discard {
        run(connection, "ROLLBACK TO work")?;
    }
    run(connection, "RELEASE work")
}

/// The same error for one more who waits: what passes for one passes for the other.
fn again(error: &Error) -> Error {
    use std::io::ErrorKind as Io;
    let mut copy = Error::new(error.kind(), error.message());
    if let Some(hint) = error.hint_text() {
        copy = copy.hint(hint);
    }
    let kind = if error.is_passing() { Io::ResourceBusy } else { Io::Other };
    match std::error::Error::source(error) {
        Some(source) => copy.because(std::io::Error::new(kind, source.to_string())),
        None => copy,
    }
}

fn run(connection: &Connection, statement: &str) -> Result<()> {
    connection.prepare_cached(statement).and_then(|mut statement| statement.execute([])).map(|_| ()).map_err(failed)
}

pub(crate) fn failed(source: rusqlite::Error) -> Error {
    sql("use the server's database", source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks;

    fn pause(connection: &Connection, agent: &str) -> Result<()> {
        connection.execute("INSERT INTO paused (agent, at) VALUES (?1, 1)", [agent]).map(|_| ()).map_err(failed)
    }

    #[test]
    fn all_who_share_a_commit_hear_whether_its_failure_passes() {
        let of = |code| failed(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        for (code, passes) in [
            (rusqlite::ffi::SQLITE_BUSY, true),
            (rusqlite::ffi::SQLITE_FULL, true),
            (rusqlite::ffi::SQLITE_READONLY, false),
            (rusqlite::ffi::SQLITE_CONSTRAINT, false),
        ] {
            let error = of(code);
            let told = again(&error);
            assert_eq!((error.is_passing(), told.is_passing()), (passes, passes), "{error:?}");
            assert_eq!((error.kind(), error.message()), (told.kind(), told.message()));
        }
    }

    #[test]
    fn a_book_of_the_first_edition_keeps_its_tasks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("book.db");
        let old = Database::open_server_db(&path).unwrap();
        old.execute_batch(MIGRATIONS[0]).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        old.execute(
            "INSERT INTO tasks (id, agent, owner, digest, request, state, created_at) VALUES ('t-1', '7', 'o', ?1, '{}', 'running', 5)",
            [[0_u8; 32]],
        )
        .unwrap();
        drop(old);
        let connection = open(&path).unwrap();
        let row = tasks::unfinished(&connection).unwrap().pop().expect("the task");
        assert_eq!((row.id.as_str(), row.tries, row.value), ("t-1", tasks::Tries::default(), None));
        let tries = tasks::Tries { before: 3, last: 4 };
        tasks::begin(&connection, &row.id, herm::Timestamp(6), tries).unwrap();
        assert_eq!(tasks::get(&connection, &row.id).unwrap().map(|row| row.tries), Some(tries));
    }

    #[tokio::test]
    async fn of_writes_that_share_a_commit_one_that_fails_leaves_nothing_and_harms_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let book = ServerDb::open(&Layout::new(dir.path().join("brains"))).unwrap();
        // The first one keeps the writer busy until all others wait: they share the next commit.
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let first = tokio::spawn({
            let book = book.clone();
            async move { book.write(move |_| gate.recv().map_err(|_| Error::internal("nobody let it go on"))).await }
        });
        let mut waiting = Vec::new();
        for agent in ["1", "2", "3"] {
            let writing = book.write(move |connection| {
                pause(connection, agent)?;
                match agent {
                    "2" => Err(Error::conflict("not this one")),
                    _ => Ok(()),
                }
            });
            let mut writing = Box::pin(writing);
            // Polled once, it is in the queue.
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(writing.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
            waiting.push(writing);
        }
        go.send(()).unwrap();
        first.await.unwrap().unwrap();
        let mut told = Vec::new();
        for writing in waiting {
            told.push(writing.await.map_err(|error| error.message().to_owned()));
        }
        assert_eq!(told, [Ok(()), Err("not this one".to_owned()), Ok(())]);
        let paused: Vec<String> = book.paused().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(paused, ["1", "3"]);
    }
}
