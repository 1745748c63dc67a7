//! `herm top`: a server as it is now, in a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use herm::backend::HttpClient;
use herm::{Error, Result};
use secrecy::SecretString;
use serde_json::Value;

use super::in_runtime;
use crate::cli::Top;
use crate::output::{self, Answer, columns};

/// The largest answer that is read.
const MOST: usize = 4 << 20;
/// How many agents are shown.
const SHOWN: usize = 20;

pub(super) fn run(arguments: &Top) -> Result<Answer> {
    let key = std::env::var(&arguments.key_env).ok().filter(|key| !key.is_empty()).map(SecretString::from);
    let url = format!("{}/v1/operator/status", arguments.url.trim_end_matches('/'));
    in_runtime(async {
        let client = HttpClient::new()?.idle_timeout(Duration::from_secs(5));
        let mut status = look(&client, &url, key.as_ref()).await?;
        if arguments.once || !std::io::stdout().is_terminal() {
            return Ok(Answer::new(text(&status), status));
        }
        let every = Duration::from_secs(arguments.every.clamp(1, 3_600));
        loop {
            // Home, and what is left of the screen before: no flicker.
            let frame = text(&status).replace('\n', "\x1b[K\n");
            if output::print(&format!("\x1b[H{frame}\x1b[J")).is_err() {
                return Ok(Answer::new("", status));
            }
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                _ = tokio::signal::ctrl_c() => return Ok(Answer::new("", status)),
            }
            match look(&client, &url, key.as_ref()).await {
                Ok(now) => status = now,
                // A server that restarts is back in a moment.
                Err(error) => {
                    let _ = output::print(&format!("\x1b[H{}\x1b[K\n\x1b[J", error.message()));
                    tokio::time::sleep(every).await;
                }
            }
        }
    })
}

async fn look(client: &HttpClient, url: &str, key: Option<&SecretString>) -> Result<Value> {
    let (code, answer) = client.get_json(url, key, MOST).await.map_err(|error| {
        Error::new(error.kind(), error.message()).hint("is `herm serve` running there? name its address with --url")
    })?;
    match code {
        200 => Ok(answer),
        401 => Err(Error::refused("the server wants a key").hint("put one with the operation operate into HERM_KEY")),
        _ => {
            Err(Error::unavailable(format!("the server answered {code}: {}", answer["detail"].as_str().unwrap_or("")))
                .hint(answer["hint"].as_str().unwrap_or("check the address").to_owned()))
        }
    }
}

/// A status as text.
fn text(status: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (queue, tasks, pool) = (&status["queue"], &status["tasks"], &status["pool"]);
    let mut out = format!(
        "herm {}  up {}  {} brains, {} open ({:.1} MiB)\ntasks   {} running, {} waiting  ·  {} converged, {} incomplete, {} failed\n",
        status["version"].as_str().unwrap_or("?"),
        uptime(number(&status["uptimeSecs"])),
        number(&status["brains"]),
        number(&pool["brains"]),
        number(&pool["bytes"]) as f64 / f64::from(1 << 20),
        number(&queue["running"]),
        number(&queue["waiting"]),
        number(&tasks["converged"]),
        number(&tasks["incomplete"]),
        number(&tasks["failed"]),
    );
    if status["keyless"] == true {
        out.push_str("keys    none: only this machine is answered\n");
    }
    if status["snapshots"].is_object() {
        let snapshots = &status["snapshots"];
        out.push_str(&format!(
            "store   {} pushed, {} failed, {} pending\n",
            number(&snapshots["pushed"]),
            number(&snapshots["failed"]),
            number(&snapshots["pending"])
        ));
    }
    let mut rows = vec![["AGENT", "TASK", "FOR", "WAITING"].map(str::to_owned).to_vec()];
    for busy in status["busy"].as_array().into_iter().flatten().take(SHOWN) {
        rows.push(vec![
            busy["agent"].as_str().unwrap_or("?").to_owned(),
            busy["task"].as_str().unwrap_or("-").to_owned(),
            busy["sinceSecs"].as_u64().map_or("-".to_owned(), uptime),
            number(&busy["waiting"]).to_string(),
        ]);
    }
    out.push('\n');
    out.push_str(&if rows.len() == 1 { "nothing to do\n".to_owned() } else { columns(&rows) });
    out
}

fn uptime(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => format!("{m}m{s:02}s"),
        (0, h, m, _) => format!("{h}h{m:02}m"),
        (d, h, _, _) => format!("{d}d{h:02}h"),
    }
}
