//! The backends inside a successor: the connected one, and the record of a task where nothing has changed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::backend::{Backend, BackendError, Capabilities, Completion, CompletionRequest};
use crate::ids::Digest;
use crate::session::Transcript;

/// A backend behind which another can be put for every case. It counts what it hears.
#[derive(Debug, Clone)]
pub(crate) struct SwitchableBackend(Arc<Mutex<Connected>>);

#[derive(Debug)]
struct Connected {
    speaker: Arc<dyn Backend>,
    bytes: u64,
    asked: Vec<String>,
}

impl SwitchableBackend {
    pub(crate) fn new(speaker: Arc<dyn Backend>) -> Self {
        Self(Arc::new(Mutex::new(Connected { speaker, bytes: 0, asked: Vec::new() })))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Connected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a speaker behind it, and forgets what was heard.
    pub(crate) fn connect(&self, speaker: Arc<dyn Backend>) {
        *self.lock() = Connected { speaker, bytes: 0, asked: Vec::new() };
    }

    /// The bytes of all conversations since, and a digest of each.
    pub(crate) fn heard(&self) -> (u64, Vec<String>) {
        let connected = self.lock();
        (connected.bytes, connected.asked.clone())
    }
}

/// The digest of a conversation; a replay takes the recorded reply only where both sides have the same one.
fn digest_of(ask: &CompletionRequest) -> String {
    let mut text = String::new();
    for message in &ask.messages {
        text.push_str(&format!("{} {} ", message.role.name(), message.content.len()));
        text.push_str(&message.content);
    }
    Digest::of(text.as_bytes()).to_string()
}

#[async_trait]
impl Backend for SwitchableBackend {
    fn name(&self) -> &str {
        "successor"
    }

    fn capabilities(&self) -> Capabilities {
        self.lock().speaker.capabilities()
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        let speaker = {
            let mut connected = self.lock();
            connected.bytes += ask.messages.iter().map(|message| message.content.len() as u64).sum::<u64>();
            connected.asked.push(digest_of(ask));
            Arc::clone(&connected.speaker)
        };
        speaker.complete(ask).await
    }
}

/// Says what was said, as long as it is asked what was asked; from there on, someone else speaks.
#[derive(Debug)]
pub(crate) struct FromRecord {
    replies: Vec<Completion>,
    /// What the baseline asked; without it, everything is taken for the same.
    asked: Option<Vec<String>>,
    next: Mutex<Option<usize>>,
    used: AtomicU32,
    otherwise: Arc<dyn Backend>,
}

impl FromRecord {
    pub(crate) fn new(transcript: &Transcript, asked: Option<Vec<String>>, otherwise: Arc<dyn Backend>) -> Self {
        let replies = transcript.turns.iter().map(|turn| turn.reply.clone()).collect();
        Self { replies, asked, next: Mutex::new(Some(0)), used: AtomicU32::new(0), otherwise }
    }

    /// How many replies came from the record.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    fn recorded(&self, ask: &CompletionRequest) -> Option<Completion> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let at = (*next)?;
        let same = self.asked.as_ref().is_none_or(|asked| asked.get(at).is_some_and(|asked| *asked == digest_of(ask)));
        let reply = self.replies.get(at).filter(|_| same);
        // Once it has left the record it does not come back: what is said next depends on what was said.
        *next = reply.map(|_| at + 1);
        reply.cloned()
    }
}

#[async_trait]
impl Backend for FromRecord {
    fn name(&self) -> &str {
        "record"
    }

    fn capabilities(&self) -> Capabilities {
        self.otherwise.capabilities()
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        match self.recorded(ask) {
            Some(reply) => {
                self.used.fetch_add(1, Ordering::Relaxed);
                Ok(reply)
            }
            None => self.otherwise.complete(ask).await,
        }
    }
}
