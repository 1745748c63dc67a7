//! The disposal half of the loop: skills the agent wrote and no longer uses grow stale, and then go
//! to the archive. Nothing is ever deleted.
//!
//! The decision is pure: telemetry and a moment in, a [`CuratorPlan`] out. [`run`] reads the telemetry,
//! carries the plan out as one step, and reports what was settled and nothing else.

use std::collections::BTreeMap;

use crate::brain::{Brain, Draft, SettledStep, StepKind};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::Slug;
use crate::memory::OutcomeCounts;
use crate::skill::provenance::{SkillFacts, SkillWriter};
use crate::skill::{SkillState, SkillUsage};
use crate::trial::estimate::ScoreSum;
use crate::tuning::Tuning;

/// How the summary of a pass begins.
const SUMMARY: &str = "curator: ";
/// The most skills that move in one pass; the next pass goes on. Each move reads where all others are.
const MOST_MOVES: usize = 250;
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// When a skill counts as unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct CuratorPolicy {
    /// Days without activity until a skill is stale.
    pub stale_days: u32,
    /// Days without activity until it is archived.
    pub archive_days: u32,
    /// Days until a skill is archived that no task ever used or was shown. Unless said, such a skill is reported
    /// and stays where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unshown_days: Option<u32>,
}

impl Default for CuratorPolicy {
    fn default() -> Self {
        Self { stale_days: 30, archive_days: 90, unshown_days: None }
    }
}

impl CuratorPolicy {
    /// Both in days; a skill cannot be archived before it is stale.
    pub fn new(stale_days: u32, archive_days: u32) -> Result<Self> {
        if stale_days == 0 || archive_days < stale_days {
            return Err(Error::invalid(format!(
                "a skill cannot be stale after {stale_days} days and archived after {archive_days}"
            ))
            .hint("stale after at least 1 day, archived not before that; 30 and 90 are usual"));
        }
        Ok(Self { stale_days, archive_days, unshown_days: None })
    }

    /// The same, where skills that no task ever had are archived after so many days.
    pub fn archiving_unshown(self, days: Option<u32>) -> Result<Self> {
        if days == Some(0) {
            return Err(Error::invalid("a skill that no task had cannot be archived after 0 days")
                .hint("180 days give a rare task time to come"));
        }
        Ok(Self { unshown_days: days, ..self })
    }

    /// The same, with what a brain's tuning says.
    pub fn tuned(self, tuning: &Tuning) -> Result<Self> {
        let stale = tuning.stale_days.unwrap_or(self.stale_days);
        // A tuning that only moves one of the two cannot put them in the wrong order.
        let archive = tuning.archive_days.unwrap_or(self.archive_days.max(stale));
        Ok(Self { unshown_days: self.unshown_days, ..Self::new(stale.min(archive), archive)? })
    }

    /// The moment before which a skill must have been made to be archived without ever having been shown.
    fn unshown_cutoff(self, now: Timestamp) -> Option<Timestamp> {
        let days = i64::from(self.unshown_days?).saturating_mul(DAY_MILLIS);
        Some(Timestamp(now.millis().saturating_sub(days)))
    }

    /// The moments before which a skill must last have been active to be stale, and to be archived.
    pub fn cutoffs(self, now: Timestamp) -> Cutoffs {
        let before = |days: u32| Timestamp(now.millis().saturating_sub(i64::from(days).saturating_mul(DAY_MILLIS)));
        Cutoffs { stale: before(self.stale_days), archive: before(self.archive_days) }
    }
}

/// Activity at or before these moments is long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutoffs {
    /// Last activity at or before this moment makes a skill stale.
    pub stale: Timestamp,
    /// Last activity at or before this moment makes a skill go to the archive.
    pub archive: Timestamp,
}

/// Where a skill should be in its life. The order matters: one that is old enough goes to the archive
/// at once, whether or not it was stale in between. One that was never active is never old.
pub fn next_state(current: SkillState, last_activity: Option<Timestamp>, cutoffs: Cutoffs) -> SkillState {
    let Some(anchor) = last_activity else { return current };
    match current {
        SkillState::Active | SkillState::Stale if anchor <= cutoffs.archive => SkillState::Archived,
        SkillState::Active if anchor <= cutoffs.stale => SkillState::Stale,
        SkillState::Stale if anchor > cutoffs.stale => SkillState::Active,
        SkillState::Active | SkillState::Stale | SkillState::Archived => current,
    }
}

/// A skill's move from one state to another.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Transition {
    /// The skill that moves, by its name.
    pub slug: Slug,
    /// The state before the pass.
    pub from: SkillState,
    /// Where it is now.
    pub to: SkillState,
    /// When it was last active.
    #[serde(rename = "lastActivityAt")]
    pub last_activity: Option<Timestamp>,
}

/// Why a skill stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason", content = "detail")]
pub enum CuratorSkipReason {
    /// The agent did not write it.
    NotAgentCreated,
    /// It is exempt from everything automatic.
    Pinned,
    /// It is where it should be.
    NoChange,
    /// It has a record and no files.
    Missing,
    /// It could not be moved.
    Refused(String),
}

/// A skill that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CuratorSkip {
    /// The skill that stays, by its name.
    pub slug: Slug,
    /// Why the pass leaves it where it is.
    #[serde(flatten)]
    pub reason: CuratorSkipReason,
}

/// What a pass would do, in name order.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct CuratorPlan {
    /// The skills that become stale or active again, or go to the archive.
    pub transitioned: Vec<Transition>,
    /// The skills that are old enough to move and stay, with the reason.
    pub skipped: Vec<CuratorSkip>,
    /// How the tasks went that had a skill of the agent's, by name. Nothing follows from it here: trials decide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<SkillOutcomes>,
    /// Skills of the agent's that no task ever used or was shown, and that stand there for long.
    #[serde(rename = "neverUsed", skip_serializing_if = "Vec::is_empty")]
    pub never_used: Vec<NeverUsedSkill>,
}

/// How the tasks went that had a skill loaded, or in their prompt.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SkillOutcomes {
    /// The skill that the tasks had.
    pub slug: Slug,
    /// How many came to which outcome.
    #[serde(flatten)]
    pub counts: OutcomeCounts,
    /// Whether most of the answers are bad, by more than chance: Wilson's interval of their mean lies below one half.
    #[serde(rename = "clearlyBad")]
    pub clearly_bad: bool,
}

/// A skill that no task ever used or was shown.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NeverUsedSkill {
    /// A skill of the agent's own, by its name.
    pub slug: Slug,
    /// For how many days it stands there.
    pub days: u64,
}

/// A skill with a record, as a pass looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuratedSkill {
    /// The counts and moments that the brain keeps of it.
    pub usage: SkillUsage,
    /// What the gate goes by.
    pub facts: SkillFacts,
    /// Whether it stands in the index.
    pub present: bool,
}

impl CuratedSkill {
    /// A skill of the index, or one that is not there; `pinned` says whether its front matter pins it.
    pub fn new(usage: SkillUsage, present: bool, pinned: bool) -> Self {
        let recorded = SkillFacts::recorded(Some(&usage));
        Self { facts: SkillFacts { pinned: recorded.pinned || pinned, ..recorded }, usage, present }
    }

    /// Whether it is one of the agent's own that stands in the index.
    fn is_own(&self) -> bool {
        self.present && self.facts.source.is_writable() && self.usage.state != SkillState::Archived
    }
}

/// Decides for every skill with a record.
pub fn plan(skills: &BTreeMap<Slug, CuratedSkill>, cutoffs: Cutoffs) -> CuratorPlan {
    let mut plan = CuratorPlan::default();
    for (slug, skill) in skills {
        match decide(slug, skill, cutoffs) {
            Ok(transition) => plan.transitioned.push(transition),
            Err(reason) => plan.skipped.push(CuratorSkip { slug: slug.clone(), reason }),
        }
    }
    plan
}

impl CuratorPlan {
    /// Adds what is known of the skills of the agent's own that stand in the index: how their tasks went, and which of them
    /// no task ever had. These are reported from `policy.archive_days` on, and move where the policy says so.
    fn observe(
        mut self,
        skills: &BTreeMap<Slug, CuratedSkill>,
        outcomes: &BTreeMap<Slug, OutcomeCounts>,
        policy: CuratorPolicy,
        now: Timestamp,
    ) -> Self {
        for (slug, skill) in skills.iter().filter(|(_, skill)| skill.is_own()) {
            let usage = &skill.usage;
            if let Some(counts) = outcomes.get(slug) {
                let clearly_bad = is_clearly_bad(counts);
                self.outcomes.push(SkillOutcomes { slug: slug.clone(), counts: *counts, clearly_bad });
                continue;
            }
            let days = now.millis().saturating_sub(usage.created_at.millis()) / DAY_MILLIS;
            let Ok(days) = u64::try_from(days) else { continue };
            if usage.last_activity().is_some() {
                continue;
            }
            let is_let_go = policy.unshown_days.is_some_and(|most| days >= u64::from(most));
            if is_let_go && skill.facts.allow(SkillWriter::Curator) {
                self.skipped.retain(|skipped| skipped.slug != *slug);
                self.transitioned.push(Transition {
                    slug: slug.clone(),
                    from: usage.state,
                    to: SkillState::Archived,
                    last_activity: None,
                });
            }
            if is_let_go || days >= u64::from(policy.archive_days) {
                self.never_used.push(NeverUsedSkill { slug: slug.clone(), days });
            }
        }
        self.transitioned.sort_by(|a, b| a.slug.cmp(&b.slug));
        self
    }
}

/// Whether most answers are bad, by more than chance.
fn is_clearly_bad(counts: &OutcomeCounts) -> bool {
    let scores = ScoreSum { count: counts.known(), sum: counts.good as f64 + counts.score_sum };
    scores.interval()[1] < 0.5
}

fn decide(slug: &Slug, skill: &CuratedSkill, cutoffs: Cutoffs) -> Result<Transition, CuratorSkipReason> {
    let CuratedSkill { usage, facts, present } = skill;
    if !facts.allow(SkillWriter::Curator) {
        // What is not the agent's own is named as that, pinned or not.
        return Err(match facts.source.is_writable() {
            true => CuratorSkipReason::Pinned,
            false => CuratorSkipReason::NotAgentCreated,
        });
    }
    let last_activity = usage.last_activity();
    let to = next_state(usage.state, last_activity, cutoffs);
    if to == usage.state {
        return Err(CuratorSkipReason::NoChange);
    }
    if !present {
        return Err(CuratorSkipReason::Missing);
    }
    Ok(Transition { slug: slug.clone(), from: usage.state, to, last_activity })
}

/// What a pass did.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CuratorReport {
    /// What moved and what did not.
    #[serde(flatten)]
    pub plan: CuratorPlan,
    /// The step it made; none where nothing moved, or nothing was to be settled.
    pub settled: Option<SettledStep>,
}

/// How many skills are due by their records alone: one that only its front matter pins counts, and does not move.
/// Costs next to nothing.
pub fn due(brain: &Brain, policy: CuratorPolicy) -> Result<u64> {
    let cutoffs = policy.tuned(&brain.tuning()?)?.cutoffs(brain.clock().now());
    let unshown = match policy.unshown_cutoff(brain.clock().now()) {
        Some(cutoff) => unshown_since(brain, cutoff)?,
        None => 0,
    };
    Ok(brain.skills_due(cutoffs.stale, cutoffs.archive)?.saturating_add(unshown))
}

/// How many skills of the agent's were made before a moment and never had by a task.
fn unshown_since(brain: &Brain, cutoff: Timestamp) -> Result<u64> {
    let mut idle = brain.usage()?;
    idle.retain(|_, usage| {
        SkillFacts::recorded(Some(usage)).allow(SkillWriter::Curator)
            && usage.state != SkillState::Archived
            && usage.last_activity().is_none()
            && usage.created_at <= cutoff
    });
    if idle.is_empty() {
        return Ok(0);
    }
    let outcomes = brain.skill_outcomes()?;
    Ok(idle.keys().filter(|slug| !outcomes.contains_key(*slug)).count() as u64)
}

/// What a pass would do now.
pub fn preview(brain: &mut Brain, policy: CuratorPolicy) -> Result<CuratorPlan> {
    let now = brain.clock().now();
    let policy = policy.tuned(&brain.tuning()?)?;
    let (usage, outcomes) = (brain.usage()?, brain.skill_outcomes()?);
    let index = brain.skills()?;
    let look = |(slug, usage): (Slug, SkillUsage)| {
        let entry = index.get(&slug);
        let skill = CuratedSkill::new(usage, entry.is_some(), entry.is_some_and(|entry| entry.pinned));
        (slug, skill)
    };
    let skills: BTreeMap<Slug, CuratedSkill> = usage.into_iter().map(look).collect();
    let plan = plan(&skills, policy.cutoffs(now));
    Ok(plan.observe(&skills, &outcomes, policy, now))
}

/// Runs a pass: everything that is due, as one `maintenance` step. A skill that cannot be moved is
/// reported and does not hold up the others; if the step itself fails, nothing has moved.
pub fn run(brain: &mut Brain, policy: CuratorPolicy) -> Result<CuratorReport> {
    let mut plan = preview(brain, policy)?;
    if plan.transitioned.is_empty() {
        return Ok(CuratorReport { plan, settled: None });
    }
    plan.transitioned.truncate(MOST_MOVES);
    let mut draft = Draft::new();
    let mut refused = Vec::new();
    plan.transitioned.retain(|transition| match carry_out(brain, &mut draft, transition) {
        Ok(()) => true,
        Err(error) => {
            let reason = CuratorSkipReason::Refused(error.message().to_owned());
            refused.push(CuratorSkip { slug: transition.slug.clone(), reason });
            false
        }
    });
    plan.skipped.append(&mut refused);
    plan.skipped.sort_by(|a, b| a.slug.cmp(&b.slug));
    let settled = brain.settle(&draft, StepKind::Curate, &summary(&plan.transitioned))?;
    Ok(CuratorReport { plan, settled: settled.moved.then_some(settled) })
}

/// Puts one transition into the draft, whole or not at all.
fn carry_out(brain: &Brain, draft: &mut Draft, transition: &Transition) -> Result<()> {
    let mut alone = Draft::new();
    let mut editor = brain.edit(&mut alone);
    match transition.to {
        SkillState::Archived => editor.archive_skill(&transition.slug)?,
        state => editor.set_skill_state(&transition.slug, state)?,
    }
    draft.merge(alone)
}

/// A pass in a line.
fn summary(transitioned: &[Transition]) -> String {
    let count = |state| transitioned.iter().filter(|transition| transition.to == state).count();
    let parts =
        [(SkillState::Archived, "archived"), (SkillState::Stale, "stale"), (SkillState::Active, "active again")]
            .map(|(state, word)| (count(state), word));
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    format!("{SUMMARY}{}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::CreatedBy;

    const NOW: Timestamp = Timestamp(1_000 * DAY_MILLIS);

    fn cutoffs() -> Cutoffs {
        CuratorPolicy::default().cutoffs(NOW)
    }

    fn days_ago(days: i64) -> Option<Timestamp> {
        Some(Timestamp(NOW.millis() - days * DAY_MILLIS))
    }

    fn usage(state: SkillState, last_used_at: Option<Timestamp>) -> SkillUsage {
        SkillUsage { state, last_used_at, ..SkillUsage::new(CreatedBy::Agent, Timestamp(0)) }
    }

    #[test]
    fn archive_comes_first_then_stale_then_active_again() {
        use SkillState::{Active, Archived, Stale};
        for (current, idle, next) in [
            (Active, 29, Active),
            (Active, 30, Stale),
            (Active, 89, Stale),
            // Old enough: straight to the archive, stale is passed over.
            (Active, 90, Archived),
            (Active, 400, Archived),
            (Stale, 29, Active),
            (Stale, 30, Stale),
            (Stale, 90, Archived),
            // The archive is the end, until someone brings it back.
            (Archived, 0, Archived),
            (Archived, 400, Archived),
        ] {
            assert_eq!(next_state(current, days_ago(idle), cutoffs()), next, "{current:?}, {idle} days");
        }
    }

    #[test]
    fn never_active_is_never_old() {
        for state in [SkillState::Active, SkillState::Stale, SkillState::Archived] {
            assert_eq!(next_state(state, None, cutoffs()), state);
        }
        let fresh = SkillUsage::new(CreatedBy::Agent, Timestamp(0));
        assert_eq!(fresh.last_activity(), None, "making is not using");
    }

    #[test]
    fn the_last_of_use_look_and_change_counts() {
        let mut usage = usage(SkillState::Active, days_ago(100));
        usage.last_viewed_at = days_ago(40);
        usage.last_patched_at = days_ago(3);
        assert_eq!(usage.last_activity(), days_ago(3));
    }

    #[test]
    fn only_unpinned_skills_of_the_agent_move_and_the_rest_says_why() {
        let old = || usage(SkillState::Active, days_ago(365));
        let records = BTreeMap::from([
            ("a-agent".parse().unwrap(), old()),
            ("b-front".parse().unwrap(), old()),
            ("b-pinned".parse().unwrap(), SkillUsage { pinned: true, ..old() }),
            ("c-user".parse().unwrap(), SkillUsage { created_by: CreatedBy::User, ..old() }),
            ("d-seed".parse().unwrap(), SkillUsage { created_by: CreatedBy::Seed, ..old() }),
            ("e-import".parse().unwrap(), SkillUsage { created_by: CreatedBy::Imported, ..old() }),
            ("f-fresh".parse().unwrap(), usage(SkillState::Active, days_ago(1))),
            ("g-gone".parse().unwrap(), old()),
            // A pinned skill of a person: who made it is said first.
            ("h-both".parse().unwrap(), SkillUsage { pinned: true, created_by: CreatedBy::User, ..old() }),
        ]);
        let look = |(slug, usage): (Slug, SkillUsage)| {
            let (present, pins) = (slug.as_str() != "g-gone", slug.as_str() == "b-front");
            (slug, CuratedSkill::new(usage, present, pins))
        };
        let plan = plan(&records.into_iter().map(look).collect(), cutoffs());
        let moved: Vec<&str> = plan.transitioned.iter().map(|transition| transition.slug.as_str()).collect();
        assert_eq!(moved, ["a-agent"]);
        let skipped: Vec<(&str, &CuratorSkipReason)> =
            plan.skipped.iter().map(|skipped| (skipped.slug.as_str(), &skipped.reason)).collect();
        assert_eq!(
            skipped,
            [
                ("b-front", &CuratorSkipReason::Pinned),
                ("b-pinned", &CuratorSkipReason::Pinned),
                ("c-user", &CuratorSkipReason::NotAgentCreated),
                ("d-seed", &CuratorSkipReason::NotAgentCreated),
                ("e-import", &CuratorSkipReason::NotAgentCreated),
                ("f-fresh", &CuratorSkipReason::NoChange),
                ("g-gone", &CuratorSkipReason::Missing),
                ("h-both", &CuratorSkipReason::NotAgentCreated),
            ]
        );
    }

    #[test]
    fn outcomes_are_counted_and_what_no_task_ever_had_is_reported_and_moves_only_where_the_policy_says_so() {
        let made = |days: i64| SkillUsage::new(CreatedBy::Agent, Timestamp(NOW.millis() - days * DAY_MILLIS));
        let slug = |name: &str| -> Slug { name.parse().unwrap() };
        let records = BTreeMap::from([
            (slug("bad"), made(200)),
            (slug("good"), made(200)),
            (slug("new"), made(89)),
            (slug("shelf"), made(200)),
            (slug("shelf-front"), made(200)),
            (slug("shelf-pinned"), SkillUsage { pinned: true, ..made(200) }),
            (slug("looked-at"), SkillUsage { last_viewed_at: days_ago(20), ..made(200) }),
        ]);
        let counts = |good, bad, unknown| OutcomeCounts { good, bad, unknown, ..OutcomeCounts::default() };
        let outcomes = BTreeMap::from([(slug("bad"), counts(1, 9, 2)), (slug("good"), counts(2, 3, 0))]);
        let look = |(slug, usage): (Slug, SkillUsage)| {
            let pins = slug.as_str() == "shelf-front";
            (slug, CuratedSkill::new(usage, true, pins))
        };
        let skills: BTreeMap<Slug, CuratedSkill> = records.into_iter().map(look).collect();
        let observed = |policy: CuratorPolicy| plan(&skills, cutoffs()).observe(&skills, &outcomes, policy, NOW);
        let usual = observed(CuratorPolicy::default());
        let bad: Vec<(&str, bool)> =
            usual.outcomes.iter().map(|skill| (skill.slug.as_str(), skill.clearly_bad)).collect();
        assert_eq!(bad, [("bad", true), ("good", false)], "three of five may be chance");
        let names = |plan: &CuratorPlan| -> Vec<String> {
            plan.never_used.iter().map(|skill| format!("{} {}", skill.slug, skill.days)).collect()
        };
        assert_eq!(names(&usual), ["shelf 200", "shelf-front 200", "shelf-pinned 200"]);
        assert_eq!(usual.transitioned, []);

        let strict = observed(CuratorPolicy::default().archiving_unshown(Some(180)).unwrap());
        let moved: Vec<(&str, SkillState)> =
            strict.transitioned.iter().map(|moved| (moved.slug.as_str(), moved.to)).collect();
        assert_eq!(moved, [("shelf", SkillState::Archived)]);
        assert_eq!(names(&strict), names(&usual));
        assert!(CuratorPolicy::default().archiving_unshown(Some(0)).is_err());
    }

    #[test]
    fn a_clock_at_the_edge_of_time_decides_nothing_absurd() {
        let cutoffs = CuratorPolicy::default().cutoffs(Timestamp(i64::MIN));
        assert_eq!(next_state(SkillState::Active, Some(Timestamp(0)), cutoffs), SkillState::Active);
        assert!(
            CuratorPolicy::new(0, 90).is_err()
                && CuratorPolicy::new(31, 30).is_err()
                && CuratorPolicy::new(1, 1).is_ok()
        );
    }
}
