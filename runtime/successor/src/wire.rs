//! What parent and worker say to each other over the one socket the worker has: frames of JSON with their length
//! before them. The worker is not trusted: every frame is bounded and must be one of these.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::{
    BackendError, Capabilities, ChatMessage, Completion, CompletionRequest, ErrorClass, Price, Purpose, ToolRecord,
};
use crate::evaluation::{BackendChoice, EvaluationPart, WrittenTask};
use crate::ids::BrainId;
use crate::task::{CallRecord, TaskStatus};

/// The largest frame, in bytes; a longer one breaks the conversation.
const MAX_FRAME: usize = 16 << 20;
/// The largest schema of legal replies that a worker may ask with.
const MAX_LEGAL: usize = 256 << 10;

/// The frames that the parent sends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// The first frame: what to work on.
    Setup(Box<Setup>),
    /// A task of a suite.
    Task(Box<WrittenTask>),
    /// A recorded task, by its receipt. With the conversations of the baseline, a reply is taken from the record only
    /// where the conversation is the same.
    Replay {
        /// The number of the task's receipt.
        seq: u64,
        /// The digests of what the baseline asked, in order.
        asked: Option<Vec<String>>,
    },
    /// One session of a part that compresses.
    Compress {
        /// A part of the kind `compress`.
        part: EvaluationPart,
        /// The number of the session, from 0.
        session: u32,
        /// Where generated data begins.
        seed: u64,
    },
    /// One life of a part that retires skills.
    Curate {
        /// A part of the kind `curate`.
        part: EvaluationPart,
        /// The number of the life, from 0.
        life: u32,
        /// Where generated data begins.
        seed: u64,
    },
    /// A part of many calls.
    Calls(EvaluationPart),
    /// The answer to something the worker asked.
    Answer {
        /// The number that the worker gave its question.
        id: u64,
        /// What came of it.
        answer: Answer,
    },
}

/// What a worker works on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) brain: BrainId,
    /// The file of the patch; none on the baseline's side.
    pub(super) patch: Option<String>,
    pub(super) speaker: BackendChoice,
    /// The brain's own backend, where it speaks.
    pub(super) backend: Option<Face>,
}

/// A backend as seen from inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Face {
    pub(super) name: String,
    pub(super) constrains_replies: bool,
    pub(super) needs_examples: bool,
    #[serde(default)]
    pub(super) preload_bytes: usize,
    pub(super) context_bytes: Option<usize>,
    pub(super) price: Option<Price>,
}

impl Face {
    pub(super) fn of(name: &str, capabilities: Capabilities) -> Self {
        let Capabilities { constrains_replies, needs_examples, preload_bytes, context_bytes, price } = capabilities;
        Self { name: name.to_owned(), constrains_replies, needs_examples, preload_bytes, context_bytes, price }
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        Capabilities {
            constrains_replies: self.constrains_replies,
            needs_examples: self.needs_examples,
            preload_bytes: self.preload_bytes,
            context_bytes: self.context_bytes,
            price: self.price,
        }
    }
}

/// What came of something the worker asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The reply of a backend.
    Reply(Completion),
    /// The backend, or the broker before it, gave none.
    NoReply {
        /// What kind of failure it was.
        class: ErrorClass,
        /// The message of the error.
        message: String,
    },
    /// What a program wrote.
    Output(String),
    /// A program that could not be run.
    NoOutput(String),
}

/// The frames that a worker sends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    /// It is set up.
    Ready {
        /// The identity of the brain before and after the patch.
        identity: (String, String),
        /// The receipts of tasks that can be replayed, newest first.
        tasks: Vec<u64>,
    },
    /// The patch cannot be applied.
    Refused(String),
    /// A case has run.
    Done(Box<CaseResult>),
    /// A case could not be run.
    Failed(String),
    /// It asks for a reply of the brain's backend.
    Ask {
        /// A number that the answer repeats.
        id: u64,
        /// The messages and limits of the question.
        ask: WireAsk,
    },
    /// It asks for a program to be run.
    Program {
        /// A number that the answer repeats.
        id: u64,
        /// What the program stands for, in messages: a tool, or a skill's verifier.
        name: String,
        /// The program's SHA-256: it is one of the patch or of the brain, or it is not run.
        program: String,
        /// What the program reads on standard input.
        input: String,
        /// How long it may take.
        millis: u64,
    },
}

/// What happened in a case, as the worker saw it. It says nothing about whether that was good.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CaseResult {
    pub(super) status: Option<TaskStatus>,
    pub(super) answer: Option<String>,
    pub(super) message: Option<String>,
    pub(super) turns: Option<u32>,
    pub(super) calls: Option<Vec<CallRecord>>,
    pub(super) tokens: Option<u64>,
    pub(super) context_bytes: Option<u64>,
    pub(super) kept_facts: Option<f64>,
    pub(super) retired_used: Option<u64>,
    pub(super) dead_kept: Option<u64>,
    pub(super) cpu_micros: Option<u64>,
    /// Of the time on processors, what the patch took to become a step.
    #[serde(skip)]
    pub(super) patching_micros: u64,
    pub(super) latency_p99_micros: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    /// Digests of what was asked.
    pub(super) asked: Vec<String>,
    /// Replies that came from the record.
    pub(super) recorded: u32,
}

/// A question to a backend.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireAsk {
    pub(super) backend: String,
    pub(super) messages: Vec<ChatMessage>,
    pub(super) purpose: Purpose,
    /// What the session knows of its tools, for a backend without a language model.
    #[serde(default)]
    pub(super) tools: ToolRecord,
    /// A schema, as text: it is not read before its size is known.
    pub(super) legal: String,
    pub(super) max_output_tokens: u32,
    pub(super) max_output_bytes: usize,
    pub(super) temperature: f32,
}

impl WireAsk {
    pub(super) fn of(backend: &str, ask: &CompletionRequest) -> Self {
        Self {
            backend: backend.to_owned(),
            messages: ask.messages.clone(),
            purpose: ask.purpose,
            tools: ask.tools.clone(),
            legal: ask.reply_schema.to_string(),
            max_output_tokens: ask.max_output_tokens,
            max_output_bytes: ask.max_output_bytes,
            temperature: ask.temperature,
        }
    }

    /// The question, held to what a session could ask at most.
    pub(super) fn into_ask(self) -> Option<CompletionRequest> {
        let legal = Some(self.legal).filter(|legal| legal.len() <= MAX_LEGAL)?;
        Some(CompletionRequest {
            messages: self.messages,
            purpose: self.purpose,
            tools: self.tools,
            reply_schema: serde_json::from_str::<Value>(&legal).ok()?.into(),
            max_output_tokens: self.max_output_tokens.min(1 << 20),
            max_output_bytes: self.max_output_bytes.min(1 << 20),
            temperature: self.temperature.clamp(0.0, 2.0),
        })
    }
}

impl From<std::result::Result<Completion, BackendError>> for Answer {
    fn from(replied: std::result::Result<Completion, BackendError>) -> Self {
        match replied {
            Ok(completion) => Self::Reply(completion),
            Err(error) => Self::NoReply { class: error.class, message: error.message },
        }
    }
}

/// Writes one frame; an error where it is larger than [`MAX_FRAME`].
pub(super) fn send(to: &mut impl Write, frame: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(frame)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length as usize <= MAX_FRAME);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the frame is too large"))?;
    to.write_all(&[length.to_le_bytes().as_slice(), &body].concat())?;
    to.flush()
}

/// Reads one frame; nothing at the end of the stream.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too large"));
    }
    // A length alone reserves nothing.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Ok(None);
    }
    serde_json::from_slice(&body).map(Some).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_back_and_torn_or_huge_ones_do_not() {
        let mut bytes = Vec::new();
        send(&mut bytes, &FromWorker::Failed("no".to_owned())).unwrap();
        let read: Option<FromWorker> = receive(&mut bytes.as_slice()).unwrap();
        assert!(matches!(read, Some(FromWorker::Failed(why)) if why == "no"));
        let torn: Option<FromWorker> = receive(&mut &bytes[..bytes.len() - 1]).unwrap();
        assert!(torn.is_none());
        assert!(receive::<FromWorker>(&mut [255, 255, 255, 255, 1].as_slice()).is_err());
        assert!(receive::<FromWorker>(&mut [7, 0, 0, 0, b'A', b'P', b'P', b'R', b'O', b'V', b'E'].as_slice()).is_err());
        assert!(receive::<FromWorker>(&mut [].as_slice()).unwrap().is_none());
    }
}
