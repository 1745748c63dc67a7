//! What was said is found again, by those who may see it and by nobody else.

use herm::memory::{Fact, MemorySource, MessageEntry, MessageRole, Search, SearchScope, TaskEntry, TaskStatus};
use herm::{Brain, Digest, Draft, ErrorKind, StepKind, SubscriberId, Timestamp};
use herm_tests::TempBrains;
use herm_tests::generate::Random;
use proptest::prelude::*;

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

fn found(brain: &mut Brain, text: &str, scope: SearchScope) -> Vec<String> {
    let now = brain.clock().now();
    let wanted = Search { text, scope, except_task: None, limit: 20, now, weights: Default::default() };
    brain.search(&wanted).expect("an answer").hits.into_iter().map(|hit| hit.snippet).collect()
}

#[test]
fn words_are_found_by_their_stem_and_syntax_is_text() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["The auditors were running tests", "col: value \"quoted\" NEAR miss", "needle-0042 here"]);
    let mut all = |text: &str| found(&mut brain, text, SearchScope::Operator).len();
    assert_eq!(all("run auditor"), 1);
    assert_eq!(all("needle-0042"), 1);
    for odd in
        ["\"", "quoted\" OR", "col:", "NEAR(", "*", "a AND", "(", "^x", "-", "'; DROP TABLE messages; --", "quot*"]
    {
        all(odd);
    }
    assert_eq!(all("quoted NEAR"), 1);
    assert_eq!(all("col:value"), 1);
    assert_eq!(all(""), 0);
}

#[test]
fn unspaced_scripts_and_words_glued_to_them_are_found() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let texts = [
        "我们讨论了分布系统的缓存策略",
        "用youer做检索",
        "メモリ使用量が増えています",
        "한국어로 검색합니다",
        "nothing here",
    ];
    say(&mut brain, None, &texts);
    for (query, at) in [
        ("缓存", 0),
        ("分布系统", 0),
        ("略", 0),
        ("youer", 1),
        ("メモリ", 2),
        ("검색", 3),
        ("检索", 1),
        ("系统 nothere", 0),
    ] {
        assert_eq!(found(&mut brain, query, SearchScope::Operator), [texts[at]], "{query}");
    }
    assert_eq!(found(&mut brain, "统系", SearchScope::Operator), Vec::<String>::new());
}

/// A task as it is stored: what was asked, what was answered, and its line in the log.
fn done(brain: &mut Brain, task: &str, answer: Option<&str>, summary: &str) {
    let mut draft = Draft::new();
    let at = brain.clock().now();
    let message =
        |role, content: &str| MessageEntry { task: task.into(), subscriber: None, role, content: content.into(), at };
    draft.message(message(MessageRole::User, "how was it?"));
    answer.into_iter().for_each(|answer| draft.message(message(MessageRole::Assistant, answer)));
    let outcome = if answer.is_some() { TaskStatus::Converged } else { TaskStatus::Incomplete };
    draft.task(TaskEntry { task: task.into(), subscriber: None, outcome, summary: summary.into(), at });
    brain.settle(&draft, StepKind::Task, "done").expect("settled");
}

#[test]
fn an_answer_is_found_once_whichever_of_its_rows_fits_better() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let long = format!("{{\"summary\": \"the vault is sound\", \"more\": \"{}\"}}", "words and words ".repeat(50));
    done(&mut brain, "t1", Some(&long), "the vault is sound");
    done(&mut brain, "t2", None, "the vault took too long");
    done(&mut brain, "t3", Some("vault vault vault"), "vault vault vault");
    let now = brain.clock().now();
    let hits = |brain: &mut Brain, text: &str, limit| {
        let wanted =
            Search { text, scope: SearchScope::Operator, except_task: None, limit, now, weights: Default::default() };
        brain.search(&wanted).expect("an answer").hits
    };
    let rows = |hits: &[herm::memory::SearchHit]| {
        let mut rows: Vec<(String, MemorySource)> = hits.iter().map(|hit| (hit.task.clone(), hit.source)).collect();
        rows.sort();
        rows
    };
    let expected = [
        ("t1".to_owned(), MemorySource::Message),
        ("t2".into(), MemorySource::Task),
        ("t3".into(), MemorySource::Message),
    ];
    assert_eq!(rows(&hits(&mut brain, "vault", 20)), expected);
    // The limit counts answers, not rows.
    assert_eq!(rows(&hits(&mut brain, "vault", 3)), expected);
    assert!(hits(&mut brain, "sound", 5)[0].snippet.contains("the vault is sound"));
}

#[test]
fn nothing_one_subscriber_said_reaches_another() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, Some(who("alice")), &["secret plan alpha 缓存"]);
    say(&mut brain, Some(who("bob")), &["secret plan beta 缓存"]);
    say(&mut brain, None, &["shared plan gamma 缓存"]);
    for query in ["plan", "缓存", "secret", "alpha beta gamma"] {
        let alice = found(&mut brain, query, SearchScope::Subscriber(who("alice")));
        assert!(alice.iter().all(|text| !text.contains("beta")), "{query}: {alice:?}");
        let stranger = found(&mut brain, query, SearchScope::Subscriber(who("carol")));
        assert!(stranger.iter().all(|text| text.contains("shared")), "{query}: {stranger:?}");
    }
    assert_eq!(found(&mut brain, "plan", SearchScope::Operator).len(), 3);
    assert_eq!(found(&mut brain, "plan", SearchScope::Subscriber(who("alice"))).len(), 2);
    brain.close().expect("closed");
    let bytes = std::fs::read(brains.file("1", "memory.db")).expect("memory.db");
    let leaks = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(!leaks("alice") && !leaks("carol"), "a brain does not know its subscribers by name");
}

#[test]
fn two_tenants_and_many_operations_share_no_byte() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut random = Random::new(9);
    let words = ["red", "green", "blue", "缓存", "vault", "oracle"];
    for round in 0..40 {
        let mut draft = Draft::new();
        let at = brain.clock().now();
        for _ in 0..25 {
            let owner = ["alice", "bob"][random.below(2)];
            let word = words[random.below(words.len())];
            let content = format!("{word} of-{owner} {}", random.below(100));
            match random.below(3) {
                0 => draft.message(MessageEntry {
                    task: format!("r{round}"),
                    subscriber: Some(who(owner)),
                    role: MessageRole::User,
                    content,
                    at,
                }),
                1 => draft.fact(Fact {
                    subscriber: Some(who(owner)),
                    key: format!("k{}", random.below(20)),
                    value: content,
                    task: "t".into(),
                    at,
                }),
                _ => draft.task(TaskEntry {
                    task: format!("r{round}-{}", random.number()),
                    subscriber: Some(who(owner)),
                    outcome: TaskStatus::Converged,
                    summary: content,
                    at,
                }),
            }
        }
        brain.settle(&draft, StepKind::Task, "round").expect("settled");
        for word in words {
            for (me, other) in [("alice", "of-bob"), ("bob", "of-alice")] {
                let hits = found(&mut brain, word, SearchScope::Subscriber(who(me)));
                assert!(hits.iter().all(|text| !text.contains(other)), "{me} saw {hits:?}");
            }
        }
    }
    assert!(brain.verify().expect("a report").is_sound());
}

#[test]
fn facts_and_tasks_are_found_too_and_the_asking_task_is_left_out() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    let mut draft = Draft::new();
    for (value, key) in [("old colour", "colour"), ("new colour", "colour")] {
        draft.fact(Fact { subscriber: None, key: key.into(), value: value.into(), task: "t0".into(), at });
    }
    draft.task(TaskEntry {
        task: "t5".into(),
        subscriber: None,
        outcome: TaskStatus::Converged,
        summary: "painted the colour".into(),
        at,
    });
    draft.message(MessageEntry {
        task: "t9".into(),
        subscriber: None,
        role: MessageRole::User,
        content: "which colour?".into(),
        at,
    });
    brain.settle(&draft, StepKind::Task, "x").expect("settled");
    let wanted = Search {
        text: "colour",
        scope: SearchScope::Operator,
        except_task: Some("t9"),
        limit: 9,
        now: at,
        weights: Default::default(),
    };
    let hits = brain.search(&wanted).expect("an answer").hits;
    let mut seen: Vec<(MemorySource, &str)> = hits.iter().map(|hit| (hit.source, hit.snippet.as_str())).collect();
    seen.sort();
    assert_eq!(seen, [(MemorySource::Fact, "colour: new colour"), (MemorySource::Task, "painted the colour")]);
}

#[test]
fn of_two_equal_rows_the_newer_is_first() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["the vault was drained: old"]);
    brains.clock.advance_ms(90 * 86_400_000);
    say(&mut brain, None, &["the vault was drained: new"]);
    let hits = found(&mut brain, "vault drained", SearchScope::Operator);
    assert!(hits[0].ends_with("new") && hits[1].ends_with("old"), "{hits:?}");
}

/// Overwrites the pages of one table with noise.
fn damage(brains: &TempBrains, table: &str) {
    let path = brains.file("1", "memory.db");
    let connection = rusqlite::Connection::open(&path).expect("opened");
    let root: i64 = connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .expect("a root page");
    let size: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).expect("a page size");
    drop(connection);
    let mut bytes = std::fs::read(&path).expect("memory.db");
    let at = ((root - 1) * size) as usize;
    bytes[at..at + 512].fill(0x5a);
    std::fs::write(&path, bytes).expect("written");
}

#[test]
fn a_damaged_index_degrades_to_a_scan_and_is_rebuilt() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["the vault 缓存", "another thing"]);
    brain.close().expect("closed");
    damage(&brains, "messages_fts_data");
    let mut brain = brains.open("1").expect("still opens");
    let wanted = Search {
        text: "vault",
        scope: SearchScope::Operator,
        except_task: None,
        limit: 5,
        now: Timestamp(0),
        weights: Default::default(),
    };
    let first = brain.search(&wanted).expect("an answer");
    assert!(first.degraded && first.hits.len() == 1, "{first:?}");
    let second = brain.search(&wanted).expect("an answer");
    assert!(!second.degraded && second.hits.len() == 1, "{second:?}");
    say(&mut brain, None, &["the vault again"]);
    assert_eq!(found(&mut brain, "vault", SearchScope::Operator).len(), 2);
    assert!(brain.verify().expect("a report").is_sound());
}

#[test]
fn writing_over_a_damaged_index_rebuilds_it_first() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["one vault"]);
    brain.close().expect("closed");
    damage(&brains, "messages_fts_data");
    let mut brain = brains.open("1").expect("opens");
    say(&mut brain, None, &["two vaults"]);
    assert_eq!(found(&mut brain, "vault", SearchScope::Operator).len(), 2);
}

#[test]
fn damaged_rows_stop_everything_that_would_write_over_them() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["the vault"]);
    brain.close().expect("closed");
    damage(&brains, "messages");
    let before = std::fs::read(brains.file("1", "memory.db")).expect("memory.db");
    let outcome = brains.open("1").and_then(|mut brain| {
        let mut draft = Draft::new();
        let at = brain.clock().now();
        draft.message(MessageEntry {
            task: "t".into(),
            subscriber: None,
            role: MessageRole::User,
            content: "x".into(),
            at,
        });
        brain.settle(&draft, StepKind::Task, "x")
    });
    let error = outcome.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.hint_text().is_some());
    let after = std::fs::read(brains.file("1", "memory.db")).expect("memory.db");
    // The header counts the commits, and an open for writing makes one.
    assert!(after[100..] == before[100..], "nothing was written");
}

#[test]
fn text_is_stored_once() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    say(&mut brain, None, &["a-quite-unusual-marker-in-the-text 缓存标记"]);
    brain.close().expect("closed");
    let bytes = std::fs::read(brains.file("1", "memory.db")).expect("memory.db");
    let marker = "a-quite-unusual-marker-in-the-text".as_bytes();
    assert_eq!(bytes.windows(marker.len()).filter(|window| *window == marker).count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_text_can_be_stored_and_any_query_asked(text in "\\PC{0,80}", query in "\\PC{0,40}|[\"*:()^\\-+ a-zA-Z]{0,40}") {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        say(&mut brain, Some(who("alice")), &[&text]);
        for scope in [SearchScope::Operator, SearchScope::Subscriber(who("alice")), SearchScope::Subscriber(who("bob"))] {
            let wanted = Search { text: &query, scope, except_task: None, limit: 3, now: Timestamp(0), weights: Default::default() };
            let answer = brain.search(&wanted).expect("an answer");
            prop_assert!(!answer.degraded);
            if scope == SearchScope::Subscriber(who("bob")) {
                prop_assert!(answer.hits.is_empty());
            }
        }
    }
}
