//! Recall on the labelled set, with the real all-MiniLM-L6-v2.

use herm::semantic::{self, SemanticOptions};
use herm_tests::retrieval::Labelled;
use herm_tests::{TempBrains, models};

#[test]
fn words_and_meaning_together_find_no_less_than_words_on_any_class_or_half() {
    let Some(directory) = models::minilm() else { return };
    let model = semantic::embedder(&directory, SemanticOptions::default()).expect("a model");
    let (brains, set) = (TempBrains::new(), Labelled::read());
    // All of it takes minutes without optimisation; the bench always does.
    let set = if std::env::var_os("HERM_LONG").is_some() { set } else { set.shortened() };
    let mut brain = set.lived(&brains, &*model);
    let quality = set.measure(&mut brain, &*model);
    println!("{quality}");
    assert_eq!(quality.losses(), Vec::<String>::new(), "{quality}");
    for half in ["tuning", "held-out"] {
        let [words, .., both, _] = quality.rows[&("paraphrase".to_owned(), half.to_owned())].recall();
        assert!(words < 0.1 && both > 0.6, "no word helps there, and meaning does:\n{quality}");
    }
}
