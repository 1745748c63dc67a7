//! Replies that are kept: the same question to the same model is asked once.
//!
//! The arms of a family ask a model many equal questions, and a model that answers the same every time need not be asked
//! twice. In a file, replies outlive the process: a measurement that was interrupted goes on where it stopped.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use herm::backend::{Backend, BackendError, Capabilities, Completion, CompletionRequest};
use herm::fsio::Root;
use herm::ids::sha256;
use herm::{Error, RelPath, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The most bytes of a file of replies.
const MOST_BYTES: u64 = 1 << 30;

/// A backend that remembers what it said.
#[derive(Debug)]
pub struct KeptReplies {
    inner: Arc<dyn Backend>,
    /// Which model of which backend: replies of another are not its own.
    speaker: String,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    known: HashMap<String, Completion>,
    file: Option<ReplyFile>,
    /// Why the file is no longer written.
    broken: Option<Error>,
}

#[derive(Debug)]
struct ReplyFile {
    root: Root,
    name: RelPath,
    bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct ReplyLine {
    ask: String,
    reply: Completion,
}

impl KeptReplies {
    /// Remembers for as long as it lives. `speaker` names the backend and the model.
    pub fn in_memory(inner: Arc<dyn Backend>, speaker: String) -> Self {
        Self { inner, speaker, kept: Mutex::default() }
    }

    /// Knows what a file knows, and adds to it.
    pub fn in_file(inner: Arc<dyn Backend>, speaker: String, path: &Path) -> Result<Self> {
        let absolute = std::path::absolute(path).map_err(|source| Error::io("open", path, source))?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name().and_then(|name| name.to_str()))
        else {
            return Err(Error::invalid(format!("{} is not the path of a file", path.display())).hint("name a file"));
        };
        let parent = parent.canonicalize().map_err(|source| Error::io("open", parent, source))?;
        let (root, name): (Root, RelPath) = (Root::open(&parent)?, name.parse()?);
        let content = root.read(&name, MOST_BYTES)?.unwrap_or_default();
        // A line that was cut off by the end of a process is written again.
        let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut known = HashMap::new();
        for (at, line) in content.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let read: ReplyLine = serde_json::from_slice(line).map_err(|error| {
                Error::invalid(format!("{}, line {}: {error}", path.display(), at + 1))
                    .hint("this is no file of kept replies: name another, or remove it")
            })?;
            known.insert(read.ask, read.reply);
        }
        let file = Some(ReplyFile { root, name, bytes: whole as u64 });
        Ok(Self { inner, speaker, kept: Mutex::new(Kept { known, file, broken: None }) })
    }

    /// Why replies could not be kept, if that is so.
    pub fn broken(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.broken.as_ref().map(|error| error.message().to_owned())
    }

    /// Names a question: everything that a reply depends on.
    fn name_of(&self, ask: &CompletionRequest) -> String {
        let asked = json!([
            self.speaker,
            ask.purpose,
            ask.messages,
            ask.reply_schema,
            ask.max_output_tokens,
            ask.max_output_bytes,
            ask.temperature,
        ]);
        sha256(asked.to_string().as_bytes())
    }
}

impl Kept {
    fn keep(&mut self, ask: String, reply: &Completion) {
        let line = ReplyLine { ask, reply: reply.clone() };
        if let Some(file) = &mut self.file
            && let Err(error) = file.append(&line)
        {
            // The measurement goes on: only its replies are not kept.
            (self.file, self.broken) = (None, Some(error));
        }
        self.known.insert(line.ask, line.reply);
    }
}

impl ReplyFile {
    fn append(&mut self, line: &ReplyLine) -> Result<()> {
        let mut bytes =
            serde_json::to_vec(line).map_err(|source| Error::internal("a reply is not JSON").because(source))?;
        bytes.push(b'\n');
        if !self.root.write_tail(&self.name, self.bytes, &bytes)? {
            return Err(Error::conflict("the file of kept replies became shorter meanwhile"));
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

#[async_trait]
impl Backend for KeptReplies {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        let name = self.name_of(ask);
        if let Some(known) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).known.get(&name) {
            return Ok(known.clone());
        }
        let reply = self.inner.complete(ask).await?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).keep(name, &reply);
        Ok(reply)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests damage the file from outside")]
mod tests {
    use super::*;
    use herm::backend::{ChatMessage, Purpose, Role, ScriptedBackend};

    fn ask(text: &str) -> CompletionRequest {
        CompletionRequest {
            messages: vec![ChatMessage { role: Role::User, content: text.into() }],
            purpose: Purpose::Turn,
            tools: Default::default(),
            reply_schema: Arc::new(json!({})),
            max_output_tokens: 9,
            max_output_bytes: 99,
            temperature: 0.1,
        }
    }

    async fn said(backend: &KeptReplies, text: &str) -> String {
        backend.complete(&ask(text)).await.unwrap().text
    }

    #[tokio::test]
    async fn the_same_question_is_asked_once_also_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("replies.jsonl");
        let scripted = || Arc::new(ScriptedBackend::new(["one", "two"]));
        let first = KeptReplies::in_file(scripted(), "m".to_owned(), &path).unwrap();
        assert_eq!(
            (said(&first, "a").await, said(&first, "a").await, said(&first, "b").await),
            ("one".into(), "one".into(), "two".into())
        );
        let content = std::fs::read(&path).unwrap();
        std::fs::write(&path, &content[..content.len() - 4]).unwrap();
        let again = KeptReplies::in_file(scripted(), "m".to_owned(), &path).unwrap();
        assert_eq!(
            (said(&again, "a").await, said(&again, "b").await),
            ("one".into(), "one".into()),
            "what was cut off is asked again"
        );
        let other = KeptReplies::in_file(scripted(), "another model".to_owned(), &path).unwrap();
        assert_eq!(said(&other, "b").await, "one");
        assert_eq!(other.broken(), None);
    }

    #[tokio::test]
    async fn a_file_that_holds_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("letter.txt");
        std::fs::write(&path, "Dear Ann,\nyours\n").unwrap();
        let scripted = Arc::new(ScriptedBackend::new(["one"]));
        let error = KeptReplies::in_file(scripted, "m".to_owned(), &path).unwrap_err();
        assert!(error.message().contains("letter.txt, line 1"), "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"Dear Ann,\nyours\n");
    }
}
