//! A model behind an OpenAI-compatible endpoint, from the brain to the shutdown:
//! `cargo run -p herm --example http_model -- http://localhost:11434/v1 qwen3:8b`
//!
//! `OPENAI_API_KEY` is sent where it is set. Without arguments the program starts an endpoint of its own on the loopback
//! address, which speaks the same wire format and plays fixed replies.

use std::sync::Arc;

use herm::backend::{EndpointSettings, HttpClient, OpenAi};
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec};
use herm::{
    Brain, BrainId, BrainOptions, BrainSource, ErrorKind, Harness, Outcome, Result, RunOptions, Seed, StopReason, Task,
    TaskEvent, TaskLimits, TaskStatus,
};
use serde_json::{Map, Value, json};

/// Counts the words of the task's input.
struct WordCount(ToolSpec);

impl WordCount {
    fn new() -> Self {
        let schema = json!({ "type": "object", "additionalProperties": false, "properties": {} });
        Self(ToolSpec::new("word_count", "Counts the words of the input.", Permission::Read, schema))
    }
}

#[async_trait::async_trait]
impl Tool for WordCount {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let count = cx.task().input.split_whitespace().count();
        Ok(ToolOutput::new(format!("{count} words"), format!("{count} words")))
    }
}

/// A harness whose brains all speak through one endpoint.
fn harness(brains: &std::path::Path, base_url: &str, model: &str) -> Result<Harness> {
    let key = std::env::var("OPENAI_API_KEY").ok().map(secrecy::SecretString::from);
    let endpoint = EndpointSettings { key, ..EndpointSettings::openai(base_url, model) };
    Harness::builder()
        .brains(brains)
        .backend(OpenAi::new(HttpClient::new()?, endpoint)?)
        .tool(WordCount::new())?
        .build()
}

/// Makes brain 7 where it does not exist. The harness's key signs this step as it signs every other one.
fn make_brain(harness: &Harness, id: &BrainId) -> Result<()> {
    let role = b"You count words with the tool word_count. You answer with {\"words\": NUMBER}.\n";
    let seed = Seed { id, files: &[("system.md", role)] };
    let options = BrainOptions { signer: Some(Arc::new(harness.signer().clone())), ..BrainOptions::default() };
    let (brain, _) = Brain::hydrate(harness.layout(), id, &BrainSource::Seed(seed), &options)?;
    brain.close()
}

/// Runs a task and collects a line for each event; a program would show them while they arrive.
async fn run(harness: &Harness, id: &BrainId, input: &str) -> Result<(Outcome, Vec<String>)> {
    let (events, mut received) = tokio::sync::mpsc::unbounded_channel();
    let listener = tokio::spawn(async move {
        let mut lines = Vec::new();
        while let Some(event) = received.recv().await {
            match event {
                TaskEvent::TurnStarted { turn, of } => lines.push(format!("turn {turn} of at most {of}")),
                TaskEvent::Retry { backend, class, .. } => lines.push(format!("{backend} failed: {class}")),
                TaskEvent::ToolResult { tool, summary, .. } => lines.push(format!("{tool}: {summary}")),
                TaskEvent::Settled { version, .. } => lines.push(format!("the brain is now version {version}")),
                _ => {}
            }
        }
        lines
    });
    let limits = TaskLimits { deadline_secs: 60, total_tokens: Some(20_000), ..TaskLimits::default() };
    let options = RunOptions { events: Some(events), ..RunOptions::default() };
    let outcome = harness.run_with(id, Task { limits, ..Task::new(input) }, options).await?;
    let lines = listener.await.map_err(|_| herm::Error::internal("the listener panicked"))?;
    Ok((outcome, lines))
}

/// What a program tells its user.
fn describe(outcome: &Outcome) -> String {
    match outcome.status {
        TaskStatus::Converged => outcome.answer.clone().unwrap_or_default(),
        TaskStatus::Incomplete | TaskStatus::Failed => {
            let what = outcome.message.as_deref().unwrap_or("no answer");
            // An endpoint that refuses or cannot be reached is an outcome, not an error: the brain keeps a receipt of it.
            match outcome.stop {
                StopReason::Backend => format!("no model answered: {what}"),
                other => format!("{}: {what}", other.name()),
            }
        }
    }
}

async fn tell(brains: &std::path::Path, base_url: &str, model: &str) -> Result<Vec<String>> {
    let harness = harness(brains, base_url, model)?;
    let id: BrainId = "7".parse()?;
    make_brain(&harness, &id)?;

    let (outcome, mut lines) = run(&harness, &id, "the quick brown fox jumps over the lazy dog").await?;
    lines.push(describe(&outcome));

    // A brain that does not exist is an error, with a kind and a hint.
    match harness.run(&"8".parse()?, Task::new("hello")).await {
        Err(error) if error.kind() == ErrorKind::NotFound => lines.push(error.kind().name().to_owned()),
        Err(error) => return Err(error),
        Ok(_) => return Err(herm::Error::internal("brain 8 was not made, and answered")),
    }

    // Waits for running tasks, closes the brains, pushes snapshots.
    harness.shutdown().await?;
    Ok(lines)
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let brains = std::env::temp_dir().join(format!("herm-http-model-{}", std::process::id()));
    let lines = match arguments.as_slice() {
        [base_url, model] => tell(&brains, base_url, model).await,
        _ => {
            let endpoint = loopback::Endpoint::start(loopback::REPLIES)
                .map_err(|source| herm::Error::unavailable("cannot listen on the loopback address").because(source))?;
            tell(&brains, &endpoint.base_url, "loopback").await
        }
    };
    herm::fsio::remove_tree(&brains)?;
    #[expect(clippy::print_stdout, reason = "an example shows its result")]
    for line in lines? {
        println!("{line}");
    }
    Ok(())
}

/// An endpoint that speaks OpenAI's chat completions, streamed, and plays fixed replies.
mod loopback {
    use std::io::{BufRead as _, BufReader, Read as _, Result, Write as _};
    use std::net::{TcpListener, TcpStream};

    use serde_json::json;

    /// A call of a tool, then the answer, as a model would write them.
    pub(crate) const REPLIES: &[&str] = &[r#"{"tool": "word_count", "args": {}}"#, r#"{"words": 9}"#];

    /// Listens until the process ends.
    pub(crate) struct Endpoint {
        /// For `EndpointSettings::openai`.
        pub(crate) base_url: String,
    }

    impl Endpoint {
        /// Listens on a free port. Request number n gets reply number n; later ones are refused.
        pub(crate) fn start(replies: &'static [&'static str]) -> Result<Self> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let base_url = format!("http://{}/v1", listener.local_addr()?);
            std::thread::spawn(move || {
                let mut replies = replies.iter();
                for connection in listener.incoming().flatten() {
                    // A client that hangs up ends its connection, not the endpoint.
                    let _ = answer(connection, replies.next());
                }
            });
            Ok(Self { base_url })
        }
    }

    /// Reads one request and answers it: `connection: close` keeps the rest of HTTP away.
    fn answer(mut connection: TcpStream, reply: Option<&&str>) -> Result<()> {
        let mut request = BufReader::new(connection.try_clone()?);
        let mut length = 0;
        let mut line = String::new();
        while request.read_line(&mut line)? > 2 {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        std::io::copy(&mut request.take(length), &mut std::io::sink())?;
        let (status, kind, body) = match reply {
            Some(text) => {
                let piece = json!({ "model": "loopback-1", "choices": [{ "delta": { "content": text } }] });
                let last = json!({
                    "model": "loopback-1",
                    "choices": [{ "delta": {}, "finish_reason": "stop" }],
                    "usage": { "prompt_tokens": 120, "completion_tokens": 12 },
                });
                ("200 OK", "text/event-stream", format!("data: {piece}\n\ndata: {last}\n\ndata: [DONE]\n\n"))
            }
            None => {
                let error = json!({ "error": { "message": "invalid api key", "code": "invalid_api_key" } });
                ("401 Unauthorized", "application/json", error.to_string())
            }
        };
        write!(
            connection,
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_runs_a_task_and_says_what_happened() {
        let brains = tempfile::tempdir().unwrap();
        let endpoint = loopback::Endpoint::start(loopback::REPLIES).unwrap();
        let lines = tell(brains.path(), &endpoint.base_url, "loopback").await.unwrap();
        assert_eq!(
            lines,
            [
                "turn 1 of at most 8",
                "word_count: 9 words",
                "turn 2 of at most 8",
                "the brain is now version 2",
                r#"{"words": 9}"#,
                "not_found",
            ]
        );
    }

    #[tokio::test]
    async fn an_endpoint_that_refuses_is_an_outcome() {
        let brains = tempfile::tempdir().unwrap();
        let endpoint = loopback::Endpoint::start(&[]).unwrap();
        let harness = harness(brains.path(), &endpoint.base_url, "loopback").unwrap();
        let id = "7".parse().unwrap();
        make_brain(&harness, &id).unwrap();
        let (outcome, lines) = run(&harness, &id, "hello").await.unwrap();
        harness.shutdown().await.unwrap();
        assert_eq!((outcome.status, outcome.stop), (TaskStatus::Failed, StopReason::Backend));
        assert!(describe(&outcome).starts_with("no model answered: "), "{}", describe(&outcome));
        assert!(lines.contains(&"openai failed: auth".to_owned()), "{lines:?}");
        assert!(outcome.receipt.is_some());
    }
}
