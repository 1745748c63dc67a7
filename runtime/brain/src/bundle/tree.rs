//! The files of a bundle and their hash.
//!
//! A part's files fall into 256 buckets by the first byte of the digest of their path. A bucket
//! hashes its leaves in path order, a part hashes its buckets. So one changed file costs one leaf,
//! one small bucket and 256 digests, however many files a brain holds.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::part::BundlePart;
use super::{feed_text, node};
use crate::ids::{Digest, RelPath};

/// The leaf of one file: binds its path to its content.
pub fn file_leaf(path: &RelPath, content: &Digest) -> Digest {
    let mut hasher = node("herm bundle v1 file");
    feed_text(&mut hasher, path.as_str());
    hasher.update(content.bytes());
    hasher.finalize().into()
}

#[derive(Debug, Clone, Default)]
struct Bucket {
    leaves: BTreeMap<RelPath, Digest>,
    /// The bucket's digest, or `None` since a file of it changed.
    digest: Option<Digest>,
}

/// The files of a bundle by path, with the digest of each.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    files: BTreeMap<RelPath, Digest>,
    buckets: BTreeMap<(BundlePart, u8), Bucket>,
}

impl Tree {
    fn key(path: &RelPath) -> Option<(BundlePart, u8)> {
        let part = BundlePart::of(path.as_str())?;
        let [bucket, ..] = *blake3::hash(path.as_str().as_bytes()).as_bytes();
        Some((part, bucket))
    }

    /// Sets a file's content digest and returns the earlier one. A path outside the bundle changes nothing.
    pub fn set(&mut self, path: &RelPath, content: Digest) -> Option<Digest> {
        let bucket = self.buckets.entry(Self::key(path)?).or_default();
        bucket.digest = None;
        bucket.leaves.insert(path.clone(), file_leaf(path, &content));
        self.files.insert(path.clone(), content)
    }

    /// Removes a file and returns its content digest.
    pub fn remove(&mut self, path: &RelPath) -> Option<Digest> {
        let before = self.files.remove(path)?;
        let key = Self::key(path)?;
        let bucket = self.buckets.get_mut(&key)?;
        bucket.leaves.remove(path);
        bucket.digest = None;
        if bucket.leaves.is_empty() {
            self.buckets.remove(&key);
        }
        Some(before)
    }

    /// A tree of files given in path order.
    pub fn from_sorted(files: Vec<(RelPath, Digest)>) -> Self {
        let mut tree = Self::default();
        for (path, content) in &files {
            if let Some(key) = Self::key(path) {
                let leaf = file_leaf(path, content);
                tree.buckets.entry(key).or_default().leaves.insert(path.clone(), leaf);
            }
        }
        tree.files = files.into_iter().filter(|(path, _)| BundlePart::of(path.as_str()).is_some()).collect();
        tree
    }

    /// Sets or removes a file: `None` means that it is gone.
    pub fn put(&mut self, path: &RelPath, content: Option<Digest>) -> Option<Digest> {
        match content {
            Some(content) => self.set(path, content),
            None => self.remove(path),
        }
    }

    /// A file's content digest.
    pub fn get(&self, path: &RelPath) -> Option<Digest> {
        self.files.get(path).copied()
    }

    /// Every file with its content digest, in path order.
    pub fn iter(&self) -> impl Iterator<Item = (&RelPath, Digest)> {
        self.files.iter().map(|(path, content)| (path, *content))
    }

    /// The files below a directory, in path order.
    pub fn below<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = &'a RelPath> {
        self.files
            .range::<str, _>((Bound::Excluded(dir), Bound::Unbounded))
            .map(|(path, _)| path)
            .take_while(move |path| path.as_str().starts_with(dir))
            .filter(move |path| is_below(path, dir))
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The digest of a part's files.
    pub fn part(&mut self, part: BundlePart) -> Digest {
        let mut hasher = node("herm bundle v1 part");
        feed_text(&mut hasher, part.name());
        for ((_, number), bucket) in self.buckets.range_mut((part, 0)..=(part, u8::MAX)) {
            let digest = *bucket.digest.get_or_insert_with(|| {
                let mut hasher = node("herm bundle v1 bucket");
                for leaf in bucket.leaves.values() {
                    hasher.update(leaf.bytes());
                }
                hasher.finalize().into()
            });
            hasher.update(&[*number]);
            hasher.update(digest.bytes());
        }
        hasher.finalize().into()
    }
}

fn is_below(path: &RelPath, dir: &str) -> bool {
    path.as_str().strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_outside_the_bundle_changes_nothing() {
        let mut tree = Tree::default();
        for path in
            ["bundle.lock.json", "receipts.ndjson", "memory.db-wal", ".herm/x", "skills/.usage.json", "notes.txt"]
        {
            assert_eq!(tree.set(&path.parse().unwrap(), Digest::of(b"x")), None);
        }
        assert!(tree.is_empty());
    }

    proptest! {
        #[test]
        fn any_order_of_changes_gives_the_hash_of_the_final_files(
            steps in prop::collection::vec((0u8..40, prop::option::of(any::<u8>()), any::<bool>()), 1..80)
        ) {
            let path = |n: u8| -> RelPath { format!("skills/s{n}/SKILL.md").parse().unwrap() };
            let mut grown = Tree::default();
            let mut files = BTreeMap::new();
            for (n, content, look) in steps {
                match content {
                    Some(byte) => { grown.set(&path(n), Digest::of(&[byte])); files.insert(n, byte); }
                    None => { grown.remove(&path(n)); files.remove(&n); }
                }
                if look { grown.part(BundlePart::Skills); }
            }
            let mut fresh = Tree::default();
            for (n, byte) in files { fresh.set(&path(n), Digest::of(&[byte])); }
            prop_assert_eq!(grown.part(BundlePart::Skills), fresh.part(BundlePart::Skills));
        }
    }
}
