//! A store in a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::memory::too_large;
use super::{CreateOutcome, ObjectName, Store, StoredObject};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{self, DirEntryKind, Root, SyncTiming};
use crate::ids::RelPath;

/// A store in a directory: one file an object. Several processes may use it at once.
#[derive(Debug, Clone)]
pub struct LocalStore {
    root: Arc<Root>,
}

impl LocalStore {
    /// The store in a directory, which is made if it is not there.
    pub fn open(path: &Path) -> Result<Self> {
        fsio::create_dirs(path)?;
        Ok(Self { root: Arc::new(Root::open(path)?) })
    }

    /// The directory of the store, as it was opened.
    pub fn path(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    async fn at_root<T: Send + 'static>(&self, work: impl FnOnce(&Root) -> Result<T> + Send + 'static) -> Result<T> {
        let root = Arc::clone(&self.root);
        let done = tokio::task::spawn_blocking(move || work(&root)).await;
        done.map_err(|_| Error::internal("the work on a store was interrupted"))?
    }
}

fn path_of(name: &ObjectName) -> Result<RelPath> {
    name.as_str().parse()
}

#[async_trait]
impl Store for LocalStore {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        let (path, name) = (path_of(name)?, name.clone());
        self.at_root(move |root| match root.read(&path, max) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => Err(too_large(&name, max)),
            read => read,
        })
        .await
    }

    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()> {
        let path = path_of(name)?;
        self.at_root(move |root| root.replace(&path, &content, SyncTiming::Later)).await
    }

    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome> {
        let path = path_of(name)?;
        self.at_root(move |root| match root.create(&path, &content)? {
            true => Ok(CreateOutcome::Yes),
            false => Ok(CreateOutcome::Taken),
        })
        .await
    }

    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>> {
        let (path, after) = (path_of(prefix)?, after.cloned());
        self.at_root(move |root| {
            let mut found = Vec::new();
            if let Some(dir) = root.below(&path)? {
                walk(&dir, &path, &mut found)?;
            }
            found.sort_by(|a, b| a.name.cmp(&b.name));
            found.retain(|object| after.as_ref().is_none_or(|after| object.name > *after));
            Ok(found)
        })
        .await
    }

    async fn remove(&self, name: &ObjectName) -> Result<()> {
        let path = path_of(name)?;
        self.at_root(move |root| root.remove(&path)).await
    }

    async fn sync(&self) -> Result<()> {
        self.at_root(|root| root.sync_file_system().map(|_| ())).await
    }

    fn describe(&self) -> String {
        format!("the store in {}", self.root.path().display())
    }
}

/// Lists the files below a directory. What no herm can have named is passed over.
fn walk(dir: &Root, path: &RelPath, found: &mut Vec<StoredObject>) -> Result<()> {
    for entry in dir.list()? {
        let Ok(inside) = path.join(&entry.name) else { continue };
        let Ok(name) = ObjectName::new(inside.as_str()) else { continue };
        let Ok(last) = entry.name.parse::<RelPath>() else { continue };
        match entry.kind {
            DirEntryKind::File => {
                if let Some(stat) = dir.stat(&last)? {
                    found.push(StoredObject { name, bytes: stat.size });
                }
            }
            DirEntryKind::Dir => {
                if let Some(below) = dir.below(&last)? {
                    walk(&below, &inside, found)?;
                }
            }
            DirEntryKind::Other(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SystemRandom;
    use crate::store::{MemoryStore, probe};

    fn name(text: &str) -> ObjectName {
        ObjectName::new(text).unwrap()
    }

    async fn behaves(store: &dyn Store) {
        probe(store, &SystemRandom).await.unwrap();
        assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), None);
        store.put(&name("a/b"), b"one".to_vec()).await.unwrap();
        store.put(&name("a/b"), b"two".to_vec()).await.unwrap();
        assert_eq!(store.create(&name("a/b"), b"x".to_vec()).await.unwrap(), CreateOutcome::Taken);
        assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), Some(b"two".to_vec()));
        assert!(store.get(&name("a/b"), 2).await.is_err());
        for more in ["a/c", "a/d/e", "ab"] {
            store.put(&name(more), b"x".to_vec()).await.unwrap();
        }
        let names =
            |listed: Vec<StoredObject>| listed.into_iter().map(|object| object.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(store.list(&name("a"), None).await.unwrap()), ["a/b", "a/c", "a/d/e"]);
        assert_eq!(names(store.list(&name("a"), Some(&name("a/b"))).await.unwrap()), ["a/c", "a/d/e"]);
        store.remove(&name("a/b")).await.unwrap();
        store.remove(&name("a/b")).await.unwrap();
        assert_eq!(store.get(&name("a/b"), 10).await.unwrap(), None);
        store.sync().await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_and_memory_behave_alike() {
        let dir = tempfile::tempdir().unwrap();
        behaves(&LocalStore::open(&dir.path().join("store")).unwrap()).await;
        behaves(&MemoryStore::new()).await;
    }

    #[test]
    fn a_name_cannot_leave_the_store() {
        for bad in ["", "/a", "a//b", "../a", "a/..", ".herm/x", "A", "a b", "a\0", &"a".repeat(121), "a/"] {
            assert!(ObjectName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_many_creators_exactly_one_wins() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(LocalStore::open(dir.path()).unwrap());
        for round in 0..50 {
            let racing: Vec<_> = (0..16)
                .map(|writer| {
                    let store = Arc::clone(&store);
                    tokio::spawn(async move { store.create(&name(&format!("r/{round}")), vec![writer]).await.unwrap() })
                })
                .collect();
            let mut winners = 0;
            for writer in racing {
                winners += usize::from(writer.await.unwrap() == CreateOutcome::Yes);
            }
            assert_eq!(winners, 1, "round {round}");
        }
    }
}
