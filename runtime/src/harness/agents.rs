//! One agent asking another of the same harness.

use std::sync::Weak;
use std::time::Duration;

use async_trait::async_trait;

use super::{Harness, Inner};
use crate::error::{Error, Result};
use crate::ids::BrainId;
use crate::task::{Keep, Limits, Task};
use crate::tool::{Agents, TaskFrame};

/// How many agents may ask one another in a row.
const MAX_DEPTH: usize = 3;

/// The other agents of a harness.
#[derive(Debug)]
pub(super) struct Neighbours(pub(super) Weak<Inner>);

#[async_trait]
impl Agents for Neighbours {
    async fn ask(&self, from: &TaskFrame, to: BrainId, input: String) -> Result<String> {
        if from.path.contains(&to) {
            return Err(Error::refused(format!("agent {to} is already at work on this task"))
                .hint("ask another agent, or do it yourself"));
        }
        if from.path.len() >= MAX_DEPTH {
            return Err(
                Error::refused(format!("agents may ask one another {MAX_DEPTH} deep, not more")).hint("do it yourself")
            );
        }
        if from.has_budget {
            return Err(Error::refused("a task with a budget does not ask other agents: they would spend beside it")
                .hint("do it yourself"));
        }
        let inner = self.0.upgrade().ok_or_else(|| Error::unavailable("the harness is shutting down"))?;
        let left = from.until.saturating_duration_since(tokio::time::Instant::now());
        let limits =
            Limits { deadline_secs: left.as_secs().clamp(1, Limits::default().deadline_secs), ..Limits::default() };
        let keep = if from.settles { Keep::Settle } else { Keep::DryRun };
        let task = Task {
            input,
            limits,
            keep,
            // What a subscriber said stays theirs in the other brain too.
            on_behalf_of: from.subscriber,
            backend: from.backend.clone(),
            path: from.path.clone(),
            ..Task::default()
        };
        let harness = Harness { inner };
        // Two agents that ask each other at once would wait for ever.
        let outcome = tokio::time::timeout(left.max(Duration::from_secs(1)), Box::pin(harness.run(&to, task)))
            .await
            .map_err(|_| Error::unavailable(format!("agent {to} did not answer in time")))??;
        outcome.answer.ok_or_else(|| {
            Error::unavailable(format!(
                "agent {to} gave no answer: {}",
                outcome.message.unwrap_or_else(|| outcome.stop.name().to_owned())
            ))
        })
    }
}
