//! `[serve]` of the configuration.

use std::time::Duration;

use herm::{Error, Result};

/// How the server answers.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServeEntry {
    /// Where it listens; 127.0.0.1:7700 unless said. Anything but the loopback needs a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Bytes of a body; 1 MiB unless said, 8 MiB at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<usize>,
    /// Bytes of a portable brain that is imported; 256 MiB unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import_bytes: Option<u64>,
    /// Connections at once; 2,048 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// Tasks that run at once; 64 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<usize>,
    /// Tasks that wait for one brain; 32 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_per_brain: Option<usize>,
    /// Tasks that wait together; 1,024 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<usize>,
    /// Days that tasks and their answers are kept to be asked for again; 7 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_tasks_days: Option<u32>,
    /// Seconds that running tasks have to end when the server stops; 25 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_secs: Option<u64>,
    /// What a task may cost at most, in millionths of a dollar, where its key has a budget
    /// and the task names no limit; 500,000 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_micro_usd: Option<u64>,
    /// Seconds in which the head of a request has to come; 10 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_secs: Option<u64>,
    /// Seconds that a body may stop coming, and that a client may take nothing of what is sent to it; 30 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_secs: Option<u64>,
    /// Tasks are paid for, with x402.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x402: Option<PaymentEntry>,
}

/// What a task costs, and who sees to it that it is paid.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PaymentEntry {
    /// The address of the facilitator.
    pub facilitator: String,
    /// The address on the network that is paid.
    pub pay_to: String,
    /// The network, as CAIP-2 names it: eip155:8453.
    pub network: String,
    /// The contract of the token.
    pub asset: String,
    /// The price of a task, in the token's smallest unit.
    pub amount: String,
    /// The token's name, as its typed-data domain has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_name: Option<String>,
    /// The token's version, as its typed-data domain has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_version: Option<String>,
    /// Whether the price of a task covers the agents that it asks; unless said, a paid task asks none. What they learned
    /// stays theirs, also where the payment is not taken in the end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub covers_asked_agents: bool,
    /// Seconds that a payment may take; 300 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_timeout_secs: Option<u64>,
}

/// The limits in force.
#[derive(Debug, Clone, Copy)]
pub struct ServeLimits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of a portable brain.
    pub import_bytes: u64,
    /// Connections that are open at once; more of them wait to be accepted.
    pub connections: usize,
    /// Tasks that run at once.
    pub running: usize,
    /// Tasks that wait for one brain.
    pub waiting_per_brain: usize,
    /// Tasks that wait together.
    pub waiting: usize,
    /// Days that tasks are kept.
    pub keep_tasks_days: u32,
    /// Seconds that running tasks have when the server stops.
    pub shutdown_secs: u64,
    /// What a task may cost, where nobody says.
    pub task_micro_usd: u64,
    /// In which the head of a request has to come.
    pub head: Duration,
    /// For which a caller may neither send nor take anything.
    pub silence: Duration,
}

impl ServeEntry {
    /// The limits in force.
    pub fn limits(&self) -> Result<ServeLimits> {
        let limits = ServeLimits {
            body_bytes: self.body_bytes.unwrap_or(1 << 20),
            import_bytes: self.import_bytes.unwrap_or(256 << 20),
            connections: self.connections.unwrap_or(2_048),
            running: self.running.unwrap_or(64),
            waiting_per_brain: self.waiting_per_brain.unwrap_or(32),
            waiting: self.waiting.unwrap_or(1_024),
            keep_tasks_days: self.keep_tasks_days.unwrap_or(7),
            shutdown_secs: self.shutdown_secs.unwrap_or(25),
            task_micro_usd: self.task_micro_usd.unwrap_or(500_000).max(1),
            head: Duration::from_secs(self.head_secs.unwrap_or(10).max(1)),
            silence: Duration::from_secs(self.silence_secs.unwrap_or(30).max(1)),
        };
        let rule = if !(1 << 10..=8 << 20).contains(&limits.body_bytes) {
            "body_bytes is 1 KiB to 8 MiB"
        } else if limits.connections == 0 || limits.running == 0 {
            "connections and running are at least 1"
        } else if limits.waiting < limits.waiting_per_brain {
            "waiting is at least waiting_per_brain"
        } else {
            return Ok(limits);
        };
        Err(Error::invalid(format!("[serve]: {rule}")).hint("leave it out for the default"))
    }
}
