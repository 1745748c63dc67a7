//! Walrus: blobs on a decentralised store, over the HTTP of a publisher and an aggregator.
//!
//! Walrus names blobs itself and keeps them for a number of epochs; it has no names of ours, no listing
//! and no creating only once. So a [`WalrusStore`] has an *index*, another store: chunks and manifests go
//! to Walrus, and under their names the index keeps small references to them. Heads, keys and leases are
//! small and stay in the index as they are. Blobs are public: encrypt.
//!
//! The wire is that of `/v1/blobs`. References are in `docs/reference/snapshot.md`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::catalog::is_catalog;
use super::super::http::{self, Answer, Http};
use super::{CreateOutcome, ObjectName, Store, StoredObject};
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::Digest;
use crate::text;

const REFERENCE_SCHEMA: &str = "herm/walrus@1";
const MAX_REFERENCE: u64 = 4 << 10;
const MAX_ANSWER: u64 = 64 << 10;
/// What an aggregator does not have yet, it often has a moment later.
const READS: u32 = 6;
const WRITES: u32 = 4;
const DAY: i64 = 86_400_000;

/// How Walrus is reached and for how long blobs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalrusSettings {
    /// Where blobs are put; tried in order.
    pub publishers: Vec<String>,
    /// Where they are read; tried in order.
    pub aggregators: Vec<String>,
    /// For how many epochs they are kept.
    pub epochs: u32,
    /// How many days an epoch has: 14 on the main network, 1 on the test network.
    pub epoch_days: u32,
    /// The first pause between two tries.
    pub pause: Duration,
}

impl WalrusSettings {
    /// Blobs are kept for 26 epochs of 14 days, a year, and renewed when half of it is over.
    pub fn new(publishers: Vec<String>, aggregators: Vec<String>) -> Self {
        Self { publishers, aggregators, epochs: 26, epoch_days: 14, pause: Duration::from_millis(250) }
    }
}

/// A store whose large objects are on Walrus.
#[derive(Debug)]
pub struct WalrusStore {
    http: Http,
    publishers: Vec<Url>,
    aggregators: Vec<Url>,
    settings: WalrusSettings,
    index: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

/// What the index keeps of a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reference {
    schema: String,
    blob_id: String,
    bytes: u64,
    blake3: Digest,
    /// The epoch it is kept until, as the publisher said.
    end_epoch: Option<u64>,
    /// From then on it is put again, so that it does not run out.
    renew_after: Timestamp,
}

impl WalrusStore {
    /// Walrus with an index of names. Nothing is reached yet.
    pub fn open(settings: WalrusSettings, index: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Result<Self> {
        if settings.epochs == 0 || settings.epoch_days == 0 {
            return Err(Error::invalid("blobs on Walrus must be kept for at least one epoch of one day")
                .hint("leave epochs out for a year"));
        }
        let addresses = |texts: &[String]| texts.iter().map(|text| http::address(text)).collect::<Result<Vec<_>>>();
        let (publishers, aggregators) = (addresses(&settings.publishers)?, addresses(&settings.aggregators)?);
        if publishers.is_empty() || aggregators.is_empty() {
            return Err(Error::invalid("Walrus needs a publisher and an aggregator")
                .hint("there is no public publisher on the main network: run one, or use one that you pay"));
        }
        Ok(Self { http: Http::new()?, publishers, aggregators, settings, index, clock })
    }

    async fn upload(&self, content: &[u8]) -> Result<Reference> {
        // Deletable is the network's default; a snapshot is not to go before its time.
        let path = format!("v1/blobs?epochs={}&permanent=true", self.settings.epochs);
        let octets = "application/octet-stream";
        let later = |answer: &Answer| matches!(answer.status, 429 | 500..=599);
        let answer = self
            .tried(WRITES, &self.publishers, &path, later, |url| {
                self.http.send(Method::PUT, url, Some((octets, content.to_vec())), MAX_ANSWER)
            })
            .await?;
        match answer.status {
            200..=299 => {}
            413 => {
                return Err(Error::refused(format!("the publisher takes no blob of {} bytes", content.len()))
                    .hint("use a publisher with a higher limit; public ones take 10 MiB"));
            }
            status @ (429 | 500..=599) => {
                return Err(Error::unavailable(format!("the publisher answers {status}: {}", answer.said()))
                    .hint("try again later"));
            }
            status => {
                return Err(Error::refused(format!("the publisher answers {status}: {}", answer.said()))
                    .hint("see that the publisher may be used by you, and has funds"));
            }
        }
        let (blob_id, end_epoch) = stored(&answer.body).ok_or_else(|| {
            Error::corrupt(format!("the publisher does not say which blob it stored: {}", answer.said()))
                .hint("see that the address is a Walrus publisher")
        })?;
        let half = i64::from(self.settings.epochs) * i64::from(self.settings.epoch_days) * DAY / 2;
        Ok(Reference {
            schema: REFERENCE_SCHEMA.to_owned(),
            blob_id,
            bytes: content.len() as u64,
            blake3: Digest::of(content),
            end_epoch,
            renew_after: Timestamp(self.clock.now().millis().saturating_add(half)),
        })
    }

    async fn blob(&self, blob: &str, max: u64) -> Result<Answer> {
        let path = format!("v1/blobs/{blob}");
        let later = |answer: &Answer| matches!(answer.status, 404 | 429 | 451 | 500..=599);
        self.tried(READS, &self.aggregators, &path, later, |url| self.http.send(Method::GET, url, None, max)).await
    }

    async fn download(&self, name: &ObjectName, reference: &Reference) -> Result<Vec<u8>> {
        let answer = self.blob(&reference.blob_id, reference.bytes).await?;
        let gone = |what: &str| {
            let hint =
                "put it back from another store, or restore an earlier version with `herm restore ID --version N`";
            Error::corrupt(format!("{name}, blob {} of Walrus, {what}", reference.blob_id)).hint(hint)
        };
        match answer.status {
            200..=299 if Digest::of(&answer.body) == reference.blake3 => Ok(answer.body),
            200..=299 => Err(gone("is not what was put there")),
            404 => Err(gone("is not there: it may have run out")),
            451 => {
                Err(Error::refused(format!("the aggregator may not give out {name}")).hint("ask another aggregator"))
            }
            status => Err(Error::unavailable(format!("the aggregator answers {status}: {}", answer.said()))
                .hint("try again later")),
        }
    }

    /// Asks one server after the other, round after round, until the answer is not one that another server, or a
    /// later try, may change.
    async fn tried<F>(
        &self,
        rounds: u32,
        servers: &[Url],
        path: &str,
        later: impl Fn(&Answer) -> bool,
        send: impl Fn(Url) -> F,
    ) -> Result<Answer>
    where
        F: Future<Output = Result<Answer>>,
    {
        let mut pause = self.settings.pause;
        let mut last = Err(Error::internal("nobody was asked"));
        for round in 0..rounds {
            if round > 0 {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            for server in servers {
                let answered = send(at(server, path)?).await;
                match &answered {
                    Ok(answer) if !later(answer) => return answered,
                    Err(error) if error.kind() != ErrorKind::Unavailable => return answered,
                    // One that cannot be reached says less than one that answers.
                    Err(_) if last.is_ok() => {}
                    _ => last = answered,
                }
            }
        }
        last
    }

    /// Puts a blob again that is about to run out; whether it was.
    async fn renew_one(&self, name: &ObjectName) -> Result<bool> {
        if !is_blob(name) {
            return Ok(false);
        }
        let Some(reference) = self.reference(name).await? else { return Ok(false) };
        if reference.renew_after > self.clock.now() {
            return Ok(false);
        }
        let content = self.download(name, &reference).await?;
        let again = self.upload(&content).await?;
        self.index.put(name, to_bytes(&again)?).await.map(|()| true)
    }

    async fn reference(&self, name: &ObjectName) -> Result<Option<Reference>> {
        let Some(bytes) = self.index.get(name, MAX_REFERENCE).await? else { return Ok(None) };
        let broken = || {
            Error::corrupt(format!("{name} in {} is no reference to a blob", self.index.describe()))
                .hint("put it back from a copy of the index")
        };
        let reference: Reference = serde_json::from_slice(&bytes).map_err(|source| broken().because(source))?;
        let fits = reference.schema == REFERENCE_SCHEMA && is_blob_id(&reference.blob_id);
        if fits { Ok(Some(reference)) } else { Err(broken()) }
    }
}

/// What an address of Walrus begins with.
const ADDRESS: &str = "walrus:";

fn is_blob_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=100).contains(&text.len()) && text.bytes().all(plain)
}

/// Whether an object goes to Walrus: what is large and named by its content.
fn is_blob(name: &ObjectName) -> bool {
    let kind = name.as_str().split('/').nth(2);
    matches!(kind, Some("chunk" | "manifest")) || is_catalog(name)
}

fn at(base: &Url, path: &str) -> Result<Url> {
    let text = format!("{}/{path}", base.as_str().trim_end_matches('/'));
    Url::parse(&text).map_err(|source| Error::internal("an address cannot be made").because(source))
}

/// The blob and the epoch it is kept until, from a publisher's answer. Field names are as on the wire.
fn stored(body: &[u8]) -> Option<(String, Option<u64>)> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let new = &answer["newlyCreated"]["blobObject"];
    let (blob, end) = match new.is_object() {
        true => (&new["blobId"], &new["storage"]["endEpoch"]),
        false => (&answer["alreadyCertified"]["blobId"], &answer["alreadyCertified"]["endEpoch"]),
    };
    let blob = blob.as_str().filter(|blob| !blob.is_empty())?;
    Some((text::head(blob, 100), end.as_u64()))
}

fn to_bytes(reference: &Reference) -> Result<Vec<u8>> {
    serde_json::to_vec(reference).map_err(|source| Error::internal("a reference cannot be written").because(source))
}

#[async_trait]
impl Store for WalrusStore {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        if !is_blob(name) {
            return self.index.get(name, max).await;
        }
        let Some(reference) = self.reference(name).await? else { return Ok(None) };
        if reference.bytes > max {
            return Err(super::memory::too_large(name, max));
        }
        self.download(name, &reference).await.map(Some)
    }

    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()> {
        if !is_blob(name) {
            return self.index.put(name, content).await;
        }
        let known = self.reference(name).await.ok().flatten();
        let stays = |known: &Reference| known.blake3 == Digest::of(&content) && known.renew_after > self.clock.now();
        if known.as_ref().is_some_and(stays) {
            return Ok(());
        }
        let reference = self.upload(&content).await?;
        self.index.put(name, to_bytes(&reference)?).await
    }

    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome> {
        if !is_blob(name) {
            return self.index.create(name, content).await;
        }
        let reference = self.upload(&content).await?;
        self.index.create(name, to_bytes(&reference)?).await
    }

    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>> {
        self.index.list(prefix, after).await
    }

    async fn remove(&self, name: &ObjectName) -> Result<()> {
        // The blob itself runs out by its epochs; nobody finds it any more.
        self.index.remove(name).await
    }

    async fn sync(&self) -> Result<()> {
        self.index.sync().await
    }

    async fn renew(&self, below: &ObjectName) -> Result<u64> {
        let (mut renewed, mut failed) = (0, None);
        for object in self.index.list(below, None).await? {
            // One that is gone must not keep the others from being renewed.
            match self.renew_one(&object.name).await {
                Ok(done) => renewed += u64::from(done),
                Err(error) => {
                    tracing::warn!(object = %object.name, %error, "not renewed");
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(renewed), Err)
    }

    fn index(&self) -> Option<&dyn Store> {
        Some(&*self.index)
    }

    async fn address(&self, name: &ObjectName) -> Result<Option<String>> {
        let reference = if is_blob(name) { self.reference(name).await? } else { None };
        Ok(reference.map(|reference| format!("{ADDRESS}{}", reference.blob_id)))
    }

    async fn at_address(&self, address: &str, max: u64) -> Result<Vec<u8>> {
        let Some(blob) = address.strip_prefix(ADDRESS).filter(|blob| is_blob_id(blob)) else {
            return Err(Error::corrupt(format!("{:?} is no blob of Walrus", text::line(address, 120)))
                .hint("look at the record of the pointer"));
        };
        let answer = self.blob(blob, max).await?;
        match answer.status {
            200..=299 => Ok(answer.body),
            404 => Err(Error::corrupt(format!("blob {blob} of Walrus is not there: it may have run out"))
                .hint("write the record anew with `herm snapshot pointer ID` where the index still is")),
            status => Err(Error::unavailable(format!("the aggregator answers {status}: {}", answer.said()))
                .hint("try again later")),
        }
    }

    fn describe(&self) -> String {
        format!("Walrus, with its index in {}", self.index.describe())
    }
}
