//! Whatever is sent: a clear answer, a server that goes on, and nothing lost.

use std::io::{Read as _, Write as _};

use serde_json::json;

use crate::{answering, answering_and, operator, problem, run};

const DONE: &str = r#"{"done":1,"summary":"done","findings":[],"checked":[],"limits":[]}"#;

#[test]
fn a_body_that_is_wrong_is_told_what_is_wrong_with_it() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let client = serving.client().with("content-type", "application/json");
    let send = |body: &[u8]| client.send("POST", "/v1/agents/7/tasks", Some(body));
    let cases: [(&[u8], &str); 9] = [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "does not fit"),
        (b"{}", "missing field `input`"),
        (br#"{"input":7}"#, "invalid type: integer `7`, expected a string"),
        (br#"{"input":"x","turns":3}"#, "unknown field `turns`"),
        (br#"{"input":"x","input":"y"}"#, "duplicate field `input`"),
        (br#"{"input":"x","onDisconnect":"explode"}"#, "unknown variant `explode`"),
    ];
    for (body, what) in cases {
        let said = problem(&send(body), 400, "invalid_input");
        assert!(said.contains(what), "{said} has not {what}");
    }
    for input in ["", "  \n", "a\0b"] {
        problem(&send(json!({ "input": input }).to_string().as_bytes()), 400, "invalid_input");
    }
    let plain = serving.client().with("content-type", "text/plain");
    problem(&plain.send("POST", "/v1/agents/7/tasks", Some(b"{}")), 415, "unsupported_media_type");
    let deep = format!("{{\"input\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    problem(&send(deep.as_bytes()), 400, "invalid_input");
    assert_eq!(run(&serving.client(), "7", "go").status, 200);
}

#[test]
fn paths_and_numbers_that_are_tricks_lead_nowhere() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let client = serving.client();
    for path in [
        "/v1/agents/..%2f7",
        "/v1/agents/7%00",
        "/v1/agents/-1",
        "/v1/agents/07",
        "/v1/agents/7%2e",
        "/v1/agents/7%20",
        "/v1/agents/%ff",
    ] {
        problem(&client.get(path), 400, "invalid_input");
    }
    for path in [
        "/v1/agents/../7",
        "/v1/agents//7",
        "/v1/",
        "/app/../../../etc/passwd",
        "/app/..%2f..%2fetc%2fpasswd",
        "/v2",
        "/%2e%2e/",
    ] {
        problem(&client.get(path), 404, "not_found");
    }
    for path in [
        "/v1/agents/99999999999999999999",
        "/v1/tasks/..",
        "/v1/tasks/x%2fy",
        "/v1/agents/7/receipts/0",
        "/v1/agents/7/receipts/99999999999999999999999",
        "/v1/agents/7/skills/none",
        "/v1/agents/7/skills/none/versions/1",
    ] {
        let answer = client.get(path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
    }
    problem(&client.get("/v1/agents/7/skills/..%2f..%2fsystem.md"), 400, "invalid_input");
    for query in ["limit=0", "limit=1000000", "limit=x", "limit=-1", "nonsense=1", "cursor=%00"] {
        problem(&client.get(&format!("/v1/agents?{query}")), 400, "invalid_input");
    }
    problem(&client.get("/v1/agents/7/memory/search"), 400, "invalid_input");
    problem(&client.send("PATCH", "/v1/agents/7", None), 405, "method_not_allowed");
    problem(&client.post("/v1/agents/7", &json!({})), 405, "method_not_allowed");
    for (name, value) in [("idempotency-key", ""), ("idempotency-key", "a b"), ("idempotency-key", "é")] {
        problem(&run(&client.with(name, value), "7", "go"), 400, "invalid_input");
    }
    problem(&run(&client.with("idempotency-key", &"k".repeat(129)), "7", "go"), 400, "invalid_input");
}

#[test]
fn what_is_too_large_is_refused_without_being_read() {
    let operator = answering_and(DONE, "[serve]\nbody_bytes = 4096");
    let serving = operator.serve();
    let client = serving.client();
    let said = problem(&run(&client, "7", &"x".repeat(5_000)), 413, "too_large");
    assert_eq!(said, "the body has more than 4096 bytes");
    // Announced, never sent: answered all the same, and the rest is not waited for.
    let head = format!(
        "POST /v1/agents/7/tasks HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        serving.address()
    );
    let mut stream = client.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16));
    let mut sent = 0_u64;
    while sent < 64 << 20 && stream.write_all(chunk.as_bytes()).is_ok() {
        sent += chunk.len() as u64;
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(sent < 64 << 20 || answer.contains("413"), "{sent} bytes were taken: {answer:?}");
    assert_eq!(run(&client, "7", "go").status, 200);
}

#[test]
fn bombs_of_headers_are_refused() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let client = serving.client();
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let long = format!("x-long: {}\r\n", "y".repeat(64 << 10));
    let line = "z".repeat(64 << 10);
    for request in [
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{long}\r\n"),
        format!("GET /{line} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ] {
        let status = client.raw(request.as_bytes()).map(|answer| answer.status);
        assert!(matches!(status, None | Some(400 | 414 | 431)), "{status:?}");
    }
    for junk in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0\0\0\0\r\n\r\n"]
    {
        let status = client.raw(junk).map(|answer| answer.status);
        assert!(matches!(status, None | Some(400 | 505)), "{status:?}");
    }
    assert_eq!(client.get("/healthz").status, 200);
}

#[test]
fn clients_that_drip_are_cut_off_and_hold_nobody_up() {
    let operator = answering_and(DONE, "[serve]\nhead_secs = 1\nsilence_secs = 1\nconnections = 8");
    let serving = operator.serve();
    let client = serving.client();
    // As many as there may be, each with half a request.
    let mut slow: Vec<_> = (0..8).map(|_| client.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").unwrap();
    }
    for mut stream in slow {
        let mut rest = Vec::new();
        // Cut off, with or without a word: read to its end means it was closed.
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!(client.get("/healthz").status, 200);
    // A body that stops coming.
    let mut stream = client.connect();
    let head = format!(
        "POST /v1/agents/7/tasks HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        serving.address()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let answer = herm_tests::http::Incoming::read(stream).expect("an answer").rest();
    assert_eq!(problem(&answer, 408, "timeout"), "the body stopped coming");
    // One that never stops, and never comes to anything.
    let mut stream = client.connect();
    let head = head.replace("content-length: 100", "content-length: 1000000");
    stream.write_all(head.as_bytes()).unwrap();
    let mut dripping = stream.try_clone().unwrap();
    let drips = std::thread::spawn(move || {
        while dripping.write_all(b" ").is_ok() {
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
    });
    let answer = herm_tests::http::Incoming::read(stream).expect("an answer").rest();
    assert_eq!(problem(&answer, 408, "timeout"), "the body comes too slowly");
    drips.join().unwrap();
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let operator = answering_and(DONE, "[serve]\nsilence_secs = 1\nconnections = 2");
    let serving = operator.serve();
    let client = serving.client();
    let request = format!("GET /openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n", serving.address());
    let mut greedy = client.connect();
    // It asks and asks, and reads nothing: once everything between the two is full, it is cut off, and its next
    // request fails.
    let mut asked = 0_u32;
    while greedy.write_all(request.as_bytes()).is_ok() {
        asked += 1;
        assert!(asked < 10_000_000, "it is never cut off");
    }
    assert_eq!(client.get("/healthz").status, 200);
}

#[test]
fn hostile_words_come_back_as_they_are_and_nothing_is_served_as_a_page() {
    let hostile = r#"{"answer":"<script>alert(1)</script><img src=x onerror=alert(1)>"}"#;
    let operator = answering(hostile);
    let serving = operator.serve();
    let client = serving.client();
    let answer = run(&client, "7", "<script>alert(2)</script>");
    assert_eq!(answer.json()["outcome"]["answer"], hostile);
    for path in ["/v1/tasks", "/v1/agents/7/history", "/v1/agents/7/memory/search?q=script", "/%3Cscript%3E"] {
        let answer = client.get(path);
        let kind = answer.header("content-type").unwrap();
        assert!(kind.starts_with("application/"), "{path}: {kind}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    let page = client.get("/");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
}

#[test]
fn every_answer_has_a_name_and_a_good_one_is_taken_over() {
    let operator = operator();
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(client.with("x-request-id", "abc-1").get("/healthz").header("x-request-id"), Some("abc-1"));
    for bad in ["", "a b", "<x>", &"x".repeat(65)] {
        let answer = client.with("x-request-id", bad).get("/nothing");
        assert_ne!(answer.header("x-request-id"), Some(bad));
        problem(&answer, 404, "not_found");
    }
}
