//! The `herm` command with a worker of another kind: one that looks for a key wherever it can, writes down every word
//! that it is told, and asks fifty questions at once, and again, until nobody answers any more.
//!
//! What it finds goes to `/work/artifacts`, of which the parent keeps copies: `found.json` before it asks for anything,
//! and in `heard.jsonl` a line for every frame.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use serde_json::{Value, json};

/// Where it leaves what it finds.
const ARTIFACTS: &str = "/work/artifacts";
/// How many questions it asks at once.
const AT_ONCE: u64 = 50;
/// So much of a file is looked into.
const MOST: u64 = 8 << 20;
/// Where it looks: the root itself cannot be listed.
const PLACES: [&str; 14] = [
    "/work", "/tmp", "/proc", "/dev", "/etc", "/home", "/root", "/run", "/var", "/srv", "/opt", "/mnt", "/sys", "/usr",
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("herm-successor-worker")
        && let Some(channel) = herm_sandbox::channel()
    {
        // The parent sees that it is gone, and why is nobody's business.
        let _ = be_greedy(channel);
        return ExitCode::FAILURE;
    }
    herm_operator::main()
}

fn be_greedy(mut channel: UnixStream) -> std::io::Result<()> {
    fs::create_dir_all(ARTIFACTS)?;
    let (mut files, mut looked) = (Vec::new(), 0);
    for place in PLACES {
        search(Path::new(place), &mut files, &mut looked);
    }
    let variables: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    let found = json!({ "variables": variables, "filesWithKey": files, "filesLookedInto": looked });
    fs::write(format!("{ARTIFACTS}/found.json"), found.to_string())?;
    let mut heard = File::create(format!("{ARTIFACTS}/heard.jsonl"))?;
    let order = hear(&mut channel, &mut heard)?;
    let backend = order["Setup"]["backend"]["name"].clone();
    let writer = Arc::new(Mutex::new(channel.try_clone()?));
    for round in 0.. {
        let start = Arc::new(Barrier::new(AT_ONCE as usize));
        let asking = (0..AT_ONCE).map(|number| {
            let (writer, start, backend) = (Arc::clone(&writer), Arc::clone(&start), backend.clone());
            std::thread::spawn(move || {
                start.wait();
                say(
                    &mut writer.lock().unwrap_or_else(PoisonError::into_inner),
                    &question(round * AT_ONCE + number, &backend),
                )
            })
        });
        for one in asking.collect::<Vec<_>>() {
            one.join().map_err(|_| std::io::Error::other("a thread broke"))??;
        }
        for _ in 0..AT_ONCE {
            hear(&mut channel, &mut heard)?;
        }
    }
    Ok(())
}

/// A question of 80 characters with a schema of 4: 100 tokens at worst, and 100 more for the answer.
fn question(id: u64, backend: &Value) -> Value {
    let messages = [json!({ "role": "user", "content": format!("{id:080}") })];
    json!({ "Ask": { "id": id, "ask": {
        "backend": backend, "messages": messages, "purpose": "turn", "legal": "true",
        "max_output_tokens": 100, "max_output_bytes": 1000, "temperature": 0.0,
    } } })
}

fn say(to: &mut UnixStream, frame: &Value) -> std::io::Result<()> {
    let body = frame.to_string();
    let length = u32::try_from(body.len()).map_err(std::io::Error::other)?;
    to.write_all(&[&length.to_le_bytes(), body.as_bytes()].concat())
}

fn hear(from: &mut UnixStream, heard: &mut File) -> std::io::Result<Value> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut body)?;
    heard.write_all(&[&body[..], b"\n"].concat())?;
    Ok(serde_json::from_slice(&body)?)
}

/// The names of all files below a directory that hold something like the key, through every door of `/proc` too.
fn search(dir: &Path, found: &mut Vec<PathBuf>, looked: &mut u64) {
    // In two pieces, so that this program is not what it finds.
    let mark = ["sk-only-the-parent", "-knows"].concat();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        let Ok(kind) = kind else { continue };
        if kind.is_dir() {
            search(&path, found, looked);
        } else if kind.is_file() && !path.starts_with(ARTIFACTS) {
            let mut content = Vec::new();
            let Ok(file) = File::open(&path) else { continue };
            *looked += u64::from(file.take(MOST).read_to_end(&mut content).is_ok());
            if content.windows(mark.len()).any(|window| window == mark.as_bytes()) {
                found.push(path);
            }
        }
    }
}
