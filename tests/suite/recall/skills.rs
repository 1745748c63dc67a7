//! Skills chosen by what they mean, where they do not all fit the prompt.

use std::sync::Arc;

use herm::backend::{Capabilities, Router, ScriptedBackend};
use herm::skill::CreatedBy;
use herm::tool::EmbeddingUses;
use herm::{Outcome, Task};
use herm_tests::brains::slug;
use herm_tests::meaning::{Harm, Hostile};
use serde_json::json;

use super::tasks::{ANSWER, builder};
use super::*;

/// A brain with far more skills than fit, one of which is about flowerpots.
fn skilled(brains: &TempBrains) {
    let mut brain = brains.make("1");
    let mut draft = Draft::new();
    let mut editor = brain.edit(&mut draft);
    for n in 0..120 {
        let (name, about) = match n {
            77 => ("mending-pots".to_owned(), "Repairs cracked flowerpots with glue and clamps.".to_owned()),
            _ => (
                format!("chore-{n:03}"),
                format!("Does the household chore of number {n}. {}", "Every day. ".repeat(12)),
            ),
        };
        let text = format!("---\nname: {name}\ndescription: {about}\n---\n\n# {name}\n\nDo it.\n");
        editor.create_skill(&slug(&name), &text, CreatedBy::Imported).expect("made");
    }
    brain.settle(&draft, StepKind::Maintenance, "made skills").expect("settled");
    brain.close().expect("closed");
}

/// Runs a task; what the system message was, and the outcome.
async fn ask(brains: &TempBrains, model: Option<Arc<dyn Embedder>>, input: &str) -> (String, Outcome) {
    let look = json!({ "tool": "skills_list", "args": {} }).to_string();
    let backend = Arc::new(ScriptedBackend::new([look, ANSWER.to_owned()]));
    let mut harness = builder(brains).router(Router::single(Arc::clone(&backend) as _));
    if let Some(model) = model {
        harness = harness.embedder(model).embedding_uses(EmbeddingUses { recall: false, skills: true });
    }
    let harness = harness.build().expect("a harness");
    let id = "1".parse().expect("an id");
    let outcome = harness.run(&id, Task::new(input)).await.expect("an outcome");
    harness.make_vectors(&id).await.expect("made");
    harness.shutdown().await.expect("closed");
    (backend.asked()[0].messages[0].content.to_string(), outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_no_word_points_to_is_shown_by_its_meaning_and_the_task_replays_without_the_model() {
    let brains = TempBrains::new();
    skilled(&brains);
    let input = "my flowrpot is brokn";
    let (by_words, _) = ask(&brains, None, input).await;
    assert!(!by_words.contains("mending-pots"), "{by_words}");
    let model = Arc::new(Letters::default());
    let (first, outcome) = ask(&brains, Some(Arc::clone(&model) as _), input).await;
    assert_eq!((first, outcome.warnings), (by_words, Vec::new()), "skills without vectors are found by their words");
    let asked = model.asked();
    assert!(asked > 100, "the vectors of the skills were made behind the task: {asked}");
    let (second, _) = ask(&brains, Some(Arc::clone(&model) as _), input).await;
    assert!(second.contains("mending-pots"), "{second}");
    assert_eq!(model.asked(), asked + 1, "only the input is new");
    let work = tempfile::tempdir().expect("a directory");
    let (id, toolbox) = ("1".parse().expect("an id"), herm_tools::standard().expect("the standard tools"));
    for seq in 3..=5 {
        let replayed =
            herm::harness::replay(&brains.layout(), &id, seq, &toolbox, work.path()).await.expect("replayed");
        assert!(replayed.is_same() && replayed.same_prompt && replayed.diverged.is_empty(), "{seq}: {replayed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_no_word_points_to_is_put_before_the_task_by_its_meaning_with_its_score() {
    let brains = TempBrains::new();
    skilled(&brains);
    let id: herm::BrainId = "1".parse().expect("an id");
    let model = Arc::new(Letters::default());
    let room = Capabilities { preload_bytes: 6_000, ..Capabilities::default() };
    let mut shown = Vec::new();
    for uses in [EmbeddingUses::default(), EmbeddingUses { recall: false, skills: true }] {
        for _ in 0..2 {
            let look = json!({ "tool": "skills_list", "args": {} }).to_string();
            let backend = Arc::new(ScriptedBackend::new([look, ANSWER.to_owned()]).capable(room));
            let harness = builder(&brains)
                .router(Router::single(Arc::clone(&backend) as _))
                .embedder(Arc::clone(&model) as _)
                .embedding_uses(uses)
                .build()
                .expect("a harness");
            let asked = Task::new("mendng crackd flowrpots repairng with clampz");
            let outcome = harness.run(&id, asked).await.expect("an outcome");
            harness.make_vectors(&id).await.expect("made");
            harness.shutdown().await.expect("closed");
            let prompt = backend.asked()[0].messages[0].content.to_string();
            assert_eq!(prompt.contains("# Procedure: mending-pots"), !outcome.shown.is_empty(), "{prompt}");
            shown.push(outcome.shown);
        }
    }
    assert!(shown[..3].iter().all(Vec::is_empty), "by words nothing matches, and there are no vectors yet: {shown:?}");
    let [found] = shown[3].as_slice() else { panic!("{:?}", shown[3]) };
    assert_eq!(found.skill.as_str(), "mending-pots");
    assert!(found.score.is_some_and(|score| score > 0.35), "{found:?}");
    let work = tempfile::tempdir().expect("a directory");
    let toolbox = herm_tools::standard().expect("the standard tools");
    for seq in 3..=6 {
        let replayed =
            herm::harness::replay(&brains.layout(), &id, seq, &toolbox, work.path()).await.expect("replayed");
        assert!(replayed.is_same() && replayed.same_prompt, "{seq}: {replayed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_vectors_are_made_at_once_with_progress_and_an_interrupted_run_is_resumed() {
    let brains = TempBrains::new();
    skilled(&brains);
    let mut brain = brains.open("1").expect("opened");
    let texts: Vec<String> = (0..600).map(|n| format!("message number {n}")).collect();
    say(&mut brain, None, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    brain.close().expect("closed");
    let before = reader(&brains).lock().clone();
    let id = "1".parse().expect("an id");
    let uses = EmbeddingUses { recall: true, skills: true };
    let harness = |model: &Arc<Letters>| {
        builder(&brains).embedder(Arc::clone(model) as _).embedding_uses(uses).build().expect("a harness")
    };
    let model = Arc::new(Letters::default());
    // Interrupted after the first pass that says so: what was made is kept.
    let first = harness(&model);
    let mut told = Vec::new();
    let interrupted = {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let mut stop = Some(stop);
        let run = first.index_vectors(&id, |indexed| {
            told.push((indexed.made, indexed.missing));
            if indexed.made > 0 {
                stop.take().map(|stop| stop.send(()));
            }
        });
        tokio::select! { biased; _ = stopped => true, done = run => { done.expect("made"); false } }
    };
    first.shutdown().await.expect("closed");
    assert_eq!((told[0], told[1].1), ((0, 722), 722), "{told:?}");
    assert!(interrupted && told.last().expect("told").0 < 722, "{told:?}");
    let asked = model.asked();
    let second = harness(&model);
    let mut passes = 0;
    let indexed = second.index_vectors(&id, |_| passes += 1).await.expect("made");
    assert!(indexed.missing < 722 && indexed.made == indexed.missing, "{indexed:?}");
    assert!(model.asked() <= 722 + 256, "what was kept is not made again: {asked}, {}", model.asked());
    assert!(passes <= 6, "{passes} passes for {} vectors", indexed.missing);
    let nothing = second.index_vectors(&id, |_| ()).await.expect("made");
    assert_eq!((nothing.made, nothing.missing), (0, 0));
    second.shutdown().await.expect("closed");
    assert_eq!((vectors(&brains), reader(&brains).lock().clone()), (722, before), "no hash moves");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_leaves_the_choice_to_words_which_is_said() {
    let brains = TempBrains::new();
    skilled(&brains);
    let (by_words, _) = ask(&brains, None, "chore 17").await;
    let look = json!({ "tool": "skills_list", "args": {} }).to_string();
    for harm in [Harm::Fails, Harm::Panics, Harm::Infinite] {
        let backend = Arc::new(ScriptedBackend::new([look.clone(), ANSWER.to_owned()]));
        let harness = builder(&brains)
            .router(Router::single(Arc::clone(&backend) as _))
            .embedder(Arc::new(Hostile::new(harm)))
            .embedding_uses(EmbeddingUses { recall: false, skills: true })
            .build()
            .expect("a harness");
        let outcome = harness.run(&"1".parse().expect("an id"), Task::new("chore 17")).await.expect("an outcome");
        harness.shutdown().await.expect("closed");
        assert_eq!(backend.asked()[0].messages[0].content.to_string(), by_words, "{harm:?}");
        assert!(outcome.warnings[0].starts_with("skills were chosen by their words alone"), "{:?}", outcome.warnings);
    }
}
