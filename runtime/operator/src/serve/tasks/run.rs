//! One task, until it is accepted.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use herm::harness::TaskCost;
use herm::task::SettleMode;
use herm::{BrainId, Digest, Error, SubscriberId, Task, TaskId, TaskLimits};
use serde::{Deserialize, Serialize};

use super::super::app::App;
use super::super::caller::{Caller, no_agent};
use super::super::live::LiveTask;
use super::super::payment::VerifiedPayment;
use super::super::problem::{HandlerResult, Problem};
use super::super::task_queue::Admission;
use super::super::view::TaskView;
use super::Leaving;
use super::deadline::Deadline;
use super::request::{OnDisconnect, TaskRequest};
use super::running::TaskExecution;
use super::task_payment::TaskPayment;
use crate::otlp::CallerTrace;
use crate::server_db::payments;
use crate::server_db::tasks::{self as rows, InsertResult, State, TaskRow, Tries};

/// A task that is to run.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(in crate::serve) id: TaskId,
    pub(in crate::serve) agent: BrainId,
    pub(super) owner: String,
    pub(super) key: Option<String>,
    pub(in crate::serve) what: TaskPayload,
    pub(super) idempotency: Option<[u8; 32]>,
    /// The digest of what was asked, as it was asked.
    pub(super) digest: [u8; 32],
    /// Whether it is written down before it runs.
    pub(super) durable: bool,
    /// What becomes of it when its caller leaves.
    pub(super) on_disconnect: OnDisconnect,
}

/// What is to be done, as the server database keeps it until it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::serve) struct TaskPayload {
    pub(in crate::serve) input: String,
    pub(super) limits: TaskLimits,
    pub(super) dry_run: bool,
    pub(super) subscriber: Option<SubscriberId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) preload: Option<bool>,
}

impl Job {
    /// A task as its caller asks for it.
    pub(crate) fn new(
        app: &App,
        caller: &Caller,
        agent: BrainId,
        request: TaskRequest,
        idempotency: Option<String>,
        later: bool,
    ) -> HandlerResult<Self> {
        // As it was sent: what the operator allows may be another thing tomorrow, and the task is still the same.
        let asked = serde_json::to_vec(&(&agent, &request)).unwrap_or_default();
        let limits = request.limits.unwrap_or_default().lower(&app.task_limits)?;
        let what = TaskPayload {
            input: request.input,
            limits,
            dry_run: request.dry_run,
            subscriber: caller.subscriber().cloned(),
            preload: request.preload,
        };
        let owner = caller.owner();
        let idempotency = idempotency.map(|key| {
            let mut hasher = blake3::Hasher::new_derive_key("herm idempotency v1");
            hasher.update(&(owner.len() as u64).to_le_bytes()).update(owner.as_bytes()).update(key.as_bytes());
            *hasher.finalize().as_bytes()
        });
        let job = Self {
            id: TaskId::new(app.clock.now(), &*app.random)?,
            agent,
            owner,
            key: caller.key().map(|key| key.id.clone()),
            what,
            digest: *Digest::of(&asked).bytes(),
            durable: later || idempotency.is_some() || app.paywall.is_some(),
            idempotency,
            on_disconnect: request.on_disconnect,
        };
        job.task().validate()?;
        Ok(job)
    }

    /// The task as the harness runs it.
    pub(super) fn task(&self) -> Task {
        Task {
            id: Some(self.id.clone()),
            subscriber: self.what.subscriber.clone(),
            input: self.what.input.clone(),
            limits: self.what.limits.clone(),
            keep: if self.what.dry_run { SettleMode::DryRun } else { SettleMode::Settle },
            preload: self.what.preload,
            ..Task::default()
        }
    }

    pub(super) fn row(&self, live: &LiveTask, deadline: Deadline, state: State) -> herm::Result<TaskRow> {
        Ok(TaskRow {
            id: self.id.clone(),
            agent: self.agent.clone(),
            owner: self.owner.clone(),
            key: self.key.clone(),
            idempotency: self.idempotency,
            digest: self.digest,
            request: match state {
                State::Queued => Some(
                    serde_json::to_string(&self.what)
                        .map_err(|source| Error::internal("a task cannot be written down").because(source))?,
                ),
                _ => None,
            },
            state,
            cancelled: false,
            created_at: live.created_at,
            started_at: live.started_at(),
            finished_at: None,
            status: None,
            outcome: None,
            problem: None,
            payment: None,
            tries: Tries::default(),
            value: None,
            deadline: Some(deadline.at),
        })
    }
}

/// A task that was accepted, now or before.
pub(crate) enum Accepted {
    /// It waits or runs; the caller who leaves may take it along.
    Live(Arc<LiveTask>, Leaving),
    /// It is over: its idempotency key is known.
    Known(Box<TaskView>),
}

/// Accepts a task: checks that it can run here, that there is room and money, writes it down where it must outlive the
/// process, and lets it run. Once there is a place for it, that is finished even if nobody waits.
pub(crate) async fn accept(app: &App, caller: &Caller, job: Job, headers: &HeaderMap) -> HandlerResult<Accepted> {
    if app.is_closing() {
        return Err(Error::unavailable("the server is stopping").hint("try again in a moment").into());
    }
    if let Some(key) = job.idempotency
        && let Some(known) = app.db.read(|connection| rows::known(connection, &key))?
    {
        return known_task(app, &job, known);
    }
    if !app.find_or_make(&job.agent).await? {
        return Err(no_agent(&job.agent));
    }
    if app.is_paused(&job.agent) {
        return Err(Error::unavailable(format!("agent {} is paused by its operator", job.agent))
            .hint("try again later")
            .into());
    }
    let paid = match &app.paywall {
        Some(gate) => Some(gate.admit(headers, &job.agent).await?),
        None => None,
    };
    let now = app.clock.now();
    let deadline = Deadline::after(now, job.what.limits.deadline());
    let live = Arc::new(LiveTask::new(job.id.clone(), job.agent.clone(), job.owner.clone(), job.durable, now));
    let leaving = Leaving::new(Arc::clone(&live), job.on_disconnect);
    let parent = CallerTrace::of(headers);
    let taking =
        TaskIntake { app: app.clone(), caller: caller.clone(), live: Arc::clone(&live), deadline, paid, parent };
    let taken = tokio::spawn(taking.take(job)).await;
    match taken.map_err(|_| Error::internal("accepting a task was interrupted"))?? {
        None => Ok(Accepted::Live(live, leaving)),
        Some((job, known)) => {
            leaving.stays();
            known_task(app, &job, known)
        }
    }
}

/// A task on its way in.
struct TaskIntake {
    app: App,
    caller: Caller,
    live: Arc<LiveTask>,
    deadline: Deadline,
    paid: Option<VerifiedPayment>,
    parent: Option<CallerTrace>,
}

impl TaskIntake {
    /// Takes a task in; or says which one it is, if its idempotency key came in meanwhile.
    async fn take(self, mut job: Job) -> HandlerResult<Option<(Job, TaskRow)>> {
        let Self { app, caller, live, deadline, paid, parent } = self;
        let reserved = app.money.reserve(&app, &caller, &mut job.what.limits)?;
        let ticket = app.queue.enter(Arc::clone(&live), caller.share())?;
        if job.durable {
            let kept = match job.row(&live, deadline, State::Queued) {
                Ok(row) => write_in(&app, row, paid.as_ref()).await,
                Err(error) => Err(error),
            };
            match kept {
                Ok(InsertResult::New) => {}
                Ok(InsertResult::Known(known)) => {
                    app.queue.forget(&job.id);
                    return Ok(Some((job, *known)));
                }
                Err(error) => {
                    app.queue.forget(&job.id);
                    return Err(error.into());
                }
            }
        }
        let till = paid.map(|paid| Arc::new(TaskPayment::shown(&app, &job.id, paid)));
        start(
            TaskExecution {
                app,
                job,
                live,
                deadline,
                till,
                reserved,
                parent,
                spent: TaskCost::default(),
                earlier: Tries::default(),
            },
            ticket,
        );
        Ok(None)
    }
}

/// Writes a task down with its payment, which must be a new one.
async fn write_in(app: &App, row: TaskRow, paid: Option<&VerifiedPayment>) -> herm::Result<InsertResult> {
    let payment = paid.map(|paid| (paid.id(), paid.payment().clone()));
    app.db
        .write(move |connection| {
            let kept = rows::add(connection, &row)?;
            if let (InsertResult::New, Some((id, payment))) = (&kept, payment) {
                payments::add(connection, &id, &row.id, &payment, row.created_at)?;
            }
            Ok(kept)
        })
        .await
}

/// What a task is whose idempotency key was seen before.
fn known_task(app: &App, job: &Job, known: TaskRow) -> HandlerResult<Accepted> {
    if known.digest != job.digest {
        return Err(Problem::new(StatusCode::CONFLICT, "conflict", "this Idempotency-Key was used for another task")
            .hint("use a new key for a new task"));
    }
    if known.finished_at.is_none()
        && let Some(live) = app.queue.task(&known.id)
    {
        // Someone else's task to take along: the one who came first decides.
        let leaving = Leaving::new(Arc::clone(&live), OnDisconnect::Continue);
        return Ok(Accepted::Live(live, leaving));
    }
    // It may have ended between the two looks.
    let row = app.db.read(|connection| rows::get(connection, &known.id))?.unwrap_or(known);
    Ok(Accepted::Known(Box::new(TaskView::of_row(row))))
}

/// Lets a task run, also when nobody waits for it any more.
pub(super) fn start(running: TaskExecution, ticket: Admission) {
    let live = Arc::clone(&running.live);
    let handle = tokio::spawn(running.run(ticket));
    live.set_abort(handle.abort_handle());
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use clap::Parser as _;
    use herm::Harness;
    use herm::backend::{Backend, BackendError, Completion, CompletionRequest};

    use super::super::request::LimitsRequest;
    use super::*;
    use crate::cli::Cli;
    use crate::config::Settings;
    use crate::serve::parts;
    use crate::server_db::ServerDb;
    use crate::server_db::keys::Keyring;

    #[derive(Debug)]
    struct Panicking;

    #[async_trait]
    impl Backend for Panicking {
        fn name(&self) -> &str {
            "panicking"
        }

        async fn complete(&self, _: &CompletionRequest) -> Result<Completion, BackendError> {
            panic!("as no backend should")
        }
    }

    /// A backend that never answers.
    #[derive(Debug)]
    struct Silent;

    #[async_trait]
    impl Backend for Silent {
        fn name(&self) -> &str {
            "silent"
        }

        async fn complete(&self, _: &CompletionRequest) -> Result<Completion, BackendError> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_and_running_together_end_by_the_deadline_that_was_fixed_at_acceptance() {
        let dir = tempfile::tempdir().unwrap();
        let (brains, config) = (dir.path().join("brains"), dir.path().join("config.toml"));
        drop(herm::fsio::PrivateFile::create(&config).unwrap());
        let place = |path: &std::path::Path| path.to_str().unwrap().to_owned();
        let cli = Cli::try_parse_from(["herm", "--config", &place(&config), "--brains", &place(&brains), "serve"]);
        let settings = Settings::load(&cli.unwrap().settings_flags()).unwrap();
        let mut parts = parts(&settings, ServerDb::open(&settings.layout).unwrap(), Keyring::default()).await.unwrap();
        parts.harness = Harness::builder().brains(&brains).backend(Silent).build().unwrap();
        let app = App::new(parts);
        let (caller, agent) = (Caller::operator(), "1".parse::<BrainId>().unwrap());
        assert!(app.find_or_make(&agent).await.unwrap());
        let began = tokio::time::Instant::now();
        let mut tasks = Vec::new();
        for deadline_secs in [40, 60] {
            let limits = Some(LimitsRequest { deadline_secs: Some(deadline_secs), ..LimitsRequest::default() });
            let request = TaskRequest { input: "go".to_owned(), limits, ..TaskRequest::default() };
            let job = Job::new(&app, &caller, agent.clone(), request, None, false).unwrap();
            tasks.push(accept(&app, &caller, job, &HeaderMap::new()).await.unwrap());
        }
        for (accepted, seconds) in tasks.into_iter().zip([40, 60]) {
            let Accepted::Live(live, leaving) = accepted else { panic!("it is new") };
            let ended = live.ended().await;
            leaving.stays();
            // The second waits for 40 seconds, and runs for 20.
            assert_eq!(began.elapsed().as_secs(), seconds);
            let outcome = ended.view.outcome.clone().unwrap();
            assert_eq!((&outcome["status"], &outcome["stop"]), (&"incomplete".into(), &"deadline".into()), "{outcome}");
        }
        app.harness.shutdown().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_panic_inside_a_task_ends_that_task_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (brains, config) = (dir.path().join("brains"), dir.path().join("config.toml"));
        drop(herm::fsio::PrivateFile::create(&config).unwrap());
        let place = |path: &std::path::Path| path.to_str().unwrap().to_owned();
        let cli = Cli::try_parse_from(["herm", "--config", &place(&config), "--brains", &place(&brains), "serve"]);
        let settings = Settings::load(&cli.unwrap().settings_flags()).unwrap();
        let mut parts = parts(&settings, ServerDb::open(&settings.layout).unwrap(), Keyring::default()).await.unwrap();
        let calm = parts.harness.clone();
        parts.harness = Harness::builder().brains(&brains).backend(Panicking).build().unwrap();
        let app = App::new(parts);
        let (caller, agent) = (Caller::operator(), "1".parse::<BrainId>().unwrap());
        for durable in [false, true] {
            let request = TaskRequest { input: "go".to_owned(), ..TaskRequest::default() };
            let key = durable.then(|| "key-1".to_owned());
            let job = Job::new(&app, &caller, agent.clone(), request, key, false).unwrap();
            let id = job.id.clone();
            let Accepted::Live(live, leaving) = accept(&app, &caller, job, &HeaderMap::new()).await.unwrap() else {
                panic!("it is new");
            };
            let ended = live.ended().await;
            leaving.stays();
            let problem = ended.problem.as_ref().expect("a problem");
            assert_eq!((problem.status, problem.detail.as_str()), (500, "running this task panicked"));
            // It is written down like any other end, and nobody waits for it any more.
            while app.queue.task(&id).is_some() {
                tokio::task::yield_now().await;
            }
            let row = app.db.read(|connection| rows::get(connection, &id)).unwrap().expect("a row");
            assert_eq!((row.state, row.outcome), (State::Failed, None));
        }
        let depth = app.queue.depth();
        assert_eq!((depth.running, depth.waiting), (0, 0));
        app.harness.shutdown().await.unwrap();
        // The brain is as it was before, and works.
        let outcome = calm.run(&agent, Task::new("go")).await.unwrap();
        assert_eq!(outcome.settled.map(|settled| settled.version), Some(2));
        calm.shutdown().await.unwrap();
    }
}
