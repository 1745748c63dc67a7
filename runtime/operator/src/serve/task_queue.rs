//! Where tasks wait: each brain has a line of its own, in which subscribers take turns; so many run at once; and there is a
//! limit to how many wait, of which nobody takes more than a share. What is over it is told at once and takes no memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herm::{BrainId, TaskId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::live::LiveTask;
use super::problem::{HandlerResult, Problem};
use crate::config::ServeLimits;

/// The tasks of a server.
#[derive(Debug)]
pub(crate) struct TaskQueue {
    limits: ServeLimits,
    running: Arc<Semaphore>,
    inside: Arc<Mutex<QueueState>>,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: HashMap<BrainId, BrainQueue>,
    waiting: Waiting,
    running: usize,
    tasks: HashMap<TaskId, Arc<LiveTask>>,
}

/// How many tasks wait, and whose they are.
#[derive(Debug, Default)]
struct Waiting {
    all: usize,
    by_owner: HashMap<String, usize>,
}

impl Waiting {
    fn add(&mut self, owner: &str) {
        self.all += 1;
        *self.by_owner.entry(owner.to_owned()).or_default() += 1;
    }

    fn remove(&mut self, owner: &str) {
        self.all -= 1;
        if let Some(count) = self.by_owner.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                self.by_owner.remove(owner);
            }
        }
    }

    /// How many tasks of this owner wait already, and how many of `places` they may take: at most half of those that
    /// others leave, so that the next owner still finds one.
    fn share(&self, owner: &str, places: usize) -> (usize, usize) {
        let own = self.by_owner.get(owner).copied().unwrap_or(0);
        (own, places.saturating_sub(self.all - own).div_ceil(2))
    }
}

/// The line of one brain.
#[derive(Debug, Default)]
struct BrainQueue {
    /// Whose turn it is, or will be once there is room among all that run.
    turn: Option<TaskId>,
    running: Option<TaskId>,
    waiting: Waiting,
    /// Those who wait for their turn, by owner; the first owner is next, and goes to the end with what it still has.
    owners: VecDeque<(String, VecDeque<Waiter>)>,
}

#[derive(Debug)]
struct Waiter {
    id: TaskId,
    call: oneshot::Sender<()>,
}

impl BrainQueue {
    fn push(&mut self, owner: &str, waiter: Waiter) {
        match self.owners.iter_mut().find(|(known, _)| known == owner) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.owners.push_back((owner.to_owned(), VecDeque::from([waiter]))),
        }
    }

    /// Calls the next one, if it is nobody's turn.
    fn call_next(&mut self) {
        while self.turn.is_none()
            && let Some((owner, mut waiters)) = self.owners.pop_front()
        {
            let next = waiters.pop_front();
            if !waiters.is_empty() {
                self.owners.push_back((owner, waiters));
            }
            if let Some(next) = next
                && next.call.send(()).is_ok()
            {
                self.turn = Some(next.id);
            }
        }
    }

    fn forget(&mut self, id: &TaskId) {
        for (_, waiters) in &mut self.owners {
            waiters.retain(|waiter| waiter.id != *id);
        }
        self.owners.retain(|(_, waiters)| !waiters.is_empty());
        if self.turn.as_ref() == Some(id) {
            self.turn = None;
        }
    }
}

/// How full it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Tasks whose turn it is, and that have room to run.
    pub(crate) running: usize,
    /// Tasks that wait for their turn, or for room to run.
    pub(crate) waiting: usize,
}

/// A brain with something to do.
#[derive(Debug, Clone)]
pub(crate) struct Busy {
    /// The agent whose brain it is.
    pub(crate) agent: BrainId,
    /// The task that runs.
    pub(crate) running: Option<Arc<LiveTask>>,
    /// Tasks that wait for it.
    pub(crate) waiting: usize,
}

/// Whether a caller is held to a share of the places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// One of several who have keys.
    Fair,
    /// The only one there is: the operator of a server without keys.
    All,
}

/// A place in a line. Leaves it when dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    inside: Arc<Mutex<QueueState>>,
    running: Arc<Semaphore>,
    called: Option<oneshot::Receiver<()>>,
    live: Arc<LiveTask>,
    is_waiting: bool,
}

/// A task's turn. The next one's begins when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    // Dropped first: by then the ticket has left the line.
    _ticket: Admission,
    _room: Option<OwnedSemaphorePermit>,
}

impl TaskQueue {
    /// An empty queue with these limits.
    pub(crate) fn new(limits: ServeLimits) -> Self {
        Self { limits, running: Arc::new(Semaphore::new(limits.running)), inside: Arc::default() }
    }

    fn inside(&self) -> MutexGuard<'_, QueueState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task to the line of its brain; a problem with status 429 where too many wait.
    pub(crate) fn enter(&self, live: Arc<LiveTask>, share: Share) -> HandlerResult<Admission> {
        let mut inside = self.inside();
        let too_many = |what: String, after| Err(Problem::too_many(what, after));
        if inside.waiting.all >= self.limits.waiting {
            return too_many(format!("{} tasks wait already", inside.waiting.all), 5);
        }
        let nobody = Waiting::default();
        let line = inside.lines.get(&live.agent).map_or(&nobody, |line| &line.waiting);
        let in_line = line.all;
        if in_line >= self.limits.waiting_per_brain {
            return too_many(format!("{in_line} tasks wait for agent {} already", live.agent), 2);
        }
        if share == Share::Fair {
            let (own, most) = line.share(&live.owner, self.limits.waiting_per_brain);
            if own >= most {
                let what =
                    format!("{own} of your tasks wait for agent {} already, and the rest is for others", live.agent);
                return too_many(what, 2);
            }
            let (own, most) = inside.waiting.share(&live.owner, self.limits.waiting);
            if own >= most {
                return too_many(format!("{own} of your tasks wait already, and the rest is for others"), 5);
            }
        }
        Ok(self.join(&mut inside, live))
    }

    /// Gets in line, however long it is: an earlier process accepted the task.
    pub(crate) fn enter_again(&self, live: Arc<LiveTask>) -> Admission {
        self.join(&mut self.inside(), live)
    }

    fn join(&self, inside: &mut QueueState, live: Arc<LiveTask>) -> Admission {
        let (call, called) = oneshot::channel();
        let line = inside.lines.entry(live.agent.clone()).or_default();
        line.waiting.add(&live.owner);
        line.push(&live.owner, Waiter { id: live.id.clone(), call });
        line.call_next();
        inside.waiting.add(&live.owner);
        inside.tasks.insert(live.id.clone(), Arc::clone(&live));
        let (inside, running) = (Arc::clone(&self.inside), Arc::clone(&self.running));
        Admission { inside, running, called: Some(called), live, is_waiting: true }
    }

    /// A task that waits, runs, or is just being written down.
    pub(crate) fn task(&self, id: &TaskId) -> Option<Arc<LiveTask>> {
        self.inside().tasks.get(id).cloned()
    }

    /// Every task that waits or runs.
    pub(crate) fn tasks(&self) -> Vec<Arc<LiveTask>> {
        self.inside().tasks.values().cloned().collect()
    }

    /// Forgets a task that is written down.
    pub(crate) fn forget(&self, id: &TaskId) {
        self.inside().tasks.remove(id);
    }

    /// How full it is.
    pub(crate) fn depth(&self) -> Depth {
        let inside = self.inside();
        Depth { running: inside.running, waiting: inside.waiting.all }
    }

    /// How full the line of one brain is.
    pub(crate) fn depth_of(&self, agent: &BrainId) -> Depth {
        let inside = self.inside();
        inside.lines.get(agent).map_or(Depth { running: 0, waiting: 0 }, |line| Depth {
            running: usize::from(line.running.is_some()),
            waiting: line.waiting.all,
        })
    }

    /// The brains with something to do.
    pub(crate) fn busy(&self) -> Vec<Busy> {
        let inside = self.inside();
        let busy = inside.lines.iter().map(|(agent, line)| Busy {
            agent: agent.clone(),
            running: line.running.as_ref().and_then(|id| inside.tasks.get(id)).cloned(),
            waiting: line.waiting.all,
        });
        busy.collect()
    }
}

impl Admission {
    fn inside(&self) -> MutexGuard<'_, QueueState> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the task's turn: first for its brain, then for room among all that run.
    pub(crate) async fn acquire(mut self) -> Permit {
        if let Some(called) = &mut self.called {
            // The sender stands in the line for as long as this ticket does.
            let _ = called.await;
        }
        // The semaphore is never closed.
        let room = Arc::clone(&self.running).acquire_owned().await.ok();
        {
            let mut inside = self.inside();
            inside.waiting.remove(&self.live.owner);
            inside.running += 1;
            if let Some(line) = inside.lines.get_mut(&self.live.agent) {
                line.waiting.remove(&self.live.owner);
                line.running = Some(self.live.id.clone());
            }
        }
        self.is_waiting = false;
        Permit { _ticket: self, _room: room }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        match self.is_waiting {
            true => inside.waiting.remove(&self.live.owner),
            false => inside.running -= 1,
        }
        if let Some(line) = inside.lines.get_mut(&self.live.agent) {
            match self.is_waiting {
                true => line.waiting.remove(&self.live.owner),
                false => line.running = None,
            }
            line.forget(&self.live.id);
            line.call_next();
            if line.waiting.all == 0 && line.running.is_none() {
                inside.lines.remove(&self.live.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use herm::Timestamp;

    use super::*;

    fn hall(waiting_per_brain: usize) -> TaskQueue {
        let entry = crate::config::ServeEntry { waiting_per_brain: Some(waiting_per_brain), ..Default::default() };
        TaskQueue::new(entry.limits().unwrap())
    }

    fn task(name: &str, owner: &str) -> Arc<LiveTask> {
        let (id, agent) = (name.parse().unwrap(), "7".parse().unwrap());
        Arc::new(LiveTask::new(id, agent, owner.to_owned(), false, Timestamp(0)))
    }

    /// The tasks in the order of their turns.
    async fn order(mut tickets: Vec<Admission>) -> Vec<String> {
        let mut order = Vec::new();
        while !tickets.is_empty() {
            // The one whose turn it is; nobody else's future is ready.
            let turn = tickets[0].inside().lines[&"7".parse().unwrap()].turn.clone().unwrap();
            let at = tickets.iter().position(|ticket| ticket.live.id == turn).unwrap();
            let turn = tickets.remove(at).acquire().await;
            order.push(turn._ticket.live.id.to_string());
        }
        order
    }

    #[tokio::test]
    async fn subscribers_take_turns_and_each_one_s_tasks_keep_their_order() {
        let hall = hall(32);
        let enter = |name: &str, owner: &str| hall.enter(task(name, owner), Share::Fair).unwrap();
        let mut tickets: Vec<Admission> = (0..5).map(|number| enter(&format!("a{number}"), "alice")).collect();
        tickets.extend([enter("b0", "bob"), enter("b1", "bob"), enter("c0", "carol")]);
        assert_eq!(order(tickets).await, ["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4"]);
        assert_eq!(hall.depth(), Depth { running: 0, waiting: 0 });
        assert!(hall.inside().lines.is_empty());
    }

    #[test]
    fn however_many_one_subscriber_sends_another_finds_a_place() {
        let hall = hall(32);
        let fill = |owner: &str| {
            let mut taken = Vec::new();
            while let Ok(ticket) = hall.enter(task(&format!("{owner}{}", taken.len()), owner), Share::Fair) {
                taken.push(ticket);
            }
            taken
        };
        let taken: Vec<Vec<Admission>> = ["a", "b", "c", "d", "e"].map(fill).into();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [16, 8, 4, 2, 1]);
        assert!(hall.enter(task("f0", "f"), Share::Fair).is_ok());
        drop(taken);
        assert_eq!(fill("g").len(), 16, "room comes back");
        // The one caller of a server without keys takes no place from anyone.
        let all: Vec<_> =
            (0..40).map_while(|number| hall.enter(task(&format!("o{number}"), "operator"), Share::All).ok()).collect();
        assert_eq!(all.len(), 32);
    }

    #[tokio::test]
    async fn whoever_leaves_the_line_holds_nobody_up() {
        let hall = hall(32);
        let enter = |name: &str, owner: &str| hall.enter(task(name, owner), Share::Fair).unwrap();
        let (first, second, third) = (enter("a0", "alice"), enter("a1", "alice"), enter("b0", "bob"));
        // Called, and gone before it heard of it.
        drop(first);
        drop(second);
        assert_eq!(order(vec![third]).await, ["b0"]);
    }
}
