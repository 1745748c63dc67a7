//! Vectors of what brains hold, made after tasks: a few at a time, on threads of their own, while the brain is free for
//! the next task. Only to write them down is its place taken, for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::{Harness, Inner};
use crate::brain::Reader;
use crate::error::{Error, Result};
use crate::ids::BrainId;
use crate::memory::vectors::{EmbeddedText, PendingText, PendingVectors, means_something};
use crate::memory::{QueryVector, Vector};
use crate::semantic::{Embedder, EmbeddingInput};
use crate::tool::Embeddings;

/// Texts that one pass gives to the model, at most: after a task, and where all are asked for.
const PASS: usize = 32;
const LARGE_PASS: usize = 256;
/// How long a shutdown waits for a pass that runs.
const LAST_PASS: Duration = Duration::from_secs(10);

/// Who makes vectors, for which brains.
#[derive(Debug)]
pub(super) struct Vectors {
    meaning: Arc<Embeddings>,
    workers: Mutex<HashMap<BrainId, Worker>>,
    /// Models take all the cores they get: one brain at a time.
    turn: Semaphore,
    closing: watch::Sender<bool>,
}

#[derive(Debug)]
struct Worker {
    /// Whether there was a task meanwhile.
    again: bool,
    handle: Option<JoinHandle<()>>,
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pass {
    /// Vectors that are kept.
    pub(super) kept: u64,
    /// Whether there may be more to do.
    more: bool,
}

impl Vectors {
    pub(super) fn new(meaning: Embeddings) -> Self {
        Self {
            meaning: Arc::new(meaning),
            workers: Mutex::default(),
            turn: Semaphore::new(1),
            closing: watch::Sender::new(false),
        }
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<BrainId, Worker>> {
        // The map is never left half changed.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the worker of a brain goes on; otherwise it is let go of.
    fn goes_on(&self, id: &BrainId, more: bool) -> bool {
        let mut workers = self.workers();
        let again = workers.get_mut(id).is_some_and(|worker| std::mem::take(&mut worker.again));
        let goes_on = (more || again) && !*self.closing.borrow();
        if !goes_on {
            workers.remove(id);
        }
        goes_on
    }
}

impl Harness {
    /// What a question looks for by meaning, where memory is searched so and the model answers.
    pub async fn embed_query(&self, question: &str) -> Option<QueryVector> {
        let meaning = self.inner.meaning().filter(|meaning| meaning.uses().recall && means_something(question))?;
        // That it failed is in the log.
        meaning.embed_query(question).await.ok()
    }

    /// Makes every vector that a brain lacks and waits for it; how many. A part of them is made by itself after each
    /// task. Nothing where no model was given.
    pub async fn make_vectors(&self, id: &BrainId) -> Result<u64> {
        let mut kept = 0;
        while let Some(pass) = self.inner.make_vectors(id).await? {
            kept += pass.kept;
            if !pass.more {
                break;
            }
        }
        Ok(kept)
    }
}

/// How far the vectors of a brain have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct VectorProgress {
    /// Vectors that were made and are kept.
    pub made: u64,
    /// How many were missing when it began.
    pub missing: u64,
}

impl Harness {
    /// Makes every vector that a brain lacks, of its rows and of the skills it sees, in large passes, and waits for it.
    /// `told` hears of each pass. What was made is kept whatever happens, and the next time goes on from there.
    pub async fn index_vectors(&self, id: &BrainId, mut told: impl FnMut(VectorProgress)) -> Result<VectorProgress> {
        let Some(vectors) = &self.inner.vectors else {
            return Err(Error::invalid("the harness has no embedding model").hint("give it one, and what it is for"));
        };
        let embedder = Arc::clone(vectors.meaning.embedder());
        let (inner, brain, model) = (Arc::clone(&self.inner), id.clone(), embedder.name().to_owned());
        let looking = tokio::task::spawn_blocking(move || {
            let reader = Reader::open(&inner.layout, &brain)?;
            let index = reader.skills()?;
            let held = inner.surroundings.outside.as_ref().map(|outside| outside.update().map(|_| outside.pairs()));
            let outside = held.transpose()?.unwrap_or_default();
            let own = index.entries().map(|entry| (entry.place.slug.as_str(), &*entry.description));
            let others = outside.iter().map(|(slug, text)| (slug.as_str(), &**text));
            let skills = reader.skill_vectors_due(&model, own.chain(others))?;
            Ok::<_, Error>((reader.count_vectors_due(&model)?, skills))
        });
        let (rows, skills) = looking.await.map_err(|_| Error::internal("making vectors was interrupted"))??;
        let mut indexed = VectorProgress { made: 0, missing: rows + skills.texts.len() as u64 };
        told(indexed);
        for due in skills.split(LARGE_PASS) {
            indexed.made += self.inner.make_due(id, LARGE_PASS, Some(due)).await?.map_or(0, |pass| pass.kept);
            told(indexed);
        }
        while let Some(pass) = self.inner.make_due(id, LARGE_PASS, None).await? {
            if pass.kept > 0 {
                indexed.made += pass.kept;
                told(indexed);
            }
            if !pass.more {
                break;
            }
        }
        Ok(indexed)
    }
}

impl Inner {
    /// The embedding model and its uses; none where the harness was given no model.
    pub(super) fn meaning(&self) -> Option<Arc<Embeddings>> {
        self.vectors.as_ref().map(|vectors| Arc::clone(&vectors.meaning))
    }

    /// Sees to it that a brain's vectors are made soon.
    pub(super) fn make_vectors_later(self: &Arc<Self>, id: &BrainId) {
        let Some(vectors) = &self.vectors else { return };
        let Ok(executor) = tokio::runtime::Handle::try_current() else { return };
        let mut workers = vectors.workers();
        if let Some(worker) = workers.get_mut(id) {
            worker.again = true;
            return;
        }
        let (inner, brain) = (Arc::clone(self), id.clone());
        let handle = executor.spawn(async move { inner.keep_making_vectors(&brain).await });
        workers.insert(id.clone(), Worker { again: false, handle: Some(handle) });
    }

    async fn keep_making_vectors(self: &Arc<Self>, id: &BrainId) {
        let Some(vectors) = &self.vectors else { return };
        loop {
            let more = match self.make_vectors(id).await {
                Ok(pass) => pass.is_some_and(|pass| pass.more),
                Err(error) => {
                    tracing::warn!(brain = %id, %error, "no vectors were made; searches go by words until there are");
                    false
                }
            };
            if !vectors.goes_on(id, more) {
                return;
            }
        }
    }

    /// One pass over a brain: finds what lacks a vector, asks the model, and keeps what it said.
    pub(super) async fn make_vectors(self: &Arc<Self>, id: &BrainId) -> Result<Option<Pass>> {
        self.make_due(id, PASS, None).await
    }

    /// The same for at most so many texts, or for what is given.
    async fn make_due(
        self: &Arc<Self>,
        id: &BrainId,
        most: usize,
        given: Option<PendingVectors>,
    ) -> Result<Option<Pass>> {
        let Some(vectors) = &self.vectors else { return Ok(None) };
        let interrupted = |_| Error::internal("making vectors was interrupted");
        let turn = vectors.turn.acquire().await.map_err(|_| Error::internal("nobody makes vectors"))?;
        let (meaning, layout, brain) = (Arc::clone(&vectors.meaning), self.layout.clone(), id.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let embedder = Arc::clone(meaning.embedder());
            let due = match given {
                Some(due) => due,
                None => {
                    let mut due = match meaning.uses().recall {
                        true => Reader::open(&layout, &brain)?.vectors_due(embedder.name(), most)?,
                        false => PendingVectors::default(),
                    };
                    due.texts.extend(meaning.take_wanted(&brain, most));
                    due
                }
            };
            let made = ask(&*embedder, &due.texts)?;
            Ok::<_, Error>((due, made, embedder))
        });
        let (due, made, embedder) = looking.await.map_err(interrupted)??;
        // A brain may be busy for long: others need not wait for it.
        drop(turn);
        if due.is_empty() {
            return Ok(Some(Pass::default()));
        }
        let (mut place, wanting) = self.open(id).await?;
        let inner = Arc::clone(self);
        let keeping = tokio::task::spawn_blocking(move || {
            let brain = place.as_mut().ok_or_else(|| Error::internal("the brain is not open"))?;
            let kept = brain.keep_vectors(embedder.name(), &made, &due);
            drop(place);
            drop(wanting);
            inner.close_overweight();
            kept.map(|kept| Pass { kept, more: due.texts.len() >= most && kept > 0 })
        });
        keeping.await.map_err(interrupted)?.map(Some)
    }

    /// Lets the passes that run come to their end, and begins no others; whether there were any.
    pub(super) async fn finish_vectors(&self) -> bool {
        let Some(vectors) = &self.vectors else { return false };
        vectors.closing.send_replace(true);
        let running: Vec<JoinHandle<()>> =
            vectors.workers().values_mut().filter_map(|worker| worker.handle.take()).collect();
        let any = !running.is_empty();
        let deadline = tokio::time::Instant::now() + LAST_PASS;
        for mut handle in running {
            if tokio::time::timeout_at(deadline, &mut handle).await.is_err() {
                handle.abort();
            }
        }
        any
    }
}

/// Asks the model for each text. A text it has no vector for gets none; where it has none for any, it is out of order.
fn ask(embedder: &dyn Embedder, texts: &[PendingText]) -> Result<Vec<EmbeddedText>> {
    let mut made = Vec::with_capacity(texts.len());
    let mut last_error = None;
    for of in texts {
        let vector = match Vector::of(embedder, of.text(), EmbeddingInput::Passage) {
            Ok(vector) => Some(vector),
            Err(error) => {
                last_error = Some(error);
                None
            }
        };
        made.push(EmbeddedText { of: of.clone(), vector });
    }
    match last_error {
        Some(error) if made.iter().all(|made| made.vector.is_none()) => Err(error),
        Some(error) => {
            tracing::warn!(%error, "a text has no vector; it is found by its words");
            Ok(made)
        }
        None => Ok(made),
    }
}
