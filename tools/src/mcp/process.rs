//! A server that is a program: started in a process group of its own, and ended with all of it.

use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use herm::{Error, Result};
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::MAX_MESSAGE;
use super::server::Program;

/// What every program gets of herm's environment.
const USUAL_ENV: [&str; 3] = ["PATH", "HOME", "LANG"];
/// How much of a line of a server's standard error is logged.
const MAX_LOG_LINE: usize = 2_000;

/// The pipes to a program.
pub(super) type Pipes = AsyncRwTransport<RoleClient, LineGuard<ChildStdout>, ChildStdin>;

/// A running program. It ends, with every process of its group, when this value goes.
#[derive(Debug)]
pub(super) struct Process {
    /// Never waited for before the group is ended: until then its number cannot be given to another process.
    _child: Child,
    group: Option<Pid>,
    _log: JoinSet<()>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // A group that is gone already is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Starts a program. `too_large` is told when it writes a line without end.
pub(super) fn start(server: &str, program: &Program, too_large: Arc<watch::Sender<bool>>) -> Result<(Process, Pipes)> {
    let names = USUAL_ENV.into_iter().chain(program.env.iter().map(String::as_str));
    let seen = names.filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    let mut command = Command::new(&program.command);
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    let mut child = command
        .args(&program.args)
        .env_clear()
        .envs(seen)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| {
            Error::unavailable(format!("the MCP server {server} cannot be started: {source}"))
                .hint("the operator must look at its command in the configuration")
                .because(source)
        })?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
    let mut log = JoinSet::new();
    let (Some(stdout), Some(stdin), Some(stderr)) = pipes else {
        return Err(Error::internal(format!("the MCP server {server} has no pipes")));
    };
    log.spawn(log_lines(server.to_owned(), stderr));
    let process = Process { _child: child, group, _log: log };
    let guarded = LineGuard { inner: stdout, line: 0, too_large };
    Ok((process, AsyncRwTransport::new_client(guarded, stdin).with_max_line_length(MAX_MESSAGE)))
}

/// Logs what a server says on its standard error, line by line, without keeping more than a line.
async fn log_lines(server: String, mut stderr: ChildStderr) {
    let mut chunk = [0; 4096];
    let mut line = Vec::new();
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        for byte in chunk.iter().take(count) {
            match byte {
                b'\n' => {
                    // As a quoted text: what a stranger's program says must not steer a terminal.
                    tracing::debug!(server, "{:?}", String::from_utf8_lossy(&line));
                    line.clear();
                }
                byte if line.len() < MAX_LOG_LINE => line.push(*byte),
                _ => {}
            }
        }
    }
    if !line.is_empty() {
        tracing::debug!(server, "{:?}", String::from_utf8_lossy(&line));
    }
}

/// Counts the bytes of each line that passes. The transport drops a line that is too long without a word, and its
/// reader would wait in vain; the guard tells the reader.
#[derive(Debug)]
pub(super) struct LineGuard<R> {
    inner: R,
    /// Bytes of the line so far.
    line: usize,
    too_large: Arc<watch::Sender<bool>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for LineGuard<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let mut longest = self.line;
        for (index, piece) in buffer.filled().get(before..).unwrap_or_default().split(|byte| *byte == b'\n').enumerate()
        {
            self.line = if index == 0 { self.line + piece.len() } else { piece.len() };
            longest = longest.max(self.line);
        }
        // One for the line's end.
        if longest + 1 > MAX_MESSAGE {
            self.too_large.send_replace(true);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_too_large(lengths: &[usize]) -> bool {
        let text = lengths.iter().map(|length| "x".repeat(*length)).collect::<Vec<_>>().join("\n");
        let (too_large, told) = watch::channel(false);
        let mut guard = LineGuard { inner: text.as_bytes(), line: 0, too_large: Arc::new(too_large) };
        tokio::io::copy(&mut guard, &mut tokio::io::sink()).await.unwrap();
        *told.borrow()
    }

    #[tokio::test]
    async fn a_line_counts_for_itself() {
        assert!(!is_too_large(&[MAX_MESSAGE - 1, MAX_MESSAGE - 1, 10]).await);
        assert!(is_too_large(&[10, MAX_MESSAGE, 10]).await);
        assert!(is_too_large(&[10, 10, MAX_MESSAGE]).await);
    }
}
