//! Where a backend asks, and how: the same for every wire format.

use std::fmt;

use secrecy::SecretString;

use super::Price;

/// How the schema of legal replies is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaMode {
    /// Not at all: the prompt says in words what is legal.
    #[default]
    Words,
    /// As `response_format`; back to words if the endpoint does not know it.
    ResponseFormat,
    /// As llama.cpp's own `json_schema`, which it turns into a grammar.
    LlamaGrammar,
}

/// Where an [`OpenAi`](super::OpenAi) or an [`Anthropic`](super::Anthropic) backend asks, and how.
#[derive(Clone)]
pub struct EndpointSettings {
    /// Its name in messages and receipts.
    pub name: String,
    /// The address: for chat completions up to and including `/v1`, for Messages without it.
    pub base_url: String,
    /// The model to ask for.
    pub model: String,
    /// The key; local servers need none.
    pub key: Option<SecretString>,
    /// Whether to ask for the reply piece by piece.
    pub stream: bool,
    /// Headers to send along. Their values are treated as secrets.
    pub extra_headers: Vec<(String, String)>,
    /// How to send the schema of legal replies. Messages has no way for it but words.
    pub schema: SchemaMode,
    /// The most bytes a conversation may have, where it is known.
    pub context_bytes: Option<usize>,
    /// What it costs, where it is known.
    pub price: Option<Price>,
}

impl EndpointSettings {
    /// An endpoint that speaks chat completions: streaming, without a key, schema or extra headers.
    pub fn openai(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self::new("openai", base_url.into(), model.into())
    }

    /// Anthropic's own endpoint, which speaks Messages: streaming, without a key or extra headers.
    pub fn anthropic(model: impl Into<String>) -> Self {
        Self::new("anthropic", "https://api.anthropic.com".into(), model.into())
    }

    fn new(name: &str, base_url: String, model: String) -> Self {
        Self {
            name: name.into(),
            base_url,
            model,
            key: None,
            stream: true,
            extra_headers: Vec::new(),
            schema: SchemaMode::default(),
            context_bytes: None,
            price: None,
        }
    }
}

impl fmt::Debug for EndpointSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.extra_headers.iter().map(|(name, _)| name.as_str()).collect();
        // Not the base URL: it may hold a password or a key until it is checked.
        f.debug_struct("EndpointSettings")
            .field("name", &self.name)
            .field("model", &self.model)
            .field("key", &self.key)
            .field("stream", &self.stream)
            .field("extra_headers", &headers)
            .field("schema", &self.schema)
            .field("context_bytes", &self.context_bytes)
            .finish_non_exhaustive()
    }
}
