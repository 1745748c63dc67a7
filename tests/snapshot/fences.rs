//! Who may move a brain: of several, one.

use std::sync::Arc;

use herm::ErrorKind;
use herm::brain::OnExisting;
use herm_tests::TempBrains;

use super::{grown, how, id, key, step, vault, vault_of};

#[tokio::test]
async fn of_two_operators_that_moved_one_brain_the_second_is_told_and_can_go_on_from_the_first() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    let mut first = grown(&one, "7", 3);
    let (store, vault) = vault();
    vault.push(&one.layout(), &id("7")).await.unwrap();
    let other = vault_of(store, key(1), "the other");
    other.restore(&two.layout(), &id("7"), &how()).await.unwrap();
    let mut second = two.open("7").unwrap();
    step(&mut first, 10);
    step(&mut second, 20);
    step(&mut second, 21);
    vault.push(&one.layout(), &id("7")).await.unwrap();
    let error = other.push(&two.layout(), &id("7")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("version 5 by the test, which was never here"), "{error}");
    drop(second);
    let mut replace = how();
    replace.in_place = OnExisting::SetAside;
    other.restore(&two.layout(), &id("7"), &replace).await.unwrap();
    let mut second = two.open("7").unwrap();
    assert_eq!(second.lock(), first.lock());
    step(&mut second, 20);
    let pushed = other.push(&two.layout(), &id("7")).await.unwrap();
    assert_eq!(pushed.head.version, 6);
    // What lost is still there.
    let aside = herm::Layout::new(two.path().join(".aside"));
    assert!(aside.brains().join("7-1").join("memory.db").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pushes_of_one_brain_at_once_all_end_at_its_state() {
    let here = TempBrains::new();
    let brain = grown(&here, "7", 30);
    let (_, vault) = vault();
    let vault = Arc::new(vault);
    let pushing: Vec<_> = (0..8)
        .map(|_| {
            let (vault, layout) = (Arc::clone(&vault), here.layout());
            tokio::spawn(async move { vault.push(&layout, &id("7")).await })
        })
        .collect();
    for push in pushing {
        assert_eq!(push.await.unwrap().unwrap().head.bundle_hash, brain.lock().bundle_hash);
    }
}
