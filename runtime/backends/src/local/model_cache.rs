//! Models in memory: each is loaded once, speaks on a thread of its own, and is put away when nobody has asked
//! it for a while.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herm_model::{GenerationRequest, Generator, ModelFile, ReplyBounds};
use tokio::sync::oneshot;

use super::room;
use crate::error::{Error, ErrorKind, Result};
use herm_agent::backend::{BackendError, Completion, CompletionRequest, ErrorClass, FinishReason, Tokens};

/// What a reply is, or why there is none.
type Answer = std::result::Result<Completion, BackendError>;

/// How a model is loaded. Two backends that say the same share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loading {
    pub(super) path: PathBuf,
    pub(super) threads: usize,
    pub(super) context: usize,
    pub(super) past_bytes: usize,
    pub(super) idle: Duration,
    pub(super) chars: u64,
    pub(super) items: u64,
    /// Whether a reply may not be said twice in a conversation.
    pub(super) fresh: bool,
    pub(super) name: String,
}

/// A model in memory, by its full name.
struct Loaded {
    speaker: Generator,
    name: String,
}

/// A question on its way to a model.
struct Job {
    ask: CompletionRequest,
    given_up: Arc<AtomicBool>,
    answer: oneshot::Sender<Answer>,
}

/// The models in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ModelCache(Arc<Mutex<BTreeMap<Loading, Sender<Job>>>>);

impl ModelCache {
    /// A cache without models; each is loaded when it is first asked.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many models are in memory.
    pub fn loaded(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Asks a model, which is loaded first where it has to be. Dropping the future gives up.
    pub(super) async fn ask(&self, loading: &Loading, ask: &CompletionRequest) -> Answer {
        let given_up = GivenUp(Arc::new(AtomicBool::new(false)));
        let (answer, heard) = oneshot::channel();
        let mut job = Job { ask: ask.clone(), given_up: Arc::clone(&given_up.0), answer };
        {
            let mut speakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // One that was just put away hands the job back: a new one takes it.
            loop {
                if let Some(speaker) = speakers.get(loading) {
                    match speaker.send(job) {
                        Ok(()) => break,
                        Err(back) => job = back.0,
                    }
                }
                let speaker = self.start(loading).map_err(|error| unloaded(&error))?;
                speakers.insert(loading.clone(), speaker);
            }
        }
        heard.await.unwrap_or_else(|_| {
            Err(BackendError::new(ErrorClass::Server, "the local model's thread ended without a word"))
        })
    }

    fn start(&self, loading: &Loading) -> Result<Sender<Job>> {
        let (sender, jobs) = channel();
        let (shelf, loading) = (self.clone(), loading.clone());
        std::thread::Builder::new()
            .name("herm-local".to_owned())
            .spawn(move || {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| speak(&shelf, &loading, &jobs)));
                if outcome.is_err() {
                    tracing::error!(model = %loading.name, "a local model's thread panicked; it is loaded again when asked");
                    shelf.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&loading);
                }
            })
            .map_err(|source| Error::unavailable("no thread could be started for a local model").because(source))?;
        Ok(sender)
    }
}

/// The life of a model: loaded at the first question, asked until nobody comes.
fn speak(shelf: &ModelCache, loading: &Loading, jobs: &Receiver<Job>) {
    let gone = || drop(shelf.0.lock().unwrap_or_else(PoisonError::into_inner).remove(loading));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(loading.threads)
        .thread_name(|at| format!("herm-local-{at}"))
        .build();
    let loaded = pool
        .map_err(|source| Error::unavailable("no threads could be started for a local model").because(source))
        .and_then(|pool| Ok((pool.install(|| load(loading))?, pool)));
    let (mut loaded, pool) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            let error = unloaded(&error);
            // The next request has it tried again.
            gone();
            jobs.try_iter().for_each(|job| drop(job.answer.send(Err(error.clone()))));
            return;
        }
    };
    loop {
        match jobs.recv_timeout(loading.idle) {
            Ok(job) if job.given_up.load(Ordering::Relaxed) => {}
            Ok(job) => {
                let answer = pool.install(|| answer(&mut loaded, loading.fresh, &job));
                // Nobody listens: they gave up.
                let _ = job.answer.send(answer);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                // From here on nobody can send; what came in between is still answered.
                gone();
                for job in jobs.try_iter() {
                    let answer = pool.install(|| answer(&mut loaded, loading.fresh, &job));
                    let _ = job.answer.send(answer);
                }
                tracing::info!(model = %loading.name, "a local model was put away: nobody has asked it for a while");
                return;
            }
        }
    }
}

fn answer(loaded: &mut Loaded, fresh: bool, job: &Job) -> Answer {
    let ask = &job.ask;
    let messages: Vec<_> = ask.messages.iter().map(|message| (message.role.name(), &*message.content)).collect();
    let question = GenerationRequest {
        messages: &messages,
        legal: &ask.reply_schema,
        most_tokens: ask.max_output_tokens as usize,
        most_bytes: ask.max_output_bytes,
        fresh,
    };
    let reply = loaded.speaker.answer(&question, &job.given_up).map_err(told)?;
    if let Some(why) = &reply.free {
        tracing::warn!(model = %loaded.name, why, "a reply was not held to its schema");
    }
    let effort = reply.effort;
    tracing::debug!(model = %loaded.name, ?effort, "a local model has spoken");
    Ok(Completion {
        text: reply.text,
        finish: match reply.finish {
            herm_model::Finish::Stop => FinishReason::Stop,
            herm_model::Finish::Length => FinishReason::Length,
        },
        model: loaded.name.clone(),
        tokens: Some(Tokens {
            input: effort.asked as u64,
            output: effort.written as u64,
            cached: (effort.asked - effort.read) as u64,
        }),
        attestation: None,
    })
}

fn load(loading: &Loading) -> Result<Loaded> {
    let file = ModelFile::open(&loading.path).map_err(error_of)?;
    let needed = file.loaded_bytes().saturating_add(loading.past_bytes as u64);
    if let Some(free) = room::free_bytes()
        && needed > free
    {
        let mib = |bytes: u64| bytes / (1 << 20);
        return Err(Error::unavailable(format!(
            "{} needs about {} MiB of memory and {} are free",
            file.name(),
            mib(needed),
            mib(free)
        ))
        .hint("use a smaller model, or free memory"));
    }
    let bounds = ReplyBounds { chars: loading.chars, items: loading.items };
    let speaker = Generator::load(&file, bounds, loading.past_bytes, loading.context).map_err(error_of)?;
    Ok(Loaded { speaker, name: super::named(&loading.name, &super::digest(&loading.path)?) })
}

/// What a person is told.
pub(super) fn error_of(error: herm_model::ModelError) -> Error {
    let kind = match error.kind() {
        herm_model::ModelErrorKind::NotFound => ErrorKind::NotFound,
        herm_model::ModelErrorKind::Invalid | herm_model::ModelErrorKind::TooLong => ErrorKind::InvalidInput,
        herm_model::ModelErrorKind::Corrupt => ErrorKind::Corrupt,
        herm_model::ModelErrorKind::GivenUp => ErrorKind::Unavailable,
        herm_model::ModelErrorKind::Internal => ErrorKind::Internal,
    };
    let told = Error::new(kind, error.message());
    match error.hint_text() {
        Some(hint) => told.hint(hint).because(error),
        None => told.because(error),
    }
}

/// What the loop is told, so that it shrinks, retries or falls back.
fn told(error: herm_model::ModelError) -> BackendError {
    let class = match error.kind() {
        herm_model::ModelErrorKind::TooLong => ErrorClass::ContextOverflow,
        herm_model::ModelErrorKind::GivenUp => ErrorClass::Timeout,
        herm_model::ModelErrorKind::Internal => ErrorClass::Server,
        _ => ErrorClass::ModelNotFound,
    };
    BackendError::new(class, error.message())
}

fn unloaded(error: &Error) -> BackendError {
    let class = match error.kind() {
        ErrorKind::Unavailable => ErrorClass::Overloaded,
        ErrorKind::Internal => ErrorClass::Server,
        _ => ErrorClass::ModelNotFound,
    };
    let hint = error.hint_text().map(|hint| format!("; {hint}")).unwrap_or_default();
    BackendError::new(class, format!("{}{hint}", error.message()))
}

/// Says that nobody waits any more, when it is dropped.
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
