//! Stores beyond this machine, through the crate `object_store`: S3-compatible, GCS, Azure, HTTP.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, ObjectStoreScheme, PutMode, PutOptions};

use super::memory::too_large;
use super::{CreateOutcome, ObjectName, Store, StoredObject};
use crate::error::{Error, Result};
use herm_http::install_crypto;

/// What is asked of a store when an object is to be written only if none is there.
const CREATE: &str = "create";

/// The stores of this build, by the names of their features.
const BUILT_IN: &[&str] = &[
    #[cfg(feature = "s3")]
    "s3",
    #[cfg(feature = "gcs")]
    "gcs",
    #[cfg(feature = "azure")]
    "azure",
    #[cfg(feature = "webdav")]
    "webdav",
];

/// The feature that a kind of store is behind.
fn feature(scheme: &ObjectStoreScheme) -> Option<&'static str> {
    match scheme {
        ObjectStoreScheme::AmazonS3 => Some("s3"),
        ObjectStoreScheme::GoogleCloudStorage => Some("gcs"),
        ObjectStoreScheme::MicrosoftAzure => Some("azure"),
        ObjectStoreScheme::Http => Some("webdav"),
        _ => None,
    }
}

/// A store that is reached by an address, such as `s3://bucket/prefix`.
#[derive(Debug, Clone)]
pub struct CloudStore {
    inner: Arc<dyn ObjectStore>,
    prefix: Path,
    address: String,
}

impl CloudStore {
    /// The store at an address. `options` are those of the service (`aws_access_key_id`, `aws_endpoint`,
    /// `google_service_account`, `azure_storage_account_key`, …); what is not given is the service's
    /// default, and nothing is read from the environment.
    pub fn open(address: &str, options: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let bad = |what: String| {
            Error::invalid(format!("{address:?} is no store: {what}"))
                .hint("use s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or https://host/prefix")
        };
        let url = reqwest::Url::parse(address).map_err(|source| bad(source.to_string()))?;
        let (scheme, _) = ObjectStoreScheme::parse(&url).map_err(|source| bad(source.to_string()))?;
        let feature = feature(&scheme).ok_or_else(|| bad("it names no service that herm knows".to_owned()))?;
        if !BUILT_IN.contains(&feature) {
            return Err(Error::refused(format!("this herm was built without the store that {address} needs"))
                .hint(format!("build it with `--features {feature}`, or with `cloud` for all stores")));
        }
        // The client has its own retries; a write that was tried twice is told apart by its nonce.
        install_crypto();
        let (inner, prefix) = object_store::parse_url_opts(&url, options).map_err(|source| bad(source.to_string()))?;
        Ok(Self { inner: Arc::from(inner), prefix, address: address.trim_end_matches('/').to_owned() })
    }

    fn path(&self, name: &ObjectName) -> Path {
        let mut path = self.prefix.clone();
        path.extend(Path::from(name.as_str()).parts());
        path
    }

    fn name(&self, path: &Path) -> Option<ObjectName> {
        let parts: Vec<String> = path.prefix_match(&self.prefix)?.map(|part| part.as_ref().to_owned()).collect();
        ObjectName::new(parts.join("/")).ok()
    }

    fn failed(&self, doing: &str, name: &ObjectName, source: object_store::Error) -> Error {
        use object_store::Error as Cause;
        let error = match &source {
            Cause::PermissionDenied { .. } | Cause::Unauthenticated { .. } => {
                Error::refused(format!("{} does not let herm {doing} {name}", self.address))
                    .hint("check the credentials in the configuration and what they are allowed to do")
            }
            Cause::NotImplemented { .. } if doing == CREATE => Error::refused(format!(
                "{} cannot keep snapshots: herm cannot write an object only if none is there with this kind of store",
                self.address
            ))
            .hint("what it has can be restored from there; push to S3, GCS, Azure or a directory"),
            Cause::NotImplemented { .. } | Cause::NotSupported { .. } => {
                Error::refused(format!("{} cannot {doing} {name} as herm needs it", self.address))
                    .hint("use another store")
            }
            _ => Error::unavailable(format!("cannot {doing} {name} in {}", self.address))
                .hint("check that the store can be reached, and try again"),
        };
        error.because(source)
    }
}

#[async_trait]
impl Store for CloudStore {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        let failed = |source| self.failed("get", name, source);
        let found = match self.inner.get(&self.path(name)).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(failed)?,
        };
        let expected = found.meta.size;
        if expected > max {
            return Err(too_large(name, max));
        }
        let mut content = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
        let mut pieces = found.into_stream();
        while let Some(piece) = pieces.next().await {
            content.extend_from_slice(&piece.map_err(failed)?);
            if content.len() as u64 > max {
                return Err(too_large(name, max));
            }
        }
        if content.len() as u64 != expected {
            return Err(Error::unavailable(format!(
                "{name} came with {} of its {expected} bytes from {}",
                content.len(),
                self.address
            ))
            .hint("try again"));
        }
        Ok(Some(content))
    }

    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()> {
        let put = self.inner.put(&self.path(name), content.into()).await;
        put.map(|_| ()).map_err(|source| self.failed("put", name, source))
    }

    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome> {
        let only_new = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.inner.put_opts(&self.path(name), content.into(), only_new).await {
            Ok(_) => Ok(CreateOutcome::Yes),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(CreateOutcome::Taken)
            }
            Err(source) => Err(self.failed(CREATE, name, source)),
        }
    }

    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>> {
        let below = self.path(prefix);
        let listing = match after {
            Some(after) => self.inner.list_with_offset(Some(&below), &self.path(after)),
            None => self.inner.list(Some(&below)),
        };
        let found: Vec<_> = listing.try_collect().await.map_err(|source| self.failed("list", prefix, source))?;
        let named =
            found.iter().filter_map(|meta| Some(StoredObject { name: self.name(&meta.location)?, bytes: meta.size }));
        let mut listed: Vec<StoredObject> = named.collect();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    async fn remove(&self, name: &ObjectName) -> Result<()> {
        match self.inner.delete(&self.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(self.failed("remove", name, source)),
        }
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        self.address.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_was_not_built_in_is_named_with_its_feature() {
        let of_each = [
            ("s3", "s3://bucket/prefix"),
            ("gcs", "gs://bucket/prefix"),
            ("azure", "az://container/prefix"),
            ("webdav", "https://host.example/prefix"),
        ];
        for (feature, address) in of_each {
            let refused = CloudStore::open(address, []).err().filter(|error| error.message().contains("built without"));
            assert_eq!(refused.is_none(), BUILT_IN.contains(&feature), "{address}");
            if let Some(error) = refused {
                assert!(error.hint_text().is_some_and(|hint| hint.contains(feature)), "{error:?}");
            }
        }
    }
}
