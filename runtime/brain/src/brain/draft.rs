//! The changes of a step in the making. Nothing here has happened yet.

use std::collections::BTreeMap;

use super::evidence::{EvolverWrites, Telemetry};
use crate::error::{Error, Result};
use crate::ids::{RelPath, Slug};
use crate::memory::{Fact, MessageEntry, TaskEntry};
use crate::skill::SkillUsage;

/// What a step will change. Dropped, it has changed nothing.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// New content by path; `None` takes the file away.
    pub(super) files: BTreeMap<RelPath, Option<Vec<u8>>>,
    pub(super) messages: Vec<MessageEntry>,
    pub(super) facts: Vec<Fact>,
    pub(super) tasks: Vec<TaskEntry>,
    pub(super) usage: BTreeMap<Slug, SkillUsage>,
    pub(super) telemetry: Telemetry,
    pub(super) evolved: EvolverWrites,
}

impl Draft {
    /// A step that changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message to those that the step will store in the memory.
    pub fn message(&mut self, message: MessageEntry) {
        self.messages.push(message);
    }

    /// Adds or replaces a fact.
    pub fn fact(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    /// Adds a line to the task log.
    pub fn task(&mut self, entry: TaskEntry) {
        self.tasks.push(entry);
    }

    /// The files that would change, with their new content; `None` where one is taken away.
    pub fn files(&self) -> impl Iterator<Item = (&RelPath, Option<&[u8]>)> {
        self.files.iter().map(|(path, content)| (path, content.as_deref()))
    }

    /// Adds all of another draft, unless both change the same file or the same skill's record.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        if let Some(path) = other.files.keys().find(|path| self.files.contains_key(*path)) {
            return Err(Error::conflict(format!("{path} is changed twice in one step")).hint("make two steps of it"));
        }
        if let Some(slug) = other.usage.keys().find(|slug| self.usage.contains_key(*slug)) {
            return Err(
                Error::conflict(format!("skill {slug} is changed twice in one step")).hint("make two steps of it")
            );
        }
        self.files.extend(other.files);
        self.usage.extend(other.usage);
        self.messages.extend(other.messages);
        self.facts.extend(other.facts);
        self.tasks.extend(other.tasks);
        self.telemetry.extend(other.telemetry);
        self.evolved.changes.extend(other.evolved.changes);
        self.evolved.rolled_back.extend(other.evolved.rolled_back);
        self.evolved.proposed.extend(other.evolved.proposed);
        Ok(())
    }

    /// The same step without what was learned: only the account of the task itself stays.
    #[must_use]
    pub fn task_record_only(mut self) -> Self {
        self.telemetry.outcomes.keep_trials(|_| false);
        Self { tasks: self.tasks, telemetry: self.telemetry, ..Self::default() }
    }

    /// Takes the changes of the files for which `files` is true out of this step into a new one. What this step changes
    /// of `skill`'s record and trial is dropped.
    pub fn split_off(&mut self, skill: &Slug, files: impl Fn(&RelPath) -> bool) -> Self {
        let (taken, left) = std::mem::take(&mut self.files).into_iter().partition(|(path, _)| files(path));
        self.files = left;
        self.usage.remove(skill);
        self.telemetry.outcomes.keep_trials(|trial| trial.skill != *skill);
        Self { files: taken, ..Self::default() }
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.messages.is_empty()
            && self.facts.is_empty()
            && self.tasks.is_empty()
            && self.usage.is_empty()
    }
}
