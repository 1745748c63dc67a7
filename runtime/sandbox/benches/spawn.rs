//! From the call to the program's start: p50 and p99 over 200 spawns, beside the bound.
//!
//! `cargo bench -p herm-sandbox --bench spawn`; `HERM_SPAWNS=1000` for more.
#![cfg_attr(
    target_os = "linux",
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::print_stdout,
        clippy::panic,
        reason = "a bench prints, and may fail"
    )
)]

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::process::ExitCode;
    use std::time::{Duration, Instant};

    use herm_sandbox::{
        CgroupPolicy, ExitReason, SandboxLease, SandboxProgram, SandboxSpec, Tier, TierPolicy, run_if_reexec, spawn,
    };

    /// What the slowest hundredth may take.
    const BOUND: Duration = Duration::from_millis(250);

    pub(super) fn main() -> ExitCode {
        run_if_reexec();
        if std::env::args().nth(1).as_deref() == Some("inside") {
            return ExitCode::SUCCESS;
        }
        let spawns = std::env::var("HERM_SPAWNS").ok().and_then(|count| count.parse().ok()).unwrap_or(200);
        let mut good = true;
        println!("spawn → ready over {spawns} spawns each, bound p99 ≤ {BOUND:?}");
        for (name, tier, cgroups) in [
            ("namespaces, control groups", Tier::Namespaces, CgroupPolicy::WhereWritable),
            ("namespaces", Tier::Namespaces, CgroupPolicy::Never),
            ("bubblewrap, control groups", Tier::Bubblewrap, CgroupPolicy::WhereWritable),
        ] {
            if tier == Tier::Bubblewrap && !std::path::Path::new("/usr/bin/bwrap").exists() {
                println!("NOT RUN: {name}: bubblewrap is not installed");
                continue;
            }
            let (mut ready, mut whole) = measure(spawns, tier, cgroups);
            let (p50, p99) = (share(&mut ready, 50), share(&mut ready, 99));
            println!("{name:28} p50 {p50:>10.1?}  p99 {p99:>10.1?}  to the end p50 {:>10.1?}", share(&mut whole, 50));
            good &= p99 <= BOUND;
        }
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn share(times: &mut [Duration], percent: usize) -> Duration {
        times.sort();
        times[(times.len() * percent / 100).min(times.len() - 1)]
    }

    fn measure(spawns: usize, tier: Tier, cgroups: CgroupPolicy) -> (Vec<Duration>, Vec<Duration>) {
        let root = tempfile::tempdir().unwrap();
        // The transient user passes through it to its work directory.
        std::fs::set_permissions(root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let (mut ready, mut whole) = (Vec::new(), Vec::new());
        for _ in 0..spawns {
            let lease = SandboxLease::take(root.path()).unwrap();
            let mut spec = SandboxSpec::new(SandboxProgram::CurrentExe, &lease);
            spec.args = vec!["inside".into()];
            spec.tiers = TierPolicy::Only(tier);
            spec.cgroups = cgroups;
            let began = Instant::now();
            let running = spawn(spec).unwrap_or_else(|refusal| panic!("{refusal}"));
            ready.push(running.report.ready_after);
            assert_eq!(running.wait().how, ExitReason::Exited(0));
            whole.push(began.elapsed());
        }
        (ready, whole)
    }
}
