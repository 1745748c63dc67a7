//! A store that lives as long as its process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{CreateOutcome, ObjectName, Store, StoredObject};
use crate::error::{Error, Result};

/// A store in memory: for tests, and for trying things out.
#[derive(Debug)]
pub struct MemoryStore {
    number: u64,
    objects: Mutex<BTreeMap<ObjectName, Vec<u8>>>,
}

impl MemoryStore {
    /// An empty store, with a number that tells it from others in messages and caches.
    pub fn new() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(1);
        Self { number: COUNTER.fetch_add(1, Ordering::Relaxed), objects: Mutex::default() }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<ObjectName, Vec<u8>>> {
        // The map is never left half changed.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        match self.objects().get(name) {
            Some(content) if content.len() as u64 > max => Err(too_large(name, max)),
            found => Ok(found.cloned()),
        }
    }

    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()> {
        self.objects().insert(name.clone(), content);
        Ok(())
    }

    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome> {
        match self.objects().entry(name.clone()) {
            std::collections::btree_map::Entry::Occupied(_) => Ok(CreateOutcome::Taken),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(content);
                Ok(CreateOutcome::Yes)
            }
        }
    }

    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>> {
        let below = format!("{prefix}/");
        let objects = self.objects();
        let inside = objects.iter().filter(|(name, _)| name.as_str().starts_with(&below));
        let wanted = inside.filter(|(name, _)| after.is_none_or(|after| *name > after));
        Ok(wanted.map(|(name, content)| StoredObject { name: name.clone(), bytes: content.len() as u64 }).collect())
    }

    async fn remove(&self, name: &ObjectName) -> Result<()> {
        self.objects().remove(name);
        Ok(())
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        format!("store {} in memory", self.number)
    }
}

/// An object that cannot be what it is taken for.
pub(super) fn too_large(name: &ObjectName, max: u64) -> Error {
    Error::corrupt(format!("{name} in the store is larger than the {max} bytes it may have"))
        .hint("look with `herm snapshot verify ID`")
}
