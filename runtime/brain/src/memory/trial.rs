//! Trials: learned skills that are shown to some tasks and held back from others, until the difference is known.
//!
//! `trials` says where each of them stands, `trial_tasks` what the tasks were like. Rows are added and never changed, so
//! that a rewind takes them away exactly. What is decided from them, and when, is decided elsewhere.
//!
//! The tables are described in `docs/reference/brain.md`.

use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use super::db::{Database, sql};
use super::outcome::read_log;
use super::trial_window::{TrialWindow, WITHIN, window};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Slug, TaskId};

/// What scores are multiplied by where they are kept: rows hold no fractions.
const SCORE_UNITS: f64 = 1e6;

/// Whether a task was shown what is on trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The skill was put before the task.
    Shown,
    /// It matched, and was not shown it.
    HeldBack,
}

impl Arm {
    /// Draws the arm of a task: the same for the same brain, skill and task, and `Shown` for a share of the tasks.
    pub fn draw(brain: &BrainId, skill: &Slug, task: &TaskId, share: f64) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in ["herm/arm@1", brain.as_str(), skill.as_str(), task.as_str()] {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
        let mut drawn = [0; 4];
        hasher.finalize_xof().fill(&mut drawn);
        let fraction = f64::from(u32::from_le_bytes(drawn)) / (f64::from(u32::MAX) + 1.0);
        if fraction < share { Self::Shown } else { Self::HeldBack }
    }

    /// The name under which rows keep it; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::HeldBack => "held_back",
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self> {
        [Self::Shown, Self::HeldBack]
            .into_iter()
            .find(|arm| arm.name() == name)
            .ok_or_else(|| damaged("an arm of a trial", name))
    }
}

/// Where a learned skill stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
    /// Shown to some matching tasks and held back from others.
    Trial,
    /// It helps: shown always.
    Proven,
    /// It does harm: archived.
    Harmful,
    /// It made no difference that could be seen: in the index, not put before tasks.
    Unproven,
}

impl TrialState {
    /// The name under which rows keep it; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trial => "trial",
            Self::Proven => "proven",
            Self::Harmful => "harmful",
            Self::Unproven => "unproven",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        [Self::Trial, Self::Proven, Self::Harmful, Self::Unproven]
            .into_iter()
            .find(|state| state.name() == name)
            .ok_or_else(|| damaged("a state of a trial", name))
    }
}

/// A learned skill on trial, or after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The skill that was learned.
    pub skill: Slug,
    /// Whether the trial goes on, or how it was decided.
    pub state: TrialState,
    /// When the trial began.
    pub since: Timestamp,
    /// When it was decided.
    pub decided: Option<Timestamp>,
    /// Why it stands there, in a line.
    pub reason: String,
}

/// A task that matched a skill on trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrialTask {
    /// The skill that the task matched.
    pub skill: Slug,
    /// The id of the task; of a rehearsal, that of the task that was run again.
    pub task: String,
    /// What was drawn for it.
    pub arm: Arm,
    /// When the task began.
    pub at: Timestamp,
    /// How good its answer was, where that is known. Of a task of this brain it is read from the task's outcome, whatever
    /// is said here, so that later feedback counts; of a rehearsal it is kept as it is.
    pub score: Option<f64>,
    /// Calls that failed or were refused.
    pub errors: u32,
    /// How many turns the task took.
    pub turns: u32,
    /// What it cost, in millionths of a dollar.
    pub micro_usd: u64,
    /// Whether it was run again for the trial, and not asked by anybody.
    pub rehearsed: bool,
}

/// Writes rows of trials inside a transaction.
#[derive(Debug, Clone, Copy)]
pub struct TrialWriter<'c> {
    connection: &'c Connection,
    step: i64,
}

impl<'c> TrialWriter<'c> {
    /// A writer of rows that belong to a step, or came after it and before the next.
    pub(crate) fn new(connection: &'c Connection, step: i64) -> Self {
        Self { connection, step }
    }

    /// Says where a skill stands; whether that is new.
    pub fn put_trial(&self, trial: &Trial) -> Result<bool> {
        if trial_of(self.connection, &trial.skill)?.as_ref() == Some(trial) {
            return Ok(false);
        }
        self.connection
            .prepare_cached(
                "INSERT INTO trials (step, skill, state, since, decided, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )
            .and_then(|mut add| {
                let Trial { skill, state, since, decided, reason } = trial;
                let decided = decided.map(Timestamp::millis);
                add.execute((self.step, skill.as_str(), state.name(), since.millis(), decided, reason))
            })
            .map(|_| true)
            .map_err(|source| sql("write memory.db", source))
    }

    /// Adds a task to a trial; whether it was new. A task counts once in an arm, a rehearsal of it once more
    /// for each text of the skill.
    pub fn add_task(&self, task: &TrialTask) -> Result<bool> {
        let name = if task.rehearsed { self.row_name(task)? } else { task.task.clone() };
        self.connection
            .prepare_cached(
                "INSERT OR IGNORE INTO trial_tasks \
                 (step, skill, task, arm, at, score, errors, turns, micro_usd, rehearsed) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )
            .and_then(|mut add| {
                add.execute((
                    self.step,
                    task.skill.as_str(),
                    &name,
                    task.arm.name(),
                    task.at.millis(),
                    task.score.map(stored_score),
                    task.errors,
                    task.turns,
                    i64::try_from(task.micro_usd).unwrap_or(i64::MAX),
                    task.rehearsed,
                ))
            })
            .map(|added| added > 0)
            .map_err(|source| sql("write memory.db", source))
    }

    /// What a task is called in its row. Rows are only ever added: a rehearsal of a skill that was rewritten stands beside
    /// one of its old text, and says behind the task in which step the new one came.
    fn row_name(&self, task: &TrialTask) -> Result<String> {
        let TrialWindow { after, .. } = window(self.connection, &task.skill)?;
        let is_first = after == TrialWindow::ALL.after;
        Ok(if is_first { task.task.clone() } else { format!("{} {after}", task.task) })
    }
}

/// The task of a row. Ids of tasks have no spaces.
fn task_of(row_name: String, rehearsed: bool) -> String {
    match row_name.split_once(' ') {
        Some((task, _)) if rehearsed => task.to_owned(),
        _ => row_name,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a number from 0 to a million")]
fn stored_score(score: f64) -> i64 {
    (score.clamp(0.0, 1.0) * SCORE_UNITS).round() as i64
}

pub(super) fn read_score(stored: i64) -> f64 {
    let units = u32::try_from(stored.clamp(0, 1_000_000)).unwrap_or_default();
    f64::from(units) / SCORE_UNITS
}

const COLUMNS: &str = "skill, state, since, decided, reason";

pub(super) fn read_trial_row(row: &Row<'_>) -> Result<Trial> {
    let failed = |source| sql("read memory.db", source);
    Ok(Trial {
        skill: row.get::<_, String>(0).map_err(failed)?.try_into()?,
        state: TrialState::parse(&row.get::<_, String>(1).map_err(failed)?)?,
        since: Timestamp(row.get(2).map_err(failed)?),
        decided: row.get::<_, Option<i64>>(3).map_err(failed)?.map(Timestamp),
        reason: row.get(4).map_err(failed)?,
    })
}

pub(super) fn trial_of(connection: &Connection, skill: &Slug) -> Result<Option<Trial>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM trials WHERE skill = ?1 ORDER BY id DESC LIMIT 1"))
        .map_err(failed)?;
    let mut rows = statement.query([skill.as_str()]).map_err(failed)?;
    rows.next().map_err(failed)?.map(read_trial_row).transpose()
}

fn damaged(what: &str, found: &str) -> Error {
    Error::corrupt(format!("{found:?} is not {what}")).hint("restore the brain from a snapshot")
}

impl Database {
    /// Where one skill stands; `None` where it never was on trial.
    pub(crate) fn trial(&self, skill: &Slug) -> Result<Option<Trial>> {
        trial_of(&self.connection, skill)
    }

    /// Where every skill stands that is or was on trial, by skill.
    pub(crate) fn trials(&self) -> Result<Vec<Trial>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM trials WHERE id IN (SELECT max(id) FROM trials GROUP BY skill) ORDER BY skill"
            ))
            .map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            found.push(read_trial_row(row)?);
        }
        Ok(found)
    }

    /// The tasks of a skill's trial, in the order in which they came. Those of an earlier text of the skill are none of it.
    pub(crate) fn trial_tasks(&self, skill: &Slug) -> Result<Vec<TrialTask>> {
        let failed = |source| sql("read memory.db", source);
        let TrialWindow { after, until } = window(&self.connection, skill)?;
        let mut statement = self
            .connection
            .prepare_cached(&format!(
                "SELECT t.task, t.arm, t.at, t.score, t.errors, t.turns, t.micro_usd, t.rehearsed, l.outcome \
                 FROM trial_tasks t LEFT JOIN task_log l ON l.task = t.task AND NOT t.rehearsed \
                 WHERE t.skill = ?1 AND {WITHIN} ORDER BY t.id"
            ))
            .map_err(failed)?;
        let mut rows = statement.query((skill.as_str(), after, until)).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let outcome: Option<String> = row.get(8).map_err(failed)?;
            let kept = row.get::<_, Option<i64>>(3).map_err(failed)?.map(read_score);
            let rehearsed = row.get(7).map_err(failed)?;
            found.push(TrialTask {
                skill: skill.clone(),
                task: task_of(row.get(0).map_err(failed)?, rehearsed),
                arm: Arm::parse(&row.get::<_, String>(1).map_err(failed)?)?,
                at: Timestamp(row.get(2).map_err(failed)?),
                score: outcome.map_or(kept, |outcome| read_log(&outcome).1.score()),
                errors: row.get(4).map_err(failed)?,
                turns: row.get(5).map_err(failed)?,
                micro_usd: row.get::<_, i64>(6).map_err(failed)?.unsigned_abs(),
                rehearsed,
            });
        }
        Ok(found)
    }

    /// The skills that a task matched while they were on trial, with what was drawn, by skill.
    pub(crate) fn trials_of_task(&self, task: &TaskId) -> Result<Vec<(Slug, Arm)>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached("SELECT skill, arm FROM trial_tasks WHERE task = ?1 AND NOT rehearsed ORDER BY skill")
            .map_err(failed)?;
        let mut rows = statement.query([task.as_str()]).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let (skill, arm): (String, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            found.push((skill.try_into()?, Arm::parse(&arm)?));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(brain: &str, skill: &str, task: &str, share: f64) -> Arm {
        Arm::draw(&brain.parse().unwrap(), &skill.parse().unwrap(), &task.parse().unwrap(), share)
    }

    #[test]
    fn the_same_task_draws_the_same_arm_today_and_in_ten_years() {
        let drawn: String = (0..32)
            .map(|n| match draw("7", "how-to-ask-desk", &format!("task-{n}"), 0.5) {
                Arm::Shown => 's',
                Arm::HeldBack => 'h',
            })
            .collect();
        assert_eq!(drawn, "shhhhshhhhhssssssssshhshhsssssss");
    }

    #[test]
    fn about_the_share_of_all_tasks_is_shown() {
        for share in [0.5, 0.1, 0.9] {
            let tasks = 4_000;
            let shown =
                (0..tasks).filter(|n| draw("1", "a-skill", &format!("t{n}"), share) == Arm::Shown).count() as f64;
            let expected = share * f64::from(tasks);
            assert!((shown - expected).abs() < 100.0, "{shown} of {expected}");
        }
        assert!((0..100).all(|n| draw("1", "a-skill", &format!("t{n}"), 1.0) == Arm::Shown));
        assert!((0..100).all(|n| draw("1", "a-skill", &format!("t{n}"), 0.0) == Arm::HeldBack));
    }

    #[test]
    fn arms_of_two_skills_and_of_two_brains_have_nothing_to_do_with_each_other() {
        let pairs = |a: (&str, &str), b: (&str, &str)| {
            let same = |n: &u32| {
                let task = format!("t{n}");
                draw(a.0, a.1, &task, 0.5) == draw(b.0, b.1, &task, 0.5)
            };
            (0..2_000).filter(same).count()
        };
        for same in [pairs(("1", "one"), ("1", "two")), pairs(("1", "one"), ("2", "one"))] {
            assert!((900..1_100).contains(&same), "{same}");
        }
    }

    #[test]
    fn a_score_is_kept_without_a_fraction_and_comes_back_as_it_was() {
        for score in [0.0, 0.07, 0.1, 0.29, 0.5, 0.7, 0.99, 1.0] {
            assert_eq!(read_score(stored_score(score)), score);
        }
        assert_eq!((stored_score(f64::NAN), stored_score(7.0), read_score(-1)), (0, 1_000_000, 0.0));
    }
}
