//! The command line: a brain goes to a store, comes back, is forked, and travels in a file.

use herm_tests::{Herm, Run};
use serde_json::Value;

const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn herm(&self) -> Herm {
        Herm::new(HERM, &self.dir.path().join("brains"))
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn done(&self, arguments: &[&str]) -> Value {
        let (code, json) = self.herm().json(arguments);
        assert_eq!(code, 0, "{arguments:?}: {json:#}");
        json
    }

    fn refused(&self, arguments: &[&str], code: i32, says: &str) -> Run {
        let run = self.herm().run(arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(says), "{run:?}");
        run
    }
}

#[test]
fn a_brain_is_snapshotted_listed_verified_pruned_and_restored() {
    let place = Place::new();
    place.done(&["init", "1"]);
    let run = place.refused(&["snapshot", "create", "1"], 3, "no key for snapshots");
    assert!(run.stderr.contains("--plaintext") && run.stderr.contains("herm snapshot key --create"), "{run:?}");
    place.done(&["snapshot", "key", "--create"]);
    place.refused(&["snapshot", "key", "--create"], 5, "already exists");
    let first = place.done(&["snapshot", "create", "1"]);
    assert_eq!((&first["moved"], &first["head"]["version"]), (&true.into(), &1.into()));
    place.done(&["snapshot", "status"]);
    place.done(&["memory", "add", "1", "something to remember"]);
    assert_eq!(place.herm().run(&["snapshot", "status", "1"]).code, 1, "a version is not in the store");
    place.done(&["snapshot", "create", "1"]);
    place.done(&["snapshot", "status", "1"]);
    let heads = place.done(&["snapshot", "list", "1"]);
    assert_eq!(heads["heads"].as_array().unwrap().len(), 2);
    let shown = place.done(&["snapshot", "show", "1", "--version", "1"]);
    assert_eq!(shown["manifest"]["schema"], "herm/snapshot@1");
    let verified = place.done(&["snapshot", "verify", "1"]);
    assert_eq!(verified["verified"]["snapshots"], 2);

    let hash = place.done(&["brain", "show", "1"])["brain"]["lock"]["bundleHash"].clone();
    place.refused(&["restore", "1"], 5, "already there");
    let other = place.path("other");
    let restored = place.done(&["restore", "1", "--into", &other]);
    assert_eq!(restored["head"]["bundleHash"], hash);
    let there = Herm::new(HERM, other.as_ref());
    let shown = there.json(&["brain", "show", "1"]).1;
    assert_eq!(shown["brain"]["lock"]["bundleHash"], hash);
    assert_eq!(there.run(&["brain", "verify", "1"]).code, 0);
    place.refused(&["restore", "1", "--into", &place.path("third"), "--version", "7"], 4, "no snapshot of version 7");
    let back = place.done(&["restore", "1", "--replace", "--version", "1"]);
    assert!(back["aside"].as_str().unwrap().contains(".aside"));
    assert_eq!(place.done(&["brain", "show", "1"])["brain"]["lock"]["version"], 1);
    let pruned = place.done(&["snapshot", "prune", "1", "--keep", "1"]);
    assert_eq!((&pruned["kept"], &pruned["removed"]), (&2.into(), &1.into()), "a prune is a head of the same snapshot");
    place.done(&["snapshot", "verify", "1"]);
}

#[test]
fn a_head_that_someone_removed_from_the_middle_is_named_and_the_command_ends_with_exit_1() {
    let place = Place::new();
    place.done(&["init", "1"]);
    let (config, store) = (place.path("config.toml"), place.path("store"));
    std::fs::write(&config, format!("[snapshot]\nplaintext = true\nstore = {store:?}\n")).unwrap();
    let herm = place.herm().config(config.as_ref());
    for version in 1..=5 {
        let (code, pushed) = herm.json(&["snapshot", "create", "1"]);
        assert_eq!((code, &pushed["head"]["number"]), (0, &version.into()), "{pushed:#}");
        assert_eq!(herm.run(&["memory", "add", "1", &format!("what was said, number {version}")]).code, 0);
    }
    let verify: [&[&str]; 2] = [&["snapshot", "verify", "1", "--all"], &["snapshot", "verify", "1"]];
    for arguments in verify {
        let sound = herm.run(arguments);
        assert!(sound.code == 0 && !sound.stdout.contains("does not hold"), "{sound:?}");
    }
    let head = |number: u64| place.dir.path().join(format!("store/brains/1/head/{number:020}"));
    for (number, says) in [
        (2, "does not hold: head 2 is missing, between heads 1 and 3"),
        (3, "does not hold: heads 2 to 3 are missing, between heads 1 and 4"),
    ] {
        std::fs::remove_file(head(number)).unwrap();
        for arguments in verify {
            let found = herm.run(arguments);
            assert_eq!(found.code, 1, "{arguments:?}: {found:?}");
            assert_eq!(found.stdout.lines().skip(1).collect::<Vec<_>>(), [says], "{arguments:?}");
            let (code, json) = herm.json(arguments);
            let finding = says.trim_start_matches("does not hold: ");
            assert_eq!((code, &json["sound"]), (1, &false.into()), "{json:#}");
            assert_eq!(json["verified"]["findings"], serde_json::json!([finding]), "{json:#}");
        }
    }
}

#[test]
fn of_four_restores_at_once_one_restores_and_the_others_say_so() {
    let place = Place::new();
    place.done(&["init", "1"]);
    place.done(&["snapshot", "key", "--create"]);
    place.done(&["snapshot", "create", "1"]);
    let other = place.path("other");
    let runs: Vec<Run> = std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..4).map(|_| scope.spawn(|| place.herm().run(&["restore", "1", "--into", &other]))).collect();
        running.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(runs.iter().filter(|run| run.code == 0).count(), 1, "{runs:?}");
    for run in runs.iter().filter(|run| run.code != 0) {
        assert_eq!(run.code, 5, "{run:?}");
        let says = ["is already there", "has come into place meanwhile", "is being restored already"];
        assert!(says.iter().any(|says| run.stderr.contains(says)), "{run:?}");
    }
    assert_eq!(Herm::new(HERM, other.as_ref()).run(&["brain", "verify", "1"]).code, 0);
}

#[test]
fn where_brains_are_leased_a_command_that_moves_one_asks_for_the_lease() {
    let place = Place::new();
    place.done(&["init", "1"]);
    place.done(&["snapshot", "key", "--create"]);
    let (config, store) = (place.path("config.toml"), place.path("store"));
    std::fs::write(&config, format!("[snapshot]\nstore = {store:?}\nlease_secs = 60\n")).unwrap();
    let with = |arguments: &[&str]| place.herm().run(&[&["--config", config.as_str()], arguments].concat());
    let (skill, sessions) = (place.path("library/tidy/SKILL.md"), place.path("sessions"));
    std::fs::create_dir_all(place.path("library/tidy")).unwrap();
    std::fs::create_dir_all(&sessions).unwrap();
    std::fs::write(&skill, "---\nname: tidy\ndescription: Tidies up. Use when it is untidy.\n---\n# Tidy\n").unwrap();
    let library = place.path("library");
    let moving: [&[&str]; 6] = [
        &["memory", "add", "1", "a thing"],
        &["snapshot", "create", "1"],
        &["curate", "1"],
        &["skills", "import", "1", &library],
        &["evolve", "auto-run", "1", "--hold"],
        &["evolve", "backfill", "1", "--sessions-dir", &sessions],
    ];
    let local = std::sync::Arc::new(herm::snapshot::store::LocalStore::open(store.as_ref()).unwrap());
    let vault = super::vault_of(local, super::key(1), "another machine");
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let taken = executor.block_on(vault.take_lease(&super::id("1"), std::time::Duration::from_secs(60))).unwrap();
    let herm::snapshot::LeaseAttempt::Ours(lease) = taken else { panic!("{taken:?}") };
    for arguments in moving {
        let run = with(arguments);
        assert_eq!(run.code, 5, "{run:?}");
        assert!(run.stderr.contains("another machine works on brain 1"), "{run:?}");
    }
    let looking: [&[&str]; 3] =
        [&["skills", "import", "1", &library, "--dry-run"], &["evolve", "status", "1"], &["evolve", "report", "1"]];
    for arguments in looking {
        let run = with(arguments);
        assert_eq!(run.code, 0, "who only looks needs no lease: {run:?}");
    }
    executor.block_on(vault.release_lease(&lease)).unwrap();
    for arguments in moving {
        // Each gives it back, or the next one would be refused.
        let run = with(arguments);
        assert_eq!(run.code, 0, "{run:?}");
    }
}

#[test]
fn a_task_for_a_brain_that_is_not_here_restores_it_and_never_begins_it_anew() {
    let place = Place::new();
    place.done(&["snapshot", "key", "--create"]);
    let config = place.path("config.toml");
    std::fs::write(&config, format!("[snapshot]\nstore = {:?}\n", place.path("store"))).unwrap();
    let run = |arguments: &[&str]| {
        let mut all = vec!["--config", config.as_str()];
        all.extend(arguments);
        place.done(&all)
    };
    let first = run(&["run", "1", "--example"]);
    let version = first["settled"]["version"].as_u64().unwrap();
    run(&["snapshot", "status", "1"]);
    std::fs::remove_dir_all(place.dir.path().join("brains/1")).unwrap();
    let second = run(&["run", "1", "--example"]);
    assert_eq!(second["settled"]["before"], first["settled"]["after"]);
    assert_eq!(second["settled"]["version"].as_u64().unwrap(), version + 1);
    run(&["receipts", "verify", "1"]);
    run(&["brain", "verify", "1"]);
}

#[test]
fn a_fork_has_the_same_content_and_a_chain_of_its_own() {
    let place = Place::new();
    place.done(&["init", "1"]);
    let old = place.done(&["brain", "show", "1"])["brain"]["lock"]["bundleHash"].clone();
    place.done(&["memory", "add", "1", "later"]);
    let new = place.done(&["brain", "show", "1"])["brain"]["lock"]["bundleHash"].clone();
    let forked = place.done(&["brain", "fork", "1", "100"]);
    assert_eq!(forked["lock"]["bundleHash"], new);
    assert_eq!(forked["lock"]["origin"]["kind"], "fork");
    let forked = place.done(&["brain", "fork", "1", "101", "--version", "1"]);
    assert_eq!(forked["lock"]["bundleHash"], old);
    for id in ["100", "101"] {
        place.done(&["brain", "verify", id]);
        place.done(&["receipts", "verify", id]);
        place.done(&["memory", "add", id, "goes on"]);
        place.done(&["receipts", "verify", id]);
    }
    place.refused(&["brain", "fork", "1", "100"], 5, "already there");
    place.refused(&["brain", "fork", "1", "102", "--version", "9"], 4, "never had a version 9");
    let left: Vec<_> = std::fs::read_dir(place.dir.path().join("brains"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".staging"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn a_brain_travels_in_one_file_and_secrets_stop_it() {
    let (from, to) = (Place::new(), Place::new());
    from.done(&["init", "1"]);
    let file = from.path("brain.herm");
    from.refused(&["export", "1", &file], 3, "no key for snapshots");
    from.done(&["export", "1", &file, "--plaintext"]);
    from.refused(&["export", "1", &file, "--plaintext"], 5, "already exists");
    let key = from.done(&["receipts", "key"])["key"].as_str().unwrap().to_owned();
    to.refused(&["import", &file, "--plaintext"], 3, "no key here whose receipts would count");
    to.done(&["import", &file, "--plaintext", "--key", &key]);
    to.done(&["brain", "verify", "1"]);
    let hash = |place: &Place| place.done(&["brain", "show", "1"])["brain"]["lock"]["bundleHash"].clone();
    assert_eq!(hash(&from), hash(&to));

    let secret = format!("the key is sk-ant-{}", "a1B2".repeat(8));
    std::fs::write(from.dir.path().join("brains/1/USER.md"), format!("- {secret}\n")).unwrap();
    from.done(&["brain", "adopt", "1"]);
    let second = from.path("second.herm");
    from.done(&["export", "1", &second, "--plaintext"]);
    let third = Place::new();
    let import = ["import", second.as_str(), "--plaintext", "--key", key.as_str()];
    let run = third.refused(&import, 3, "the file holds an API key");
    assert!(run.stderr.contains("--allow-secrets") && !run.stderr.contains("sk-ant"), "{run:?}");
    assert!(!third.dir.path().join("brains/1").exists());
    let mut allowed = import.to_vec();
    allowed.push("--allow-secrets");
    third.done(&allowed);

    let mut damaged = std::fs::read(&file).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(from.path("damaged.herm"), &damaged).unwrap();
    let fourth = Place::new();
    let run = fourth.herm().run(&["import", &from.path("damaged.herm"), "--plaintext", "--key", &key]);
    assert_eq!(run.code, 7, "{run:?}");
    for cut in [0, 5, 40, middle] {
        std::fs::write(from.path("cut.herm"), &damaged[..cut]).unwrap();
        let run = fourth.herm().run(&["import", &from.path("cut.herm"), "--plaintext", "--key", &key]);
        assert_eq!(run.code, 7, "{run:?}");
    }
}

#[test]
fn another_key_wraps_what_the_first_one_did() {
    let place = Place::new();
    place.done(&["init", "1"]);
    place.done(&["snapshot", "key", "--create"]);
    place.done(&["snapshot", "create", "1"]);
    let config = place.path("config.toml");
    std::fs::write(&config, format!("[snapshot]\nkey = {:?}\n", place.path("second.key"))).unwrap();
    place.done(&["--config", &config, "snapshot", "key", "--create"]);
    place.refused(&["--config", &config, "snapshot", "show", "1"], 3, "wrapped by operator key");
    place.done(&["snapshot", "key", "--rotate-to", &place.path("second.key"), "--brain", "1"]);
    place.done(&["--config", &config, "snapshot", "show", "1"]);
    place.refused(&["snapshot", "show", "1"], 3, "wrapped by operator key");
}

#[test]
fn a_store_may_be_named_by_a_file_address() {
    let place = Place::new();
    place.done(&["init", "1"]);
    let config = place.path("herm.toml");
    let named = |store: &str| {
        std::fs::write(&config, format!("[snapshot]\nplaintext = true\nstore = \"{store}\"\n")).unwrap();
        place.herm().config(config.as_ref()).run(&["snapshot", "create", "1"])
    };
    for store in [format!("file://{}", place.path("a")), format!("file://localhost{}%20b", place.path("a"))] {
        let run = named(&store);
        assert_eq!(run.code, 0, "{run:?}");
    }
    assert!(place.dir.path().join("a/brains/1/head").is_dir() && place.dir.path().join("a b/brains/1/head").is_dir());
    for bad in ["file://a/b", "file:a", "file:///a?b", "file:///%zz"] {
        let run = named(bad);
        assert!(run.code == 2 && run.stderr.contains("names no directory"), "{run:?}");
    }
}
