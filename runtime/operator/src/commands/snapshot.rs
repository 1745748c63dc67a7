//! `herm snapshot`: brains in a store.

use herm::snapshot::outbox::Outbox;
use herm::snapshot::pointer::Pointer as _;
use herm::snapshot::{OperatorKey, PruneOptions, RehearsalScope, SnapshotHead, SnapshotVerifyOptions, Vault};
use herm::{BrainId, Error, Reader, Result, brain};
use serde_json::json;

use super::{in_runtime, to_json};
use crate::cli;
use crate::config::Settings;
use crate::exit;
use crate::output::{Answer, columns};
use crate::stores::{EncryptionOptions, StorePurpose, give_back, take};

pub(super) fn run(settings: &Settings, command: &cli::Snapshot) -> Result<Answer> {
    match command {
        cli::Snapshot::Create { id, plaintext } => create(settings, &id.parse()?, encryption_options(*plaintext)),
        cli::Snapshot::List { id, limit } => list(settings, &id.parse()?, *limit),
        cli::Snapshot::Show(one) => show(settings, one),
        cli::Snapshot::Verify { one, all } => verify(settings, one, *all),
        cli::Snapshot::Prune { id, keep, plaintext } => {
            prune(settings, &id.parse()?, *keep, encryption_options(*plaintext))
        }
        cli::Snapshot::Status { id } => status(settings, id.as_deref()),
        cli::Snapshot::Pointer { id } => pointer(settings, &id.parse()?),
        cli::Snapshot::Renew { id } => renew(settings, &id.parse()?),
        cli::Snapshot::Key { create, rotate_to: None, .. } => key(settings, *create),
        cli::Snapshot::Key { rotate_to: Some(file), brains_of, .. } => rotate(settings, file, brains_of),
    }
}

pub(super) fn encryption_options(plaintext: bool) -> EncryptionOptions {
    if plaintext { EncryptionOptions::Plaintext } else { EncryptionOptions::AsConfigured }
}

fn renew(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let renewed = in_runtime(async {
        settings.vault(EncryptionOptions::AsConfigured, StorePurpose::Write).await?.renew(id).await
    })?;
    let text = format!("{renewed} objects of brain {id} were about to run out, and are kept on\n");
    Ok(Answer::new(text, json!({ "id": id, "renewed": renewed })))
}

/// What the pointer says of a brain, and what must be written so that it points to the last snapshot. Writing it costs
/// money and a key that herm does not have.
fn pointer(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let Some(ens) = settings.snapshot().ens else {
        return Err(Error::invalid("there is no pointer in the configuration")
            .hint("name one: [snapshot.ens] with name and rpc"));
    };
    let pointer = ens.pointer()?;
    let (said, now, agrees) = in_runtime(async {
        // A catalog is put into a store that would be lost with its index, and that takes the key.
        let vault = match settings.snapshot().walrus {
            Some(_) => settings.vault(EncryptionOptions::AsConfigured, StorePurpose::Write).await?,
            None => {
                settings.vault_in(settings.store(StorePurpose::Read).await?, herm::snapshot::Encryption::Plaintext)?
            }
        };
        let Some(now) = vault.pointer_record(id).await? else {
            return Err(Error::not_found(format!("the store has no snapshot of brain {id}"))
                .hint(format!("make one with `herm snapshot create {id}`")));
        };
        let said = pointer.lookup(id).await?;
        let agrees = match vault.agrees(id).await {
            Err(error) if error.kind() == herm::ErrorKind::Refused => Err(error.message().to_owned()),
            agrees => Ok(agrees?),
        };
        Ok((said, now, agrees))
    })?;
    let (key, value) = (herm::snapshot::pointer::record_key(id), now.to_string());
    let mut text = match (&said, &agrees) {
        (None, _) => format!("{} says nothing of brain {id}\n", pointer.describe()),
        (Some(said), Ok(_)) if *said == now => format!("{} points to the last snapshot\n", pointer.describe()),
        (Some(said), Ok(_)) if said.pointed == now.pointed => {
            format!("{} points to the last snapshot, and not to its catalog\n", pointer.describe())
        }
        (Some(said), Ok(_)) => {
            let (said, now) = (said.pointed.number, now.pointed.number);
            format!("{} points to head {said}; the store went on to {now}\n", pointer.describe())
        }
        (Some(_), Err(why)) => format!("{why}\n"),
    };
    if said.as_ref() != Some(&now) && agrees.is_ok() {
        text.push_str(&format!("write this text record:\n  {key}\n  {value}\n"));
    }
    let json = json!({
        "id": id, "name": ens.name, "said": said.map(|said| said.to_string()), "agrees": agrees.is_ok(),
        "record": { "key": key, "value": value },
    });
    let code = if agrees.is_ok() { exit::DONE } else { exit::NEGATIVE };
    Ok(Answer::new(text, json).code(code))
}

fn create(settings: &Settings, id: &BrainId, wish: EncryptionOptions) -> Result<Answer> {
    let pushed = in_runtime(async {
        let vault = settings.vault(wish, StorePurpose::Write).await?;
        let lease = match settings.lease() {
            Some(ttl) => Some(take(&vault, id, ttl).await?),
            None => None,
        };
        // Everything is looked at: a person who types this wants to know that it is there.
        let pushed = vault.push_whole(&settings.layout, id).await;
        if let Some(lease) = lease {
            give_back(&vault, &lease).await;
        }
        let pushed = pushed?;
        let arrived = herm::snapshot::outbox::PushRecord {
            version: pushed.head.version,
            head: pushed.head.number,
            at: pushed.head.at,
        };
        let dir = settings.layout.brain(id);
        let mut outbox = Outbox::load(&dir)?;
        outbox.arrived(&vault.store().describe(), arrived);
        outbox.save(&dir)?;
        Ok(pushed)
    })?;
    let text = match pushed.moved {
        true => format!(
            "brain {id} version {} is in the store: {} objects, {} bytes\n",
            pushed.head.version, pushed.objects, pushed.bytes
        ),
        false if pushed.objects == 0 => {
            format!("brain {id} version {} was in the store already\n", pushed.head.version)
        }
        false => format!(
            "brain {id} version {} was in the store already; {} objects of it were missing and are back\n",
            pushed.head.version, pushed.objects
        ),
    };
    Ok(Answer::new(text, to_json(&pushed)?))
}

fn list(settings: &Settings, id: &BrainId, limit: usize) -> Result<Answer> {
    let heads = in_runtime(async {
        // Heads are not encrypted: looking needs no key.
        let vault =
            settings.vault_in(settings.store(StorePurpose::Read).await?, herm::snapshot::Encryption::Plaintext)?;
        vault.heads(id).await
    })?;
    let shown: Vec<&SnapshotHead> = heads.iter().rev().take(limit).collect();
    let mut rows = vec![["HEAD", "VERSION", "HASH", "AT", "BY"].map(str::to_owned).to_vec()];
    for head in &shown {
        rows.push(vec![
            head.number.to_string(),
            head.version.to_string(),
            head.bundle_hash.short(),
            head.at.to_string(),
            head.writer.owner.clone(),
        ]);
    }
    let text = if shown.is_empty() { format!("no snapshots of brain {id}\n") } else { columns(&rows) };
    Ok(Answer::new(text, json!({ "id": id, "heads": shown })))
}

async fn head_of(vault: &Vault, id: &BrainId, version: Option<u64>) -> Result<SnapshotHead> {
    let heads = vault.heads(id).await?;
    let found = heads.into_iter().rev().find(|head| version.is_none_or(|version| head.version == version));
    found.ok_or_else(|| {
        let which = version.map_or_else(String::new, |version| format!(" of version {version}"));
        Error::not_found(format!("there is no snapshot{which} of brain {id}"))
            .hint(format!("see which there are with `herm snapshot list {id}`"))
    })
}

fn show(settings: &Settings, one: &cli::OneSnapshot) -> Result<Answer> {
    let id: BrainId = one.id.parse()?;
    let (head, manifest) = in_runtime(async {
        let vault = settings.vault(encryption_options(one.plaintext), StorePurpose::Read).await?;
        let head = head_of(&vault, &id, one.version).await?;
        let manifest = vault.manifest(&head).await?;
        Ok((head, manifest))
    })?;
    let mut text = format!(
        "brain {id}, version {}\n  bundle {}\n  manifest {}\n  {} files, {} bytes of rows\n",
        head.version,
        head.bundle_hash,
        head.manifest,
        manifest.files(),
        manifest.bytes()
    );
    let mut rows = vec![["TABLE", "ROWS", "BYTES"].map(str::to_owned).to_vec()];
    for table in manifest.tables.iter().filter(|table| table.rows > 0) {
        rows.push(vec![table.name.clone(), table.rows.to_string(), table.bytes.to_string()]);
    }
    text.push_str(&columns(&rows));
    Ok(Answer::new(text, json!({ "head": head, "manifest": manifest })))
}

fn verify(settings: &Settings, one: &cli::OneSnapshot, all: bool) -> Result<Answer> {
    let id: BrainId = one.id.parse()?;
    let what = SnapshotVerifyOptions {
        version: one.version,
        rehearse: if all { RehearsalScope::All } else { RehearsalScope::Last },
        trusted: settings.trusted()?,
    };
    let verified = in_runtime(async {
        settings
            .vault(encryption_options(one.plaintext), StorePurpose::Read)
            .await?
            .verify(&settings.layout, &id, &what)
            .await
    })?;
    let mut text = format!(
        "{} snapshots, {} objects read and opened; {} put together as a restore does, {} receipts verified\n",
        verified.snapshots, verified.objects, verified.rehearsed, verified.receipts
    );
    for finding in &verified.findings {
        text.push_str(&format!("does not hold: {finding}\n"));
    }
    let sound = verified.findings.is_empty() && verified.snapshots > 0;
    let answer = Answer::new(text, json!({ "id": id, "sound": sound, "verified": verified }));
    Ok(answer.code(if sound { exit::DONE } else { exit::NEGATIVE }))
}

fn prune(settings: &Settings, id: &BrainId, keep: usize, wish: EncryptionOptions) -> Result<Answer> {
    let pruned = in_runtime(async {
        settings.vault(wish, StorePurpose::Write).await?.prune(&settings.layout, id, PruneOptions { last: keep }).await
    })?;
    let text = format!(
        "{} snapshots went, {} stay; {} objects of {} bytes were removed\n",
        pruned.removed, pruned.kept, pruned.objects, pruned.bytes
    );
    Ok(Answer::new(text, to_json(&pruned)?))
}

fn status(settings: &Settings, id: Option<&str>) -> Result<Answer> {
    let ids: Vec<BrainId> = match id {
        Some(id) => vec![id.parse()?],
        None => brain::list(&settings.layout)?,
    };
    let store = match in_runtime(settings.store(StorePurpose::Read)) {
        Ok(store) => store.describe(),
        // Nothing was pushed there yet.
        Err(error) if error.kind() == herm::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut rows = vec![["ID", "VERSION", "IN THE STORE", "TROUBLE"].map(str::to_owned).to_vec()];
    let (mut brains, mut behind) = (Vec::new(), 0);
    for id in ids {
        let version = Reader::open(&settings.layout, &id)?.lock().version;
        let outbox = Outbox::load(&settings.layout.brain(&id))?;
        let pushed = outbox.pushed.as_ref().filter(|_| outbox.store == store).map(|pushed| pushed.version);
        behind += u64::from(pushed != Some(version));
        let trouble = outbox
            .trouble
            .as_ref()
            .map(|trouble| format!("{} tries since {}: {}", trouble.attempts, trouble.since, trouble.reason));
        rows.push(vec![
            id.to_string(),
            version.to_string(),
            pushed.map_or_else(|| "never".to_owned(), |version| version.to_string()),
            trouble.unwrap_or_default(),
        ]);
        brains.push(json!({ "id": id, "version": version, "pushed": pushed, "outbox": outbox }));
    }
    let answer = Answer::new(columns(&rows), json!({ "store": store, "brains": brains }));
    Ok(answer.code(if behind == 0 { exit::DONE } else { exit::NEGATIVE }))
}

fn key(settings: &Settings, create: bool) -> Result<Answer> {
    let path = settings.snapshot_key();
    let key = match create {
        true => OperatorKey::create(&path, &herm::ids::SystemRandom)?,
        false => OperatorKey::load(&path)?,
    };
    let answer = Answer::new(
        format!("{} at {}\n", key.id(), path.display()),
        json!({ "key": key.id(), "file": path, "created": create }),
    );
    Ok(match create {
        true => answer.note("keep a copy of this file elsewhere: without it no snapshot opens"),
        false => answer,
    })
}

fn rotate(settings: &Settings, file: &std::path::Path, brains: &[String]) -> Result<Answer> {
    let new = OperatorKey::load(file)?;
    let ids: Vec<BrainId> = brains.iter().map(|id| id.parse()).collect::<Result<_>>()?;
    in_runtime(async {
        let vault = settings.vault(EncryptionOptions::AsConfigured, StorePurpose::Write).await?;
        // All of them are looked at first: none is left with a key that the others do not have.
        for id in &ids {
            if vault.head(id).await?.is_none() {
                return Err(Error::not_found(format!("the store has no snapshot of brain {id}; no key was changed"))
                    .hint("name brains that are in the store"));
            }
        }
        for (at, id) in ids.iter().enumerate() {
            vault.rewrap(id, &new).await.map_err(|error| {
                let done = ids.iter().take(at).map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let done = if done.is_empty() { "none".to_owned() } else { done };
                Error::new(error.kind(), format!("brain {id}: {} (wrapped anew so far: {done})", error.message()))
                    .hint("run it again for the rest")
            })?;
        }
        Ok(())
    })?;
    let text = format!("the keys of {} brains are wrapped by {} now\n", ids.len(), new.id());
    let note = format!("name {} in the configuration: key = … in [snapshot]", file.display());
    Ok(Answer::new(text, json!({ "brains": ids, "key": new.id() })).note(note))
}
