//! How a harness is put together.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use secrecy::SecretString;

use super::pool::Pool;
use super::rehearsals::Rehearsals;
#[cfg(feature = "snapshot")]
use super::snapshots::{SnapshotOptions, Snapshots};
use super::vectors::Vectors;
use super::{CuratorOptions, EvolverOptions, Harness, Inner, SessionHook};
use crate::backend::{Backend, Router};
use crate::brain::{BrainOptions, OnDrift};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::ids::{Random, Slug, SystemRandom};
use crate::layout::Layout;
use crate::receipt::Signer;
use crate::semantic::Embedder;
use crate::task::LearningOptions;
use crate::tool::{
    EmbeddingUses, Embeddings, ExternalSkills, Permissions, ProgramRunner, Secrets, SkillEnv, Tool, Toolbox,
};
use crate::trial::sequential::TrialPolicy;

/// What open brains may weigh together, unless said otherwise.
const POOL_BYTES: usize = 64 << 20;
/// How many transcripts a brain keeps, unless said otherwise.
const KEEP_TRANSCRIPTS: u64 = 1_000;

/// Puts a harness together.
#[derive(Debug)]
#[must_use]
pub struct HarnessBuilder {
    brains: Option<PathBuf>,
    router: Router,
    toolbox: Toolbox,
    permissions: Permissions,
    secrets: Secrets,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    signer: Option<Signer>,
    wait: Duration,
    learning: LearningOptions,
    trials: TrialPolicy,
    sharing: bool,
    trace_content: bool,
    pool_bytes: usize,
    keep_transcripts: u64,
    curating: Option<CuratorOptions>,
    after: Option<Arc<dyn SessionHook>>,
    evolving: Option<EvolverOptions>,
    surroundings: SkillEnv,
    #[cfg(feature = "snapshot")]
    snapshotting: Option<SnapshotOptions>,
    programs: Option<Arc<dyn ProgramRunner>>,
    embedder: Option<Arc<dyn Embedder>>,
    uses: EmbeddingUses,
}

impl Default for HarnessBuilder {
    fn default() -> Self {
        Self {
            brains: None,
            router: Router::new(),
            toolbox: Toolbox::new(),
            permissions: Permissions::default(),
            secrets: Secrets::default(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            signer: None,
            wait: Duration::from_secs(5),
            learning: LearningOptions::default(),
            trials: TrialPolicy::default(),
            sharing: false,
            trace_content: false,
            pool_bytes: POOL_BYTES,
            keep_transcripts: KEEP_TRANSCRIPTS,
            curating: Some(CuratorOptions::default()),
            after: None,
            evolving: Some(EvolverOptions::default()),
            surroundings: SkillEnv { environment: set_variables(), ..SkillEnv::default() },
            #[cfg(feature = "snapshot")]
            snapshotting: None,
            programs: None,
            embedder: None,
            uses: EmbeddingUses::default(),
        }
    }
}

impl HarnessBuilder {
    /// Where brains live. Required.
    pub fn brains(mut self, dir: impl Into<PathBuf>) -> Self {
        self.brains = Some(dir.into());
        self
    }

    /// One backend for every brain.
    pub fn backend(self, backend: impl Backend + 'static) -> Self {
        self.router(Router::single(Arc::new(backend)))
    }

    /// Which backend speaks for which brain.
    pub fn router(mut self, router: Router) -> Self {
        self.router = router;
        self
    }

    /// The tools that tasks may be given, instead of those so far; none unless said.
    pub fn toolbox(mut self, toolbox: Toolbox) -> Self {
        self.toolbox = toolbox;
        self
    }

    /// Adds a tool; an error where its name is taken or not of the allowed form.
    pub fn tool(mut self, tool: impl Tool) -> Result<Self> {
        self.toolbox.add(Arc::new(tool))?;
        Ok(self)
    }

    /// What tools may touch beyond the brain.
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// A secret that tools can use by name and nobody sees, with the hosts it may be sent to.
    pub fn secret(mut self, name: &str, value: SecretString, hosts: &[String]) -> Self {
        self.secrets.add(name, value, hosts);
        self
    }

    /// Where "now" comes from.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where randomness comes from.
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }

    /// The key that signs receipts, instead of the one in the brains directory.
    pub fn signer(mut self, signer: Signer) -> Self {
        self.signer = Some(signer);
        self
    }

    /// How long to wait for a brain that another process holds.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What is learned from tasks, and how it is shown to the next ones. `false` learns nothing new.
    pub fn learning(mut self, learning: impl Into<LearningOptions>) -> Self {
        self.learning = learning.into();
        self
    }

    /// The share of matching tasks that are shown what is on trial, one half unless said.
    pub fn trial_share(mut self, share: f64) -> Self {
        self.trials.share = if share.is_finite() { share.clamp(0.0, 1.0) } else { TrialPolicy::default().share };
        self
    }

    /// When a trial is given up: after so many tasks with a known outcome, 200 at most, or so many days.
    pub fn trial_bounds(mut self, most_tasks: usize, most_days: u32) -> Self {
        self.trials = TrialPolicy { most_tasks, most_days, ..self.trials };
        self
    }

    /// The kept tasks that each skill on trial is rehearsed on by itself, after tasks and off the caller's path. None unless
    /// said: each asks the model twice. Only brains whose role has checks are rehearsed.
    pub fn rehearsals(mut self, most_tasks: usize) -> Self {
        self.trials.rehearsals = most_tasks;
        self
    }

    /// Whether what a subscriber says may be kept for everyone: in MEMORY.md, and word for word in
    /// skills. Off, unless said.
    pub fn sharing(mut self, sharing: bool) -> Self {
        self.sharing = sharing;
        self
    }

    /// Whether `tracing` spans hold questions, replies, arguments of tools and answers: the first 8 KiB of each, without
    /// what looks like a secret. Off, unless said: who reads the spans reads what subscribers said.
    pub fn trace_content(mut self, trace_content: bool) -> Self {
        self.trace_content = trace_content;
        self
    }

    /// What open brains may weigh together, in bytes.
    pub fn pool_bytes(mut self, bytes: usize) -> Self {
        self.pool_bytes = bytes;
        self
    }

    /// For how many of its last steps a brain keeps the transcript.
    pub fn keep_transcripts(mut self, count: u64) -> Self {
        self.keep_transcripts = count;
        self
    }

    /// How the curator runs after sessions; `None` turns it off.
    pub fn curating(mut self, curating: Option<CuratorOptions>) -> Self {
        self.curating = curating;
        self
    }

    /// How the evolver runs after sessions; `None` turns it off.
    pub fn evolving(mut self, evolving: Option<EvolverOptions>) -> Self {
        self.evolving = evolving;
        self
    }

    /// Who looks at brains after their sessions, such as the successor's `Detector` of bottlenecks; nobody, unless said.
    pub fn after_session(mut self, after: Option<Arc<dyn SessionHook>>) -> Self {
        self.after = after;
        self
    }

    #[cfg(feature = "snapshot")]
    /// Where brains are snapshotted to, and restored from when a task arrives for one that is not here.
    pub fn snapshotting(mut self, snapshotting: Option<SnapshotOptions>) -> Self {
        self.snapshotting = snapshotting;
        self
    }

    /// Whether inline shell of skills runs: only in skills that people wrote and no agent has changed. It is
    /// off unless this says otherwise.
    pub fn inline_shell(mut self, inline_shell: bool) -> Self {
        self.surroundings.inline_shell = inline_shell;
        self
    }

    /// How long each command of inline shell may take, up to an hour; 10 seconds unless said.
    pub fn inline_shell_timeout(mut self, timeout: Duration) -> Self {
        self.surroundings.shell_timeout = Some(timeout);
        self
    }

    /// Inline shell of skills runs in sandboxes below this directory. The program must call
    /// `successor::run_worker_if_reexec` first in its `main`.
    pub fn shell_walls(mut self, root: impl Into<PathBuf>) -> Self {
        self.surroundings.shell_sandbox_root = Some(root.into());
        self
    }

    /// Whether template variables of skills are filled in. On, unless said otherwise.
    pub fn templates(mut self, templates: bool) -> Self {
        self.surroundings.raw_templates = !templates;
        self
    }

    /// Directories of skills that every brain sees and none changes; earlier ones win a name, and a
    /// brain's own skill wins over all.
    pub fn external_skills(mut self, dirs: Vec<PathBuf>) -> Self {
        self.surroundings.outside = (!dirs.is_empty()).then(|| ExternalSkills::new(dirs));
        self
    }

    /// Skills that no task sees.
    pub fn disabled_skills(mut self, slugs: impl IntoIterator<Item = Slug>) -> Self {
        self.surroundings.disabled = slugs.into_iter().collect();
        self
    }

    /// The configuration that skills ask for, by key. A model that loads a skill is told the values it declares.
    pub fn skill_settings(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.surroundings.settings = settings.into_iter().collect();
        self
    }

    /// What a model that is asked to follow a skill by a command is told besides: where it runs, what to mind.
    pub fn runtime_note(mut self, note: impl Into<String>) -> Self {
        self.surroundings.runtime_note = Some(note.into());
        self
    }

    /// Who runs programs that stand in for tools: see [`crate::tuning`]. Nobody, unless said; such tools
    /// are then not there.
    pub fn programs(mut self, programs: Arc<dyn ProgramRunner>) -> Self {
        self.programs = Some(programs);
        self
    }

    /// A model that says what texts mean. It is used for nothing, unless [`Self::embedding_uses`] says so.
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// What the embedder is used for.
    pub fn embedding_uses(mut self, uses: EmbeddingUses) -> Self {
        self.uses = uses;
        self
    }

    /// The harness. Makes the signing key on first use.
    pub fn build(self) -> Result<Harness> {
        let brains = self.brains.ok_or_else(|| {
            Error::invalid("a harness needs a directory of brains").hint("call `.brains(dir)` on the builder")
        })?;
        if let Some(evolving) = &self.evolving {
            evolving.routine.options.check()?;
        }
        let layout = Layout::new(brains);
        let signer = match self.signer {
            Some(signer) => signer,
            None => Signer::load_or_create(&layout.signing_key(), &*self.random)?,
        };
        let signer = Arc::new(signer);
        #[cfg(feature = "snapshot")]
        let trusted = self.snapshotting.as_ref().map(|options| options.trusted.clone()).unwrap_or_default();
        #[cfg(not(feature = "snapshot"))]
        let trusted = Vec::new();
        let opening = BrainOptions {
            wait: self.wait,
            clock: self.clock,
            on_drift: OnDrift::Refuse,
            signer: Some(Arc::clone(&signer) as _),
            trusted,
        };
        let inner = Inner {
            layout,
            router: with_embedded(self.router),
            toolbox: self.toolbox,
            permissions: self.permissions,
            secrets: Arc::new(self.secrets),
            opening,
            signer,
            random: self.random,
            learning: self.learning,
            rehearsals: Rehearsals::new(self.trials.rehearsals).filter(|_| self.learning.trials),
            trial_policy: self.trials,
            trials: Mutex::default(),
            examples: Arc::default(),
            sharing: self.sharing,
            trace_content: self.trace_content,
            pool: Pool::new(self.pool_bytes),
            keep_transcripts: self.keep_transcripts,
            curating: self.curating,
            evolving: self.evolving,
            surroundings: Arc::new(self.surroundings),
            curated: Mutex::default(),
            consolidated: Mutex::default(),
            counted: super::maintain::AtomicCounters::default(),
            after: self.after,
            #[cfg(feature = "snapshot")]
            snapshots: self.snapshotting.map(Snapshots::new),
            #[cfg(not(feature = "snapshot"))]
            snapshots: None,
            waits: super::agents::Waits::default(),
            programs: self.programs,
            vectors: self
                .embedder
                .filter(|_| self.uses != EmbeddingUses::default())
                .map(|embedder| Vectors::new(Embeddings::new(embedder, self.uses))),
        };
        Ok(Harness { inner: Arc::new(inner) })
    }
}

/// The backend that answers where no other was given.
#[cfg(feature = "reflex")]
fn with_embedded(router: Router) -> Router {
    router.embedded(Arc::new(herm_backends::Reflex))
}

/// In a build without `reflex`, the router must have a backend for every task.
#[cfg(not(feature = "reflex"))]
fn with_embedded(router: Router) -> Router {
    router
}

/// The environment variables that have a value.
pub(super) fn set_variables() -> std::collections::BTreeSet<String> {
    std::env::vars_os().filter(|(_, value)| !value.is_empty()).filter_map(|(name, _)| name.into_string().ok()).collect()
}
