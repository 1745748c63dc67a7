//! Anthropic's Messages API as a backend.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use super::endpoint::{Endpoint, WireMessage};
use super::openai::plain;
use super::quirks::{Quirk, QuirkSet, Quirks};
use super::reply::{self, Dialect, Draft, bad_reply, policy};
use super::settings::EndpointSettings;
use super::{
    Backend, BackendError, Capabilities, ChatMessage, Completion, CompletionRequest, FinishReason, Price, Role,
};
use crate::error::Result;
use herm_http::HttpClient;

const VERSION: &str = "2023-06-01";

/// A backend that speaks Messages.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    name: String,
    model: String,
    stream: bool,
    context_bytes: Option<usize>,
    price: Option<Price>,
    quirks: Quirks,
}

impl Anthropic {
    /// Checks `settings`; asks nobody yet.
    pub fn new(client: HttpClient, settings: EndpointSettings) -> Result<Self> {
        // Written with `/v1` often enough, because other formats want it so.
        let base = settings.base_url.trim().trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base);
        let endpoint = Endpoint::new(client, base, "/v1/messages")?
            .header("anthropic-version", VERSION)?
            .key("x-api-key", "", settings.key.as_ref())?
            .extra(&settings.extra_headers)?;
        Ok(Self {
            endpoint,
            name: settings.name,
            model: settings.model,
            stream: settings.stream,
            context_bytes: settings.context_bytes,
            price: settings.price,
            quirks: Quirks::default(),
        })
    }

    fn request(&self, ask: &CompletionRequest, known: QuirkSet) -> Request<'_> {
        let (system, messages) = conversation(&ask.messages);
        Request {
            model: &self.model,
            max_tokens: ask.max_output_tokens,
            system,
            messages: messages.into_iter().map(|(role, content)| WireMessage::new(role, content)).collect(),
            temperature: (!known.has(Quirk::NoTemperature)).then(|| plain(ask.temperature.clamp(0.0, 1.0))),
            stream: self.stream,
        }
    }
}

#[derive(Debug, Serialize)]
struct Request<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    system: String,
    messages: Vec<WireMessage<'static>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
}

#[async_trait]
impl Backend for Anthropic {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self) -> Option<&str> {
        Some(&self.model)
    }

    fn capabilities(&self) -> Capabilities {
        let preload_bytes = crate::PRELOAD_BYTES;
        Capabilities { preload_bytes, context_bytes: self.context_bytes, price: self.price, ..Capabilities::default() }
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        let asked = async {
            let lessons = &[Quirk::NoTemperature];
            let incoming = self.quirks.post(&self.endpoint, lessons, |known| self.request(ask, known)).await?;
            reply::read::<Messages>(incoming, ask.max_output_bytes, &self.model).await
        };
        asked.await.map_err(|error| self.endpoint.told(error))
    }
}

/// The system's words, and the others' in turns: the API takes no system among the messages, wants the
/// user first, and takes no empty ones.
fn conversation(messages: &[ChatMessage]) -> (String, Vec<(Role, String)>) {
    let mut system = String::new();
    let mut turns: Vec<(Role, String)> = Vec::new();
    for message in messages.iter().filter(|message| !message.content.trim().is_empty()) {
        match (message.role, turns.last_mut()) {
            (Role::System, _) => add_paragraph(&mut system, &message.content),
            (role, Some((last, content))) if *last == role => add_paragraph(content, &message.content),
            (role, _) => turns.push((role, message.content.to_string())),
        }
    }
    if turns.first().is_none_or(|(role, _)| *role == Role::Assistant) {
        turns.insert(0, (Role::User, "Begin.".into()));
    }
    (system, turns)
}

fn add_paragraph(text: &mut String, paragraph: &str) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(paragraph);
}

/// The frames of the Messages API, whole and streamed.
struct Messages;

impl Dialect for Messages {
    fn whole(body: &Value, draft: &mut Draft) -> Result<(), BackendError> {
        let blocks = body
            .get("content")
            .and_then(Value::as_array)
            .ok_or_else(|| bad_reply("the endpoint's answer has no content, so there is no reply in it"))?;
        note_message(body, draft);
        for block in blocks {
            take_block(block, draft);
        }
        note_stop(body, draft)
    }

    fn event(body: &Value, draft: &mut Draft) -> Result<(), BackendError> {
        match body.get("type").and_then(Value::as_str) {
            Some("message_start") => note_message(&body["message"], draft),
            Some("content_block_start") => take_block(&body["content_block"], draft),
            Some("content_block_delta") => take_block(&body["delta"], draft),
            Some("message_delta") => {
                note_usage(&body["usage"], draft);
                note_stop(&body["delta"], draft)?;
            }
            Some("message_stop") => draft.is_done = true,
            // `ping`, `content_block_stop`, and what may come one day.
            _ => {}
        }
        Ok(())
    }
}

fn note_message(message: &Value, draft: &mut Draft) {
    if let Some(model) = message["model"].as_str() {
        draft.model = Some(model.to_owned());
    }
    note_usage(&message["usage"], draft);
}

/// A stream tells the input first and the output last; later counts replace earlier ones.
fn note_usage(usage: &Value, draft: &mut Draft) {
    let count = |key: &str| usage[key].as_u64();
    let mut tokens = draft.tokens.unwrap_or_default();
    match (count("input_tokens"), count("output_tokens")) {
        (None, None) => return,
        (Some(fresh), _) => {
            tokens.cached = count("cache_read_input_tokens").unwrap_or(0);
            tokens.input = fresh + count("cache_creation_input_tokens").unwrap_or(0) + tokens.cached;
        }
        (None, Some(_)) => {}
    }
    tokens.output = count("output_tokens").unwrap_or(tokens.output);
    draft.tokens = Some(tokens);
}

/// A block of a message, the beginning of one, or a piece of one.
fn take_block(block: &Value, draft: &mut Draft) {
    match block["type"].as_str() {
        Some("text" | "text_delta") => draft.say(block["text"].as_str().unwrap_or_default()),
        Some("thinking" | "thinking_delta" | "redacted_thinking") => draft.reasoned("(thinking)"),
        _ => {}
    }
}

fn note_stop(message: &Value, draft: &mut Draft) -> Result<(), BackendError> {
    match message["stop_reason"].as_str() {
        None => {}
        Some("refusal") => return Err(policy("the model's safety policy stopped the reply")),
        Some("end_turn" | "stop_sequence") => draft.finish = Some(FinishReason::Stop),
        // Both are cuts: a reply that ran out of context is no more whole than one out of tokens.
        Some("max_tokens" | "model_context_window_exceeded") => draft.finish = Some(FinishReason::Length),
        Some(_) => draft.finish = Some(FinishReason::Other),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: Role, content: &str) -> ChatMessage {
        ChatMessage { role, content: content.into() }
    }

    #[test]
    fn the_system_speaks_apart_and_neighbours_of_one_role_become_one() {
        let (system, turns) = conversation(&[
            said(Role::System, "be brief"),
            said(Role::User, "one"),
            said(Role::User, "two"),
            said(Role::Assistant, "three"),
            said(Role::System, "be kind"),
            said(Role::Assistant, " "),
            said(Role::Assistant, "four"),
            said(Role::User, "five"),
        ]);
        assert_eq!(system, "be brief\n\nbe kind");
        assert_eq!(
            turns,
            [
                (Role::User, "one\n\ntwo".to_owned()),
                (Role::Assistant, "three\n\nfour".to_owned()),
                (Role::User, "five".to_owned()),
            ]
        );
    }

    #[test]
    fn the_user_is_always_first() {
        let begin = (Role::User, "Begin.".to_owned());
        assert_eq!(conversation(&[]).1, std::slice::from_ref(&begin));
        assert_eq!(conversation(&[said(Role::Assistant, "hello")]).1, [begin, (Role::Assistant, "hello".to_owned())]);
    }
}
