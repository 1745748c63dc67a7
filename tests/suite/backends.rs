//! The HTTP backends against a real server on loopback that has every quirk we know of.

mod anthropic;
mod chain;
mod openai;
mod transport;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use herm::backend::{
    Anthropic, Backend, BackendError, ChatMessage, Completion, CompletionRequest, EndpointSettings, ErrorClass,
    FinishReason, HttpClient, OpenAi, Purpose, Role, Tokens,
};
use herm_tests::model_server::{ModelServer, Step};
use serde_json::{Value, json};

const KEY: &str = "sk-very-secret-0123456789";

fn ask() -> CompletionRequest {
    let said = |role, content: &str| ChatMessage { role, content: content.into() };
    CompletionRequest {
        messages: vec![said(Role::System, "You answer."), said(Role::User, "Hello")],
        purpose: Purpose::Turn,
        tools: Default::default(),
        reply_schema: Arc::new(json!({"type": "object"})),
        max_output_tokens: 100,
        max_output_bytes: 10_000,
        temperature: 0.2,
    }
}

/// One client for all tests: setting one up reads the machine's certificates, which takes a while.
fn client() -> HttpClient {
    static CLIENT: OnceLock<HttpClient> = OnceLock::new();
    CLIENT.get_or_init(|| HttpClient::new().expect("a client can be set up")).clone()
}

fn openai_settings(server: &ModelServer) -> EndpointSettings {
    let mut settings = EndpointSettings::openai(format!("{}/v1", server.url()), "small");
    settings.key = Some(KEY.into());
    settings
}

fn anthropic_settings(server: &ModelServer) -> EndpointSettings {
    let mut settings = EndpointSettings::anthropic("claude");
    settings.base_url = server.url();
    settings.key = Some(KEY.into());
    settings
}

fn openai(server: &ModelServer) -> OpenAi {
    OpenAi::new(client(), openai_settings(server)).unwrap()
}

fn anthropic(server: &ModelServer) -> Anthropic {
    Anthropic::new(client(), anthropic_settings(server)).unwrap()
}

/// Both backends, with the same client.
fn both(server: &ModelServer, client: &HttpClient) -> [Arc<dyn Backend>; 2] {
    [
        Arc::new(OpenAi::new(client.clone(), openai_settings(server)).unwrap()),
        Arc::new(Anthropic::new(client.clone(), anthropic_settings(server)).unwrap()),
    ]
}

/// What OpenAI-like endpoints answer when asked for a whole body.
fn chat(text: &str) -> Value {
    json!({"model": "small-1", "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
}

/// What Anthropic answers when asked for a whole body.
fn message(text: &str) -> Value {
    json!({
        "type": "message", "role": "assistant", "model": "claude-1", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 3, "output_tokens": 2},
    })
}

/// A piece of a chat stream.
fn delta(text: &str) -> String {
    json!({"choices": [{"delta": {"content": text}, "finish_reason": null}]}).to_string()
}

/// The end of a chat stream.
fn finished(reason: &str) -> String {
    json!({"choices": [{"delta": {}, "finish_reason": reason}]}).to_string()
}

fn completion(text: &str, finish: FinishReason, model: &str, tokens: Option<Tokens>) -> Completion {
    Completion { text: text.into(), finish, model: model.into(), tokens, attestation: None }
}

/// The class and the message of a call that must fail.
async fn failure(backend: &dyn Backend) -> (ErrorClass, String) {
    let BackendError { class, message, .. } = backend.complete(&ask()).await.expect_err("this call must fail");
    (class, message)
}

/// Waits until the server has noticed that a client hung up.
async fn hung_up(server: &ModelServer) {
    comes_true(|| server.hang_ups() > 0).await;
}

/// Waits until a request has reached the server.
async fn asked(server: &ModelServer) {
    comes_true(|| !server.requests().is_empty()).await;
}

/// The server runs on threads of its own, so what it notices is looked for again and again.
async fn comes_true(what: impl Fn() -> bool) {
    let looking = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looking).await.expect("it comes true within a minute");
}

/// One call to an OpenAI-like server that answers with `step`.
async fn openai_says(step: Step) -> Result<Completion, BackendError> {
    let server = ModelServer::start(vec![step]);
    openai(&server).complete(&ask()).await
}

/// One call to an Anthropic server that answers with `step`.
async fn anthropic_says(step: Step) -> Result<Completion, BackendError> {
    let server = ModelServer::start(vec![step]);
    anthropic(&server).complete(&ask()).await
}
