//! Whose receipts vouch for what the journal keeps.

use super::open::{Brain, BrainOptions};
use super::step_signer::StepSigner;
use crate::error::Result;
use crate::signing::{Envelope, PublicKey};

/// Whose receipts vouch for a journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReceiptKeys {
    /// Any key: only what contradicts itself is noticed. For a look without a key at hand.
    #[default]
    Any,
    /// Only these keys: a receipt that another key signed does not count.
    Only(Vec<PublicKey>),
}

impl ReceiptKeys {
    fn of(signer: Option<&dyn StepSigner>, others: &[PublicKey]) -> Result<Self> {
        let own = signer.map(StepSigner::public_key).transpose()?.flatten();
        let keys: Vec<PublicKey> = own.into_iter().chain(others.iter().cloned()).collect();
        Ok(if keys.is_empty() { Self::Any } else { Self::Only(keys) })
    }

    /// The signed bytes of an envelope, or why its signature does not count.
    pub(super) fn open(&self, envelope: &str) -> std::result::Result<Vec<u8>, String> {
        let say = |error: crate::error::Error| error.message().to_owned();
        let envelope = Envelope::parse(envelope).map_err(say)?;
        let keyid = envelope.keyid().ok_or("it has no signature")?;
        let key = match self {
            Self::Any => keyid.parse().map_err(say)?,
            Self::Only(keys) => keys
                .iter()
                .find(|key| key.to_string() == keyid)
                .cloned()
                .ok_or_else(|| format!("it is signed by {keyid}, which is not a trusted key"))?,
        };
        envelope.open(&key).map_err(say)
    }
}

impl BrainOptions {
    /// Whose receipts vouch for a brain that is opened like this: those of its signer and of the keys that it trusts.
    pub fn receipt_keys(&self) -> Result<ReceiptKeys> {
        ReceiptKeys::of(self.signer.as_deref(), &self.trusted)
    }
}

impl Brain {
    pub(super) fn receipt_keys(&self) -> Result<ReceiptKeys> {
        ReceiptKeys::of(self.signer.as_deref(), &self.trusted)
    }
}
