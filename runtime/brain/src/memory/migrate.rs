//! Changes of the schema of `memory.db` that a brain's tuning asks for. They are indexes, and nothing else: made
//! from rows that are there, gone without loss, no part of any hash. What they may touch is held by SQLite's
//! authorizer, not by reading the SQL.

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::db::sql;
use crate::error::{Error, Result};
use crate::tuning::Migration;

/// What the name of everything a migration makes begins with.
pub const PREFIX: &str = "x_";

/// The most indexes a tuning may ask for: each is built when the brain is opened elsewhere.
const MOST: usize = 8;

/// The columns an index may be on: those whose values are small. Contents, the journal and the
/// full-text indexes have none.
const SMALL_COLUMNS: [(&str, &[&str]); 5] = [
    ("messages", &["task", "scope", "role", "at"]),
    ("facts", &["scope", "key", "task", "at"]),
    ("task_log", &["task", "scope", "outcome", "at"]),
    ("skill_usage", &["slug", "created_by", "state", "pinned", "use_count", "last_used_at"]),
    ("evidence", &["step", "task", "tool", "status", "millis", "at"]),
];

/// Brings the indexes of a brain to what its migrations make; whether anything had to change.
pub(crate) fn reconcile(connection: &mut Connection, migrations: &[Migration]) -> Result<bool> {
    let failed = |source| sql("migrate memory.db", source);
    if migrations.len() > MOST {
        return Err(refused(&format!("a brain has at most {MOST} of them")));
    }
    let mut wanted: Vec<&str> = migrations.iter().map(|migration| migration.up.trim().trim_end_matches(';')).collect();
    wanted.sort_unstable();
    let mut there = made(connection)?;
    there.sort_by(|a, b| a.1.cmp(&b.1));
    if there.iter().map(|(_, statement)| statement.as_str()).eq(wanted.iter().copied()) {
        return Ok(false);
    }
    connection.execute_batch("SAVEPOINT migrate").map_err(failed)?;
    let remade = remake(connection, &there, migrations);
    let end = if remade.is_ok() { "RELEASE migrate" } else { "ROLLBACK TO migrate; RELEASE migrate" };
    connection.execute_batch(end).map_err(failed)?;
    remade.map(|()| true)
}

fn remake(connection: &mut Connection, there: &[(String, String)], migrations: &[Migration]) -> Result<()> {
    for (name, _) in there {
        connection
            .execute_batch(&format!("DROP INDEX \"{}\"", name.replace('"', "\"\"")))
            .map_err(|source| sql("migrate memory.db", source))?;
    }
    for migration in migrations {
        if !is_plain(migration.up.trim().trim_end_matches(';')) {
            return Err(refused("it is not a plain index"));
        }
        run(connection, &migration.up)?;
    }
    // SQLite keeps the statement as it was written; where it does not, no later look could tell what is there.
    let kept = made(connection)?;
    let is_kept = |migration: &Migration| {
        kept.iter().any(|(_, statement)| statement == migration.up.trim().trim_end_matches(';'))
    };
    match migrations.iter().all(is_kept) && kept.len() == migrations.len() {
        true => Ok(()),
        false => Err(refused("it is not one plain statement")),
    }
}

/// Whether a statement makes an index of our kind on columns alone: no expression that would be someone else's code,
/// no condition, and nothing that forbids a row and so stops a later step.
pub(super) fn is_plain(statement: &str) -> bool {
    let word = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    let Some(rest) = statement.strip_prefix("CREATE INDEX ") else { return false };
    let Some((name, rest)) = rest.split_once(" ON ") else { return false };
    let Some((table, columns)) = rest.strip_suffix(')').and_then(|rest| rest.split_once('(')) else { return false };
    let columns: Vec<&str> = columns.split(',').map(str::trim).collect();
    let small = SMALL_COLUMNS.iter().find(|(known, _)| *known == table.trim());
    let distinct = columns.iter().collect::<std::collections::BTreeSet<_>>().len() == columns.len();
    name.starts_with(PREFIX)
        && word(name)
        && distinct
        && small.is_some_and(|(_, small)| columns.iter().all(|column| small.contains(column)))
}

fn refused(why: &str) -> Error {
    Error::invalid(format!("the migration is refused: {why}")).hint(format!(
        "a migration is one statement, CREATE INDEX {PREFIX}name ON table(columns), and touches nothing else"
    ))
}

/// The indexes that migrations made, with their SQL.
fn made(connection: &Connection) -> Result<Vec<(String, String)>> {
    let failed = |source| sql("migrate memory.db", source);
    let query =
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND name LIKE 'x\\_%' ESCAPE '\\' ORDER BY name";
    let mut statement = connection.prepare(query).map_err(failed)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Runs a migration that may make indexes of a name of its own, and nothing else.
fn run(connection: &mut Connection, statements: &str) -> Result<()> {
    connection
        .authorizer(Some(
            |context: AuthContext<'_>| {
                if allowed(&context.action) { Authorization::Allow } else { Authorization::Deny }
            },
        ))
        .map_err(|source| sql("migrate memory.db", source))?;
    let ran = connection.execute_batch(statements);
    connection
        .authorizer(None::<fn(AuthContext<'_>) -> Authorization>)
        .map_err(|source| sql("migrate memory.db", source))?;
    ran.map_err(|source| refused(&source.to_string()))
}

fn allowed(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::CreateIndex { index_name, .. } => index_name.starts_with(PREFIX),
        AuthAction::Reindex { index_name } => index_name.starts_with(PREFIX),
        // Making an index writes its row of the schema and reads the table it is for.
        AuthAction::Insert { table_name } => *table_name == "sqlite_master",
        AuthAction::Update { table_name, .. } => *table_name == "sqlite_master",
        AuthAction::Read { .. } | AuthAction::Select | AuthAction::Function { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE messages(id INTEGER PRIMARY KEY, at INTEGER, text TEXT)").unwrap();
        connection
    }

    fn migration(up: &str) -> Migration {
        Migration { up: up.to_owned() }
    }

    #[test]
    fn an_index_is_made_once_and_goes_with_its_migration() {
        let mut connection = database();
        let one = [migration("CREATE INDEX x_messages_at ON messages(at);")];
        assert!(reconcile(&mut connection, &one).unwrap());
        assert!(!reconcile(&mut connection, &one).unwrap(), "it is there already");
        assert_eq!(made(&connection).unwrap().len(), 1);
        assert!(reconcile(&mut connection, &[]).unwrap());
        assert!(made(&connection).unwrap().is_empty());
        assert!(!reconcile(&mut connection, &[]).unwrap());
    }

    #[test]
    fn anything_but_an_index_of_its_own_name_is_refused_and_changes_nothing() {
        let mut connection = database();
        connection.execute_batch("INSERT INTO messages VALUES (1, 2, 'kept')").unwrap();
        reconcile(&mut connection, &[migration("CREATE INDEX x_a ON messages(at);")]).unwrap();
        let before = made(&connection).unwrap();
        for bad in [
            "DELETE FROM messages",
            "UPDATE messages SET text = 'gone'",
            "DROP TABLE messages",
            "CREATE TABLE x_mine(a)",
            "CREATE INDEX mine ON messages(at)",
            "CREATE TRIGGER x_t AFTER INSERT ON messages BEGIN DELETE FROM messages; END",
            "CREATE VIEW x_v AS SELECT * FROM messages",
            "ATTACH 'other.db' AS other",
            "PRAGMA writable_schema = 1",
            "PRAGMA user_version = 9",
            "CREATE INDEX x_b ON messages(at); DELETE FROM messages",
            "CREATE INDEX x_b ON messages(at); CREATE INDEX x_c ON messages(task)",
            "CREATE INDEX IF NOT EXISTS x_b ON messages(at)",
            "CREATE UNIQUE INDEX x_b ON messages(at)",
            "CREATE INDEX x_b ON messages(content)",
            "CREATE INDEX x_b ON messages(at, at)",
            "CREATE INDEX x_b ON blobs(content)",
            "CREATE INDEX x_b ON messages_fts_data(block)",
            "CREATE INDEX x_b ON messages(lower(text))",
            "CREATE INDEX x_b ON messages(at) WHERE at > 3",
            "SELECT 1",
            "COMMIT",
            "ROLLBACK TO migrate",
            "INSERT INTO sqlite_master VALUES ('table','x','x',0,'')",
            "VACUUM",
            "nonsense",
        ] {
            assert!(reconcile(&mut connection, &[migration(bad)]).is_err(), "{bad}");
            assert_eq!(made(&connection).unwrap(), before, "{bad}");
            let text: String = connection.query_row("SELECT text FROM messages", [], |row| row.get(0)).unwrap();
            assert_eq!(text, "kept", "{bad}");
        }
    }
}
