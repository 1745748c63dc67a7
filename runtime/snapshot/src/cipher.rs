//! Compressing and encrypting what goes to a store. Pure: bytes in, bytes out.
//!
//! An object is `HSN1`, a mode, and then, where it is encrypted, a nonce of 24 bytes and the
//! ciphertext of XChaCha20-Poly1305 over the zstd frame. The nonce is a keyed hash of what is
//! encrypted, so no randomness is needed and none can fail.

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use std::io::Read as _;

use super::chunk::MAX_CHUNK_BYTES;
use super::head::SnapshotHead;
use super::key::DataKey;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest};

const MAGIC: &[u8; 4] = b"HSN1";
const PLAIN: u8 = 0;
const SEALED: u8 = 1;
const NONCE_BYTES: usize = 24;
/// What an object has beside its content, at most: magic, mode, nonce, tag, and zstd's own frame.
pub(super) const OVERHEAD: u64 = 4 + 1 + 24 + 16 + 1024;
const LEVEL: i32 = 3;

/// What an object is, which its encryption binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind<'a> {
    /// A chunk of rows or a node. It belongs to every version that names its digest.
    Chunk { digest: &'a Digest },
    /// The manifest of one version.
    Manifest { version: u64, digest: &'a Digest },
}

impl ObjectKind<'_> {
    fn digest(&self) -> &Digest {
        match self {
            Self::Chunk { digest } | Self::Manifest { digest, .. } => digest,
        }
    }

    fn limit(&self) -> u64 {
        match self {
            Self::Chunk { .. } => MAX_CHUNK_BYTES,
            Self::Manifest { .. } => super::manifest::MAX_MANIFEST_BYTES,
        }
    }

    /// The associated data: what it is, whose it is, and which one.
    fn associated(&self, brain: &BrainId) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut text = |text: &str| {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        };
        match self {
            Self::Chunk { .. } => text("herm snapshot v1 chunk"),
            Self::Manifest { .. } => text("herm snapshot v1 manifest"),
        }
        text(brain.as_str());
        if let Self::Manifest { version, .. } = self {
            bytes.extend_from_slice(&version.to_le_bytes());
        }
        bytes.extend_from_slice(self.digest().bytes());
        bytes
    }
}

impl std::fmt::Display for ObjectKind<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Chunk { digest } => write!(f, "chunk {}", digest.short()),
            Self::Manifest { version, .. } => write!(f, "the manifest of version {version}"),
        }
    }
}

/// How the objects of one brain are written and read.
#[derive(Debug, Clone)]
pub(super) enum Cipher {
    /// Encrypted with the brain's key.
    Sealed(DataKey),
    /// As it is, because the operator said so.
    Plain,
}

impl Cipher {
    /// The head as someone with the key writes it.
    pub(super) fn sealed_head(&self, head: SnapshotHead) -> Result<SnapshotHead> {
        let seal = self.head_seal(&head)?;
        Ok(SnapshotHead { seal, ..head })
    }

    /// Refuses a head that nobody with the key wrote: with write access to the store alone, one could
    /// point to any snapshot.
    pub(super) fn check_head(&self, head: &SnapshotHead) -> Result<()> {
        let expected = self.head_seal(head)?;
        // Guessing a digest bit by bit needs answers faster than a store gives them; still, the comparison
        // does not stop early.
        let same = match (&expected, &head.seal) {
            (Some(expected), Some(found)) => {
                expected.bytes().iter().zip(found.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
            }
            (expected, found) => expected == found,
        };
        if same {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "head {} of brain {} was not written by someone with the brain's key",
            head.number, head.brain
        ))
        .hint("find out who can write to the store; nothing was restored, and nothing pushed"))
    }

    fn head_seal(&self, head: &SnapshotHead) -> Result<Option<Digest>> {
        match self {
            Self::Plain => Ok(None),
            Self::Sealed(key) => Ok(Some(key.seal_of(&head.sealed_bytes()?))),
        }
    }

    /// The object that holds `content`.
    pub(super) fn seal(&self, brain: &BrainId, what: ObjectKind<'_>, content: &[u8]) -> Result<Vec<u8>> {
        self.seal_as(&what.associated(brain), content)
    }

    /// The object that holds a catalog.
    pub(super) fn seal_catalog(&self, brain: &BrainId, content: &[u8]) -> Result<Vec<u8>> {
        self.seal_as(&catalog_of(brain), content)
    }

    fn seal_as(&self, aad: &[u8], content: &[u8]) -> Result<Vec<u8>> {
        let packed = zstd::bulk::compress(content, LEVEL)
            .map_err(|source| Error::internal("a chunk cannot be compressed").because(source))?;
        let mut object = MAGIC.to_vec();
        match self {
            Self::Plain => {
                object.push(PLAIN);
                object.extend_from_slice(&packed);
            }
            Self::Sealed(key) => {
                let nonce = key.nonce(aad, &packed);
                let sealed = XChaCha20Poly1305::new(key.content_key())
                    .encrypt(&XNonce::from(nonce), Payload { msg: &packed, aad })
                    .map_err(|_| Error::internal("a chunk cannot be encrypted"))?;
                object.push(SEALED);
                object.extend_from_slice(&nonce);
                object.extend_from_slice(&sealed);
            }
        }
        Ok(object)
    }

    /// The content of an object, if it is what it must be.
    pub(super) fn open(&self, brain: &BrainId, what: ObjectKind<'_>, object: &[u8]) -> Result<Vec<u8>> {
        let content = self.open_as(&what, &what.associated(brain), object, what.limit())?;
        match Digest::of(&content) == *what.digest() {
            true => Ok(content),
            false => Err(damaged(&what, "its content has another digest")),
        }
    }

    /// The content of a catalog of at most `max` bytes.
    pub(super) fn open_catalog(&self, brain: &BrainId, object: &[u8], max: u64) -> Result<Vec<u8>> {
        self.open_as(&format_args!("the catalog of brain {brain}"), &catalog_of(brain), object, max)
    }

    fn open_as(&self, what: &dyn std::fmt::Display, aad: &[u8], object: &[u8], max: u64) -> Result<Vec<u8>> {
        let rest = object.strip_prefix(MAGIC).ok_or_else(|| damaged(what, "it is no object of herm"))?;
        let (mode, rest) = rest.split_first().ok_or_else(|| damaged(what, "it is cut short"))?;
        Ok(match (mode, self) {
            (&PLAIN, Self::Plain) => unpack(what, rest, max)?,
            (&SEALED, Self::Sealed(key)) => {
                let (nonce, sealed) =
                    rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(|| damaged(what, "it is cut short"))?;
                let packed = XChaCha20Poly1305::new(key.content_key())
                    .decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad })
                    .map_err(|_| damaged(what, "it does not decrypt: it was changed, or belongs elsewhere"))?;
                unpack(what, &packed, max)?
            }
            (&PLAIN, Self::Sealed(_)) => {
                return Err(Error::refused(format!("{what} is not encrypted, and this store is"))
                    .hint("somebody put it there; find out who can write to the store"));
            }
            (&SEALED, Self::Plain) => {
                return Err(Error::refused(format!("{what} is encrypted, and no key was given"))
                    .hint("name the key in the configuration: key = … in [snapshot]"));
            }
            _ => return Err(damaged(what, "it is of an unknown kind")),
        })
    }

    /// The name of the object with this digest. Without the key nobody can tell what content it has.
    pub(super) fn name(&self, digest: &Digest) -> Digest {
        match self {
            Self::Sealed(key) => key.name(digest),
            Self::Plain => *digest,
        }
    }
}

/// The associated data of a catalog.
fn catalog_of(brain: &BrainId) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in ["herm snapshot v1 catalog", brain.as_str()] {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Decompresses at most as much as there may be, however much the frame promises.
fn unpack(what: &dyn std::fmt::Display, packed: &[u8], max: u64) -> Result<Vec<u8>> {
    let bad = |source: std::io::Error| damaged(what, &format!("it does not decompress ({source})"));
    let mut content = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(bad)?;
    decoder.take(max + 1).read_to_end(&mut content).map_err(bad)?;
    if content.len() as u64 > max {
        return Err(damaged(what, "it is larger than it may be"));
    }
    Ok(content)
}

fn damaged(what: &dyn std::fmt::Display, how: &str) -> Error {
    Error::corrupt(format!("{what} in the store is damaged: {how}"))
        .hint("look with `herm snapshot verify ID`, and restore an earlier version with `herm restore ID --version N`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn sealed() -> Cipher {
        Cipher::Sealed(DataKey::from_bytes([3; 32]))
    }

    fn id(text: &str) -> BrainId {
        text.parse().unwrap()
    }

    #[test]
    fn what_was_sealed_opens_as_the_same_thing_and_as_nothing_else() {
        let content = vec![7; 100_000];
        let digest = Digest::of(&content);
        let what = ObjectKind::Manifest { version: 4, digest: &digest };
        let object = sealed().seal(&id("1"), what, &content).unwrap();
        assert!(object.len() < 1_000, "compressed before it is encrypted");
        assert_eq!(object, sealed().seal(&id("1"), what, &content).unwrap());
        assert_eq!(sealed().open(&id("1"), what, &object).unwrap(), content);
        for (cipher, brain, what) in [
            (sealed(), "2", what),
            (sealed(), "1", ObjectKind::Manifest { version: 5, digest: &digest }),
            (sealed(), "1", ObjectKind::Chunk { digest: &digest }),
            (Cipher::Sealed(DataKey::from_bytes([4; 32])), "1", what),
        ] {
            assert_eq!(cipher.open(&id(brain), what, &object).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        assert_eq!(Cipher::Plain.open(&id("1"), what, &object).unwrap_err().kind(), ErrorKind::Refused);
        let plain = Cipher::Plain.seal(&id("1"), what, &content).unwrap();
        assert_eq!(sealed().open(&id("1"), what, &plain).unwrap_err().kind(), ErrorKind::Refused);
    }

    #[test]
    fn every_byte_counts_with_a_key_and_without() {
        let content = b"rows and rows and rows".to_vec();
        let digest = Digest::of(&content);
        let what = ObjectKind::Chunk { digest: &digest };
        for cipher in [sealed(), Cipher::Plain] {
            let object = cipher.seal(&id("1"), what, &content).unwrap();
            for at in 0..object.len() {
                let mut flipped = object.clone();
                flipped[at] ^= 0x20;
                let opened = cipher.open(&id("1"), what, &flipped);
                assert!(opened.is_err() || opened.unwrap() == content, "byte {at}");
                assert!(cipher.open(&id("1"), what, &object[..at]).is_err());
            }
        }
    }

    #[test]
    fn ten_gibibytes_of_zeros_are_refused_before_they_are_there() {
        // A frame of zeros, repeated: 80 KiB that would be 10 GiB.
        let zeros = zstd::bulk::compress(&vec![0; 128 << 20], 19).unwrap();
        let mut object = [MAGIC.as_slice(), &[PLAIN]].concat();
        for _ in 0..80 {
            object.extend_from_slice(&zeros);
        }
        assert!(object.len() < 2 << 20);
        let digest = Digest::of(b"");
        let error = Cipher::Plain.open(&id("1"), ObjectKind::Chunk { digest: &digest }, &object).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("larger than it may be"), "{error}");
    }
}
