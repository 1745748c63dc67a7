//! Tasks that were accepted, as the server database keeps them.

use herm::{BrainId, Error, Result, TaskId, TaskStatus, Timestamp};
use rusqlite::{Connection, Row};
use serde::Serialize;

use crate::server_db::failed;

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was accepted, and waits for its turn.
    Queued,
    /// Its turn has come, and it is not over.
    Running,
    /// It came to an outcome.
    Done,
    /// Its caller no longer wants it.
    Cancelled,
    /// It never came to an outcome.
    Failed,
}

impl State {
    const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Done, Self::Cancelled, Self::Failed];

    /// The state with a name; `None` where no state has it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The stable name, in the database and in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// What attempts that came to no outcome have cost, in millionths of a dollar. The last one stands apart until it is known
/// that its step is not in the brain: where it is, the receipt has its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tries {
    /// All but the last.
    pub before: u64,
    /// What the last one cost.
    pub last: u64,
}

impl Tries {
    /// What all attempts together have cost.
    pub fn all(self) -> u64 {
        self.before + self.last
    }

    /// Notes what one more attempt cost: it is the last one from now on.
    pub fn add(&mut self, micro_usd: u64) {
        *self = Self { before: self.all(), last: micro_usd };
    }

    /// Counts the last one with the others: its step is not in the brain.
    pub fn count_last(&mut self) {
        self.add(0);
    }
}

/// One task: a row of the table `tasks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The id that its caller was told.
    pub id: TaskId,
    /// The agent whose brain it runs on.
    pub agent: BrainId,
    /// Whose it is: the digest of a subscriber, or a key.
    pub owner: String,
    /// The key it was given under.
    pub key: Option<String>,
    /// The digest of its idempotency key.
    pub idempotency: Option<[u8; 32]>,
    /// The digest of what was asked.
    pub digest: [u8; 32],
    /// What was asked, until it is over.
    pub request: Option<String>,
    /// How far it has come.
    pub state: State,
    /// Whether its caller no longer wants it.
    pub cancelled: bool,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it began to run; `None` until then.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
    /// How it went; `None` where it came to no outcome.
    pub status: Option<TaskStatus>,
    /// Its outcome, as JSON.
    pub outcome: Option<String>,
    /// Why there is none, as JSON.
    pub problem: Option<String>,
    /// What the facilitator said when its payment was taken.
    pub payment: Option<String>,
    /// What attempts that came to no outcome have cost.
    pub tries: Tries,
    /// How good its answer was, as an outcome is stored.
    pub value: Option<String>,
    /// When it has to be done. None of a task that an earlier edition accepted.
    pub deadline: Option<Timestamp>,
}

const COLUMNS: &str = "id, agent, owner, key, idempotency, digest, request, state, cancelled, created_at, started_at, \
    finished_at, status, outcome, problem, payment, spent, spent_last, value, deadline";
/// The same for lists, which carry neither answers nor questions.
const LISTED: &str = "id, agent, owner, key, idempotency, digest, NULL, state, cancelled, created_at, started_at, \
    finished_at, status, NULL, problem, NULL, spent, spent_last, value, deadline";

/// What became of a task that was to be kept.
#[derive(Debug)]
pub enum InsertResult {
    /// It was new, and is written.
    New,
    /// Its idempotency key is that of an earlier one.
    Known(Box<TaskRow>),
}

/// Keeps a task, unless its idempotency key is known.
pub fn add(connection: &Connection, row: &TaskRow) -> Result<InsertResult> {
    if let Some(key) = &row.idempotency
        && let Some(known) = known(connection, key)?
    {
        return Ok(InsertResult::Known(Box::new(known)));
    }
    connection
        .prepare_cached(&format!(
            "INSERT INTO tasks ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
             ?17, ?18, ?19, ?20)"
        ))
        .and_then(|mut add| {
            add.execute(rusqlite::params![
                row.id.as_str(),
                row.agent.as_str(),
                row.owner,
                row.key,
                row.idempotency,
                row.digest,
                row.request,
                row.state.name(),
                row.cancelled,
                row.created_at.millis(),
                row.started_at.map(Timestamp::millis),
                row.finished_at.map(Timestamp::millis),
                row.status.map(TaskStatus::name),
                row.outcome,
                row.problem,
                row.payment,
                stored(row.tries.before),
                stored(row.tries.last),
                row.value,
                row.deadline.map(Timestamp::millis),
            ])
        })
        .map(|_| InsertResult::New)
        .map_err(failed)
}

/// Notes that a task has begun, and what its attempts have cost so far.
pub fn begin(connection: &Connection, id: &TaskId, at: Timestamp, tries: Tries) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE tasks SET state = 'running', started_at = ?2, spent = ?3, spent_last = ?4 \
             WHERE id = ?1 AND finished_at IS NULL",
        )
        .and_then(|mut put| put.execute((id.as_str(), at.millis(), stored(tries.before), stored(tries.last))))
        .map(|_| ())
        .map_err(failed)
}

fn stored(micro_usd: u64) -> i64 {
    i64::try_from(micro_usd).unwrap_or(i64::MAX)
}

/// Notes that nobody wants a task any more, so that no restart runs it.
pub fn cancel(connection: &Connection, id: &TaskId) -> Result<()> {
    connection
        .prepare_cached("UPDATE tasks SET cancelled = 1 WHERE id = ?1")
        .and_then(|mut put| put.execute([id.as_str()]))
        .map(|_| ())
        .map_err(failed)
}

/// How a task ended.
#[derive(Debug, Clone)]
pub struct End {
    /// The state it ends in.
    pub state: State,
    /// How it went; `None` where it came to no outcome.
    pub status: Option<TaskStatus>,
    /// Its outcome, as JSON.
    pub outcome: Option<String>,
    /// How good its answer was, as an outcome is stored.
    pub value: Option<String>,
    /// Why there is none, as JSON.
    pub problem: Option<String>,
    /// What the facilitator said when its payment was taken.
    pub payment: Option<String>,
    /// Whether the same request may be tried again: nothing came of this one, and nothing was changed.
    pub may_be_tried_again: bool,
    /// Millionths of a dollar that are charged to its key.
    pub micro_usd: u64,
    /// When the task was over.
    pub at: Timestamp,
}

/// Notes how a task that is kept ended; what it was asked is let go.
pub fn finish(connection: &Connection, id: &TaskId, key: Option<&str>, end: &End) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE tasks SET state = ?2, finished_at = ?3, status = ?4, outcome = ?5, problem = ?6, payment = coalesce(?7, payment), \
             request = NULL, idempotency = iif(?8, NULL, idempotency), value = ?9 WHERE id = ?1 AND finished_at IS NULL",
        )
        .and_then(|mut put| {
            put.execute((
                id.as_str(),
                end.state.name(),
                end.at.millis(),
                end.status.map(TaskStatus::name),
                &end.outcome,
                &end.problem,
                &end.payment,
                end.may_be_tried_again,
                &end.value,
            ))
        })
        .map_err(failed)?;
    charge(connection, key, end.micro_usd)
}

/// Notes how good the answer of a task that is over was; `outcome` is its outcome with that, as JSON.
pub fn rate(connection: &Connection, id: &TaskId, value: &str, outcome: Option<&str>) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE tasks SET value = ?2, outcome = coalesce(?3, outcome) WHERE id = ?1 AND finished_at IS NOT NULL",
        )
        .and_then(|mut put| put.execute((id.as_str(), value, outcome)))
        .map(|_| ())
        .map_err(failed)
}

/// Adds to what the tasks of a key have cost.
pub fn charge(connection: &Connection, key: Option<&str>, micro_usd: u64) -> Result<()> {
    let (Some(key), true) = (key, micro_usd > 0) else { return Ok(()) };
    connection
        .prepare_cached("UPDATE keys SET spent = spent + ?2 WHERE id = ?1")
        .and_then(|mut put| put.execute((key, stored(micro_usd))))
        .map(|_| ())
        .map_err(failed)
}

/// The task with this id; `None` where it is not kept.
pub fn get(connection: &Connection, id: &TaskId) -> Result<Option<TaskRow>> {
    one(connection, "id = ?1", id.as_str())
}

/// The task with an idempotency key.
pub fn known(connection: &Connection, key: &[u8; 32]) -> Result<Option<TaskRow>> {
    one(connection, "idempotency = ?1", key)
}

fn one(connection: &Connection, which: &str, value: impl rusqlite::ToSql) -> Result<Option<TaskRow>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM tasks WHERE {which}")).map_err(failed)?;
    let mut rows = statement.query([value]).map_err(failed)?;
    rows.next().map_err(failed)?.map(read).transpose()
}

/// Which tasks to list.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Whose; everyone's, where it does not say.
    pub owner: Option<String>,
    /// Of which agents; all, where it does not say.
    pub agents: Option<Vec<String>>,
    /// In which state; any, where it does not say.
    pub state: Option<State>,
    /// Those before this one.
    pub before: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// Tasks, newest first, without answers. Only what is asked for is in the query, so that an index serves it.
pub fn list(connection: &Connection, wanted: &Wanted) -> Result<Vec<TaskRow>> {
    let (query, values) = query(wanted);
    let mut statement = connection.prepare_cached(&query).map_err(failed)?;
    let mut rows = statement.query(values.as_slice()).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn query(wanted: &Wanted) -> (String, Vec<&dyn rusqlite::ToSql>) {
    let mut conditions = vec!["1".to_owned()];
    let mut values: Vec<&dyn rusqlite::ToSql> = Vec::new();
    let (owner, before) = (wanted.owner.as_ref(), wanted.before.as_ref());
    let conditions_of: [(&str, Option<&dyn rusqlite::ToSql>); 3] = [
        ("owner =", owner.map(|owner| owner as _)),
        ("state =", wanted.state.as_ref().map(|state| state as _)),
        ("id <", before.map(|before| before as _)),
    ];
    for (column, value) in conditions_of {
        if let Some(value) = value {
            values.push(value);
            conditions.push(format!("{column} ?{}", values.len()));
        }
    }
    if let Some(agents) = &wanted.agents {
        let first = values.len() + 1;
        values.extend(agents.iter().map(|agent| agent as &dyn rusqlite::ToSql));
        let places: Vec<String> = (first..=values.len()).map(|place| format!("?{place}")).collect();
        conditions.push(format!("agent IN ({})", places.join(", ")));
    }
    let query = format!(
        "SELECT {LISTED} FROM tasks WHERE {} ORDER BY id DESC LIMIT {}",
        conditions.join(" AND "),
        wanted.limit
    );
    (query, values)
}

/// The tasks that were accepted and are not over, oldest first.
pub fn unfinished(connection: &Connection) -> Result<Vec<TaskRow>> {
    let mut statement = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM tasks WHERE finished_at IS NULL ORDER BY id"))
        .map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Lets go of tasks that were over before a moment; how many.
pub fn forget(connection: &Connection, before: Timestamp) -> Result<usize> {
    connection.execute("DELETE FROM tasks WHERE finished_at < ?1", [before.millis()]).map_err(failed)
}

/// The state of a row. Another text is damage: no edition of the server has written it.
fn state(text: &str) -> Result<State> {
    State::named(text).ok_or_else(|| {
        Error::corrupt(format!("{text:?} is not a state of a task")).hint("restore the server's database from a backup")
    })
}

impl rusqlite::ToSql for State {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}

fn read(row: &Row<'_>) -> Result<TaskRow> {
    let text = |column| row.get::<_, Option<String>>(column).map_err(failed);
    let needed = |column| row.get::<_, String>(column).map_err(failed);
    let amount = |column| row.get::<_, i64>(column).map(i64::unsigned_abs).map_err(failed);
    let moment = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp)).map_err(failed);
    Ok(TaskRow {
        id: needed(0)?.try_into()?,
        agent: needed(1)?.parse()?,
        owner: needed(2)?,
        key: text(3)?,
        idempotency: row.get(4).map_err(failed)?,
        digest: row.get(5).map_err(failed)?,
        request: text(6)?,
        state: state(&needed(7)?)?,
        cancelled: row.get(8).map_err(failed)?,
        created_at: Timestamp(row.get(9).map_err(failed)?),
        started_at: moment(10)?,
        finished_at: moment(11)?,
        status: text(12)?.map(|status| status.parse()).transpose()?,
        outcome: text(13)?,
        problem: text(14)?,
        payment: text(15)?,
        tries: Tries { before: amount(16)?, last: amount(17)? },
        value: text(18)?,
        deadline: moment(19)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How SQLite would find the rows of a list.
    fn plan(connection: &Connection, wanted: &Wanted) -> String {
        let (query, values) = query(wanted);
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let steps = statement.query_map(values.as_slice(), |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<rusqlite::Result<Vec<_>>>().unwrap().join("; ")
    }

    #[test]
    fn every_list_is_found_by_an_index_and_never_sorted() {
        let dir = tempfile::tempdir().unwrap();
        let connection = crate::open(&dir.path().join("operator/book.db")).unwrap();
        let (owner, state) = (Some("o".to_owned()), Some(State::Done));
        let (before, agents) = (Some("t".to_owned()), Some(vec!["7".to_owned()]));
        let lists = [
            (Wanted::default(), "INDEX sqlite_autoindex_tasks_1"),
            (Wanted { before: before.clone(), ..Wanted::default() }, "INDEX sqlite_autoindex_tasks_1 (id<?)"),
            (Wanted { owner: owner.clone(), ..Wanted::default() }, "INDEX tasks_by_owner (owner=?)"),
            (Wanted { owner, before: before.clone(), ..Wanted::default() }, "INDEX tasks_by_owner (owner=? AND id<?)"),
            (Wanted { state, before: before.clone(), ..Wanted::default() }, "INDEX tasks_by_state (state=? AND id<?)"),
            (Wanted { agents, before, ..Wanted::default() }, "INDEX tasks_by_agent (agent=? AND id<?)"),
        ];
        for (wanted, index) in lists {
            let plan = plan(&connection, &Wanted { limit: 50, ..wanted.clone() });
            assert!(plan.contains(index), "{wanted:?}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{wanted:?} is sorted: {plan}");
        }
    }

    #[test]
    fn every_state_is_read_back_and_a_text_that_is_none_is_damage() {
        for known in State::ALL {
            assert_eq!(state(known.name()).expect("a state"), known);
            assert_eq!(serde_json::to_value(known).expect("JSON"), serde_json::json!(known.name()));
        }
        let dir = tempfile::tempdir().unwrap();
        let connection = crate::open(&dir.path().join("operator/book.db")).unwrap();
        let id: TaskId = "t".parse().unwrap();
        let row = TaskRow {
            id: id.clone(),
            agent: "7".parse().unwrap(),
            owner: "o".to_owned(),
            key: None,
            idempotency: None,
            digest: [0; 32],
            request: None,
            state: State::Done,
            cancelled: false,
            deadline: None,
            created_at: Timestamp(1),
            started_at: None,
            finished_at: Some(Timestamp(2)),
            status: Some(TaskStatus::Incomplete),
            outcome: None,
            problem: None,
            payment: None,
            tries: Tries::default(),
            value: None,
        };
        add(&connection, &row).unwrap();
        assert_eq!(get(&connection, &id).unwrap(), Some(row));
        for (column, text) in [("state", "Done"), ("status", "good")] {
            let known: String =
                connection.query_row(&format!("SELECT {column} FROM tasks"), [], |row| row.get(0)).unwrap();
            connection.execute(&format!("UPDATE tasks SET {column} = ?1"), [text]).unwrap();
            let error = get(&connection, &id).expect_err("refused");
            assert_eq!(error.kind(), herm::ErrorKind::Corrupt, "{error}");
            assert!(error.message().contains(text), "{error}");
            connection.execute(&format!("UPDATE tasks SET {column} = ?1"), [&known]).unwrap();
        }
    }
}
