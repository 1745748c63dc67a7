//! The operator's key: an Ed25519 key in PKCS#8 PEM, as `openssl genpkey -algorithm ed25519` makes it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Result};
use crate::fsio;
use crate::ids::Random;

/// What stands before the 32 bytes of an Ed25519 key in PKCS#8 (RFC 8410).
const PKCS8_PREFIX: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";
/// The multicodec of an Ed25519 public key, before its 32 bytes in a `did:key`.
const MULTICODEC: [u8; 2] = [0xed, 0x01];
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// A key that signs. Nothing prints it, clones share it, and it is wiped when the last of them goes.
#[derive(Clone)]
pub struct Signer {
    /// In one place: a key that is moved about leaves copies behind.
    key: Arc<SigningKey>,
    public: PublicKey,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public)
    }
}

impl Signer {
    /// The key of 32 secret bytes.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self::from_secret(&Zeroizing::new(seed))
    }

    fn from_secret(seed: &[u8; 32]) -> Self {
        let key = put(seed);
        wipe_stack();
        let public = PublicKey { key: key.verifying_key(), did: did_of(&key.verifying_key()) };
        Self { key, public }
    }

    /// A new key of 32 bytes that `random` gives. It is kept nowhere.
    pub fn generate(random: &dyn Random) -> Result<Self> {
        let mut seed = Zeroizing::new([0; 32]);
        random.fill(&mut *seed)?;
        Ok(Self::from_secret(&seed))
    }

    /// The key in a file; made on first use, readable by its owner alone.
    pub fn load_or_create(path: &Path, random: &dyn Random) -> Result<Self> {
        match Self::load(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let signer = Self::generate(random)?;
        match fsio::create_private(path, signer.to_pem().as_bytes()) {
            // Someone else made it at the same moment: theirs is the key.
            Err(error) if error.kind() == ErrorKind::Conflict => Self::load(path),
            created => created.map(|()| signer),
        }
    }

    /// The key in a file that must be there.
    pub fn load(path: &Path) -> Result<Self> {
        let text = Zeroizing::new(fsio::read_private(path)?);
        Self::from_pem(&text).ok_or_else(|| {
            Error::invalid(format!("{} is not an Ed25519 key in PKCS#8 PEM", path.display()))
                .hint("make one with `openssl genpkey -algorithm ed25519`, or remove the file and herm makes one")
        })
    }

    fn from_pem(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once(PEM_BEGIN)?;
        let (body, _) = rest.split_once(PEM_END)?;
        let body: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
        let der = Zeroizing::new(STANDARD.decode(&*body).ok()?);
        let seed: &[u8; 32] = der.strip_prefix(&PKCS8_PREFIX)?.try_into().ok()?;
        Some(Self::from_secret(seed))
    }

    fn to_pem(&self) -> Zeroizing<String> {
        let der = Zeroizing::new([PKCS8_PREFIX.as_slice(), self.key.as_bytes()].concat());
        let body = Zeroizing::new(STANDARD.encode(&*der));
        Zeroizing::new(format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", *body))
    }

    /// The half of the key that others check signatures with.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }
}

#[inline(never)]
fn put(seed: &[u8; 32]) -> Arc<SigningKey> {
    Arc::new(SigningKey::from_bytes(seed))
}

/// A key on its way to its place leaves copies on the stack below.
#[inline(never)]
fn wipe_stack() {
    drop(Zeroizing::new([0_u8; 8_192]));
}

/// A key that is read, or made, when the first step is signed: looking at a brain needs none.
pub struct LazySigner {
    path: PathBuf,
    random: Arc<dyn Random>,
    signer: OnceLock<Signer>,
}

impl fmt::Debug for LazySigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignerOnUse({})", self.path.display())
    }
}

impl LazySigner {
    /// The key in this file.
    pub fn new(path: PathBuf, random: Arc<dyn Random>) -> Self {
        Self { path, random, signer: OnceLock::new() }
    }

    /// The key, if there is one already.
    pub fn existing(&self) -> Result<Signer> {
        Signer::load(&self.path)
    }

    /// The key, read from the file or made there on the first call.
    pub fn get(&self) -> Result<&Signer> {
        if self.signer.get().is_none() {
            let signer = Signer::load_or_create(&self.path, &*self.random)?;
            // The first thread to set it wins: it is the same key for all.
            let _ = self.signer.set(signer);
        }
        self.signer.get().ok_or_else(|| Error::internal("the signing key is not there"))
    }
}

/// A key that checks, written as a `did:key`.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
    did: String,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.did)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.did)
    }
}

impl std::str::FromStr for PublicKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(format!("{text:?} is not the did:key of an Ed25519 key"))
                .hint("it looks like did:key:z6Mk…; `herm receipts key` prints this operator's")
        };
        let encoded = text.trim().strip_prefix("did:key:z").ok_or_else(bad)?;
        let bytes = from_base58(encoded).ok_or_else(bad)?;
        let raw: [u8; 32] = bytes.strip_prefix(&MULTICODEC).and_then(|raw| raw.try_into().ok()).ok_or_else(bad)?;
        let key = VerifyingKey::from_bytes(&raw).map_err(|_| bad())?;
        Ok(Self { did: did_of(&key), key })
    }
}

impl PublicKey {
    /// Whether `signature` is this key's over `message`.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        // Strict: no small-order keys, no malleable signatures.
        Signature::from_slice(signature).is_ok_and(|signature| self.key.verify_strict(message, &signature).is_ok())
    }
}

fn did_of(key: &VerifyingKey) -> String {
    format!("did:key:z{}", to_base58(&[MULTICODEC.as_slice(), key.as_bytes()].concat()))
}

fn to_base58(bytes: &[u8]) -> String {
    // Digits of the number the bytes are, least significant first.
    let mut digits: Vec<u8> = Vec::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let text = std::iter::repeat_n(&0, zeros).chain(digits.iter().rev());
    text.filter_map(|digit| BASE58.get(usize::from(*digit)).map(|c| char::from(*c))).collect()
}

fn from_base58(text: &str) -> Option<Vec<u8>> {
    // A did:key is short; longer text is nothing of ours and would take quadratic time.
    if text.len() > 128 {
        return None;
    }
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    for c in text.bytes() {
        let mut carry = BASE58.iter().position(|digit| *digit == c)? as u32;
        for byte in &mut bytes {
            carry += u32::from(*byte) * 58;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        while carry > 0 {
            bytes.push((carry & 0xff) as u8);
            carry >>= 8;
        }
    }
    bytes.extend(std::iter::repeat_n(0, text.bytes().take_while(|c| *c == b'1').count()));
    bytes.reverse();
    Some(bytes)
}

#[cfg(test)]
mod wiped;

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vector of the did:key specification's Ed25519 section with a known seed.
    #[test]
    fn a_did_key_reads_back_as_itself() {
        let signer = Signer::from_seed([7; 32]);
        let did = signer.public().to_string();
        assert!(did.starts_with("did:key:z6Mk"), "{did}");
        assert_eq!(did.parse::<PublicKey>().unwrap(), *signer.public());
        assert!(format!("{:?}", signer).contains("did:key"));
    }

    #[test]
    fn a_known_did_key_has_the_known_bytes() {
        // From the did:key specification.
        let key: PublicKey = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".parse().unwrap();
        assert_eq!(
            crate::ids::hex(key.key.as_bytes()),
            "2e6fcce36701dc791488e0d0b1745cc1e33a4c1c9fcc41c63bd343dbbe0970e6"
        );
    }

    #[test]
    fn base58_keeps_leading_zeros() {
        for bytes in [&[][..], &[0, 0, 1], &[255; 34], &[0; 5]] {
            assert_eq!(from_base58(&to_base58(bytes)).unwrap(), bytes);
        }
        assert_eq!(from_base58("0OIl"), None);
    }

    #[test]
    fn a_pem_reads_back_and_anything_else_is_none() {
        let signer = Signer::from_seed([9; 32]);
        assert_eq!(Signer::from_pem(&signer.to_pem()).unwrap().public(), signer.public());
        for bad in ["", PEM_BEGIN, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(Signer::from_pem(bad).is_none());
        }
    }
}
