//! What the tasks of a key may still cost. A task sets aside the most it can cost before it begins, so that tasks that
//! run side by side never spend the same money.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use herm::{Error, TaskLimits};

use super::app::App;
use super::caller::Caller;
use super::problem::{HandlerResult, Problem};
use crate::server_db::keys;

/// Money set aside by tasks that have not ended, by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Money(Arc<Mutex<HashMap<String, u64>>>);

/// Money that one task has set aside; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    money: Money,
    key: String,
    amount: u64,
}

impl Money {
    /// Sets aside what a task may cost, and holds the task to it.
    pub(crate) fn reserve(
        &self,
        app: &App,
        caller: &Caller,
        limits: &mut TaskLimits,
    ) -> HandlerResult<Option<Reserved>> {
        let Some((key, budget)) = caller.key().and_then(|key| Some((key, key.micro_usd?))) else { return Ok(None) };
        // Locked first: what a task has cost is charged before what it set aside is free.
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = app.db.read(|connection| keys::spent(connection, &key.id))?;
        let held = aside.get(&key.id).copied().unwrap_or(0);
        let left = budget.saturating_sub(spent).saturating_sub(held);
        if left == 0 {
            if held > 0 {
                let what = format!("the budget of this key is set aside for tasks that run: {held} of {budget}");
                return Err(Problem::too_many(what, 5));
            }
            let what = format!("the budget of this key is used up: {spent} of {budget} millionths of a dollar");
            return Err(Error::refused(what).hint("ask the operator for a larger budget").into());
        }
        let amount = limits.micro_usd.unwrap_or(app.limits.task_micro_usd).min(left);
        limits.micro_usd = Some(amount);
        *aside.entry(key.id.clone()).or_default() += amount;
        Ok(Some(Reserved { money: self.clone(), key: key.id.clone(), amount }))
    }

    /// Sets aside again what a task of an earlier process had.
    pub(crate) fn reserve_again(&self, key: &str, amount: u64) -> Reserved {
        let mut aside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *aside.entry(key.to_owned()).or_default() += amount;
        Reserved { money: self.clone(), key: key.to_owned(), amount }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut aside = self.money.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = aside.get_mut(&self.key) {
            *held = held.saturating_sub(self.amount);
            if *held == 0 {
                aside.remove(&self.key);
            }
        }
    }
}
