//! Tasks that are paid for, with a facilitator that speaks x402 version 2.

use std::sync::{Arc, Mutex};

use herm_tests::model_server::{Gate, ModelServer, Step};
use herm_tests::web_server::{self, Asked};
use serde_json::{Value, json};

use crate::{answering_and, problem, run, until, with_model_and};

const DONE: &str = r#"{"done":1,"summary":"done","findings":[],"checked":[],"limits":[]}"#;

/// Standard base64, which the test has no crate for.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let three = [group[0], *group.get(1).unwrap_or(&0), *group.get(2).unwrap_or(&0)];
        let number = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize] as char;
            out.push(if place > group.len() { '=' } else { letter });
        }
    }
    out
}

fn unbase64(text: &str) -> Value {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(digit).collect();
    let mut bytes = Vec::new();
    for group in digits.chunks(4) {
        let number = group.iter().fold(0_u32, |sum, digit| sum << 6 | u32::from(*digit)) << (6 * (4 - group.len()));
        bytes.extend(&number.to_be_bytes()[1..group.len()]);
    }
    serde_json::from_slice(&bytes).unwrap()
}

/// A facilitator that keeps what it was asked, and settles each nonce once.
#[derive(Clone, Default)]
pub(crate) struct Facilitator(Arc<Mutex<Vec<(String, Value)>>>);

impl Facilitator {
    pub(crate) fn asked(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(path, _)| path == what).count()
    }

    pub(crate) fn answer(&self, asked: Asked) -> (u16, Vec<u8>) {
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        assert_eq!((&body["x402Version"], &body["paymentRequirements"]["scheme"]), (&json!(2), &json!("exact")));
        let nonce = body["paymentPayload"]["payload"]["authorization"]["nonce"].clone();
        let mut all = self.0.lock().unwrap();
        let is_new = !all.iter().any(|(path, nonce_seen)| path == "/settle" && *nonce_seen == nonce);
        all.push((asked.path.clone(), nonce.clone()));
        let answer = match (asked.path.as_str(), nonce.as_str()) {
            ("/verify", Some("bad")) => {
                json!({ "isValid": false, "invalidReason": "insufficient_funds", "payer": "0xpayer" })
            }
            ("/verify", _) => json!({ "isValid": true, "payer": "0xpayer" }),
            ("/settle", Some("late")) => {
                json!({ "success": false, "errorReason": "authorization_expired", "transaction": "", "network": "eip155:8453" })
            }
            ("/settle", _) if is_new => {
                json!({ "success": true, "transaction": "0xabc", "network": "eip155:8453", "payer": "0xpayer" })
            }
            _ => json!({ "success": false, "errorReason": "nonce_used", "transaction": "", "network": "eip155:8453" }),
        };
        (200, answer.to_string().into_bytes())
    }
}

/// What a task costs.
pub(crate) fn price(facilitator: &str) -> String {
    format!(
        "[serve.x402]\nfacilitator = \"{facilitator}\"\npay_to = \"0xherm\"\nnetwork = \"eip155:8453\"\nasset = \"0xtoken\"\n\
         amount = \"1000\"\ntoken_name = \"USDC\"\ntoken_version = \"2\""
    )
}

pub(crate) fn paid(nonce: &str, amount: &str) -> String {
    let accepted = json!({
        "scheme": "exact", "network": "eip155:8453", "amount": amount, "asset": "0xtoken", "payTo": "0xherm",
        "maxTimeoutSeconds": 300, "extra": { "name": "USDC", "version": "2" },
    });
    let payload = json!({ "signature": "0xsig", "authorization": { "nonce": nonce } });
    base64(json!({ "x402Version": 2, "accepted": accepted, "payload": payload }).to_string().as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_run_when_it_is_paid_for_and_paid_for_only_when_it_is_billable() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    let more = price(&address);
    tokio::task::spawn_blocking(move || {
        let model = ModelServer::start(vec![
            Step::chat(DONE),
            Step::text(401, "text/plain", "no"),
            Step::chat(DONE),
            Step::chat(DONE),
        ]);
        let operator = with_model_and(&model, &more);
        let serving = operator.serve();
        let client = serving.client();
        let with = |nonce: &str| client.with("payment-signature", &paid(nonce, "1000"));

        // Without payment: what it costs.
        let refused = run(&client, "7", "go");
        assert_eq!(problem(&refused, 402, "payment_required"), "payment required");
        let wanted = unbase64(refused.header("payment-required").unwrap());
        assert_eq!((&wanted["x402Version"], &wanted["accepts"][0]["amount"]), (&json!(2), &json!("1000")));
        assert_eq!(
            (&wanted["accepts"][0]["payTo"], &wanted["accepts"][0]["extra"]["name"]),
            (&json!("0xherm"), &json!("USDC"))
        );

        // With it: verified, run, settled.
        let answer = run(&with("one"), "7", "go");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(unbase64(answer.header("payment-response").unwrap())["transaction"], "0xabc");
        assert_eq!((facilitator.asked("/verify"), facilitator.asked("/settle")), (1, 1));

        // A task that fails is not paid for.
        let failed = run(&with("two"), "7", "go");
        assert_eq!((failed.status, failed.header("payment-response")), (200, None));
        assert_eq!(failed.json()["outcome"]["status"], "failed");
        assert_eq!(facilitator.asked("/settle"), 1);

        // However it is spelled.
        let spelled = base64(format!("{}   ", unbase64(&paid("one", "1000"))).as_bytes());
        let again = run(&client.with("payment-signature", &spelled), "7", "again");
        assert_eq!(problem(&again, 409, "conflict"), "this payment was used already");

        // A payment pays once; one that is not good, or not what was asked for, pays nothing.
        problem(&run(&with("one"), "7", "again"), 409, "conflict");
        assert!(problem(&run(&with("bad"), "7", "go"), 402, "payment_required").contains("insufficient_funds"));
        let cheap = client.with("payment-signature", &paid("three", "1"));
        assert!(problem(&run(&cheap, "7", "go"), 402, "payment_required").contains("not what is asked for"));
        problem(&run(&client.with("payment-signature", "%%%"), "7", "go"), 400, "invalid_input");
        assert_eq!(model.requests().len(), 2, "nothing ran that was not paid for");

        // Settling that fails at the end is told, and the answer is not handed out.
        let late = run(&with("late"), "7", "go");
        assert!(problem(&late, 402, "payment_required").contains("authorization_expired"), "{late:?}");
        let listed = client.get("/v1/tasks?state=failed").json()["tasks"][0].clone();
        let unpaid = client.get(&format!("/v1/tasks/{}", listed["task"].as_str().unwrap()));
        assert!(!unpaid.body.contains("done\\\""), "{unpaid:?}");
        assert_eq!(
            (&unpaid.json()["outcome"], &unpaid.json()["problem"]["kind"]),
            (&json!(null), &json!("payment_required"))
        );

        // The same task again costs nothing: it is the same task.
        let keyed = with("four").with("idempotency-key", "k");
        let first = run(&keyed, "7", "go");
        assert_eq!(first.status, 200, "{first:?}");
        let again = until("it written down", || {
            let again = run(&client.with("idempotency-key", "k"), "7", "go");
            (again.status == 200).then_some(again)
        });
        assert_eq!(again.json()["task"], first.json()["task"]);
        assert_eq!(facilitator.asked("/settle"), 3);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_task_that_was_cut_off_is_settled_after_the_restart() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    let more = price(&address);
    tokio::task::spawn_blocking(move || {
        let model = ModelServer::start(vec![Step::never(), Step::chat(DONE)]);
        let operator = with_model_and(&model, &more);
        let serving = operator.serve();
        let client = serving.client().with("payment-signature", &paid("one", "1000")).with("prefer", "respond-async");
        let task = run(&client, "7", "go").json()["task"].as_str().unwrap().to_owned();
        until("a request", || (!model.requests().is_empty()).then_some(()));
        serving.kill();
        let serving = operator.serve();
        let view = crate::over(&serving.client(), &task);
        assert_eq!((&view["state"], facilitator.asked("/settle")), (&json!("done"), 1), "{view}");
        assert_eq!(unbase64(view["payment"].as_str().unwrap())["transaction"], "0xabc");
        // The same payment for another task, after the restart.
        problem(&run(&serving.client().with("payment-signature", &paid("one", "1000")), "7", "more"), 409, "conflict");
    })
    .await
    .unwrap();
}

#[test]
fn a_payment_is_not_lost_to_a_facilitator_that_is_away() {
    let operator = answering_and(DONE, &price("http://127.0.0.1:1"));
    let serving = operator.serve();
    let client = serving.client().with("payment-signature", &paid("one", "1000"));
    for _ in 0..2 {
        problem(&run(&client, "7", "go"), 503, "unavailable");
    }
}

#[test]
fn a_price_that_is_not_whole_is_told_before_anyone_is_answered() {
    let operator = answering_and(DONE, "[serve.x402]\nfacilitator = \"http://127.0.0.1:1\"\npay_to = \"0x\"");
    let run = operator.herm().run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("[serve.x402] needs network"), "{run:?}");
}

/// Whatever a caller can read: nothing of it has the answer that was not paid for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_not_paid_for_can_be_read_nowhere() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    let more = price(&address);
    tokio::task::spawn_blocking(move || {
        let secret = r#"{"summary":"the xylophone is in the attic"}"#;
        let operator = answering_and(secret, &more);
        let keys = ["alice", "bob"].map(|name| operator.key(&[name, "--subscriber", name]));
        let boss = operator.key(&["boss", "--operations", "operate"]);
        let serving = operator.serve();
        let late = serving.client().with("payment-signature", &paid("late", "1000"));
        let refused = run(&late.key(&keys[0]), "7", "where is it");
        assert!(problem(&refused, 402, "payment_required").contains("authorization_expired"), "{refused:?}");
        for (who, key) in [("alice", &keys[0]), ("bob", &keys[1]), ("boss", &boss)] {
            let client = serving.client().key(key);
            let tasks = client.get("/v1/tasks").json()["tasks"].as_array().unwrap().clone();
            let mut paths: Vec<String> = [
                "memory/search?q=xylophone",
                "memory/search?q=attic",
                "history",
                "receipts",
                "receipts/2",
                "skills",
                "charts",
            ]
            .map(|path| format!("/v1/agents/7/{path}"))
            .into();
            for task in &tasks {
                let name = task["task"].as_str().unwrap();
                paths.extend([format!("/v1/tasks/{name}"), format!("/v1/tasks/{name}/events")]);
            }
            for path in paths.iter().chain([&"/v1/tasks".to_owned()]) {
                let answer = client.get(path);
                assert!(
                    !answer.body.contains("xylophone") && !answer.body.contains("attic"),
                    "{who} {path}: {answer:?}"
                );
            }
            // A digest of a short answer is as good as the answer.
            let receipt = client.get("/v1/agents/7/receipts/2");
            if receipt.status == 200 {
                assert_eq!(receipt.json()["statement"]["predicate"]["task"]["result"], json!(null));
            }
        }
        // As it happens, and through the other door.
        let alice = serving.client().key(&keys[0]);
        let chat = json!({ "model": "agent-7", "messages": [{ "role": "user", "content": "where is it" }] });
        let late_again = |number: u32| {
            let authorization = json!({ "nonce": "late", "from": format!("0x{number}") });
            let mut payment = unbase64(&paid("late", "1000"));
            payment["payload"]["authorization"] = authorization;
            base64(payment.to_string().as_bytes())
        };
        let streamed = alice
            .with("payment-signature", &late_again(1))
            .with("accept", "text/event-stream")
            .post("/v1/agents/7/tasks", &json!({ "input": "where is it" }));
        let chatted = alice.with("payment-signature", &late_again(2)).post("/v1/chat/completions", &chat);
        let mut streaming = chat.clone();
        streaming["stream"] = json!(true);
        let told = alice.with("payment-signature", &late_again(3)).post("/v1/chat/completions", &streaming);
        assert!(told.body.contains("chat.completion.chunk"), "it is a stream: {told:?}");
        for answer in [streamed, chatted, told] {
            assert!(answer.body.contains("authorization_expired") && !answer.body.contains("xylophone"), "{answer:?}");
        }
        // Paid for, it is found again.
        let good = alice.with("payment-signature", &paid("good", "1000"));
        assert!(run(&good, "7", "where is it").body.contains("xylophone"));
        assert!(alice.get("/v1/agents/7/memory/search?q=xylophone").body.contains("attic"));
        // What was not kept is accounted for all the same, and replays.
        drop(serving);
        for arguments in
            [["receipts", "verify", "7"].as_slice(), &["receipts", "replay", "7", "2"], &["brain", "verify", "7"]]
        {
            let ran = operator.herm().run(arguments);
            assert_eq!(ran.code, 0, "{ran:?}");
        }
    })
    .await
    .unwrap();
}

/// As it happens, too: others who may see the task follow it while it runs, and its caller streams a chat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_not_paid_for_is_told_to_none_who_follow_the_task() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    let more = price(&address);
    tokio::task::spawn_blocking(move || {
        for by_chat in [false, true] {
            let gate = Gate::default();
            let model = ModelServer::start(vec![
                Step::chat("The xylophone is in the attic, I think.").after(&gate),
                Step::chat(r#"{"summary":"the xylophone is in the attic"}"#),
            ]);
            let operator = with_model_and(&model, &more);
            let [alice, bob] = ["alice", "bob"].map(|name| operator.key(&[name, "--subscriber", name]));
            let boss = operator.key(&["boss", "--operations", "operate"]);
            let serving = operator.serve();
            let [alice, bob, boss] = [alice, bob, boss].map(|key| serving.client().key(&key));
            let late = alice.with("payment-signature", &paid("late", "1000")).with("content-type", "application/json");
            let (path, body) = match by_chat {
                true => {
                    let said = json!([{ "role": "user", "content": "where is it" }]);
                    ("/v1/chat/completions", json!({ "model": "agent-7", "stream": true, "messages": said }))
                }
                false => ("/v1/agents/7/tasks", json!({ "input": "where is it" })),
            };
            let body = body.to_string();
            let late = late.with("accept", "text/event-stream");
            let running = late.open("POST", path, Some(body.as_bytes()));
            until("a request", || (!model.requests().is_empty()).then_some(()));
            let listed = alice.get("/v1/tasks?state=running").json();
            let task = listed["tasks"][0]["task"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
            let events = format!("/v1/tasks/{task}/events");
            problem(&bob.get(&events), 404, "not_found");
            let mut following = [&alice, &boss].map(|client| client.open("GET", &events, None));
            for reader in &mut following {
                reader.until("event: turn_started");
            }
            gate.open();
            let [again, operated] = following.map(|reader| reader.rest());
            for answer in [&again, &operated] {
                assert!(answer.body.contains("event: reply") && answer.body.contains("event: problem"), "{answer:?}");
            }
            let all = [running.rest(), again, operated, alice.with("last-event-id", "1").get(&events)];
            for answer in all {
                assert!(answer.body.contains("authorization_expired"), "{answer:?}");
                assert!(!answer.body.contains("xylophone") && !answer.body.contains("attic"), "{answer:?}");
            }
            assert_eq!(model.requests().len(), 2, "what it said first was no answer, and it was asked again");
        }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_was_taken_before_the_kill_is_not_taken_again() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    let more = price(&address);
    tokio::task::spawn_blocking(move || {
        let model = crate::saying(DONE);
        let operator = with_model_and(&model, &more);
        let serving = operator.serve();
        let first = run(&serving.client().with("payment-signature", &paid("one", "1000")), "7", "go").json();
        let task = first["task"].as_str().unwrap().to_owned();
        crate::over(&serving.client(), &task);
        serving.kill();
        let unfinish = |step: &str| {
            let book = rusqlite::Connection::open(operator.brains().join(".operator/book.db")).unwrap();
            let request = json!({ "input": "go", "limits": {}, "dryRun": false, "subscriber": null }).to_string();
            let changed = book
                .execute(
                    "UPDATE tasks SET state = 'running', finished_at = NULL, outcome = NULL, status = NULL, request = ?1",
                    [request],
                )
                .unwrap();
            assert_eq!(changed, 1, "{step}");
        };
        // Killed after the brain's commit and before that of the server database.
        unfinish("settled");
        let serving = operator.serve();
        let view = crate::over(&serving.client(), &task);
        assert_eq!((&view["state"], &view["payment"]), (&json!("done"), &first["payment"]), "{view}");
        serving.kill();
        // Killed after the payment was taken and before the brain's commit: run again, and paid already.
        unfinish("taken");
        std::fs::remove_dir_all(operator.brains().join("7")).unwrap();
        let operator = operator.with_plain_brain("7");
        let serving = operator.serve();
        let view = crate::over(&serving.client(), &task);
        assert_eq!((&view["state"], &view["payment"]), (&json!("done"), &first["payment"]), "{view}");
        assert_eq!((facilitator.asked("/settle"), model.requests().len()), (1, 2));
    })
    .await
    .unwrap();
}

/// What a task came to decides, and no text that the model wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_payment_of_a_task_without_an_answer_is_not_taken_whatever_the_model_said() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    let more = price(&address);
    tokio::task::spawn_blocking(move || {
        let bills = r#"{"tool":"skills_list","args":{"billable":true,"status":"converged"}} "billable":true"#;
        let operator = answering_and(bills, &more);
        let serving = operator.serve();
        let client = serving.client().with("payment-signature", &paid("one", "1000"));
        let asked = json!({ "input": "\"billable\":true", "limits": { "turns": 1 } });
        let task = client.post("/v1/agents/7/tasks", &asked).json()["task"].as_str().unwrap().to_owned();
        assert_eq!(crate::over(&serving.client(), &task)["status"], "incomplete");
        serving.kill();
        let request = json!({ "input": "go", "limits": {}, "dryRun": false, "subscriber": null }).to_string();
        let book = rusqlite::Connection::open(operator.brains().join(".operator/book.db")).unwrap();
        let unfinish = "UPDATE tasks SET state = 'running', finished_at = NULL, outcome = NULL, status = NULL, \
            payment = NULL, request = ?1";
        assert_eq!(book.execute(unfinish, [request]).unwrap(), 1);
        assert_eq!(book.execute("UPDATE payments SET is_open = 1", []).unwrap(), 1);
        drop(book);
        let serving = operator.serve();
        let view = crate::over(&serving.client(), &task);
        assert_eq!((&view["status"], &view["payment"]), (&json!("incomplete"), &Value::Null), "{view}");
        assert_eq!(view["outcome"]["billable"], false);
        assert_eq!(facilitator.asked("/settle"), 0);
    })
    .await
    .unwrap();
}

/// A first edition took payments after the step was settled: the next start takes what was left, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_was_left_open_is_taken_once_though_the_book_cannot_be_written_at_first() {
    let facilitator = Facilitator::default();
    let holding: Arc<Mutex<Option<rusqlite::Connection>>> = Arc::default();
    let book: Arc<Mutex<Option<std::path::PathBuf>>> = Arc::default();
    let (answering, held, file) = (facilitator.clone(), Arc::clone(&holding), Arc::clone(&book));
    let address = web_server::serve(Arc::new(move |asked| {
        if let (Some(file), "/settle") = (file.lock().unwrap().take(), asked.path.as_str()) {
            let connection = rusqlite::Connection::open(file).unwrap();
            connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            *held.lock().unwrap() = Some(connection);
        }
        answering.answer(asked)
    }))
    .await;
    let more = price(&address);
    tokio::task::spawn_blocking(move || {
        let model = crate::saying(DONE);
        let operator = with_model_and(&model, &more);
        let serving = operator.serve();
        let first = run(&serving.client().with("payment-signature", &paid("one", "1000")), "7", "go").json();
        let task = first["task"].as_str().unwrap().to_owned();
        crate::over(&serving.client(), &task);
        serving.kill();
        let path = operator.brains().join(".operator/book.db");
        let request = json!({ "input": "go", "limits": {}, "dryRun": false, "subscriber": null }).to_string();
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection
            .execute(
                "UPDATE tasks SET state = 'running', finished_at = NULL, outcome = NULL, status = NULL, payment = NULL, request = ?1",
                [request],
            )
            .unwrap();
        connection
            .execute("UPDATE payments SET is_open = 1, payment = replace(payment, '\"one\"', '\"two\"')", [])
            .unwrap();
        drop(connection);
        *book.lock().unwrap() = Some(path);
        let serving = operator.serve();
        until("a book that cannot be written", || operator.logged().contains("is not taken up yet").then_some(()));
        drop(holding.lock().unwrap().take());
        let view = crate::over(&serving.client(), &task);
        assert_eq!((&view["state"], &view["outcome"]["answer"]), (&json!("done"), &json!(DONE)), "{view}");
        assert_eq!(unbase64(view["payment"].as_str().unwrap())["transaction"], "0xabc");
        assert_eq!((facilitator.asked("/settle"), model.requests().len()), (2, 1), "one payment each");
    })
    .await
    .unwrap();
}
