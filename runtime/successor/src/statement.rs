//! What a successor signs: an in-toto statement around a verdict or an audit, by the key that the reader expects. What
//! gates exchange names its own key instead, and is a [`Signed`](crate::gate::signed::Signed).

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::ids::sha256;
use crate::receipt::{Envelope, PublicKey, STATEMENT_TYPE, Signer};

/// A document that stands in a signed statement.
pub(crate) trait Stated: Serialize + DeserializeOwned {
    /// The type of the predicate: `urn:herm:…:1`.
    const TYPE: &'static str;
    /// The format that this build writes and reads.
    const SCHEMA: &'static str;
    /// What it is, with its article: `an audit`.
    const WHAT: &'static str;
    /// What someone does who gave another envelope.
    const HINT: &'static str;

    /// The format it has.
    fn schema(&self) -> &str;

    /// What the statement is about.
    fn subjects(&self) -> Value;
}

/// A subject by its `sha256:…`.
pub(crate) fn subject(name: &str, hash: &str) -> Value {
    json!({ "name": name, "digest": { "sha256": hash.strip_prefix("sha256:").unwrap_or(hash) } })
}

/// The hash that names a document: SHA-256 of the statement that is signed.
pub(crate) fn hash<T: Stated>(said: &T) -> Result<String> {
    Ok(format!("sha256:{}", sha256(&payload(said)?)))
}

/// The document in an envelope of `signer`.
pub(crate) fn seal<T: Stated>(said: &T, signer: &Signer) -> Result<Envelope> {
    Ok(Envelope::seal(&payload(said)?, signer))
}

/// The document in an envelope that `key` signed.
pub(crate) fn open<T: Stated>(envelope: &Envelope, key: &PublicKey) -> Result<T> {
    let name = T::WHAT.split_once(' ').map_or(T::WHAT, |(_, name)| name);
    let payload = envelope.open(key)?;
    let statement: Value = serde_json::from_slice(&payload)
        .map_err(|source| Error::invalid(format!("the {name} is not JSON: {source}")))?;
    if statement["predicateType"] != T::TYPE {
        return Err(Error::invalid(format!("the envelope holds something else than {}", T::WHAT)).hint(T::HINT));
    }
    let said: T = serde_json::from_value(statement["predicate"].clone())
        .map_err(|source| Error::invalid(format!("that is not {}: {source}", T::WHAT)))?;
    if said.schema() != T::SCHEMA {
        return Err(Error::invalid(format!("the {name} has the format {:?}", said.schema())));
    }
    Ok(said)
}

fn payload<T: Stated>(said: &T) -> Result<Vec<u8>> {
    let statement = json!({
        "_type": STATEMENT_TYPE,
        "subject": said.subjects(),
        "predicateType": T::TYPE,
        "predicate": said,
    });
    serde_json::to_vec(&statement)
        .map_err(|source| Error::internal(format!("{} cannot be written", T::WHAT)).because(source))
}
