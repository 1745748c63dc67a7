//! How good the answers of the tasks were that a skill had a part in, as far as is known.

use std::collections::{BTreeMap, BTreeSet};

use super::db::{Database, sql};
use super::outcome::{OutcomeCounts, OutcomeValue, read_log};
use crate::error::Result;
use crate::ids::Slug;

/// Tasks that had skills loaded, and tasks that were shown one on trial. The slugs stand between spaces.
const TASKS: &str = "\
SELECT s.task, s.skills, l.outcome FROM evidence_sessions s LEFT JOIN task_log l ON l.task = s.task WHERE s.skills <> '' \
UNION ALL \
SELECT t.task, t.skill, l.outcome FROM trial_tasks t LEFT JOIN task_log l ON l.task = t.task \
WHERE t.arm = 'shown' AND NOT t.rehearsed";

impl Database {
    /// By skill, what the tasks came to that had it loaded or in their prompt, of all that are still known. A skill that no
    /// task had is not named.
    pub(crate) fn skill_outcomes(&self) -> Result<BTreeMap<Slug, OutcomeCounts>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self.connection.prepare_cached(TASKS).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut seen: BTreeSet<(String, String)> = BTreeSet::new();
        let mut counts: BTreeMap<Slug, OutcomeCounts> = BTreeMap::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let (task, skills): (String, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            let outcome: Option<String> = row.get(2).map_err(failed)?;
            let value = outcome.map_or(OutcomeValue::Unknown, |outcome| read_log(&outcome).1);
            for skill in skills.split_whitespace() {
                // A task that was shown a skill on trial may have loaded it as well.
                if seen.insert((skill.to_owned(), task.clone())) {
                    counts.entry(skill.parse()?).or_default().add(value, 1);
                }
            }
        }
        Ok(counts)
    }
}
