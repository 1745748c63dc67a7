//! A text record of an ENS name as a pointer, read over JSON-RPC. Writing it costs money and a key that
//! herm does not have: [`EnsPointer::record`] says what the operator must write.
//!
//! Name → node → resolver (also a wildcard one of a parent, ENSIP-10) → `text(node, key)`. A resolver that
//! keeps its records off the chain (EIP-3668) is followed to gateways that the operator named, and to no
//! other: their addresses are anyone's text.

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::super::http::{self, Http};
use super::abi::{self, Argument};
use super::{HeadRef, Pointer, PointerRecord};
use crate::error::{Error, Result};
use crate::ids::BrainId;
use crate::text;

/// The registry, at the same address on every network.
const REGISTRY: &str = "0x00000000000c2e074ec69a0dfb2997ba6c7d2e1e";
const RESOLVER: [u8; 4] = [0x01, 0x78, 0xb8, 0xbf];
const TEXT: [u8; 4] = [0x59, 0xd1, 0xd4, 0x3c];
const SUPPORTS: [u8; 4] = [0x01, 0xff, 0xc9, 0xa7];
const RESOLVE: [u8; 4] = [0x90, 0x61, 0xb9, 0x23];
const OFFCHAIN: [u8; 4] = [0x55, 0x6f, 0x18, 0x30];
const MAX_ANSWER: u64 = 1 << 20;
/// How often a resolver may send us on.
const LOOKUPS: usize = 4;
const MAX_NAME: usize = 255;

/// How an ENS name is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsSettings {
    /// A node that answers `eth_call`. May hold a key of its provider.
    pub rpc: String,
    /// The name, such as `agents.example.eth`.
    pub name: String,
    /// The registry [default: that of all networks].
    pub registry: Option<String>,
    /// Hosts of gateways that may be asked for records off the chain.
    pub gateways: Vec<String>,
}

/// A pointer in a text record of an ENS name.
#[derive(Debug)]
pub struct EnsPointer {
    http: Http,
    rpc: Url,
    settings: EnsSettings,
}

/// The key of the text record of a brain.
pub fn record_key(brain: &BrainId) -> String {
    format!("org.herm.head.{brain}")
}

impl EnsPointer {
    /// The pointer of a name. Nothing is reached yet.
    pub fn new(settings: EnsSettings) -> Result<Self> {
        let label = |label: &str| {
            let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
            !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
        };
        let name = &settings.name;
        if name.len() > MAX_NAME || !name.contains('.') || !name.split('.').all(label) {
            return Err(Error::invalid(format!("{:?} is not an ENS name herm can read", text::line(name, 80)))
                .hint("use a name of a-z, 0-9, - and _, such as agents.example.eth, in its normalised form"));
        }
        let registry = settings.registry.as_deref().unwrap_or(REGISTRY);
        if abi::unhex(registry).is_none_or(|bytes| bytes.len() != 20) {
            return Err(Error::invalid(format!("{:?} is not an address of a registry", text::line(registry, 80)))
                .hint("leave it out for the usual one"));
        }
        let rpc = http::address(&settings.rpc)?;
        Ok(Self { http: Http::new()?, rpc, settings })
    }

    /// What the operator must write so that this pointer points to a head: the record's key and value.
    pub fn record(&self, brain: &BrainId, pointed: &HeadRef) -> (String, String) {
        (record_key(brain), pointed.to_string())
    }

    async fn text(&self, key: &str) -> Result<Option<String>> {
        let name = &self.settings.name;
        let Some((resolver, at)) = self.resolver(name).await? else { return Ok(None) };
        let call = abi::call(TEXT, &[Argument::Word(abi::namehash(name)), Argument::Bytes(key.as_bytes())]);
        let broken = || {
            Error::corrupt(format!("the resolver of {name} does not answer with a text"))
                .hint("look at the record in an ENS explorer")
        };
        let answer = match (self.is_extended(&resolver).await?, at == name) {
            (true, _) => {
                let wrapped = abi::call(RESOLVE, &[Argument::Bytes(&abi::dns_name(name)), Argument::Bytes(&call)]);
                let answer = self.call(&resolver, wrapped).await?;
                abi::bytes_at(&answer, 0, 0).ok_or_else(broken)?.to_vec()
            }
            (false, true) => self.call(&resolver, call).await?,
            // A resolver of a parent that does not know wildcards says nothing of us.
            (false, false) => return Ok(None),
        };
        let text = abi::bytes_at(&answer, 0, 0).ok_or_else(broken)?;
        let text = std::str::from_utf8(text).map_err(|_| broken())?;
        // A key that is not there is an empty text.
        Ok((!text.trim().is_empty()).then(|| text.to_owned()))
    }

    /// The resolver of a name, or of the nearest parent that has one, and whose it is.
    async fn resolver<'n>(&self, name: &'n str) -> Result<Option<(String, &'n str)>> {
        let registry = self.settings.registry.as_deref().unwrap_or(REGISTRY);
        let mut at = name;
        loop {
            let call = abi::call(RESOLVER, &[Argument::Word(abi::namehash(at))]);
            let answer = self.call(registry, call).await?;
            let word = abi::word_at(&answer, 0).ok_or_else(|| {
                Error::corrupt(format!("the ENS registry at {registry} does not answer with an address"))
                    .hint("see that the node is of the network that the name is on")
            })?;
            if let Some(resolver) = abi::address_in(word) {
                return Ok(Some((resolver, at)));
            }
            match at.split_once('.') {
                Some((_, parent)) => at = parent,
                None => return Ok(None),
            }
        }
    }

    async fn is_extended(&self, resolver: &str) -> Result<bool> {
        let mut interface = [0; 32];
        for (place, byte) in interface.iter_mut().zip(RESOLVE) {
            *place = byte;
        }
        let call = abi::call(SUPPORTS, &[Argument::Word(interface)]);
        match self.once(resolver, &call).await? {
            Called::Gave(answer) => Ok(abi::number_at(&answer, 0) == Some(1)),
            // An old resolver does not know the question.
            Called::Reverted(_) => Ok(false),
        }
    }

    /// Calls a contract, and follows it to gateways where it asks for that.
    async fn call(&self, to: &str, data: Vec<u8>) -> Result<Vec<u8>> {
        let (to, mut data) = (to.to_owned(), data);
        for _ in 0..=LOOKUPS {
            match self.once(&to, &data).await? {
                Called::Gave(answer) => return Ok(answer),
                Called::Reverted(why) => match Lookup::read(&why) {
                    Some(lookup) if lookup.sender.eq_ignore_ascii_case(&to) => {
                        let found = self.gateway(&lookup).await?;
                        let arguments = [Argument::Bytes(&found), Argument::Bytes(&lookup.extra)];
                        data = abi::call(lookup.callback, &arguments);
                    }
                    _ => {
                        return Err(Error::unavailable(format!("the contract {to} refuses the call"))
                            .hint("look at the name in an ENS explorer"));
                    }
                },
            }
        }
        Err(Error::refused(format!("the contract {to} sends us on and on")).hint("look at the name in an ENS explorer"))
    }

    async fn once(&self, to: &str, data: &[u8]) -> Result<Called> {
        let request = json!({
            "jsonrpc": "2.0", "id": 1, "method": "eth_call",
            "params": [{ "to": to, "data": format!("0x{}", crate::ids::hex(data)) }, "latest"],
        });
        let body = ("application/json", request.to_string().into_bytes());
        let answer = self.http.send(Method::POST, self.rpc.clone(), Some(body), MAX_ANSWER).await?;
        let host = self.rpc.host_str().unwrap_or_default();
        let value: Value = match serde_json::from_slice(&answer.body) {
            Ok(value) => value,
            Err(_) => {
                return Err(Error::unavailable(format!("{host} answers {}: {}", answer.status, answer.said()))
                    .hint("see that the address is an Ethereum node's"));
            }
        };
        if let Some(result) = value["result"].as_str().and_then(abi::unhex) {
            return Ok(Called::Gave(result));
        }
        let error = &value["error"];
        let data = error["data"].as_str().or_else(|| error["data"]["data"].as_str()).and_then(abi::unhex);
        let is_revert = error["code"] == 3 || error["message"].as_str().is_some_and(|said| said.contains("revert"));
        match (data, is_revert) {
            (Some(data), _) => Ok(Called::Reverted(data)),
            (None, true) => Ok(Called::Reverted(Vec::new())),
            (None, false) => {
                let said = text::line(error["message"].as_str().unwrap_or("no result"), 200);
                Err(Error::unavailable(format!("{host} does not make the call: {said}")).hint("try again later"))
            }
        }
    }

    /// Asks the gateways of a lookup, in their order (EIP-3668).
    async fn gateway(&self, lookup: &Lookup) -> Result<Vec<u8>> {
        let data = format!("0x{}", crate::ids::hex(&lookup.data));
        let mut last = None;
        for template in &lookup.urls {
            let text = template.replace("{sender}", &lookup.sender).replace("{data}", &data);
            let Ok(url) = http::address(&text) else { continue };
            let host = url.host_str().unwrap_or_default().to_owned();
            if !self.settings.gateways.iter().any(|allowed| allowed.eq_ignore_ascii_case(&host)) {
                last = Some(
                    Error::refused(format!("the record of {} is with the gateway {host}", self.settings.name))
                        .hint(format!("if you trust it, add {host:?} to the gateways of the ENS pointer")),
                );
                continue;
            }
            let body = json!({ "data": data, "sender": lookup.sender }).to_string().into_bytes();
            let answer = match template.contains("{data}") {
                true => self.http.send(Method::GET, url, None, MAX_ANSWER).await,
                false => self.http.send(Method::POST, url, Some(("application/json", body)), MAX_ANSWER).await,
            };
            match answer {
                Ok(answer) if answer.is_success() => {
                    let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                    if let Some(found) = value["data"].as_str().and_then(abi::unhex) {
                        return Ok(found);
                    }
                    last =
                        Some(Error::unavailable(format!("the gateway {host} gives no data")).hint("try again later"));
                }
                // Not ours to ask again: the request itself is wrong.
                Ok(answer) if (400..500).contains(&answer.status) => {
                    return Err(Error::unavailable(format!("the gateway {host} answers {}", answer.status))
                        .hint("try again later"));
                }
                Ok(answer) => {
                    let what = format!("the gateway {host} answers {}", answer.status);
                    last = Some(Error::unavailable(what).hint("try again later"));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            Error::unavailable(format!("the resolver of {} names no gateway", self.settings.name))
                .hint("look at the name in an ENS explorer")
        }))
    }
}

/// How a call ended.
enum Called {
    Gave(Vec<u8>),
    Reverted(Vec<u8>),
}

/// A resolver that keeps its records elsewhere.
struct Lookup {
    sender: String,
    urls: Vec<String>,
    data: Vec<u8>,
    callback: [u8; 4],
    extra: Vec<u8>,
}

impl Lookup {
    fn read(revert: &[u8]) -> Option<Self> {
        let data = revert.strip_prefix(&OFFCHAIN)?;
        let list = abi::number_at(data, 32)?;
        let count = abi::number_at(data, list)?.min(8);
        let mut urls = Vec::with_capacity(count);
        for number in 0..count {
            let url = abi::bytes_at(data, list.checked_add(32)?, number * 32)?;
            urls.push(String::from_utf8(url.to_vec()).ok()?);
        }
        Some(Self {
            sender: abi::address_in(abi::word_at(data, 0)?)?,
            urls,
            data: abi::bytes_at(data, 0, 64)?.to_vec(),
            callback: abi::word_at(data, 96)?.get(..4)?.try_into().ok()?,
            extra: abi::bytes_at(data, 0, 128)?.to_vec(),
        })
    }
}

#[async_trait]
impl Pointer for EnsPointer {
    async fn head_ref(&self, brain: &BrainId) -> Result<Option<HeadRef>> {
        Ok(self.lookup(brain).await?.map(|record| record.pointed))
    }

    async fn lookup(&self, brain: &BrainId) -> Result<Option<PointerRecord>> {
        self.text(&record_key(brain)).await?.map(|text| text.parse()).transpose()
    }

    fn describe(&self) -> String {
        format!("the record of {}", self.settings.name)
    }
}
