//! The real models that suites and benches run on, as `.ci/models` fetches them.

use std::path::{Path, PathBuf};

/// The language model SmolLM2-135M-Instruct: a GGUF file. Nothing where the tests on real models are left out.
pub fn smollm2() -> Option<PathBuf> {
    find("SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// The language model Qwen2.5-Coder-0.5B-Instruct: a GGUF file, which `.ci/models --long` fetches.
pub fn qwen_coder() -> Option<PathBuf> {
    find("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
}

/// The embedding model all-MiniLM-L6-v2: a directory. Nothing where the tests on real models are left out.
pub fn minilm() -> Option<PathBuf> {
    find("all-MiniLM-L6-v2")
}

/// Where `.ci/models` puts models, or what `HERM_MODELS` says.
fn directory() -> PathBuf {
    let fetched = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/models");
    std::env::var_os("HERM_MODELS").map_or_else(fetched, PathBuf::from)
}

/// A model that is missing is recorded: the test that asked for it does not run.
fn find(name: &str) -> Option<PathBuf> {
    let path = directory().join(name);
    if path.exists() {
        return Some(path);
    }
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    herm_untested::not_run(&test, &format!("the model {name}"), ".ci/models fetches it, or .ci/models --long");
    None
}
