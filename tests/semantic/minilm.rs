//! The real all-MiniLM-L6-v2.

use std::sync::Arc;

use herm::evolver::select::Ranker as _;
use herm::evolver::semantic::EmbeddingRanker;
use herm::semantic::{self, Embedder, EmbeddingInput, SemanticOptions, nearness};
use herm_tests::models;

fn model() -> Option<Arc<dyn Embedder>> {
    Some(semantic::embedder(&models::minilm()?, SemanticOptions::default()).expect("a model"))
}

#[test]
fn sentences_are_as_near_as_the_model_card_says() {
    let Some(model) = model() else { return };
    let near = |a: &str, b: &str| {
        let embed = |text: &str| model.embed(text, EmbeddingInput::Passage).expect("a vector");
        nearness(&embed(a), &embed(b))
    };
    let eating = "A man is eating food.";
    for (other, expected) in [("A man is eating a piece of bread.", 0.7553), ("How do I reset my password?", 0.0)] {
        let found = near(eating, other);
        assert!((found - expected).abs() < 0.05, "{other}: {found}");
    }
    let bread = near(eating, "A man is eating a piece of bread.");
    assert!((bread - 0.7553).abs() < 1e-4, "{bread}");
}

#[test]
fn the_same_text_has_the_same_vector_whoever_asks_and_how_many() {
    let Some(model) = model() else { return };
    let text = "Restart the gateway plugin, then look at the queue.";
    let first = model.embed(text, EmbeddingInput::Passage).expect("a vector");
    assert_eq!(first.len(), 384);
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            (0..4).map(|_| scope.spawn(|| model.embed(text, EmbeddingInput::Query).expect("a vector"))).collect();
        for asked in asked {
            assert_eq!(asked.join().expect("no panic"), first);
        }
    });
}

#[test]
fn skills_are_ranked_by_what_they_are_about_and_not_by_their_words() {
    let Some(model) = model() else { return };
    let ranker = EmbeddingRanker::new(model, SemanticOptions::default());
    let skills = [
        "Rotate the TLS certificates of the load balancer before they expire.",
        "Bring a crashed service back up and check that it answers.",
        "Write the minutes of a meeting.",
    ];
    let scores = ranker.rank("the web server died, how do I get it running again", &skills).expect("scores");
    assert!(scores[1] > scores[0] && scores[0] > scores[2], "{scores:?}");
}
