//! Pointers: someone beside the store who says where the head of a brain is.
//!
//! The heads in a store are a pointer themselves: [`StorePointer`]. One that the store's keeper cannot
//! change, such as a text record of an ENS name ([`EnsPointer`]), catches a store that was taken back:
//! [`check_pointer`] finds out whether a store goes on from where a pointer says.

mod abi;
mod ens;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::head::{self, SnapshotHead};
use super::store::Store;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest};
use crate::text;

pub use ens::{EnsPointer, EnsSettings, record_key};

/// How a pointer is written down.
const FORM: &str = "herm-head-1";

/// A head by its number and digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadRef {
    /// The number of the head.
    pub number: u64,
    /// The digest of its bytes.
    pub digest: Digest,
}

impl HeadRef {
    /// What points to a head.
    pub fn to(head: &SnapshotHead) -> Result<Self> {
        Ok(Self { number: head.number, digest: Digest::of(&head.to_bytes()?) })
    }
}

impl fmt::Display for HeadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORM} {} {}", self.number, self.digest)
    }
}

impl std::str::FromStr for HeadRef {
    type Err = Error;
    fn from_str(written: &str) -> Result<Self> {
        let mut words = written.split_whitespace();
        let read = match (words.next(), words.next(), words.next(), words.next()) {
            (Some(FORM), Some(number), Some(digest), None) => number.parse().ok().zip(digest.parse::<Digest>().ok()),
            _ => None,
        };
        read.map(|(number, digest)| Self { number, digest }).ok_or_else(|| {
            Error::corrupt(format!("{:?} does not point to a head", text::line(written, 120)))
                .hint(format!("it must be {FORM}, the number of the head and its digest"))
        })
    }
}

/// The catalog of a snapshot, by which a store is found again whose index is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogRef {
    /// Where it is, such as `walrus:BLOB`.
    pub address: String,
    /// The digest of its bytes.
    pub blake3: Digest,
}

/// What a pointer says of a brain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerRecord {
    /// The number and the digest of the last head.
    pub pointed: HeadRef,
    /// The catalog, where the store has one.
    pub catalog: Option<CatalogRef>,
}

impl fmt::Display for PointerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pointed.fmt(f)?;
        match &self.catalog {
            Some(CatalogRef { address, blake3 }) => write!(f, " catalog={address} blake3={blake3}"),
            None => Ok(()),
        }
    }
}

impl std::str::FromStr for PointerRecord {
    type Err = Error;
    /// Words that are not known are for a later herm.
    fn from_str(written: &str) -> Result<Self> {
        let words: Vec<&str> = written.split_whitespace().collect();
        let (head, more) = words.split_at(words.len().min(3));
        let pointed = head.join(" ").parse()?;
        let word = |name: &str| more.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let catalog = match (word("catalog"), word("blake3")) {
            (Some(address), Some(digest)) => {
                let blake3 = digest.parse().map_err(|_| {
                    Error::corrupt(format!("{:?} names a catalog without its digest", text::line(written, 120)))
                        .hint("write the record anew with `herm snapshot pointer ID`")
                })?;
                Some(CatalogRef { address: address.to_owned(), blake3 })
            }
            _ => None,
        };
        if more.iter().any(|word| !word.contains('=')) {
            return Err(Error::corrupt(format!("{:?} does not point to a head", text::line(written, 120)))
                .hint(format!("it must be {FORM}, the number of the head and its digest")));
        }
        Ok(Self { pointed, catalog })
    }
}

/// Someone who says where the head of a brain is.
#[async_trait]
pub trait Pointer: Send + Sync + fmt::Debug {
    /// The head of a brain; `None` where nothing is said of it.
    async fn head_ref(&self, brain: &BrainId) -> Result<Option<HeadRef>>;

    /// All that is said of a brain.
    async fn lookup(&self, brain: &BrainId) -> Result<Option<PointerRecord>> {
        Ok(self.head_ref(brain).await?.map(|pointed| PointerRecord { pointed, catalog: None }))
    }

    /// Who it is, for messages.
    fn describe(&self) -> String;
}

/// The heads in a store.
#[derive(Debug, Clone)]
pub struct StorePointer(pub Arc<dyn Store>);

#[async_trait]
impl Pointer for StorePointer {
    async fn head_ref(&self, brain: &BrainId) -> Result<Option<HeadRef>> {
        let last = head::last(&*self.0, brain).await?;
        Ok(last.map(|(head, digest)| HeadRef { number: head.number, digest }))
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Whether a store is where a pointer says, or has gone on from there; the number of its last head. The
/// pointer may be behind, since someone has to write it; the store may not.
pub async fn check_pointer(store: &dyn Store, pointer: &dyn Pointer, brain: &BrainId) -> Result<Option<u64>> {
    let Some(pointed) = pointer.head_ref(brain).await? else { return Ok(None) };
    let refused = |what: String| {
        Error::refused(format!("{} and {} do not agree on brain {brain}: {what}", store.describe(), pointer.describe()))
            .hint("find out which of them was changed; nothing was restored")
    };
    let Some((last, last_digest)) = head::last(store, brain).await? else {
        return Err(refused(format!("head {} is pointed to, and the store has none", pointed.number)));
    };
    if last.number < pointed.number {
        return Err(refused(format!("head {} is pointed to, and the store ends at {}", pointed.number, last.number)));
    }
    // From the last head down: each names the digest of the one before.
    let (mut number, mut expected) = (last.number, last_digest);
    let mut found = Some((last.clone(), last_digest));
    while number > pointed.number {
        let Some((head, digest)) = found else {
            // Heads between were pruned: the chain cannot be followed, only the pointed one looked at.
            break;
        };
        if digest != expected {
            return Err(refused(format!("head {number} is not the one that head {} goes on from", number + 1)));
        }
        let Some(previous) = head.previous else {
            return Err(refused(format!("head {number} begins anew, beyond head {}", pointed.number)));
        };
        (number, expected) = (number - 1, previous);
        found = head::read(store, brain, number).await?;
    }
    if number == pointed.number && expected == pointed.digest {
        return Ok(Some(last.number));
    }
    Err(refused(match number == pointed.number {
        true => format!("head {number} is another one than is pointed to"),
        false => format!(
            "heads between {} and {} are gone, so nobody can tell; write the record anew",
            pointed.number,
            number + 1
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_back_and_nothing_else_is() {
        let pointed = HeadRef { number: 12, digest: Digest::of(b"x") };
        assert_eq!(pointed.to_string().parse::<HeadRef>().unwrap(), pointed);
        let catalog = CatalogRef { address: "walrus:abc".to_owned(), blake3: Digest::of(b"y") };
        for record in [PointerRecord { pointed, catalog: None }, PointerRecord { pointed, catalog: Some(catalog) }] {
            assert_eq!(record.to_string().parse::<PointerRecord>().unwrap(), record);
            assert_eq!(format!("{record} later=1").parse::<PointerRecord>().unwrap(), record);
        }
        for bad in
            ["", "herm-head-1", "herm-head-2 1 00", "herm-head-1 -1 00", "herm-head-1 1 zz", "herm-head-1 1 2 3 4"]
        {
            assert!(bad.parse::<HeadRef>().is_err(), "{bad}");
            assert!(bad.parse::<PointerRecord>().is_err(), "{bad}");
        }
    }
}
