//! The patterns of a brain, compiled once for each content.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herm::tool::{ToolContext, WorkingCopy};
use herm::{Digest, RelPath, Result, Slug};

use crate::pattern::Pattern;

/// How many compiled patterns are kept, over all brains.
const KEPT: usize = 256;

/// A pattern file, read once for all tools.
#[derive(Debug)]
pub(crate) struct Volume {
    /// Its slug, or its file name where that gives none.
    pub(crate) name: String,
    /// The pattern, or why it is none.
    pub(crate) pattern: Result<Pattern, Broken>,
}

/// A pattern file that cannot be used.
#[derive(Debug)]
pub(crate) struct Broken {
    /// Why, in a line.
    pub(crate) reason: String,
    /// Its text all the same.
    pub(crate) text: String,
}

/// The patterns that were used last, ready to be looked for. Tools of one harness share it.
#[derive(Debug, Default)]
pub struct PatternLibrary {
    shelf: Mutex<PatternCache>,
}

#[derive(Debug, Default)]
struct PatternCache {
    /// Counts uses, so that the longest unused volume goes first.
    uses: u64,
    volumes: BTreeMap<Digest, (u64, Arc<Volume>)>,
}

impl PatternLibrary {
    /// The patterns of the task's brain, by name.
    pub(crate) async fn volumes(self: &Arc<Self>, cx: &ToolContext) -> Result<Vec<Arc<Volume>>> {
        let library = Arc::clone(self);
        cx.with_working_copy(move |desk| library.read(desk)).await
    }

    fn read(&self, desk: &mut WorkingCopy) -> Result<Vec<Arc<Volume>>> {
        let mut volumes = Vec::new();
        for path in desk.patterns()? {
            if let Some(content) = desk.read(&path)? {
                volumes.push(self.volume(&path, &content));
            }
        }
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(volumes)
    }

    fn volume(&self, path: &RelPath, content: &[u8]) -> Arc<Volume> {
        let key = Digest::of(&[path.as_str().as_bytes(), &[0], content].concat());
        if let Some(known) = self.shelf().take(&key) {
            return known;
        }
        // Compiled while the cache is not locked: it takes milliseconds.
        let volume = Arc::new(Volume::open(path, content));
        self.shelf().put(key, Arc::clone(&volume));
        volume
    }

    /// A panic elsewhere leaves a cache that is whole: volumes are put into it in one go.
    fn shelf(&self) -> MutexGuard<'_, PatternCache> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PatternCache {
    fn take(&mut self, key: &Digest) -> Option<Arc<Volume>> {
        self.uses += 1;
        let (used, volume) = self.volumes.get_mut(key)?;
        *used = self.uses;
        Some(Arc::clone(volume))
    }

    fn put(&mut self, key: Digest, volume: Arc<Volume>) {
        self.uses += 1;
        self.volumes.insert(key, (self.uses, volume));
        while self.volumes.len() > KEPT {
            let oldest = self.volumes.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
            oldest.and_then(|key| self.volumes.remove(&key));
        }
    }
}

impl Volume {
    fn open(path: &RelPath, content: &[u8]) -> Self {
        let stem = path.name().strip_suffix(".md").unwrap_or(path.name());
        let broken = |reason: &str| Broken {
            reason: herm::text::line(reason, 200),
            text: String::from_utf8_lossy(content).into_owned(),
        };
        match Slug::from_title(stem) {
            None => Self { name: stem.to_owned(), pattern: Err(broken("its file name gives no slug")) },
            Some(slug) => Self {
                name: slug.as_str().to_owned(),
                pattern: Pattern::parse(slug, content).map_err(|error| broken(error.message())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(n: usize) -> RelPath {
        format!("patterns/p-{n}.md").parse().unwrap()
    }

    #[test]
    fn a_pattern_is_compiled_once_and_anew_when_it_changes() {
        let library = PatternLibrary::default();
        let first = library.volume(&path(1), b"---\nseverity: low\n---\none\n");
        assert!(Arc::ptr_eq(&first, &library.volume(&path(1), b"---\nseverity: low\n---\none\n")));
        let changed = library.volume(&path(1), b"---\nseverity: high\n---\none\n");
        assert_eq!(changed.pattern.as_ref().unwrap().severity, crate::Severity::High);
    }

    #[test]
    fn the_shelf_is_bounded_and_keeps_what_is_in_use() {
        let library = PatternLibrary::default();
        let used = library.volume(&path(0), b"x");
        for n in 1..400 {
            library.volume(&path(n), b"x");
            library.volume(&path(0), b"x");
        }
        assert_eq!(library.shelf().volumes.len(), KEPT);
        assert!(Arc::ptr_eq(&used, &library.volume(&path(0), b"x")));
    }

    #[test]
    fn a_file_that_is_no_pattern_keeps_its_text_and_its_reason() {
        let volume = Volume::open(&path(1), b"---\nseverity: awful\n---\nbody\n");
        let broken = volume.pattern.unwrap_err();
        assert!(broken.reason.contains("awful") && broken.text.ends_with("body\n"), "{broken:?}");
    }
}
