//! A model of a directory: opened by its small files, loaded when it is first used, once, and shared. One text at a time
//! is looked at, so that memory stays bounded however many ask.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use candle_core::Tensor;

use super::decoder::Decoder;
use super::encoder::{Encoder, Judge};
use super::layers::logistic;
use super::shape::{Architecture, Pooling, Prompts, Shape};
use super::tokens::Tokens;
use super::weights::Weights;
use super::{Embedder, EmbeddingInput, Reranker, SemanticOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio;
use crate::text;

/// How many bytes the small files may have that a model's name is made of.
const MOST_NAMED: u64 = 64 << 20;

/// A directory that holds a model, and what is known of it before its weights are read.
#[derive(Debug)]
struct Source {
    directory: PathBuf,
    shape: Shape,
    name: String,
    running: SemanticOptions,
}

impl Source {
    fn open(directory: &Path, running: SemanticOptions) -> Result<Self> {
        let shape = Shape::read(directory)?;
        let name = name(directory)?;
        Ok(Self { directory: directory.to_owned(), shape, name, running })
    }

    fn tokens(&self) -> Result<Tokens> {
        let end = self.shape.end.filter(|_| self.shape.architecture == Architecture::Qwen3);
        // Room for the token at the end, where the tokenizer does not add it.
        let most = self.shape.most_tokens(&self.directory)? - usize::from(end.is_some());
        Tokens::read(&self.directory, most, end)
    }

    fn core(&self) -> Result<Core> {
        match self.shape.architecture {
            Architecture::Qwen3 => {
                let weights = Weights::open(&self.directory)?.rooted_at("embed_tokens.weight")?;
                Ok(Core::Decoder(Decoder::read(&weights, &self.shape)?))
            }
            _ => {
                let weights = Weights::open(&self.directory)?.rooted_at("embeddings.word_embeddings.weight")?;
                Ok(Core::Encoder(Encoder::read(&weights, &self.shape)?))
            }
        }
    }

    /// As much of a text as the model sees.
    fn cut<'a>(&self, text: &'a str) -> &'a str {
        let end = text.char_indices().nth(self.running.text_limit()).map_or(text.len(), |(end, _)| end);
        text.get(..end).unwrap_or(text)
    }
}

/// The directory's name and a digest of what decides about vectors: so that no two models are taken for one.
fn name(directory: &Path) -> Result<String> {
    let mut digest = blake3::Hasher::new();
    let parts = ["config.json", "tokenizer.json", "1_Pooling/config.json", "config_sentence_transformers.json"];
    for part in parts {
        let path = directory.join(part);
        if path.exists() {
            let bytes = fsio::read_regular(&path, MOST_NAMED)?;
            digest.update(part.as_bytes()).update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
        }
    }
    Weights::open(directory)?.fingerprint(&mut digest)?;
    let whole = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let called = whole.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy());
    let version: String = digest.finalize().to_hex().chars().take(12).collect();
    Ok(format!("{}@{version}", text::line(&called, 80)))
}

/// What turns tokens into vectors.
#[derive(Debug)]
enum Core {
    Encoder(Encoder),
    Decoder(Decoder),
}

impl Core {
    fn run(&self, ids: &[u32]) -> Result<Tensor> {
        match self {
            Self::Encoder(encoder) => encoder.run(ids),
            Self::Decoder(decoder) => decoder.run(ids),
        }
    }
}

/// Why something could not be loaded, to be told to everyone who asks.
#[derive(Debug)]
struct Failure {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    fn of(error: &Error) -> Self {
        let (message, hint) = (error.message().to_owned(), error.hint_text().map(str::to_owned));
        Self { kind: error.kind(), message, hint }
    }

    fn error(&self) -> Error {
        let error = Error::new(self.kind, self.message.clone());
        self.hint.iter().fold(error, |error, hint| error.hint(hint.clone()))
    }
}

/// Something that is loaded when it is first used; and where that failed, why.
#[derive(Debug)]
struct OnUse<T> {
    loaded: OnceLock<Result<T, Failure>>,
    one_at_a_time: Mutex<()>,
}

impl<T> OnUse<T> {
    fn new() -> Self {
        Self { loaded: OnceLock::new(), one_at_a_time: Mutex::new(()) }
    }

    /// Loads what is not loaded yet, and uses it. Files of strangers are read here, by libraries that may panic on them:
    /// that too is a failure that a caller can go on from.
    fn using<A>(&self, name: &str, load: impl FnOnce() -> Result<T>, by: impl FnOnce(&T) -> Result<A>) -> Result<A> {
        let loaded = self.loaded.get_or_init(|| guarded(name, load).map_err(|error| Failure::of(&error)));
        let loaded = loaded.as_ref().map_err(Failure::error)?;
        let _turn = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        guarded(name, || by(loaded))
    }
}

fn guarded<A>(name: &str, work: impl FnOnce() -> Result<A>) -> Result<A> {
    let broke = |_| Error::internal(format!("the model {name} broke down")).hint("fetch the model again, or report it");
    catch_unwind(AssertUnwindSafe(work)).map_err(broke)?
}

/// A model that turns texts into vectors.
#[derive(Debug)]
pub(super) struct Embedding {
    source: Source,
    pooling: Pooling,
    prompts: Prompts,
    model: OnUse<(Tokens, Core)>,
}

impl Embedding {
    pub(super) fn open(directory: &Path, running: SemanticOptions) -> Result<Self> {
        let source = Source::open(directory, running)?;
        if source.shape.architecture == Architecture::RobertaClassifier {
            return Err(Error::invalid(format!("{} is a reranker and no embedding model", source.name))
                .hint("name it as `reranker`"));
        }
        let pooling = source.shape.pooling(directory)?;
        let prompts = source.shape.prompts(directory)?;
        Ok(Self { source, pooling, prompts, model: OnUse::new() })
    }
}

impl Embedder for Embedding {
    fn name(&self) -> &str {
        &self.source.name
    }

    fn embed(&self, text: &str, part: EmbeddingInput) -> Result<Vec<f32>> {
        let prompt = match part {
            EmbeddingInput::Query => &self.prompts.query,
            EmbeddingInput::Passage => &self.prompts.passage,
        };
        let text = format!("{prompt}{}", self.source.cut(text));
        let load = || Ok((self.source.tokens()?, self.source.core()?));
        self.model.using(&self.source.name, load, |(tokens, core)| pooled(&core.run(&tokens.of(&text)?)?, self.pooling))
    }
}

/// The vector of a text, of length one.
fn pooled(states: &Tensor, pooling: Pooling) -> Result<Vec<f32>> {
    let failed = |error| Error::internal(format!("pooling failed: {error}"));
    let rows = states.to_vec2::<f32>().map_err(failed)?;
    let mut vector = match pooling {
        Pooling::First => rows.first().cloned().unwrap_or_default(),
        Pooling::Last => rows.last().cloned().unwrap_or_default(),
        Pooling::Mean => {
            let mut whole = vec![0.0; rows.first().map_or(0, Vec::len)];
            for row in &rows {
                whole.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            whole
        }
    };
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt() as f32;
    if !length.is_finite() || length <= 0.0 {
        return Err(Error::corrupt("the model gives a vector without a direction").hint("fetch the model again"));
    }
    vector.iter_mut().for_each(|x| *x /= length);
    Ok(vector)
}

/// A model that judges a query and a passage together.
#[derive(Debug)]
pub(super) struct Reranking {
    source: Source,
    model: OnUse<(Tokens, Core, Judge)>,
}

impl Reranking {
    pub(super) fn open(directory: &Path, running: SemanticOptions) -> Result<Self> {
        let source = Source::open(directory, running)?;
        if source.shape.architecture != Architecture::RobertaClassifier {
            return Err(Error::invalid(format!("{} is an embedding model and no reranker", source.name))
                .hint("name it as `embedder`"));
        }
        Ok(Self { source, model: OnUse::new() })
    }

    fn load(&self) -> Result<(Tokens, Core, Judge)> {
        let judge = Judge::read(&Weights::open(&self.source.directory)?, &self.source.shape)?;
        Ok((self.source.tokens()?, self.source.core()?, judge))
    }
}

impl Reranker for Reranking {
    fn name(&self) -> &str {
        &self.source.name
    }

    fn score(&self, query: &str, passage: &str) -> Result<f32> {
        let (query, passage) = (self.source.cut(query), self.source.cut(passage));
        self.model.using(
            &self.source.name,
            || self.load(),
            |(tokens, core, judge)| {
                let score = logistic(judge.judge(&core.run(&tokens.of_both(query, passage)?)?)?);
                if !score.is_finite() {
                    return Err(Error::corrupt("the model gives no number").hint("fetch the model again"));
                }
                Ok(score)
            },
        )
    }
}
