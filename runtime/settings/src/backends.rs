//! From the configuration to backends, permissions and secrets.

use std::sync::Arc;

use herm::backend::{
    Anthropic, Backend, BackendError, Completion, CompletionRequest, EndpointSettings, ErrorClass, HttpClient, OpenAi,
    Price, Router, SchemaMode,
};
use herm::harness::{SessionHook, SnapshotOptions};
use herm::semantic::Embedder;
use herm::successor::detector::Detector;
use herm::tool::{EmbeddingUses, Permissions, SandboxedPrograms, Tool};
use herm::{BrainId, Error, Harness, HarnessBuilder, Result};
use secrecy::SecretString;

use crate::config::{BackendEntry, BackendKind, ConfigFile, SchemaEntry, SecretEntry, Settings};
use crate::local_models::LocalModels;

/// The name of the backend that needs no configuration.
const EMBEDDED: &str = "reflex";

/// Endpoints that need no entry in the configuration: name, kind, address, and the variables that
/// hold the key and another address.
const KNOWN: [(&str, BackendKind, &str, &str, &str); 5] = [
    ("openai", BackendKind::Openai, "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ("anthropic", BackendKind::Anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    ("openrouter", BackendKind::Openai, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
    ("ollama", BackendKind::Openai, "http://127.0.0.1:11434/v1", "OLLAMA_API_KEY", "OLLAMA_BASE_URL"),
    ("local", BackendKind::Local, "", "", ""),
];

/// A harness as the settings say. `wish` is the backend and the model of the command line; `tools` are those of MCP
/// servers, which can only be had within a runtime.
pub fn harness(
    settings: &Settings,
    wish: Option<&str>,
    model: Option<&str>,
    tools: Vec<Arc<dyn Tool>>,
    snapshotting: Option<SnapshotOptions>,
) -> Result<Harness> {
    builder(settings, wish, model, tools, snapshotting)?.build()
}

/// A harness that runs no tasks: it asks no model and reads no credentials. For what is said of tasks later.
pub fn harness_without_model(settings: &Settings) -> Result<Harness> {
    let builder = Harness::builder()
        .brains(settings.layout.brains())
        .signer(settings.signer.get()?.clone())
        .wait(settings.lock_wait)
        .curating(None)
        .evolving(None);
    learning(settings, builder)?.build()
}

/// What is learned from tasks, as the settings say.
fn learning(settings: &Settings, builder: HarnessBuilder) -> Result<HarnessBuilder> {
    let builder = builder.sharing(settings.config.sharing.unwrap_or(false));
    let Some(said) = settings.config.learning else { return Ok(builder) };
    let (options, trials) = said.options()?;
    Ok(builder
        .learning(options)
        .trial_share(trials.share)
        .trial_bounds(trials.most_tasks, trials.most_days)
        .rehearsals(trials.rehearsals))
}

/// The same for a server, which also looks for what holds its brains up. Not built yet: what its spans hold is the
/// server's business.
pub fn server_builder(
    settings: &Settings,
    tools: Vec<Arc<dyn Tool>>,
    snapshotting: Option<SnapshotOptions>,
) -> Result<HarnessBuilder> {
    let detector = settings.detecting()?.map(Detector::new).transpose()?;
    let after = detector.map(|detector| Arc::new(detector) as Arc<dyn SessionHook>);
    Ok(builder(settings, None, None, tools, snapshotting)?.after_session(after))
}

fn builder(
    settings: &Settings,
    wish: Option<&str>,
    model: Option<&str>,
    tools: Vec<Arc<dyn Tool>>,
    snapshotting: Option<SnapshotOptions>,
) -> Result<HarnessBuilder> {
    let mut toolbox = herm_tools::standard()?;
    for tool in tools {
        toolbox.add(tool)?;
    }
    let mut builder: HarnessBuilder = Harness::builder()
        .brains(settings.layout.brains())
        .router(router(settings, wish, model)?)
        .toolbox(toolbox)
        .permissions(permissions(settings))
        .programs(Arc::new(SandboxedPrograms::new(herm::successor::forks(&settings.layout))))
        .signer(settings.signer.get()?.clone())
        .wait(settings.lock_wait);
    builder = learning(settings, builder)?;
    let curating = settings.curator()?;
    let is_on = settings.config.curator.and_then(|said| said.enabled).unwrap_or(true);
    let skills = settings.skills();
    builder = builder
        .snapshotting(snapshotting)
        .curating(is_on.then_some(curating))
        .evolving(Some(settings.evolver().evolving()?))
        .templates(skills.templates.unwrap_or(true))
        .inline_shell(skills.inline_shell.unwrap_or(false))
        .inline_shell_timeout(skills.shell_timeout()?)
        .shell_walls(herm::successor::forks(&settings.layout))
        .external_skills(skills.directories()?)
        .disabled_skills(skills.disabled()?)
        .skill_settings(skills.settings);
    if let Some(note) = skills.runtime_note {
        builder = builder.runtime_note(note);
    }
    if let Some((embedder, uses)) = embeddings(settings)? {
        builder = builder.embedder(embedder).embedding_uses(uses);
    }
    for (name, entry) in &settings.config.secrets {
        builder = builder.secret(name, secret(name, &entry.at)?, &entry.hosts);
    }
    Ok(builder)
}

/// The embedding model and what it is used for, where it is used. One that cannot be opened is said, and gone without.
fn embeddings(settings: &Settings) -> Result<Option<(Arc<dyn Embedder>, EmbeddingUses)>> {
    let said = settings.semantic.uses()?;
    let uses = EmbeddingUses { recall: said.recall, skills: said.skills };
    if uses == EmbeddingUses::default() {
        return Ok(None);
    }
    match settings.semantic.embedder() {
        Ok(embedder) => Ok(embedder.map(|embedder| (embedder, uses))),
        Err(error) => {
            tracing::warn!(%error, "memory is searched and skills are chosen by words alone");
            Ok(None)
        }
    }
}

/// What the operator allows tools.
pub fn permissions(settings: &Settings) -> Permissions {
    let tools = settings.config.tools.unwrap_or_default();
    Permissions { network: tools.network, process: tools.process }
}

fn router(settings: &Settings, wish: Option<&str>, model: Option<&str>) -> Result<Router> {
    let file = &settings.config;
    let wish = wish.or(model.and(file.backend.as_deref()));
    if model.is_some() && wish.is_none_or(|name| name == EMBEDDED) {
        return Err(Error::invalid("a model without a backend").hint("say which backend with --backend, too"));
    }
    let mut router = Router::new();
    if !file.backends.is_empty() || wish.is_some_and(|name| name != EMBEDDED) {
        let client = HttpClient::new()?;
        let local = LocalModels::new(settings);
        for (name, entry) in &file.backends {
            let model = model.filter(|_| wish == Some(name));
            let backend: Arc<dyn Backend> = match configured(&client, &local, name, entry, model) {
                Ok(backend) => backend,
                // Only who uses it needs its key.
                Err(error) if wish == Some(name) => return Err(error),
                Err(error) => Arc::new(Unready { name: name.clone(), why: error.message().to_owned() }),
            };
            router = router.backend(name, backend).fallback(name, entry.fallback.clone());
        }
        if let Some(name) = wish.filter(|name| *name != EMBEDDED && !file.backends.contains_key(*name)) {
            router = router.backend(name, known(&client, &local, name, model, file)?);
        }
    }
    for (id, name) in &file.routes {
        router = router.brain_backend(id.parse::<BrainId>()?, name);
    }
    Ok(match &file.backend {
        Some(name) => router.default_backend(name),
        None => router,
    })
}

/// The backend of this name, as it would speak for a brain.
pub fn backend_named(settings: &Settings, id: &BrainId, name: &str, model: Option<&str>) -> Result<Arc<dyn Backend>> {
    let chain = router(settings, Some(name), model)?.route(id, Some(name), None)?;
    chain.backends.into_iter().next().ok_or_else(|| Error::not_found(format!("there is no backend {name:?}")))
}

/// Whether a backend runs inside this process, where the same question always has the same answer.
pub fn is_local(settings: &Settings, name: &str) -> bool {
    match settings.config.backends.get(name) {
        Some(entry) => entry.kind == BackendKind::Local,
        None => name == "local" || name == EMBEDDED,
    }
}

/// A backend that cannot be used as it is configured.
#[derive(Debug)]
struct Unready {
    name: String,
    why: String,
}

#[async_trait::async_trait]
impl Backend for Unready {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(&self, _: &CompletionRequest) -> std::result::Result<Completion, BackendError> {
        Err(BackendError::new(ErrorClass::Auth, self.why.clone()))
    }
}

/// A backend of the configuration.
fn configured(
    client: &HttpClient,
    local: &LocalModels,
    name: &str,
    entry: &BackendEntry,
    model: Option<&str>,
) -> Result<Arc<dyn Backend>> {
    let model = model.unwrap_or(&entry.model);
    let mut settings = match entry.kind {
        BackendKind::Local => return local.backend(name, entry, model),
        BackendKind::Openai => EndpointSettings::openai("https://api.openai.com/v1", model),
        BackendKind::Anthropic => EndpointSettings::anthropic(model),
    };
    name.clone_into(&mut settings.name);
    if let Some(base) = &entry.base_url {
        settings.base_url.clone_from(base);
    }
    settings.key = entry.key.as_ref().map(|key| secret(name, key)).transpose()?;
    settings.stream = entry.stream.unwrap_or(true);
    settings.context_bytes = entry.context_bytes;
    settings.price = entry.price.map(|price| Price { input: price.input, output: price.output });
    settings.schema = match entry.schema.unwrap_or(SchemaEntry::Words) {
        SchemaEntry::Words => SchemaMode::Words,
        SchemaEntry::ResponseFormat => SchemaMode::ResponseFormat,
        SchemaEntry::LlamaGrammar => SchemaMode::LlamaGrammar,
    };
    Ok(match entry.kind {
        BackendKind::Openai => Arc::new(OpenAi::new(client.clone(), settings)?),
        BackendKind::Anthropic | BackendKind::Local => Arc::new(Anthropic::new(client.clone(), settings)?),
    })
}

/// A well-known endpoint, with its key and address from the environment.
fn known(
    client: &HttpClient,
    local: &LocalModels,
    name: &str,
    model: Option<&str>,
    file: &ConfigFile,
) -> Result<Arc<dyn Backend>> {
    let Some((_, kind, base, key, address)) = KNOWN.iter().find(|(known, ..)| *known == name) else {
        let names: Vec<&str> =
            file.backends.keys().map(String::as_str).chain(KNOWN.iter().map(|(known, ..)| *known)).collect();
        return Err(Error::not_found(format!("there is no backend {name:?}"))
            .hint(format!("there are {} and {EMBEDDED}; others go into the configuration", names.join(", "))));
    };
    let model = model.ok_or_else(|| {
        Error::invalid(format!("which model of {name}?")).hint("name one with --model, or HERM_MODEL")
    })?;
    let entry = BackendEntry {
        kind: *kind,
        base_url: Some(std::env::var(address).unwrap_or_else(|_| (*base).to_owned())),
        model: model.to_owned(),
        key: std::env::var_os(key).map(|_| SecretEntry { env: Some((*key).to_owned()), file: None }),
        stream: None,
        schema: None,
        context_bytes: None,
        price: None,
        threads: None,
        context_tokens: None,
        idle_secs: None,
        fallback: Vec::new(),
    };
    configured(client, local, name, &entry, None)
}

/// A secret from the environment or from a file.
pub(crate) fn secret(name: &str, entry: &SecretEntry) -> Result<SecretString> {
    let value = match (&entry.env, &entry.file) {
        (Some(variable), None) => std::env::var(variable).map_err(|_| {
            Error::invalid(format!("the secret {name} is to be in {variable}, which is not set"))
                .hint(format!("set {variable}, or name a file"))
        })?,
        (None, Some(path)) => herm::fsio::read_private(path)?,
        _ => {
            return Err(Error::invalid(format!("the secret {name} needs either env or file"))
                .hint("write { env = \"NAME\" } or { file = \"/path\" }"));
        }
    };
    Ok(SecretString::from(value.trim().to_owned()))
}
