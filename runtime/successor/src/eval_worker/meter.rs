//! What a case takes of the machine, as the worker itself can see it: time on processors, and the most memory at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often memory is looked at, where the kernel does not keep the peak of one case.
const EVERY: Duration = Duration::from_millis(2);

/// A case that is being measured.
pub(super) struct Meter {
    began: u64,
    peak: Peak,
}

/// Who keeps the most memory at once.
enum Peak {
    /// The kernel, from the beginning of the case on.
    Kernel,
    /// A thread that looks again and again.
    Looking { until: Arc<AtomicBool>, most: Arc<AtomicU64>, thread: Option<std::thread::JoinHandle<()>> },
}

impl Meter {
    /// From now on. Where the kernel lets nobody reset its count, which is of the whole process, what this case takes is
    /// looked at: else all cases would have one and the same peak.
    pub(super) fn begin() -> Self {
        let count = std::fs::OpenOptions::new().write(true).open("/proc/self/clear_refs");
        let peak = match count.and_then(|mut count| std::io::Write::write_all(&mut count, b"5")) {
            Ok(()) => Peak::Kernel,
            Err(_) => {
                let (until, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(resident())));
                let (ended, seen) = (Arc::clone(&until), Arc::clone(&most));
                let looking = std::thread::Builder::new().spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        seen.fetch_max(resident(), Ordering::Relaxed);
                        std::thread::park_timeout(EVERY);
                    }
                });
                // Without a thread the beginning and the end are what is seen.
                Peak::Looking { until, most, thread: looking.ok() }
            }
        };
        Self { began: processor_micros(), peak }
    }

    /// Microseconds on processors, and the most bytes of memory at once.
    pub(super) fn end(mut self) -> (u64, Option<u64>) {
        let cpu = processor_micros().saturating_sub(self.began);
        let memory = match &mut self.peak {
            Peak::Kernel => kilobytes("VmHWM:"),
            Peak::Looking { until, most, thread } => {
                until.store(true, Ordering::Relaxed);
                if let Some(thread) = thread.take() {
                    thread.thread().unpark();
                    // It only ever looks.
                    let _ = thread.join();
                }
                Some(most.fetch_max(resident(), Ordering::Relaxed).max(resident()))
            }
        };
        (cpu, memory)
    }
}

/// Memory in use now.
fn resident() -> u64 {
    kilobytes("VmRSS:").unwrap_or(0)
}

fn kilobytes(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// Time this process has had on processors.
pub(super) fn processor_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_takes_memory_and_gives_it_back_has_a_peak_of_its_own() {
        let meter = Meter::begin();
        let taken = vec![1_u8; 200 << 20];
        std::hint::black_box(&taken);
        drop(taken);
        let (_, large) = meter.end();
        let (cpu, small) = Meter::begin().end();
        let (large, small) = (large.unwrap(), small.unwrap());
        assert!(large >= 200 << 20 && small + (100 << 20) < large, "{large} and then {small}");
        assert!(cpu < 1_000_000);
    }
}
