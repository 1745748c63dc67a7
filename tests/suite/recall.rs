//! What was said is found by what it means, where a model says so; by those who may see it and by nobody else, and
//! without a trace in any hash.

mod hostile;
mod skills;
mod tasks;

use herm::memory::{
    Fact, MemorySource, MessageEntry, MessageRole, QueryVector, Search, SearchScope, TaskEntry, TaskStatus, Vector,
    portable_tables,
};
use herm::semantic::{Embedder, EmbeddingInput};
use herm::{Brain, Digest, Draft, Reader, StepKind, SubscriberId};
use herm_tests::TempBrains;
use herm_tests::generate::Random;
use herm_tests::meaning::{Letters, embed_all};

fn who(name: &str) -> Digest {
    name.parse::<SubscriberId>().expect("a subscriber").digest()
}

fn say(brain: &mut Brain, subscriber: Option<Digest>, texts: &[&str]) {
    let mut draft = Draft::new();
    let at = brain.clock().now();
    for text in texts {
        draft.message(MessageEntry {
            task: "t1".into(),
            subscriber,
            role: MessageRole::User,
            content: (*text).to_owned(),
            at,
        });
    }
    brain.settle(&draft, StepKind::Task, "said").expect("settled");
}

fn note(brain: &mut Brain, key: &str, value: &str) {
    let mut draft = Draft::new();
    let at = brain.clock().now();
    draft.fact(Fact { subscriber: None, key: key.into(), value: value.into(), task: "t2".into(), at });
    brain.settle(&draft, StepKind::Task, "noted").expect("settled");
}

fn reader(brains: &TempBrains) -> Reader {
    Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader")
}

/// Makes all vectors; how many were missing.
fn embed(brains: &TempBrains, brain: &mut Brain, model: &dyn Embedder) -> u64 {
    embed_all(brain, &reader(brains), model).expect("vectors")
}

fn sought(model: &dyn Embedder, text: &str) -> QueryVector {
    QueryVector::of(model, text).expect("a vector")
}

/// What is found by words and meaning, and whether meaning had a part in it.
fn found(brain: &mut Brain, model: &dyn Embedder, text: &str, scope: SearchScope) -> (Vec<String>, bool) {
    let now = brain.clock().now();
    let wanted = Search { text, scope, except_task: None, limit: 20, now, weights: Default::default() };
    let near = brain.search_hybrid(&wanted, Some(&sought(model, text))).expect("an answer");
    (near.found.hits.into_iter().map(|hit| hit.snippet).collect(), near.used_vectors)
}

fn database(brains: &TempBrains) -> rusqlite::Connection {
    rusqlite::Connection::open(brains.file("1", "memory.db")).expect("memory.db")
}

fn vectors(brains: &TempBrains) -> i64 {
    database(brains).query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).expect("counted")
}

#[test]
fn an_answer_that_is_found_by_meaning_is_found_once_and_not_also_as_a_line_of_the_log() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let (mut draft, at, content) = (Draft::new(), brain.clock().now(), "the parcel is behind the windmill".to_owned());
    let (task, role) = ("a".to_owned(), MessageRole::Assistant);
    draft.message(MessageEntry { task: task.clone(), subscriber: None, role, content: content.clone(), at });
    draft.task(TaskEntry { task, subscriber: None, outcome: TaskStatus::Converged, summary: content, at });
    brain.settle(&draft, StepKind::Task, "converged: found").expect("settled");
    let model = Letters::default();
    assert_eq!(embed(&brains, &mut brain, &model), 2, "both rows have a meaning");
    // The first shares letters with the answer and no word; the second has its words too.
    for text in ["parcelforce windmillers", "parcel windmill"] {
        let scope = SearchScope::Operator;
        let wanted = Search { text, scope, except_task: None, limit: 9, now: at, weights: Default::default() };
        let near = brain.search_hybrid(&wanted, Some(&sought(&model, text))).expect("an answer");
        assert!(near.used_vectors, "{text}");
        let sources: Vec<MemorySource> = near.found.hits.iter().map(|hit| hit.source).collect();
        assert_eq!(sources, [MemorySource::Message], "{text}");
    }
}

#[test]
fn what_no_word_finds_is_found_by_meaning_and_words_still_count() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["The spare key is under the flowerpot", "Invoice 48213 is due", "Invoice 48219 is due"]);
    let model = Letters::default();
    let words_only = found(&mut brain, &model, "flowrpot", SearchScope::Operator);
    assert_eq!(words_only, (Vec::new(), false), "no vectors yet, and no such word");
    assert_eq!(embed(&brains, &mut brain, &model), 3);
    let (hits, by_meaning) = found(&mut brain, &model, "flowrpot", SearchScope::Operator);
    assert_eq!((hits[0].as_str(), by_meaning), ("The spare key is under the flowerpot", true));
    let (hits, _) = found(&mut brain, &model, "invoice 48213", SearchScope::Operator);
    assert_eq!(hits[0], "Invoice 48213 is due");
}

#[test]
fn a_brain_with_vectors_has_the_same_hash_and_the_same_rows_travel() {
    let (with, without) = (TempBrains::new(), TempBrains::new());
    let (mut one, mut other) = (with.make("1"), without.make("1"));
    for brain in [&mut one, &mut other] {
        say(brain, Some(who("alice")), &["the plan is secret", "the plan is changed"]);
        note(brain, "colour", "blue");
    }
    embed(&with, &mut one, &Letters::default());
    assert_eq!(one.lock(), other.lock());
    let report = one.verify().expect("verified");
    assert!(report.is_sound(), "{report:?}");
    // The next step does not see them either.
    for brain in [&mut one, &mut other] {
        say(brain, None, &["one more"]);
        note(brain, "colour", "red");
    }
    assert_eq!(one.lock(), other.lock());
    assert!(one.verify().expect("verified").is_sound());
    one.close().expect("closed");
    other.close().expect("closed");
    assert!(with.open("1").expect("opened").verify().expect("verified").is_sound());
    assert_eq!(
        portable_tables(&database(&with)).expect("tables"),
        portable_tables(&database(&without)).expect("tables")
    );
    let tables = |brains| {
        let names = "SELECT count(*) FROM sqlite_schema WHERE name = 'vectors'";
        database(brains).query_row(names, [], |row| row.get::<_, i64>(0)).expect("counted")
    };
    assert_eq!((tables(&with), tables(&without)), (1, 0), "a brain without a model has no table either");
}

#[test]
fn missing_vectors_and_those_of_another_model_are_made_again() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["first", "second", "third"]);
    let (one, two) = (Letters::named("one"), Letters::named("two"));
    assert_eq!(embed(&brains, &mut brain, &one), 3);
    assert_eq!(embed(&brains, &mut brain, &one), 0, "nothing is made twice");
    assert!(!found(&mut brain, &two, "first", SearchScope::Operator).1, "vectors of different models are not compared");
    database(&brains).execute("DELETE FROM vectors WHERE row = 4", []).expect("deleted");
    assert_eq!(embed(&brains, &mut brain, &one), 1);
    assert_eq!(embed(&brains, &mut brain, &two), 3);
    assert_eq!(vectors(&brains), 3, "the old ones are replaced");
    assert!(found(&mut brain, &two, "first", SearchScope::Operator).1);
    database(&brains).execute_batch("DROP TABLE vectors").expect("dropped");
    assert!(!found(&mut brain, &two, "first", SearchScope::Operator).1);
    assert_eq!(embed(&brains, &mut brain, &two), 3);
}

#[test]
fn a_vector_goes_with_its_row() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["kept for good"]);
    say(&mut brain, Some(who("alice")), &["taken back by undoing"]);
    note(&mut brain, "colour", "ultramarine");
    let model = Letters::default();
    assert_eq!(embed(&brains, &mut brain, &model), 3);
    note(&mut brain, "colour", "vermilion");
    assert_eq!(vectors(&brains), 2, "a fact that is replaced loses its vector");
    let (hits, _) = found(&mut brain, &model, "ultramarine", SearchScope::Operator);
    assert!(!hits.iter().any(|hit| hit.contains("colour")), "{hits:?}");
    embed(&brains, &mut brain, &model);
    let rewound = TempBrains::new();
    reader(&brains).rewind(3, &rewound.layout()).expect("rewound to before what alice said");
    assert_eq!(vectors(&rewound), 1);
    // The same ids come again, for someone else.
    let mut brain = rewound.open("1").expect("opened");
    say(&mut brain, Some(who("bob")), &["something new"]);
    let (alice, _) = found(&mut brain, &model, "taken back by undoing", SearchScope::Subscriber(who("alice")));
    assert_eq!(alice, ["kept for good"]);
}

#[test]
fn nothing_one_subscriber_said_reaches_another_by_meaning() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, Some(who("alice")), &["secret plan alpha"]);
    say(&mut brain, Some(who("bob")), &["secret plan beta"]);
    say(&mut brain, None, &["shared plan gamma"]);
    let model = Letters::default();
    embed(&brains, &mut brain, &model);
    for query in ["plan", "plann", "secrett plen", "betta", "alphaa"] {
        let (alice, by_meaning) = found(&mut brain, &model, query, SearchScope::Subscriber(who("alice")));
        assert!(by_meaning && alice.iter().all(|text| !text.contains("beta")), "{query}: {alice:?}");
        for scope in [SearchScope::Subscriber(who("carol")), SearchScope::Shared] {
            let (seen, _) = found(&mut brain, &model, query, scope);
            assert_eq!(seen, ["shared plan gamma"], "{query}");
        }
    }
    assert_eq!(found(&mut brain, &model, "secrett", SearchScope::Operator).0.len(), 3);
    // Not even where the vectors say something else: privacy does not rest on what is derived.
    database(&brains).execute_batch("UPDATE vectors SET scope = 0").expect("forged");
    for query in ["betta", "secret", "beta"] {
        let (carol, _) = found(&mut brain, &model, query, SearchScope::Subscriber(who("carol")));
        assert_eq!(carol, ["shared plan gamma"], "{query}");
    }
    embed(&brains, &mut brain, &model);
    assert_eq!(vectors(&brains), 3, "what was forged is taken away, and made again where it belongs");
}

#[test]
fn two_tenants_share_no_hit_whatever_is_asked() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut random = Random::new(11);
    let words = ["red", "green", "blue", "vault", "oracle", "ladder"];
    for round in 0..30 {
        let owner = ["alice", "bob"][round % 2];
        let texts: Vec<String> =
            (0..5).map(|_| format!("{} {} of-{owner}", words[random.below(6)], words[random.below(6)])).collect();
        say(&mut brain, Some(who(owner)), &texts.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let model = Letters::default();
    embed(&brains, &mut brain, &model);
    for _ in 0..100 {
        let query = format!("{}x {}", words[random.below(6)], words[random.below(6)]);
        for (owner, other) in [("alice", "of-bob"), ("bob", "of-alice")] {
            let (hits, by_meaning) = found(&mut brain, &model, &query, SearchScope::Subscriber(who(owner)));
            assert!(by_meaning && !hits.is_empty() && hits.iter().all(|hit| !hit.contains(other)), "{query}: {hits:?}");
        }
    }
}

#[test]
fn the_labelled_set_is_as_large_as_promised_and_every_answer_is_in_it() {
    let set = herm_tests::retrieval::Labelled::read();
    let classes: std::collections::BTreeSet<&str> = set.questions.iter().map(|question| &*question.class).collect();
    assert!(set.len() >= 3_000 && set.questions.len() >= 200 && classes.len() >= 6);
    let ids = 1..=set.len() as i64;
    assert!(set.questions.iter().all(|question| {
        !question.answers.is_empty() && question.answers.iter().all(|answer| ids.contains(answer))
    }));
}

#[test]
fn likeness_of_letters_finds_what_was_misspelt_and_costs_no_name_or_number() {
    let brains = TempBrains::new();
    let mut set = herm_tests::retrieval::Labelled::read();
    set.questions.retain(|question| ["name-number", "typo-or-form"].contains(&&*question.class));
    let model = Letters::default();
    let mut brain = set.lived(&brains, &model);
    let quality = set.measure(&mut brain, &model);
    assert_eq!(quality.losses(), Vec::<String>::new(), "{quality}");
    let typos = quality.rows[&("typo-or-form".to_owned(), "all".to_owned())].recall();
    assert!(typos[4] > typos[0] + 0.1, "{quality}");
}
