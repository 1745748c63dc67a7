//! Which tasks a trial is about.
//!
//! A trial is about one text of a skill. Where the text is rewritten, another trial of the skill begins, and what tasks did
//! with the text of before does not count for it. Trials of a skill are told apart by when they began, and what belongs to
//! each by the numbers of the steps.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::db::{Database, sql};
use super::trial::{Trial, TrialState, read_trial_row, trial_of};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::Slug;

/// The condition of [`TrialWindow`], of rows `t` with the window as `?2` and `?3`. A task that is settled in the step in
/// which a trial begins had the text of before. A rehearsal is written after the step whose number it has.
pub(super) const WITHIN: &str =
    "CASE WHEN t.rehearsed THEN t.step >= ?2 AND t.step < ?3 ELSE t.step > ?2 AND t.step <= ?3 END";

/// The steps whose tasks a trial is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrialWindow {
    /// The step in which it began.
    pub(super) after: i64,
    /// The step in which the next one began.
    pub(super) until: i64,
}

impl TrialWindow {
    /// All steps: that of a skill that was tried once.
    pub(super) const ALL: Self = Self { after: i64::MIN, until: i64::MAX };

    /// The window of a skill's last trial. `rows` are all that is said of its trials, oldest first: when each began, and the
    /// step that says so.
    fn of(rows: &[(i64, i64)]) -> Self {
        let Some((last, _)) = rows.last() else { return Self::ALL };
        let began = rows.iter().position(|(since, _)| since == last).unwrap_or_default();
        let after = if began == 0 { i64::MIN } else { rows.get(began).map_or(i64::MIN, |(_, step)| *step) };
        // A verdict that was brought back by an undo: what came between was about another text.
        let until = rows.iter().skip(began).find(|(since, _)| since != last).map_or(i64::MAX, |(_, step)| *step);
        Self { after, until }
    }
}

/// The window of a skill's last trial.
pub(super) fn window(connection: &Connection, skill: &Slug) -> Result<TrialWindow> {
    let failed = |source| sql("read memory.db", source);
    let mut statement =
        connection.prepare_cached("SELECT since, step FROM trials WHERE skill = ?1 ORDER BY id").map_err(failed)?;
    let rows = statement.query_map([skill.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    Ok(TrialWindow::of(&rows.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?))
}

/// The skills that were tried more than once.
pub(super) fn tried_again(connection: &Connection) -> Result<BTreeSet<Slug>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = connection
        .prepare_cached("SELECT skill FROM trials GROUP BY skill HAVING min(since) <> max(since)")
        .map_err(failed)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    rows.map(|slug| slug.map_err(failed)?.try_into()).collect()
}

/// A trial of a skill that was tried before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialRestart {
    /// The step that rewrote the skill, and so began it.
    pub step: i64,
    /// Where the skill stood before.
    pub before: Trial,
}

impl Database {
    /// A new trial of a skill that is or was on trial, as of `now`; `None` where it never was. Two trials of a skill never
    /// begin at the same moment, whatever the clock says.
    pub(crate) fn trial_anew(&self, skill: &Slug, now: Timestamp, reason: &str) -> Result<Option<Trial>> {
        let latest: Option<i64> = self
            .connection
            .prepare_cached("SELECT max(since) FROM trials WHERE skill = ?1")
            .and_then(|mut latest| latest.query_row([skill.as_str()], |row| row.get(0)))
            .map_err(|source| sql("read memory.db", source))?;
        Ok(latest.map(|latest| Trial {
            skill: skill.clone(),
            state: TrialState::Trial,
            since: now.max(Timestamp(latest.saturating_add(1))),
            decided: None,
            reason: reason.to_owned(),
        }))
    }

    /// How the trial of a skill began, where the skill was tried before.
    pub(crate) fn trial_restart(&self, skill: &Slug) -> Result<Option<TrialRestart>> {
        let Some(now) = trial_of(&self.connection, skill)? else { return Ok(None) };
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT skill, state, since, decided, reason, step FROM trials WHERE skill = ?1 ORDER BY id",
            )
            .map_err(failed)?;
        let mut rows = statement.query([skill.as_str()]).map_err(failed)?;
        let mut before = None;
        while let Some(row) = rows.next().map_err(failed)? {
            let trial = read_trial_row(row)?;
            if trial.since == now.since {
                let step = row.get(5).map_err(failed)?;
                return Ok(before.map(|before| TrialRestart { step, before }));
            }
            before = Some(trial);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_about_the_steps_from_its_beginning_to_the_next_one() {
        for (rows, window) in [
            (vec![], TrialWindow::ALL),
            // Tried once: also tasks that came before anybody wrote it down.
            (vec![(10, 3), (10, 9)], TrialWindow::ALL),
            (vec![(10, 3), (20, 7)], TrialWindow { after: 7, until: i64::MAX }),
            (vec![(10, 3), (20, 7), (20, 9), (30, 12)], TrialWindow { after: 12, until: i64::MAX }),
            // A verdict that came back: the tasks between were about the text of between.
            (vec![(10, 3), (10, 5), (20, 7), (10, 9)], TrialWindow { after: i64::MIN, until: 7 }),
            (vec![(10, 3), (20, 7), (20, 8), (30, 9), (20, 11)], TrialWindow { after: 7, until: 9 }),
        ] {
            assert_eq!(TrialWindow::of(&rows), window, "{rows:?}");
        }
    }
}
