//! `herm models`: the models that speak inside this process.

use herm::Result;

use crate::cli::Models;
use crate::config::Settings;
use crate::output::Answer;

#[cfg(not(feature = "local"))]
pub(super) fn run(_: &Settings, _: &Models) -> Result<Answer> {
    Err(crate::local_models::absent("herm models"))
}

#[cfg(feature = "local")]
pub(super) fn run(settings: &Settings, command: &Models) -> Result<Answer> {
    let directory = crate::local_models::directory(settings);
    match command {
        Models::List => here::list(&directory),
        Models::Pull(wanted) => here::pull(&directory, wanted),
        Models::Check { model, ask, tokens } => here::check(&directory, model, ask, *tokens),
    }
}

#[cfg(feature = "local")]
mod here {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Instant;

    use herm::backend::{
        Backend as _, ChatMessage, Completion, CompletionRequest, Hub, LocalBackend, LocalSettings, ModelCache,
        ModelCard, ModelRef, Purpose, Role,
    };
    use herm::fsio::{self, Root, SyncTiming};
    use herm::{Error, RelPath, Result};
    use secrecy::SecretString;
    use serde_json::{Value, json};

    use crate::cli::PullModel;
    use crate::commands::in_runtime;
    use crate::local_models::find;
    use crate::output::{Answer, columns};
    use crate::spinner::Spinner;

    /// What was fetched, and with which digest: a file that changes at the hub is refused the next time.
    const PINS: &str = "models.lock.json";

    pub(super) fn list(directory: &Path) -> Result<Answer> {
        let mut names: Vec<_> = match std::fs::read_dir(directory) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(Error::io("read", directory, source)),
        };
        names.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
        names.sort();
        // What is wrong with a file is a sentence, and would make a table of any width.
        let (mut rows, mut wrong, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for path in names {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            match ModelCard::read(&path) {
                Ok(card) => {
                    let millions = card.parameters / 1_000_000;
                    let memory = card.loaded_bytes / (1 << 20);
                    rows.push(vec![
                        name,
                        card.family.clone(),
                        format!("{millions} M weights"),
                        format!("{} tokens", card.context),
                        format!("{memory} MiB"),
                        card.license.clone().unwrap_or_default(),
                    ]);
                    found.push(json!({ "path": path, "card": card }));
                }
                Err(error) => {
                    wrong.push(vec![format!("{name} cannot be used: {}", error.message())]);
                    found.push(json!({ "path": path, "error": error.message() }));
                }
            }
        }
        let text = match found.is_empty() {
            true => format!("no models in {}; fetch one with `herm models pull`\n", directory.display()),
            false => columns(&rows) + &columns(&wrong),
        };
        Ok(Answer::new(text, json!({ "directory": directory, "models": found })))
    }

    fn pins(directory: &Path) -> Result<BTreeMap<String, String>> {
        let path = directory.join(PINS);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(source) => return Err(Error::io("read", &path, source)),
        };
        serde_json::from_str(&text).map_err(|source| {
            Error::corrupt(format!("{} is not what was written there", path.display()))
                .hint("it says which digests models must have: repair it, or remove it to believe the hub again")
                .because(source)
        })
    }

    pub(super) fn pull(directory: &Path, arguments: &PullModel) -> Result<Answer> {
        let mut pins = pins(directory)?;
        let pinned = arguments.sha256.as_deref().or_else(|| pins.get(&arguments.name).map(String::as_str));
        let wanted = ModelRef::parse(&arguments.name, pinned)?;
        let token = std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty()).map(SecretString::from);
        let hub = Hub::new(arguments.hub.as_deref(), token)?;
        let spinner = RefCell::new(Spinner::start());
        let progress = |there: u64, all: u64| {
            if let Some(spinner) = spinner.borrow_mut().as_mut() {
                let mib = |bytes: u64| bytes / (1 << 20);
                let share = (there * 100).checked_div(all).map(|share| format!(" {share} %")).unwrap_or_default();
                spinner.say(&format!("{} · {} of {} MiB{share}", wanted.name(), mib(there), mib(all)));
            }
        };
        let pulled = in_runtime(hub.pull(&wanted, directory, progress))?;
        drop(spinner);
        // What cannot be read is of no use, whatever its digest.
        let card = ModelCard::read(&pulled.path)?;
        pins.insert(arguments.name.clone(), pulled.sha256.clone());
        let text = serde_json::to_string_pretty(&pins)
            .map_err(|source| Error::internal("the digests are not JSON").because(source))?;
        fsio::create_dirs(directory)?;
        Root::open(directory)?.replace(&PINS.parse::<RelPath>()?, text.as_bytes(), SyncTiming::Now)?;
        let name = pulled.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let text = format!(
            "{}\nsha256 {}\n{} bytes, {} of them fetched now\n\ntry it: herm models check {name}\nuse it: herm run 1 --backend local --model {name} …\n",
            pulled.path.display(),
            pulled.sha256,
            pulled.bytes,
            pulled.fetched
        );
        Ok(Answer::new(text, json!({ "pulled": pulled, "card": card })))
    }

    pub(super) fn check(directory: &Path, model: &str, question: &str, tokens: u32) -> Result<Answer> {
        let path = find(directory, model)?;
        let card = ModelCard::read(&path)?;
        let shelf = ModelCache::new();
        let local = LocalBackend::new(&shelf, LocalSettings::new(&path))?;
        let ask = |tokens: u32| {
            let say = |role, content: &str| ChatMessage { role, content: content.into() };
            CompletionRequest {
                messages: vec![say(Role::System, "You are a helpful assistant."), say(Role::User, question)],
                purpose: Purpose::Turn,
                tools: Default::default(),
                reply_schema: Arc::new(Value::Bool(true)),
                max_output_tokens: tokens,
                max_output_bytes: 1 << 16,
                temperature: 0.0,
            }
        };
        let timed = |tokens: u32| -> Result<(Completion, f64)> {
            let started = Instant::now();
            let completion = in_runtime(async { local.complete(&ask(tokens)).await.map_err(Error::from) })?;
            Ok((completion, started.elapsed().as_secs_f64()))
        };
        let (_, load) = timed(1)?;
        let (completion, seconds) = timed(tokens.max(1))?;
        let written = completion.tokens.map_or(0, |tokens| tokens.output);
        let speed = written as f64 / seconds.max(1e-9);
        let text = format!(
            "{}\n{} · {} M weights · {} tokens of context · about {} MiB in memory\n\n> {question}\n{}\n\nloaded and first token in {load:.2} s, then {speed:.0} tokens a second\n",
            card.name,
            card.family,
            card.parameters / 1_000_000,
            card.context,
            card.loaded_bytes / (1 << 20),
            completion.text.trim(),
        );
        let json = json!({
            "card": card, "reply": completion.text, "tokens": completion.tokens,
            "loadSeconds": load, "tokensPerSecond": speed,
        });
        Ok(Answer::new(text, json))
    }
}
