//! Chat completions and their quirks.

use super::*;
use herm::backend::SchemaMode;

fn class(answer: Result<Completion, BackendError>) -> ErrorClass {
    answer.expect_err("this call must fail").class
}

#[tokio::test]
async fn a_request_has_the_fields_and_headers_of_the_format() {
    let server = ModelServer::start(vec![Step::json(200, chat("hi"))]);
    let mut settings = openai_settings(&server);
    settings.extra_headers = vec![("X-Title".into(), "herm".into())];
    let backend = OpenAi::new(client(), settings).unwrap();
    backend.complete(&ask()).await.unwrap();

    let request = server.requests().remove(0);
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("x-title"), Some("herm"));
    assert_eq!(request.header("user-agent"), Some(concat!("herm/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(
        request.body,
        json!({
            "model": "small",
            "messages": [{"role": "system", "content": "You answer."}, {"role": "user", "content": "Hello"}],
            "temperature": 0.2,
            "max_tokens": 100,
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn without_a_key_and_a_stream_neither_is_sent() {
    let server = ModelServer::start(vec![Step::json(200, chat("hi"))]);
    let mut settings = openai_settings(&server);
    (settings.key, settings.stream) = (None, false);
    OpenAi::new(client(), settings).unwrap().complete(&ask()).await.unwrap();
    let request = server.requests().remove(0);
    assert_eq!(request.header("authorization"), None);
    assert_eq!((&request.body["stream"], request.body.get("stream_options")), (&json!(false), None));
}

#[tokio::test]
async fn a_whole_body_is_read_with_its_model_and_tokens() {
    let mut body = chat("hi");
    body["usage"] = json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}});
    let tokens = Some(Tokens { input: 9, output: 4, cached: 5 });
    let answer = openai_says(Step::json(200, body)).await.unwrap();
    assert_eq!(answer, completion("hi", FinishReason::Stop, "small-1", tokens));
}

#[tokio::test]
async fn a_body_that_tells_neither_model_nor_tokens_gets_the_configured_model_and_none() {
    for usage in [json!(null), json!({}), json!({"prompt_tokens": null}), json!("?")] {
        let body = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage});
        let answer = openai_says(Step::json(200, body)).await.unwrap();
        assert_eq!(answer, completion("hi", FinishReason::Stop, "small", None));
    }
}

#[tokio::test]
async fn a_stream_is_joined_and_its_comments_are_skipped() {
    let usage = json!({"model": "small-2", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let answer = openai_says(Step::raw_sse([
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        format!("data: {}\r\n\r\n: OPENROUTER PROCESSING\n\n", delta("hé")),
        format!("data: {}\n\n", delta("llo")),
        format!("data: {}\n\ndata: {usage}\n\ndata: [DONE]\n\n", finished("stop")),
    ]))
    .await
    .unwrap();
    let tokens = Some(Tokens { input: 1, output: 2, cached: 0 });
    assert_eq!(answer, completion("héllo", FinishReason::Stop, "small-2", tokens));
}

#[tokio::test]
async fn a_stream_that_drips_byte_by_byte_gives_the_same_reply() {
    let events = [delta("hé😀"), delta("llo"), finished("stop"), "[DONE]".to_owned()];
    let answer = openai_says(Step::sse(&events).dripped()).await.unwrap();
    assert_eq!(answer, completion("hé😀llo", FinishReason::Stop, "small", None));
}

#[tokio::test]
async fn pauses_between_pieces_do_no_harm() {
    let step = Step::sse([delta("a"), delta("b"), finished("stop"), "[DONE]".into()]).pause(Duration::from_millis(5));
    assert_eq!(openai_says(step).await.unwrap().text, "ab");
}

#[tokio::test]
async fn a_body_is_read_for_what_it_is_whatever_was_asked_for_and_whatever_it_is_called() {
    let events = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", delta("hi"), finished("stop"));
    for step in [
        Step::text(200, "text/event-stream", chat("hi").to_string()),
        Step::text(200, "text/plain", format!(" \n\n{}", chat("hi"))),
        Step::text(200, "application/json", events.clone()),
        Step::text(200, "application/json", format!("\u{feff}\n{events}")),
        Step::text(200, "", events),
    ] {
        for stream in [true, false] {
            let server = ModelServer::start(vec![step.clone()]);
            let settings = EndpointSettings { stream, ..openai_settings(&server) };
            let backend = OpenAi::new(client(), settings).unwrap();
            assert_eq!(backend.complete(&ask()).await.unwrap().text, "hi");
        }
    }
}

#[tokio::test]
async fn reasons_to_finish_are_told_apart() {
    for (reason, finish) in [
        (json!("stop"), FinishReason::Stop),
        (json!("length"), FinishReason::Length),
        (json!("tool_calls"), FinishReason::Other),
        (json!(null), FinishReason::Other),
    ] {
        let body = json!({"choices": [{"message": {"content": "hi"}, "finish_reason": reason}]});
        assert_eq!(openai_says(Step::json(200, body)).await.unwrap().finish, finish);
    }
    let answer = openai_says(Step::sse([delta("hi"), finished("length"), "[DONE]".into()])).await;
    assert_eq!(answer.unwrap().finish, FinishReason::Length);
    let answer = openai_says(Step::sse([delta("hi"), "[DONE]".into()])).await;
    assert_eq!(answer.unwrap().finish, FinishReason::Other);
}

#[tokio::test]
async fn content_may_be_a_list_of_parts() {
    let parts =
        json!([{"type": "text", "text": "one "}, {"type": "thinking", "text": "hm"}, {"type": "text", "text": "two"}]);
    let body = json!({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]});
    assert_eq!(openai_says(Step::json(200, body)).await.unwrap().text, "one two");
}

#[tokio::test]
async fn reasoning_is_not_part_of_the_reply_and_alone_is_none() {
    for key in ["reasoning_content", "reasoning"] {
        let body = json!({"choices": [{"message": {"content": "hi", key: "I think"}, "finish_reason": "stop"}]});
        assert_eq!(openai_says(Step::json(200, body)).await.unwrap().text, "hi");

        let piece = json!({"choices": [{"delta": {"content": null, key: "I think"}}]}).to_string();
        let error = openai_says(Step::sse([piece.clone(), finished("stop"), "[DONE]".into()])).await.unwrap_err();
        assert_eq!(error, BackendError::new(ErrorClass::BadReply, "the model wrote its reasoning but no reply"));
        let error = openai_says(Step::sse([piece, finished("length"), "[DONE]".into()])).await.unwrap_err();
        assert_eq!(error.message, "the model used all its output tokens for reasoning and wrote no reply");
    }
}

#[tokio::test]
async fn what_is_no_reply_is_a_bad_reply() {
    for body in [
        json!({"choices": []}),
        json!({}),
        json!({"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}),
        json!({"choices": [{"message": {"content": " \n"}, "finish_reason": "stop"}]}),
        json!({"choices": [{}]}),
        json!([]),
    ] {
        assert_eq!(class(openai_says(Step::json(200, body.clone())).await), ErrorClass::BadReply, "{body}");
    }
    for text in ["", "  \n", "hello", "{\"choices\": nonsense}", "data: not json\n\n"] {
        let answer = openai_says(Step::text(200, "application/json", text)).await;
        assert_eq!(class(answer), ErrorClass::BadReply, "{text}");
    }
}

#[tokio::test]
async fn an_html_page_and_an_empty_body_are_called_what_they_are() {
    let error = openai_says(Step::text(200, "text/html", "<!doctype html><title>Sign in</title>")).await.unwrap_err();
    assert!(error.message.ends_with("answered with an HTML page, not with a reply: check the base URL"), "{error}");
    let error = openai_says(Step::text(200, "application/json", "")).await.unwrap_err();
    assert!(error.message.ends_with("answered with an empty body"), "{error}");
}

#[tokio::test]
async fn an_error_inside_a_good_status_is_an_error() {
    for (error, expected) in [
        (json!({"code": 429, "message": "slow down"}), ErrorClass::RateLimit),
        (json!({"code": "402", "message": "no credits"}), ErrorClass::Billing),
        (json!({"code": "context_length_exceeded", "message": "x"}), ErrorClass::ContextOverflow),
        (json!({"message": "no code"}), ErrorClass::Server),
        (json!("a plain string"), ErrorClass::Server),
    ] {
        let whole = Step::json(200, json!({"error": error}));
        assert_eq!(class(openai_says(whole).await), expected, "{error}");

        let end = json!({"error": error, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]});
        let stream = Step::sse([delta("half a re"), end.to_string(), "[DONE]".into()]);
        assert_eq!(class(openai_says(stream).await), expected, "{error}");

        let in_choice = json!({"choices": [{"error": error, "finish_reason": "error"}]});
        assert_eq!(class(openai_says(Step::json(200, in_choice)).await), expected, "{error}");
    }
    let named = Step::raw_sse(["event: error\ndata: it broke\n\n"]);
    assert_eq!(class(openai_says(named).await), ErrorClass::Server);
    let bare = Step::sse([delta("half"), finished("error")]);
    assert_eq!(class(openai_says(bare).await), ErrorClass::Server);
}

#[tokio::test]
async fn a_filter_and_a_refusal_are_the_policys() {
    assert_eq!(
        class(openai_says(Step::sse([delta("so"), finished("content_filter")])).await),
        ErrorClass::ContentPolicy
    );
    let body = json!({"choices": [{"message": {"content": null, "refusal": "I cannot."}, "finish_reason": "stop"}]});
    let error = openai_says(Step::json(200, body)).await.unwrap_err();
    assert_eq!(error, BackendError::new(ErrorClass::ContentPolicy, "the model refuses: I cannot."));
    let pieces = ["I ", "cannot."].map(|text| json!({"choices": [{"delta": {"refusal": text}}]}).to_string());
    let error =
        openai_says(Step::sse(pieces.into_iter().chain([finished("stop"), "[DONE]".into()]))).await.unwrap_err();
    assert_eq!(error.message, "the model refuses: I cannot.");
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_is_a_broken_connection_and_no_half_reply() {
    let whole = Step::sse([delta("half a re"), delta("ply")]);
    assert_eq!(class(openai_says(whole.clone()).await), ErrorClass::Network, "ended without a finish");
    for bytes in 1..100 {
        let cut = openai_says(whole.clone().cut_after(bytes)).await;
        assert_eq!(class(cut), ErrorClass::Network, "cut after {bytes}");
        let closed = openai_says(whole.clone().cut_after(bytes).ended_by_close()).await;
        assert_eq!(class(closed), ErrorClass::Network, "closed after {bytes}");
    }
}

#[tokio::test]
async fn a_whole_body_that_ends_in_the_middle_is_a_broken_connection() {
    let length = chat("hi").to_string().len();
    for bytes in 1..length {
        let step = Step::json(200, chat("hi")).cut_after(bytes);
        assert_eq!(class(openai_says(step.clone()).await), ErrorClass::Network, "cut after {bytes}");
        assert_eq!(class(openai_says(step.ended_by_close()).await), ErrorClass::Network, "closed after {bytes}");
    }
}

#[tokio::test]
async fn a_finished_stream_needs_no_done_and_no_last_blank_line() {
    for step in [
        Step::sse([delta("hi"), finished("stop")]),
        Step::sse([delta("hi"), finished("stop")]).ended_by_close(),
        Step::raw_sse([format!("data: {}\n\ndata: {}", delta("hi"), finished("stop"))]),
        Step::raw_sse([format!("data: {}\n\ndata: {}\n\ndata: [DONE]", delta("hi"), finished("stop"))]),
        // The connection breaks where only the count of tokens was still to come.
        Step::sse([delta("hi"), finished("stop"), "never sent".into()])
            .cut_after(delta("hi").len() + finished("stop").len() + 16),
    ] {
        let answer = openai_says(step).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.finish), ("hi", FinishReason::Stop));
    }
}

#[tokio::test]
async fn a_stream_that_stays_open_after_done_does_not_hold_the_reply() {
    let server = ModelServer::start(vec![Step::sse([delta("hi"), finished("stop"), "[DONE]".into()]).then_silence()]);
    assert_eq!(openai(&server).complete(&ask()).await.unwrap().text, "hi");
    hung_up(&server).await;
}

#[tokio::test]
async fn statuses_have_their_class_and_the_endpoints_words() {
    for (status, error, expected) in [
        (401, json!({"message": "bad key"}), ErrorClass::Auth),
        (402, json!({"code": 402, "message": "credits"}), ErrorClass::Billing),
        (403, json!({"code": 403, "message": "flagged by moderation"}), ErrorClass::ContentPolicy),
        (404, json!({"message": "no such model"}), ErrorClass::ModelNotFound),
        (413, json!("too large"), ErrorClass::PayloadTooLarge),
        (429, json!({"code": "insufficient_quota", "message": "quota"}), ErrorClass::Billing),
        (400, json!({"message": "maximum context length is 10"}), ErrorClass::ContextOverflow),
        (503, json!({"message": "busy"}), ErrorClass::Overloaded),
    ] {
        let server = ModelServer::start(vec![Step::json(status, json!({"error": error}))]);
        let (class, message) = failure(&openai(&server)).await;
        let place = server.url().replace("http://", "");
        let said = error["message"].as_str().or(error.as_str()).unwrap();
        assert_eq!((class, message), (expected, format!("{place}/v1/chat/completions answered {status}: {said}")));
    }
}

#[tokio::test]
async fn retry_after_is_passed_on() {
    let step = Step::json(429, json!({"error": {"message": "slow"}})).header("retry-after", "7");
    assert_eq!(openai_says(step).await.unwrap_err().retry_after, Some(Duration::from_secs(7)));
    let step = Step::json(503, json!({})).header("retry-after-ms", "70");
    assert_eq!(openai_says(step).await.unwrap_err().retry_after, Some(Duration::from_millis(70)));
}

fn with_schema(server: &ModelServer, schema: SchemaMode) -> OpenAi {
    OpenAi::new(client(), EndpointSettings { schema, ..openai_settings(server) }).unwrap()
}

fn complaint(message: &str) -> Step {
    Step::json(400, json!({"error": {"message": message, "code": 400}}))
}

#[tokio::test]
async fn the_schema_is_sent_the_way_that_was_chosen() {
    let server = ModelServer::always(Step::json(200, chat("hi")));
    for (way, constrains) in
        [(SchemaMode::Words, false), (SchemaMode::ResponseFormat, true), (SchemaMode::LlamaGrammar, true)]
    {
        let backend = with_schema(&server, way);
        backend.complete(&ask()).await.unwrap();
        assert_eq!(backend.capabilities().constrains_replies, constrains);
        assert_eq!(backend.capabilities().preload_bytes, 6_000, "room for skills that fit");
    }
    let sent: Vec<Value> = server.requests().into_iter().map(|request| request.body).collect();
    let format = json!({
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": {"type": "object"}, "strict": false},
    });
    assert_eq!((sent[0].get("response_format"), sent[0].get("json_schema")), (None, None));
    assert_eq!((sent[1].get("response_format"), sent[1].get("json_schema")), (Some(&format), None));
    assert_eq!((sent[2].get("response_format"), sent[2].get("json_schema")), (None, Some(&json!({"type": "object"}))));
}

#[tokio::test]
async fn an_endpoint_that_does_not_know_the_schema_is_asked_without_it_from_then_on() {
    let server = ModelServer::start(vec![
        complaint("response_format.json_schema is not supported"),
        Step::json(200, chat("one")),
        Step::json(200, chat("two")),
    ]);
    let backend = with_schema(&server, SchemaMode::ResponseFormat);
    assert_eq!(backend.complete(&ask()).await.unwrap().text, "one");
    assert_eq!(backend.complete(&ask()).await.unwrap().text, "two");
    let sent: Vec<bool> =
        server.requests().iter().map(|request| request.body.get("response_format").is_some()).collect();
    assert_eq!(sent, [true, false, false]);
    assert!(!backend.capabilities().constrains_replies);
}

#[tokio::test]
async fn other_fields_that_an_endpoint_does_not_know_are_changed_or_left_out_from_then_on() {
    let server = ModelServer::start(vec![
        complaint("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        complaint("'temperature' does not support 0.2 with this model"),
        Step::json(
            422,
            json!({"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}),
        ),
        Step::json(200, chat("one")),
        Step::json(200, chat("two")),
    ]);
    let backend = openai(&server);
    assert_eq!(backend.complete(&ask()).await.unwrap().text, "one");
    assert_eq!(backend.complete(&ask()).await.unwrap().text, "two");
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    for request in &requests[3..] {
        let messages = request.body["messages"].clone();
        let expected = json!({"model": "small", "messages": messages, "max_completion_tokens": 100, "stream": true});
        assert_eq!(request.body, expected);
    }
}

#[tokio::test]
async fn a_complaint_that_leaving_fields_out_does_not_cure_is_told_and_nothing_is_learned() {
    let server = ModelServer::always(complaint("max_tokens is too large: 100"));
    let backend = openai(&server);
    for calls in [2, 4] {
        let (class, message) = failure(&backend).await;
        assert_eq!(class, ErrorClass::BadRequest);
        assert!(message.ends_with("answered 400: max_tokens is too large: 100"), "{message}");
        assert_eq!(server.requests().len(), calls);
    }
    assert!(server.requests()[2].body.get("max_tokens").is_some());
}
