//! What holds for both formats: connections, patience, bounds and secrets.

use super::*;

#[tokio::test]
async fn twenty_calls_one_after_the_other_use_one_connection() {
    let stream = Step::sse([delta("hi"), finished("stop"), "[DONE]".into()]);
    let failing = Step::json(500, json!({"error": {"message": "x"}}));
    for step in [Step::json(200, chat("hi")), stream.clone(), stream.pause(Duration::from_millis(1)), failing] {
        let server = ModelServer::always(step);
        let backend = openai(&server);
        for _ in 0..20 {
            // Whether it answers or fails: the connection is as good as before.
            let _ = backend.complete(&ask()).await;
        }
        assert_eq!((server.requests().len(), server.connections()), (20, 1));
    }
}

#[tokio::test]
async fn backends_that_share_a_client_share_its_connection() {
    let server = ModelServer::start(vec![Step::json(200, chat("hi")), Step::json(200, message("hi"))]);
    for backend in both(&server, &client()) {
        backend.complete(&ask()).await.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (2, 1));
}

#[tokio::test]
async fn a_server_that_falls_silent_is_a_timeout() {
    let client = client().idle_timeout(Duration::from_millis(40));
    for step in [
        Step::never(),
        Step::sse([delta("half a re")]).then_silence(),
        Step::text(200, "application/json", "{\"choices\":").then_silence(),
        Step::text(200, "application/json", " ").then_silence(),
    ] {
        let server = ModelServer::always(step);
        for backend in both(&server, &client) {
            let (class, message) = failure(backend.as_ref()).await;
            assert_eq!(class, ErrorClass::Timeout);
            assert!(message.ends_with("sent nothing for 40 ms"), "{message}");
        }
    }
}

#[tokio::test]
async fn an_error_whose_body_never_ends_is_classed_by_its_status() {
    let client = client().idle_timeout(Duration::from_millis(400));
    let server = ModelServer::always(Step::text(429, "text/plain", "slow down").then_silence());
    for backend in both(&server, &client) {
        let (class, message) = failure(backend.as_ref()).await;
        assert_eq!(class, ErrorClass::RateLimit);
        assert!(message.ends_with("answered 429: slow down"), "{message}");
    }
}

#[tokio::test]
async fn dropping_the_call_hangs_up() {
    let server = ModelServer::always(Step::sse([delta("half a re")]).then_silence());
    let backend = openai(&server);
    let question = ask();
    tokio::select! {
        answer = backend.complete(&question) => panic!("the server never finishes, but there is {answer:?}"),
        () = asked(&server) => {}
    }
    hung_up(&server).await;
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_a_network_failure() {
    // A port the system gives to nobody, so that no server of another test can be behind it.
    let free = "127.0.0.1:1";
    let settings = EndpointSettings::openai(format!("http://{free}/v1?token={KEY}"), "small");
    let (class, message) = failure(&OpenAi::new(client(), settings).unwrap()).await;
    assert_eq!(class, ErrorClass::Network);
    assert!(message.starts_with(&format!("cannot reach {free}/v1/chat/completions: ")), "{message}");
    assert!(!message.contains(KEY), "{message}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = ModelServer::always(Step::json(200, chat("hi")));
    let server = ModelServer::always(Step::text(307, "text/plain", "").header("location", &elsewhere.url()));
    for backend in both(&server, &client()) {
        let (class, message) = failure(backend.as_ref()).await;
        assert_eq!(class, ErrorClass::BadRequest);
        assert!(
            message.ends_with("answered 307: (a redirect, which is not followed: check the base URL)"),
            "{message}"
        );
    }
    assert_eq!(elsewhere.connections(), 0);
}

/// Far above what sockets and buffers hold, far below the five gibibytes that the server would send.
const A_LOT: u64 = 128 * 1024 * 1024;

#[tokio::test]
async fn a_stream_without_end_is_cut_where_the_reply_is_full() {
    let piece = "é".repeat(10_000);
    let chat_event = format!("data: {}\n\n", delta(&piece));
    let text = json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}});
    let events = [chat_event, format!("data: {text}\n\n")];
    for (format, event) in events.into_iter().enumerate() {
        let server = ModelServer::always(Step::raw_sse([": begin\n\n"]).then_endless(event));
        let backend = &both(&server, &client())[format];
        let mut question = ask();
        question.max_output_bytes = 99_999;
        let answer = backend.complete(&question).await.unwrap();
        assert_eq!((answer.text, answer.finish), ("é".repeat(49_999), FinishReason::Length));
        hung_up(&server).await;
        assert!(server.sent() < A_LOT, "{} bytes were sent", server.sent());
    }
}

#[tokio::test]
async fn a_whole_body_with_too_much_text_is_cut_as_well() {
    let server =
        ModelServer::start(vec![Step::json(200, chat(&"é".repeat(6000))), Step::json(200, message(&"é".repeat(6000)))]);
    for backend in both(&server, &client()) {
        let mut question = ask();
        question.max_output_bytes = 9_999;
        let answer = backend.complete(&question).await.unwrap();
        assert_eq!((answer.text, answer.finish), ("é".repeat(4_999), FinishReason::Length));
    }
}

#[tokio::test]
async fn nothing_without_end_is_held() {
    let filler = vec![b'a'; 64 * 1024];
    for (step, class) in [
        (Step::text(200, "application/json", "{\"choices\":[{\"message\":{\"content\":\""), ErrorClass::BadReply),
        (Step::raw_sse(["data: {\"choices\":[{\"delta\":{\"content\":\""]), ErrorClass::BadReply),
        (Step::raw_sse([": a comment without end "]), ErrorClass::BadReply),
        (Step::text(200, "text/html", "<html>"), ErrorClass::BadReply),
        (Step::text(200, "text/plain", "hello "), ErrorClass::BadReply),
        (Step::text(500, "text/plain", "it broke "), ErrorClass::Server),
        (Step::text(400, "application/json", "{\"error\":{\"message\":\""), ErrorClass::BadRequest),
    ] {
        let server = ModelServer::always(step.then_endless(filler.clone()));
        let (failed, message) = failure(&openai(&server)).await;
        assert_eq!(failed, class, "{message}");
        assert!(message.chars().count() <= 400, "{message}");
        hung_up(&server).await;
        assert!(server.sent() < A_LOT, "{} bytes were sent", server.sent());
    }
}

#[tokio::test]
async fn a_stream_that_only_pads_is_given_up() {
    let padding = format!(": {}\n\n", "x".repeat(256 * 1024));
    let server = ModelServer::always(Step::raw_sse([": begin\n\n"]).then_endless(padding));
    let (class, message) = failure(&openai(&server)).await;
    assert_eq!(class, ErrorClass::BadReply);
    assert!(message.ends_with("sent more than 268435456 bytes without an end"), "{message}");
    hung_up(&server).await;
    assert!(server.sent() < 4 * A_LOT, "{} bytes were sent", server.sent());
}

#[tokio::test]
async fn no_key_is_in_any_debug_output_or_error() {
    let header = "another-secret-value";
    let echo = |text: &str| text.replace("KEY", KEY).replace("HEADER", header);
    let said = echo("wrong key KEY\u{1b}[31m\nheader HEADER (Bearer KEY)");
    let server = ModelServer::start(
        [
            Step::json(401, json!({"error": {"message": said}})),
            Step::json(401, json!({"error": said})),
            Step::json(403, json!({"detail": {"why": said}})),
            Step::text(500, "text/plain", said.clone()),
            Step::json(200, json!({"error": {"code": 401, "message": said}})),
            Step::sse([json!({"error": {"message": said}}).to_string()]),
            Step::raw_sse([format!("event: error\ndata: {KEY} {header}\n\n")]),
            Step::text(200, "text/plain", said.clone()),
            Step::text(200, "application/json", format!("{{{said}")),
            Step::sse([KEY]),
        ]
        .into_iter()
        .flat_map(|step| [step.clone(), step])
        .collect(),
    );
    let client = client();
    let mut openai = openai_settings(&server);
    openai.extra_headers = vec![("x-secret".into(), header.into())];
    let mut anthropic = anthropic_settings(&server);
    anthropic.extra_headers = openai.extra_headers.clone();
    let mut shown = format!("{openai:?} {anthropic:#?} {client:?}");
    let backends: [Arc<dyn Backend>; 2] =
        [Arc::new(OpenAi::new(client.clone(), openai).unwrap()), Arc::new(Anthropic::new(client, anthropic).unwrap())];
    for _ in 0..10 {
        for backend in &backends {
            let error = backend.complete(&ask()).await.unwrap_err();
            assert!(!error.message.contains(char::is_control), "{error}");
            shown += &format!("{backend:?} {error} {error:?} {:?}\n", herm::error::Error::from(error.clone()));
        }
    }
    assert_eq!(server.requests().len(), 20);
    assert!(shown.contains("[key]"));
    assert!(!shown.contains(KEY) && !shown.contains(header), "{shown}");
}
