//! How fast a real model inside the process reads and writes. `cargo bench -p herm-tests --features local --bench local`

use std::sync::Arc;
use std::time::Instant;

use herm::backend::{Ask, Backend, ChatMessage, Local, LocalSettings, Purpose, Shelf, Speaker};
use serde_json::{Value, json};

fn ask(system: &str, user: &str, legal: Value, tokens: u32) -> Ask {
    let message = |role, content: &str| ChatMessage { role, content: content.into() };
    Ask {
        messages: vec![message(Speaker::System, system), message(Speaker::User, user)],
        purpose: Purpose::Turn,
        legal: Arc::new(legal),
        max_output_tokens: tokens,
        max_output_bytes: 1 << 16,
        temperature: 0.0,
    }
}

fn main() {
    let model = std::env::var("HERM_MODEL").expect("HERM_MODEL");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let shelf = Shelf::new();
    let mut settings = LocalSettings::new(&model);
    if let Ok(threads) = std::env::var("THREADS") {
        settings.threads = threads.parse().ok();
    }
    let t = Instant::now();
    let local = Local::new(&shelf, settings).expect("a model");
    println!("header {:?}", t.elapsed());
    let t = Instant::now();
    let first =
        runtime.block_on(local.complete(&ask("You are helpful.", "Say hi.", Value::Bool(true), 1))).expect("a reply");
    println!("load + 1 token {:?} {first:?}", t.elapsed());
    let t = Instant::now();
    let reply = runtime
        .block_on(local.complete(&ask(
            "You are helpful.",
            "What is the capital of France? Tell me a story about it.",
            Value::Bool(true),
            128,
        )))
        .expect("a reply");
    println!("{:?} {reply:?}", t.elapsed());
    let long: String = (0..120).map(|n| format!("Item {n} lies in the blue box near the door. ")).collect();
    let t = Instant::now();
    let reply =
        runtime.block_on(local.complete(&ask(&long, "Where is item 7?", Value::Bool(true), 1))).expect("a reply");
    println!("long {:?} {reply:?}", t.elapsed());
    let t = Instant::now();
    let reply =
        runtime.block_on(local.complete(&ask(&long, "Where is item 7?", Value::Bool(true), 64))).expect("a reply");
    println!("again {:?} {reply:?}", t.elapsed());
    let legal = json!({"anyOf":[{"type":"object","additionalProperties":false,"required":["tool","args"],"properties":{"tool":{"const":"search"},"args":{"type":"object","additionalProperties":false,"required":["query"],"properties":{"query":{"type":"string"}}}}}]});
    let t = Instant::now();
    let reply = runtime
        .block_on(local.complete(&ask("You call tools by writing JSON.", "Who wrote Hamlet?", legal, 64)))
        .expect("a reply");
    println!("legal {:?} {reply:?}", t.elapsed());
    println!(
        "{}",
        std::fs::read_to_string("/proc/self/status")
            .unwrap()
            .lines()
            .filter(|l| l.starts_with("VmRSS") || l.starts_with("VmHWM"))
            .collect::<Vec<_>>()
            .join(" ")
    );
}
