//! Speaks from standard input: one JSON object a line with `messages`, `legal` and `tokens`, one reply a line.
//! `cargo run --release -p herm-model --example speak -- MODEL.gguf`

use std::io::BufRead as _;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use herm_model::{GenerationRequest, Generator, ModelFile, ReplyBounds};
use serde_json::{Value, json};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which model?")?;
    let threads = std::env::var("THREADS").ok().and_then(|threads| threads.parse().ok()).unwrap_or(2);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let started = Instant::now();
    let file = ModelFile::open(path.as_ref())?;
    let bounds = ReplyBounds { chars: 200, items: 8 };
    let mut speaker = pool.install(|| Generator::load(&file, bounds, 96 << 20, 4096))?;
    eprintln!("loaded in {:?}", started.elapsed());
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let messages: Vec<(&str, &str)> = asked["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|message| Some((message[0].as_str()?, message[1].as_str()?)))
            .collect();
        let most_tokens = asked["tokens"].as_u64().unwrap_or(200) as usize;
        let question = GenerationRequest {
            messages: &messages,
            legal: &asked["legal"],
            most_tokens,
            most_bytes: 1 << 16,
            fresh: true,
        };
        let started = Instant::now();
        let reply = pool.install(|| speaker.answer(&question, &AtomicBool::new(false)))?;
        let (effort, millis) = (reply.effort, started.elapsed().as_millis());
        let said = json!({
            "text": reply.text, "free": reply.free, "millis": millis as u64,
            "asked": effort.asked, "read": effort.read, "written": effort.written, "forced": effort.forced,
        });
        println!("{said}");
    }
    Ok(())
}
