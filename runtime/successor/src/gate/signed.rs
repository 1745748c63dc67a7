//! What someone says and signs: a DSSE envelope around an in-toto statement, by one Ed25519 key.
//!
//! A [`Signed`] is always good: its signature holds for the key it names, and its statement is about what it says.
//! Whether that key may say it is for the gate to decide.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::PatchBase;
use crate::error::{Error, Result};
use crate::ids::sha256;
use crate::receipt::{Envelope, PublicKey, STATEMENT_TYPE, Signer};

/// Something that can be said in a statement.
pub trait Predicate: Serialize + DeserializeOwned {
    /// The predicate's type: `urn:herm:…:1`.
    const TYPE: &'static str;
    /// What it is, in words: `an approval`.
    const WHAT: &'static str;

    /// What the statement is about.
    fn subjects(&self) -> Vec<StatementSubject>;

    /// The key that it says signs it, where it says so.
    fn author(&self) -> Option<&str> {
        None
    }

    /// Refuses a document that breaks a rule of its kind, whatever key signed it.
    fn validate(&self) -> Result<()> {
        Ok(())
    }
}

/// One thing a statement is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatementSubject {
    name: String,
    digest: BTreeMap<String, String>,
}

impl StatementSubject {
    /// A document by its `sha256:…`.
    pub(super) fn document(name: &str, hash: &str) -> Self {
        let digest = hash.strip_prefix("sha256:").unwrap_or(hash);
        Self { name: name.to_owned(), digest: BTreeMap::from([("sha256".to_owned(), digest.to_owned())]) }
    }

    /// A brain at a version.
    pub(super) fn brain(base: &PatchBase) -> Self {
        Self {
            name: format!("brain {} version {}", base.brain, base.version),
            digest: BTreeMap::from([("blake3".to_owned(), base.bundle_hash.to_string())]),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement<T> {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<StatementSubject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: T,
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "predicateType", default)]
    predicate_type: String,
}

/// What someone said, with their good signature.
#[derive(Clone, PartialEq)]
pub struct Signed<T> {
    said: T,
    key: PublicKey,
    hash: String,
    envelope: Envelope,
}

impl<T: fmt::Debug> fmt::Debug for Signed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} signed by {}", self.said, self.key)
    }
}

impl<T: Predicate> Signed<T> {
    /// Signs what is said.
    pub fn seal(said: T, signer: &Signer) -> Result<Self> {
        said.validate()?;
        check_author(&said, signer.public())?;
        let statement = Statement {
            kind: STATEMENT_TYPE.to_owned(),
            subject: said.subjects(),
            predicate_type: T::TYPE.to_owned(),
            predicate: said,
        };
        let payload = serde_json::to_vec(&statement)
            .map_err(|source| Error::internal(format!("{} cannot be written", T::WHAT)).because(source))?;
        let envelope = Envelope::seal(&payload, signer);
        Ok(Self { said: statement.predicate, key: signer.public().clone(), hash: hash_of(&payload), envelope })
    }

    /// Reads what someone signed. Anything that is not exactly what its one key signed is refused.
    pub fn open(envelope: Envelope) -> Result<Self> {
        let bad = |what: String| {
            Error::invalid(format!("that is not {}: {what}", T::WHAT))
                .hint("docs/operate/gates.md describes the documents")
        };
        let keys: Vec<&str> = envelope.keyids().take(2).collect();
        let [key] = keys[..] else {
            return Err(bad("it needs exactly one signature".to_owned()));
        };
        let named: PublicKey = key.parse()?;
        if named.to_string() != key {
            return Err(bad("its key is not written as a did:key is".to_owned()));
        }
        let payload = envelope.open(&named)?;
        let head: Head = serde_json::from_slice(&payload).map_err(|source| bad(source.to_string()))?;
        if head.predicate_type != T::TYPE {
            return Err(bad(format!("it holds {:?}, not {}", head.predicate_type, T::TYPE)));
        }
        let statement: Statement<T> = serde_json::from_slice(&payload).map_err(|source| bad(source.to_string()))?;
        if statement.kind != STATEMENT_TYPE {
            return Err(bad(format!("its statement is {:?}, not {STATEMENT_TYPE}", statement.kind)));
        }
        let said = statement.predicate;
        if statement.subject != said.subjects() {
            return Err(bad("its subjects are not those it speaks of".to_owned()));
        }
        said.validate()?;
        check_author(&said, &named)?;
        Ok(Self { said, key: named, hash: hash_of(&payload), envelope })
    }

    /// Reads one line of JSON.
    pub fn parse(line: &str) -> Result<Self> {
        Self::open(Envelope::parse(line)?)
    }

    /// The document that was signed.
    pub fn predicate(&self) -> &T {
        &self.said
    }

    /// Whose signature it is.
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// The hash that names it: `sha256:` and the SHA-256 of the statement.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The DSSE envelope with the signature.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// One line of JSON.
    pub fn to_line(&self) -> Result<String> {
        self.envelope.to_line()
    }
}

impl<T> Serialize for Signed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.envelope.serialize(serializer)
    }
}

impl<'de, T: Predicate> Deserialize<'de> for Signed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::open(Envelope::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn hash_of(payload: &[u8]) -> String {
    format!("sha256:{}", sha256(payload))
}

fn check_author<T: Predicate>(said: &T, key: &PublicKey) -> Result<()> {
    match said.author() {
        Some(author) if author != key.to_string() => {
            Err(Error::refused(format!("{} says it is signed by {author}, and is signed by {key}", T::WHAT))
                .hint("the maker of a document signs it with their own key"))
        }
        _ => Ok(()),
    }
}

/// The rule for hashes of documents: `sha256:` and 64 digits.
pub(super) fn check_hash(what: &str, hash: &str) -> Result<()> {
    let digits = hash.strip_prefix("sha256:").unwrap_or_default();
    if digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(());
    }
    let shown: String = hash.chars().take(80).collect();
    Err(Error::invalid(format!("{shown:?} is not the hash of {what}: it is sha256: and 64 digits of 0-9 a-f")))
}
