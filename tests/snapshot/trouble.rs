//! Whatever is wrong with a store, nothing wrong is restored, and the reason is said.

use std::sync::Arc;

use herm::ErrorKind;
use herm::snapshot::store::{MemoryStore, ObjectName};
use herm::snapshot::{Encryption, Store};
use herm_tests::TempBrains;
use herm_tests::generate::Random;

use super::{grown, how, id, key, step, vault, vault_of, verifying};

async fn objects(store: &MemoryStore) -> Vec<(ObjectName, Vec<u8>)> {
    let mut objects = Vec::new();
    for listed in store.list(&ObjectName::new("brains").unwrap(), None).await.unwrap() {
        let content = store.get(&listed.name, 1 << 30).await.unwrap().unwrap();
        objects.push((listed.name, content));
    }
    objects
}

#[tokio::test]
async fn of_a_thousand_bytes_that_rotted_a_thousand_are_noticed() {
    let here = TempBrains::new();
    let brain = grown(&here, "7", 120);
    for secrecy in [key(1), Encryption::Plaintext] {
        let store = Arc::new(MemoryStore::new());
        vault_of(store.clone(), secrecy.clone(), "the test").push(&here.layout(), &id("7")).await.unwrap();
        let objects = objects(&store).await;
        let mut random = Random::new(6);
        for round in 0..500 {
            let (name, content) = &objects[random.below(objects.len())];
            let mut rotten = content.clone();
            let at = random.below(rotten.len());
            rotten[at] ^= 1 << random.below(8);
            store.put(name, rotten).await.unwrap();
            let there = TempBrains::new();
            // A vault of its own: no key is remembered from the round before.
            let vault = vault_of(store.clone(), secrecy.clone(), "the test");
            let error = vault.restore(&there.layout(), &id("7"), &how()).await.expect_err("noticed");
            let kinds = [ErrorKind::Corrupt, ErrorKind::Refused];
            assert!(kinds.contains(&error.kind()), "round {round}: byte {at} of {name}: {error:?}");
            assert!(!there.file("7", "").exists(), "round {round}");
            store.put(name, content.clone()).await.unwrap();
        }
        let there = TempBrains::new();
        vault_of(store, secrecy, "the test").restore(&there.layout(), &id("7"), &how()).await.unwrap();
        assert_eq!(there.open("7").unwrap().lock(), brain.lock());
    }
}

#[tokio::test]
async fn any_object_that_is_missing_or_cut_short_is_named() {
    let here = TempBrains::new();
    drop(grown(&here, "7", 120));
    let (store, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    for (name, content) in objects(&store).await {
        if name.as_str().contains("/key/") {
            continue;
        }
        // A mark only saves a listing: without it the head is found all the same.
        let is_mark = name.last() == "mark";
        for cut in [None, Some(content.len() / 2), Some(0)] {
            match cut {
                None => store.remove(&name).await.unwrap(),
                Some(length) => store.put(&name, content[..length].to_vec()).await.unwrap(),
            }
            let there = TempBrains::new();
            let restored = vault.restore(&there.layout(), &id("7"), &how()).await;
            if is_mark && cut.is_none() {
                restored.unwrap();
                continue;
            }
            let error = restored.expect_err("noticed");
            let kinds = [ErrorKind::Corrupt, ErrorKind::Refused, ErrorKind::NotFound];
            assert!(kinds.contains(&error.kind()), "{name}: {error:?}");
            assert!(!there.file("7", "").exists());
            store.put(&name, content.clone()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_wrong_key_and_no_key_are_said_so() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    drop(grown(&here, "7", 3));
    let (store, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    for (secrecy, says) in [(key(2), "wrapped by operator key"), (Encryption::Plaintext, "are encrypted")] {
        let other = vault_of(store.clone(), secrecy, "other");
        for error in [
            other.restore(&there.layout(), &id("7"), &how()).await.unwrap_err(),
            other.push(&here.layout(), &id("7")).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(error.message().contains(says) && error.hint_text().is_some(), "{error:?}");
        }
    }
}

#[tokio::test]
async fn from_plain_text_to_a_key_there_is_a_way_and_it_is_said() {
    let here = TempBrains::new();
    drop(grown(&here, "7", 3));
    let store = Arc::new(MemoryStore::new());
    vault_of(store.clone(), Encryption::Plaintext, "plain").push(&here.layout(), &id("7")).await.unwrap();
    let sealed = vault_of(store, key(1), "sealed");
    for error in [
        sealed.push(&here.layout(), &id("7")).await.unwrap_err(),
        sealed.restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.message().contains("are not encrypted, and here is a key"), "{error}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("name another directory")), "{error:?}");
    }
    // The way: another place, where everything is pushed once more.
    vault().1.push(&here.layout(), &id("7")).await.unwrap();
}

#[tokio::test]
async fn a_store_that_was_taken_back_is_refused() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let mut brain = grown(&here, "7", 3);
    let (store, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    step(&mut brain, 4);
    let last = vault.push(&here.layout(), &id("7")).await.unwrap().head;
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    std::fs::remove_dir_all(there.file("7", "")).unwrap();
    store.remove(&ObjectName::new(format!("brains/7/head/{:020}", last.number)).unwrap()).await.unwrap();
    for error in [
        vault.restore(&there.layout(), &id("7"), &how()).await.unwrap_err(),
        vault.push(&here.layout(), &id("7")).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.message().contains("head 1 (version 4), and head 2 (version 5) was here"), "{error}");
    }
    // A machine that has seen nothing cannot know.
    vault.restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap();
}

#[tokio::test]
async fn receipts_of_a_stranger_are_refused() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    drop(grown(&here, "7", 3));
    let (_, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    let mut how = how();
    how.trusted = herm::receipt::TrustedKeys::Keys(vec![herm::Signer::from_seed([8; 32]).public().clone()]);
    let error = vault.restore(&there.layout(), &id("7"), &how).await.unwrap_err();
    assert!(error.message().contains("not a trusted key"), "{error}");
    assert!(!there.file("7", "").exists());
}

#[tokio::test]
async fn a_brain_that_is_not_what_its_lock_says_is_not_pushed() {
    let here = TempBrains::new();
    grown(&here, "7", 300).close().unwrap();
    let (_, vault) = vault();
    let sound = vault.push(&here.layout(), &id("7")).await.unwrap().head;
    let edit = |sql: &str| {
        let database = rusqlite::Connection::open(here.file("7", "memory.db")).unwrap();
        assert_eq!(database.execute(sql, []).unwrap(), 1);
    };
    edit("UPDATE messages SET content = 'by hand' WHERE id = 599");
    for vault in [&vault, &super::vault().1] {
        let error = vault.push(&here.layout(), &id("7")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("rows of messages"), "{error}");
    }
    assert_eq!(vault.head(&id("7")).await.unwrap().unwrap(), sound);

    let other = TempBrains::new();
    other.make("7").close().unwrap();
    let database = rusqlite::Connection::open(other.file("7", "memory.db")).unwrap();
    database.execute("UPDATE blobs SET content = x'00' WHERE rowid = 1", []).unwrap();
    drop(database);
    let error = super::vault().1.push(&other.layout(), &id("7")).await.unwrap_err();
    assert!(error.message().contains("damaged content"), "{error}");
}

/// A process that can write to the store can copy and invent objects, but not make a head.
#[tokio::test]
async fn a_head_that_nobody_with_the_key_wrote_is_refused() {
    let here = TempBrains::new();
    let mut brain = grown(&here, "7", 3);
    let (store, vault) = vault();
    let old = vault.push(&here.layout(), &id("7")).await.unwrap().head;
    step(&mut brain, 4);
    vault.push(&here.layout(), &id("7")).await.unwrap();
    // An old snapshot under a new number: well formed, and pointing to what is there.
    let name = |number: u64| ObjectName::new(format!("brains/7/head/{number:020}")).unwrap();
    let bytes = store.get(&name(old.number), 1 << 16).await.unwrap().unwrap();
    let line = String::from_utf8(bytes).unwrap().lines().next().unwrap().replace("\"number\":1,", "\"number\":3,");
    let forged = format!("{line}\n{}\n", herm::Digest::of(line.as_bytes()));
    store.put(&name(3), forged.into_bytes()).await.unwrap();
    for layout in [here.layout(), TempBrains::new().layout()] {
        let error = vault.restore(&layout, &id("7"), &how()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Refused | ErrorKind::Conflict), "{error}");
    }
    let fresh = TempBrains::new();
    let error = vault.restore(&fresh.layout(), &id("7"), &how()).await.unwrap_err();
    assert!(error.message().contains("not written by someone with the brain's key"), "{error}");
    assert!(vault.push(&here.layout(), &id("7")).await.is_err());
}

#[tokio::test]
async fn a_key_that_is_gone_is_put_back_by_who_has_it_and_never_replaced() {
    let here = TempBrains::new();
    let mut brain = grown(&here, "7", 3);
    let (store, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    let key_object = ObjectName::new("brains/7/key/00000000000000000001").unwrap();
    store.remove(&key_object).await.unwrap();
    // Another process has no key to put back: it must not make one.
    step(&mut brain, 4);
    let other = vault_of(store.clone(), key(1), "another");
    let error = other.push(&here.layout(), &id("7")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("not its key"), "{error}");
    vault.push(&here.layout(), &id("7")).await.unwrap();
    vault_of(store, key(1), "another").restore(&TempBrains::new().layout(), &id("7"), &how()).await.unwrap();
}

#[tokio::test]
async fn a_head_that_someone_removed_is_missed() {
    let here = TempBrains::new();
    let mut brain = grown(&here, "7", 3);
    let (store, vault) = vault();
    for number in 4..10 {
        vault.push(&here.layout(), &id("7")).await.unwrap();
        step(&mut brain, number);
    }
    let head = |number: u64| ObjectName::new(format!("brains/7/head/{number:020}")).unwrap();
    let findings = async || vault.verify(&here.layout(), &id("7"), &verifying()).await.unwrap().findings;
    assert_eq!(findings().await, Vec::<String>::new());
    let kept = store.get(&head(2), 1 << 20).await.unwrap().unwrap();
    store.remove(&head(2)).await.unwrap();
    assert_eq!(findings().await, ["head 2 is missing, between heads 1 and 3"]);
    store.remove(&head(3)).await.unwrap();
    assert_eq!(findings().await, ["heads 2 to 3 are missing, between heads 1 and 4"]);
    // One that came back is another than the one that head 4 follows, if it is not the same.
    store.put(&head(2), kept).await.unwrap();
    assert_eq!(findings().await, ["head 3 is missing, between heads 2 and 4"]);
    store.remove(&head(6)).await.unwrap();
    let found = findings().await;
    assert_eq!(found.last().unwrap(), "the last head is missing: the mark says that it is head 6");
    // A prune removes the oldest, and that is no finding.
    let pruned = super::vault();
    pruned.1.push(&here.layout(), &id("7")).await.unwrap();
    step(&mut brain, 10);
    pruned.1.push(&here.layout(), &id("7")).await.unwrap();
    pruned.1.prune(&here.layout(), &id("7"), herm::snapshot::PruneOptions { last: 1 }).await.unwrap();
    let verified = pruned.1.verify(&here.layout(), &id("7"), &verifying()).await.unwrap();
    assert_eq!(verified.findings, Vec::<String>::new());
}
