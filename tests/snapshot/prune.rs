//! Letting go of old snapshots takes nothing that a kept one needs.

use std::sync::Arc;

use herm::ErrorKind;
use herm::receipt::TrustedKeys;
use herm::snapshot::store::{MemoryStore, ObjectName};
use herm::snapshot::{PruneOptions, RehearsalScope, SnapshotVerifyOptions, Store};
use herm_tests::TempBrains;

use super::{grown, how, id, key, step, vault, vault_of, verifying};

#[tokio::test]
async fn what_stays_can_be_restored_and_what_goes_takes_its_chunks_along() {
    let here = TempBrains::new();
    let mut brain = grown(&here, "7", 150);
    let (store, vault) = vault();
    let mut locks = Vec::new();
    for number in 0..12 {
        for small in 0..15 {
            step(&mut brain, 1_000 + number * 100 + small);
        }
        vault.push(&here.layout(), &id("7")).await.unwrap();
        locks.push(brain.lock().clone());
    }
    let before = store.list(&ObjectName::new("brains/7").unwrap(), None).await.unwrap().len();
    let pruned = vault.prune(&here.layout(), &id("7"), PruneOptions { last: 3 }).await.unwrap();
    let after = store.list(&ObjectName::new("brains/7").unwrap(), None).await.unwrap().len();
    assert!(pruned.objects > 0 && after < before, "{pruned:?}, {before} → {after}");
    let verified = vault.verify(&here.layout(), &id("7"), &verifying()).await.unwrap();
    assert_eq!(verified.findings, Vec::<String>::new());
    for lock in &locks[9..] {
        let there = TempBrains::new();
        let mut how = how();
        how.version = Some(lock.version);
        vault.restore(&there.layout(), &id("7"), &how).await.unwrap();
        assert_eq!(there.open("7").unwrap().lock(), lock);
    }
    let mut gone = how();
    gone.version = Some(locks[0].version);
    let error = vault.restore(&TempBrains::new().layout(), &id("7"), &gone).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // And it goes on from there, over several generations.
    for number in 0..3 {
        step(&mut brain, 9_000 + number);
        let pushed = vault.push(&here.layout(), &id("7")).await.unwrap();
        assert!(pushed.objects < 12, "what is there is not sent again: {pushed:?}");
        vault.prune(&here.layout(), &id("7"), PruneOptions { last: 1 }).await.unwrap();
        let there = TempBrains::new();
        vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
        assert_eq!(there.open("7").unwrap().lock(), brain.lock());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pruning_while_someone_pushes_never_breaks_a_snapshot() {
    let here = TempBrains::new();
    let mut brain = grown(&here, "7", 60);
    let store = Arc::new(MemoryStore::new());
    let pushing = Arc::new(vault_of(store.clone(), key(1), "pusher"));
    pushing.push(&here.layout(), &id("7")).await.unwrap();
    for round in 0..25 {
        for number in 0..4 {
            step(&mut brain, 10_000 + round * 10 + number);
        }
        let push = tokio::spawn({
            let (vault, layout) = (Arc::clone(&pushing), here.layout());
            async move { vault.push(&layout, &id("7")).await }
        });
        let prune = tokio::spawn({
            let (vault, layout) = (vault_of(store.clone(), key(1), "pruner"), here.layout());
            async move { vault.prune(&layout, &id("7"), PruneOptions { last: 1 }).await }
        });
        let (push, prune) = (push.await.unwrap(), prune.await.unwrap());
        push.unwrap();
        if let Err(error) = prune {
            assert_eq!(error.kind(), ErrorKind::Conflict, "round {round}: {error:?}");
        }
        let there = TempBrains::new();
        pushing.restore(&there.layout(), &id("7"), &how()).await.unwrap();
        assert_eq!(there.open("7").unwrap().lock(), brain.lock(), "round {round}");
    }
}

#[tokio::test]
async fn verifying_names_every_snapshot_that_is_damaged() {
    let here = TempBrains::new();
    let mut brain = grown(&here, "7", 150);
    let (store, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    step(&mut brain, 500);
    vault.push(&here.layout(), &id("7")).await.unwrap();
    let sound = vault.verify(&here.layout(), &id("7"), &verifying()).await.unwrap();
    assert!(sound.findings.is_empty() && sound.snapshots == 2 && sound.objects > 5, "{sound:?}");
    assert_eq!((sound.rehearsed, sound.receipts), (1, 152), "the last one is put together as a restore does");
    let every = SnapshotVerifyOptions { rehearse: RehearsalScope::All, ..verifying() };
    assert_eq!(vault.verify(&here.layout(), &id("7"), &every).await.unwrap().rehearsed, 2);
    // Whose receipts count is found out by putting it together, and nothing is left of that.
    let stranger = TrustedKeys::Keys(vec![herm::Signer::from_seed([8; 32]).public().clone()]);
    let strange = vault
        .verify(&here.layout(), &id("7"), &SnapshotVerifyOptions { trusted: stranger, ..verifying() })
        .await
        .unwrap();
    assert!(strange.findings.len() == 1 && strange.findings[0].contains("not a trusted key"), "{strange:?}");
    let left: Vec<_> = std::fs::read_dir(here.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("verify")), "{left:?}");
    let chunks = store.list(&ObjectName::new("brains/7/chunk").unwrap(), None).await.unwrap();
    store.remove(&chunks[0].name).await.unwrap();
    let damaged = vault.verify(&here.layout(), &id("7"), &verifying()).await.unwrap();
    assert!(damaged.findings.iter().all(|finding| finding.contains("is missing")), "{damaged:?}");
    assert_eq!(damaged.findings.len(), 2, "a chunk that both need is named for both: {damaged:?}");
    // A usual push asks only for what changed; one that looks at the store puts back what is missing.
    let idle = vault.push(&here.layout(), &id("7")).await.unwrap();
    assert!(!idle.moved && idle.objects == 0, "{idle:?}");
    let last = vault.head(&id("7")).await.unwrap().unwrap();
    store.remove(&ObjectName::new(format!("brains/7/{}", last.object)).unwrap()).await.unwrap();
    let whole = vault.push_whole(&here.layout(), &id("7")).await.unwrap();
    assert!(!whole.moved && whole.objects == 2, "a chunk and the manifest: {whole:?}");
    let mended = vault.verify(&here.layout(), &id("7"), &verifying()).await.unwrap();
    assert_eq!(mended.findings, Vec::<String>::new());
    // Nothing is let go of while something that stays is not whole.
    store.remove(&chunks[0].name).await.unwrap();
    let error = vault.prune(&here.layout(), &id("7"), PruneOptions { last: 1 }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains("missing in the store"), "{error}");
    assert_eq!(vault.heads(&id("7")).await.unwrap().len(), 3, "only a head of the new generation has come");
    vault.push_whole(&here.layout(), &id("7")).await.unwrap();
    vault.prune(&here.layout(), &id("7"), PruneOptions { last: 1 }).await.unwrap();
    let there = TempBrains::new();
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    assert_eq!(there.open("7").unwrap().lock(), brain.lock());
    let heads = vault.heads(&id("7")).await.unwrap().len();
    // A name that herm does not give is no head.
    store.put(&ObjectName::new("brains/7/head/9").unwrap(), b"junk".to_vec()).await.unwrap();
    assert_eq!(vault.heads(&id("7")).await.unwrap().len(), heads);
}
