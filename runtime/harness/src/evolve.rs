//! The evolver after sessions, and drafts of its proposals.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::maintain::AtomicCounters;
use super::{Harness, Inner};
use crate::backend::{ChatMessage, CompletionRequest, Purpose, Role};
use crate::brain::Brain;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::evolver::pass::EvolverPassReport;
use crate::evolver::proposal::{EvolverProposal, ModelDraft, draft_ask};
use crate::evolver::select::RankerChain;
use crate::evolver::{EvolverRoundOptions, EvolverRoundReport, round};
use crate::ids::{BrainId, Slug};

/// A brain that the evolver never looked at is left alone until it has so much evidence.
const FIRST_EVIDENCE: i64 = 20;

/// How the evolver runs by itself.
#[derive(Debug, Clone)]
pub struct EvolverOptions {
    /// What it does each time. Unless said otherwise, changes are held until a person accepts them.
    pub routine: EvolverRoundOptions,
    /// At least so long between two times at a brain.
    pub every: Duration,
}

impl Default for EvolverOptions {
    fn default() -> Self {
        Self { routine: EvolverRoundOptions::default(), every: Duration::from_secs(24 * 3_600) }
    }
}

/// What a draft may take, in tokens and in bytes.
const DRAFT_TOKENS: u32 = 2_048;
const DRAFT_BYTES: usize = 64 << 10;

impl Harness {
    /// Asks the model of a brain to word a proposal. Whatever it says is a text for a person; where it does
    /// not answer, the draft says why.
    pub async fn draft(
        &self,
        id: &BrainId,
        proposal: &EvolverProposal,
        wish: Option<&str>,
        within: Duration,
    ) -> Result<ModelDraft> {
        let chain = self.inner.router.route(id, wish, None)?;
        let (system, user) = draft_ask(proposal);
        let message = |role, content: String| ChatMessage { role, content: content.into() };
        let ask = CompletionRequest {
            messages: vec![message(Role::System, system), message(Role::User, user)],
            purpose: Purpose::Draft,
            tools: Default::default(),
            reply_schema: Arc::new(serde_json::Value::Bool(true)),
            max_output_tokens: DRAFT_TOKENS,
            max_output_bytes: DRAFT_BYTES,
            temperature: 0.2,
        };
        let jitter = || self.inner.random.fraction();
        let answered = chain.ask(&ask, Instant::now() + within, &jitter, &|_| {}).await;
        Ok(match answered {
            Ok(answered) => ModelDraft::answered(&answered.completion.text),
            Err(error) => ModelDraft::failed(&error.to_string()),
        })
    }
}

impl Harness {
    /// Lets the evolver pass over a brain now, whether or not it is time; what it changed is counted. `external` are the
    /// skills of external directories.
    pub async fn evolve(
        &self,
        id: &BrainId,
        routine: EvolverRoundOptions,
        external: Vec<Slug>,
    ) -> Result<EvolverRoundReport> {
        let inner = Arc::clone(&self.inner);
        self.with_brain(id, move |brain| inner.counted.run_evolver(brain, &routine, &external)).await
    }
}

impl Inner {
    /// Lets the evolver pass, where it is on and not too soon after the last time.
    pub(super) fn evolve(&self, brain: &mut Brain) -> Result<Option<EvolverRoundReport>> {
        let Some(evolving) = self.evolving.as_ref() else { return Ok(None) };
        let now = brain.clock().now();
        if !is_due(brain, evolving, now)? {
            return Ok(None);
        }
        let external = self.surroundings.outside.as_ref().map(|outside| outside.slugs()).unwrap_or_default();
        let evolved = self.counted.run_evolver(brain, &evolving.routine, &external)?;
        if let Some(error) = evolved.run.as_ref().and_then(|run| run.error.as_deref()) {
            tracing::warn!(brain = %brain.id(), error, "the evolver's pass ended early; the next one goes on");
        }
        Ok(Some(evolved))
    }
}

impl AtomicCounters {
    /// One round of the evolver, counted.
    fn run_evolver(
        &self,
        brain: &mut Brain,
        options: &EvolverRoundOptions,
        external: &[Slug],
    ) -> Result<EvolverRoundReport> {
        let evolved = round::run(brain, options, RankerChain::default(), external)?;
        let (changed, rollbacks) =
            (evolved.run.as_ref().map_or(0, EvolverPassReport::changed), evolved.rollbacks_proposed.len());
        if changed > 0 || rollbacks > 0 {
            self.evolved.fetch_add(changed as u64, Ordering::Relaxed);
            self.rollbacks_proposed.fetch_add(rollbacks as u64, Ordering::Relaxed);
            tracing::info!(brain = %brain.id(), changed, rollbacks, "the evolver passed");
        }
        Ok(evolved)
    }
}

fn is_due(brain: &Brain, evolving: &EvolverOptions, now: Timestamp) -> Result<bool> {
    let every = i64::try_from(evolving.every.as_millis()).unwrap_or(i64::MAX);
    Ok(match brain.evolver_rows().passed_at()? {
        // A clock that was ahead once does not keep the evolver away.
        Some(passed) => !(0..every).contains(&now.millis().saturating_sub(passed.millis())),
        None => brain.next_evidence()? > FIRST_EVIDENCE,
    })
}
