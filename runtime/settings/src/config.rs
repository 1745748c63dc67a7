//! Settings: flags over environment over file over default.

#![allow(rustdoc::bare_urls, reason = "doc comments of fields are texts of the JSON Schema")]

mod elsewhere;
mod evolver;
mod learning;
mod semantic;
mod serve;
mod successor;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use herm::brain::OnDrift;
use herm::curator::CuratorPolicy;
use herm::fsio;
use herm::harness::CuratorOptions;
use herm::ids::SystemRandom;
use herm::receipt::LazySigner;
use herm::skill::external::{self, SkillDirs};
use herm::{BrainOptions, Error, Layout, Result, Slug, SystemClock, TaskLimits};

pub use elsewhere::{EnsEntry, WalrusEntry};
pub use evolver::{EvolverEntry, EvolverMode};
pub use learning::{LearningEntry, LearningSection};
pub use semantic::{DeviceEntry, SemanticEntry, SemanticModels, SemanticUses};
pub use serve::{PaymentEntry, ServeEntry, ServeLimits};
pub use successor::{
    ApplyEntry, ApplyOptions, DetectEntry, GateEntry, Gates, MemberEntry, MeshEntry, StewardsEntry, SuccessorEntry,
    VerifyEntry, VerifyOptions,
};

/// What the configuration file may hold; a field that is not here is an error.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "herm configuration")]
pub struct ConfigFile {
    /// The directory of the brains; `./brains` in a checkout of herm, else the data directory, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brains: Option<PathBuf>,
    /// How long to wait for another process that holds a brain, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_wait_ms: Option<u64>,
    /// The key that signs receipts: Ed25519 in PKCS#8 PEM, mode 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<PathBuf>,
    /// What agents learn from their tasks: `true`, `false`, or a section. All of it, unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<LearningEntry>,
    /// Whether what a subscriber says may be kept for everyone: in MEMORY.md, and word for word in skills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<bool>,
    /// The backend of every brain that has no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Backends by the name that `backend`, `routes` and `fallback` use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub backends: BTreeMap<String, BackendEntry>,
    /// The backend of single brains: agent number to backend name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routes: BTreeMap<String, String>,
    /// The old name of `routes`. Read where `routes` is not there; both at once are an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<BTreeMap<String, String>>,
    /// What tools may touch beyond the brain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsEntry>,
    /// Secrets that tools use by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, ToolSecretEntry>,
    /// MCP servers by name, whose tools agents may use. A name is 1 to 24 of a-z, 0-9 and -.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<String, McpEntry>,
    /// Which skills are seen beside the brain's own, and how skills are loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<SkillsEntry>,
    /// What a task may use up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsEntry>,
    /// When skills that go unused are retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curator: Option<CuratorEntry>,
    /// Where brains are snapshotted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotEntry>,
    /// How skills are improved from evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evolver: Option<EvolverEntry>,
    /// Models that know what texts mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic: Option<SemanticEntry>,
    /// How the server answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serve: Option<ServeEntry>,
    /// What must happen before a patch is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<SuccessorEntry>,
    /// Who may approve patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stewards: Option<StewardsEntry>,
    /// The nodes that verify each other's patches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<MeshEntry>,
}

/// Where brains are snapshotted to, and how.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnapshotEntry {
    /// A directory, or an address such as s3://bucket/prefix; `.snapshots` beside the brains unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Options of the store's service, such as aws_region or aws_endpoint.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Options that are secrets, such as aws_secret_access_key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretEntry>,
    /// The file with the key; `.keys/snapshot.key` beside the brains unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Do not encrypt: anyone who can read the store can read the brains.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub plaintext: bool,
    /// Whether brains are snapshotted after tasks, and restored when they are not here. On, where this section is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
    /// Whether an answer waits until its step is in the store. Off, unless said.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub before_answer: bool,
    /// Seconds for which a brain is leased, at least 5; no leases, unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_secs: Option<u32>,
    /// Seconds that the end of a command waits for snapshots; 30 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_secs: Option<u32>,
    /// Keys whose receipts count on restoring, beside this operator's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trust: Vec<String>,
    /// A name for this operator; the machine's unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Walrus for the content; the store keeps names, heads and keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walrus: Option<WalrusEntry>,
    /// An ENS name that says where the heads are, so that a store that was taken back is noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ens: Option<EnsEntry>,
}

/// When skills that go unused are retired.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CuratorEntry {
    /// Whether it runs by itself after sessions. On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Days without activity until a skill is stale; 30 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_days: Option<u32>,
    /// Days without activity until it is archived; 90 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_days: Option<u32>,
    /// Days until a skill of the agent's is archived that no task ever used or was shown.
    /// Unless said, it is reported and stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unshown_days: Option<u32>,
    /// At least so many hours between two passes over a brain; 0, after every session, unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_hours: Option<u32>,
}

/// Which skills are seen beside the brain's own, and how skills are loaded.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SkillsEntry {
    /// Directories of skills that every brain sees and none changes; earlier ones win a name.
    /// `~`, `$NAME` and `${NAME}` are expanded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_dirs: Vec<String>,
    /// Names of skills that no brain sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<String>,
    /// Whether template variables such as ${HERM_SKILL_DIR} are filled in. On, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templates: Option<bool>,
    /// Whether inline shell runs, in skills that people wrote and no agent has changed. Off, unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_shell: Option<bool>,
    /// Seconds that each command of inline shell may take, 1 to 3600; 10 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_shell_timeout: Option<u64>,
    /// What a model is told besides when a command asks it to follow a skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_note: Option<String>,
    /// Settings that skills ask for, by the key they name. A model that loads a skill is told the values it declares.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

impl SkillsEntry {
    /// The directories of skills outside the brains.
    pub fn directories(&self) -> Result<Vec<PathBuf>> {
        let home = home();
        let env = |name: &str| std::env::var(name).ok();
        let expanded = self.external_dirs.iter().map(|text| {
            external::expand(text, home.as_deref(), &env).map_err(|error| {
                let hint = error.hint_text().unwrap_or_default().to_owned();
                Error::invalid(format!("external_dirs of [skills]: {}", error.message())).hint(hint)
            })
        });
        expanded.collect()
    }

    /// How long each command of inline shell may take.
    pub fn shell_timeout(&self) -> Result<Duration> {
        match self.inline_shell_timeout {
            None => Ok(herm::skill::shell::TIMEOUT),
            Some(seconds @ 1..=3_600) => Ok(Duration::from_secs(seconds)),
            Some(seconds) => Err(Error::invalid(format!(
                "inline_shell_timeout of [skills] is {seconds}, and must be 1 to 3600 seconds"
            ))
            .hint("10 is the default")),
        }
    }

    /// The skills outside the brains; nothing is read yet.
    pub fn skill_dirs(&self) -> Result<SkillDirs> {
        Ok(SkillDirs::new(self.directories()?))
    }

    /// The names that are turned off.
    pub fn disabled(&self) -> Result<BTreeSet<Slug>> {
        let parse = |name: &String| {
            name.parse().map_err(|error: Error| {
                let hint = error.hint_text().unwrap_or_default().to_owned();
                Error::invalid(format!("disabled of [skills]: {}", error.message())).hint(hint)
            })
        };
        self.disabled.iter().map(parse).collect()
    }
}

/// Where a secret is: in the environment or in a file, never in this one.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct SecretEntry {
    /// The name of an environment variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// A file that holds nothing else, readable by its owner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// A secret that tools use by name.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct ToolSecretEntry {
    /// Where the secret is: `env` or `file`.
    #[serde(flatten)]
    pub at: SecretEntry,
    /// The hosts it may be sent to. A secret that is itself an address needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// The wire format of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Any endpoint that speaks OpenAI's chat completions.
    Openai,
    /// The Anthropic Messages API.
    Anthropic,
    /// A GGUF model inside this process. Needs a build with the feature `local`.
    Local,
}

/// How the legal replies are sent to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SchemaEntry {
    /// Not at all: the prompt says in words what is legal.
    Words,
    /// As `response_format`; back to words if the endpoint does not know it.
    ResponseFormat,
    /// As llama.cpp's own `json_schema`, which it turns into a grammar.
    LlamaGrammar,
}

/// What tokens cost, in millionths of a dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceEntry {
    /// Tokens that the model reads.
    pub input: u64,
    /// Tokens that the model writes.
    pub output: u64,
}

/// A language model that brains may use: where it is, and how it is asked.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackendEntry {
    /// The wire format: openai, anthropic or local.
    pub kind: BackendKind,
    /// Its address, such as http://127.0.0.1:11434/v1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The model to ask for; of a local one, its file, or the name of a file that `herm models list` shows.
    pub model: String,
    /// Where the key is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretEntry>,
    /// Whether to ask for replies piece by piece. On, unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// How the legal replies are sent along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaEntry>,
    /// The most bytes a conversation may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_bytes: Option<usize>,
    /// What its tokens cost. A task with a budget in money cannot use a backend without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceEntry>,
    /// Threads of a local model; as many as there are processors unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Tokens a conversation with a local model may have; what it can, at most 8192, unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<usize>,
    /// Seconds after which a local model that nobody asks leaves the memory; 300 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_secs: Option<u64>,
    /// Backends to ask, in order, when this one does not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
}

/// An MCP server: a program to start, or an address. Only this file names servers; a brain's manifest cannot, for it
/// travels, and what travels must not start processes.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpEntry {
    /// The program to start. Needs `process = true` in `[tools]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The arguments of `command`, one to an entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Names of environment variables that it gets, beyond PATH, HOME and LANG.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The address, instead of a program. Needs `network = true` in `[tools]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A header to send with every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<McpHeaderEntry>,
    /// Seconds a call may take, 1 to 600; 30 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
}

/// A header with a secret in it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpHeaderEntry {
    /// Its name. In `Authorization`, a bare token is sent as a bearer token.
    pub name: String,
    /// Which of `[secrets]` it holds; the server's host must be among that secret's hosts.
    pub secret: String,
}

/// What tools may touch beyond the brain.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsEntry {
    /// Tools may use the network.
    pub network: bool,
    /// Tools may start processes.
    pub process: bool,
}

/// What a task may use up.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsEntry {
    /// Turns, 1 to 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u8>,
    /// Seconds from start to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_secs: Option<u64>,
    /// Bytes that the input of a task may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<usize>,
    /// Tokens of one reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_tokens: Option<u32>,
    /// Tokens of a whole task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Millionths of a dollar of a whole task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

impl LimitsEntry {
    /// The limits in force: the usual ones, where the file says nothing.
    pub fn limits(self) -> TaskLimits {
        let usual = TaskLimits::default();
        TaskLimits {
            turns: self.turns.unwrap_or(usual.turns),
            deadline_secs: self.deadline_secs.unwrap_or(usual.deadline_secs),
            input_bytes: self.input_bytes.unwrap_or(usual.input_bytes),
            reply_tokens: self.reply_tokens.unwrap_or(usual.reply_tokens),
            total_tokens: self.total_tokens,
            micro_usd: self.micro_usd,
            ..usual
        }
    }
}

/// What goes before the configuration file: what a command line and its environment say.
#[derive(Debug, Clone, Default)]
pub struct SettingsFlags {
    /// The configuration file; the one in the configuration directory, if it is there, unless said.
    pub config: Option<PathBuf>,
    /// The directory of the brains; what the file says, else the default, unless said.
    pub brains: Option<PathBuf>,
}

/// The settings in force.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the brains and the files beside them are: from `--brains`, else from the file, else the default.
    pub layout: Layout,
    /// How long to wait for another process that holds a brain.
    pub lock_wait: Duration,
    /// The file they came from, if there was one.
    pub file: Option<PathBuf>,
    /// What the file says.
    pub config: ConfigFile,
    /// The key that signs, read or made when it is first used.
    pub signer: Arc<LazySigner>,
    /// The models of `[semantic]`, opened when they are first asked for.
    pub semantic: Arc<SemanticModels>,
}

const MAX_CONFIG_BYTES: u64 = 1 << 20;
const DEFAULT_LOCK_WAIT_MS: u64 = 5_000;

impl Settings {
    /// Puts the settings together: flags over the file over defaults.
    pub fn load(flags: &SettingsFlags) -> Result<Self> {
        let (path, file) = match &flags.config {
            Some(path) => (Some(path.clone()), read(path)?),
            None => match default_file().filter(|path| path.is_file()) {
                Some(path) => {
                    let file = read(&path)?;
                    (Some(path), file)
                }
                None => (None, ConfigFile::default()),
            },
        };
        let brains = match flags.brains.clone().or_else(|| file.brains.clone()) {
            Some(brains) => brains,
            None => default_brains()?,
        };
        let layout = Layout::new(brains);
        let key = file.signing_key.clone().unwrap_or_else(|| layout.signing_key());
        Ok(Self {
            layout,
            lock_wait: Duration::from_millis(file.lock_wait_ms.unwrap_or(DEFAULT_LOCK_WAIT_MS)),
            file: path,
            semantic: Arc::new(SemanticModels::new(file.semantic.clone())),
            config: file,
            signer: Arc::new(LazySigner::new(key, Arc::new(SystemRandom))),
        })
    }

    /// How the curator runs.
    pub fn curator(&self) -> Result<CuratorOptions> {
        let said = self.config.curator.unwrap_or_default();
        let usual = CuratorPolicy::default();
        let policy = CuratorPolicy::new(
            said.stale_days.unwrap_or(usual.stale_days),
            said.archive_days.unwrap_or(usual.archive_days),
        )?
        .archiving_unshown(said.unshown_days)?;
        Ok(CuratorOptions { policy, every: Duration::from_secs(u64::from(said.every_hours.unwrap_or(0)) * 3_600) })
    }

    /// What the file says of the evolver.
    pub fn evolver(&self) -> EvolverEntry {
        self.config.evolver.clone().unwrap_or_default()
    }

    /// What the file says of skills.
    pub fn skills(&self) -> SkillsEntry {
        self.config.skills.clone().unwrap_or_default()
    }

    /// How to open a brain.
    pub fn open_options(&self, on_drift: OnDrift) -> BrainOptions {
        BrainOptions {
            wait: self.lock_wait,
            clock: Arc::new(SystemClock),
            on_drift,
            signer: Some(self.signer.clone()),
            // One that cannot be read vouches for nothing; whatever restores a brain says so.
            trusted: self.trusted_keys().unwrap_or_default(),
        }
    }
}

fn read(path: &Path) -> Result<ConfigFile> {
    let bytes = fsio::read_regular(path, MAX_CONFIG_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|source| {
        Error::invalid(format!("{} is not UTF-8 text", path.display())).hint("save it as UTF-8").because(source)
    })?;
    let file: ConfigFile = toml::from_str(&text).map_err(|source| {
        Error::invalid(format!("{} is not a valid configuration: {}", path.display(), source.message()))
            .hint("see the fields with `herm config schema`")
            .because(source)
    })?;
    with_new_names(file, path)
}

/// Settings under their old names, moved to the new ones.
fn with_new_names(mut file: ConfigFile, path: &Path) -> Result<ConfigFile> {
    let Some(tokens) = file.tokens.take() else { return Ok(file) };
    if !file.routes.is_empty() {
        return Err(Error::invalid(format!(
            "{} has both [routes] and [tokens], which is its old name",
            path.display()
        ))
        .hint("move the entries of [tokens] to [routes]"));
    }
    tracing::warn!("{}: [tokens] is now called [routes]; the old name is still read", path.display());
    file.routes = tokens;
    Ok(file)
}

/// `./brains` of the checkout that the current directory lies in, else the data directory.
fn default_brains() -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|source| Error::io("find", Path::new("."), source))?;
    let is_checkout = |dir: &Path| dir.join("seed/agents").is_dir() && dir.join("runtime/operator").is_dir();
    if let Some(checkout) = here.ancestors().find(|dir| is_checkout(dir)) {
        return Ok(if checkout == here { PathBuf::from("brains") } else { checkout.join("brains") });
    }
    let below_home = |dir: &str| home().map(|home| home.join(dir));
    let data = if cfg!(target_os = "macos") {
        below_home("Library/Application Support")
    } else {
        absolute_env("XDG_DATA_HOME").or_else(|| below_home(".local/share"))
    };
    let data = data.ok_or_else(|| {
        Error::invalid("no directory for brains: neither HOME nor XDG_DATA_HOME is set")
            .hint("give one with --brains DIR")
    })?;
    Ok(data.join("herm/brains"))
}

fn default_file() -> Option<PathBuf> {
    let config = absolute_env("XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config")))?;
    Some(config.join("herm/config.toml"))
}

fn home() -> Option<PathBuf> {
    absolute_env("HOME")
}

fn absolute_env(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
