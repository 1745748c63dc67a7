//! A language model inside the process: no server, no key, no network.
//!
//! [`LocalBackend`] is the backend; [`LocalSettings`] says which file it speaks from. A [`ModelCache`] holds the
//! models in memory: loaded once for all brains, put away when idle. A [`Hub`] fetches files. The model itself is
//! in the crate `herm-model`.

mod hub;
mod model_cache;
mod room;

pub use hub::{Hub, ModelRef, PulledModel};
pub use model_cache::ModelCache;

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

use herm_model::ModelFile;

use self::model_cache::Loading;
use super::{Backend, BackendError, Capabilities, Completion, CompletionRequest, Price};
use crate::error::{Error, Result};

/// Models below this many weights need to be shown how to call a tool, and kept short.
const SMALL: u64 = 1_000_000_000;
/// How many bytes of skills the prompt of a small model takes whole.
const SMALL_PRELOAD_BYTES: usize = 1_200;
/// Bytes of a token, on the low side: what a conversation may have is counted in bytes.
const BYTES_A_TOKEN: usize = 3;

/// Which file a local backend speaks from, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSettings {
    /// Its name in messages and receipts.
    pub name: String,
    /// The model: a GGUF file.
    pub model: PathBuf,
    /// Threads that multiply; as many as there are processors, where it is not said.
    pub threads: Option<usize>,
    /// Tokens a conversation may have; as many as the model can, at most 8,192, where it is not said.
    pub context: Option<usize>,
    /// Bytes that conversations which were read may take in memory.
    pub past_bytes: usize,
    /// How long a model that nobody asks stays in memory.
    pub idle: Duration,
}

impl LocalSettings {
    /// The model in this file, as usual.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        Self {
            name: "local".to_owned(),
            model: model.into(),
            threads: None,
            context: None,
            past_bytes: 96 << 20,
            idle: Duration::from_secs(300),
        }
    }
}

/// A model inside the process.
#[derive(Debug)]
pub struct LocalBackend {
    name: String,
    shelf: ModelCache,
    loading: Loading,
    small: bool,
}

/// What a model file says about itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ModelCard {
    /// Its name, with the digest of the file.
    pub name: String,
    /// Its family: `llama`, `qwen2`, `qwen3`.
    pub family: String,
    /// How many weights it has.
    pub parameters: u64,
    /// Tokens a conversation can have.
    pub context: usize,
    /// Bytes it takes in memory.
    pub loaded_bytes: u64,
    /// The BLAKE3 of the file.
    pub digest: String,
    /// Its licence, where it says so.
    pub license: Option<String>,
}

impl ModelCard {
    /// Reads the header of a file, and the whole file for its digest.
    pub fn read(path: &std::path::Path) -> Result<Self> {
        let file = ModelFile::open(path).map_err(model_cache::error_of)?;
        let digest = digest(path)?;
        Ok(Self {
            name: named(&file.name(), &digest),
            family: file.text("general.architecture").unwrap_or_default().to_owned(),
            parameters: file.parameters(),
            context: file.context(),
            loaded_bytes: file.loaded_bytes(),
            license: file.text("general.license").map(str::to_owned),
            digest,
        })
    }
}

fn digest(path: &std::path::Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let unreadable = |source: std::io::Error| {
        Error::corrupt(format!("the model file {} cannot be read", path.display())).because(source)
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    hasher.update_reader(file).map_err(unreadable)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The name in receipts says which file spoke, to the byte.
fn named(name: &str, digest: &str) -> String {
    format!("{name}@{}", digest.get(..16).unwrap_or(digest))
}

impl LocalBackend {
    /// Reads the header of the model's file; the weights are loaded when it is first asked.
    pub fn new(shelf: &ModelCache, settings: LocalSettings) -> Result<Self> {
        let path = settings.model.canonicalize().unwrap_or_else(|_| settings.model.clone());
        let file = ModelFile::open(&path).map_err(model_cache::error_of)?;
        let threads = settings.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let small = file.parameters() < SMALL;
        // A text that a small model does not end by itself is rarely worth its end.
        let (chars, items) = if small { (200, 8) } else { (4_000, 64) };
        let loading = Loading {
            path,
            threads: threads.clamp(1, 64),
            context: settings.context.unwrap_or(8_192).min(file.context()).max(64),
            past_bytes: settings.past_bytes,
            idle: settings.idle,
            chars,
            items,
            fresh: small,
            name: file.name(),
        };
        Ok(Self { name: settings.name, shelf: shelf.clone(), loading, small })
    }
}

#[async_trait]
impl Backend for LocalBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            constrains_replies: true,
            needs_examples: self.small,
            preload_bytes: if self.small { SMALL_PRELOAD_BYTES } else { crate::PRELOAD_BYTES },
            context_bytes: Some(self.loading.context * BYTES_A_TOKEN),
            price: Some(Price { input: 0, output: 0 }),
        }
    }

    async fn complete(&self, ask: &CompletionRequest) -> std::result::Result<Completion, BackendError> {
        self.shelf.ask(&self.loading, ask).await
    }
}
