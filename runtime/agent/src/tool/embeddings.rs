//! What texts mean to the model that the harness was given, and what that is used for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::ids::BrainId;
use crate::memory::QueryVector;
use crate::memory::vectors::PendingText;
use crate::semantic::Embedder;

/// How long a search waits for the model: by words alone it takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Skills of one brain that wait for their vectors, at most.
const MOST_WAITING: usize = 256;

/// What meaning is used for. For nothing, unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmbeddingUses {
    /// Whether `recall` finds what means the same in other words.
    pub recall: bool,
    /// Whether the skills a prompt shows are chosen by what they mean, where they do not all fit.
    pub skills: bool,
}

/// A model that says what texts mean, and what it is used for.
#[derive(Debug)]
pub struct Embeddings {
    embedder: Arc<dyn Embedder>,
    uses: EmbeddingUses,
    /// Skills whose vectors were looked for and not there, by the brain whose task looked.
    waiting: Mutex<HashMap<BrainId, Vec<PendingText>>>,
    /// Whether a question is with the model: one that does not come back must not take more threads with it.
    asking: Arc<tokio::sync::Semaphore>,
}

impl Embeddings {
    /// A model and its uses.
    pub fn new(embedder: Arc<dyn Embedder>, uses: EmbeddingUses) -> Self {
        /// Questions that are with the model at the same time, at most.
        const QUESTIONS: usize = 4;
        let asking = Arc::new(tokio::sync::Semaphore::new(QUESTIONS));
        Self { embedder, uses, waiting: Mutex::default(), asking }
    }

    /// The model that makes vectors of texts.
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    /// What it is used for.
    pub fn uses(&self) -> EmbeddingUses {
        self.uses
    }

    /// What a question means. Computed off the executor's threads, and given up on after a while; a failure is in the
    /// log, and for the caller to go on without.
    pub async fn embed_query(&self, question: &str) -> Result<QueryVector> {
        let late = || Error::unavailable("the embedding model took too long");
        let (embedder, question) = (Arc::clone(&self.embedder), question.to_owned());
        let asking = Arc::clone(&self.asking);
        let asked = async move {
            let place = asking.acquire_owned().await.map_err(|_| late())?;
            let asked = tokio::task::spawn_blocking(move || {
                // Held until the model is done, not until nobody waits any more.
                let _place = place;
                QueryVector::of(&*embedder, &question)
            });
            asked.await.map_err(|_| Error::internal("asking the embedding model was interrupted"))?
        };
        let asked = tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(late()));
        asked.inspect_err(|error| tracing::warn!(%error, "what is looked for by meaning is looked for by words alone"))
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<BrainId, Vec<PendingText>>> {
        // The map is never left half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes skills that have no vectors yet.
    pub(crate) fn want(&self, brain: &BrainId, texts: Vec<PendingText>) {
        if texts.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        let known = waiting.entry(brain.clone()).or_default();
        let have: HashSet<String> = known.iter().map(|text| text.text().to_owned()).collect();
        known.extend(texts.into_iter().filter(|text| !have.contains(text.text())));
        known.truncate(MOST_WAITING);
    }

    /// Takes at most so many of them.
    pub fn take_wanted(&self, brain: &BrainId, most: usize) -> Vec<PendingText> {
        let mut waiting = self.waiting();
        let Some(texts) = waiting.get_mut(brain) else { return Vec::new() };
        let rest = texts.split_off(texts.len().min(most));
        let taken = std::mem::replace(texts, rest);
        if texts.is_empty() {
            waiting.remove(brain);
        }
        taken
    }
}
