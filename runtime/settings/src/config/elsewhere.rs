//! `[snapshot.walrus]` and `[snapshot.ens]` of the configuration.

use std::sync::Arc;

use herm::snapshot::Store;
use herm::snapshot::pointer::{EnsPointer, EnsSettings};
use herm::snapshot::store::{WalrusSettings, WalrusStore};
use herm::{Error, Result, SystemClock};
use secrecy::ExposeSecret as _;

use super::SecretEntry;
use crate::backends::secret;

/// Walrus for the content of snapshots; the store keeps their names, heads and keys.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WalrusEntry {
    /// Where blobs are put, tried in order. There is no public publisher on the main network.
    pub publishers: Vec<String>,
    /// Where they are read, tried in order.
    pub aggregators: Vec<String>,
    /// For how many epochs they are kept; 26 unless said. They are renewed when half of it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// How many days an epoch has; 14 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch_days: Option<u32>,
}

impl WalrusEntry {
    /// Walrus with its index in a store.
    pub fn store(&self, index: Arc<dyn Store>) -> Result<Arc<dyn Store>> {
        let usual = WalrusSettings::new(self.publishers.clone(), self.aggregators.clone());
        let settings = WalrusSettings {
            epochs: self.epochs.unwrap_or(usual.epochs),
            epoch_days: self.epoch_days.unwrap_or(usual.epoch_days),
            ..usual
        };
        Ok(Arc::new(WalrusStore::open(settings, index, Arc::new(SystemClock))?))
    }
}

/// An ENS name whose text records say where the heads of brains are.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnsEntry {
    /// The name, such as agents.example.eth.
    pub name: String,
    /// The address of a node that answers eth_call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rpc: Option<String>,
    /// The same, where the address holds a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rpc_secret: Option<SecretEntry>,
    /// The registry, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// Hosts of gateways that may be asked for records off the chain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
}

impl EnsEntry {
    /// The pointer of these settings; an error unless exactly one of `rpc` and `rpc_secret` is given.
    pub fn pointer(&self) -> Result<EnsPointer> {
        let rpc = match (&self.rpc, &self.rpc_secret) {
            (Some(rpc), None) => rpc.clone(),
            (None, Some(entry)) => secret("rpc_secret", entry)?.expose_secret().to_owned(),
            _ => {
                return Err(Error::invalid("[snapshot.ens] needs either rpc or rpc_secret")
                    .hint("write rpc = \"https://…\", or rpc_secret = { env = \"NAME\" } where it holds a key"));
            }
        };
        EnsPointer::new(EnsSettings {
            rpc,
            name: self.name.clone(),
            registry: self.registry.clone(),
            gateways: self.gateways.clone(),
        })
    }
}
