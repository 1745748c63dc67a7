//! Examples that were read already, by the digest of their file: choosing one costs no reading.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::file;
use super::nearest::IndexedExample;
use crate::ids::Digest;

/// The most files that are kept.
const MOST_FILES: usize = 4_096;

/// What was read, for all brains of a harness.
#[derive(Debug, Default)]
pub struct ExampleCache(Mutex<HashMap<Digest, Arc<Vec<IndexedExample>>>>);

impl ExampleCache {
    /// The examples of a file with this digest; `read` is asked once.
    pub fn get<E>(
        &self,
        digest: Digest,
        read: impl FnOnce() -> Result<String, E>,
    ) -> Result<Arc<Vec<IndexedExample>>, E> {
        if let Some(known) = self.lock().get(&digest) {
            return Ok(Arc::clone(known));
        }
        let examples = Arc::new(file::parse(&read()?).into_iter().map(IndexedExample::from).collect::<Vec<_>>());
        let mut kept = self.lock();
        if kept.len() >= MOST_FILES {
            kept.clear();
        }
        kept.insert(digest, Arc::clone(&examples));
        Ok(examples)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Arc<Vec<IndexedExample>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
