//! One brain, one task at a time, first come first served; different brains side by side.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use herm::backend::{Backend, BackendError, Completion, CompletionRequest, FinishReason};
use herm::tool::Toolbox;

use super::*;

/// Answers after a tool call, and counts how many tasks are under way at once.
#[derive(Debug, Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
    order: Mutex<Vec<String>>,
}

#[derive(Debug, Clone)]
struct BusyBackend(Arc<Busy>);

#[async_trait]
impl Backend for BusyBackend {
    fn name(&self) -> &str {
        "busy"
    }

    async fn complete(&self, ask: &CompletionRequest) -> std::result::Result<Completion, BackendError> {
        let first = ask.messages.len() == 2;
        if first {
            let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.0.most.fetch_max(now, Ordering::SeqCst);
            self.0.order.lock().expect("order").push(ask.messages[1].content.to_string());
        }
        tokio::task::yield_now().await;
        if !first {
            self.0.now.fetch_sub(1, Ordering::SeqCst);
        }
        let text = if first { echo(1) } else { ANSWER.to_owned() };
        Ok(Completion { text, finish: FinishReason::Stop, model: "busy".to_owned(), tokens: None, attestation: None })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_tasks_on_one_brain_are_one_order() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let busy = Arc::new(Busy::default());
    let harness = builder(&brains).backend(BusyBackend(busy.clone())).build().expect("a harness");
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let (harness, id) = (harness.clone(), id.clone());
        tasks.spawn(async move { harness.run(&id, task(&format!("task {n}"))).await });
    }
    let mut versions = Vec::new();
    while let Some(outcome) = tasks.join_next().await {
        let outcome = outcome.expect("no panic").expect("an outcome");
        versions.push(outcome.settled.expect("settled").version);
    }
    versions.sort_unstable();
    assert_eq!(versions, (2..=101).collect::<Vec<u64>>(), "every task is one step, none is lost");
    assert_eq!(busy.most.load(Ordering::SeqCst), 1, "one task at a time");
    harness.shutdown().await.expect("closed");
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
}

#[tokio::test]
async fn tasks_of_one_brain_run_in_the_order_they_came() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let busy = Arc::new(Busy::default());
    let harness = builder(&brains).backend(BusyBackend(busy.clone())).build().expect("a harness");
    let tasks: Vec<_> = (0..10)
        .map(|n| {
            let (harness, id) = (harness.clone(), id.clone());
            async move { harness.run(&id, task(&format!("task {n}"))).await }
        })
        .collect();
    let mut set = tokio::task::JoinSet::new();
    for task in tasks {
        set.spawn(task);
        // One thread: each gets to the queue before the next is there.
        tokio::task::yield_now().await;
    }
    set.join_all().await;
    let expected: Vec<String> = (0..10).map(|n| format!("task {n}")).collect();
    assert_eq!(*busy.order.lock().expect("order"), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_small_pool_closes_brains_and_opens_them_again() {
    let brains = TempBrains::new();
    for id in 1..=8 {
        brains.make(&id.to_string()).close().expect("closed");
    }
    let busy = Arc::new(Busy::default());
    let harness = builder(&brains).pool_bytes(1).backend(BusyBackend(busy)).build().expect("a harness");
    for _ in 0..3 {
        let mut tasks = tokio::task::JoinSet::new();
        for id in 1..=8 {
            let harness = harness.clone();
            tasks.spawn(async move { harness.run(&id.to_string().parse().expect("an id"), task("x")).await });
        }
        for outcome in tasks.join_all().await {
            outcome.expect("an outcome");
        }
    }
    harness.shutdown().await.expect("closed");
    assert_eq!(harness.pool_weight(), (0, 0));
    for id in 1..=8 {
        assert_eq!(brains.open(&id.to_string()).expect("opened").lock().version, 4);
    }
}

/// Asks the other agent named in the input.
#[derive(Debug)]
struct Asks;

#[async_trait]
impl Backend for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    async fn complete(&self, ask: &CompletionRequest) -> std::result::Result<Completion, BackendError> {
        let input = ask.messages[1].content.to_string();
        let text = match (ask.messages.len(), input.split_once(' ')) {
            (2, Some((agent, rest))) => call("ask_agent", json!({ "agent": agent, "input": rest })),
            (2, None) => call("skills_list", json!({})),
            // What the call returned, however often the answer is sent back.
            _ => json!({ "heard": ask.messages[3].content.to_string() }).to_string(),
        };
        Ok(Completion { text, finish: FinishReason::Stop, model: "asks".to_owned(), tokens: None, attestation: None })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn agents_ask_one_another_within_limits() {
    let brains = TempBrains::new();
    for id in 1..=5 {
        brains.make(&id.to_string()).close().expect("closed");
    }
    let harness = builder(&brains).backend(Asks).build().expect("a harness");
    let ask = |input: &str| {
        let (harness, input) = (harness.clone(), input.to_owned());
        async move { harness.run(&"1".parse().expect("an id"), task(&input)).await.expect("an outcome") }
    };
    let two = ask("2 hello").await;
    assert!(two.answer.as_deref().expect("an answer").contains("heard"), "{two:?}");
    for (path, why) in [("1 hello", "does not ask itself"), ("2 1 hello", "already"), ("2 3 4 5 x", "deep")] {
        let refused = ask(path).await;
        assert!(refused.answer.as_deref().expect("an answer").contains(why), "{path}: {:?}", refused.answer);
    }
    // Two agents that ask each other at once: neither waits for ever.
    assert_eq!(brains.open("5").expect("opened").lock().version, 1, "the fifth was too deep");
    harness.shutdown().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brain_held_by_another_process_is_a_conflict() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let held = brains.open("1").expect("held");
    let harness = builder(&brains)
        .toolbox(Toolbox::new())
        .wait(Duration::from_millis(1))
        .backend(ScriptedBackend::new([ANSWER]))
        .build()
        .expect("a harness");
    let error = harness.run(&id, task("x")).await.expect_err("held");
    assert_eq!(error.kind(), herm::ErrorKind::Conflict, "{error:?}");
    held.close().expect("closed");
    harness.run(&id, task("x")).await.expect("free again");
}

/// What a subscriber said to one agent is theirs in the brain of the agent it asked, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_agent_asked_on_behalf_of_a_subscriber_keeps_it_theirs() {
    let brains = TempBrains::new();
    for id in 1..=2 {
        brains.make(&id.to_string()).close().expect("closed");
    }
    let harness = builder(&brains).backend(Asks).build().expect("a harness");
    let who = Some("alice".parse().expect("an id"));
    let asked = Task { subscriber: who, ..task("2 zanzibar") };
    harness.run(&"1".parse().expect("an id"), asked).await.expect("an outcome");
    let budget = herm::TaskLimits { total_tokens: Some(1_000_000), ..herm::TaskLimits::default() };
    let refused = Task { limits: budget, ..task("2 hello") };
    let refused = harness.run(&"1".parse().expect("an id"), refused).await.expect("an outcome");
    assert!(refused.answer.as_deref().is_some_and(|answer| answer.contains("budget")), "{:?}", refused.answer);
    harness.shutdown().await.expect("closed");
    let mut open = brains.open("2").expect("opened");
    let mut found = |scope| {
        let wanted = herm::memory::Search {
            text: "zanzibar",
            scope,
            except_task: None,
            limit: 5,
            now: herm::Timestamp(0),
            weights: Default::default(),
        };
        open.search(&wanted).expect("an answer").hits.len()
    };
    let digest = |name: &str| name.parse::<herm::SubscriberId>().expect("an id").digest();
    assert!(found(herm::memory::SearchScope::Subscriber(digest("alice"))) > 0);
    assert_eq!(found(herm::memory::SearchScope::Subscriber(digest("bob"))), 0);
    assert_eq!(found(herm::memory::SearchScope::Shared), 0);
}
