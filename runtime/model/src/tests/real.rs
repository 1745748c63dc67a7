//! The tokens of SmolLM2, by the rules that its makers publish: digits one by one, then words with the space before
//! them, and no space that was not written.

use std::path::{Path, PathBuf};

use crate::ModelFile;
use crate::vocabulary::Vocabulary;

/// The file, as `.ci/models` fetches it. Nothing where the tests on real models are left out.
fn smollm2() -> Option<PathBuf> {
    let fetched = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/models");
    let directory = std::env::var_os("HERM_MODELS").map_or_else(fetched, PathBuf::from);
    let path = directory.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    if path.exists() {
        return Some(path);
    }
    let test = "a text is cut into tokens as its makers cut it";
    herm_untested::not_run(test, "the model SmolLM2-135M-Instruct.Q4_1.gguf", ".ci/models fetches it");
    None
}

#[test]
fn a_text_is_cut_as_its_makers_cut_it() {
    let Some(path) = smollm2() else { return };
    let vocabulary = Vocabulary::read(&ModelFile::open(&path).unwrap()).unwrap();
    let cut = |text: &str| -> Vec<String> {
        let tokens = vocabulary.cut(text);
        let spelled: Vec<u8> = tokens.iter().flat_map(|token| vocabulary.text_of(*token).to_vec()).collect();
        assert_eq!(String::from_utf8(spelled).unwrap(), text);
        tokens.iter().map(|token| String::from_utf8_lossy(vocabulary.text_of(*token)).into_owned()).collect()
    };
    assert_eq!(cut("In 2026"), ["In", " ", "2", "0", "2", "6"]);
    assert_eq!(cut("It's 3.14, isn't it?"), ["It", "'s", " ", "3", ".", "1", "4", ",", " isn", "'t", " it", "?"]);
    assert_eq!(cut("Hello world"), ["Hello", " world"]);
    assert_eq!(cut(" Hello"), [" Hello"]);
    assert_eq!(cut(""), Vec::<String>::new());
    for text in ["naïve 😀 日本語", "a\n\n  b\t", "<|im_end|>", "\u{0}\u{7f}"] {
        cut(text);
    }
    let mut frame = Vec::new();
    vocabulary.cut_frame("<|im_start|>user\nHi<|im_end|>\n", &mut frame);
    assert_eq!((frame[0], frame[frame.len() - 2]), (1, 2));
}
