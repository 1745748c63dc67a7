//! What is counted, as Prometheus reads it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herm::memory::{OutcomeSource, OutcomeValue};
use herm::{Outcome, TaskEvent};

use super::app::App;

/// Upper ends of the buckets of times, in milliseconds.
const BUCKETS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];

/// Times, counted in buckets.
#[derive(Debug, Default)]
struct Times {
    buckets: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

impl Times {
    fn add(&self, time: Duration) {
        let millis = time.as_secs_f64() * 1_000.0;
        let at = BUCKETS.iter().position(|end| millis <= *end as f64).unwrap_or(BUCKETS.len());
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(u64::try_from(time.as_micros()).unwrap_or(0), Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut total = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            total += bucket.load(Ordering::Relaxed);
            let end = BUCKETS.get(at).map_or("+Inf".to_owned(), |end| format!("{}", *end as f64 / 1_000.0));
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {total}");
        }
        let seconds = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(out, "{name}_sum{braced} {seconds}\n{name}_count{braced} {total}");
    }
}

/// Counters by the values of their labels. Every value comes from a closed set, or is cut to one.
#[derive(Debug, Default)]
struct Counts(Mutex<BTreeMap<String, u64>>);

/// More different values than any label should have; what is beyond is counted together.
const MOST_VALUES: usize = 1_000;

impl Counts {
    fn add(&self, labels: String) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.len() < MOST_VALUES || counts.contains_key(&labels);
        *counts.entry(if known { labels } else { "other=\"true\"".to_owned() }).or_default() += 1;
    }

    fn get(&self, labels: &str) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(labels).copied().unwrap_or(0)
    }

    fn write(&self, out: &mut String, name: &str) {
        for (labels, count) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(out, "{name}{{{labels}}} {count}");
        }
    }
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    tasks: Counts,
    outcomes: Counts,
    turns: AtomicU64,
    replies: Times,
    tools: Mutex<BTreeMap<String, Arc<Times>>>,
    tool_results: Counts,
    backend_errors: Counts,
    settles: Times,
    requests: Counts,
    request_times: Times,
    connections: Arc<AtomicU64>,
    streams: Arc<AtomicU64>,
    tokens_in: AtomicU64,
    tokens_out: AtomicU64,
    micro_usd: AtomicU64,
}

/// Counts something for as long as it lives.
#[derive(Debug)]
pub(crate) struct During(Arc<AtomicU64>);

impl Drop for During {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn during(count: &Arc<AtomicU64>) -> During {
    count.fetch_add(1, Ordering::Relaxed);
    During(Arc::clone(count))
}

impl Meter {
    /// Counts a connection while it lasts.
    pub(crate) fn connected(&self) -> During {
        during(&self.connections)
    }

    /// Counts a stream of events while it lasts.
    pub(crate) fn following(&self) -> During {
        during(&self.streams)
    }

    /// Counts what happens in a task.
    pub(crate) fn heard(&self, event: &TaskEvent) {
        match event {
            TaskEvent::TurnStarted { .. } => drop(self.turns.fetch_add(1, Ordering::Relaxed)),
            TaskEvent::Reply { millis, .. } => self.replies.add(Duration::from_millis(*millis)),
            TaskEvent::Retry { class, .. } => self.backend_errors.add(format!("class=\"{}\"", label(class))),
            TaskEvent::ToolResult { tool, status, millis, .. } => {
                // A model makes up names of tools; they are refused, and counted together.
                let tool = if status.name() == "refused" { "refused".to_owned() } else { label(tool) };
                self.tool_results.add(format!("tool=\"{tool}\",status=\"{}\"", status.name()));
                let times = {
                    let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
                    let tool =
                        if tools.len() < MOST_VALUES || tools.contains_key(&tool) { tool } else { "other".into() };
                    Arc::clone(tools.entry(tool).or_default())
                };
                times.add(Duration::from_millis(*millis));
            }
            TaskEvent::Settled { millis, .. } => self.settles.add(Duration::from_millis(*millis)),
            TaskEvent::Started { .. }
            | TaskEvent::Nudge { .. }
            | TaskEvent::ToolCall { .. }
            | TaskEvent::SkillWritten { .. } => {}
        }
    }

    /// Counts a task that came to an outcome.
    pub(crate) fn finished(&self, outcome: &Outcome) {
        self.tasks.add(format!("outcome=\"{}\"", outcome.status.name()));
        for report in &outcome.outcome.sources {
            self.reported(report.source, report.value);
        }
        if outcome.stop == herm::StopReason::Backend {
            self.backend_errors.add("class=\"gave_up\"".to_owned());
        }
        for tokens in [outcome.usage.tokens, outcome.usage.estimated].into_iter().flatten() {
            self.tokens_in.fetch_add(tokens.input, Ordering::Relaxed);
            self.tokens_out.fetch_add(tokens.output, Ordering::Relaxed);
        }
        self.micro_usd.fetch_add(outcome.usage.micro_usd.unwrap_or(0), Ordering::Relaxed);
    }

    /// Counts what somebody says of an answer.
    pub(crate) fn reported(&self, source: OutcomeSource, value: OutcomeValue) {
        let value = match value {
            OutcomeValue::Unknown => "unknown",
            OutcomeValue::Good => "good",
            OutcomeValue::Bad => "bad",
            OutcomeValue::Score(_) => "score",
        };
        self.outcomes.add(format!("value=\"{value}\",source=\"{}\"", source.name()));
    }

    /// Counts a task that came to none.
    pub(crate) fn failed(&self, kind: &str) {
        self.tasks.add(format!("outcome=\"problem\",kind=\"{}\"", label(kind)));
    }

    /// Counts a request that was answered.
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let method = match method {
            known @ ("GET" | "POST" | "DELETE" | "HEAD" | "OPTIONS" | "PUT" | "PATCH") => known,
            _ => "other",
        };
        self.requests.add(format!("method=\"{}\",route=\"{}\",status=\"{status}\"", label(method), label(route)));
        self.request_times.add(took);
    }

    /// How many tasks ended so.
    pub(crate) fn tasks(&self, outcome: &str) -> u64 {
        self.tasks.get(&format!("outcome=\"{outcome}\""))
    }

    /// Everything, in the text format of Prometheus.
    pub(crate) fn text(&self, app: &App) -> String {
        let mut out = String::with_capacity(8 << 10);
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let depth = app.queue.depth();
        let (open, bytes) = app.harness.pool_weight();
        let maintained = app.harness.maintenance_counters();
        let snapshots = app.harness.snapshot_counters().unwrap_or_default();
        head(&mut out, "herm_tasks_total", "counter", "Tasks by how they ended.");
        self.tasks.write(&mut out, "herm_tasks_total");
        head(&mut out, "herm_outcomes_total", "counter", "What was said of answers, by value and by who said it.");
        self.outcomes.write(&mut out, "herm_outcomes_total");
        head(&mut out, "herm_tool_results_total", "counter", "Tool calls by how they went.");
        self.tool_results.write(&mut out, "herm_tool_results_total");
        head(&mut out, "herm_backend_errors_total", "counter", "Failed tries of backends by class.");
        self.backend_errors.write(&mut out, "herm_backend_errors_total");
        head(&mut out, "herm_http_requests_total", "counter", "Requests by route and status.");
        self.requests.write(&mut out, "herm_http_requests_total");
        head(&mut out, "herm_tool_seconds", "histogram", "How long tools took.");
        for (tool, times) in &*self.tools.lock().unwrap_or_else(PoisonError::into_inner) {
            times.write(&mut out, "herm_tool_seconds", &format!("tool=\"{tool}\""));
        }
        for (name, help, times) in [
            ("herm_reply_seconds", "How long backends took to reply.", &self.replies),
            ("herm_settle_seconds", "How long settling a step took.", &self.settles),
            ("herm_http_seconds", "How long answers took.", &self.request_times),
        ] {
            head(&mut out, name, "histogram", help);
            times.write(&mut out, name, "");
        }
        for (name, kind, help, value) in [
            ("herm_turns_total", "counter", "Turns of tasks.", load(&self.turns)),
            ("herm_input_tokens_total", "counter", "Tokens read by backends.", load(&self.tokens_in)),
            ("herm_output_tokens_total", "counter", "Tokens written by backends.", load(&self.tokens_out)),
            ("herm_micro_usd_total", "counter", "Millionths of a dollar spent.", load(&self.micro_usd)),
            ("herm_tasks_running", "gauge", "Tasks that run.", depth.running as u64),
            ("herm_tasks_waiting", "gauge", "Tasks that wait.", depth.waiting as u64),
            ("herm_connections", "gauge", "Open connections.", load(&self.connections)),
            ("herm_streams", "gauge", "Open streams of events.", load(&self.streams)),
            ("herm_pool_brains", "gauge", "Brains that are open.", open as u64),
            ("herm_pool_bytes", "gauge", "Bytes that open brains take.", bytes as u64),
            ("herm_curator_moved_total", "counter", "Skills that the curator moved.", maintained.curated),
            ("herm_evolver_changed_total", "counter", "Changes that the evolver made or holds.", maintained.evolved),
            (
                "herm_evolver_rollbacks_proposed_total",
                "counter",
                "Changes that the evolver proposes to take back.",
                maintained.rollbacks_proposed,
            ),
            ("herm_trials_proven_total", "counter", "Trials that found that a skill helps.", maintained.proven),
            ("herm_trials_harmful_total", "counter", "Trials that found that a skill does harm.", maintained.harmful),
            ("herm_trials_unproven_total", "counter", "Trials that found no difference.", maintained.unproven),
            ("herm_snapshots_pushed_total", "counter", "Snapshots that arrived.", snapshots.pushed),
            ("herm_snapshot_bytes_total", "counter", "Bytes of snapshots that were sent.", snapshots.bytes),
            ("herm_snapshots_failed_total", "counter", "Tries to push a snapshot that failed.", snapshots.failed),
            ("herm_snapshots_pending", "gauge", "Brains whose last step is not in the store.", snapshots.pending),
            ("herm_snapshot_lag_seconds", "gauge", "For how long the one that waits longest has.", snapshots.lag_secs),
            ("herm_spans_dropped_total", "counter", "Spans that were not sent.", crate::otlp::dropped()),
            ("herm_uptime_seconds", "gauge", "Seconds since the server began.", app.began.elapsed().as_secs()),
        ] {
            head(&mut out, name, kind, help);
            let _ = writeln!(out, "{name} {value}");
        }
        out
    }
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    text.chars().take(80).map(|c| if matches!(c, '"' | '\\' | '\n') || c.is_control() { '_' } else { c }).collect()
}
