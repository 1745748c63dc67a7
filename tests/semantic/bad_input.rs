//! Directories that are no model, or not a whole one: a sentence, never a panic, never memory without bound.

use std::path::Path;

use herm::semantic::{self, EmbeddingInput, SemanticOptions};
use herm::{ErrorKind, Result};
use serde_json::json;

use super::{change_config, change_header, copy_of, tiny};

fn embed(directory: &Path) -> Result<Vec<f32>> {
    semantic::embedder(directory, SemanticOptions::default())?.embed("a text", EmbeddingInput::Passage)
}

fn score(directory: &Path) -> Result<f32> {
    semantic::reranker(directory, SemanticOptions::default())?.score("a query", "a text")
}

#[test]
fn a_missing_file_is_named() {
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        for name in ["bert", "qwen3"] {
            let copy = copy_of(name);
            std::fs::remove_file(copy.path().join(file)).expect("removed");
            let error = embed(copy.path()).expect_err("refused");
            assert!(error.kind() == ErrorKind::NotFound && error.message().contains(file), "{error}");
        }
    }
    assert_eq!(embed(Path::new("/nowhere")).expect_err("refused").kind(), ErrorKind::NotFound);
}

#[test]
fn weights_that_are_cut_anywhere_are_refused() {
    let whole = std::fs::read(tiny("bert").join("model.safetensors")).expect("weights");
    for cut in (0..whole.len()).step_by(whole.len() / 40) {
        let copy = copy_of("bert");
        std::fs::write(copy.path().join("model.safetensors"), &whole[..cut]).expect("written");
        let error = embed(copy.path()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{cut}: {error}");
        assert!(error.message().contains("model.safetensors"), "{error}");
    }
}

#[test]
fn weights_in_several_files_are_not_read_and_it_is_said() {
    let copy = copy_of("qwen3");
    let path = copy.path().join("model.safetensors");
    std::fs::rename(&path, copy.path().join("model-00001-of-00002.safetensors")).expect("renamed");
    std::fs::write(copy.path().join("model.safetensors.index.json"), "{}").expect("written");
    assert!(embed(copy.path()).expect_err("refused").message().contains("in several files"));
}

#[test]
fn sizes_that_differ_from_the_weights_are_refused_whatever_they_are() {
    let absurd = [
        ("hidden_size", json!(64)),
        ("hidden_size", json!(16_384)),
        ("intermediate_size", json!(65_536)),
        ("num_hidden_layers", json!(3)),
        ("num_hidden_layers", json!(u64::MAX)),
        ("vocab_size", json!(3_999_999)),
        ("max_position_embeddings", json!(4_000_000)),
        ("hidden_size", json!(-1)),
        ("hidden_size", json!("many")),
        ("hidden_size", json!(1e300)),
    ];
    for (name, value) in absurd {
        for model in ["bert", "xlm-roberta", "qwen3"] {
            // The decoder has no table of positions.
            if model == "qwen3" && name == "max_position_embeddings" {
                continue;
            }
            let copy = copy_of(model);
            change_config(copy.path(), name, value.clone());
            let error = if model == "xlm-roberta" { score(copy.path()).err() } else { embed(copy.path()).err() };
            let error = error.unwrap_or_else(|| panic!("{model} takes {name} = {value}"));
            assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Corrupt), "{error}");
        }
    }
}

#[test]
fn an_architecture_that_is_not_implemented_is_named() {
    let copy = copy_of("bert");
    change_config(copy.path(), "architectures", json!(["T5EncoderModel"]));
    let error = embed(copy.path()).expect_err("refused");
    assert!(error.message().contains("\"T5EncoderModel\" is not implemented"), "{error}");
    assert!(error.hint_text().expect("a hint").contains("Qwen3"));
}

#[test]
fn a_reranker_is_no_embedder_and_an_embedder_no_reranker() {
    let error = embed(&tiny("xlm-roberta")).expect_err("refused");
    assert!(error.message().contains("is a reranker"), "{error}");
    let error = score(&tiny("bert")).expect_err("refused");
    assert!(error.message().contains("no reranker"), "{error}");
}

#[test]
fn tensors_of_other_kinds_and_shapes_are_refused() {
    let name = "encoder.layer.1.output.dense.weight";
    for change in
        [json!({"dtype": "I32"}), json!({"shape": [64, 32]}), json!({"shape": []}), json!({"data_offsets": [0, 1]})]
    {
        let copy = copy_of("bert");
        change_header(copy.path(), |header| {
            let entry = header[name].as_object_mut().expect("an entry");
            entry.extend(change.as_object().expect("an object").clone());
        });
        let error = embed(copy.path()).expect_err("refused");
        assert!(error.message().contains(name), "{error}");
    }
}

#[test]
fn a_tokenizer_of_another_model_is_noticed_and_not_a_panic() {
    let copy = copy_of("xlm-roberta");
    std::fs::copy(tiny("qwen3").join("tokenizer.json"), copy.path().join("tokenizer.json")).expect("a copy");
    let error = score(copy.path()).expect_err("refused");
    assert!(error.message().contains("which the model does not know"), "{error}");
    std::fs::write(copy.path().join("tokenizer.json"), "{\"version\": \"1.0\"}").expect("written");
    assert_eq!(score(copy.path()).expect_err("refused").kind(), ErrorKind::Corrupt);
}

#[test]
fn weights_that_are_no_numbers_give_no_vector() {
    let copy = copy_of("bert");
    let path = copy.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("weights");
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    std::fs::write(path, bytes).expect("written");
    let error = embed(copy.path()).expect_err("refused");
    assert!(error.message().contains("without a direction"), "{error}");
}

#[test]
fn what_failed_to_load_is_not_read_again_and_fails_alike() {
    let copy = copy_of("bert");
    let model = semantic::embedder(copy.path(), SemanticOptions::default()).expect("a model");
    std::fs::write(copy.path().join("tokenizer.json"), "[]").expect("written");
    let first = model.embed("a", EmbeddingInput::Query).expect_err("refused");
    let second = model.embed("a", EmbeddingInput::Query).expect_err("refused");
    assert_eq!(
        (first.kind(), first.message(), first.hint_text()),
        (second.kind(), second.message(), second.hint_text())
    );
}
