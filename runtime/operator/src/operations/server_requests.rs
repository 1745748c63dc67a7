//! Asking the server of these brains to do what only the owner of a brain can. A server keeps the brains it works with open,
//! so a command beside it cannot change them: it leaves a request in a file, and the server answers in another.
//!
//! A program that can write there can write the brains themselves, so the files need no signature.
//! The server asks its own gates.

use std::time::{Duration, Instant};

use herm::fsio::{self, OsLock, Root, SyncTiming};
use herm::ids::{RelPath, SystemRandom};
use herm::successor::gate::Nonce;
use herm::{BrainId, Error, ErrorKind, Layout, Result};
use serde::{Deserialize, Serialize};

use super::patches::{AppliedPatch, TakenBackPatch};

/// How long a request waits: a task that runs holds the brain meanwhile.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often the answer is looked for.
const PAUSE: Duration = Duration::from_millis(100);
/// The largest request, or answer.
const MOST_BYTES: u64 = 1 << 20;
/// How the name of an answer ends.
const ANSWER: &str = ".answer.json";

/// What a server is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(crate) enum Request {
    /// Apply the patch of a verdict, through the gates.
    Apply {
        /// The name of the verdict whose patch it is.
        verdict: String,
    },
    /// Take a patch back.
    TakeBack {
        /// The brain that has the patch.
        brain: BrainId,
        /// The step that applied it.
        step: i64,
    },
}

/// What a request came to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Fulfilled {
    /// A patch was applied.
    Applied(AppliedPatch),
    /// A patch was taken back.
    TakenBack(TakenBackPatch),
}

/// What the server answers: the result of the request, or its error.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Done(Fulfilled),
    Failed { kind: String, message: String, hint: Option<String> },
}

fn place(layout: &Layout) -> Result<Root> {
    let path = layout.successors().join("requests");
    fsio::create_dirs(&path)?;
    Root::open(&path)
}

/// Whether a server runs on these brains.
pub(crate) fn server_runs(layout: &Layout) -> bool {
    let lock = layout.server_lock();
    lock.exists()
        && matches!(OsLock::acquire(&lock, "the server of these brains", Duration::ZERO),
            Err(error) if error.kind() == ErrorKind::Conflict)
}

/// Has the server of these brains apply the patch of a verdict, through the gates.
pub(crate) fn apply(layout: &Layout, verdict: &str) -> Result<AppliedPatch> {
    match ask(layout, &Request::Apply { verdict: verdict.to_owned() })? {
        Fulfilled::Applied(applied) => Ok(applied),
        Fulfilled::TakenBack(_) => Err(other_answer()),
    }
}

/// Has the server of these brains take a patch back.
pub(crate) fn take_back(layout: &Layout, brain: &BrainId, step: i64) -> Result<TakenBackPatch> {
    match ask(layout, &Request::TakeBack { brain: brain.clone(), step })? {
        Fulfilled::TakenBack(taken_back) => Ok(taken_back),
        Fulfilled::Applied(_) => Err(other_answer()),
    }
}

fn other_answer() -> Error {
    Error::corrupt("the server answered another request").hint("look at `herm successor lineage ID`")
}

/// Leaves a request for the server of these brains, and waits for the answer.
fn ask(layout: &Layout, request: &Request) -> Result<Fulfilled> {
    let root = place(layout)?;
    let name = Nonce::new(&SystemRandom)?.to_string();
    let (asked, answered): (RelPath, RelPath) = (format!("{name}.json").parse()?, format!("{name}{ANSWER}").parse()?);
    let line = serde_json::to_vec(request).map_err(|source| Error::internal("a request is JSON").because(source))?;
    root.create(&asked, &line)?;
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(bytes) = root.read(&answered, MOST_BYTES)? {
            root.remove(&answered)?;
            return read(&bytes);
        }
        if Instant::now() >= until || !server_runs(layout) {
            // It may have answered in between.
            if let Some(bytes) = root.read(&answered, MOST_BYTES)? {
                root.remove(&answered)?;
                return read(&bytes);
            }
            root.remove(&asked)?;
            return Err(Error::unavailable("the server that holds the brain gave no answer")
                .hint("look at `herm successor lineage ID`, then run this again"));
        }
        std::thread::park_timeout(PAUSE);
    }
}

fn read(bytes: &[u8]) -> Result<Fulfilled> {
    match serde_json::from_slice(bytes) {
        Ok(Reply::Done(fulfilled)) => Ok(fulfilled),
        Ok(Reply::Failed { kind, message, hint }) => {
            let kinds = [
                ErrorKind::InvalidInput,
                ErrorKind::NotFound,
                ErrorKind::Conflict,
                ErrorKind::Unavailable,
                ErrorKind::Corrupt,
                ErrorKind::Refused,
            ];
            let kind = kinds.into_iter().find(|one| one.name() == kind).unwrap_or(ErrorKind::Internal);
            let error = Error::new(kind, message);
            Err(match hint {
                Some(hint) => error.hint(hint),
                None => error,
            })
        }
        Err(source) => Err(Error::corrupt("the server's answer cannot be read")
            .hint("the server may be of another version: look at `herm successor lineage ID`")
            .because(source)),
    }
}

/// The requests that wait, taken: nobody else does them. What is no request is removed.
pub(crate) fn take(layout: &Layout) -> Result<Vec<(String, Request)>> {
    // Where nobody ever asked, there is no directory, and none is made.
    if !layout.successors().join("requests").is_dir() {
        return Ok(Vec::new());
    }
    let root = place(layout)?;
    let mut requests = Vec::new();
    for entry in root.list()? {
        let Some(name) = entry.name.strip_suffix(".json").filter(|_| !entry.name.ends_with(ANSWER)) else { continue };
        let path: RelPath = entry.name.parse()?;
        let content = root.read(&path, MOST_BYTES)?;
        root.remove(&path)?;
        match content.and_then(|content| serde_json::from_slice(&content).ok()) {
            Some(request) => requests.push((name.to_owned(), request)),
            None => tracing::warn!(file = %entry.name, "is no request of a command and was removed"),
        }
    }
    Ok(requests)
}

/// Writes the answer to a request into the file that the command waits for.
pub(crate) fn answer(layout: &Layout, name: &str, done: Result<Fulfilled>) -> Result<()> {
    let reply = match done {
        Ok(fulfilled) => Reply::Done(fulfilled),
        Err(error) => Reply::Failed {
            kind: error.kind().name().to_owned(),
            message: error.message().to_owned(),
            hint: error.hint_text().map(str::to_owned),
        },
    };
    let line = serde_json::to_vec(&reply).map_err(|source| Error::internal("an answer is JSON").because(source))?;
    place(layout)?.replace(&format!("{name}{ANSWER}").parse()?, &line, SyncTiming::Later)
}
