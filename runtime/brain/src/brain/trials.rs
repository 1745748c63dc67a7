//! Trials of a brain in numbers.

use std::collections::BTreeMap;

use super::open::Brain;
use super::reader::Reader;
use crate::error::Result;
use crate::ids::Slug;
use crate::memory::{RatedTask, TrialMark, TrialNews, TrialRestart, TrialSum};

impl Brain {
    /// Where to begin with [`trial_news`](Self::trial_news) in a process that has not looked at this brain yet.
    pub fn recent_trial_mark(&self) -> Result<TrialMark> {
        self.database.recent_trial_mark()
    }

    /// Which trials have something new since a mark, and which skills of the agent never were on trial.
    pub fn trial_news(&self, since: TrialMark) -> Result<TrialNews> {
        self.database.trial_news(since)
    }

    /// What the tasks of one trial come to.
    pub fn trial_sum(&self, skill: &Slug) -> Result<TrialSum> {
        self.database.trial_sum(skill)
    }

    /// How the trial of a skill began, where the skill was tried with another text before.
    pub fn trial_restart(&self, skill: &Slug) -> Result<Option<TrialRestart>> {
        self.database.trial_restart(skill)
    }
}

impl Reader {
    /// What the tasks of one trial come to.
    pub fn trial_sum(&self, skill: &Slug) -> Result<TrialSum> {
        self.database.trial_sum(skill)
    }

    /// The tasks with a known outcome that can be run again, newest first, at most so many.
    pub fn rated_tasks(&self, most: usize) -> Result<Vec<RatedTask>> {
        self.database.rated_tasks(most)
    }

    /// What the tasks of every trial come to, by skill. A trial without tasks is not named.
    pub fn trial_sums(&self) -> Result<BTreeMap<Slug, TrialSum>> {
        self.database.trial_sums()
    }
}
