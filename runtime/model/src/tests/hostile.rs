//! Files that are broken, or made to break something: each gets a sentence, and none of them a panic or more memory
//! than it has bytes for.

use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use proptest::prelude::*;
use serde_json::json;

use super::tiny::{LLAMA, QWEN3, Tiny, speak, stored, text, texts, written};
use crate::{ModelError, ModelErrorKind};

fn heard(path: &Path) -> Result<(), ModelError> {
    // A schema too, so that the grammar sees these tokens.
    speak(path, &json!({ "type": "object", "properties": { "a": { "type": "string" } } }), 8).map(drop)
}

/// What is said of a file. A sentence names the file or the model.
fn refused(bytes: &[u8], what: &str) -> ModelError {
    let work = tempfile::tempdir().unwrap();
    let error = heard(&written(work.path(), bytes)).expect_err(what);
    assert!(error.message().len() > 20 && error.message().lines().count() == 1, "{what}: {error}");
    error
}

/// The most memory this process has asked for so far, where the system says so.
fn asked_for() -> Option<u64> {
    let about = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = about.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Puts `number` where it stands, `behind` bytes after the end of the first `name`.
fn patched(mut bytes: Vec<u8>, name: &str, behind: usize, number: u64) -> Vec<u8> {
    let at = bytes.windows(name.len()).position(|some| some == name.as_bytes()).unwrap() + name.len() + behind;
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    bytes
}

#[test]
fn a_file_that_ends_anywhere_early_is_broken() {
    let bytes = Tiny::new(LLAMA).bytes();
    for fiftieth in 0..50 {
        let error = refused(&bytes[..bytes.len() * fiftieth / 50], &format!("{fiftieth}/50"));
        let kind = if fiftieth == 0 { ModelErrorKind::Invalid } else { ModelErrorKind::Corrupt };
        assert_eq!(error.kind(), kind, "{fiftieth}/50: {error}");
    }
    assert_eq!(refused(&bytes[..bytes.len() - 40], "the last tensor").kind(), ModelErrorKind::Corrupt);
}

#[test]
fn what_is_no_file_or_no_model_is_told_so() {
    let work = tempfile::tempdir().unwrap();
    assert_eq!(heard(&work.path().join("nothing.gguf")).unwrap_err().kind(), ModelErrorKind::NotFound);
    let directory = heard(work.path()).unwrap_err();
    assert_eq!(directory.kind(), ModelErrorKind::Invalid, "{directory}");
    assert_eq!(refused(b"# A text\n\nabout something", "a text").kind(), ModelErrorKind::Invalid);
    assert_eq!(refused(b"GGUF", "four letters").kind(), ModelErrorKind::Corrupt);
}

#[test]
fn absurd_counts_are_not_believed() {
    let before = asked_for();
    let bytes = || Tiny::new(LLAMA).bytes();
    let place = |at: usize, number: u64| {
        let mut bytes = bytes();
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    for (what, bytes) in [
        ("tensors", place(8, u64::MAX)),
        ("tensors that could be", place(8, 1 << 29)),
        ("keys", place(16, u64::MAX)),
        ("keys that could be", place(16, 1 << 29)),
        ("a name", place(24, 1 << 40)),
        ("tokens", patched(bytes(), "tokenizer.ggml.tokens", 8, 1_000_000_000)),
        ("tokens without end", patched(bytes(), "tokenizer.ggml.tokens", 8, u64::MAX)),
        ("rows", patched(bytes(), "token_embd.weight", 12, 1_000_000_000)),
        ("rows times columns", patched(bytes(), "token_embd.weight", 12, u64::MAX / 2)),
        ("a place", patched(bytes(), "token_embd.weight", 24, u64::MAX - 7)),
        ("dimensions", patched(bytes(), "token_embd.weight", 0, u64::MAX)),
    ] {
        assert_eq!(refused(&bytes, what).kind(), ModelErrorKind::Corrupt, "{what}");
    }
    for (key, number) in [
        ("feed_forward_length", 131_072),
        ("embedding_length", 131_072),
        ("attention.key_length", 65_536),
        ("block_count", 512),
        ("block_count", u32::MAX),
        ("attention.head_count", u32::MAX),
    ] {
        let mut tiny = Tiny::new(LLAMA);
        tiny.say(&format!("llama.{key}"), Value::U32(number));
        assert_eq!(refused(&tiny.bytes(), key).kind(), ModelErrorKind::Corrupt, "{key}");
    }
    // What these files claim to be would take 17 GB and more. Threads have their share here, too.
    if let (Some(before), Some(after)) = (before, asked_for()) {
        assert!(after - before < 4 << 30, "{} MiB more", (after - before) >> 20);
    }
}

#[test]
fn tensors_on_top_of_each_other_do_not_make_a_large_network() {
    let mut bytes = Tiny::new(LLAMA).bytes();
    for name in ["ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", "attn_q.weight", "attn_output.weight"] {
        for layer in 0..2 {
            bytes = patched(bytes, &format!("blk.{layer}.{name}"), 24, 0);
        }
    }
    // Cut to what is still pointed at.
    let error = refused(&bytes[..bytes.len() / 2], "shared bytes");
    assert_eq!(error.kind(), ModelErrorKind::Corrupt, "{error}");
}

#[test]
fn a_header_that_says_what_cannot_be_is_refused_with_its_reason() {
    type Edit = fn(&mut Tiny);
    let cases: &[(&str, Edit)] = &[
        ("its header cannot be read", |tiny| tiny.say("general.alignment", Value::U32(0))),
        ("nesting depth", |tiny| {
            let deep = (0..100).fold(Value::Array(vec![Value::U32(1)]), |inner, _| Value::Array(vec![inner]));
            tiny.say("general.deep", deep);
        }),
        ("family \"gemma9\"", |tiny| tiny.say("general.architecture", text("gemma9"))),
        ("family \"\"", |tiny| tiny.unsay("general.architecture")),
        ("mixture of experts", |tiny| tiny.say("llama.expert_count", Value::U32(8))),
        ("stretches its context by \"yarn\"", |tiny| tiny.say("llama.rope.scaling.type", text("yarn"))),
        ("make no sense", |tiny| tiny.say("llama.attention.head_count", Value::U32(0))),
        ("make no sense", |tiny| tiny.say("llama.attention.head_count_kv", Value::U32(0))),
        ("make no sense", |tiny| {
            tiny.say("llama.attention.head_count", Value::U32(4));
            tiny.say("llama.attention.head_count_kv", Value::U32(3));
        }),
        ("make no sense", |tiny| tiny.say("llama.attention.key_length", Value::U32(31))),
        ("make no sense", |tiny| tiny.say("llama.rope.dimension_count", Value::U32(64))),
        ("make no sense", |tiny| tiny.say("llama.context_length", Value::U32(0))),
        ("make no sense", |tiny| tiny.say("llama.attention.layer_norm_rms_epsilon", Value::F32(f32::NAN))),
        ("make no sense", |tiny| tiny.say("llama.rope.freq_base", Value::F32(-1.0))),
        ("does not say its llama.block_count", |tiny| tiny.unsay("llama.block_count")),
        ("does not say its llama.embedding_length", |tiny| tiny.say("llama.embedding_length", text("64"))),
        ("it has no blk.2.", |tiny| tiny.say("llama.block_count", Value::U32(3))),
        ("blk.0.attn_norm.weight holds what are no numbers", |tiny| {
            tiny.vector("blk.0.attn_norm.weight", vec![f32::NAN; 64]);
        }),
        ("output_norm.weight holds what are no numbers", |tiny| {
            tiny.vector("output_norm.weight", vec![f32::INFINITY; 64]);
        }),
        ("blk.1.ffn_up.weight holds what are no numbers", |tiny| {
            tiny.without("blk.1.ffn_up.weight");
            let mut numbers = vec![0.5; 96 * 64];
            numbers[777] = f32::NEG_INFINITY;
            tiny.tensors.push(("blk.1.ffn_up.weight".to_owned(), stored(numbers, &[96, 64], GgmlDType::F32)));
        }),
        ("its scores are no numbers", |tiny| tiny.vector("output_norm.weight", vec![f32::MAX; 64])),
        ("the file lists none", |tiny| tiny.unsay("tokenizer.ggml.tokens")),
        ("one of them has no name", |tiny| {
            tiny.say("tokenizer.ggml.tokens", Value::Array(vec![Value::U32(1); 267]));
        }),
        ("there are 2, and the network has 267", |tiny| tiny.say("tokenizer.ggml.tokens", texts(&["a", "b"]))),
        ("there are 300, and the network has 267", |tiny| {
            tiny.say("tokenizer.ggml.tokens", texts(&["a"; 300]));
        }),
        ("they are too long", |tiny| {
            let mut names: Vec<String> = (0..267).map(|at| format!("<|{at}|>")).collect();
            names[5] = "x".repeat(5_000);
            tiny.say("tokenizer.ggml.tokens", texts(&names));
        }),
        ("of the kind \"bert\"", |tiny| tiny.say("tokenizer.ggml.model", text("bert"))),
        ("cut as \"tekken-9\"", |tiny| tiny.say("tokenizer.ggml.pre", text("tekken-9"))),
        ("how they are put together", |tiny| tiny.unsay("tokenizer.ggml.merges")),
        ("\"hello\" is no pair", |tiny| tiny.say("tokenizer.ggml.merges", texts(&["hello"]))),
        ("\"never seen\" makes no token", |tiny| tiny.say("tokenizer.ggml.merges", texts(&["never seen"]))),
        // Longer together than any token: the builder of pairs panics at it.
        ("makes no token", |tiny| {
            tiny.say("tokenizer.ggml.merges", texts(&["<|endoftext|> <|endoftext|>"]));
        }),
        ("a pair is no text", |tiny| {
            tiny.say("tokenizer.ggml.merges", Value::Array(vec![Value::U32(1)]));
        }),
        ("none of them ends a reply", |tiny| {
            tiny.unsay("tokenizer.ggml.eos_token_id");
            tiny.unsay("tokenizer.ggml.token_type");
        }),
        ("none of them ends a reply", |tiny| {
            tiny.say("tokenizer.ggml.eos_token_id", Value::U32(1_000_000));
            tiny.unsay("tokenizer.ggml.token_type");
        }),
        ("chat template", |tiny| tiny.say("tokenizer.chat_template", text("{% for %}"))),
        ("chat template", |tiny| tiny.say("tokenizer.chat_template", text("{{ 1 / 0 }}"))),
        ("never with you", |tiny| {
            tiny.say("tokenizer.chat_template", text("{{ raise_exception('never with you') }}"));
        }),
        ("chat template refuses", |tiny| {
            let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
            tiny.say("tokenizer.chat_template", text(endless));
        }),
        ("chat template refuses", |tiny| {
            let chatty = "{% for a in range(9999) %}{{ 'x' * 90000000 }}{% endfor %}";
            tiny.say("tokenizer.chat_template", text(chatty));
        }),
        ("chat template refuses", |tiny| {
            tiny.say("tokenizer.chat_template", text("{% include 'chat' %}"));
        }),
        ("chat template refuses", |tiny| {
            tiny.say("tokenizer.chat_template", text("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"));
        }),
        ("chat template", |tiny| tiny.say("tokenizer.chat_template", text(&"{{ (".repeat(20_000)))),
        ("makes nothing of this conversation", |tiny| tiny.say("tokenizer.chat_template", text(""))),
        ("do not fit the model's 20", |tiny| tiny.say("llama.context_length", Value::U32(20))),
    ];
    for (at, (reason, edit)) in cases.iter().enumerate() {
        let mut tiny = Tiny::new(LLAMA);
        edit(&mut tiny);
        let error = refused(&tiny.bytes(), &format!("case {at}: {reason}"));
        assert!(error.message().contains(reason), "case {at}: {reason}: {error}");
    }
}

#[test]
fn a_vocabulary_of_pieces_without_scores_is_refused() {
    for scores in [None, Some(Value::Array(vec![Value::F32(0.0); 3]))] {
        let mut tiny = Tiny::with_pieces(LLAMA);
        tiny.unsay("tokenizer.ggml.scores");
        if let Some(scores) = scores {
            tiny.say("tokenizer.ggml.scores", scores);
        }
        assert!(refused(&tiny.bytes(), "scores").message().contains("score"));
    }
    let mut tiny = Tiny::with_pieces(LLAMA);
    tiny.say("tokenizer.ggml.scores", Value::Array(vec![Value::F32(f32::NAN); 400]));
    tiny.say("tokenizer.ggml.unknown_token_id", Value::U32(4_000_000));
    let work = tempfile::tempdir().unwrap();
    assert!(heard(&tiny.write(work.path())).is_ok(), "scores that are none only cut badly");
}

#[test]
fn every_tensor_must_be_there_and_have_its_shape() {
    let names: Vec<String> = Tiny::new(QWEN3).tensors.iter().map(|(name, _)| name.clone()).collect();
    for name in &names {
        // Norms of heads are some families' alone.
        if !name.contains("_norm.weight") || name.ends_with("attn_norm.weight") || name.ends_with("ffn_norm.weight") {
            let mut tiny = Tiny::new(QWEN3);
            tiny.without(name);
            let error = refused(&tiny.bytes(), name);
            assert!(error.message().contains(&format!("it has no {name}")), "{name}: {error}");
        }
        let mut tiny = Tiny::new(QWEN3);
        tiny.vector(name, vec![0.5; 7]);
        let error = refused(&tiny.bytes(), name);
        assert_eq!(error.kind(), ModelErrorKind::Corrupt, "{name}: {error}");
        assert!(error.message().contains(name) || name == "token_embd.weight", "{name}: {error}");
    }
}

fn header(bytes: &[u8]) -> usize {
    // The last tensor's name is the last word of the header.
    let last = b"blk.1.ffn_norm.weight";
    bytes.windows(last.len()).rposition(|some| some == last).unwrap() + last.len() + 32
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// It may still work, or say why not; it may not panic, hang or take the machine's memory.
    #[test]
    fn a_header_with_some_bytes_changed_never_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = Tiny::new(LLAMA).bytes();
        let header = header(&bytes);
        for (place, byte) in &changes {
            bytes[place.index(header)] = *byte;
        }
        let work = tempfile::tempdir().unwrap();
        let _ = heard(&written(work.path(), &bytes));
    }
}
