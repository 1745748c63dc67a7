//! GCS, Azure and WebDAV, with servers on loopback that speak what these services document.

use std::sync::Arc;

use herm::ErrorKind;
use herm::ids::SystemRandom;
use herm::snapshot::Store as _;
use herm::snapshot::store::{CloudStore, CreateOutcome, LocalStore, ObjectName, StoredObject, probe};
use herm_tests::TempBrains;
use herm_tests::object_server::{Conditions, ObjectServer, Service};

use super::brains::{how, id, step, vault};

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("a name")
}

fn names(listed: Vec<StoredObject>) -> Vec<(String, u64)> {
    listed.into_iter().map(|object| (object.name.to_string(), object.bytes)).collect()
}

fn open(server: &ObjectServer) -> CloudStore {
    CloudStore::open(&server.store("some/prefix"), server.options()).expect("a store")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gcs_and_azure_behave_like_any_store() {
    for service in [Service::Gcs, Service::Azure] {
        let server = ObjectServer::start(service, Conditions::Kept).await;
        let store = open(&server);
        probe(&store, &SystemRandom).await.unwrap();
        assert_eq!(server.names(), [""; 0], "{service:?}: the probe leaves nothing behind");
        assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), None);
        assert_eq!(store.create(&name("a/b"), b"one".to_vec()).await.unwrap(), CreateOutcome::Yes);
        assert_eq!(store.create(&name("a/b"), b"two".to_vec()).await.unwrap(), CreateOutcome::Taken);
        assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), Some(b"one".to_vec()));
        assert!(store.get(&name("a/b"), 2).await.is_err(), "larger than it may be");
        for more in ["a/c", "a/d/e", "a/f", "ab"] {
            store.put(&name(more), b"x".to_vec()).await.unwrap();
        }
        let before = server.pages();
        let all = [("a/b", 3), ("a/c", 1), ("a/d/e", 1), ("a/f", 1)].map(|(name, bytes)| (name.to_owned(), bytes));
        assert_eq!(names(store.list(&name("a"), None).await.unwrap()), all, "{service:?}");
        assert_eq!(server.pages() - before, 2, "{service:?}: in pages");
        let after = store.list(&name("a"), Some(&name("a/b"))).await.unwrap();
        assert_eq!(names(after), all[1..], "{service:?}");
        assert!(server.names().contains(&"herm/some/prefix/a/b".to_owned()), "{:?}", server.names());
        store.remove(&name("a/b")).await.unwrap();
        store.remove(&name("a/b")).await.unwrap();
        assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), None);
        assert_eq!(server.signed() > 0, service == Service::Azure, "Azure's key signs each request");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_brain_goes_to_gcs_and_to_azure_and_comes_back() {
    for service in [Service::Gcs, Service::Azure] {
        let (here, there) = (TempBrains::new(), TempBrains::new());
        let mut brain = here.make("7");
        for number in 0..20 {
            step(&mut brain, number);
        }
        let server = ObjectServer::start(service, Conditions::Kept).await;
        let vault = vault(Arc::new(open(&server)));
        vault.push(&here.layout(), &id("7")).await.unwrap();
        step(&mut brain, 20);
        vault.push(&here.layout(), &id("7")).await.unwrap();
        vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
        assert_eq!(there.open("7").unwrap().lock(), brain.lock(), "{service:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_ignores_conditions_is_refused() {
    for service in [Service::Gcs, Service::Azure] {
        let server = ObjectServer::start(service, Conditions::Ignored).await;
        let error = probe(&open(&server), &SystemRandom).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.message().contains("only if none is there"), "{service:?}: {error}");
    }
}

/// WebDAV has no way to write only what is new, so nothing is pushed there; what a web server has is restored from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_brain_is_restored_from_a_web_server_and_never_pushed_to_one() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let mut brain = here.make("7");
    for number in 0..20 {
        step(&mut brain, number);
    }
    let dir = tempfile::tempdir().unwrap();
    vault(Arc::new(LocalStore::open(dir.path()).unwrap())).push(&here.layout(), &id("7")).await.unwrap();
    let server = ObjectServer::start(Service::WebDav, Conditions::Kept).await;
    let mut dirs = vec![dir.path().to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false => {
                    let below = path.strip_prefix(dir.path()).unwrap().to_str().unwrap();
                    server.place(&format!("herm/some/prefix/{below}"), std::fs::read(&path).unwrap());
                }
            }
        }
    }
    let heads = || server.names().into_iter().filter(|name| name.contains("/head/")).collect::<Vec<_>>();
    let (before, there_before) = (heads(), brain.lock().clone());
    assert_eq!(before.len(), 1, "{:?}", server.names());
    let store = open(&server);
    let error = probe(&store, &SystemRandom).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.message().contains("cannot write an object only if none is there"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("can be restored from")), "{error:?}");
    step(&mut brain, 20);
    let error = vault(Arc::new(store.clone())).push(&here.layout(), &id("7")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    vault(Arc::new(store.clone())).restore(&there.layout(), &id("7"), &how()).await.unwrap();
    assert_eq!(*there.open("7").unwrap().lock(), there_before);
    assert_eq!(heads(), before, "nobody was told of a step that could not be fenced");
    store.put(&name("a/b"), b"one".to_vec()).await.unwrap();
    assert_eq!(names(store.list(&name("a"), None).await.unwrap()), [("a/b".to_owned(), 3)]);
    store.remove(&name("a/b")).await.unwrap();
    store.remove(&name("a/b")).await.unwrap();
    assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), None);
}
