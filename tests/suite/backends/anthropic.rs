//! Anthropic's Messages and their quirks.

use super::*;

fn class(answer: Result<Completion, BackendError>) -> ErrorClass {
    answer.expect_err("this call must fail").class
}

fn start() -> (&'static str, Value) {
    let usage = json!({
        "input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1,
    });
    ("message_start", json!({"type": "message_start", "message": {"model": "claude-2", "usage": usage}}))
}

fn text(text: &str) -> (&'static str, Value) {
    let delta = json!({"type": "text_delta", "text": text});
    ("content_block_delta", json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

fn thinking() -> (&'static str, Value) {
    let delta = json!({"type": "thinking_delta", "thinking": "hm"});
    ("content_block_delta", json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

fn stopped(reason: &str) -> (&'static str, Value) {
    let delta = json!({"stop_reason": reason});
    ("message_delta", json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}))
}

fn end() -> (&'static str, Value) {
    ("message_stop", json!({"type": "message_stop"}))
}

#[tokio::test]
async fn a_request_has_the_fields_and_headers_of_the_format() {
    for base in ["", "/", "/v1", "/v1/"] {
        let server = ModelServer::start(vec![Step::json(200, message("hi"))]);
        let mut settings = anthropic_settings(&server);
        settings.base_url += base;
        Anthropic::new(client(), settings).unwrap().complete(&ask()).await.unwrap();
        let request = server.requests().remove(0);
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/messages"));
        assert_eq!(request.header("x-api-key"), Some(KEY));
        assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(
            request.body,
            json!({
                "model": "claude",
                "max_tokens": 100,
                "system": "You answer.",
                "messages": [{"role": "user", "content": "Hello"}],
                "temperature": 0.2,
                "stream": true,
            })
        );
    }
}

#[tokio::test]
async fn a_whole_body_is_read_with_all_its_input_counted() {
    let mut body = message("hi");
    body["content"] = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "one "}, {"type": "text", "text": "two"}]);
    body["usage"] =
        json!({"input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 8});
    let answer = anthropic_says(Step::json(200, body)).await.unwrap();
    let tokens = Some(Tokens { input: 7, output: 8, cached: 4 });
    assert_eq!(answer, completion("one two", FinishReason::Stop, "claude-1", tokens));
}

#[tokio::test]
async fn a_stream_is_joined_and_its_pings_are_skipped() {
    let ping = ("ping", json!({"type": "ping"}));
    let events = [start(), ping.clone(), thinking(), text("hé"), ping, text("llo"), stopped("end_turn"), end()];
    for step in [Step::named_sse(events.clone()), Step::named_sse(events).dripped()] {
        let answer = anthropic_says(step).await.unwrap();
        let tokens = Some(Tokens { input: 60, output: 7, cached: 30 });
        assert_eq!(answer, completion("héllo", FinishReason::Stop, "claude-2", tokens));
    }
}

#[tokio::test]
async fn a_body_without_usage_has_no_tokens() {
    let body = json!({"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"});
    let answer = anthropic_says(Step::json(200, body)).await.unwrap();
    assert_eq!(answer, completion("hi", FinishReason::Stop, "claude", None));
}

#[tokio::test]
async fn reasons_to_stop_are_told_apart() {
    for (reason, finish) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("tool_use", FinishReason::Other),
        ("pause_turn", FinishReason::Other),
    ] {
        let mut body = message("hi");
        body["stop_reason"] = json!(reason);
        assert_eq!(anthropic_says(Step::json(200, body)).await.unwrap().finish, finish);
        let answer = anthropic_says(Step::named_sse([start(), text("hi"), stopped(reason), end()])).await;
        assert_eq!(answer.unwrap().finish, finish);
    }
}

#[tokio::test]
async fn a_refusal_is_the_policys() {
    let stream = Step::named_sse([start(), text("I"), stopped("refusal"), end()]);
    assert_eq!(class(anthropic_says(stream).await), ErrorClass::ContentPolicy);
    let body = json!({"content": [], "stop_reason": "refusal"});
    assert_eq!(class(anthropic_says(Step::json(200, body)).await), ErrorClass::ContentPolicy);
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_an_error() {
    for (kind, expected) in [
        ("overloaded_error", ErrorClass::Overloaded),
        ("rate_limit_error", ErrorClass::RateLimit),
        ("authentication_error", ErrorClass::Auth),
        ("billing_error", ErrorClass::Billing),
        ("api_error", ErrorClass::Server),
        ("timeout_error", ErrorClass::Timeout),
    ] {
        let error = json!({"type": "error", "error": {"type": kind, "message": "so it is"}});
        let answer = anthropic_says(Step::named_sse([start(), text("half a re"), ("error", error)])).await;
        let error = answer.unwrap_err();
        assert_eq!(error.class, expected);
        assert!(error.message.ends_with("failed while answering: so it is"), "{error}");
    }
}

#[tokio::test]
async fn statuses_have_their_class() {
    let error = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let spent = json!({"type": "error", "error": {
        "type": "rate_limit_error", "message": "limit", "details": {"error_code": "enforced_spend_limit_reached"},
    }});
    for (status, body, expected) in [
        (529, error("overloaded_error", "Overloaded"), ErrorClass::Overloaded),
        (429, error("rate_limit_error", "slow"), ErrorClass::RateLimit),
        (429, spent, ErrorClass::Billing),
        (401, error("authentication_error", "invalid x-api-key"), ErrorClass::Auth),
        (404, error("not_found_error", "model: x"), ErrorClass::ModelNotFound),
        (413, error("request_too_large", "x"), ErrorClass::PayloadTooLarge),
        (400, error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), ErrorClass::ContextOverflow),
        (400, error("invalid_request_error", "Your credit balance is too low"), ErrorClass::Billing),
        (400, error("invalid_request_error", "x"), ErrorClass::BadRequest),
        (500, error("api_error", "x"), ErrorClass::Server),
    ] {
        assert_eq!(class(anthropic_says(Step::json(status, body.clone())).await), expected, "{status} {body}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_is_a_broken_connection() {
    let step = Step::named_sse([start(), text("half a re"), text("ply")]);
    assert_eq!(class(anthropic_says(step.clone()).await), ErrorClass::Network);
    for bytes in (1..350).step_by(7) {
        assert_eq!(
            class(anthropic_says(step.clone().cut_after(bytes)).await),
            ErrorClass::Network,
            "cut after {bytes}"
        );
    }
}

#[tokio::test]
async fn what_is_no_reply_is_a_bad_reply() {
    for step in [
        Step::json(200, json!({"type": "message", "content": []})),
        Step::json(200, json!({"type": "message"})),
        Step::json(200, json!({"content": [{"type": "thinking", "thinking": "hm"}], "stop_reason": "end_turn"})),
        Step::named_sse([start(), thinking(), stopped("max_tokens"), end()]),
        Step::text(200, "text/html", "<html>"),
        Step::text(200, "application/json", ""),
    ] {
        assert_eq!(class(anthropic_says(step).await), ErrorClass::BadReply);
    }
}

#[tokio::test]
async fn a_model_that_takes_no_temperature_is_asked_without_from_then_on() {
    let body =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": "`temperature` is deprecated"}});
    let good = Step::json(200, message("hi"));
    let server = ModelServer::start(vec![Step::json(400, body), good.clone(), good]);
    let backend = anthropic(&server);
    backend.complete(&ask()).await.unwrap();
    backend.complete(&ask()).await.unwrap();
    let sent: Vec<bool> = server.requests().iter().map(|request| request.body.get("temperature").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
}
