//! `herm restore`, `herm brain fork`, `herm export` and `herm import`: brains that come from elsewhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herm::brain::{OnDrift, OnExisting};
use herm::fsio::{self, OsLock};
use herm::ids::SystemRandom;
use herm::receipt::TrustedKeys;
use herm::snapshot::portable::{self, SecretPolicy};
use herm::snapshot::store::ResumedStore;
use herm::snapshot::{Progress, RestoreOptions, RestoreReport};
use herm::{BrainId, Error, ErrorKind, Layout, Reader, Result, SystemClock};
use serde_json::json;

use super::snapshot::encryption_options;
use super::{in_runtime, to_json};
use crate::cli;
use crate::config::Settings;
use crate::output::Answer;
use crate::spinner::Spinner;
use crate::stores::StorePurpose;

pub(super) fn restore(settings: &Settings, arguments: &cli::Restore, quiet: bool) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let layout = arguments.into.as_ref().map_or_else(|| settings.layout.clone(), Layout::new);
    let in_place = if arguments.replace { OnExisting::SetAside } else { OnExisting::Refuse };
    let how = RestoreOptions {
        version: arguments.version,
        in_place,
        trusted: settings.trusted()?,
        wait: settings.lock_wait,
        progress: progress(quiet),
        inspect: None,
    };
    let _alone = alone(&layout, &id, settings.lock_wait)?;
    let restored = in_runtime(async {
        let secrecy = settings.secrecy(encryption_options(arguments.plaintext))?;
        let resumed = Arc::new(ResumedStore::new(settings.store(StorePurpose::Read).await?, &layout.incoming(&id))?);
        let vault = settings.vault_in(resumed.clone(), secrecy)?;
        // What this machine has seen counts wherever the brain is put.
        vault.trusted_head(&settings.layout, &id).await?;
        let restored = vault.restore(&layout, &id, &how).await;
        match &restored {
            // What was fetched may be what is damaged; an interrupted download goes on where it was.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            _ => resumed.forget()?,
        }
        restored
    })?;
    let answered = answer(&layout, &id, &restored)?;
    Ok(match arguments.version {
        // The head of the store is what the next task asks for.
        Some(version) if layout.brains() == settings.layout.brains() => answered.note(format!(
            "if the store has a later version, the next task that snapshots goes on from that one; to go on from version \
             {version}, use `herm brain fork {id} NEW --version {version}`"
        )),
        _ => answered,
    })
}

/// One restore of a brain at a time: what was fetched is kept in one place.
fn alone(layout: &Layout, id: &BrainId, wait: Duration) -> Result<OsLock> {
    fsio::create_dirs(&layout.locks())?;
    let lock = layout.locks().join(format!("{id}.restore"));
    OsLock::acquire(&lock, &format!("the restore of brain {id}"), wait).map_err(|error| match error.kind() {
        ErrorKind::Conflict => Error::conflict(format!("brain {id} is being restored already: {}", error.message()))
            .hint(format!("wait until it is done, and see it with `herm brain show {id}`")),
        _ => error,
    })
}

/// A bar at the foot of a terminal.
fn progress(quiet: bool) -> Option<Progress> {
    let spinner = Mutex::new(Spinner::start().filter(|_| !quiet)?);
    Some(Arc::new(move |done, total| {
        let mut spinner = spinner.lock().unwrap_or_else(PoisonError::into_inner);
        spinner.say(&bar(done, total));
        spinner.tick();
    }))
}

fn bar(done: u64, total: u64) -> String {
    let filled = usize::try_from(done.saturating_mul(24) / total.max(1)).unwrap_or(0).min(24);
    format!("[{}{}] {done}/{total} chunks", "#".repeat(filled), "-".repeat(24 - filled))
}

fn answer(layout: &Layout, id: &BrainId, restored: &RestoreReport) -> Result<Answer> {
    let mut text = format!(
        "brain {id} is at {}: version {}, {} files, {} receipts verified\n",
        layout.brain(id).display(),
        restored.head.version,
        restored.files,
        restored.receipts
    );
    if let Some(aside) = &restored.aside {
        text.push_str(&format!("the brain that was there is at {}\n", aside.display()));
    }
    Ok(Answer::new(text, to_json(restored)?))
}

pub(super) fn fork(settings: &Settings, id: &BrainId, new: &BrainId, version: Option<u64>) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let lock = reader.fork(version, &settings.layout, new, &settings.open_options(OnDrift::Refuse))?;
    let text = format!("brain {new} is a fork of brain {id}: version 1, bundle {}\n", lock.bundle_hash);
    Ok(Answer::new(text, json!({ "id": new, "lock": lock })))
}

pub(super) fn export(settings: &Settings, arguments: &cli::Export) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let secrecy = settings.secrecy(encryption_options(arguments.plaintext))?;
    let doors = (Arc::new(SystemRandom) as _, Arc::new(SystemClock) as _);
    let exported = in_runtime(portable::export(&settings.layout, &id, &arguments.file, secrecy, doors))?;
    let text = format!(
        "brain {id} version {} is in {}: {} bytes\n",
        exported.version,
        arguments.file.display(),
        exported.bytes
    );
    Ok(Answer::new(text, to_json(&exported)?))
}

pub(super) fn import(settings: &Settings, arguments: &cli::Import) -> Result<Answer> {
    let trusted = match arguments.key.is_empty() {
        true => settings.trusted()?,
        false => TrustedKeys::Keys(arguments.key.iter().map(|did| did.parse()).collect::<Result<_>>()?),
    };
    let how = RestoreOptions {
        version: None,
        in_place: OnExisting::Refuse,
        trusted,
        wait: settings.lock_wait,
        progress: None,
        inspect: None,
    };
    let on_secret = if arguments.allow_secrets { SecretPolicy::Allow } else { SecretPolicy::Refuse };
    let secrecy = settings.secrecy(encryption_options(arguments.plaintext))?;
    let doors = (Arc::new(SystemRandom) as _, Arc::new(SystemClock) as _);
    let restored = in_runtime(portable::import(&settings.layout, &arguments.file, secrecy, how, on_secret, doors))?;
    let id = restored.head.brain.clone();
    answer(&settings.layout, &id, &restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_nothing_breaks_it() {
        assert_eq!(bar(0, 8), "[------------------------] 0/8 chunks");
        assert_eq!(bar(3, 8), "[#########---------------] 3/8 chunks");
        assert_eq!(bar(8, 8), "[########################] 8/8 chunks");
        assert_eq!(bar(u64::MAX, 0).matches('#').count(), 24);
    }
}
