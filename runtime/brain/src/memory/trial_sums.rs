//! Trials in numbers: what the tasks of each arm come to, and which trials have something new to look at.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, Row};
use serde::Serialize;

use super::db::{Database, sql};
use super::outcome::read_log;
use super::trial::{Arm, read_score};
use super::trial_window::{TrialWindow, WITHIN, tried_again, window};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::Slug;

/// What the tasks of one arm come to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArmSum {
    /// How many tasks are in the arm, with those whose outcome is not known.
    pub tasks: u64,
    /// How many of them have a known outcome.
    pub known: u64,
    /// The sum of their scores; a good answer is 1, a bad one 0.
    pub score: f64,
    /// Calls that failed or were refused.
    pub errors: u64,
    /// The turns of all these tasks together.
    pub turns: u64,
    /// Cost in millionths of a dollar.
    pub micro_usd: u64,
}

/// What the tasks of a trial come to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialSum {
    /// Tasks that were shown the skill.
    pub shown: ArmSum,
    /// Tasks that it was held back from.
    pub held_back: ArmSum,
    /// Rehearsals with the skill.
    pub rehearsed_with: ArmSum,
    /// Rehearsals of the same tasks without the skill.
    pub rehearsed_without: ArmSum,
    /// When the last task of it began.
    pub last: Option<Timestamp>,
}

impl TrialSum {
    fn arm(&mut self, arm: Arm, rehearsed: bool) -> &mut ArmSum {
        match (arm, rehearsed) {
            (Arm::Shown, false) => &mut self.shown,
            (Arm::HeldBack, false) => &mut self.held_back,
            (Arm::Shown, true) => &mut self.rehearsed_with,
            (Arm::HeldBack, true) => &mut self.rehearsed_without,
        }
    }
}

/// Up to where rows of a brain were looked at. What stands after it is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialMark {
    tasks: i64,
    outcomes: i64,
    skills: i64,
}

impl TrialMark {
    /// Before the first row: everything that is there counts as new.
    pub const START: Self = Self { tasks: 0, outcomes: 0, skills: 0 };
}

/// What is new of the trials of a brain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialNews {
    /// Up to where this looks.
    pub mark: TrialMark,
    /// Skills with a task or an outcome that is new.
    pub touched: BTreeSet<Slug>,
    /// Skills that the agent made and that never were on trial. Archived and pinned ones are none.
    pub untried: BTreeSet<Slug>,
}

/// So many rows before the last are looked at again by a process that does not know how far the one before it came.
const RECENT_ROWS: i64 = 64;

impl Database {
    /// Where to begin in a process that has not looked at this brain yet: shortly before the last rows, and at the
    /// first of the skills.
    pub(crate) fn recent_trial_mark(&self) -> Result<TrialMark> {
        let last = |table| last_id(&self.connection, table);
        Ok(TrialMark {
            tasks: last("trial_tasks")? - RECENT_ROWS,
            outcomes: last("outcomes")? - RECENT_ROWS,
            skills: 0,
        })
    }

    /// What is new of trials since a mark. Costs what is new, not what is there.
    pub(crate) fn trial_news(&self, since: TrialMark) -> Result<TrialNews> {
        let last = |table| last_id(&self.connection, table);
        let mark = TrialMark { tasks: last("trial_tasks")?, outcomes: last("outcomes")?, skills: last("skill_usage")? };
        let mut touched = self.slugs("SELECT DISTINCT skill FROM trial_tasks WHERE id > ?1", since.tasks)?;
        // A rewind takes rows away: then the last number is smaller, and nothing before it is new.
        if mark.outcomes > since.outcomes {
            let query = "SELECT DISTINCT t.skill FROM outcomes o JOIN trial_tasks t ON t.task = o.task WHERE o.id > ?1";
            touched.extend(self.slugs(query, since.outcomes)?);
        }
        let query = "SELECT slug FROM skill_usage WHERE id > ?1 AND created_by = 'agent' AND state <> 'archived' \
            AND pinned = 0 AND NOT EXISTS (SELECT 1 FROM trials WHERE skill = slug)";
        Ok(TrialNews { mark, touched, untried: self.slugs(query, since.skills)? })
    }

    fn slugs(&self, query: &str, after: i64) -> Result<BTreeSet<Slug>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self.connection.prepare_cached(query).map_err(failed)?;
        let rows = statement.query_map([after], |row| row.get::<_, String>(0)).map_err(failed)?;
        rows.map(|slug| slug.map_err(failed)?.try_into()).collect()
    }

    /// What the tasks of a skill's trial come to.
    pub(crate) fn trial_sum(&self, skill: &Slug) -> Result<TrialSum> {
        let within = window(&self.connection, skill)?;
        Ok(self.sums(Some(skill), within)?.remove(skill).unwrap_or_default())
    }

    /// What the tasks of every trial come to, by skill. A trial without tasks is not named.
    pub(crate) fn trial_sums(&self) -> Result<BTreeMap<Slug, TrialSum>> {
        let mut sums = self.sums(None, TrialWindow::ALL)?;
        for skill in tried_again(&self.connection)? {
            let sum = self.trial_sum(&skill)?;
            sums.insert(skill, sum);
        }
        Ok(sums)
    }

    fn sums(&self, of: Option<&Slug>, within: TrialWindow) -> Result<BTreeMap<Slug, TrialSum>> {
        let failed = |source| sql("read memory.db", source);
        let filter = if of.is_some() { "WHERE t.skill = ?1" } else { "WHERE ?1 IS NULL" };
        let mut statement = self
            .connection
            .prepare_cached(&format!(
                "SELECT t.skill, t.arm, t.rehearsed, l.outcome, t.score, count(*), sum(t.errors), sum(t.turns), \
                 sum(t.micro_usd), max(t.at) \
                 FROM trial_tasks t LEFT JOIN task_log l ON l.task = t.task AND NOT t.rehearsed {filter} AND {WITHIN} \
                 GROUP BY t.skill, t.arm, t.rehearsed, l.outcome, t.score"
            ))
            .map_err(failed)?;
        let mut rows = statement.query((of.map(Slug::as_str), within.after, within.until)).map_err(failed)?;
        let mut sums: BTreeMap<Slug, TrialSum> = BTreeMap::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let skill: Slug = row.get::<_, String>(0).map_err(failed)?.try_into()?;
            add_group(sums.entry(skill).or_default(), row)?;
        }
        Ok(sums)
    }
}

/// Adds tasks of one arm that came to the same.
fn add_group(sum: &mut TrialSum, row: &Row<'_>) -> Result<()> {
    let failed = |source| sql("read memory.db", source);
    let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs).map_err(failed);
    let outcome: Option<String> = row.get(3).map_err(failed)?;
    let kept = row.get::<_, Option<i64>>(4).map_err(failed)?.map(read_score);
    let score = outcome.map_or(kept, |outcome| read_log(&outcome).1.score());
    let arm = Arm::parse(&row.get::<_, String>(1).map_err(failed)?)?;
    let tasks = count(5)?;
    let last = Timestamp(row.get(9).map_err(failed)?);
    sum.last = sum.last.max(Some(last));
    let arm = sum.arm(arm, row.get(2).map_err(failed)?);
    arm.tasks += tasks;
    if let Some(score) = score {
        arm.known += tasks;
        arm.score += score * tasks as f64;
    }
    arm.errors += count(6)?;
    arm.turns += count(7)?;
    arm.micro_usd = arm.micro_usd.saturating_add(count(8)?);
    Ok(())
}

/// A task whose transcript is kept and whose outcome is known.
#[derive(Debug, Clone, PartialEq)]
pub struct RatedTask {
    /// The id of the task, by which it is run again.
    pub task: String,
    /// The number of its receipt.
    pub receipt: u64,
    /// How good its answer was, from 0 to 1.
    pub score: f64,
}

impl Database {
    /// The tasks with a known outcome that can be run again, newest first, at most so many.
    pub(crate) fn rated_tasks(&self, most: usize) -> Result<Vec<RatedTask>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT t.task, r.seq, l.outcome FROM transcripts t JOIN receipts r ON r.step = t.step \
                 JOIN task_log l ON l.task = t.task WHERE l.outcome LIKE '% %' ORDER BY t.step DESC",
            )
            .map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)?
            && found.len() < most
        {
            let outcome: String = row.get(2).map_err(failed)?;
            let Some(score) = read_log(&outcome).1.score() else { continue };
            let receipt = row.get::<_, i64>(1).map_err(failed)?.unsigned_abs();
            found.push(RatedTask { task: row.get(0).map_err(failed)?, receipt, score });
        }
        Ok(found)
    }
}

/// The number of a table's last row.
fn last_id(connection: &Connection, table: &str) -> Result<i64> {
    connection
        .prepare_cached(&format!("SELECT coalesce(max(id), 0) FROM {table}"))
        .and_then(|mut last| last.query_row([], |row| row.get(0)))
        .map_err(|source| sql("read memory.db", source))
}
