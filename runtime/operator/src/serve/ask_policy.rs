//! Which agents a task may ask: those of its key, none that is paused, and for one payment only one.

use std::fmt;

use herm::tool::{AnswerKeeping, AskRules};
use herm::{BrainId, Error, Result};

use super::app::App;

/// The rules of one task, as they are at the moment it asks.
pub(super) struct Asking {
    app: App,
    key: Option<String>,
    payment: AskPayment,
}

/// How a task that asks is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskPayment {
    /// It costs nothing, and may ask several agents.
    Free,
    /// Its payment was shown, and is taken once it has an answer.
    Shown,
    /// Its payment was taken, by a process before this one.
    Taken,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("key", &self.key).field("payment", &self.payment).finish_non_exhaustive()
    }
}

impl Asking {
    pub(super) fn new(app: App, key: Option<String>, payment: AskPayment) -> Self {
        Self { app, key, payment }
    }

    /// Whether the key that the task was given under still opens something, and this agent too.
    fn sees(&self, to: &BrainId) -> Result<bool> {
        let Some(id) = &self.key else { return Ok(true) };
        let keys = self.app.keyring.keys(&self.app.db)?;
        let key = keys.get(id).filter(|key| key.is_valid(self.app.clock.now())).ok_or_else(|| {
            Error::refused("the key of this task opens nothing any more").hint("answer with what you have")
        })?;
        Ok(key.agents.as_ref().is_none_or(|agents| agents.contains(to)))
    }
}

impl AskRules for Asking {
    fn check(&self, to: &BrainId) -> Result<()> {
        // One that is not the key's is not there, as everywhere else.
        if !self.sees(to)? || !(self.app.has(to) || self.app.vault.is_some()) {
            return Err(Error::not_found(format!("there is no agent {to} here")).hint("answer with what you have"));
        }
        if self.app.is_paused(to) {
            return Err(
                Error::unavailable(format!("agent {to} is paused by its operator")).hint("answer with what you have")
            );
        }
        let covered = self.app.paywall.as_ref().is_none_or(super::payment::Paywall::covers_asked_agents);
        match self.payment != AskPayment::Free && !covered {
            true => Err(Error::refused(format!("this task is paid for one agent, and agent {to} would be a second"))
                .hint("answer with what you have")),
            false => Ok(()),
        }
    }

    fn keeping(&self) -> AnswerKeeping {
        match self.payment {
            AskPayment::Free => AnswerKeeping::Kept,
            AskPayment::Shown => AnswerKeeping::HandedOver,
            AskPayment::Taken => AnswerKeeping::KeptOncePaid,
        }
    }
}
