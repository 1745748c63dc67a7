//! Where tasks wait: each brain has a line of its own, first come first served; so many run at once; and there is a
//! limit to how many wait. What is over it is told at once and takes no memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herm::{BrainId, TaskId};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use super::live::Live;
use super::problem::{Answered, Problem};
use crate::config::ServeLimits;

/// The tasks of a server.
#[derive(Debug)]
pub(crate) struct Hall {
    limits: ServeLimits,
    running: Arc<Semaphore>,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    lines: HashMap<BrainId, Line>,
    waiting: usize,
    running: usize,
    tasks: HashMap<TaskId, Arc<Live>>,
}

/// The line of one brain.
#[derive(Debug, Default)]
struct Line {
    turn: Arc<tokio::sync::Mutex<()>>,
    waiting: usize,
    running: Option<TaskId>,
}

/// How full it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Tasks that run.
    pub(crate) running: usize,
    /// Tasks that wait.
    pub(crate) waiting: usize,
}

/// A brain with something to do.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    /// The brain.
    pub(crate) agent: BrainId,
    /// The task that runs.
    pub(crate) running: Option<Arc<Live>>,
    /// Tasks that wait for it.
    pub(crate) waiting: usize,
}

/// A place in a line. Leaves it when dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    inside: Arc<Mutex<Inside>>,
    running: Arc<Semaphore>,
    turn: Arc<tokio::sync::Mutex<()>>,
    live: Arc<Live>,
    is_waiting: bool,
}

/// A task's turn. The next one's begins when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    // Dropped first: by then the ticket has left the line.
    _ticket: Ticket,
    _turn: OwnedMutexGuard<()>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Hall {
    /// An empty one.
    pub(crate) fn new(limits: ServeLimits) -> Self {
        Self { limits, running: Arc::new(Semaphore::new(limits.running)), inside: Arc::default() }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets in line.
    pub(crate) fn enter(&self, live: Arc<Live>) -> Answered<Ticket> {
        let mut inside = self.inside();
        let too_many = |what: String, after| Err(Problem::too_many(what, after));
        if inside.waiting >= self.limits.waiting {
            return too_many(format!("{} tasks wait already", inside.waiting), 5);
        }
        let in_line = inside.lines.get(&live.agent).map_or(0, |line| line.waiting);
        if in_line >= self.limits.waiting_per_brain {
            return too_many(format!("{in_line} tasks wait for agent {} already", live.agent), 2);
        }
        Ok(self.join(&mut inside, live))
    }

    /// Gets in line, however long it is: an earlier process accepted the task.
    pub(crate) fn enter_again(&self, live: Arc<Live>) -> Ticket {
        self.join(&mut self.inside(), live)
    }

    fn join(&self, inside: &mut Inside, live: Arc<Live>) -> Ticket {
        let line = inside.lines.entry(live.agent.clone()).or_default();
        line.waiting += 1;
        let turn = Arc::clone(&line.turn);
        inside.waiting += 1;
        inside.tasks.insert(live.id.clone(), Arc::clone(&live));
        Ticket { inside: Arc::clone(&self.inside), running: Arc::clone(&self.running), turn, live, is_waiting: true }
    }

    /// A task that waits, runs, or is just being written down.
    pub(crate) fn task(&self, id: &TaskId) -> Option<Arc<Live>> {
        self.inside().tasks.get(id).cloned()
    }

    /// Every task that waits or runs.
    pub(crate) fn tasks(&self) -> Vec<Arc<Live>> {
        self.inside().tasks.values().cloned().collect()
    }

    /// Forgets a task that is written down.
    pub(crate) fn forget(&self, id: &TaskId) {
        self.inside().tasks.remove(id);
    }

    /// How full it is.
    pub(crate) fn depth(&self) -> Depth {
        let inside = self.inside();
        Depth { running: inside.running, waiting: inside.waiting }
    }

    /// How full the line of one brain is.
    pub(crate) fn depth_of(&self, agent: &BrainId) -> Depth {
        let inside = self.inside();
        inside.lines.get(agent).map_or(Depth { running: 0, waiting: 0 }, |line| Depth {
            running: usize::from(line.running.is_some()),
            waiting: line.waiting,
        })
    }

    /// The brains with something to do.
    pub(crate) fn busy(&self) -> Vec<Busy> {
        let inside = self.inside();
        let busy = inside.lines.iter().map(|(agent, line)| Busy {
            agent: agent.clone(),
            running: line.running.as_ref().and_then(|id| inside.tasks.get(id)).cloned(),
            waiting: line.waiting,
        });
        busy.collect()
    }
}

impl Ticket {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the task's turn: first for its brain, then for room among all that run.
    pub(crate) async fn turn(mut self) -> Turn {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // The semaphore is never closed.
        let room = Arc::clone(&self.running).acquire_owned().await.ok();
        {
            let mut inside = self.inside();
            inside.waiting -= 1;
            inside.running += 1;
            if let Some(line) = inside.lines.get_mut(&self.live.agent) {
                line.waiting -= 1;
                line.running = Some(self.live.id.clone());
            }
        }
        self.is_waiting = false;
        Turn { _ticket: self, _turn: turn, _room: room }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let is_waiting = self.is_waiting;
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        match is_waiting {
            true => inside.waiting -= 1,
            false => inside.running -= 1,
        }
        if let Some(line) = inside.lines.get_mut(&self.live.agent) {
            match is_waiting {
                true => line.waiting -= 1,
                false => line.running = None,
            }
            if line.waiting == 0 && line.running.is_none() {
                inside.lines.remove(&self.live.agent);
            }
        }
    }
}
