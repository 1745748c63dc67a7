//! A DSSE envelope: bytes, what they are, and signatures over both.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::key::{PublicKey, Signer};
use crate::error::{Error, Result};

/// What every payload of ours is.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A DSSE envelope: a payload, its type and the signatures over both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<Signed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    keyid: String,
    sig: String,
}

impl Envelope {
    /// Signs a payload of the type [`PAYLOAD_TYPE`] with one key.
    pub fn seal(payload: &[u8], signer: &Signer) -> Self {
        let signature = signer.sign(&pre_authentication(PAYLOAD_TYPE, payload));
        Self {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: STANDARD.encode(payload),
            signatures: vec![Signed { keyid: signer.public().to_string(), sig: STANDARD.encode(signature) }],
        }
    }

    /// Reads one line of a receipt log.
    pub fn parse(line: &str) -> Result<Self> {
        serde_json::from_str(line).map_err(|source| {
            Error::invalid(format!("that is not a DSSE envelope: {source}"))
                .hint("a receipt is one line of JSON with payloadType, payload and signatures")
        })
    }

    /// The line of a receipt log, without the line break.
    pub fn to_line(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|source| Error::internal("an envelope cannot be written").because(source))
    }

    /// The payload's bytes, unchecked.
    pub fn payload(&self) -> Result<Vec<u8>> {
        STANDARD
            .decode(&self.payload)
            .map_err(|source| Error::invalid("the payload of an envelope is not base64").because(source))
    }

    /// The key that the envelope says signed it.
    pub fn keyid(&self) -> Option<&str> {
        self.signatures.first().map(|signed| signed.keyid.as_str())
    }

    /// Every key that the envelope says signed it.
    pub fn keyids(&self) -> impl Iterator<Item = &str> {
        self.signatures.iter().map(|signed| signed.keyid.as_str())
    }

    /// The payload, if `key` signed it.
    pub fn open(&self, key: &PublicKey) -> Result<Vec<u8>> {
        let payload = self.payload()?;
        if self.payload_type != PAYLOAD_TYPE {
            return Err(Error::invalid(format!("the envelope holds {:?}, not {PAYLOAD_TYPE}", self.payload_type)));
        }
        let message = pre_authentication(&self.payload_type, &payload);
        let good = self
            .signatures
            .iter()
            .any(|signed| STANDARD.decode(&signed.sig).is_ok_and(|signature| key.verifies(&message, &signature)));
        if good { Ok(payload) } else { Err(Error::refused(format!("the signature is not one of {key}"))) }
    }
}

/// What is signed: the type and the payload with their lengths, so that one cannot pass for the other.
fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pre_authentication_is_the_one_of_the_dsse_specification() {
        assert_eq!(
            pre_authentication("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    #[test]
    fn another_key_another_payload_or_another_type_does_not_open() {
        let signer = Signer::from_seed([1; 32]);
        let envelope = Envelope::seal(b"{}", &signer);
        assert_eq!(envelope.open(signer.public()).unwrap(), b"{}");
        assert!(envelope.open(Signer::from_seed([2; 32]).public()).is_err());
        let forged = Envelope { payload: STANDARD.encode(b"{ }"), ..envelope.clone() };
        assert!(forged.open(signer.public()).is_err());
        let forged = Envelope { payload_type: "text/plain".to_owned(), ..envelope };
        assert!(forged.open(signer.public()).is_err());
    }
}
