//! A model can fail or lie in every way it likes: what words find is found, and the brain is sound.

use herm::memory::vectors::EmbeddedText;
use herm_tests::meaning::{Harm, Hostile};

use super::*;

fn by_words(brain: &mut Brain, text: &str) -> Vec<String> {
    let now = brain.clock().now();
    let wanted =
        Search { text, scope: SearchScope::Operator, except_task: None, limit: 20, now, weights: Default::default() };
    brain.search(&wanted).expect("an answer").hits.into_iter().map(|hit| hit.snippet).collect()
}

#[test]
fn whatever_a_model_says_the_words_are_found_and_the_brain_is_sound() {
    for harm in Harm::ALL {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        say(&mut brain, None, &["the plan is to leave", "the weather is fine", "a third thing"]);
        let before = brain.lock().clone();
        let model = Hostile::new(harm);
        embed(&brains, &mut brain, &model);
        embed(&brains, &mut brain, &model);
        let now = brain.clock().now();
        let wanted = Search {
            text: "plan",
            scope: SearchScope::Operator,
            except_task: None,
            limit: 20,
            now,
            weights: Default::default(),
        };
        match Vector::of(&model, "plan", EmbeddingInput::Query) {
            Err(_) => assert!(!matches!(harm, Harm::Shifting | Harm::Loud), "{harm:?}"),
            Ok(vector) => {
                let near =
                    brain.search_hybrid(&wanted, Some(&QueryVector::new(model.name(), &vector))).expect("an answer");
                assert!(near.found.hits.iter().any(|hit| hit.snippet.contains("plan")), "{harm:?}");
                assert!(near.found.hits.iter().all(|hit| hit.score.is_finite()), "{harm:?}");
            }
        }
        assert_eq!(by_words(&mut brain, "plan"), ["the plan is to leave"], "{harm:?}");
        assert_eq!(brain.lock(), &before);
        assert!(brain.verify().expect("verified").is_sound(), "{harm:?}");
        // A better model repairs what a bad one left.
        let good = Letters::default();
        assert_eq!(embed(&brains, &mut brain, &good), 3, "{harm:?}");
        assert!(found(&mut brain, &good, "wether", SearchScope::Operator).1, "{harm:?}");
    }
}

#[test]
fn stored_bytes_that_are_no_vector_are_passed_over() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["the plan is to leave", "the weather is fine"]);
    let model = Letters::default();
    embed(&brains, &mut brain, &model);
    for bytes in ["x''", "x'00'", "x'0000c07f01'", "zeroblob(260)", "randomblob(5000)", "x'ffffffffff'"] {
        let forge = format!("UPDATE vectors SET vector = {bytes} WHERE row = 4");
        database(&brains).execute_batch(&forge).expect("forged");
        let (hits, _) = found(&mut brain, &model, "plan", SearchScope::Operator);
        assert!(hits.contains(&"the plan is to leave".to_owned()), "{bytes}: {hits:?}");
    }
    database(&brains).execute_batch("UPDATE vectors SET text = 1, row = row + 400").expect("forged");
    assert_eq!(
        found(&mut brain, &model, "plan", SearchScope::Operator),
        (vec!["the plan is to leave".to_owned()], false)
    );
}

#[test]
fn a_row_that_changed_while_the_model_was_asked_gets_no_vector() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    note(&mut brain, "colour", "ultramarine");
    let model = Letters::default();
    let due = reader(&brains).vectors_due(model.name(), 10).expect("due");
    let made: Vec<EmbeddedText> = due
        .texts
        .iter()
        .map(|of| EmbeddedText { of: of.clone(), vector: Vector::of(&model, of.text(), EmbeddingInput::Passage).ok() })
        .collect();
    note(&mut brain, "colour", "vermilion");
    assert_eq!(brain.keep_vectors(model.name(), &made, &due).expect("kept"), 0);
    assert_eq!(embed(&brains, &mut brain, &model), 1);
}

#[test]
fn a_table_of_that_name_that_herm_did_not_make_is_refused() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    database(&brains).execute_batch("CREATE TABLE vectors (anything)").expect("made");
    let error = brains.open("1").expect_err("refused");
    assert_eq!(error.kind(), herm::ErrorKind::Corrupt);
}
