//! Keys of callers: 256 random bits, shown once, kept as a hash.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use herm::ids::Random;
use herm::{BrainId, Error, Layout, Result, SubscriberId, Timestamp};
use rusqlite::{Connection, Row};

use crate::server_db::{ServerDb, failed};
use crate::server_layout::ServerLayout;

/// What every key begins with, so that a scanner of secrets finds one that leaked.
const PREFIX: &str = "herm";
/// The requests that a key may make in a minute, unless said.
pub const RATE: u32 = 600;

/// Something a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Give agents tasks, cancel them, and say how good the answers were.
    Run,
    /// Look at agents, skills, memory, receipts and history.
    Read,
    /// Do everything, and see what belongs to any subscriber.
    Operate,
}

impl Operation {
    /// The stable name, in the database and in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

impl FromStr for Operation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::Run, Self::Read, Self::Operate]
            .into_iter()
            .find(|operation| operation.name() == name)
            .ok_or_else(|| Error::corrupt(format!("{name:?} is not an operation")))
    }
}

/// One key, as it is kept.
#[derive(Debug, Clone)]
pub struct Key {
    /// Its public part, 16 hex digits.
    pub id: String,
    /// What the operator calls it; only people read it.
    pub name: String,
    /// The hash of its secret part.
    pub hash: blake3::Hash,
    /// Whose tasks, memory and receipts it sees.
    pub subscriber: Option<SubscriberId>,
    /// Which agents it may call; all, where it does not say.
    pub agents: Option<BTreeSet<BrainId>>,
    /// What it may do.
    pub operations: BTreeSet<Operation>,
    /// Requests that it may make in a minute.
    pub rate: u32,
    /// Millionths of a dollar that its tasks may cost together.
    pub micro_usd: Option<u64>,
    /// What they have cost.
    pub spent: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl Key {
    /// Whether it opens anything now.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// Whether it may do something. To operate is to do everything.
    pub fn may(&self, operation: Operation) -> bool {
        self.operations.contains(&operation) || self.operations.contains(&Operation::Operate)
    }
}

/// A key as its holder shows it: `herm_<16 hex>_<64 hex>`.
#[derive(Clone)]
pub struct Shown {
    id: String,
    hash: blake3::Hash,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Shown {
    /// Reads one; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.strip_prefix('_')?.split_once('_')?;
        let is_hex = |text: &str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit());
        (is_hex(id, 16) && is_hex(secret, 64)).then(|| Self { id: id.to_owned(), hash: hash(secret) })
    }
}

fn hash(secret: &str) -> blake3::Hash {
    blake3::Hasher::new_derive_key("herm api key v1").update(secret.as_bytes()).finalize()
}

/// Makes a new key: its text, which is never seen again, its public part, and the hash of its secret part.
pub fn make(random: &dyn Random) -> Result<(String, String, blake3::Hash)> {
    let mut bytes = [0_u8; 40];
    random.fill(&mut bytes)?;
    let hex = herm::ids::hex;
    let (id, secret) = (hex(&bytes[..8]), hex(&bytes[8..]));
    Ok((format!("{PREFIX}_{id}_{secret}"), id, hash(&secret)))
}

/// Does something to the keys, so that every process hears of it, or not at all.
fn changing<T>(connection: &Connection, change: impl FnOnce() -> Result<T>) -> Result<T> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let heard = || connection.execute("UPDATE generation SET keys = keys + 1", []).map_err(failed);
    let changed = change().and_then(|changed| heard().map(|_| changed));
    let end = if changed.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.execute_batch(end).map_err(failed)?;
    changed
}

/// Writes a new key, and lets every process read the keys again.
pub fn add(connection: &Connection, key: &Key) -> Result<()> {
    let agents = key.agents.as_ref().map(|agents| joined(agents.iter().map(BrainId::as_str)));
    let operations = joined(key.operations.iter().map(|operation| operation.name()));
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let insert = || {
        connection
        .execute(
            "INSERT INTO keys (id, name, hash, subscriber, agents, operations, rate, micro_usd, created_at, expires_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            (
                &key.id,
                &key.name,
                key.hash.as_bytes(),
                key.subscriber.as_ref().map(SubscriberId::as_str),
                agents,
                operations,
                key.rate,
                key.micro_usd.map(number),
                key.created_at.millis(),
                key.expires_at.map(Timestamp::millis),
            ),
        )
        .map(|_| ())
        .map_err(failed)
    };
    changing(connection, insert)
}

/// Ends a key; whether it was one that still opened something.
pub fn revoke(connection: &Connection, id: &str, now: Timestamp) -> Result<bool> {
    changing(connection, || {
        connection
            .execute("UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL", (id, now.millis()))
            .map(|changed| changed > 0)
            .map_err(failed)
    })
}

/// Every key there is or was, oldest first.
pub fn all(connection: &Connection) -> Result<Vec<Key>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT id, name, hash, subscriber, agents, operations, rate, micro_usd, spent, created_at, expires_at, \
             revoked_at FROM keys ORDER BY created_at, id",
        )
        .map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        keys.push(read(row)?);
    }
    Ok(keys)
}

fn read(row: &Row<'_>) -> Result<Key> {
    let text = |column| row.get::<_, Option<String>>(column).map_err(failed);
    let number = |column| row.get::<_, Option<i64>>(column).map_err(failed);
    let needed = |column| row.get::<_, i64>(column).map_err(failed);
    Ok(Key {
        id: row.get(0).map_err(failed)?,
        name: row.get(1).map_err(failed)?,
        hash: row.get::<_, [u8; 32]>(2).map_err(failed)?.into(),
        subscriber: text(3)?.map(|text| text.parse()).transpose()?,
        agents: text(4)?.map(|text| split(&text).map(str::parse).collect::<Result<_>>()).transpose()?,
        operations: split(&text(5)?.unwrap_or_default()).map(str::parse).collect::<Result<_>>()?,
        rate: row.get(6).map_err(failed)?,
        micro_usd: number(7)?.map(i64::unsigned_abs),
        spent: needed(8)?.unsigned_abs(),
        created_at: Timestamp(needed(9)?),
        expires_at: number(10)?.map(Timestamp),
        revoked_at: number(11)?.map(Timestamp),
    })
}

fn joined<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|part| !part.is_empty())
}

/// The keys in memory, read again whenever one was made or revoked, by whichever process.
#[derive(Debug, Default)]
pub struct Keyring {
    known: Mutex<Known>,
    /// The word that keys were made, outside the database.
    marker: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Known {
    data_version: Option<i64>,
    generation: i64,
    keys: Arc<HashMap<String, Arc<Key>>>,
    /// Whether there ever was a key: a database that is emptied under a running server opens nothing to anyone.
    were_made: bool,
}

impl Keyring {
    /// The keys of these brains.
    pub fn new(layout: &Layout) -> Self {
        Self { marker: Some(ServerLayout::of(layout).keys_marker()), ..Self::default() }
    }

    /// Whether nobody has a key, and nobody ever had one.
    pub fn is_keyless(&self, book: &ServerDb) -> Result<bool> {
        let is_empty = self.keys(book)?.is_empty();
        Ok(is_empty && !self.known.lock().unwrap_or_else(PoisonError::into_inner).were_made)
    }

    /// The keys as they are now.
    pub fn keys(&self, book: &ServerDb) -> Result<Arc<HashMap<String, Arc<Key>>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        book.read(|connection| {
            let number = |query: &str| -> Result<i64> {
                connection.prepare_cached(query).and_then(|mut get| get.query_row([], |row| row.get(0))).map_err(failed)
            };
            // Changes whenever anybody else has committed anything; cheap to ask for.
            let data_version = number("PRAGMA data_version")?;
            if known.data_version == Some(data_version) {
                return Ok(());
            }
            let generation = number("SELECT keys FROM generation")?;
            if known.data_version.is_none() || generation != known.generation {
                let keys = all(connection)?.into_iter().map(|key| (key.id.clone(), Arc::new(key)));
                known.keys = Arc::new(keys.collect());
                known.generation = generation;
            }
            known.were_made |= !known.keys.is_empty() || self.marker.as_ref().is_some_and(|marker| marker.exists());
            known.data_version = Some(data_version);
            Ok(())
        })?;
        Ok(Arc::clone(&known.keys))
    }

    /// The key that was shown, if it opens anything now. Comparing takes the same time whatever differs.
    pub fn opened_by(&self, book: &ServerDb, shown: &Shown, now: Timestamp) -> Result<Option<Arc<Key>>> {
        let keys = self.keys(book)?;
        // `blake3::Hash` compares in constant time.
        let fits = |key: &&Arc<Key>| key.hash == shown.hash && key.is_valid(now);
        Ok(keys.get(&shown.id).filter(fits).cloned())
    }
}

/// What the tasks of a key have cost so far.
pub fn spent(connection: &Connection, id: &str) -> Result<u64> {
    connection
        .prepare_cached("SELECT spent FROM keys WHERE id = ?1")
        .and_then(|mut get| get.query_row([id], |row| row.get::<_, i64>(0)))
        .map(i64::unsigned_abs)
        .map_err(failed)
}
