//! The real models that suites and benches run on, as `.ci/models` fetches them.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The language model SmolLM2-135M-Instruct: a GGUF file. Nothing where the tests on real models are left out.
pub fn smollm2() -> Option<PathBuf> {
    find("SmolLM2-135M-Instruct.Q4_1.gguf")
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

/// A model that is missing fails the test, unless `HERM_NO_MODELS=1` says that it may.
fn find(name: &str) -> Option<PathBuf> {
    let path = directory().join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(
        std::env::var_os("HERM_NO_MODELS").is_some_and(|said| said == "1"),
        "{} is not there: run `.ci/models`, which fetches it, or set HERM_NO_MODELS=1 to leave the tests on real \
         models out",
        path.display()
    );
    // Past the capture of the test harness: what did not run must be seen.
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("\nNOT RUN: {test}: {name} is not there and HERM_NO_MODELS=1\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
    None
}
