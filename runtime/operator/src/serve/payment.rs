//! Tasks that are paid for, with x402 version 2: 402 with what it costs, a signed payment with the next try, verified
//! before the task runs and settled only if its outcome is billable.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::header::HeaderName;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use herm::backend::HttpClient;
use herm::{BrainId, Error, Result};
use serde_json::{Value, json};

use super::problem::{HandlerResult, Problem};
use crate::config::PaymentEntry;

const PAYMENT_REQUIRED: HeaderName = HeaderName::from_static("payment-required");
const PAYMENT_SIGNATURE: HeaderName = HeaderName::from_static("payment-signature");
/// What the facilitator said when the payment was settled.
pub(crate) const PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("payment-response");
/// The largest answer of a facilitator that is read.
const MAX_ANSWER: usize = 64 << 10;
/// The largest payment that is looked at.
const MAX_PAYMENT: usize = 16 << 10;
/// The seconds a payment may take, unless said.
const MAX_TIMEOUT: u64 = 300;

/// Who verifies and settles payments.
#[async_trait]
pub(crate) trait Facilitator: Send + Sync + std::fmt::Debug {
    /// Whether a payment is good; nothing is taken yet. `Err(why)` inside: it is not.
    async fn verify(&self, payment: &Value, wanted: &Value) -> Result<std::result::Result<(), String>>;
    /// Takes it; what the payer is told of it. `Err(why)` inside: it was not taken.
    async fn settle(&self, payment: &Value, wanted: &Value) -> Result<std::result::Result<Value, String>>;
}

/// A facilitator over HTTP.
#[derive(Debug)]
struct HttpFacilitator {
    client: HttpClient,
    address: String,
}

impl HttpFacilitator {
    async fn ask(&self, what: &str, payment: &Value, wanted: &Value) -> Result<Value> {
        let body = json!({ "x402Version": 2, "paymentPayload": payment, "paymentRequirements": wanted });
        let url = format!("{}/{what}", self.address.trim_end_matches('/'));
        let (status, answer) = self.client.post_json(&url, &[], &body, MAX_ANSWER).await?;
        // A facilitator may say what is wrong with a payment with a status of its own.
        if status >= 500 || !answer.is_object() {
            return Err(Error::unavailable(format!("the facilitator answered {status}")).hint("try again in a moment"));
        }
        Ok(answer)
    }
}

#[async_trait]
impl Facilitator for HttpFacilitator {
    async fn verify(&self, payment: &Value, wanted: &Value) -> Result<std::result::Result<(), String>> {
        let answer = self.ask("verify", payment, wanted).await?;
        Ok(match answer["isValid"].as_bool() {
            Some(true) => Ok(()),
            _ => Err(reason(&answer, "invalidReason")),
        })
    }

    async fn settle(&self, payment: &Value, wanted: &Value) -> Result<std::result::Result<Value, String>> {
        let answer = self.ask("settle", payment, wanted).await?;
        Ok(match answer["success"].as_bool() {
            Some(true) => Ok(answer),
            _ => Err(reason(&answer, "errorReason")),
        })
    }
}

fn reason(answer: &Value, field: &str) -> String {
    answer[field].as_str().unwrap_or("the facilitator gave no reason").chars().take(200).collect()
}

/// The gate that tasks pass.
#[derive(Debug, Clone)]
pub(crate) struct Paywall {
    facilitator: Arc<dyn Facilitator>,
    wanted: Value,
    covers_asked_agents: bool,
}

/// A payment that is good, and not taken yet.
#[derive(Debug)]
pub(crate) struct VerifiedPayment {
    gate: Paywall,
    payment: Value,
}

impl Paywall {
    /// The gate of the configuration.
    pub(crate) fn new(entry: &PaymentEntry) -> Result<Self> {
        let missing = [
            ("facilitator", &entry.facilitator),
            ("pay_to", &entry.pay_to),
            ("network", &entry.network),
            ("asset", &entry.asset),
            ("amount", &entry.amount),
        ];
        if let Some((name, _)) = missing.iter().find(|(_, value)| value.trim().is_empty()) {
            return Err(Error::invalid(format!("[serve.x402] needs {name}")).hint("see `herm config schema`"));
        }
        if !entry.amount.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Error::invalid("amount of [serve.x402] is a whole number of the token's smallest unit"));
        }
        let facilitator = HttpFacilitator {
            client: HttpClient::new()?.idle_timeout(Duration::from_secs(30)),
            address: entry.facilitator.clone(),
        };
        Ok(Self::with(Arc::new(facilitator), entry))
    }

    fn with(facilitator: Arc<dyn Facilitator>, entry: &PaymentEntry) -> Self {
        let seconds = entry.max_timeout_secs.unwrap_or(MAX_TIMEOUT);
        let wanted = json!({
            "scheme": "exact",
            "network": entry.network,
            "amount": entry.amount,
            "asset": entry.asset,
            "payTo": entry.pay_to,
            "maxTimeoutSeconds": seconds,
            "extra": { "name": entry.token_name, "version": entry.token_version },
        });
        Self { facilitator, wanted, covers_asked_agents: entry.covers_asked_agents }
    }

    /// Whether the price of a task covers the agents that it asks.
    pub(crate) fn covers_asked_agents(&self) -> bool {
        self.covers_asked_agents
    }

    /// Lets a task pass whose payment is good.
    pub(crate) async fn admit(&self, headers: &HeaderMap, agent: &BrainId) -> HandlerResult<VerifiedPayment> {
        let Some(header) = headers.get(PAYMENT_SIGNATURE) else {
            return Err(self.required(agent, "payment required"));
        };
        let payment: Option<Value> = (header.len() <= MAX_PAYMENT)
            .then(|| STANDARD.decode(header.as_bytes()).ok())
            .flatten()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(payment) = payment.filter(|payment| payment["x402Version"] == 2) else {
            return Err(Problem::invalid("PAYMENT-SIGNATURE is not base64 of an x402 version 2 payment"));
        };
        // What was signed must be what is wanted here, before a facilitator is asked about anything else.
        let same = ["scheme", "network", "amount", "asset", "payTo"]
            .iter()
            .all(|field| payment["accepted"][field] == self.wanted[field]);
        if !same {
            return Err(self.required(agent, "the payment is not what is asked for here"));
        }
        match self.facilitator.verify(&payment, &self.wanted).await? {
            Ok(()) => Ok(VerifiedPayment { gate: self.clone(), payment }),
            Err(why) => Err(self.required(agent, &format!("the payment is not good: {why}"))),
        }
    }

    /// The payment of a task that an earlier process accepted.
    pub(crate) fn taken_up(&self, payment: Value) -> VerifiedPayment {
        VerifiedPayment { gate: self.clone(), payment }
    }

    fn required(&self, agent: &BrainId, why: &str) -> Problem {
        let document = json!({
            "x402Version": 2,
            "error": why,
            "resource": {
                "url": format!("/v1/agents/{agent}/tasks"),
                "description": format!("a task of agent {agent}"),
                "mimeType": "application/json",
            },
            "accepts": [self.wanted],
        });
        Problem::new(StatusCode::PAYMENT_REQUIRED, "payment_required", why)
            .hint("pay as PAYMENT-REQUIRED says, and send the payment in PAYMENT-SIGNATURE")
            .header(PAYMENT_REQUIRED, &STANDARD.encode(document.to_string()))
    }
}

impl VerifiedPayment {
    /// The payment as it was shown.
    pub(crate) fn payment(&self) -> &Value {
        &self.payment
    }

    /// What makes it this payment and no other, however it is spelled: the payer's number for it, where it has one, else
    /// everything that was signed.
    pub(crate) fn id(&self) -> [u8; 32] {
        let signed = &self.payment["payload"];
        let authorization = &signed["authorization"];
        let what = match (&authorization["nonce"], &authorization["from"]) {
            (Value::String(nonce), from) => format!("{}/{}", from.to_string().to_lowercase(), nonce.to_lowercase()),
            _ => canonical(signed),
        };
        *blake3::Hasher::new_derive_key("herm payment v1").update(what.as_bytes()).finalize().as_bytes()
    }

    /// Takes the payment; the text of `PAYMENT-RESPONSE`.
    pub(crate) async fn settle(&self) -> HandlerResult<String> {
        let settled = self.gate.facilitator.settle(&self.payment, &self.gate.wanted).await;
        match settled {
            Ok(Ok(answer)) => Ok(STANDARD.encode(answer.to_string())),
            Ok(Err(why)) => Err(Problem::new(
                StatusCode::PAYMENT_REQUIRED,
                "payment_required",
                format!("the task is done, and its payment was not taken: {why}"),
            )
            .hint("ask the operator; the receipt of the task is in the brain")),
            Err(error) => Err(error.into()),
        }
    }
}

/// A value as text, whatever the order of its fields.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            let parts: Vec<String> =
                sorted.iter().map(|(name, value)| format!("{name:?}:{}", canonical(value))).collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
