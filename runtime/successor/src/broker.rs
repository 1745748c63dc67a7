//! Money for a successor. The broker stands in the parent and holds the keys; the successor can only ask. What a
//! question could cost at worst is set aside before it is forwarded, and what it did not cost is given back.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::backend::{Backend, BackendError, Chain, Completion, CompletionRequest, ErrorClass, Tokens};

/// Forwards questions of a successor within its budget.
#[derive(Debug)]
pub struct Broker {
    chain: Chain,
    until: Instant,
    purse: Arc<Mutex<BrokerBalance>>,
}

/// What is left, and whether someone wanted more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerBalance {
    /// Millionths of a dollar that may still be set aside.
    pub left: u64,
    /// Millionths of a dollar that were spent.
    pub spent: u64,
    /// Whether a question was refused for want of money.
    pub refused: bool,
}

impl Broker {
    /// A broker with so many millionths of a dollar.
    pub fn new(chain: Chain, micro_usd: u64, until: Instant) -> Self {
        Self { chain, until, purse: Arc::new(Mutex::new(BrokerBalance { left: micro_usd, spent: 0, refused: false })) }
    }

    /// A broker for other backends that spends from the same purse.
    #[must_use]
    pub fn beside(&self, chain: Chain) -> Self {
        Self { chain, until: self.until, purse: Arc::clone(&self.purse) }
    }

    /// The money at this moment: what is left, what was spent, and whether a question was refused for want of it.
    pub fn balance(&self) -> BrokerBalance {
        *self.balance_mut()
    }

    fn balance_mut(&self) -> std::sync::MutexGuard<'_, BrokerBalance> {
        self.purse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is asked first.
    pub fn first(&self) -> Option<&dyn Backend> {
        self.chain.backends.first().map(|backend| &**backend)
    }

    /// Asks once for the successor.
    pub async fn ask(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        let Some(backend) = self.chain.backends.first() else {
            return Err(BackendError::new(ErrorClass::BadRequest, "there is no backend to ask"));
        };
        let Some(price) = backend.capabilities().price else {
            return Err(BackendError::new(
                ErrorClass::Billing,
                format!("{} has no known price, so a money budget cannot be held", backend.name()),
            ));
        };
        let mut aside = self.set_aside(price.of(worst_case(ask)))?;
        let answered = tokio::time::timeout_at(self.until, backend.complete(ask)).await;
        let answered = answered.unwrap_or_else(|_| Err(BackendError::new(ErrorClass::Timeout, "the time was up")));
        if let Ok(completion) = &answered {
            aside.cost = price.of(cost_of(completion, ask));
        }
        answered
    }

    fn set_aside(&self, worst: u64) -> Result<SetAside<'_>, BackendError> {
        let mut purse = self.balance_mut();
        let left = purse.left.checked_sub(worst).filter(|_| !purse.refused);
        let Some(left) = left else {
            purse.refused = true;
            return Err(BackendError::new(
                ErrorClass::Billing,
                "the money of this successor does not allow another reply",
            ));
        };
        purse.left = left;
        Ok(SetAside { broker: self, worst, cost: worst })
    }
}

/// Money for a question whose cost is not known yet. Whether an endpoint charges for what failed, or for what nobody
/// waited for, is not known either: at worst it does.
struct SetAside<'a> {
    broker: &'a Broker,
    worst: u64,
    cost: u64,
}

impl Drop for SetAside<'_> {
    fn drop(&mut self) {
        let mut purse = self.broker.balance_mut();
        // An endpoint that charges more than the worst case is taken at its word, and is not asked again.
        purse.refused |= self.cost > self.worst;
        purse.left = purse.left.saturating_add(self.worst).saturating_sub(self.cost);
        purse.spent = purse.spent.saturating_add(self.cost);
    }
}

/// No token is shorter than a byte, and no reply is longer than what was asked for.
fn worst_case(ask: &CompletionRequest) -> Tokens {
    let bytes: u64 = ask.messages.iter().map(|message| message.content.len() as u64 + 16).sum();
    let legal = ask.reply_schema.to_string().len() as u64;
    Tokens { input: bytes + legal, output: u64::from(ask.max_output_tokens), cached: 0 }
}

fn cost_of(completion: &Completion, ask: &CompletionRequest) -> Tokens {
    completion.tokens.unwrap_or_else(|| {
        let input = worst_case(ask).input;
        Tokens { input, output: completion.text.len() as u64, cached: 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Capabilities, ChatMessage, FinishReason, Price, Purpose, RetryPolicy, Role};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[derive(Debug, Default)]
    struct Charging {
        asked: AtomicU64,
        /// Tokens more than it usually charges.
        surcharge: AtomicU64,
    }

    #[async_trait::async_trait]
    impl Backend for Charging {
        fn name(&self) -> &str {
            "charging"
        }

        fn capabilities(&self) -> Capabilities {
            // A dollar for a thousand tokens.
            Capabilities {
                price: Some(Price { input: 1_000_000_000, output: 1_000_000_000 }),
                ..Capabilities::default()
            }
        }

        async fn complete(&self, _: &CompletionRequest) -> Result<Completion, BackendError> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let surcharge = self.surcharge.load(Ordering::SeqCst);
            let tokens = Some(Tokens { input: 20, output: 30 + surcharge, cached: 0 });
            Ok(Completion {
                text: "{}".to_owned(),
                finish: FinishReason::Stop,
                model: "m".to_owned(),
                tokens,
                attestation: None,
            })
        }
    }

    fn ask() -> CompletionRequest {
        CompletionRequest {
            messages: vec![ChatMessage { role: Role::User, content: "hello".into() }],
            purpose: Purpose::Turn,
            tools: Default::default(),
            reply_schema: Arc::new(serde_json::Value::Bool(true)),
            max_output_tokens: 100,
            max_output_bytes: 1_000,
            temperature: 0.0,
        }
    }

    fn broker(micro_usd: u64, backend: Arc<Charging>) -> Arc<Broker> {
        let chain = Chain { backends: vec![backend], policy: RetryPolicy::default() };
        Arc::new(Broker::new(chain, micro_usd, Instant::now() + Duration::from_secs(60)))
    }

    #[tokio::test]
    async fn fifty_questions_at_once_never_spend_more_than_the_budget() {
        let backend = Arc::new(Charging::default());
        // Each costs 0.05 USD and 0.121 at worst.
        let broker = broker(500_000, Arc::clone(&backend));
        let asked: Vec<_> = (0..50)
            .map(|_| {
                let broker = Arc::clone(&broker);
                tokio::spawn(async move { broker.ask(&ask()).await.is_ok() })
            })
            .collect();
        let mut answered = 0;
        for one in asked {
            answered += u64::from(one.await.unwrap());
        }
        let purse = broker.balance();
        assert_eq!(answered, backend.asked.load(Ordering::SeqCst));
        assert_eq!(purse.spent, answered * 50_000);
        assert!(purse.spent <= 500_000 && purse.refused && answered >= 4, "{purse:?}");
        assert_eq!(purse.left + purse.spent, 500_000, "what was set aside came back");
    }

    #[tokio::test]
    async fn what_nobody_waited_for_is_paid_in_full() {
        let broker = broker(500_000, Arc::default());
        {
            let question = ask();
            let mut asking = std::pin::pin!(broker.ask(&question));
            assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(asking.as_mut().poll(cx))).await.is_pending());
            assert_eq!(broker.balance().spent, 0, "it is on its way");
        }
        let purse = broker.balance();
        assert_eq!((purse.spent, purse.left), (125_000, 375_000));
    }

    #[tokio::test]
    async fn an_endpoint_that_charges_more_than_the_worst_is_not_asked_again_however_much_is_left() {
        for surcharge in [1_000, u64::MAX - 100] {
            let backend = Arc::new(Charging::default());
            let broker = broker(100_000_000, Arc::clone(&backend));
            // Another question is on its way meanwhile: its rest must not open the purse again.
            let question = ask();
            let mut other = std::pin::pin!(broker.ask(&question));
            assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(other.as_mut().poll(cx))).await.is_pending());
            backend.surcharge.store(surcharge, Ordering::SeqCst);
            assert!(broker.ask(&ask()).await.is_ok());
            assert!(broker.balance().refused);
            assert!(other.await.is_ok());
            assert_eq!(broker.ask(&ask()).await.unwrap_err().class, ErrorClass::Billing);
            assert_eq!(backend.asked.load(Ordering::SeqCst), 2, "the third was not forwarded");
            assert!(broker.balance().spent > 1_000_000, "{:?}", broker.balance());
        }
    }

    #[tokio::test]
    async fn at_zero_nothing_is_forwarded() {
        let backend = Arc::new(Charging::default());
        let broker = broker(0, Arc::clone(&backend));
        let error = broker.ask(&ask()).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Billing);
        assert_eq!(backend.asked.load(Ordering::SeqCst), 0);
        assert!(broker.balance().refused);
    }
}
