//! Reading evidence: counts from the tallies, rows by their skill, and in both the rows that are not counted yet. Each
//! question is answered from one moment of the database, even if another process writes meanwhile.

use std::collections::HashMap;

use rusqlite::Connection;
use serde::Serialize;

use super::fold::{self, TallyRow, each_after};
use super::{COLUMNS, Evidence, SKILL_TOOLS, SessionEvidence, TurnEvidence, day_of, text};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::Slug;
use crate::memory::db::{Database, sql};
use crate::memory::outcome::{OutcomeCounts, OutcomeValue};

/// How much evidence there is, by skill and by tool. The most active come first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EvidenceSummary {
    /// Tool calls of tasks and imported sessions in the window.
    pub tool_events: u64,
    /// Those of them that failed or were refused.
    pub error_events: u64,
    /// Those of them that looked at or changed skills.
    pub skill_events: u64,
    /// Questions with their answers in the window.
    pub turn_events: u64,
    /// Tasks and imported sessions in the window, each counted once.
    pub session_events: u64,
    /// Every skill that was loaded.
    pub skills: Vec<SkillTally>,
    /// Every tool that was named.
    pub tools: Vec<ToolTally>,
}

/// How much evidence there is of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkillTally {
    /// The skill that was loaded when the events happened.
    pub skill: Slug,
    /// Tool events of sessions that had it loaded.
    pub events: u64,
    /// Those of them that looked at or changed skills.
    pub skill_events: u64,
    /// Those of them that failed or were refused.
    pub errors: u64,
    /// The highest number among them; 0 where there is none.
    pub last: i64,
}

/// How often a tool was called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolTally {
    /// The tool's name as the calls had it.
    pub tool: String,
    /// Its calls, with those that failed or were refused.
    pub events: u64,
    /// Those that failed or were refused.
    pub errors: u64,
}

/// What is kept of evidence as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct EvidenceTotals {
    /// Rows of tool events.
    pub tool_events: u64,
    /// Rows of questions and answers.
    pub turn_events: u64,
    /// Rows of sessions: one for each task, one for each imported session.
    pub session_events: u64,
    /// Rows that are still to be counted by day and skill.
    pub uncounted: u64,
    /// Roughly how many bytes the counted rows take.
    pub bytes: u64,
    /// When the oldest counted row is from.
    pub oldest: Option<Timestamp>,
    /// When the newest counted row is from.
    pub newest: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    events: i64,
    skill_events: i64,
    errors: i64,
    last: i64,
}

impl Tally {
    fn add(&mut self, tool: &str, events: i64, errors: i64, last: i64) {
        self.events += events;
        self.errors += errors;
        self.skill_events += if SKILL_TOOLS.contains(&tool) { events } else { 0 };
        self.last = self.last.max(last);
    }

    fn of(self, skill: Slug) -> SkillTally {
        let Self { events, skill_events, errors, last } = self;
        let count = i64::unsigned_abs;
        SkillTally { skill, events: count(events), skill_events: count(skill_events), errors: count(errors), last }
    }
}

/// The tallies of names.
#[derive(Debug, Default)]
struct Tallies(HashMap<String, Tally>);

impl Tallies {
    /// Adds to the tally of a name, which is copied only where it is new.
    fn add(&mut self, name: &str, tool: &str, events: i64, errors: i64, last: i64) {
        match self.0.get_mut(name) {
            Some(tally) => tally.add(tool, events, errors, last),
            None => self.0.entry(name.to_owned()).or_default().add(tool, events, errors, last),
        }
    }
}

/// What there is of evidence. A window is named by the UTC midnight it
/// begins with; see [`window_start`](super::window_start).
#[derive(Debug, Clone, Copy)]
pub struct EvidenceView<'a> {
    database: &'a Database,
}

impl<'a> EvidenceView<'a> {
    pub(super) fn new(database: &'a Database) -> Self {
        Self { database }
    }

    /// How much there is since a midnight: every skill and every tool.
    pub fn summary(&self, since: Timestamp) -> Result<EvidenceSummary> {
        self.at_once(|connection| {
            let failed = |source| sql("read memory.db", source);
            let (mut skills, mut tools) = (Tallies::default(), Tallies::default());
            let mut statement = connection
                .prepare_cached("SELECT skill, tool, events, errors, last FROM evidence_tallies WHERE day >= ?1")
                .map_err(failed)?;
            let mut rows = statement.query([day_of(since.millis())]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                let number = |column| row.get::<_, i64>(column).map_err(failed);
                let (skill, tool) = (text(row, 0)?, text(row, 1)?);
                // Each event is once under no skill, which is where tools are counted.
                match skill.is_empty() {
                    true => tools.add(tool, tool, number(2)?, number(3)?, number(4)?),
                    false => skills.add(skill, tool, number(2)?, number(3)?, number(4)?),
                }
            }
            uncounted(connection, since, |row| {
                let errors = i64::from(row.is_error);
                tools.add(row.tool, row.tool, 1, errors, row.id);
                for skill in &row.skills {
                    skills.add(skill, row.tool, 1, errors, row.id);
                }
            })?;
            let mut all = Tally::default();
            for (tool, tally) in &tools.0 {
                all.add(tool, tally.events, tally.errors, tally.last);
            }
            let mut skills: Vec<SkillTally> = skills
                .0
                .into_iter()
                .map(|(skill, tally)| Ok(tally.of(Slug::try_from(skill)?)))
                .collect::<Result<_>>()?;
            skills.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.skill.cmp(&b.skill)));
            let mut tools: Vec<ToolTally> = tools
                .0
                .into_iter()
                .map(|(tool, tally)| ToolTally {
                    tool,
                    events: tally.events.unsigned_abs(),
                    errors: tally.errors.unsigned_abs(),
                })
                .collect();
            tools.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.tool.cmp(&b.tool)));
            Ok(EvidenceSummary {
                tool_events: all.events.unsigned_abs(),
                error_events: all.errors.unsigned_abs(),
                skill_events: all.skill_events.unsigned_abs(),
                turn_events: count(connection, "SELECT count(*) FROM evidence_turns WHERE at >= ?1", since)?,
                session_events: count(connection, "SELECT count(*) FROM evidence_sessions WHERE at >= ?1", since)?,
                skills,
                tools,
            })
        })
    }

    /// How much there is of one skill since a midnight.
    pub fn counts_of(&self, skill: &Slug, since: Timestamp) -> Result<SkillTally> {
        self.at_once(|connection| {
            let failed = |source| sql("read memory.db", source);
            let mut tally = Tally::default();
            // Day by day: the table is in the order of days, and there are few of them.
            let next_day = |from: i64| {
                connection
                    .prepare_cached("SELECT min(day) FROM evidence_tallies WHERE day >= ?1")
                    .and_then(|mut get| get.query_row([from], |row| row.get::<_, Option<i64>>(0)))
                    .map_err(failed)
            };
            let mut from = day_of(since.millis());
            while let Some(day) = next_day(from)? {
                from = day.saturating_add(1);
                let mut statement = connection
                    .prepare_cached(
                        "SELECT tool, events, errors, last FROM evidence_tallies WHERE day = ?1 AND skill = ?2",
                    )
                    .map_err(failed)?;
                let mut rows = statement.query((day, skill.as_str())).map_err(failed)?;
                while let Some(row) = rows.next().map_err(failed)? {
                    let number = |column| row.get::<_, i64>(column).map_err(failed);
                    tally.add(text(row, 0)?, number(1)?, number(2)?, number(3)?);
                }
            }
            uncounted(connection, since, |row| {
                if row.is_of(skill.as_str()) {
                    tally.add(row.tool, 1, i64::from(row.is_error), row.id);
                }
            })?;
            Ok(tally.of(skill.clone()))
        })
    }

    /// The rows of sessions that had a skill loaded, newest first, with their numbers.
    pub fn of_skill(&self, skill: &Slug, since: Timestamp, limit: usize) -> Result<Vec<(i64, Evidence)>> {
        self.newest(skill.as_str(), since, limit)
    }

    /// The rows of all sessions, newest first, with their numbers.
    pub fn recent(&self, since: Timestamp, limit: usize) -> Result<Vec<(i64, Evidence)>> {
        self.newest("", since, limit)
    }

    fn newest(&self, skill: &str, since: Timestamp, limit: usize) -> Result<Vec<(i64, Evidence)>> {
        self.at_once(|connection| {
            let failed = |source| sql("read memory.db", source);
            let mut found: Vec<(i64, i64)> = Vec::new();
            let mut statement = connection
                .prepare_cached(
                    "SELECT at, evidence FROM evidence_by_skill WHERE skill = ?1 AND at >= ?2 \
                     ORDER BY at DESC, evidence DESC LIMIT ?3",
                )
                .map_err(failed)?;
            let rows = statement
                .query_map((skill, since.millis(), row_limit(limit)), |row| Ok((row.get(0)?, row.get(1)?)))
                .map_err(failed)?;
            for row in rows {
                found.push(row.map_err(failed)?);
            }
            uncounted(connection, since, |row| {
                if row.at >= since.millis() && row.is_of(skill) {
                    found.push((row.at, row.id));
                }
            })?;
            found.sort_unstable_by(|a, b| b.cmp(a));
            found.truncate(limit);
            let mut statement =
                connection.prepare_cached(&format!("SELECT {COLUMNS} FROM evidence WHERE id = ?1")).map_err(failed)?;
            let mut evidence = Vec::with_capacity(found.len());
            for (_, id) in found {
                let mut rows = statement.query([id]).map_err(failed)?;
                if let Some(row) = rows.next().map_err(failed)? {
                    evidence.push(Evidence::read(row)?);
                }
            }
            Ok(evidence)
        })
    }

    /// What was asked and answered, newest first, with the numbers of the rows.
    pub fn recent_turns(&self, since: Timestamp, limit: usize) -> Result<Vec<(i64, TurnEvidence)>> {
        self.turns("evidence_turns t WHERE ?3 IS NULL AND", None, since, limit)
    }

    /// The same of sessions that had a skill loaded.
    pub fn turns_with(&self, skill: &Slug, since: Timestamp, limit: usize) -> Result<Vec<(i64, TurnEvidence)>> {
        let of_skill = "evidence_turns t JOIN evidence_sessions s ON s.task = t.task \
            WHERE instr(' ' || s.skills || ' ', ' ' || ?3 || ' ') > 0 AND";
        self.turns(of_skill, Some(skill), since, limit)
    }

    fn turns(
        &self,
        from: &str,
        skill: Option<&Slug>,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<(i64, TurnEvidence)>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .database
            .connection
            .prepare_cached(&format!(
                "SELECT t.id, t.task, t.number, t.at, t.model, t.platform, t.asked, t.answered FROM {from} t.at >= ?1 \
                 ORDER BY t.at DESC, t.id DESC LIMIT ?2"
            ))
            .map_err(failed)?;
        let rows = statement
            .query_map((since.millis(), row_limit(limit), skill.map(Slug::as_str)), |row| {
                let turn = TurnEvidence {
                    task: row.get(1)?,
                    number: row.get(2)?,
                    at: Timestamp(row.get(3)?),
                    model: row.get(4)?,
                    platform: row.get(5)?,
                    asked: row.get(6)?,
                    answered: row.get(7)?,
                };
                Ok((row.get(0)?, turn))
            })
            .map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }

    /// The sessions that had a skill loaded and began in `since..until`, newest first.
    pub fn sessions_with(&self, skill: &Slug, since: Timestamp, until: Timestamp) -> Result<Vec<SessionEvidence>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .database
            .connection
            .prepare_cached(&format!(
                "SELECT {} FROM evidence_sessions WHERE at >= ?2 AND at < ?3 \
                 AND instr(' ' || skills || ' ', ' ' || ?1 || ' ') > 0 ORDER BY at DESC, task DESC",
                SessionEvidence::COLUMNS
            ))
            .map_err(failed)?;
        let mut rows = statement.query((skill.as_str(), since.millis(), until.millis())).map_err(failed)?;
        let mut sessions = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            sessions.push(SessionEvidence::read(row)?);
        }
        Ok(sessions)
    }

    /// How good the answer of a session was, as far as is known.
    pub fn value_of(&self, session: &SessionEvidence) -> Result<OutcomeValue> {
        self.database.value_of(&session.task)
    }

    /// How good the answers of all tasks were that began since a moment.
    pub fn outcome_counts(&self, since: Timestamp) -> Result<OutcomeCounts> {
        self.database.outcome_counts(since)
    }

    /// Whether there is a row with this number.
    pub fn known(&self, id: i64) -> Result<bool> {
        self.database
            .connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM evidence WHERE id = ?1)")
            .and_then(|mut find| find.query_row([id], |row| row.get(0)))
            .map_err(|source| sql("read memory.db", source))
    }

    /// What is kept as a whole.
    pub fn totals(&self) -> Result<EvidenceTotals> {
        self.at_once(|connection| {
            let mark = fold::mark(connection)?.unwrap_or_default();
            let all = |query: &str| count(connection, query, Timestamp(i64::MIN));
            let end = |order: &str| -> Result<Option<Timestamp>> {
                let query = format!("SELECT {order}(at) FROM evidence_by_skill WHERE skill = ''");
                connection
                    .prepare_cached(&query)
                    .and_then(|mut get| get.query_row([], |row| row.get::<_, Option<i64>>(0)))
                    .map(|at| at.map(Timestamp))
                    .map_err(|source| sql("read memory.db", source))
            };
            Ok(EvidenceTotals {
                tool_events: all("SELECT count(*) FROM evidence WHERE id >= ?1")?,
                turn_events: all("SELECT count(*) FROM evidence_turns WHERE at >= ?1")?,
                session_events: all("SELECT count(*) FROM evidence_sessions WHERE at >= ?1")?,
                uncounted: count(connection, "SELECT count(*) FROM evidence WHERE id > ?1", Timestamp(mark.tallied))?,
                bytes: mark.bytes.unsigned_abs(),
                oldest: end("min")?,
                newest: end("max")?,
            })
        })
    }

    /// Reads from one moment: counting, which the brain's owner does meanwhile, moves rows from the
    /// uncounted to the counted.
    fn at_once<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let connection = &self.database.connection;
        if !connection.is_autocommit() {
            return read(connection);
        }
        let moment = connection.unchecked_transaction().map_err(|source| sql("read memory.db", source))?;
        let found = read(connection);
        drop(moment);
        found
    }
}

fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn count(connection: &Connection, query: &str, since: Timestamp) -> Result<u64> {
    connection
        .prepare_cached(query)
        .and_then(|mut count| count.query_row([since.millis()], |row| row.get::<_, i64>(0)))
        .map(i64::unsigned_abs)
        .map_err(|source| sql("read memory.db", source))
}

/// The rows of a window that are not counted yet.
fn uncounted(connection: &Connection, since: Timestamp, mut each: impl FnMut(&TallyRow<'_>)) -> Result<()> {
    let first = day_of(since.millis());
    let tallied = fold::mark(connection)?.unwrap_or_default().tallied;
    each_after(connection, tallied, i64::MAX, |row| {
        if row.day() >= first {
            each(row);
        }
    })
}
