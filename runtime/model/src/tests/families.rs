//! Every family, every kind of token and every kind of number that files come with.

use candle_core::quantized::GgmlDType;
use serde_json::{Value, json};

use super::tiny::{LLAMA, Plan, QWEN2, QWEN3, Tiny, speak};
use crate::Finish;

/// Says the same twice, and keeps to a schema.
fn works(tiny: &Tiny, what: &str) {
    let work = tempfile::tempdir().unwrap();
    let path = tiny.write(work.path());
    let first = speak(&path, &Value::Bool(true), 24).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(speak(&path, &Value::Bool(true), 24).unwrap(), first, "{what}");
    assert!(first.effort.written > 0, "{what}: {first:?}");
    let legal = json!({
        "type": "object", "additionalProperties": false, "required": ["word", "count"],
        "properties": { "word": { "type": "string" }, "count": { "type": "integer", "minimum": 0, "maximum": 99 } },
    });
    let held = speak(&path, &legal, 200).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!((held.finish, &held.free), (Finish::Stop, &None), "{what}: {held:?}");
    let value: Value = serde_json::from_str(&held.text).unwrap_or_else(|error| panic!("{what}: {error}: {held:?}"));
    assert!(value["word"].is_string() && value["count"].is_u64(), "{what}: {value}");
}

#[test]
fn every_family_speaks_and_says_the_same_every_time() {
    for plan in [LLAMA, QWEN2, QWEN3] {
        works(&Tiny::new(plan), plan.family);
    }
}

#[test]
fn numbers_of_every_kind_are_read() {
    for kind in [
        GgmlDType::F32,
        GgmlDType::F16,
        GgmlDType::BF16,
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
    ] {
        works(&Tiny::new(Plan { kind, ..LLAMA }), &format!("{kind:?}"));
    }
    // These come in blocks of 256.
    for kind in [GgmlDType::Q2K, GgmlDType::Q3K, GgmlDType::Q4K, GgmlDType::Q5K, GgmlDType::Q6K] {
        works(&Tiny::new(Plan { kind, width: 256, inner: 256, head_width: 128, ..LLAMA }), &format!("{kind:?}"));
    }
}

#[test]
fn a_width_that_is_no_whole_number_of_blocks_works() {
    works(&Tiny::new(Plan { width: 72, inner: 40, head_width: 20, kind: GgmlDType::F32, ..LLAMA }), "72 wide");
}

#[test]
fn a_vocabulary_of_pieces_speaks() {
    works(&Tiny::with_pieces(LLAMA), "pieces");
}
