//! The supervisor: a thread that stays with a sandbox, holds its limits, and ends it.
//!
//! Wall time is a timer. Memory and processes are the kernel's where there are control groups. What must be sampled
//! (the disk always, the rest elsewhere) is looked at the more often the nearer it is to its limit; from
//! [`NEAR`] on, everything inside is stopped while it is looked at, so that a limit is crossed by no more than what
//! fits into the slice of time before.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::cgroup::Groups;
use super::handle::Shared;
use super::sample::ProcView;
use super::spawn::Process;
use super::streams::Pump;
use super::tree::{Size, Tree, Unmeasured};
use super::wire::{ControlSocket, ParentMessage, StageMessage, timespec};
use crate::exit::{ExitReason, ResourceUsage, SandboxExit};
use crate::janitor::SandboxLease;
use crate::limits::{LimitKind, SandboxLimits};

/// The share of a sampled limit at which everything is stopped while it is looked at.
const NEAR: f64 = 0.80;
/// The share of a sampled limit that counts as crossing it.
const CROSSED: f64 = 0.98;
/// The fastest that anything inside is thought to take memory or disk: several times what was ever seen, since a look
/// may come late, and files that are asked for at once are not given (see `filter.rs`).
const BYTES_A_MILLISECOND: f64 = 12_000_000.0;
const FILES_A_MILLISECOND: f64 = 300.0;
/// The niceness of this thread, ahead of everybody who computes.
const AHEAD: i32 = -10;
/// How often it is looked at most rarely.
const RAREST_LOOK: Duration = Duration::from_millis(25);
const RAREST_WALK: Duration = Duration::from_millis(100);
/// How often everything is stopped at most because others may have filled the disk.
const RAREST_STOP: Duration = Duration::from_secs(1);
/// How often it is said that everything is to stop: those inside can make each other go on.
const STOPS: u32 = 4;
const BETWEEN_STOPS: Duration = Duration::from_micros(200);
const SHORTEST_SLICE: Duration = Duration::from_millis(1);
/// How long the init may take to say that everything is stopped. Where CPU time is held, it waits like the others.
const STOPPING: Duration = Duration::from_millis(150);
/// At most this much of a stream is taken at once.
const CHUNK: usize = 64 * 1024;

/// What is known about the disk.
#[derive(Debug, Clone, Copy)]
struct Disk {
    /// The last exact figure, and when it was taken.
    last: Size,
    taken: Instant,
    /// How long that took.
    cost: Duration,
    /// The whole file system at that time.
    around: Size,
}

pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    ended: Sender<SandboxExit>,
    control: ControlSocket,
    control_open: bool,
    init: Process,
    outer: Option<Process>,
    windows: ProcView,
    tree: Tree,
    groups: Groups,
    limits: SandboxLimits,
    pumps: Vec<Pump>,
    /// The largest cheap figure of memory for which the exact one was taken.
    looked_into: u64,
    /// Held as long as there is something to be swept.
    _lease: SandboxLease,
    started: Instant,
    status: Option<i32>,
    stopped: bool,
    disk: Option<Disk>,
    /// The whole file system before anything ran.
    before: Size,
    /// What was taken, and the whole file system, when nobody moved and nothing was hidden.
    clean: (Size, Size),
    /// When it was last looked at while nobody moved.
    stopped_look: Option<Instant>,
    used: ResourceUsage,
}

impl Supervisor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        ended: Sender<SandboxExit>,
        (control, init, outer): (ControlSocket, Process, Option<Process>),
        (windows, tree, groups): (ProcView, Tree, Groups),
        (limits, pumps, lease): (SandboxLimits, Vec<Pump>, SandboxLease),
    ) -> Self {
        let before = tree.file_system().unwrap_or_default();
        Self {
            shared,
            ended,
            control,
            control_open: true,
            init,
            outer,
            windows,
            tree,
            groups,
            limits,
            pumps,
            looked_into: 0,
            _lease: lease,
            started: Instant::now(),
            status: None,
            stopped: false,
            disk: None,
            before,
            clean: (Size::default(), before),
            stopped_look: None,
            used: ResourceUsage::default(),
        }
    }

    /// Stays until nothing of the sandbox is left, and tells how it ended.
    pub(crate) fn run(mut self) {
        // A late look misses what is taken meanwhile. Only root may do this; nobody loses anything without it.
        let _ = rustix::process::setpriority_process(None, AHEAD);
        let mut next_look = self.started;
        loop {
            let now = Instant::now();
            let verdict = self.shared.verdict();
            if verdict.is_none() && now >= self.started + self.limits.wall {
                let (limit, used) = (self.limits.wall.as_millis() as u64, self.started.elapsed().as_millis() as u64);
                self.exceed(LimitKind::Wall, limit, used);
            } else if verdict.is_none() && now >= next_look {
                next_look = Instant::now() + self.look();
            }
            let deadline = next_look.min(self.started + self.limits.wall);
            let ending = self.shared.verdict().is_some();
            let timeout = if ending { RAREST_LOOK } else { deadline.saturating_duration_since(Instant::now()) };
            if self.wait(timeout) {
                break;
            }
        }
        self.finish();
    }

    /// Ends everything. A process that waits for a share of CPU time would wait with dying too.
    fn exceed(&self, budget: LimitKind, limit: u64, used: u64) {
        self.shared.exceed(budget, limit, used);
        self.groups.hasten();
    }

    /// Waits for something to happen. Tells whether the init is gone, and everything with it.
    fn wait(&mut self, timeout: Duration) -> bool {
        let mut wanted =
            vec![PollFd::new(&self.shared.init, PollFlags::IN), PollFd::new(&self.shared.wake, PollFlags::IN)];
        if self.control_open {
            wanted.push(PollFd::new(&self.control, PollFlags::IN));
        }
        let pumps_from = wanted.len();
        wanted.extend(self.pumps.iter().map(|pump| PollFd::new(&pump.from, PollFlags::IN)));
        if poll(&mut wanted, Some(&timespec(timeout))).is_err() {
            return false;
        }
        let ready: Vec<bool> = wanted.iter().map(|wanted| !wanted.revents().is_empty()).collect();
        drop(wanted);
        if ready[1] {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.shared.wake, &mut count);
            self.groups.hasten();
        }
        if self.control_open && ready[2] {
            self.hear();
        }
        let mut closed = Vec::new();
        for (index, _) in ready[pumps_from..].iter().enumerate().filter(|(_, ready)| **ready) {
            if !self.pump(index) {
                closed.push(index);
            }
        }
        for index in closed.into_iter().rev() {
            self.pumps.remove(index);
        }
        ready[0]
    }

    fn hear(&mut self) {
        match self.control.receive::<StageMessage>() {
            Ok(Some(heard)) => match heard.message {
                StageMessage::Ended(status) => self.status = Some(status),
                StageMessage::Stopped => self.stopped = true,
                _ => {}
            },
            Ok(None) | Err(_) => self.control_open = false,
        }
    }

    /// Takes what a stream has, once. Tells whether there may be more.
    fn pump(&mut self, index: usize) -> bool {
        let pump = &mut self.pumps[index];
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(&pump.from, &mut chunk) {
            Ok(0) => false,
            Ok(count) => {
                let within = self.shared.count_output(count);
                if let Err(error) = pump.into.write_all(&chunk[..within]) {
                    self.shared.end(ExitReason::Broken(format!("the program's output cannot be written: {error}")));
                    return false;
                }
                within == count
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Looks at everything that can be crossed. Returns when to look again.
    fn look(&mut self) -> Duration {
        let mut pause = RAREST_LOOK;
        let counted = self.groups.counted();
        if counted.out_of_memory > 0 {
            let peak = self.groups.memory_peak().unwrap_or(self.limits.memory);
            self.exceed(LimitKind::Memory, self.limits.memory, peak);
            return pause;
        }
        if counted.refused_forks > 0 {
            let limit = u64::from(self.limits.processes);
            self.exceed(LimitKind::Processes, limit, limit);
            return pause;
        }
        if let Some(processes) = self.groups.processes() {
            self.used.processes_peak = self.used.processes_peak.max(processes);
        }
        let stopped = self.look_at_processes(&mut pause);
        if self.shared.verdict().is_none() {
            self.look_at_disk(stopped, &mut pause);
        }
        if stopped || self.stopped {
            self.go_on();
        }
        pause
    }

    /// Where no control group counts. Tells whether everything was stopped.
    fn look_at_processes(&mut self, pause: &mut Duration) -> bool {
        let (memory, processes) = (self.groups.holds_memory().is_none(), self.groups.holds_processes().is_none());
        let time = self.groups.cpu_used().is_none();
        if !memory && !processes && !time {
            return false;
        }
        let Ok(sample) = self.windows.sample() else { return false };
        self.used.cpu = self.used.cpu.max(sample.cpu);
        if processes {
            self.used.processes_peak = self.used.processes_peak.max(sample.tasks);
            if sample.tasks > self.limits.processes {
                self.exceed(LimitKind::Processes, self.limits.processes.into(), sample.tasks.into());
                return false;
            }
        }
        if !memory {
            return false;
        }
        let device = self.tree.device().unwrap_or(0);
        let nameless = self.windows.nameless(device).map_or(0, |nameless| nameless.memory);
        let mut now = sample.memory + nameless;
        let near = now as f64 >= self.limits.memory as f64 * NEAR;
        if near {
            self.stop();
            let nameless = self.windows.nameless(device).map_or(nameless, |nameless| nameless.memory);
            now = self.windows.exact_memory().unwrap_or(sample.memory) + nameless;
        }
        // The cheap figure counts what processes share for each of them. Where it could be a new peak, the exact one is taken,
        // and again only once the cheap one has grown by a sixteenth.
        if near || sample.tasks <= 1 {
            self.used.memory_peak = self.used.memory_peak.max(now);
        } else if now > self.used.memory_peak && now / 17 * 16 > self.looked_into {
            self.looked_into = now;
            let exact = self.windows.exact_memory().unwrap_or_default() + nameless;
            self.used.memory_peak = self.used.memory_peak.max(exact);
        }
        if near && now as f64 >= self.limits.memory as f64 * CROSSED {
            self.exceed(LimitKind::Memory, self.limits.memory, now);
        }
        shorten(pause, until_mark(now, self.limits.memory) / BYTES_A_MILLISECOND);
        near
    }

    fn look_at_disk(&mut self, mut stopped: bool, pause: &mut Duration) {
        let around = self.tree.file_system().unwrap_or_default();
        let mut known = self.guess(around);
        let due = self.disk.is_none_or(|disk| disk.taken.elapsed() >= RAREST_WALK.max(disk.cost * 4));
        let maybe_near = self.is_near(known) || self.is_unexplained(around);
        if maybe_near && !stopped {
            self.stop();
            stopped = true;
        }
        if stopped || due {
            match self.measure(stopped) {
                None => return,
                Some(size) => known = size,
            }
        }
        // The guess said too little, and nothing was stopped for it; now it is known, so it is looked at once more.
        if self.is_near(known) && !stopped {
            self.stop();
            match self.measure(true) {
                None => return,
                Some(size) => known = size,
            }
        }
        shorten(pause, until_mark(known.bytes, self.limits.disk) / BYTES_A_MILLISECOND);
        shorten(pause, until_mark(known.files, self.limits.files) / FILES_A_MILLISECOND);
        // Looking must not take longer than running.
        if let Some(disk) = self.disk
            && maybe_near
        {
            *pause = (*pause).max(disk.cost / 2);
        }
    }

    /// At most this much can be taken; others who share the disk only make us look more often.
    fn guess(&self, around: Size) -> Size {
        self.disk.map_or(around.since(self.before), |disk| disk.last + around.since(disk.around))
    }

    fn is_near(&self, size: Size) -> bool {
        size.bytes as f64 >= self.limits.disk as f64 * NEAR || size.files as f64 >= self.limits.files as f64 * NEAR
    }

    /// Whether the file system lost so much since the beginning that somebody may hide it from a look that stops nobody.
    fn is_unexplained(&self, around: Size) -> bool {
        self.is_near(around.since(self.before)) && self.stopped_look.is_none_or(|at| at.elapsed() >= RAREST_STOP)
    }

    /// Measures the work directory, and ends the sandbox if that crosses a limit while nobody moves. `None` if it ended,
    /// is to end, or if the disk did not let us.
    fn measure(&mut self, stopped: bool) -> Option<Size> {
        let began = Instant::now();
        let around = self.tree.file_system().unwrap_or_default();
        let nameless = self.tree.device().and_then(|device| self.windows.nameless(device)).unwrap_or_default();
        let wall = self.started + self.limits.wall;
        let mut give_up = || {
            let growth = || self.is_near(self.guess(self.tree.file_system().unwrap_or_default()));
            Instant::now() >= wall || !stopped && growth()
        };
        let size = match self.tree.measure(&mut give_up) {
            Ok(size) => size + nameless.disk,
            Err(Unmeasured::Interrupted) if Instant::now() >= wall => return None,
            Err(Unmeasured::Interrupted) => {
                self.stop();
                return self.measure(true);
            }
            Err(Unmeasured::Hidden) => {
                // A program that hides what it takes is taken to take too much.
                self.exceed(LimitKind::Files, self.limits.files, self.used.files_peak);
                return None;
            }
            Err(Unmeasured::Failed(error)) => {
                self.shared.end(ExitReason::Broken(format!("the work directory cannot be measured: {error}")));
                return None;
            }
        };
        let (clean, then) = self.clean;
        let size = if nameless.hides { size.at_least(clean + around.since(then)) } else { size };
        let now = Instant::now();
        self.disk = Some(Disk { last: size, taken: now, cost: now - began, around });
        self.used.disk_peak = self.used.disk_peak.max(size.bytes);
        self.used.files_peak = self.used.files_peak.max(size.files);
        if !stopped {
            return Some(size);
        }
        self.stopped_look = Some(now);
        if !nameless.hides {
            self.clean = (size, around);
        }
        if let Some((budget, limit, used)) = self.crossed(size) {
            self.exceed(budget, limit, used);
            return None;
        }
        Some(size)
    }

    fn crossed(&self, size: Size) -> Option<(LimitKind, u64, u64)> {
        if size.bytes as f64 >= self.limits.disk as f64 * CROSSED {
            Some((LimitKind::Disk, self.limits.disk, size.bytes))
        } else if size.files as f64 >= self.limits.files as f64 * CROSSED {
            Some((LimitKind::Files, self.limits.files, size.files))
        } else {
            None
        }
    }

    /// Stops everything inside, so that it can be looked at.
    fn stop(&mut self) {
        for _ in 0..STOPS {
            self.stop_once();
            if !self.stopped || self.windows.are_stopped() {
                return;
            }
            std::thread::sleep(BETWEEN_STOPS);
        }
    }

    fn stop_once(&mut self) {
        self.stopped = false;
        if !self.control_open || self.control.send(&ParentMessage::Stop, &[]).is_err() {
            return;
        }
        let deadline = Instant::now() + STOPPING;
        while !self.stopped && self.control_open && Instant::now() < deadline {
            match self.control.readable_before(deadline) {
                Ok(true) => self.hear(),
                Ok(false) => {}
                Err(_) => return,
            }
        }
    }

    fn go_on(&mut self) {
        self.stopped = false;
        // If the init is gone there is nothing to go on.
        let _ = self.control.send(&ParentMessage::Continue, &[]);
    }

    /// Nothing runs any more: takes in the last words, removes what is left, and tells how it ended.
    fn finish(mut self) {
        let gone = Instant::now();
        let wall = gone.duration_since(self.started);
        while self.control_open && self.control.readable_before(gone).unwrap_or(false) {
            self.hear();
        }
        while !self.pumps.is_empty() {
            if !self.pump(0) {
                self.pumps.remove(0);
            }
        }
        let inner = self.init.reap();
        let outer = self.outer.as_mut().and_then(Process::reap);
        let counted = self.groups.counted();
        if let Ok(size) = self.tree.measure(&mut || false) {
            self.used.disk_peak = self.used.disk_peak.max(size.bytes);
            self.used.files_peak = self.used.files_peak.max(size.files);
            if self.shared.verdict().is_none()
                && let Some((budget, limit, used)) = self.crossed(size)
            {
                self.shared.exceed(budget, limit, used);
            }
        }
        self.used.wall = wall;
        self.used.output = self.shared.output();
        // What was ended from outside was waited for by nobody, so the last sample knows more.
        let waited_for = outer.or(inner).unwrap_or_default().max(self.used.cpu);
        self.used.cpu = self.groups.cpu_used().unwrap_or(waited_for);
        self.used.memory_peak = self.groups.memory_peak().unwrap_or(self.used.memory_peak);
        if self.shared.verdict().is_none() && counted.out_of_memory > 0 {
            self.shared.exceed(LimitKind::Memory, self.limits.memory, self.used.memory_peak);
        }
        if self.shared.verdict().is_none() && counted.refused_forks > 0 {
            let limit = u64::from(self.limits.processes);
            self.shared.exceed(LimitKind::Processes, limit, limit);
        }
        let verdict = self.shared.verdict();
        let mut how = match (&verdict, self.status) {
            (Some(verdict), _) => verdict.how.clone(),
            (None, Some(status)) => ended(status),
            (None, None) => ExitReason::Broken("the init of the sandbox ended without a word".into()),
        };
        if let Err(error) = self.groups.remove()
            && !matches!(how, ExitReason::Exceeded { .. } | ExitReason::Broken(_))
        {
            how = ExitReason::Broken(format!("the control groups of the sandbox cannot be removed: {error}"));
        }
        let terminated_within = verdict.map(|verdict| gone.saturating_duration_since(verdict.at));
        let ending = SandboxExit { how, used: self.used.clone(), terminated_within };
        let ended = self.ended.clone();
        // Everything that was held is gone before anybody hears of it.
        drop(self);
        // Nobody may wait for it any more.
        let _ = ended.send(ending);
    }
}

/// How much may be taken before it must be looked at again: up to where it is stopped for that, then up to the crossing.
fn until_mark(taken: u64, limit: u64) -> f64 {
    let share = if (taken as f64) < limit as f64 * NEAR { NEAR } else { CROSSED };
    limit as f64 * share - taken as f64
}

fn shorten(pause: &mut Duration, milliseconds: f64) {
    let wanted = Duration::from_secs_f64((milliseconds / 1_000.0).clamp(0.0, 1.0));
    *pause = (*pause).min(wanted).max(SHORTEST_SLICE);
}

fn ended(status: i32) -> ExitReason {
    if libc::WIFSIGNALED(status) {
        ExitReason::Signalled(libc::WTERMSIG(status))
    } else {
        ExitReason::Exited(libc::WEXITSTATUS(status))
    }
}
