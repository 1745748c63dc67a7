//! Programs in a sandbox: each call has one of its own, with the program, its standard input, and nothing else.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use herm_sandbox::{
    Bind, ExitReason, OutputMode, ResourceUsage, SandboxLease, SandboxLimits, SandboxProgram, SandboxSpec, StdinMode,
};

use super::ProgramRunner;
use crate::error::{Error, Result};
use crate::fsio;

/// Runs programs in sandboxes below a directory.
#[derive(Debug, Clone)]
pub struct SandboxedPrograms {
    root: PathBuf,
    limits: SandboxLimits,
}

impl SandboxedPrograms {
    /// Sandboxes below `root`, which is made where it is not there.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let limits = SandboxLimits {
            cpu_percent: 100,
            memory: 512 << 20,
            processes: 32,
            disk: 64 << 20,
            files: 1_000,
            output: 1 << 20,
            ..SandboxLimits::default()
        };
        Self { root: root.into(), limits }
    }

    /// The same with no more than this for any of them.
    #[must_use]
    pub fn within(self, most: &SandboxLimits) -> Self {
        let own = self.limits;
        let limits = SandboxLimits {
            cpu_percent: own.cpu_percent.min(most.cpu_percent),
            memory: own.memory.min(most.memory),
            processes: own.processes.min(most.processes),
            disk: own.disk.min(most.disk),
            files: own.files.min(most.files),
            ..own
        };
        Self { limits, ..self }
    }

    /// The same on this thread, with what it used.
    pub fn run_now(
        &self,
        name: &str,
        program: &[u8],
        input: &[u8],
        timeout: Duration,
    ) -> (Result<Vec<u8>>, ResourceUsage) {
        let mut used = ResourceUsage::default();
        let ran = self.run_counted(name, program, input, timeout, &mut used);
        (ran, used)
    }

    fn run_counted(
        &self,
        name: &str,
        program: &[u8],
        input: &[u8],
        timeout: Duration,
        used: &mut ResourceUsage,
    ) -> Result<Vec<u8>> {
        let lease = SandboxLease::take(&self.root)
            .map_err(|source| Error::unavailable("no directory for a sandbox can be made").because(source))?;
        fsio::write_program(&lease.work().join("program"), program)?;
        let mut spec = SandboxSpec::new(SandboxProgram::At("/work/program".into()), &lease);
        spec.binds = Bind::system();
        spec.environment = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        spec.limits = SandboxLimits { wall: timeout, ..self.limits.clone() };
        (spec.stdin, spec.stdout) = (StdinMode::Piped, OutputMode::Piped);
        let mut running =
            herm_sandbox::spawn(spec).map_err(|refusal| Error::unavailable(refusal.message()).hint(refusal.hint()))?;
        let (stdin, stdout) = (running.stdin.take(), running.stdout.take());
        let mut written = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A program that does not read all of its input did nothing wrong.
                let _ = stdin.map(|mut stdin| stdin.write_all(input));
            });
            // A program that is ended leaves what it wrote so far.
            let _ = stdout.map(|mut stdout| stdout.read_to_end(&mut written));
        });
        let ending = running.wait();
        *used = ending.used;
        match ending.how {
            ExitReason::Exited(0) => Ok(written),
            ExitReason::Exited(code) => Err(Error::invalid(format!("the program {name} left with code {code}"))),
            ExitReason::Exceeded { budget, limit, .. } => Err(Error::refused(format!(
                "the program {name} was ended: it may use {limit} {} and wanted more",
                budget.unit()
            ))),
            ExitReason::Signalled(signal) => {
                Err(Error::invalid(format!("the program {name} was ended by signal {signal}")))
            }
            ExitReason::Killed | ExitReason::Broken(_) => {
                Err(Error::unavailable(format!("the sandbox of the program {name} broke")))
            }
        }
    }
}

#[async_trait]
impl ProgramRunner for SandboxedPrograms {
    async fn run(&self, name: &str, program: &Arc<[u8]>, input: Vec<u8>, timeout: Duration) -> Result<Vec<u8>> {
        let (this, name, program) = (self.clone(), name.to_owned(), Arc::clone(program));
        let run = tokio::task::spawn_blocking(move || this.run_now(&name, &program, &input, timeout).0);
        run.await.map_err(|_| Error::internal("running a program was interrupted"))?
    }
}
