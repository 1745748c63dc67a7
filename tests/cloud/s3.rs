//! Conditional writes, races and faults.

use herm::ids::SystemRandom;
use herm::snapshot::Store;
use herm::snapshot::store::{CreateOutcome, ObjectName, claim, probe};
use herm_tests::s3_server::{Faults, Order, S3Server};

use super::store;

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("a name")
}

#[tokio::test]
async fn a_bucket_behaves_like_any_store() {
    let server = S3Server::start(Order::OneByOne).await;
    let store = store(&server, "some/prefix");
    probe(&*store, &SystemRandom).await.unwrap();
    assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), None);
    store.put(&name("a/b"), b"one".to_vec()).await.unwrap();
    assert_eq!(store.create(&name("a/b"), b"x".to_vec()).await.unwrap(), CreateOutcome::Taken);
    assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), Some(b"one".to_vec()));
    assert!(store.get(&name("a/b"), 2).await.is_err());
    for more in ["a/c", "a/d/e", "ab"] {
        store.put(&name(more), b"x".to_vec()).await.unwrap();
    }
    let names = |listed: Vec<herm::snapshot::store::StoredObject>| -> Vec<String> {
        listed.into_iter().map(|object| object.name.to_string()).collect()
    };
    assert_eq!(names(store.list(&name("a"), None).await.unwrap()), ["a/b", "a/c", "a/d/e"]);
    assert_eq!(names(store.list(&name("a"), Some(&name("a/b"))).await.unwrap()), ["a/c", "a/d/e"]);
    store.remove(&name("a/b")).await.unwrap();
    store.remove(&name("a/b")).await.unwrap();
    assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), None);
}

#[tokio::test]
async fn a_server_that_ignores_conditions_is_refused() {
    let server = S3Server::start(Order::OneByOne).await;
    server.set_faults(Faults { unconditional: true, ..Faults::default() });
    // Whether two writers meet in its gap is chance: one try may miss it, ten do not.
    let mut found = None;
    for attempt in 0..10 {
        found = probe(&*store(&server, &format!("p{attempt}")), &SystemRandom).await.err();
        if found.is_some() {
            break;
        }
    }
    let error = found.expect("a server that looks first is found out");
    assert_eq!(error.kind(), herm::ErrorKind::Refused);
    assert!(error.message().contains("only if none is there"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_looks_first_and_writes_then_is_refused() {
    // The same server without its mutex passes every check that is made one after the other.
    let server = S3Server::start(Order::None).await;
    // Whether two writers meet in its gap is chance: one try may miss it, ten do not.
    let mut found = None;
    for attempt in 0..10 {
        found = probe(&*store(&server, &format!("p{attempt}")), &SystemRandom).await.err();
        if found.is_some() {
            break;
        }
    }
    let error = found.expect("a server that looks first is found out");
    assert_eq!(error.kind(), herm::ErrorKind::Refused);
    assert!(error.message().contains("when they try at once"), "{error}");
}

/// 16 writers for one name, a thousand times, while one request in ten is done and then denied.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixteen_writers_exactly_one_wins_every_time_though_answers_get_lost() {
    const WRITERS: u64 = 16;
    let rounds: u64 = std::env::var("HERM_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let server = S3Server::start(Order::OneByOne).await;
    let stores: Vec<_> = (0..WRITERS).map(|_| store(&server, "race")).collect();
    server.set_faults(Faults { after: 100, ..Faults::default() });
    for round in 0..rounds {
        let racing: Vec<_> = (0..WRITERS)
            .zip(&stores)
            .map(|(writer, store)| {
                let (store, name) = (store.clone(), name(&format!("head/{round:020}")));
                tokio::spawn(async move { claim(&*store, &name, format!("writer {writer}").as_bytes()).await })
            })
            .collect();
        let mut winners = Vec::new();
        for (writer, ended) in racing.into_iter().enumerate() {
            if ended.await.unwrap().unwrap() == CreateOutcome::Yes {
                winners.push(format!("writer {writer}"));
            }
        }
        let there = loop {
            match stores[0].get(&name(&format!("head/{round:020}")), 100).await {
                Ok(there) => break there,
                Err(error) => assert_eq!(error.kind(), herm::ErrorKind::Unavailable),
            }
        };
        let there = String::from_utf8(there.unwrap()).unwrap();
        assert_eq!(winners, [there], "round {round}");
    }
}
