//! A clock that jumps: forwards by months and back behind the beginning, between two requests of a server that runs. The
//! server's own clock is moved, with `libfaketime`; time that only grows, which waits and rates are measured in, stays.

use std::path::{Path, PathBuf};

use herm_tests::operator::{Operator, Serving};
use serde_json::json;

use crate::{answering_and, operator, over, problem, run, until, vault};

const DONE: &str = r#"{"done":1,"summary":"done","findings":[],"checked":[],"limits":[]}"#;
const DAY: i64 = 86_400;

/// Where Debian puts the library.
const PLACES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// A server whose clock the test moves.
struct Skewed {
    file: PathBuf,
    serving: Serving,
}

impl Skewed {
    /// Starts one; `None` where this machine has no such library.
    fn start(operator: &Operator) -> Option<Self> {
        let Some(library) = PLACES.iter().find(|place| Path::new(place).is_file()) else {
            let test = std::thread::current().name().unwrap_or("a clock that jumps").to_owned();
            herm_untested::not_run(&test, "libfaketime", "apt-get install faketime");
            return None;
        };
        let file = operator.path().join("clock");
        std::fs::write(&file, "+0").unwrap();
        let variables = [
            ("LD_PRELOAD", *library),
            ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        let serving = operator.serve_in(&[], &variables);
        Some(Self { file, serving })
    }

    /// From now on its clock is so many seconds ahead; behind, if there are fewer than none.
    fn jump(&self, seconds: i64) {
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}")).unwrap();
        std::fs::rename(next, &self.file).unwrap();
    }
}

/// Seconds since 1970 of a time as the server writes it.
fn seconds(text: &serde_json::Value) -> i64 {
    herm::Timestamp::parse(text.as_str().unwrap()).unwrap().millis() / 1_000
}

#[test]
fn a_clock_that_jumps_loses_no_task_and_runs_none_twice() {
    let operator = answering_and(DONE, "");
    let Some(skewed) = Skewed::start(&operator) else { return };
    let client = skewed.serving.client();
    let mut names = Vec::new();
    let mut began = None;
    for (number, jump) in [0, 90 * DAY, -400 * DAY, 3_600, 0].into_iter().enumerate() {
        skewed.jump(jump);
        // A client's own idea of the time is nobody's business.
        let client =
            client.with("date", "Thu, 01 Jan 1970 00:00:00 GMT").with("idempotency-key", &format!("k{number}"));
        let task = run(&client, "7", &format!("task {number}")).json();
        assert_eq!(task["status"], "converged", "{task}");
        let at = seconds(&task["createdAt"]) - jump;
        let began = *began.get_or_insert(at);
        assert!((began..began + 3_600).contains(&at), "the server's clock was moved, and is what counts: {task}");
        names.push(task["task"].as_str().unwrap().to_owned());
    }
    // Every key is still the task it was, whatever the time is now.
    for jump in [-800 * DAY, 800 * DAY] {
        skewed.jump(jump);
        for (number, name) in names.iter().enumerate() {
            let again =
                run(&client.with("idempotency-key", &format!("k{number}")), "7", &format!("task {number}")).json();
            assert_eq!(again["task"], json!(name));
        }
    }
    // What the brain did is in the order it was done in, and each task is a step.
    let receipts = client.get("/v1/agents/7/receipts").json();
    let mut done: Vec<&str> =
        receipts["receipts"].as_array().unwrap().iter().filter_map(|receipt| receipt["task"].as_str()).collect();
    done.reverse();
    assert_eq!(done, names);
    // Every task is listed, page by page, and none twice.
    let mut listed = Vec::new();
    let mut path = "/v1/tasks?limit=2".to_owned();
    loop {
        let page = client.get(&path).json();
        listed.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/tasks?limit=2&cursor={next}"),
            None => break,
        }
    }
    listed.sort();
    names.sort();
    assert_eq!(listed, names);
    assert!(skewed.serving.stop().success());
    let verified = operator.herm().run(&["receipts", "verify", "7"]);
    assert_eq!(verified.code, 0, "{verified:?}");
}

#[test]
fn a_task_that_waits_while_the_clock_jumps_runs_and_no_time_is_less_than_none() {
    let gate = herm_tests::model_server::Gate::default();
    let step = || herm_tests::model_server::Step::chat(DONE);
    let model = herm_tests::model_server::ModelServer::start(vec![step().after(&gate), step()]);
    let operator = crate::with_model(&model);
    let Some(skewed) = Skewed::start(&operator) else { return };
    let client = skewed.serving.client();
    let later = client.with("prefer", "respond-async");
    let names: Vec<String> =
        (0..2).map(|n| run(&later, "7", &format!("task {n}")).json()["task"].as_str().unwrap().to_owned()).collect();
    until("a request", || (!model.requests().is_empty()).then_some(()));
    // Behind the moment the first one began at: how long it runs is not a number below zero.
    skewed.jump(-2 * DAY);
    let status = client.get("/v1/operator/status").json();
    assert_eq!((&status["busy"][0]["sinceSecs"], &status["queue"]["waiting"]), (&json!(0), &json!(1)), "{status}");
    assert!(status["uptimeSecs"].as_u64().is_some_and(|uptime| uptime < 3_600), "{status}");
    gate.open();
    for name in &names {
        let view = over(&client, name);
        assert_eq!((&view["state"], &view["status"]), (&json!("done"), &json!("converged")), "{view}");
    }
    // A year ahead: deadlines are measured in time that passed, and nothing is late.
    skewed.jump(365 * DAY);
    assert_eq!(client.get("/readyz").status, 200);
    assert_eq!(client.get("/v1/agents/7/charts").status, 200);
}

#[test]
fn a_key_ends_by_the_servers_clock_and_a_rate_is_not_fooled_by_it() {
    let operator = answering_and(DONE, "");
    let ends = operator.key(&["ends", "--expires", "30", "--operations", "read"]);
    let slow = operator.key(&["slow", "--rate", "2", "--operations", "read"]);
    let Some(skewed) = Skewed::start(&operator) else { return };
    let client = skewed.serving.client();
    let ask = |key: &str| client.key(key).with("date", "Mon, 01 Jan 2001 00:00:00 GMT").get("/v1/agents/7");
    assert_eq!(ask(&ends).status, 200);
    skewed.jump(31 * DAY);
    assert_eq!(problem(&ask(&ends), 401, "unauthenticated"), "this key is not known, was revoked, or has ended");
    skewed.jump(-31 * DAY);
    assert_eq!(ask(&ends).status, 200, "it has not ended when it is not yet");
    // Two calls a minute are two calls a minute, whatever day it is; and the wait is a number of seconds to come.
    let mut refused = 0;
    for jump in [0, 10 * DAY, -10 * DAY, 400 * DAY, -400 * DAY, 0] {
        skewed.jump(jump);
        let answer = ask(&slow);
        if answer.status != 200 {
            problem(&answer, 429, "too_many_requests");
            let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
            refused += 1;
        }
    }
    assert!(refused >= 4, "a jump gives nobody more calls: {refused} of 6 were refused");
}

#[test]
fn a_lease_is_kept_though_the_clock_jumps() {
    let operator = answering_and(DONE, "");
    let path = |name: &str| operator.path().join(name).to_str().unwrap().to_owned();
    let config = std::fs::read_to_string(path("config.toml")).unwrap();
    let config = format!("{config}\n[snapshot]\nstore = {:?}\nplaintext = true\nlease_secs = 3600\n", path("store"));
    std::fs::write(path("config.toml"), config).unwrap();
    let Some(skewed) = Skewed::start(&operator) else { return };
    let client = skewed.serving.client();
    for jump in [0, 30 * DAY, -30 * DAY] {
        skewed.jump(jump);
        assert_eq!(run(&client, "7", "go").status, 200);
        // The lease is the server's: neither an hour nor a month on its clock gives it to another.
        let other = operator.herm().run(&["memory", "add", "7", "a thing"]);
        assert_eq!(other.code, 5, "{other:?}");
        assert!(other.stderr.contains("works on brain 7"), "{other:?}");
    }
    assert!(skewed.serving.stop().success());
    let after = operator.herm().run(&["memory", "add", "7", "a thing"]);
    assert_eq!(after.code, 0, "given back at the end: {after:?}");
}

/// The same jump is what time passing looks like: skills that nobody used retire, and the pass is counted.
#[test]
fn a_pass_of_the_curator_that_an_operator_asks_for_is_counted() {
    let operator = operator().configured("[curator]\nenabled = false\n");
    let Some(skewed) = Skewed::start(&operator) else { return };
    let client = skewed.serving.client();
    assert_eq!(run(&client, "1", &vault()).status, 200);
    // What the agent learned is used once, and never again.
    let used = run(&client, "1", &format!("/check-reentrancy-and-share-inflation {}", vault()));
    assert_eq!(used.status, 200, "{used:?}");
    let moved = || -> f64 {
        let metrics = client.get("/metrics").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("herm_curator_moved_total "));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{metrics}"))
    };
    skewed.jump(400 * DAY);
    assert_eq!(client.post("/v1/agents/1/curate", &json!({ "dryRun": true })).status, 200);
    assert_eq!(moved(), 0.0, "nothing was done");
    let report = client.post("/v1/agents/1/curate", &json!({})).json();
    assert!(moved() >= 1.0, "{report}");
}

/// Times are kept with four digits of the year.
#[test]
fn a_clock_past_the_year_9999_stops_no_server_and_loses_no_brain() {
    let operator = answering_and(DONE, "");
    let Some(skewed) = Skewed::start(&operator) else { return };
    let client = skewed.serving.client();
    assert_eq!(run(&client, "7", "before").json()["status"], "converged");
    skewed.jump(8_500 * 366 * DAY);
    // No answer can carry that date: connections end, and the log says why. Nothing panics.
    let mut refused = std::net::TcpStream::connect(skewed.serving.address()).unwrap();
    std::io::Write::write_all(&mut refused, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    let _ = std::io::Read::read_to_end(&mut refused, &mut heard);
    assert_eq!(String::from_utf8_lossy(&heard), "");
    skewed.jump(0);
    assert_eq!(client.get("/healthz").status, 200);
    let log = operator.logged();
    assert!(log.contains("past the year 9999") && !log.contains("panicked"), "{log}");
    assert_eq!(run(&client, "7", "back").json()["status"], "converged");
    assert_eq!(operator.herm().run(&["receipts", "verify", "7"]).code, 0);
}
