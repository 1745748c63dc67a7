//! One agent asking another of the same harness.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::task_run::RunOptions;
use super::{Harness, Inner};
use crate::error::{Error, Result};
use crate::ids::{BrainId, TaskId};
use crate::session::{AnswerRelease, Transcript};
use crate::task::{SettleMode, Task, TaskLimits, TaskStatus};
use crate::tool::{Agents, AnswerKeeping, AskRules, TaskFrame};

/// How many agents may ask one another in a row.
const MAX_DEPTH: usize = 3;

/// Which brain waits for which, one entry for each call: a task of the first has asked the second.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    /// The number of the next call.
    next: u64,
    open: HashMap<u64, (BrainId, BrainId)>,
}

impl Calls {
    /// Whether a brain waits for another, directly or through others.
    fn reach(&self, from: &BrainId, to: &BrainId) -> bool {
        let (mut seen, mut left) = (HashSet::new(), vec![from]);
        while let Some(at) = left.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                left.extend(self.open.values().filter(|(asks, _)| asks == at).map(|(_, asked)| asked));
            }
        }
        false
    }
}

impl Waits {
    /// Notes a call of one brain to another, unless the other waits for it already: through however many others, and
    /// no matter whose tasks they are.
    fn begin(&self, from: &BrainId, to: &BrainId) -> Result<Waiting<'_>> {
        let mut calls = self.calls();
        if calls.reach(to, from) {
            return Err(Error::refused(format!("agent {to} waits for agent {from} already, so neither would answer"))
                .hint("answer with what you have, or ask another agent"));
        }
        let call = calls.next;
        calls.next += 1;
        calls.open.insert(call, (from.clone(), to.clone()));
        Ok(Waiting { waits: self, call })
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of one brain to another, open for as long as this lives.
#[derive(Debug)]
struct Waiting<'a> {
    waits: &'a Waits,
    call: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.calls().open.remove(&self.call);
    }
}

/// The other agents of a harness, as one task sees them.
#[derive(Debug)]
pub(super) struct HarnessAgents {
    inner: Weak<Inner>,
    asking: Option<Arc<dyn AskRules>>,
    /// How often the task has asked the same thing of the same agent.
    asked: Mutex<HashMap<(BrainId, String), u32>>,
}

impl HarnessAgents {
    pub(super) fn new(inner: &Arc<Inner>, asking: Option<Arc<dyn AskRules>>) -> Self {
        Self { inner: Arc::downgrade(inner), asking, asked: Mutex::default() }
    }

    /// The name of the task that a question becomes. A task that is run again after a kill, and asks the same again, finds
    /// the answer that it was given: the other agent does not do it twice.
    fn name(&self, from: &TaskFrame, to: &BrainId, input: &str) -> TaskId {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry((to.clone(), input.to_owned())).or_default();
        *times += 1;
        TaskId::derived(&from.task, &[to.as_str().as_bytes(), input.as_bytes(), &times.to_le_bytes()])
    }
}

#[async_trait]
impl Agents for HarnessAgents {
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
        if let Some(rules) = &self.asking {
            rules.check(&to)?;
        }
        let inner = self.inner.upgrade().ok_or_else(|| Error::unavailable("the harness is shutting down"))?;
        let name = self.name(from, &to, &input);
        let _waiting = inner.waits.begin(&from.brain, &to)?;
        let left = from.until.saturating_duration_since(tokio::time::Instant::now());
        let limits = TaskLimits {
            deadline_secs: left.as_secs().clamp(1, TaskLimits::default().deadline_secs),
            ..TaskLimits::default()
        };
        let keep = if from.settles { SettleMode::Settle } else { SettleMode::DryRun };
        let task = Task {
            id: Some(name),
            input,
            limits,
            keep,
            // What a subscriber said stays theirs in the other brain too.
            on_behalf_of: from.subscriber,
            backend: from.backend.clone(),
            path: from.path.clone(),
            asking: self.asking.clone(),
            ..Task::default()
        };
        let harness = Harness { inner: Arc::clone(&inner) };
        let keeping = self.asking.as_ref().map_or(AnswerKeeping::Kept, |rules| rules.keeping());
        let answering = Box::pin(harness.answer(&from.brain, &to, task, keeping));
        let answered = tokio::time::timeout(left.max(Duration::from_secs(1)), answering).await;
        let answered = answered.map_err(|_| Error::unavailable(format!("agent {to} did not answer in time")))?;
        answered.map_err(|error| inner.without_places(&to, error))
    }
}

/// Takes the answer of an agent that is asked for a task that is not paid for yet: the agent's brain keeps none of it, for
/// what is in a brain can be read. The task that asks has it, and keeps it once it is paid for.
#[derive(Debug)]
struct Handover {
    to: BrainId,
    answer: Mutex<Option<String>>,
}

impl Handover {
    fn answer(&self) -> Option<String> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl AnswerRelease for Handover {
    async fn release(&self, answer: &str) -> std::result::Result<(), String> {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer.to_owned());
        Err(format!(
            "the answer went to a task of agent {} that is paid for when it ends, and is not kept here",
            self.to
        ))
    }
}

impl Harness {
    /// The answer to a question: the one that was given before the process was killed, or a new one. One that is handed over
    /// stands in no brain, so it is made again.
    async fn answer(&self, from: &BrainId, to: &BrainId, mut task: Task, keeping: AnswerKeeping) -> Result<String> {
        while let Some(name) = task.id.clone() {
            let asked = name.clone();
            let settled = self.with_brain(to, move |brain| brain.settled_task(&asked)).await?;
            let Some((status, transcript)) = settled else { break };
            let stop = transcript.map(|content| Transcript::parse(&content)).transpose()?.map(|kept| kept.stop);
            let (answer, message) = stop.map(|stop| (stop.answer, stop.message)).unwrap_or_default();
            match answer.filter(|_| status == TaskStatus::Converged) {
                Some(answer) => return Ok(answer),
                None if keeping == AnswerKeeping::Kept => {
                    return Err(no_answer(to, message.as_deref().unwrap_or_else(|| status.name())));
                }
                None => task.id = Some(TaskId::derived(&name, &[b"again"])),
            }
        }
        let handover = (keeping == AnswerKeeping::HandedOver)
            .then(|| Arc::new(Handover { to: from.clone(), answer: Mutex::default() }));
        let release = handover.clone().map(|handover| handover as Arc<dyn AnswerRelease>);
        let outcome = self.run_with(to, task, RunOptions { release, ..RunOptions::default() }).await?;
        let answer = outcome.answer.or_else(|| handover.and_then(|handover| handover.answer()));
        answer.ok_or_else(|| no_answer(to, outcome.message.as_deref().unwrap_or_else(|| outcome.stop.name())))
    }
}

fn no_answer(to: &BrainId, why: &str) -> Error {
    Error::unavailable(format!("agent {to} gave no answer: {why}"))
}

impl Inner {
    /// An error as a model may read it, which may tell it to a subscriber: where the brains are is for the log.
    fn without_places(&self, to: &BrainId, error: Error) -> Error {
        if !error.message().contains(&*self.layout.brains().to_string_lossy()) {
            return error;
        }
        tracing::warn!(brain = %to, %error, "an agent that was asked could not work");
        Error::new(error.kind(), format!("agent {to} cannot work now")).hint("answer with what you have")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> BrainId {
        text.parse().unwrap()
    }

    #[test]
    fn whoever_would_wait_for_itself_is_refused_whatever_the_length_of_the_circle() {
        let waits = Waits::default();
        assert!(waits.begin(&id("1"), &id("1")).is_err());
        let first = waits.begin(&id("1"), &id("2")).unwrap();
        assert!(waits.begin(&id("2"), &id("1")).is_err(), "two");
        let _second = waits.begin(&id("2"), &id("3")).unwrap();
        assert!(waits.begin(&id("3"), &id("1")).is_err(), "three");
        // A brain that others wait for can be waited for by more.
        let _third = waits.begin(&id("4"), &id("2")).unwrap();
        assert!(waits.begin(&id("3"), &id("4")).is_err(), "a side branch closes a circle too");
        let _fourth = waits.begin(&id("3"), &id("5")).unwrap();
        drop(first);
        waits.begin(&id("5"), &id("1")).unwrap();
    }

    #[test]
    fn a_call_that_ends_takes_no_other_call_of_the_same_brain_with_it() {
        let waits = Waits::default();
        let first = waits.begin(&id("1"), &id("2")).unwrap();
        let second = waits.begin(&id("1"), &id("3")).unwrap();
        assert!(waits.begin(&id("2"), &id("1")).is_err(), "the later call does not hide the earlier one");
        let same = waits.begin(&id("1"), &id("2")).unwrap();
        drop(first);
        assert!(waits.begin(&id("2"), &id("1")).is_err(), "one of two calls to agent 2 is open");
        assert!(waits.begin(&id("3"), &id("1")).is_err(), "the call to agent 3 is open");
        drop(same);
        drop(waits.begin(&id("2"), &id("1")).unwrap());
        assert!(waits.begin(&id("3"), &id("1")).is_err());
        drop(second);
        waits.begin(&id("3"), &id("1")).unwrap();
        assert!(waits.calls().open.is_empty());
    }

    #[test]
    fn the_same_question_of_the_same_task_has_the_same_name_and_any_other_another() {
        let parent: TaskId = "0123456789ab-0011223344556677".parse().unwrap();
        let name = |parts: &[&[u8]]| TaskId::derived(&parent, parts);
        let first = name(&[b"2", b"go", b"1"]);
        assert_eq!(first, name(&[b"2", b"go", b"1"]));
        assert!(first.as_str().starts_with("0123456789ab-") && first.as_str().len() == 45, "{}", first.as_str());
        for other in [name(&[b"2", b"go", b"2"]), name(&[b"2g", b"o", b"1"]), name(&[b"3", b"go", b"1"])] {
            assert_ne!(first, other);
        }
        let named: TaskId = "by-hand".parse().unwrap();
        assert!(TaskId::derived(&named, &[]).as_str().starts_with("derived-"));
    }
}
