//! Skill telemetry as it is stored.

use std::collections::BTreeMap;

use super::db::{Database, sql};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::Slug;
use crate::skill::{CreatedBy, SkillState, SkillUsage};

const COLUMNS: &str = "slug, created_by, created_at, state, pinned, use_count, view_count, patch_count, \
    last_used_at, last_viewed_at, last_patched_at, archived_at";

impl Database {
    /// The telemetry of every skill that has any.
    pub fn skill_usage(&self) -> Result<BTreeMap<Slug, SkillUsage>> {
        Ok(self.read_usage(&format!("SELECT {COLUMNS} FROM skill_usage"), [])?.into_iter().collect())
    }

    /// The telemetry of one skill.
    pub fn skill_usage_of(&self, slug: &Slug) -> Result<Option<SkillUsage>> {
        let query = format!("SELECT {COLUMNS} FROM skill_usage WHERE slug = ?1");
        Ok(self.read_usage(&query, [slug.as_str()])?.pop().map(|(_, usage)| usage))
    }

    /// The pinned skills, by name.
    pub fn pinned(&self) -> Result<Vec<Slug>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached("SELECT slug FROM skill_usage WHERE pinned = 1 ORDER BY slug")
            .map_err(failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        rows.map(|slug| slug.map_err(failed)?.try_into()).collect()
    }

    /// How many skills the curator would move: those of the agent's own, not pinned, last active at or
    /// before `stale` (or `archive`), or stale and active since.
    pub fn skills_due(&self, stale: Timestamp, archive: Timestamp) -> Result<u64> {
        const ACTIVITY: &str = "max(coalesce(last_used_at, -1e18), coalesce(last_viewed_at, -1e18), \
            coalesce(last_patched_at, -1e18))";
        let query = format!(
            "SELECT count(*) FROM skill_usage WHERE created_by = 'agent' AND pinned = 0 \
             AND coalesce(last_used_at, last_viewed_at, last_patched_at) IS NOT NULL \
             AND CASE state WHEN 'active' THEN {ACTIVITY} <= ?1 \
             WHEN 'stale' THEN {ACTIVITY} <= ?2 OR {ACTIVITY} > ?1 ELSE 0 END"
        );
        self.connection
            .prepare_cached(&query)
            .and_then(|mut count| count.query_row((stale.millis(), archive.millis()), |row| row.get::<_, i64>(0)))
            .map(i64::unsigned_abs)
            .map_err(|source| sql("read memory.db", source))
    }

    fn read_usage(&self, query: &str, parameters: impl rusqlite::Params) -> Result<Vec<(Slug, SkillUsage)>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self.connection.prepare_cached(query).map_err(failed)?;
        let mut rows = statement.query(parameters).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let text = |column| row.get::<_, String>(column).map_err(failed);
            let count = |column| row.get::<_, u32>(column).map_err(failed);
            let moment = |column| -> Result<Option<Timestamp>> {
                Ok(row.get::<_, Option<i64>>(column).map_err(failed)?.map(Timestamp))
            };
            let usage = SkillUsage {
                created_by: CreatedBy::parse(&text(1)?)?,
                created_at: Timestamp(row.get(2).map_err(failed)?),
                state: SkillState::parse(&text(3)?)?,
                pinned: row.get(4).map_err(failed)?,
                use_count: count(5)?,
                view_count: count(6)?,
                patch_count: count(7)?,
                last_used_at: moment(8)?,
                last_viewed_at: moment(9)?,
                last_patched_at: moment(10)?,
                archived_at: moment(11)?,
            };
            found.push((text(0)?.try_into()?, usage));
        }
        Ok(found)
    }
}
