//! Stands in for `snapshots` in a build without the feature `snapshot`: brains stay where they are.

use std::sync::Arc;

use super::{BrainGuard, Inner};
use crate::brain::SettledStep;
use crate::error::{Error, Result};
use crate::ids::BrainId;

/// Nothing is ever pushed.
#[derive(Debug)]
pub(super) enum Snapshots {}

/// How the push of a step went: nobody pushes, so it is always later.
#[derive(Debug)]
#[expect(dead_code, reason = "the other variants are made by the module this one stands in for")]
pub(super) enum PushedStep {
    Done,
    Later,
    NotYet(String),
    Lost(Error),
}

#[expect(clippy::unused_async, reason = "the same signatures as in the module this one stands in for")]
impl Inner {
    pub(super) fn has_lost(&self, _: &BrainId) -> bool {
        false
    }

    pub(super) fn push_later(self: &Arc<Self>, _: &BrainId) {}

    pub(super) async fn flush_snapshots(&self) -> Result<()> {
        Ok(())
    }

    pub(super) async fn prepare(&self, _: &BrainId, _: &mut BrainGuard) -> Result<()> {
        Ok(())
    }

    pub(super) fn keep_lease(self: &Arc<Self>, _: &BrainId) -> Option<()> {
        None
    }

    pub(super) async fn push_before_answer(self: &Arc<Self>, _: &BrainId) -> Result<PushedStep> {
        Ok(PushedStep::Later)
    }

    pub(super) async fn take_back(&self, _: &BrainId, _: &mut BrainGuard, _: &SettledStep) -> Result<bool> {
        Ok(true)
    }
}
