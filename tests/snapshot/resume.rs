//! A restore that was interrupted goes on where it was, and says how far it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use herm::snapshot::store::{CreateOutcome, MemoryStore, ObjectName, ResumedStore, StoredObject};
use herm::snapshot::{RestoreOptions, Store};
use herm::{Error, ErrorKind, Result};
use herm_tests::TempBrains;

use super::{grown, how, id, key, vault_of};

/// A store that is gone after so many chunks, and counts what it gave.
#[derive(Debug)]
struct Breaking {
    inner: Arc<MemoryStore>,
    left: AtomicU64,
    given: AtomicU64,
}

#[async_trait]
impl Store for Breaking {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        if name.as_str().contains("/chunk/") {
            let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_err() {
                return Err(Error::unavailable("the line is cut"));
            }
            self.given.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.get(name, max).await
    }
    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()> {
        self.inner.put(name, content).await
    }
    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome> {
        self.inner.create(name, content).await
    }
    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>> {
        self.inner.list(prefix, after).await
    }
    async fn remove(&self, name: &ObjectName) -> Result<()> {
        self.inner.remove(name).await
    }
    async fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[tokio::test]
async fn an_interrupted_restore_fetches_nothing_twice_and_says_how_far_it_is() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let brain = grown(&here, "7", 400);
    let inner = Arc::new(MemoryStore::new());
    vault_of(inner.clone(), key(1), "the test").push(&here.layout(), &id("7")).await.unwrap();
    let chunks = inner.list(&ObjectName::new("brains/7/chunk").unwrap(), None).await.unwrap().len() as u64;
    let cut_at = chunks / 2;
    let breaking = Arc::new(Breaking { inner, left: AtomicU64::new(cut_at), given: AtomicU64::new(0) });
    let incoming = there.layout().incoming(&id("7"));
    let told: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let telling = Arc::clone(&told);
    let progress = move |done, total| telling.lock().unwrap().push((done, total));
    let how = RestoreOptions { progress: Some(Arc::new(progress)), ..how() };
    let restore = async || {
        // Each time as a process of its own would: what was fetched is on the disk.
        let resumed = Arc::new(ResumedStore::new(breaking.clone(), &incoming).unwrap());
        vault_of(resumed, key(1), "the test").restore(&there.layout(), &id("7"), &how).await
    };
    let error = restore().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(!there.file("7", "").exists());
    assert_eq!(breaking.given.load(Ordering::SeqCst), cut_at);
    breaking.left.store(u64::MAX, Ordering::SeqCst);
    told.lock().unwrap().clear();
    let restored = restore().await.unwrap();
    assert_eq!(breaking.given.load(Ordering::SeqCst), chunks, "what was fetched before is not fetched again");
    let expected: Vec<(u64, u64)> = (1..=restored.chunks).map(|done| (done, restored.chunks)).collect();
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!(there.open("7").unwrap().lock(), brain.lock());
}
