//! Generated lives of an agent's skills, of which is known what the curator cannot know: whether a skill will be used again.
//! The same seed gives the same lives on both sides.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::curator::{self, CuratedSkill, CuratorPolicy};
use crate::error::Result;
use crate::eval_worker::context::Numbers;
use crate::ids::Slug;
use crate::skill::{CreatedBy, SkillState, SkillUsage};

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;
/// The day on which the curator looks.
const TODAY: Timestamp = Timestamp(20_000 * DAY_MILLIS);
/// How many days lie between two uses of a skill that lives: about a week, a month, a quarter.
const RHYTHMS: [(usize, usize); 3] = [(3, 10), (20, 45), (75, 110)];
/// Days since the last use of a skill that is never used again, at most.
const LONGEST_DEAD: usize = 360;

/// A skill, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lived {
    usage: SkillUsage,
    is_used_again: bool,
}

/// What one pass of the curator comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retired {
    /// Skills that it archives, and that are used again later.
    pub(crate) used_again: u64,
    /// Skills that stay in the index, and are never used again.
    pub(crate) dead_kept: u64,
}

/// Life `number` of a seed: half of its skills are used again, each in a rhythm of its own.
pub(crate) fn generate(seed: u64, number: u32, skills: u32) -> Result<BTreeMap<Slug, Lived>> {
    let mut numbers = Numbers::new(seed.wrapping_mul(1_000_033).wrapping_add(u64::from(number)));
    let mut lives = BTreeMap::new();
    for skill in 0..skills {
        let is_used_again = numbers.below(2) == 0;
        let days = match is_used_again {
            true => {
                let (least, most) = RHYTHMS.get(numbers.below(RHYTHMS.len())).copied().unwrap_or((1, 1));
                let rhythm = least + numbers.below(most - least + 1);
                numbers.below(rhythm)
            }
            false => numbers.below(LONGEST_DEAD + 1),
        };
        let last = Timestamp(TODAY.millis() - i64::try_from(days).unwrap_or(i64::MAX) * DAY_MILLIS);
        let made = Timestamp(last.millis() - 30 * DAY_MILLIS);
        let usage = SkillUsage { last_used_at: Some(last), use_count: 3, ..SkillUsage::new(CreatedBy::Agent, made) };
        lives.insert(format!("skill-{skill:04}").parse()?, Lived { usage, is_used_again });
    }
    Ok(lives)
}

/// What a pass with these cutoffs would do to a life.
pub(crate) fn curate(lives: &BTreeMap<Slug, Lived>, policy: CuratorPolicy) -> Retired {
    let look = |(slug, lived): (&Slug, &Lived)| (slug.clone(), CuratedSkill::new(lived.usage.clone(), true, false));
    let plan = curator::plan(&lives.iter().map(look).collect(), policy.cutoffs(TODAY));
    let archived = plan.transitioned.iter().filter(|moved| moved.to == SkillState::Archived);
    let archived: Vec<&Slug> = archived.map(|moved| &moved.slug).collect();
    let count = |wanted: &dyn Fn(&Slug, &Lived) -> bool| {
        lives.iter().filter(|(slug, lived)| wanted(slug, lived)).count() as u64
    };
    Retired {
        used_again: count(&|slug, lived| lived.is_used_again && archived.contains(&slug)),
        dead_kept: count(&|slug, lived| !lived.is_used_again && !archived.contains(&slug)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retired(stale: u32, archive: u32) -> Retired {
        let policy = CuratorPolicy::new(stale, archive).unwrap();
        let all = (0..20).map(|life| curate(&generate(5, life, 40).unwrap(), policy));
        all.fold(Retired { used_again: 0, dead_kept: 0 }, |sum, one| Retired {
            used_again: sum.used_again + one.used_again,
            dead_kept: sum.dead_kept + one.dead_kept,
        })
    }

    #[test]
    fn a_seed_gives_the_same_life_and_another_number_another() {
        assert_eq!(generate(1, 3, 40).unwrap(), generate(1, 3, 40).unwrap());
        assert_ne!(generate(1, 3, 40).unwrap(), generate(1, 4, 40).unwrap());
        assert_ne!(generate(1, 3, 40).unwrap(), generate(2, 3, 40).unwrap());
    }

    #[test]
    fn sooner_is_fewer_dead_ones_and_at_some_point_living_ones_too() {
        let (late, usual, soon) = (retired(30, 365), retired(30, 120), retired(7, 20));
        assert_eq!((late.used_again, usual.used_again), (0, 0), "nobody waits longer than a quarter");
        assert!(late.dead_kept > usual.dead_kept && usual.dead_kept > soon.dead_kept, "{late:?} {usual:?} {soon:?}");
        assert!(soon.used_again > 50, "{soon:?}");
    }
}
