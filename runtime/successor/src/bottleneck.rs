//! The bottleneck detector: what holds a brain up, from what its last tasks really did.
//!
//! - [`observe`](observe()) reads, without the brain's lock: transcripts, receipts and the journal of the last tasks,
//!   a bounded number of them. An [`TaskObservation`] is one task; none of what was asked or answered is in it.
//! - [`measure`] adds them up, [`detect`] compares with the thresholds below and ranks. Both are pure.
//!
//! What each bottleneck leads to is in [`draft_patch`](super::draft_patch).
//! `docs/operate/autogenesis.md` has the thresholds in words.

mod observe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::Timestamp;
use crate::memory::EvidenceStatus;
use crate::task::StopReason;

pub use observe::{BrainObservation, MOST_TASKS, ObservationEnv, observe, observe_while, observe_within};

/// The fewest tasks that a share of tasks is taken of.
pub const LEAST_TASKS: usize = 5;
/// The fewest calls that a share, or a mean, of calls is taken of.
pub const LEAST_CALLS: usize = 5;
/// The fewest searches that are judged: a young brain has nothing to find.
pub const LEAST_SEARCHES: usize = 10;
/// The fewest skills of which unused ones are counted.
pub const LEAST_SKILLS: usize = 20;
/// A conversation is near its limit from this share of it on.
pub const NEARLY_FULL: f64 = 0.9;
/// The tool that searches the memory.
const SEARCH: &str = "recall";
/// The tool that lists skills, and the one that loads them.
const LISTS: &str = "skills_list";
const LOADS: &str = "skill_view";

/// A tool call, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObservedCall {
    /// The name of the tool that was called.
    pub tool: String,
    /// Whether the call went well, failed or was refused.
    pub status: EvidenceStatus,
    /// How long it took.
    pub millis: u64,
    /// Whether it was a search that found nothing.
    pub found_nothing: bool,
}

/// One task, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskObservation {
    /// The number of the task's step.
    pub step: i64,
    /// When the task began.
    pub at: Timestamp,
    /// Why the task ended.
    pub stop: StopReason,
    /// How many turns it took.
    pub turns: u32,
    /// Turns it could have taken.
    pub turn_limit: u32,
    /// From its beginning until it was settled, where the clock did not go back meanwhile.
    pub millis: Option<u64>,
    /// Tool calls, refused ones included, in order.
    pub calls: Vec<ObservedCall>,
    /// Replies that could not be used: the model was told what was wrong.
    pub nudges: u32,
    /// Replies that were JSON only after a repair.
    pub repaired: u32,
    /// Replies that were cut at their length.
    pub cut: u32,
    /// The largest conversation before it was made to fit, in bytes.
    pub context_bytes: u64,
    /// How many bytes it could have.
    pub context_limit: u64,
    /// Whether results or replies had to shrink.
    pub shrunk: bool,
    /// Whether the prompt had an index of skills.
    pub has_index: bool,
}

impl TaskObservation {
    /// Calls that looked for a skill although the prompt had an index: a list of all, or a name that is no skill's.
    pub fn index_misses(&self) -> usize {
        let missed =
            |call: &&ObservedCall| call.tool == LISTS || (call.tool == LOADS && call.status == EvidenceStatus::Failed);
        if self.has_index { self.calls.iter().filter(missed).count() } else { 0 }
    }

    /// Milliseconds in all tool calls together.
    pub fn tool_millis(&self) -> u64 {
        self.calls.iter().map(|call| call.millis).sum()
    }

    /// Milliseconds that were not in tools: replies, and what the runtime itself takes.
    pub fn reply_millis(&self) -> Option<u64> {
        self.millis.map(|all| all.saturating_sub(self.tool_millis()))
    }

    fn is_nearly_full(&self) -> bool {
        self.shrunk || self.context_bytes as f64 >= self.context_limit as f64 * NEARLY_FULL
    }
}

/// What holds a brain up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BottleneckKind {
    /// Conversations do not fit: results shrink, or nearly do.
    ContextPressure,
    /// The agent looks for skills that the prompt should have shown.
    IndexMisses,
    /// Replies that cannot be used.
    Nudges,
    /// Replies that are cut at their length.
    CutReplies,
    /// Tasks that use up all turns.
    Ceiling,
    /// Tasks that end without an answer for another reason.
    NonConvergence,
    /// A tool that fails.
    ToolErrors,
    /// Searching the memory takes long.
    SlowSearch,
    /// Another tool takes long.
    SlowTool,
    /// The model, or the runtime around it, takes long for a turn.
    SlowReplies,
    /// Searches of the memory find nothing, or have to be repeated.
    LowRecall,
    /// Skills that nobody uses crowd the index.
    UnusedSkills,
}

impl BottleneckKind {
    /// All kinds, in the order that breaks a tie of two equally severe ones.
    pub const ALL: [Self; 12] = [
        Self::ContextPressure,
        Self::IndexMisses,
        Self::Nudges,
        Self::CutReplies,
        Self::Ceiling,
        Self::NonConvergence,
        Self::ToolErrors,
        Self::SlowSearch,
        Self::SlowTool,
        Self::SlowReplies,
        Self::LowRecall,
        Self::UnusedSkills,
    ];

    /// From where on it is one: a share of tasks, turns or calls, or a mean in milliseconds.
    pub fn threshold(self) -> f64 {
        match self {
            Self::ContextPressure | Self::Nudges | Self::Ceiling => 0.10,
            Self::CutReplies => 0.05,
            Self::IndexMisses | Self::NonConvergence | Self::ToolErrors => 0.20,
            Self::LowRecall => 0.40,
            Self::UnusedSkills => 0.50,
            Self::SlowSearch => 100.0,
            Self::SlowTool => 2_000.0,
            Self::SlowReplies => 15_000.0,
        }
    }

    /// What it says, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::ContextPressure => "conversations do not fit",
            Self::IndexMisses => "skills are looked for that the prompt should have shown",
            Self::Nudges => "replies cannot be used",
            Self::CutReplies => "replies are cut at their length",
            Self::Ceiling => "tasks use up all turns",
            Self::NonConvergence => "tasks end without an answer",
            Self::ToolErrors => "a tool fails",
            Self::SlowSearch => "searching the memory takes long",
            Self::SlowTool => "a tool takes long",
            Self::SlowReplies => "replies take long",
            Self::LowRecall => "searches of the memory find nothing or are repeated",
            Self::UnusedSkills => "skills that nobody uses crowd the index",
        }
    }
}

/// One thing that holds a brain up, with what it was seen in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// What kind of bottleneck it is.
    pub kind: BottleneckKind,
    /// The tool, or the reason, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What was found: a share, or a mean in milliseconds.
    pub found: f64,
    /// From where on it is one.
    pub threshold: f64,
    /// How many it was seen in.
    pub count: u64,
    /// How many tasks, turns, calls, searches or skills were looked at.
    pub of: u64,
}

impl Bottleneck {
    fn new(kind: BottleneckKind, found: f64, count: usize, of: usize) -> Option<Self> {
        let threshold = kind.threshold();
        let (count, of) = (count as u64, of as u64);
        (found >= threshold).then_some(Self { kind, subject: None, found, threshold, count, of })
    }

    fn share(kind: BottleneckKind, count: usize, of: usize, least: usize) -> Option<Self> {
        if of < least.max(1) { None } else { Self::new(kind, count as f64 / of as f64, count, of) }
    }

    fn about(self, subject: &str) -> Self {
        Self { subject: Some(subject.to_owned()), ..self }
    }

    /// How many times the threshold was found. The highest comes first.
    pub fn severity(&self) -> f64 {
        self.found / self.threshold
    }

    /// The bottleneck in one sentence with its figures, for people.
    pub fn sentence(&self) -> String {
        let subject = self.subject.as_ref().map(|subject| format!(" ({subject})")).unwrap_or_default();
        let figures = if self.threshold >= 1.0 {
            format!(
                "{:.0} ms on average in {} of {}, from {:.0} ms on",
                self.found, self.count, self.of, self.threshold
            )
        } else {
            let (found, from) = (self.found * 100.0, self.threshold * 100.0);
            format!("{} of {}, {found:.0} %, from {from:.0} % on", self.count, self.of)
        };
        format!("{}{subject}: {figures}", self.kind.words())
    }
}

/// What of a brain is not part of single tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrainStats {
    /// Skills the agent wrote and that are in the index.
    pub own_skills: usize,
    /// Those of them that were never used.
    pub unused: usize,
    /// Whether the prompt has room for every skill.
    pub index_fits: bool,
    /// Rows of the memory that are searched.
    pub rows: u64,
}

/// How a tool did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ToolStats {
    /// Calls, refused ones included.
    pub calls: usize,
    /// Those that failed or were refused.
    pub errors: usize,
    /// How long they took together.
    pub millis: u64,
}

/// Observations of several tasks, added up by [`measure`].
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measures {
    /// How many tasks were added up.
    pub tasks: usize,
    /// Turns of all tasks together.
    pub turns: u64,
    /// Tasks that used up all turns.
    pub at_ceiling: usize,
    /// How many ended why.
    pub stops: BTreeMap<&'static str, usize>,
    /// Milliseconds in tool calls of all tasks together.
    pub tool_millis: u64,
    /// Milliseconds that were not in tools: replies, and what the runtime itself takes.
    pub reply_millis: u64,
    /// How each tool did, by its name.
    pub tools: BTreeMap<String, ToolStats>,
    /// Tasks whose conversation had to shrink, or was near its limit.
    pub pressed: usize,
    /// Tasks that looked for skills although the prompt had an index.
    pub missing: usize,
    /// Replies that could not be used.
    pub nudges: u64,
    /// Replies that were JSON only after a repair.
    pub repaired: u64,
    /// Replies that were cut.
    pub cut: u64,
}

/// Adds the observations of several tasks up.
pub fn measure(observations: &[TaskObservation]) -> Measures {
    let mut all = Measures { tasks: observations.len(), ..Measures::default() };
    for one in observations {
        all.turns += u64::from(one.turns);
        all.at_ceiling += usize::from(one.stop == StopReason::Ceiling);
        *all.stops.entry(one.stop.name()).or_default() += 1;
        all.tool_millis += one.tool_millis();
        all.reply_millis += one.reply_millis().unwrap_or(0);
        all.pressed += usize::from(one.is_nearly_full());
        all.missing += usize::from(one.index_misses() > 0);
        all.nudges += u64::from(one.nudges);
        all.repaired += u64::from(one.repaired);
        all.cut += u64::from(one.cut);
        for call in &one.calls {
            let tool = all.tools.entry(call.tool.clone()).or_default();
            tool.calls += 1;
            tool.errors += usize::from(call.status != EvidenceStatus::Ok);
            tool.millis += call.millis;
        }
    }
    all
}

/// What holds the brain up: what reaches its threshold, the worst first.
pub fn detect(observations: &[TaskObservation], standing: &BrainStats) -> Vec<Bottleneck> {
    let all = measure(observations);
    let tasks = all.tasks;
    let turns = usize::try_from(all.turns).unwrap_or(usize::MAX);
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let mut found: Vec<Option<Bottleneck>> = vec![
        Bottleneck::share(BottleneckKind::ContextPressure, all.pressed, tasks, LEAST_TASKS),
        Bottleneck::share(BottleneckKind::IndexMisses, all.missing, tasks, LEAST_TASKS),
        Bottleneck::share(BottleneckKind::Ceiling, all.at_ceiling, tasks, LEAST_TASKS),
        Bottleneck::share(BottleneckKind::Nudges, count(all.nudges), turns, LEAST_TASKS),
        Bottleneck::share(BottleneckKind::CutReplies, count(all.cut), turns, LEAST_TASKS),
    ];
    for (stop, ended) in &all.stops {
        // What the caller ended says nothing about the agent, and the ceiling has a kind of its own.
        let counts =
            [StopReason::Stuck, StopReason::Deadline, StopReason::Budget, StopReason::Backend, StopReason::Internal];
        if counts.iter().any(|counted| counted.name() == *stop) {
            let share = Bottleneck::share(BottleneckKind::NonConvergence, *ended, tasks, LEAST_TASKS);
            found.push(share.map(|one| one.about(stop)));
        }
    }
    for (name, tool) in &all.tools {
        let share = Bottleneck::share(BottleneckKind::ToolErrors, tool.errors, tool.calls, LEAST_CALLS);
        found.push(share.map(|one| one.about(name)));
        if tool.calls >= LEAST_CALLS {
            let kind = if name == SEARCH { BottleneckKind::SlowSearch } else { BottleneckKind::SlowTool };
            let mean = tool.millis as f64 / tool.calls as f64;
            found.push(Bottleneck::new(kind, mean, tool.calls, tool.calls).map(|one| one.about(name)));
        }
    }
    found.push(slow_replies(observations));
    found.push(low_recall(observations));
    if !standing.index_fits {
        found.push(Bottleneck::share(BottleneckKind::UnusedSkills, standing.unused, standing.own_skills, LEAST_SKILLS));
    }
    let mut found: Vec<Bottleneck> = found.into_iter().flatten().collect();
    found.sort_by(|a, b| {
        b.severity().total_cmp(&a.severity()).then(a.kind.cmp(&b.kind)).then_with(|| a.subject.cmp(&b.subject))
    });
    found
}

/// The mean time of a turn outside tools, over tasks whose time is known.
fn slow_replies(observations: &[TaskObservation]) -> Option<Bottleneck> {
    let timed: Vec<(u64, u32)> =
        observations.iter().filter_map(|one| one.reply_millis().map(|millis| (millis, one.turns.max(1)))).collect();
    if timed.len() < LEAST_TASKS {
        return None;
    }
    let millis: u64 = timed.iter().map(|(millis, _)| millis).sum();
    let turns: u64 = timed.iter().map(|(_, turns)| u64::from(*turns)).sum();
    Bottleneck::new(BottleneckKind::SlowReplies, millis as f64 / turns as f64, timed.len(), timed.len())
}

/// Searches that found nothing, or after which the task searched again.
fn low_recall(observations: &[TaskObservation]) -> Option<Bottleneck> {
    let (mut searches, mut poor) = (0, 0);
    for one in observations {
        let mut left = one.calls.iter().filter(|call| call.tool == SEARCH).peekable();
        while let Some(search) = left.next() {
            searches += 1;
            poor += usize::from(search.found_nothing || left.peek().is_some());
        }
    }
    Bottleneck::share(BottleneckKind::LowRecall, poor, searches, LEAST_SEARCHES)
}
