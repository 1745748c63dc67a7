//! The evolver after sessions, and drafts of its proposals.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::maintain::Counted;
use super::{Harness, Inner};
use crate::backend::{Ask, ChatMessage, Purpose, Speaker};
use crate::brain::Brain;
use crate::clock::Moment;
use crate::error::Result;
use crate::evolver::auto::Run;
use crate::evolver::proposal::{ModelDraft, Proposal, draft_ask};
use crate::evolver::select::Ranking;
use crate::evolver::{Evolved, Routine, routine};
use crate::ids::{BrainId, Slug};

/// A brain that the evolver never looked at is left alone until it has so much evidence.
const FIRST_EVIDENCE: i64 = 20;

/// How the evolver runs by itself.
#[derive(Debug, Clone)]
pub struct Evolving {
    /// What it does each time. Unless said otherwise, changes are held until a person accepts them.
    pub routine: Routine,
    /// At least so long between two times at a brain.
    pub every: Duration,
}

impl Default for Evolving {
    fn default() -> Self {
        Self { routine: Routine::default(), every: Duration::from_secs(24 * 3_600) }
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
        proposal: &Proposal,
        wish: Option<&str>,
        within: Duration,
    ) -> Result<ModelDraft> {
        let chain = self.inner.router.route(id, wish, None)?;
        let (system, user) = draft_ask(proposal);
        let message = |role, content: String| ChatMessage { role, content: content.into() };
        let ask = Ask {
            messages: vec![message(Speaker::System, system), message(Speaker::User, user)],
            purpose: Purpose::Draft,
            legal: Arc::new(serde_json::Value::Bool(true)),
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
    pub async fn evolve(&self, id: &BrainId, routine: Routine, external: Vec<Slug>) -> Result<Evolved> {
        let inner = Arc::clone(&self.inner);
        self.with_brain(id, move |brain| inner.counted.round(brain, &routine, &external)).await
    }
}

impl Inner {
    /// Lets the evolver pass, where it is on and not too soon after the last time.
    pub(super) fn evolve(&self, brain: &mut Brain) -> Result<Option<Evolved>> {
        let Some(evolving) = self.evolving.as_ref() else { return Ok(None) };
        let now = brain.clock().now();
        if !is_due(brain, evolving, now)? {
            return Ok(None);
        }
        let external = self.surroundings.outside.as_ref().map(|outside| outside.slugs()).unwrap_or_default();
        let evolved = self.counted.round(brain, &evolving.routine, &external)?;
        if let Some(error) = evolved.run.as_ref().and_then(|run| run.error.as_deref()) {
            tracing::warn!(brain = %brain.id(), error, "the evolver's pass ended early; the next one goes on");
        }
        Ok(Some(evolved))
    }
}

impl Counted {
    /// One round of the evolver, counted.
    fn round(&self, brain: &mut Brain, routine: &Routine, external: &[Slug]) -> Result<Evolved> {
        let evolved = routine::round(brain, routine, Ranking::default(), external)?;
        let (changed, rollbacks) = (evolved.run.as_ref().map_or(0, Run::changed), evolved.rollbacks_proposed.len());
        if changed > 0 || rollbacks > 0 {
            self.evolved.fetch_add(changed as u64, Ordering::Relaxed);
            self.rollbacks_proposed.fetch_add(rollbacks as u64, Ordering::Relaxed);
            tracing::info!(brain = %brain.id(), changed, rollbacks, "the evolver passed");
        }
        Ok(evolved)
    }
}

fn is_due(brain: &Brain, evolving: &Evolving, now: Moment) -> Result<bool> {
    let every = i64::try_from(evolving.every.as_millis()).unwrap_or(i64::MAX);
    Ok(match brain.evolver_rows().passed_at()? {
        // A clock that was ahead once does not keep the evolver away.
        Some(passed) => !(0..every).contains(&now.millis().saturating_sub(passed.millis())),
        None => brain.next_evidence()? > FIRST_EVIDENCE,
    })
}
