//! Asks until someone answers: retries, waits, and falls back to the next backend.
//!
//! What to do about a failure is its class's [`Advice`]; how often and how long is the
//! [`RetryPolicy`]'s; when to stop is the caller's `until`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{Instrument as _, Span, field};

use super::{Advice, Backend, BackendError, Completion, CompletionRequest, ErrorClass};

/// How often and how long to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most attempts at one backend.
    pub attempts: u32,
    /// The most attempts at one backend that end in something that is not a reply.
    pub bad_replies: u32,
    /// The wait after the first failed attempt; it doubles with each one.
    pub first_wait: Duration,
    /// The longest wait, before chance adds up to a half.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 4,
            bad_replies: 2,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(20),
        }
    }
}

impl RetryPolicy {
    /// The wait after the attempt with this number, the first being 1; `chance` is between 0 and 1.
    fn wait(&self, attempt: u32, chance: f64) -> Duration {
        let doubled = self.first_wait.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
        let chance = if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 0.0 };
        doubled.min(self.longest_wait).mul_f64(1.0 + chance / 2.0)
    }
}

/// Backends in the order they are asked.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The backends; the first one is preferred.
    pub backends: Vec<Arc<dyn Backend>>,
    /// How often and how long to try each.
    pub policy: RetryPolicy,
}

/// An answer, and whose it is.
#[derive(Debug, Clone)]
pub struct ChainResponse {
    /// What the backend answered.
    pub completion: Completion,
    /// The backend that answered; the usage is counted at its price.
    pub backend: Arc<dyn Backend>,
    /// How many attempts it took, at all backends together.
    pub attempts: u32,
    /// The span of the attempt that was answered. It ends when the answer is dropped.
    pub(crate) span: Span,
}

/// One attempt that failed.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The name of the backend that failed.
    pub backend: &'a str,
    /// The attempt's number at this backend, from 1.
    pub number: u32,
    /// What kind of failure it was.
    pub class: ErrorClass,
    /// The error that the backend returned, or the timeout at the deadline.
    pub error: &'a BackendError,
    /// How long until this backend is asked again; nothing when it is not.
    pub wait: Option<Duration>,
}

impl Chain {
    /// Asks each backend until one answers, and not beyond `until`.
    ///
    /// `jitter` gives a number between 0 and 1 for each wait; `heard` is told of each failed attempt. A
    /// conversation that is too long is the caller's to shorten, so that error comes back at once.
    pub async fn ask(
        &self,
        ask: &CompletionRequest,
        until: Instant,
        jitter: &(dyn Fn() -> f64 + Send + Sync),
        heard: &(dyn Fn(&Attempt<'_>) + Send + Sync),
    ) -> Result<ChainResponse, BackendError> {
        let mut attempts = 0;
        let mut failed: Vec<(&str, BackendError)> = Vec::new();
        for backend in &self.backends {
            let mut bad_replies = 0;
            for number in 1.. {
                attempts += 1;
                let span = chat_span(backend.as_ref(), ask);
                let error = match self.try_once(backend.as_ref(), ask, until).instrument(span.clone()).await {
                    Ok(completion) => {
                        record_reply(&span, &completion);
                        return Ok(ChainResponse { completion, backend: Arc::clone(backend), attempts, span });
                    }
                    Err(error) => error,
                };
                span.record("error.type", error.class.name()).record("otel.status_code", "ERROR");
                drop(span);
                bad_replies += u32::from(error.class == ErrorClass::BadReply);
                let wait = match error.class.advice() {
                    Advice::Retry if number < self.policy.attempts && bad_replies < self.policy.bad_replies.max(1) => {
                        let wait = self.policy.wait(number, jitter()).max(error.retry_after.unwrap_or_default());
                        // A wait that does not end in time is not begun: another backend may answer now.
                        (Instant::now() + wait < until).then_some(wait)
                    }
                    _ => None,
                };
                heard(&Attempt { backend: backend.name(), number, class: error.class, error: &error, wait });
                if error.class.advice() == Advice::Shrink {
                    return Err(error);
                }
                let Some(wait) = wait else {
                    failed.push((backend.name(), error));
                    break;
                };
                sleep_until(Instant::now() + wait).await;
            }
            if Instant::now() >= until {
                break;
            }
        }
        Err(last_of(failed))
    }

    async fn try_once(
        &self,
        backend: &dyn Backend,
        ask: &CompletionRequest,
        until: Instant,
    ) -> Result<Completion, BackendError> {
        // A future that is ready at once would win against a deadline that has passed.
        let late = |what: &str| BackendError::new(ErrorClass::Timeout, format!("{} {what}", backend.name()));
        if Instant::now() >= until {
            return Err(late("was not asked: the deadline had passed"));
        }
        match timeout_at(until, backend.complete(ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(late("did not answer before the deadline")),
        }
    }
}

/// The span of one attempt at one backend, with the names of OpenTelemetry's conventions for generative models.
fn chat_span(backend: &dyn Backend, ask: &CompletionRequest) -> Span {
    tracing::info_span!(
        "chat",
        otel.name = %ChatName(backend.model()),
        otel.kind = "client",
        otel.status_code = field::Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = backend.name(),
        gen_ai.request.model = backend.model(),
        gen_ai.request.max_tokens = ask.max_output_tokens,
        gen_ai.request.temperature = f64::from(ask.temperature),
        gen_ai.response.model = field::Empty,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        gen_ai.output.messages = field::Empty,
        error.type = field::Empty,
    )
}

/// The name of the span of an attempt, as the conventions make it.
struct ChatName<'a>(Option<&'a str>);

impl std::fmt::Display for ChatName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(model) => write!(f, "chat {model}"),
            None => f.write_str("chat"),
        }
    }
}

fn record_reply(span: &Span, completion: &Completion) {
    span.record("gen_ai.response.model", completion.model.as_str());
    if let Some(tokens) = completion.tokens {
        span.record("gen_ai.usage.input_tokens", tokens.input).record("gen_ai.usage.output_tokens", tokens.output);
    }
}

/// The last failure, with the names of those that failed before.
fn last_of(mut failed: Vec<(&str, BackendError)>) -> BackendError {
    let Some((_, mut last)) = failed.pop() else {
        return BackendError::new(ErrorClass::BadRequest, "there is no backend to ask");
    };
    if !failed.is_empty() {
        let before: Vec<String> =
            failed.iter().map(|(name, error)| format!("{name} ({})", error.class.name())).collect();
        last.message = format!("{}; before that failed: {}", last.message, before.join(", "));
    }
    last
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use crate::backend::{FinishReason, Purpose};

    /// Fails as scripted, then answers; or never answers.
    #[derive(Debug)]
    struct Scripted {
        name: &'static str,
        failures: Mutex<VecDeque<BackendError>>,
        then: Then,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Then {
        Answer,
        FailForEver(ErrorClass),
        Hang,
    }

    #[async_trait]
    impl Backend for Scripted {
        fn name(&self) -> &str {
            self.name
        }

        async fn complete(&self, _: &CompletionRequest) -> Result<Completion, BackendError> {
            if let Some(error) = self.failures.lock().unwrap().pop_front() {
                return Err(error);
            }
            match self.then {
                Then::Answer => Ok(completion(self.name)),
                Then::FailForEver(class) => Err(error(class)),
                Then::Hang => std::future::pending().await,
            }
        }
    }

    fn question() -> CompletionRequest {
        CompletionRequest {
            messages: Vec::new(),
            purpose: Purpose::Turn,
            tools: Default::default(),
            reply_schema: Arc::new(serde_json::Value::Null),
            max_output_tokens: 1,
            max_output_bytes: 1,
            temperature: 0.0,
        }
    }

    fn error(class: ErrorClass) -> BackendError {
        BackendError::new(class, format!("it was {}", class.name()))
    }

    fn asks_to_wait(seconds: u64) -> BackendError {
        BackendError { retry_after: Some(Duration::from_secs(seconds)), ..error(ErrorClass::RateLimit) }
    }

    fn completion(text: &str) -> Completion {
        Completion { text: text.into(), finish: FinishReason::Stop, model: "m".into(), tokens: None, attestation: None }
    }

    fn backend(name: &'static str, failures: Vec<BackendError>, then: Then) -> Arc<dyn Backend> {
        Arc::new(Scripted { name, failures: Mutex::new(failures.into()), then })
    }

    /// Who failed, how, and how many milliseconds were waited.
    type Heard = (String, ErrorClass, Option<u128>);

    /// Asks with 60 seconds of time; tells the result, what was heard, and how many milliseconds went by.
    async fn ask(
        backends: Vec<Arc<dyn Backend>>,
        chance: f64,
    ) -> (Result<(String, u32), BackendError>, Vec<Heard>, u128) {
        let chain = Chain { backends, policy: RetryPolicy::default() };
        let heard = Mutex::new(Vec::new());
        let start = Instant::now();
        let answer = chain
            .ask(&question(), start + Duration::from_secs(60), &|| chance, &|attempt| {
                let wait = attempt.wait.map(|wait| wait.as_millis());
                heard.lock().unwrap().push((attempt.backend.to_owned(), attempt.class, wait));
            })
            .await;
        if let Ok(answered) = &answer {
            assert_eq!(answered.completion.text, answered.backend.name());
        }
        let answer = answer.map(|answered| (answered.completion.text, answered.attempts));
        (answer, heard.into_inner().unwrap(), start.elapsed().as_millis())
    }

    fn heard(name: &str, class: ErrorClass, wait: Option<u128>) -> Heard {
        (name.into(), class, wait)
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_answers_is_asked_once() {
        let (answer, told, _) = ask(vec![backend("a", vec![], Then::Answer)], 0.0).await;
        assert_eq!((answer, told), (Ok(("a".into(), 1)), vec![]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_may_pass_is_retried_with_doubling_waits_and_four_attempts() {
        let class = ErrorClass::Overloaded;
        let (answer, told, went_by) = ask(vec![backend("a", vec![], Then::FailForEver(class))], 0.0).await;
        assert_eq!(answer, Err(error(class)));
        let waits = [Some(500), Some(1000), Some(2000), None];
        assert_eq!(told, waits.map(|wait| heard("a", class, wait)));
        assert_eq!(went_by, 3500);
    }

    #[tokio::test(start_paused = true)]
    async fn chance_adds_up_to_a_half() {
        let (answer, told, _) = ask(vec![backend("a", vec![error(ErrorClass::Network)], Then::Answer)], 1.0).await;
        assert_eq!(answer, Ok(("a".into(), 2)));
        assert_eq!(told, [heard("a", ErrorClass::Network, Some(750))]);
    }

    #[test]
    fn waits_stop_growing_at_the_longest() {
        let policy = RetryPolicy::default();
        let waits: Vec<u128> = (1..9).map(|attempt| policy.wait(attempt, 0.0).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 20000, 20000]);
        assert_eq!(policy.wait(u32::MAX, f64::NAN), Duration::from_secs(20));
        assert_eq!(policy.wait(7, 9.0), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_waited_for_when_it_fits() {
        let (answer, told, went_by) = ask(vec![backend("a", vec![asks_to_wait(30)], Then::Answer)], 0.0).await;
        assert_eq!(answer, Ok(("a".into(), 2)));
        assert_eq!((told, went_by), (vec![heard("a", ErrorClass::RateLimit, Some(30_000))], 30_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_the_deadline_is_not_begun() {
        let patient = || backend("a", vec![asks_to_wait(300)], Then::Answer);
        let (answer, told, went_by) = ask(vec![patient(), backend("b", vec![], Then::Answer)], 0.0).await;
        assert_eq!(answer, Ok(("b".into(), 2)));
        assert_eq!((told, went_by), (vec![heard("a", ErrorClass::RateLimit, None)], 0));

        let (answer, _, went_by) = ask(vec![patient()], 0.0).await;
        assert_eq!((answer, went_by), (Err(asks_to_wait(300)), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bad_reply_is_retried_once() {
        let class = ErrorClass::BadReply;
        let (answer, told, _) =
            ask(vec![backend("a", vec![], Then::FailForEver(class)), backend("b", vec![], Then::Answer)], 0.0).await;
        assert_eq!(answer, Ok(("b".into(), 3)));
        assert_eq!(told, [heard("a", class, Some(500)), heard("a", class, None)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_will_not_answer_is_left_at_once() {
        for class in [ErrorClass::Auth, ErrorClass::Billing, ErrorClass::ModelNotFound, ErrorClass::BadRequest] {
            let (answer, told, went_by) =
                ask(vec![backend("a", vec![error(class)], Then::Answer), backend("b", vec![], Then::Answer)], 0.0)
                    .await;
            assert_eq!(answer, Ok(("b".into(), 2)));
            assert_eq!((told, went_by), (vec![heard("a", class, None)], 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_conversation_that_is_too_long_comes_back_to_the_caller_at_once() {
        for class in [ErrorClass::ContextOverflow, ErrorClass::PayloadTooLarge] {
            let (answer, told, _) =
                ask(vec![backend("a", vec![error(class)], Then::Answer), backend("b", vec![], Then::Answer)], 0.0)
                    .await;
            assert_eq!((answer, told), (Err(error(class)), vec![heard("a", class, None)]));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_fail_the_last_error_names_the_others() {
        let (answer, _, _) = ask(
            vec![
                backend("a", vec![error(ErrorClass::Auth)], Then::Answer),
                backend("b", vec![], Then::FailForEver(ErrorClass::Server)),
                backend("c", vec![error(ErrorClass::Billing)], Then::Answer),
            ],
            0.0,
        )
        .await;
        let message = "it was billing; before that failed: a (auth), b (server)";
        assert_eq!(answer, Err(BackendError::new(ErrorClass::Billing, message)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_hangs_is_dropped_at_the_deadline() {
        let (answer, told, went_by) =
            ask(vec![backend("a", vec![], Then::Hang), backend("b", vec![], Then::Answer)], 0.0).await;
        let message = "a did not answer before the deadline";
        assert_eq!(answer, Err(BackendError::new(ErrorClass::Timeout, message)));
        assert_eq!((told, went_by), (vec![heard("a", ErrorClass::Timeout, None)], 60_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_has_passed_asks_nobody() {
        tokio::time::advance(Duration::from_secs(5)).await;
        let chain = Chain { backends: vec![backend("a", vec![], Then::Answer)], policy: RetryPolicy::default() };
        let answer = chain.ask(&question(), Instant::now() - Duration::from_secs(1), &|| 0.0, &|_| {}).await;
        let message = "a was not asked: the deadline had passed";
        assert_eq!(answer.unwrap_err(), BackendError::new(ErrorClass::Timeout, message));
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_chain_says_so() {
        let (answer, told, _) = ask(vec![], 0.0).await;
        assert_eq!(answer, Err(BackendError::new(ErrorClass::BadRequest, "there is no backend to ask")));
        assert_eq!(told, []);
    }
}
