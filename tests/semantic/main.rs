//! Texts compared by what they mean: tiny models against the public implementation, a real model, files that are not
//! what they must be, and the lanes of the evolver that models may put in order.

mod bad_input;
mod doors;
mod lanes;
mod minilm;
mod recall;
mod reference;

use std::path::{Path, PathBuf};

/// The directory of a tiny model, as `make.py` there made it.
fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/semantic").join(name)
}

/// A copy of a tiny model, to be spoilt.
fn copy_of(name: &str) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a directory");
        for entry in std::fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry")) {
            let to = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &to);
            } else {
                std::fs::copy(entry.path(), to).expect("a copy");
            }
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    copy(&tiny(name), dir.path());
    dir
}

/// Changes the header of a model's weights.
fn change_header(directory: &Path, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
    let path = directory.join("model.safetensors");
    let bytes = std::fs::read(&path).expect("weights");
    let (length, rest) = bytes.split_at(8);
    let (header, data) = rest.split_at(u64::from_le_bytes(length.try_into().expect("eight bytes")) as usize);
    let mut header = serde_json::from_slice(header).expect("a header");
    change(&mut header);
    let header = serde_json::to_vec(&header).expect("JSON");
    let all = [&(header.len() as u64).to_le_bytes()[..], &header, data].concat();
    std::fs::write(path, all).expect("written");
}

/// Changes `config.json` of a model.
fn change_config(directory: &Path, name: &str, value: serde_json::Value) {
    let path = directory.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
    config[name] = value;
    std::fs::write(path, config.to_string()).expect("written");
}
