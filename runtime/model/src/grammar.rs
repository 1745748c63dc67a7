//! Replies held to a JSON Schema while they are written: at every token, only those remain that can still
//! become a legal reply.

use std::sync::{Arc, Mutex};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Map, Value, json};

use crate::error::{ModelError, Result};
use crate::vocabulary::Vocabulary;

/// How many grammars are kept ready.
const KEPT: usize = 16;

/// How much a reply may hold where its schema does not say: a model that repeats itself must come to an end
/// inside its tokens, or nothing of it can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyBounds {
    /// Characters of a text.
    pub chars: u64,
    /// Items of a list.
    pub items: u64,
}

/// The grammars of a model's vocabulary.
pub(crate) struct Grammars {
    factory: ParserFactory,
    ready: Mutex<Vec<(String, Matcher)>>,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Grammars")
    }
}

struct Tokens {
    trie: TokTrie,
    vocabulary: Arc<Vocabulary>,
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.vocabulary.cut(text))
    }
}

impl Grammars {
    /// The grammars over the tokens of `vocabulary`.
    pub(crate) fn new(vocabulary: &Arc<Vocabulary>) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| ModelError::internal(format!("no grammar can be made: {error}"));
        let size = u32::try_from(vocabulary.len()).map_err(|error| failed(&error))?;
        let end = vocabulary.ends().first().copied().unwrap_or_default();
        let words: Vec<Vec<u8>> = (0..size)
            .map(|token| match vocabulary.is_control(token) {
                true => [&[TokTrie::SPECIAL_TOKEN_MARKER], vocabulary.name(token).as_bytes()].concat(),
                false => vocabulary.text_of(token).to_vec(),
            })
            .collect();
        let trie = TokTrie::from(&TokRxInfo::new(size, end), &words);
        let tokens: TokEnv = Arc::new(Tokens { trie, vocabulary: Arc::clone(vocabulary) });
        let can = InferenceCapabilities { ff_tokens: true, ..InferenceCapabilities::default() };
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&tokens, can, &slices).map_err(|error| failed(&error))?;
        factory.quiet();
        Ok(Self { factory, ready: Mutex::new(Vec::new()) })
    }

    /// What holds a reply to `schema`. Nothing, where everything is legal.
    pub(crate) fn matcher(&self, schema: &Value, bounds: ReplyBounds) -> Result<Option<Matcher>> {
        if matches!(schema, Value::Bool(true)) {
            return Ok(None);
        }
        let mut bounded = bounded(schema, bounds);
        if let Some(fields) = bounded.as_object_mut() {
            let manners = json!({
                "item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false,
                "coerce_one_of": true, "lenient": true,
            });
            fields.insert("x-guidance".to_owned(), manners);
        }
        let name = bounded.to_string();
        let mut ready = self.ready.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(at) = ready.iter().position(|(known, _)| *known == name) {
            let entry = ready.remove(at);
            let matcher = entry.1.deep_clone();
            ready.push(entry);
            return Ok(Some(matcher));
        }
        let matcher = Matcher::new(self.factory.create_parser(TopLevelGrammar::from_json_schema(bounded)));
        if let Some(error) = matcher.get_error() {
            return Err(ModelError::invalid(format!("the schema of legal replies makes no grammar: {error}")));
        }
        if ready.len() >= KEPT {
            ready.remove(0);
        }
        ready.push((name, matcher.deep_clone()));
        Ok(Some(matcher))
    }
}

/// Any word but `tool`, as a pattern without looking ahead.
const NOT_TOOL: &str = "^([^t].*|t|t[^o].*|to|to[^o].*|too|too[^l].*|tool.+)$";

/// `schema` with an end to everything in it.
fn bounded(schema: &Value, bounds: ReplyBounds) -> Value {
    let Value::Object(fields) = schema else {
        return match schema {
            Value::Array(items) => items.iter().map(|item| bounded(item, bounds)).collect(),
            plain => plain.clone(),
        };
    };
    if fields.get("not") == Some(&json!({ "required": ["tool"] })) {
        // A final answer of any shape: all it may not have is the key that makes it a call.
        let text = json!({ "type": "string", "maxLength": bounds.chars });
        return json!({ "type": "object", "patternProperties": { NOT_TOOL: text }, "additionalProperties": false,
                       "minProperties": 1, "maxProperties": bounds.items });
    }
    let mut out = Map::with_capacity(fields.len() + 1);
    for (key, value) in fields {
        let value = match (key.as_str(), value) {
            // Below these, keys are names that someone chose, and values are plain data.
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named)) => {
                named.iter().map(|(name, schema)| (name.clone(), bounded(schema, bounds))).collect()
            }
            ("const" | "enum" | "default" | "examples" | "required", value) => value.clone(),
            (_, value) => bounded(value, bounds),
        };
        out.insert(key.clone(), value);
    }
    let is = |kind: &str| match fields.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => false,
    };
    let closed = ["const", "enum", "pattern", "format", "$ref"].iter().any(|key| fields.contains_key(*key));
    if is("string") && !closed {
        least(&mut out, "maxLength", bounds.chars);
    }
    if is("array") {
        least(&mut out, "maxItems", bounds.items);
    }
    Value::Object(out)
}

/// At most `bound`, and at least what a minimum asks for.
fn least(schema: &mut Map<String, Value>, key: &str, bound: u64) {
    let floor = schema.get(&key.replace("max", "min")).and_then(Value::as_u64).unwrap_or(0);
    let most = schema.get(key).and_then(Value::as_u64).unwrap_or(u64::MAX).min(bound).max(floor);
    schema.insert(key.to_owned(), json!(most));
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: ReplyBounds = ReplyBounds { chars: 100, items: 4 };

    #[test]
    fn everything_gets_an_end_and_names_that_look_like_keywords_stay() {
        let schema = json!({
            "type": "object",
            "properties": {
                "type": { "type": "string" },
                "short": { "type": "string", "maxLength": 5 },
                "long": { "type": "string", "minLength": 300 },
                "one": { "type": "string", "enum": ["a"] },
                "many": { "type": "array", "items": { "type": ["string", "null"] } },
            },
            "required": ["type"],
        });
        assert_eq!(
            bounded(&schema, BOUNDS),
            json!({
                "type": "object",
                "properties": {
                    "type": { "type": "string", "maxLength": 100 },
                    "short": { "type": "string", "maxLength": 5 },
                    "long": { "type": "string", "minLength": 300, "maxLength": 300 },
                    "one": { "type": "string", "enum": ["a"] },
                    "many": { "type": "array", "items": { "type": ["string", "null"], "maxLength": 100 }, "maxItems": 4 },
                },
                "required": ["type"],
            })
        );
    }
}
