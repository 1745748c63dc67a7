//! Chat completions, as OpenAI, OpenRouter, Ollama, llama.cpp, vLLM and many others speak them.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use super::classify::{Fault, class_of};
use super::endpoint::{Endpoint, WireMessage};
use super::quirks::{Quirk, QuirkSet, Quirks};
use super::reply::{self, Dialect, Draft, bad_reply, policy};
use super::settings::{EndpointSettings, SchemaMode};
use super::{
    Backend, BackendError, Capabilities, Completion, CompletionRequest, ErrorClass, FinishReason, Price, Tokens,
};
use crate::error::Result;
use herm_http::HttpClient;

/// A backend that speaks chat completions.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    name: String,
    model: String,
    stream: bool,
    schema: SchemaMode,
    context_bytes: Option<usize>,
    price: Option<Price>,
    quirks: Quirks,
}

impl OpenAi {
    /// Checks `settings`; asks nobody yet.
    pub fn new(client: HttpClient, settings: EndpointSettings) -> Result<Self> {
        let endpoint = Endpoint::new(client, &settings.base_url, "/chat/completions")?
            .key("authorization", "Bearer ", settings.key.as_ref())?
            .extra(&settings.extra_headers)?;
        Ok(Self {
            endpoint,
            name: settings.name,
            model: settings.model,
            stream: settings.stream,
            schema: settings.schema,
            context_bytes: settings.context_bytes,
            price: settings.price,
            quirks: Quirks::default(),
        })
    }

    fn request<'a>(&'a self, ask: &'a CompletionRequest, known: QuirkSet) -> Request<'a> {
        let limit = Some(ask.max_output_tokens);
        let (max_tokens, max_completion_tokens) =
            if known.has(Quirk::CompletionTokens) { (None, limit) } else { (limit, None) };
        let (response_format, json_schema) = match self.schema {
            _ if known.has(Quirk::NoSchema) => (None, None),
            SchemaMode::Words => (None, None),
            SchemaMode::ResponseFormat => (Some(ResponseFormat::of(&ask.reply_schema)), None),
            SchemaMode::LlamaGrammar => (None, Some(without_patterns(&ask.reply_schema))),
        };
        Request {
            model: &self.model,
            messages: ask.messages.iter().map(|message| WireMessage::new(message.role, &*message.content)).collect(),
            temperature: (!known.has(Quirk::NoTemperature)).then(|| plain(ask.temperature)),
            max_tokens,
            max_completion_tokens,
            stream: self.stream,
            stream_options: (self.stream && !known.has(Quirk::NoStreamOptions))
                .then_some(StreamOptions { include_usage: true }),
            response_format,
            json_schema,
        }
    }
}

/// What is posted. It borrows the conversation, which is long and goes out at every turn.
#[derive(Debug, Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<Value>,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Debug, Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Debug, Serialize)]
struct NamedSchema<'a> {
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

impl<'a> ResponseFormat<'a> {
    fn of(schema: &'a Value) -> Self {
        Self { r#type: "json_schema", json_schema: NamedSchema { name: "reply", schema, strict: false } }
    }
}

#[async_trait]
impl Backend for OpenAi {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self) -> Option<&str> {
        Some(&self.model)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            constrains_replies: self.schema != SchemaMode::Words && !self.quirks.known().has(Quirk::NoSchema),
            preload_bytes: crate::PRELOAD_BYTES,
            context_bytes: self.context_bytes,
            price: self.price,
            ..Capabilities::default()
        }
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        let lessons = match self.schema {
            SchemaMode::Words => &[Quirk::CompletionTokens, Quirk::NoTemperature, Quirk::NoStreamOptions][..],
            _ => &[Quirk::NoSchema, Quirk::CompletionTokens, Quirk::NoTemperature, Quirk::NoStreamOptions],
        };
        let asked = async {
            let incoming = self.quirks.post(&self.endpoint, lessons, |known| self.request(ask, known)).await?;
            reply::read::<ChatCompletions>(incoming, ask.max_output_bytes, &self.model).await
        };
        asked.await.map_err(|error| self.endpoint.told(error))
    }
}

/// The number a person wrote: 0.2 rather than the 0.20000000298 that a wider float makes of it.
pub(super) fn plain(number: f32) -> f64 {
    (f64::from(number) * 1000.0).round() / 1000.0
}

/// `schema` without `pattern` and `format`, on whose escapes llama.cpp's grammar converter fails. The
/// loop checks the reply against the whole schema anyway.
fn without_patterns(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(without_patterns).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, value)| !(matches!(key.as_str(), "pattern" | "format") && value.is_string()))
            .map(|(key, value)| match (key.as_str(), value) {
                // Below these, keys are names that someone chose, and values are plain data.
                ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                    let named = named.iter().map(|(name, schema)| (name.clone(), without_patterns(schema))).collect();
                    (key.clone(), Value::Object(named))
                }
                ("const" | "enum" | "default" | "examples", value) => (key.clone(), value.clone()),
                (_, value) => (key.clone(), without_patterns(value)),
            })
            .collect(),
        plain => plain.clone(),
    }
}

/// The frames of the Chat Completions API, whole and streamed.
struct ChatCompletions;

impl Dialect for ChatCompletions {
    fn whole(body: &Value, draft: &mut Draft) -> Result<(), BackendError> {
        note_frame(body, draft);
        let choice = body
            .pointer("/choices/0")
            .ok_or_else(|| bad_reply("the endpoint's answer has no choices, so there is no reply in it"))?;
        take_choice(choice, draft)
    }

    fn event(body: &Value, draft: &mut Draft) -> Result<(), BackendError> {
        note_frame(body, draft);
        // The last piece of a stream has the count of tokens and no choice.
        match body.pointer("/choices/0") {
            Some(choice) => take_choice(choice, draft),
            None => Ok(()),
        }
    }
}

fn note_frame(body: &Value, draft: &mut Draft) {
    if let Some(model) = body.get("model").and_then(Value::as_str) {
        draft.model = Some(model.to_owned());
    }
    if let Some(tokens) = body.get("usage").and_then(tokens) {
        draft.tokens = Some(tokens);
    }
}

fn tokens(usage: &Value) -> Option<Tokens> {
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    Some(Tokens {
        input: count("/prompt_tokens")?,
        output: count("/completion_tokens")?,
        cached: count("/prompt_tokens_details/cached_tokens").unwrap_or(0),
    })
}

fn take_choice(choice: &Value, draft: &mut Draft) -> Result<(), BackendError> {
    if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
        let fault = Fault::from_error(error);
        let message = format!("the endpoint failed while answering: {}", fault.message);
        return Err(BackendError::new(class_of(200, &fault), message));
    }
    // Some servers put whole messages into a stream, or pieces outside of one.
    for piece in ["message", "delta"].iter().filter_map(|key| choice.get(key)) {
        match piece.get("content") {
            Some(Value::String(text)) => draft.say(text),
            Some(Value::Array(parts)) => parts.iter().for_each(|part| take_part(part, draft)),
            _ => {}
        }
        for key in ["reasoning_content", "reasoning"] {
            draft.reasoned(piece.get(key).and_then(Value::as_str).unwrap_or_default());
        }
        draft.refuse(piece.get("refusal").and_then(Value::as_str).unwrap_or_default());
    }
    match choice.get("finish_reason").and_then(Value::as_str) {
        None | Some("") => {}
        Some("content_filter") => return Err(policy("the endpoint's filter stopped the reply")),
        Some("error") => {
            return Err(BackendError::new(ErrorClass::Server, "the endpoint failed while answering, without a word"));
        }
        Some("stop") => draft.finish = Some(FinishReason::Stop),
        Some("length") => draft.finish = Some(FinishReason::Length),
        Some(_) => draft.finish = Some(FinishReason::Other),
    }
    Ok(())
}

/// A part of a content that came as a list: `{"type": "text", "text": …}`.
fn take_part(part: &Value, draft: &mut Draft) {
    let text = part.as_str().or_else(|| part.get("text")?.as_str()).unwrap_or_default();
    match part.get("type").and_then(Value::as_str) {
        Some("refusal") => draft.refuse(part.get("refusal").and_then(Value::as_str).unwrap_or_default()),
        Some("thinking" | "reasoning") => draft.reasoned("(thinking)"),
        _ => draft.say(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_leave_a_schema_and_properties_of_that_name_stay() {
        let schema = json!({
            "type": "object",
            "properties": {"pattern": {"type": "string", "pattern": "\\d+"}, "format": {"format": "uri"}},
            "anyOf": [{"pattern": "x"}, {"enum": [{"pattern": "kept"}]}],
        });
        assert_eq!(
            without_patterns(&schema),
            json!({
                "type": "object",
                "properties": {"pattern": {"type": "string"}, "format": {}},
                "anyOf": [{}, {"enum": [{"pattern": "kept"}]}],
            })
        );
    }

    #[test]
    fn a_temperature_is_sent_as_it_was_written() {
        assert_eq!([plain(0.2), plain(0.0), plain(1.0), plain(0.35)], [0.2, 0.0, 1.0, 0.35]);
    }
}
