//! A backend that says what it was told to say: for tests, demonstrations and replays.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;

use super::{Backend, BackendError, Capabilities, Completion, CompletionRequest, ErrorClass, FinishReason, Purpose};

/// Plays replies in order.
#[derive(Debug)]
pub struct ScriptedBackend {
    turns: Mutex<VecDeque<Result<Completion, BackendError>>>,
    synthesis: Mutex<VecDeque<Result<Completion, BackendError>>>,
    asked: Mutex<Vec<CompletionRequest>>,
    capabilities: Capabilities,
}

impl ScriptedBackend {
    /// Says these texts, one a turn; when they are used up, it fails.
    pub fn new<T: Into<String>>(replies: impl IntoIterator<Item = T>) -> Self {
        Self::playing(replies.into_iter().map(|text| Ok(completion(text.into()))).collect::<Vec<_>>())
    }

    /// Gives these answers, failures among them.
    pub fn playing(replies: impl IntoIterator<Item = Result<Completion, BackendError>>) -> Self {
        Self {
            turns: Mutex::new(replies.into_iter().collect()),
            synthesis: Mutex::new(VecDeque::new()),
            asked: Mutex::new(Vec::new()),
            capabilities: Capabilities::default(),
        }
    }

    /// Says this when it is asked to write a skill down.
    #[must_use]
    pub fn synthesising(self, text: impl Into<String>) -> Self {
        self.synthesising_with(Ok(completion(text.into())))
    }

    /// Gives this answer when it is asked to write a skill down.
    #[must_use]
    pub fn synthesising_with(self, answer: Result<Completion, BackendError>) -> Self {
        if let Ok(mut synthesis) = self.synthesis.lock() {
            synthesis.push_back(answer);
        }
        self
    }

    /// Says that it can do this.
    #[must_use]
    pub fn capable(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<CompletionRequest> {
        self.asked.lock().map(|asked| asked.clone()).unwrap_or_default()
    }
}

fn completion(text: String) -> Completion {
    Completion { text, finish: FinishReason::Stop, model: "scripted".to_owned(), tokens: None, attestation: None }
}

#[async_trait]
impl Backend for ScriptedBackend {
    fn name(&self) -> &str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        if let Ok(mut asked) = self.asked.lock() {
            asked.push(ask.clone());
        }
        let script = match ask.purpose {
            Purpose::Turn | Purpose::Draft => &self.turns,
            Purpose::Synthesis => &self.synthesis,
        };
        let next = script.lock().ok().and_then(|mut script| script.pop_front());
        next.unwrap_or_else(|| Err(BackendError::new(ErrorClass::BadRequest, "the script has no more replies")))
    }
}
