use std::os::unix::fs::FileExt as _;

use serde_json::{Value, json};

use super::*;

fn written(bytes: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fsio::create_private(&dir.path().join("model.safetensors"), bytes).unwrap();
    dir
}

fn file(header: &Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn fails(bytes: &[u8]) -> String {
    let dir = written(bytes);
    let tried = Weights::open(dir.path()).and_then(|weights| weights.tensor("w", &[2, 2]));
    tried.unwrap_err().message().rsplit("model.safetensors").next().unwrap().trim().to_owned()
}

fn entry(dtype: &str, shape: &[u64], offsets: [u64; 2]) -> Value {
    json!({"__metadata__": {"format": "pt"}, "w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}})
}

#[test]
fn numbers_of_every_format_are_read_as_they_are() {
    let numbers = [1.0f32, -2.5, 0.0, 65_504.0];
    let wide: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let narrow = |halves: [u16; 4]| halves.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let rounded = [1.0f32, -2.5, 0.0, 65_536.0];
    for (dtype, data, expected) in [
        ("F32", wide, numbers),
        ("F16", narrow([0x3c00, 0xc100, 0, 0x7bff]), numbers),
        ("BF16", narrow([0x3f80, 0xc020, 0, 0x4780]), rounded),
    ] {
        let dir = written(&file(&entry(dtype, &[2, 2], [0, data.len() as u64]), &data));
        let weights = Weights::open(dir.path()).unwrap();
        assert_eq!(weights.tensor("w", &[2, 2]).unwrap(), expected, "{dtype}");
        let mut row = [10.0, 10.0];
        let table = weights.table("w", 2, 2).unwrap();
        assert!(table.add(1, &mut row) && !table.add(2, &mut row) && !table.add(usize::MAX, &mut row));
        assert_eq!(row, [10.0 + expected[2], 10.0 + expected[3]]);
    }
}

#[test]
fn numbers_of_sixteen_bits_keep_their_small_and_their_endless_ones() {
    assert_eq!(half(0x0001), 2f32.powi(-24));
    assert_eq!(half(0x83ff), -1023.0 * 2f32.powi(-24));
    assert_eq!((half(0x0400), half(0x7c00), half(0xfc00)), (2f32.powi(-14), f32::INFINITY, f32::NEG_INFINITY));
    assert!(half(0x7e00).is_nan() && half(0x8000) == 0.0 && half(0x8000).is_sign_negative());
}

#[test]
fn what_stands_before_the_names_is_found() {
    for prefix in ["", "model.", "bert.", "roberta.", "encoder.model."] {
        let mut header = json!({});
        for name in ["embeddings.w", "other"] {
            header[format!("{prefix}{name}")] = json!({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]});
        }
        let dir = written(&file(&header, &7.0f32.to_le_bytes()));
        let weights = Weights::open(dir.path()).unwrap().rooted_at("embeddings.w").unwrap();
        assert_eq!(weights.tensor("other", &[1]).unwrap(), [7.0], "{prefix}");
        assert!(Weights::open(dir.path()).unwrap().rooted_at("words.w").is_err());
    }
}

#[test]
fn files_that_are_not_what_they_must_be_are_named_for_what_they_are() {
    let whole = file(&entry("F32", &[2, 2], [0, 16]), &[0; 16]);
    assert_eq!(fails(b""), "is not a safetensors file: it is too short");
    assert_eq!(fails(&[0xff; 64]), "is not a safetensors file: it does not begin with the length of a header");
    assert_eq!(
        fails(b"GGUF\x03\0\0\0aaaa"),
        "is not a safetensors file: it does not begin with the length of a header"
    );
    assert_eq!(fails(&file(&json!([1, 2]), &[])), "is not a safetensors file: its header is not readable");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    assert_eq!(fails(pointer), "only points at weights that Git LFS keeps elsewhere");
    for cut in [9, 40, whole.len() - 1] {
        assert!(fails(&whole[..cut]).starts_with("is cut off:"), "{cut}");
    }
    assert_eq!(fails(&file(&entry("F32", &[4], [0, 16]), &[0; 16])), ": w has the shape [4] and must have [2, 2]");
    assert_eq!(fails(&file(&entry("I64", &[2, 2], [0, 16]), &[0; 16])), ": w holds I64, which is not read");
    assert_eq!(fails(&file(&entry("F32", &[2, 2], [0, 12]), &[0; 16])), ": w has not the bytes that its shape needs");
    assert_eq!(fails(&file(&entry("F32", &[2, 2], [16, 0]), &[0; 16])), ": w ends before it begins");
    assert!(fails(&file(&entry("F32", &[2, 2], [0, u64::MAX]), &[0; 16])).starts_with("is cut off:"));
    assert_eq!(fails(&file(&json!({}), &[])), "has no w");
}

#[test]
fn sides_whose_product_has_no_end_allocate_nothing() {
    let sides = [u64::MAX, u64::MAX];
    let dir = written(&file(&entry("F32", &sides, [0, 16]), &[0; 16]));
    let error = Weights::open(dir.path()).unwrap().tensor("w", &[usize::MAX, usize::MAX]).unwrap_err();
    assert!(error.message().ends_with("has not the bytes that its shape needs"), "{error}");
}

#[test]
fn a_file_that_is_too_large_is_refused_by_its_size_alone() {
    let dir = written(b"");
    let file = std::fs::OpenOptions::new().write(true).open(dir.path().join("model.safetensors")).unwrap();
    // A hole: it takes no room on the disk.
    file.write_all_at(b"x", MOST_BYTES).unwrap();
    let error = Weights::open(dir.path()).unwrap_err();
    assert!(error.message().contains("at most 6442450944 are read"), "{error}");
}

#[test]
fn other_numbers_in_the_same_layout_have_another_fingerprint() {
    let print = |data: &[u8]| {
        let dir = written(&file(&entry("F32", &[2, 2], [0, 16]), data));
        let mut digest = blake3::Hasher::new();
        Weights::open(dir.path()).unwrap().fingerprint(&mut digest).unwrap();
        digest.finalize()
    };
    assert_eq!(print(&[0; 16]), print(&[0; 16]));
    assert_ne!(print(&[0; 16]), print(&[1; 16]));
}
