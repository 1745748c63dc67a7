//! Tiny models of the three layouts, with random weights, against what the public Python implementation gives.

use herm::semantic::{self, EmbeddingInput, SemanticOptions, nearness};
use serde::Deserialize;

use super::{change_header, copy_of, tiny};

const NEAR: f32 = 1e-4;

#[derive(Debug, Deserialize)]
struct Vector {
    text: String,
    part: String,
    vector: Vec<f32>,
}

#[derive(Debug, Deserialize)]
struct Judged {
    query: String,
    passage: String,
    score: f32,
}

fn reference<T: for<'a> Deserialize<'a>>(name: &str) -> Vec<T> {
    let text = std::fs::read_to_string(tiny(name).join("reference.json")).expect("a reference");
    serde_json::from_str(&text).expect("a reference")
}

fn agrees(name: &str, directory: &std::path::Path) {
    let model = semantic::embedder(directory, SemanticOptions::default()).expect("a model");
    for case in reference::<Vector>(name) {
        let part = if case.part == "query" { EmbeddingInput::Query } else { EmbeddingInput::Passage };
        let vector = model.embed(&case.text, part).expect("a vector");
        let off = vector.iter().zip(&case.vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(vector.len() == case.vector.len() && off < NEAR, "{name}, {:?} as {part:?}: off by {off}", case.text);
        assert!((nearness(&vector, &vector) - 1.0).abs() < 1e-5, "its length is one");
    }
}

#[test]
fn bert_gives_the_vectors_of_the_public_implementation() {
    agrees("bert", &tiny("bert"));
}

#[test]
fn qwen3_gives_the_vectors_of_the_public_implementation_with_and_without_its_instruction() {
    agrees("qwen3", &tiny("qwen3"));
}

#[test]
fn xlm_roberta_judges_pairs_as_the_public_implementation_does() {
    let model = semantic::reranker(&tiny("xlm-roberta"), SemanticOptions::default()).expect("a model");
    for case in reference::<Judged>("xlm-roberta") {
        let score = model.score(&case.query, &case.passage).expect("a score");
        assert!((score - case.score).abs() < NEAR, "{case:?}: {score}");
    }
}

#[test]
fn what_stands_before_the_names_of_tensors_makes_no_difference() {
    for (name, prefix) in [("qwen3", "model."), ("bert", "bert."), ("bert", "model.encoder.")] {
        let copy = copy_of(name);
        change_header(copy.path(), |header| {
            let entries = std::mem::take(header);
            header.extend(entries.into_iter().map(|(name, entry)| match name.as_str() {
                "__metadata__" => (name, entry),
                _ => (format!("{prefix}{name}"), entry),
            }));
        });
        agrees(name, copy.path());
    }
}

#[test]
fn the_end_of_a_text_is_added_where_the_tokenizer_does_not() {
    let copy = copy_of("qwen3");
    let path = copy.path().join("tokenizer.json");
    let mut tokenizer: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
    tokenizer["post_processor"] = serde_json::Value::Null;
    std::fs::write(path, tokenizer.to_string()).expect("written");
    agrees("qwen3", copy.path());
}

#[test]
fn without_further_files_a_family_pools_and_asks_as_its_card_says() {
    for name in ["bert", "qwen3"] {
        let copy = copy_of(name);
        std::fs::remove_dir_all(copy.path().join("1_Pooling")).expect("removed");
        let _ = std::fs::remove_file(copy.path().join("config_sentence_transformers.json"));
        agrees(name, copy.path());
    }
}

#[test]
fn a_text_is_cut_at_the_limit_whatever_its_characters_are() {
    let limited = SemanticOptions::new(5, semantic::Device::Cpu).expect("settings");
    for name in ["bert", "qwen3"] {
        let model = semantic::embedder(&tiny(name), limited).expect("a model");
        let embed = |text: &str| model.embed(text, EmbeddingInput::Passage).expect("a vector");
        assert_eq!(embed("漢字とか🙂 and more"), embed("漢字とか🙂"));
        assert_ne!(embed("漢字とか🙂"), embed("漢字とか"));
    }
    let model = semantic::reranker(&tiny("xlm-roberta"), limited).expect("a model");
    let score = |query: &str, passage: &str| model.score(query, passage).expect("a score");
    assert_eq!(score("abcdefg", "hijklmn"), score("abcde", "hijkl"));
}

#[test]
fn longer_texts_than_a_model_has_positions_are_cut_and_not_refused() {
    let long = "restart the pump 漢 ".repeat(2_000);
    let running = SemanticOptions::new(semantic::MOST_TEXT, semantic::Device::Auto).expect("settings");
    for name in ["bert", "qwen3"] {
        let model = semantic::embedder(&tiny(name), running).expect("a model");
        assert_eq!(model.embed(&long, EmbeddingInput::Query).expect("a vector").len(), 32);
    }
    let model = semantic::reranker(&tiny("xlm-roberta"), running).expect("a model");
    assert!((0.0..=1.0).contains(&model.score(&long, &long).expect("a score")));
}

#[test]
fn a_model_is_named_by_its_directory_and_by_what_is_in_it() {
    let name = |directory: &std::path::Path| {
        semantic::embedder(directory, SemanticOptions::default()).expect("a model").name().to_owned()
    };
    let (called, version) =
        name(&tiny("bert")).split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("both");
    assert_eq!((called.as_str(), version.len()), ("bert", 12));
    let copy = copy_of("bert");
    assert!(name(copy.path()).ends_with(&version), "a copy is the same model");
    let path = copy.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("weights");
    *bytes.last_mut().expect("a byte") ^= 1;
    std::fs::write(&path, bytes).expect("written");
    assert!(!name(copy.path()).ends_with(&version), "other weights are another model");
}
