//! A store whose chunks, once fetched, stay on this machine until a restore is done: an interrupted one
//! does not fetch them twice.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::{CreateOutcome, LocalStore, ObjectName, Store, StoredObject};
use crate::error::Result;
use crate::fsio;

/// A store with a place for what was fetched already.
#[derive(Debug)]
pub struct ResumedStore {
    inner: Arc<dyn Store>,
    fetched: LocalStore,
    dir: PathBuf,
}

impl ResumedStore {
    /// Keeps what is fetched from `inner` in `dir`.
    pub fn new(inner: Arc<dyn Store>, dir: &Path) -> Result<Self> {
        Ok(Self { inner, fetched: LocalStore::open(dir)?, dir: dir.to_owned() })
    }

    /// Throws away what was fetched: the restore is done, or what was fetched is damaged.
    pub fn forget(&self) -> Result<()> {
        fsio::remove_tree(&self.dir)
    }
}

#[async_trait]
impl Store for ResumedStore {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        // Chunks never change; everything else may.
        if !name.as_str().contains("/chunk/") {
            return self.inner.get(name, max).await;
        }
        if let Some(content) = self.fetched.get(name, max).await? {
            return Ok(Some(content));
        }
        let content = self.inner.get(name, max).await?;
        if let Some(content) = &content {
            self.fetched.put(name, content.clone()).await?;
        }
        Ok(content)
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
        self.inner.sync().await
    }

    fn index(&self) -> Option<&dyn Store> {
        self.inner.index()
    }

    async fn address(&self, name: &ObjectName) -> Result<Option<String>> {
        self.inner.address(name).await
    }

    async fn at_address(&self, address: &str, max: u64) -> Result<Vec<u8>> {
        self.inner.at_address(address, max).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
