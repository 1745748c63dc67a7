//! Keys: one of the operator, in a file; one of each brain, in the store, wrapped by the operator's.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::cipher::Cipher;
use crate::error::{Error, Result};
use crate::fsio;
use crate::ids::{BrainId, Digest, Random};

const FILE_HEAD: &str = "herm-snapshot-key-1 ";
/// The format of a wrapped key.
pub(super) const WRAPPED_SCHEMA: &str = "herm/snapshot-key@1";

/// The operator's key. It encrypts nothing but the keys of brains. Nothing prints it.
#[derive(Clone)]
pub struct OperatorKey {
    secret: Zeroizing<[u8; 32]>,
    id: String,
}

impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorKey({})", self.id)
    }
}

impl OperatorKey {
    /// The key of 32 secret bytes.
    pub fn from_bytes(secret: [u8; 32]) -> Self {
        let mut id = Digest::from(blake3::derive_key("herm snapshot v1 operator key id", &secret)).to_string();
        id.truncate(16);
        Self { secret: Zeroizing::new(secret), id }
    }

    /// Makes a key in a file that must not be there, readable by its owner alone.
    pub fn create(path: &Path, random: &dyn Random) -> Result<Self> {
        let mut secret = [0; 32];
        random.fill(&mut secret)?;
        let key = Self::from_bytes(secret);
        let line = Zeroizing::new(format!("{FILE_HEAD}{}\n", STANDARD.encode(secret)));
        fsio::create_private(path, line.as_bytes())?;
        Ok(key)
    }

    /// The key in a file.
    pub fn load(path: &Path) -> Result<Self> {
        let text = Zeroizing::new(fsio::read_private(path)?);
        let secret = text.trim().strip_prefix(FILE_HEAD).and_then(|encoded| STANDARD.decode(encoded).ok());
        let secret: Option<[u8; 32]> = secret.and_then(|secret| Zeroizing::new(secret).as_slice().try_into().ok());
        secret.map(Self::from_bytes).ok_or_else(|| {
            Error::invalid(format!("{} is not a snapshot key", path.display()))
                .hint("put the key back that was there, or make another with `herm snapshot key --create`")
        })
    }

    /// A short name of the key, which tells nothing of it.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        let key = Zeroizing::new(blake3::derive_key("herm snapshot v1 wrap", &*self.secret));
        XChaCha20Poly1305::new(&Key::from(*key))
    }

    /// How catalogs are encrypted: with a key that opens nothing else.
    pub(super) fn catalog_cipher(&self) -> Cipher {
        Cipher::Sealed(DataKey::from_bytes(blake3::derive_key("herm snapshot v1 catalog", &*self.secret)))
    }

    /// Wraps a brain's key.
    pub(super) fn wrap(&self, brain: &BrainId, key: &DataKey, random: &dyn Random) -> Result<WrappedKey> {
        let mut nonce = [0; 24];
        random.fill(&mut nonce)?;
        let aad = associated(brain, &key.id());
        let sealed = self
            .cipher()
            .encrypt(&XNonce::from(nonce), Payload { msg: &*key.secret, aad: &aad })
            .map_err(|_| Error::internal("a key cannot be wrapped"))?;
        Ok(WrappedKey {
            schema: WRAPPED_SCHEMA.to_owned(),
            brain: brain.clone(),
            key: key.id(),
            wrapped_by: self.id.clone(),
            wrapped: STANDARD.encode([nonce.as_slice(), &sealed].concat()),
        })
    }

    /// Unwraps a brain's key.
    pub(super) fn unwrap(&self, brain: &BrainId, wrapped: &WrappedKey) -> Result<DataKey> {
        let bad = |how: &str| {
            Error::corrupt(format!("the key of brain {brain} in the store is damaged: {how}"))
                .hint("put the object back from a copy of the store; without it no snapshot of this brain opens")
        };
        if wrapped.wrapped_by != self.id {
            return Err(Error::refused(format!(
                "the key of brain {brain} is wrapped by operator key {}, and this is {}",
                wrapped.wrapped_by, self.id
            ))
            .hint("name the right key in the configuration: key = … in [snapshot]"));
        }
        let bytes = STANDARD.decode(&wrapped.wrapped).map_err(|_| bad("it is not base64"))?;
        let (nonce, sealed) = bytes.split_first_chunk::<24>().ok_or_else(|| bad("it is cut short"))?;
        let aad = associated(brain, &wrapped.key);
        let secret = self
            .cipher()
            .decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &aad })
            .map_err(|_| bad("it does not decrypt"))?;
        let secret: [u8; 32] =
            Zeroizing::new(secret).as_slice().try_into().map_err(|_| bad("it is not 32 bytes long"))?;
        let key = DataKey::from_bytes(secret);
        if key.id() == wrapped.key { Ok(key) } else { Err(bad("it is another key than it says")) }
    }
}

fn associated(brain: &BrainId, key: &str) -> Vec<u8> {
    format!("herm snapshot v1 key\n{brain}\n{key}").into_bytes()
}

/// A brain's key as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WrappedKey {
    pub(super) schema: String,
    pub(super) brain: BrainId,
    /// The short name of the brain's key.
    pub(super) key: String,
    /// The short name of the operator's key.
    pub(super) wrapped_by: String,
    /// Nonce and ciphertext in Base64.
    pub(super) wrapped: String,
}

/// The key of one brain. Nothing prints it.
#[derive(Clone)]
pub(super) struct DataKey {
    secret: Zeroizing<[u8; 32]>,
    content: Key,
    names: Zeroizing<[u8; 32]>,
    nonces: Zeroizing<[u8; 32]>,
    heads: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({})", self.id())
    }
}

impl DataKey {
    pub(super) fn from_bytes(secret: [u8; 32]) -> Self {
        let derive = |context| Zeroizing::new(blake3::derive_key(context, &secret));
        Self {
            content: Key::from(*derive("herm snapshot v1 content")),
            names: derive("herm snapshot v1 names"),
            nonces: derive("herm snapshot v1 nonces"),
            heads: derive("herm snapshot v1 heads"),
            secret: Zeroizing::new(secret),
        }
    }

    pub(super) fn generate(random: &dyn Random) -> Result<Self> {
        let mut secret = [0; 32];
        random.fill(&mut secret)?;
        Ok(Self::from_bytes(secret))
    }

    fn id(&self) -> String {
        let mut id = Digest::from(blake3::derive_key("herm snapshot v1 data key id", &*self.secret)).to_string();
        id.truncate(16);
        id
    }

    pub(super) fn content_key(&self) -> &Key {
        &self.content
    }

    /// The name of the object with this digest.
    pub(super) fn name(&self, digest: &Digest) -> Digest {
        blake3::keyed_hash(&self.names, digest.bytes()).into()
    }

    /// What shows that someone with this key wrote a head.
    pub(super) fn seal_of(&self, head: &[u8]) -> Digest {
        blake3::keyed_hash(&self.heads, head).into()
    }

    /// The nonce of one message: the same message has the same, and no other has it.
    pub(super) fn nonce(&self, aad: &[u8], message: &[u8]) -> [u8; 24] {
        let mut hasher = blake3::Hasher::new_keyed(&self.nonces);
        hasher.update(&(aad.len() as u64).to_le_bytes()).update(aad).update(message);
        let mut nonce = [0; 24];
        hasher.finalize_xof().fill(&mut nonce);
        nonce
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::ids::SystemRandom;

    #[test]
    fn a_wrapped_key_opens_for_its_operator_and_its_brain_alone() {
        let (mine, theirs) = (OperatorKey::from_bytes([1; 32]), OperatorKey::from_bytes([2; 32]));
        let (one, two): (BrainId, BrainId) = ("1".parse().unwrap(), "2".parse().unwrap());
        let key = DataKey::generate(&SystemRandom).unwrap();
        let wrapped = mine.wrap(&one, &key, &SystemRandom).unwrap();
        assert_eq!(mine.unwrap(&one, &wrapped).unwrap().id(), key.id());
        assert_eq!(mine.unwrap(&two, &wrapped).unwrap_err().kind(), ErrorKind::Corrupt);
        let error = theirs.unwrap(&one, &wrapped).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.message().contains(mine.id()) && error.message().contains(theirs.id()), "{error}");
        let mut forged = wrapped.clone();
        forged.wrapped_by = theirs.id().to_owned();
        assert_eq!(theirs.unwrap(&one, &forged).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    /// Gives the same byte for ever.
    #[derive(Debug)]
    struct Same(u8);

    impl Random for Same {
        fn fill(&self, bytes: &mut [u8]) -> Result<()> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    /// The vectors of `docs/reference/snapshot.md`, which another implementation computed.
    #[test]
    fn keys_names_nonces_and_seals_are_those_of_the_page() {
        let (operator, key) = (OperatorKey::from_bytes([1; 32]), DataKey::from_bytes([2; 32]));
        let wrapped = operator.wrap(&"7".parse().unwrap(), &key, &Same(3)).unwrap();
        assert_eq!((wrapped.key.as_str(), wrapped.wrapped_by.as_str()), ("0911e582bc8ac120", "accec24246cdc6e1"));
        assert_eq!(
            wrapped.wrapped,
            "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDZNh+EgAHl4jA8rrXX7zuwlxawlAKBvK1y70pst58hsV/S/3BvjqjJtAPxZX8NfhN"
        );
        assert_eq!(
            key.name(&Digest::from([0; 32])).to_string(),
            "9fdf6e87d17015f0f6ea9edac86c1f86f1ad24d65f3ecc126e1fe4935f71b823"
        );
        let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        let aad = [text("herm snapshot v1 chunk"), text("7"), Digest::of(b"rows").bytes().to_vec()].concat();
        let nonce = crate::ids::hex(&key.nonce(&aad, b"frame"));
        assert_eq!(nonce, "389738befe0254c68346377a4afbec9c8ab13a83982b713a");
        assert_eq!(key.seal_of(b"{}").to_string(), "7bf50b8ebefbd0fbd8f78f15e3d6edc7451e1a02273ddd8771337f8fb597b247");
    }

    #[test]
    fn a_key_file_reads_back_and_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys/snapshot.key");
        let made = OperatorKey::create(&path, &SystemRandom).unwrap();
        assert_eq!(OperatorKey::load(&path).unwrap().id(), made.id());
        assert_eq!(OperatorKey::create(&path, &SystemRandom).unwrap_err().kind(), ErrorKind::Conflict);
        assert!(!format!("{made:?}").contains(&STANDARD.encode(*made.secret)));
    }
}
