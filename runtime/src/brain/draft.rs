//! The changes of a step in the making. Nothing here has happened yet.

use std::collections::BTreeMap;

use crate::ids::{RelPath, Slug};
use crate::memory::{Fact, Message, TaskEntry};
use crate::skill::Usage;

/// What a step will change. Dropped, it has changed nothing.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// New content by path; `None` takes the file away.
    pub(super) files: BTreeMap<RelPath, Option<Vec<u8>>>,
    pub(super) messages: Vec<Message>,
    pub(super) facts: Vec<Fact>,
    pub(super) tasks: Vec<TaskEntry>,
    pub(super) usage: BTreeMap<Slug, Usage>,
}

impl Draft {
    /// A step that changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message.
    pub fn message(&mut self, message: Message) {
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

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.messages.is_empty()
            && self.facts.is_empty()
            && self.tasks.is_empty()
            && self.usage.is_empty()
    }
}
