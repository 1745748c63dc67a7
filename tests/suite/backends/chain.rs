//! The chain over real HTTP. Its policy is tested beside it, on a clock that stands still.

use super::*;
use std::sync::Mutex;

use herm::backend::{Chain, RetryPolicy};
use tokio::time::Instant;

fn quick() -> RetryPolicy {
    RetryPolicy {
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(4),
        ..RetryPolicy::default()
    }
}

fn chain(backends: Vec<Arc<dyn Backend>>, policy: RetryPolicy) -> Chain {
    Chain { backends, policy }
}

#[tokio::test]
async fn a_failing_endpoint_is_retried_and_then_answers() {
    let busy = Step::json(503, json!({"error": {"message": "busy"}}));
    let server = ModelServer::start(vec![busy.clone(), busy, Step::json(200, chat("hi"))]);
    let until = Instant::now() + Duration::from_secs(60);
    let heard = Mutex::new(Vec::new());
    let answered = chain(vec![Arc::new(openai(&server))], quick())
        .ask(&ask(), until, &|| 0.5, &|attempt| heard.lock().unwrap().push((attempt.number, attempt.class)))
        .await
        .unwrap();
    assert_eq!((answered.completion.text.as_str(), answered.attempts), ("hi", 3));
    assert_eq!(*heard.lock().unwrap(), [(1, ErrorClass::Overloaded), (2, ErrorClass::Overloaded)]);
}

#[tokio::test]
async fn a_wrong_key_falls_back_to_the_next_endpoint() {
    let first = ModelServer::always(Step::json(401, json!({"error": {"message": "wrong key"}})));
    let second = ModelServer::always(Step::json(200, message("hi")));
    let until = Instant::now() + Duration::from_secs(60);
    let answered = chain(vec![Arc::new(openai(&first)), Arc::new(anthropic(&second))], quick())
        .ask(&ask(), until, &|| 0.0, &|_| {})
        .await
        .unwrap();
    assert_eq!((answered.backend.name(), answered.attempts), ("anthropic", 2));
    assert_eq!(first.requests().len(), 1);
}

#[tokio::test]
async fn a_rate_limit_for_ever_ends_at_the_deadline() {
    let server =
        ModelServer::always(Step::json(429, json!({"error": {"message": "slow"}})).header("retry-after-ms", "1"));
    let policy = RetryPolicy { attempts: u32::MAX, ..quick() };
    let until = Instant::now() + Duration::from_millis(100);
    let error = chain(vec![Arc::new(openai(&server))], policy).ask(&ask(), until, &|| 0.0, &|_| {}).await.unwrap_err();
    // Either the next wait would have been too long, or the deadline came during a call.
    assert!(matches!(error.class, ErrorClass::RateLimit | ErrorClass::Timeout), "{error}");
}

#[tokio::test]
async fn an_endpoint_that_never_answers_is_dropped_at_the_deadline() {
    let server = ModelServer::always(Step::never());
    let until = Instant::now() + Duration::from_millis(50);
    let error = chain(vec![Arc::new(openai(&server))], quick()).ask(&ask(), until, &|| 0.0, &|_| {}).await.unwrap_err();
    assert_eq!(error, BackendError::new(ErrorClass::Timeout, "openai did not answer before the deadline"));
}
