//! Many calls of one tool at once, outside of any task: how long does each take?

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Harness;
use crate::error::{Error, Result};
use crate::ids::{BrainId, TaskId};
use crate::task::CallRecord;
use crate::tool::{SessionEnv, TaskFrame, ToolContext, WorkingCopy, dispatch};

/// How long all of them may take.
const DEADLINE: Duration = Duration::from_secs(600);

/// What is called, how often, and how often at once.
pub struct ManyCalls {
    /// The tool to call.
    pub tool: String,
    /// Its arguments, the same each time.
    pub args: Map<String, Value>,
    /// The input of the task that the calls are made for.
    pub input: String,
    /// How many calls are made in all.
    pub calls: u32,
    /// How many of them run at the same time.
    pub at_once: u32,
}

impl Harness {
    /// Makes the calls on a brain that is not changed by them. How each went, and the 99th percentile of how long one
    /// took from being made to its result.
    pub async fn call_many(&self, id: &BrainId, many: ManyCalls) -> Result<(Vec<CallRecord>, Duration)> {
        let inner = &self.inner;
        let (place, wanting) = inner.open(id).await?;
        let brain = place.as_ref().ok_or_else(|| Error::internal("the brain is not open"))?;
        let tuning = Arc::new(brain.tuning()?);
        let manifest = brain.manifest()?;
        let whitelist = manifest.as_ref().and_then(|manifest| manifest.tools.as_deref());
        let toolbox = inner.toolbox.swapped(&tuning, &inner.programs_of(brain, &tuning)?)?;
        let toolbox = toolbox.permitted(whitelist, inner.permissions);
        let tool = toolbox.get(&many.tool).ok_or_else(|| {
            Error::not_found(format!("the brain has no tool {:?} that may run here", many.tool))
                .hint("name one that its tasks can call")
        })?;
        let at = inner.opening.clock.now();
        let until = Instant::now() + DEADLINE;
        let frame = Arc::new(TaskFrame {
            brain: id.clone(),
            task: TaskId::new(at, &*inner.random)?,
            subscriber: None,
            input: many.input.as_str().into(),
            at,
            path: vec![id.clone()],
            until,
            settles: false,
            shares: false,
            has_budget: false,
            backend: None,
            commanded: OnceLock::new(),
        });
        let around = SessionEnv { surroundings: Arc::clone(&inner.surroundings), tuning, ..SessionEnv::default() };
        let desk = Arc::new(Mutex::new(WorkingCopy::new(place, at).in_session(around)));
        let cx = ToolContext::new(Arc::clone(&frame), Arc::clone(&desk), Arc::clone(&inner.secrets), None);
        let made: Vec<(CallRecord, Duration)> = stream::iter(0..many.calls)
            .map(|_| async {
                let began = Instant::now();
                let report = dispatch(tool, many.args.clone(), &cx, until).await;
                let record = CallRecord {
                    turn: 0,
                    tool: many.tool.clone(),
                    status: report.status,
                    summary: report.summary,
                    millis: report.millis,
                };
                (record, began.elapsed())
            })
            .buffer_unordered(many.at_once as usize)
            .collect()
            .await;
        drop(cx);
        drop(wanting);
        let (records, mut times): (Vec<CallRecord>, Vec<Duration>) = made.into_iter().unzip();
        times.sort_unstable();
        let p99 = times.get((times.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
        Ok((records, p99))
    }
}
