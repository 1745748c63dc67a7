//! What the small files of a model's directory say: which architecture it is, and how large its parts are. Numbers are
//! judged here, before anything is made by them.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::layers::Activation;
use crate::error::{Error, Result};
use crate::fsio;

/// How many bytes a small file of a model may have.
const MOST_SETTINGS: u64 = 1 << 20;
/// How many tokens of a text are looked at: memory grows with their square.
const MOST_TOKENS: usize = 1_024;
/// What Qwen3-Embedding is told before a query, as its model card says.
const QWEN3_QUERY: &str =
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:";

/// The architectures that are implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    /// BERT: an encoder, for embeddings.
    Bert,
    /// RoBERTa and XLM-RoBERTa: encoders, for embeddings.
    Roberta,
    /// The same with a head that judges a pair of texts.
    RobertaClassifier,
    /// Qwen3: a decoder, for embeddings.
    Qwen3,
}

/// How large the parts of a model are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub(super) architecture: Architecture,
    pub(super) hidden: usize,
    pub(super) inner: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) key_heads: usize,
    pub(super) head_size: usize,
    pub(super) words: usize,
    pub(super) positions: usize,
    pub(super) types: usize,
    pub(super) epsilon: f32,
    pub(super) activation: Activation,
    pub(super) rope_base: f64,
    pub(super) padding: u32,
    pub(super) end: Option<u32>,
}

/// How the vectors of tokens become the vector of their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// The mean of all.
    Mean,
    /// The vector of the first token.
    First,
    /// The vector of the last token.
    Last,
}

/// What is put before a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Prompts {
    pub(super) query: String,
    pub(super) passage: String,
}

/// `config.json`, as far as it is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    architectures: Option<Vec<String>>,
    model_type: Option<String>,
    hidden_size: Option<u64>,
    intermediate_size: Option<u64>,
    num_hidden_layers: Option<u64>,
    num_attention_heads: Option<u64>,
    num_key_value_heads: Option<u64>,
    head_dim: Option<u64>,
    vocab_size: Option<u64>,
    max_position_embeddings: Option<u64>,
    type_vocab_size: Option<u64>,
    layer_norm_eps: Option<f64>,
    rms_norm_eps: Option<f64>,
    hidden_act: Option<String>,
    rope_theta: Option<f64>,
    rope_parameters: Option<Rope>,
    rope_scaling: Option<Rope>,
    attention_bias: Option<bool>,
    use_sliding_window: Option<bool>,
    position_embedding_type: Option<String>,
    pad_token_id: Option<u64>,
    eos_token_id: Option<serde_json::Value>,
    id2label: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Rope {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
}

impl Shape {
    /// Reads `config.json` of a model's directory.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let path = directory.join("config.json");
        let config: Config = settings(&path)?.ok_or_else(|| {
            Error::not_found(format!("{} is not there, so {} is no model", path.display(), directory.display()))
                .hint("name the directory that has config.json, tokenizer.json and model.safetensors")
        })?;
        config.shape().map_err(|error| {
            let hint = error.hint_text().unwrap_or("use a model of a supported architecture").to_owned();
            Error::new(error.kind(), format!("{}: {}", path.display(), error.message())).hint(hint)
        })
    }

    /// How many tokens of a text the model sees.
    pub(super) fn most_tokens(&self, directory: &Path) -> Result<usize> {
        #[derive(Debug, Deserialize)]
        struct ConfigFile {
            max_seq_length: Option<usize>,
        }
        let said: Option<ConfigFile> = settings(&directory.join("sentence_bert_config.json"))?;
        let said = said.and_then(|said| said.max_seq_length).unwrap_or(MOST_TOKENS);
        Ok(said.clamp(8, MOST_TOKENS).min(self.usable_positions()))
    }

    /// The positions that a token may have; RoBERTa begins after its padding.
    fn usable_positions(&self) -> usize {
        match self.architecture {
            Architecture::Bert | Architecture::Qwen3 => self.positions,
            Architecture::Roberta | Architecture::RobertaClassifier => {
                self.positions.saturating_sub(self.padding as usize + 1)
            }
        }
    }

    /// How the model pools: as its directory says, else as its family does.
    pub(super) fn pooling(&self, directory: &Path) -> Result<Pooling> {
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Said {
            pooling_mode_cls_token: bool,
            pooling_mode_mean_tokens: bool,
            pooling_mode_lasttoken: bool,
            pooling_mode: Option<String>,
        }
        let path = directory.join("1_Pooling/config.json");
        let usual = if self.architecture == Architecture::Qwen3 { Pooling::Last } else { Pooling::Mean };
        let Some(said) = settings::<Said>(&path)? else { return Ok(usual) };
        let mode = said.pooling_mode.as_deref();
        match (said.pooling_mode_mean_tokens, said.pooling_mode_cls_token, said.pooling_mode_lasttoken, mode) {
            (true, false, false, None) | (false, false, false, Some("mean")) => Ok(Pooling::Mean),
            (false, true, false, None) | (false, false, false, Some("cls")) => Ok(Pooling::First),
            (false, false, true, None) | (false, false, false, Some("lasttoken")) => Ok(Pooling::Last),
            _ => Err(Error::invalid(format!("{} pools in a way that is not implemented", path.display()))
                .hint("use a model that pools by mean, by the first token or by the last")),
        }
    }

    /// What is put before texts: as the directory says, else as the family's card does.
    pub(super) fn prompts(&self, directory: &Path) -> Result<Prompts> {
        #[derive(Debug, Deserialize)]
        struct Said {
            #[serde(default)]
            prompts: std::collections::BTreeMap<String, String>,
        }
        let usual = match self.architecture {
            Architecture::Qwen3 => Prompts { query: QWEN3_QUERY.to_owned(), passage: String::new() },
            _ => Prompts::default(),
        };
        let Some(mut said) = settings::<Said>(&directory.join("config_sentence_transformers.json"))? else {
            return Ok(usual);
        };
        let passage = said.prompts.remove("document").or_else(|| said.prompts.remove("passage"));
        Ok(Prompts {
            query: said.prompts.remove("query").unwrap_or(usual.query),
            passage: passage.unwrap_or(usual.passage),
        })
    }
}

impl Config {
    fn shape(&self) -> Result<Shape> {
        let architecture = self.architecture()?;
        let hidden = sized("hidden_size", self.hidden_size, 16_384)?;
        let heads = sized("num_attention_heads", self.num_attention_heads, 512)?;
        let (key_heads, head_size) = match architecture {
            Architecture::Qwen3 => {
                let head_size = self.head_dim.or(u64::try_from(hidden / heads).ok());
                let key_heads = self.num_key_value_heads.or(u64::try_from(heads).ok());
                (sized("num_key_value_heads", key_heads, 512)?, sized("head_dim", head_size, 1_024)?)
            }
            _ if hidden % heads != 0 => {
                return Err(Error::invalid(format!("hidden_size {hidden} is not divisible by its {heads} heads")));
            }
            _ => (heads, hidden / heads),
        };
        if heads % key_heads != 0 || (architecture == Architecture::Qwen3 && head_size % 2 != 0) {
            let said = format!("{heads} heads of size {head_size} with {key_heads} heads for keys do not fit together");
            return Err(Error::invalid(said));
        }
        let shape = Shape {
            architecture,
            hidden,
            inner: sized("intermediate_size", self.intermediate_size, 65_536)?,
            layers: sized("num_hidden_layers", self.num_hidden_layers, 256)?,
            heads,
            key_heads,
            head_size,
            words: sized("vocab_size", self.vocab_size, 4_000_000)?,
            positions: sized("max_position_embeddings", self.max_position_embeddings, 4_000_000)?,
            types: match architecture {
                Architecture::Qwen3 => 0,
                _ => sized("type_vocab_size", self.type_vocab_size.or(Some(1)), 64)?,
            },
            epsilon: self.epsilon(architecture)?,
            activation: self.activation(architecture)?,
            rope_base: self.rope_base(architecture)?,
            padding: u32::try_from(self.pad_token_id.unwrap_or(1)).unwrap_or(u32::MAX),
            end: self.end(),
        };
        if shape.usable_positions() < 8 {
            return Err(Error::invalid(format!("{} positions are too few for a text", shape.positions)));
        }
        Ok(shape)
    }

    fn architecture(&self) -> Result<Architecture> {
        let named = self.architectures.iter().flatten().map(String::as_str).next();
        let found = match (named, self.model_type.as_deref()) {
            (Some("BertModel" | "BertForMaskedLM"), _) | (None, Some("bert")) => Architecture::Bert,
            (Some("RobertaModel" | "XLMRobertaModel"), _) | (None, Some("roberta" | "xlm-roberta")) => {
                Architecture::Roberta
            }
            (Some("RobertaForSequenceClassification" | "XLMRobertaForSequenceClassification"), _) => {
                Architecture::RobertaClassifier
            }
            (Some("Qwen3Model" | "Qwen3ForCausalLM"), _) | (None, Some("qwen3")) => Architecture::Qwen3,
            (named, kind) => {
                let said = named.or(kind).unwrap_or("none at all");
                return Err(Error::invalid(format!("the architecture {said:?} is not implemented")).hint(
                    "embedding: BertModel, RobertaModel, XLMRobertaModel, Qwen3; reranking: RoBERTa classifiers",
                ));
            }
        };
        if self.position_embedding_type.as_deref().is_some_and(|kind| kind != "absolute") {
            return Err(Error::invalid("only absolute positions are implemented"));
        }
        if architecture_has_labels(found) && self.id2label.as_ref().is_some_and(|labels| labels.len() != 1) {
            return Err(Error::invalid("a reranker gives one number, and this model gives several")
                .hint("name a reranker such as bge-reranker-v2-m3"));
        }
        if found == Architecture::Qwen3 && (self.attention_bias == Some(true) || self.use_sliding_window == Some(true))
        {
            return Err(Error::invalid("neither a bias of attention nor a sliding window is implemented"));
        }
        Ok(found)
    }

    fn epsilon(&self, architecture: Architecture) -> Result<f32> {
        let said = match architecture {
            Architecture::Qwen3 => self.rms_norm_eps.unwrap_or(1e-6),
            _ => self.layer_norm_eps.unwrap_or(1e-12),
        };
        if !(0.0..=1.0).contains(&said) {
            return Err(Error::invalid(format!("an epsilon of {said} is not from 0 to 1")));
        }
        Ok(said as f32)
    }

    fn activation(&self, architecture: Architecture) -> Result<Activation> {
        match (architecture, self.hidden_act.as_deref()) {
            (Architecture::Qwen3, None | Some("silu")) => Ok(Activation::Silu),
            (Architecture::Qwen3, Some(other)) => Err(no_activation(other)),
            (_, None | Some("gelu")) => Ok(Activation::Gelu),
            (_, Some("gelu_new" | "gelu_pytorch_tanh")) => Ok(Activation::GeluTanh),
            (_, Some("relu")) => Ok(Activation::Relu),
            (_, Some(other)) => Err(no_activation(other)),
        }
    }

    fn rope_base(&self, architecture: Architecture) -> Result<f64> {
        let rope = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref());
        let kind = rope.and_then(|rope| rope.rope_type.as_deref()).unwrap_or("default");
        if architecture == Architecture::Qwen3 && kind != "default" {
            return Err(Error::invalid(format!("positions of the kind {kind:?} are not implemented")));
        }
        let base = rope.and_then(|rope| rope.rope_theta).or(self.rope_theta).unwrap_or(1_000_000.0);
        if !(1.0..=1e12).contains(&base) {
            return Err(Error::invalid(format!("a rope_theta of {base} is not from 1 to 1e12")));
        }
        Ok(base)
    }

    /// The token that ends a text; of several the first.
    fn end(&self) -> Option<u32> {
        let said = match self.eos_token_id.as_ref()? {
            serde_json::Value::Array(several) => several.first()?.as_u64()?,
            one => one.as_u64()?,
        };
        u32::try_from(said).ok()
    }
}

fn architecture_has_labels(architecture: Architecture) -> bool {
    architecture == Architecture::RobertaClassifier
}

fn no_activation(name: &str) -> Error {
    Error::invalid(format!("the activation {name:?} is not implemented"))
}

/// A number of `config.json`, which must be there and be from 1 to `most`.
fn sized(name: &str, said: Option<u64>, most: u64) -> Result<usize> {
    let said = said.ok_or_else(|| Error::invalid(format!("{name} is missing")))?;
    if !(1..=most).contains(&said) {
        return Err(Error::invalid(format!("{name} is {said}, which is not from 1 to {most}")));
    }
    usize::try_from(said).map_err(|_| Error::invalid(format!("{name} is {said}, which is too large")))
}

/// A small JSON file; nothing where it is not there.
fn settings<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = fsio::read_regular(path, MOST_SETTINGS)?;
    serde_json::from_slice(&bytes).map(Some).map_err(|source| {
        Error::corrupt(format!("{} cannot be read: {source}", path.display()))
            .hint("fetch the model again")
            .because(source)
    })
}

#[cfg(test)]
mod tests;
