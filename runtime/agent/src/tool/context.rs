//! What a running tool sees.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};

use super::embeddings::Embeddings;
use super::working_copy::WorkingCopy;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, TaskId};
use crate::redact::redact;
use crate::skill::command;
use crate::text;

/// The task a tool runs for.
#[derive(Debug, Clone)]
pub struct TaskFrame {
    /// The brain that the task runs on.
    pub brain: BrainId,
    /// The task's name, which everything that it writes is kept under.
    pub task: TaskId,
    /// Who asks: the digest that the brain knows them by.
    pub subscriber: Option<Digest>,
    /// The whole input of the task; see [`words`](Self::words).
    pub input: Arc<str>,
    /// When the task began. Everything it writes carries this moment.
    pub at: Timestamp,
    /// The brains whose tasks led to this one, this one last.
    pub path: Vec<BrainId>,
    /// When it has to be done.
    pub until: tokio::time::Instant,
    /// Whether what it does is kept; a dry run's is not, nor that of agents it asks.
    pub settles: bool,
    /// Whether what a subscriber says may be kept for everyone.
    pub shares: bool,
    /// Whether it has a budget of tokens or money.
    pub has_budget: bool,
    /// The backend its caller wished for.
    pub backend: Option<String>,
    /// Set once it is known that the input begins with a command.
    pub commanded: OnceLock<()>,
}

impl TaskFrame {
    /// What was asked, without the command it may begin with.
    pub fn words(&self) -> &str {
        match self.commanded.get() {
            Some(()) => command::parse(&self.input).map_or(&*self.input, |typed| typed.rest),
            None => &self.input,
        }
    }

    /// Whether what it writes must not reach others: a subscriber's words, unless the operator
    /// chose to share what subscribers say.
    pub fn is_private(&self) -> bool {
        self.subscriber.is_some() && !self.shares
    }
}

/// Named secrets of the operator. Nothing prints them.
#[derive(Clone, Default)]
pub struct Secrets(BTreeMap<String, Secret>);

#[derive(Clone)]
struct Secret {
    value: SecretString,
    /// The hosts it may be sent to.
    hosts: Vec<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A shorter secret is not searched for in texts: it would cut words apart.
const SHORTEST_REDACTED: usize = 6;

impl Secrets {
    /// Adds a secret by name, with the hosts it may be sent to. A secret that is itself an
    /// address needs no hosts.
    pub fn add(&mut self, name: &str, value: SecretString, hosts: &[String]) {
        let hosts = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        self.0.insert(name.to_owned(), Secret { value, hosts });
    }

    /// A secret by name.
    pub fn get(&self, name: &str) -> Option<&SecretString> {
        self.0.get(name).map(|secret| &secret.value)
    }

    /// Whether a secret may be sent to a host.
    pub fn may_go_to(&self, name: &str, host: &str) -> bool {
        self.0.get(name).is_some_and(|secret| secret.hosts.contains(&host.to_ascii_lowercase()))
    }

    /// The names of all secrets, for what a tool's card or an error may list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The text with every secret in it replaced by its name.
    pub fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, (name, secret)| {
            let value = secret.value.expose_secret();
            if value.len() >= SHORTEST_REDACTED && text.contains(value) {
                text.replace(value, &format!("[secret {name}]"))
            } else {
                text
            }
        })
    }
}

/// Other agents of the same harness.
#[async_trait]
pub trait Agents: Send + Sync + fmt::Debug {
    /// Runs a task of `from`'s making on another brain; its final answer.
    async fn ask(&self, from: &TaskFrame, to: BrainId, input: String) -> Result<String>;
}

/// Which agents a task may ask, decided where the task was accepted. Holds for the tasks that it leads to as well.
pub trait AskRules: Send + Sync + fmt::Debug {
    /// Refuses an agent that must not be asked now. The model reads the sentence.
    fn check(&self, to: &BrainId) -> Result<()>;

    /// What an agent that is asked keeps of its answer.
    fn keeping(&self) -> AnswerKeeping {
        AnswerKeeping::Kept
    }
}

/// What an agent that is asked keeps of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKeeping {
    /// All of it: the same question of the same task is answered once, also over a kill.
    Kept,
    /// None of it, for the task that asks is not paid for yet. A task that runs again asks again.
    HandedOver,
    /// All of it, for the task is paid for by now. What was handed over before is asked again.
    KeptOncePaid,
}

/// What a running tool sees.
#[derive(Debug, Clone)]
pub struct ToolContext {
    frame: Arc<TaskFrame>,
    desk: Arc<Mutex<WorkingCopy>>,
    secrets: Arc<Secrets>,
    agents: Option<Arc<dyn Agents>>,
    meaning: Option<Arc<Embeddings>>,
    /// Which turn it is, from 1.
    turn: Arc<AtomicU32>,
    quick: bool,
    /// A call that went well then is replayed.
    went_well: bool,
    traces_content: bool,
}

/// The longest text in a span, in bytes.
const TRACED_BYTES: usize = 8 << 10;

/// What a span holds of a text, where it may hold any: its beginning, without what looks like a secret.
pub fn traced(text: &str) -> String {
    redact(text::head(text, TRACED_BYTES).as_str())
}

impl ToolContext {
    /// A context over a working copy.
    pub fn new(
        frame: Arc<TaskFrame>,
        desk: Arc<Mutex<WorkingCopy>>,
        secrets: Arc<Secrets>,
        agents: Option<Arc<dyn Agents>>,
    ) -> Self {
        if frame.is_private() {
            // Every context of a subscriber's task guards its words: no caller has to ask for it.
            desk.lock().unwrap_or_else(PoisonError::into_inner).keep_private(&frame.input);
        }
        let (meaning, turn) = (None, Arc::default());
        Self { frame, desk, secrets, agents, meaning, turn, quick: false, went_well: false, traces_content: false }
    }

    /// The same with spans that hold what was said and what tools were called with, which they do not otherwise.
    #[must_use]
    pub fn tracing_content(self, traces_content: bool) -> Self {
        Self { traces_content, ..self }
    }

    /// Whether spans hold what was said.
    pub fn traces_content(&self) -> bool {
        self.traces_content
    }

    /// The same with a model that says what texts mean.
    pub fn with_meaning(self, meaning: Option<Arc<Embeddings>>) -> Self {
        Self { meaning, ..self }
    }

    /// What texts mean, where the harness has a model for it.
    pub fn meaning(&self) -> Option<&Arc<Embeddings>> {
        self.meaning.as_ref()
    }

    /// The task that the tool runs for.
    pub fn task(&self) -> &TaskFrame {
        &self.frame
    }

    /// The secrets that the operator's configuration names.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Other agents, where the harness has them.
    pub fn agents(&self) -> Option<&Arc<dyn Agents>> {
        self.agents.as_ref()
    }

    /// The same for a call that is replayed and went well then: what it writes is not judged again.
    pub fn for_call_that_went_well(&self) -> Self {
        Self { went_well: true, ..self.clone() }
    }

    /// Says which turn it is from now on. The driver of a session calls it before each call.
    pub(crate) fn enter_turn(&self, turn: u32) {
        self.turn.store(turn, Ordering::Relaxed);
    }

    /// The same for a call that does very little.
    pub(super) fn for_quick_call(&self) -> Self {
        Self { quick: true, ..self.clone() }
    }

    /// What changed outside the brain since the session last heard of it. Only a remark: where it cannot
    /// be had at once, there is none.
    pub(crate) async fn news(&self) -> Option<String> {
        let hears = self.desk.try_lock().is_ok_and(|desk| desk.hears_of_outside());
        if !hears {
            return None;
        }
        with_working_copy(&self.desk, WorkingCopy::external_skill_changes).await.ok().flatten()
    }

    /// Works on the brain, off the executor's threads unless the call is a quick one.
    pub async fn with_working_copy<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&mut WorkingCopy) -> Result<T> + Send + 'static,
    {
        let (went_well, turn) = (self.went_well, self.turn.load(Ordering::Relaxed));
        let work = move |desk: &mut WorkingCopy| {
            if desk.is_closed() {
                return Err(Error::conflict("the task is over").hint("nothing is written any more"));
            }
            desk.at_turn(turn);
            desk.as_recorded(went_well, work)
        };
        match self.quick {
            true => with_working_copy_inline(&self.desk, work).await,
            false => with_working_copy(&self.desk, work).await,
        }
    }
}

/// Works on a working copy, off the executor's threads. Once begun, the work is finished even if nobody
/// waits for it any more.
pub async fn with_working_copy<T, W>(desk: &Arc<Mutex<WorkingCopy>>, work: W) -> Result<T>
where
    T: Send + 'static,
    W: FnOnce(&mut WorkingCopy) -> Result<T> + Send + 'static,
{
    let (desk, span) = (Arc::clone(desk), tracing::Span::current());
    let worked = tokio::task::spawn_blocking(move || {
        span.in_scope(|| match desk.lock() {
            Ok(mut desk) => work_at(&mut desk, work),
            Err(_) => Err(left_in_the_middle()),
        })
    });
    match worked.await {
        Ok(done) => done,
        Err(_) => Err(Error::unavailable("the runtime is shutting down").hint("start it again and retry")),
    }
}

/// Works on a working copy at once, where the work is little: on a small brain whose working copy is free. Crossing
/// to another thread and back costs more than such work. Otherwise like [`with_working_copy`].
pub async fn with_working_copy_inline<T, W>(desk: &Arc<Mutex<WorkingCopy>>, work: W) -> Result<T>
where
    T: Send + 'static,
    W: FnOnce(&mut WorkingCopy) -> Result<T> + Send + 'static,
{
    match desk.try_lock() {
        Ok(mut desk) if desk.is_light() => return work_at(&mut desk, work),
        Err(TryLockError::Poisoned(_)) => return Err(left_in_the_middle()),
        Ok(_) | Err(TryLockError::WouldBlock) => {}
    }
    with_working_copy(desk, work).await
}

/// A panic ends this piece of work and nothing else. What it had put into the step stays there, as
/// with any tool that fails half-way; a brain that was settling notices by itself.
fn work_at<T>(desk: &mut WorkingCopy, work: impl FnOnce(&mut WorkingCopy) -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(|| work(desk)))
        .unwrap_or_else(|_| Err(Error::internal("the work on the brain panicked")))
}

fn left_in_the_middle() -> Error {
    Error::internal("work on the brain was left unfinished")
}
