//! Models that speak inside this process, as the configuration names them.

use std::path::PathBuf;
use std::sync::Arc;

use herm::Result;
use herm::backend::Backend;

use crate::config::{BackendEntry, Settings};

/// The models of one process: each is loaded once, however many use it.
#[derive(Debug)]
pub(crate) struct LocalModels {
    directory: PathBuf,
    #[cfg(feature = "local")]
    shelf: herm::backend::ModelCache,
}

impl LocalModels {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            directory: directory(settings),
            #[cfg(feature = "local")]
            shelf: herm::backend::ModelCache::new(),
        }
    }

    #[cfg(feature = "local")]
    pub(crate) fn backend(&self, name: &str, entry: &BackendEntry, model: &str) -> Result<Arc<dyn Backend>> {
        let mut settings = herm::backend::LocalSettings::new(find(&self.directory, model)?);
        name.clone_into(&mut settings.name);
        settings.threads = entry.threads;
        settings.context = entry.context_tokens;
        if let Some(idle) = entry.idle_secs {
            settings.idle = std::time::Duration::from_secs(idle.max(1));
        }
        Ok(Arc::new(herm::backend::LocalBackend::new(&self.shelf, settings)?))
    }

    #[cfg(not(feature = "local"))]
    pub(crate) fn backend(&self, name: &str, _: &BackendEntry, model: &str) -> Result<Arc<dyn Backend>> {
        let _ = (&self.directory, model);
        Err(absent(name))
    }
}

/// Where models lie: beside the brains.
pub fn directory(settings: &Settings) -> PathBuf {
    std::env::var_os("HERM_MODELS").map_or_else(|| settings.layout.brains().join(".models"), PathBuf::from)
}

/// The file of a model: a path, or a name among the models of this machine.
#[cfg(feature = "local")]
pub fn find(directory: &std::path::Path, model: &str) -> Result<PathBuf> {
    let path = PathBuf::from(model);
    if path.is_file() || path.components().count() > 1 {
        return Ok(path);
    }
    let named = [directory.join(model), directory.join(format!("{model}.gguf"))];
    named.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        herm::Error::not_found(format!("there is no model {model:?}"))
            .hint("name its file, or see `herm models list`; `herm models pull` fetches one")
    })
}

/// What a build without models says of a backend or a command that needs one.
#[cfg(not(feature = "local"))]
pub fn absent(what: &str) -> herm::Error {
    herm::Error::refused(format!("{what}: this build has no local models"))
        .hint("build it with `cargo build --release --features local`")
}
