//! A stranger with Python and the pages alone gets the same bytes: the programs in `tests/data` import nothing of herm.

use std::path::{Path, PathBuf};
use std::process::Command;

use herm_tests::{Herm, TempBrains};

use crate::{HERM, first_edition};

/// The Python of the test environment, if it has these packages; under CI it must.
fn python_with(packages: &str, test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("HERM_PYTHON").map(PathBuf::from);
    let has = |python: &PathBuf| {
        Command::new(python).args(["-c", &format!("import {packages}")]).output().is_ok_and(|run| run.status.success())
    };
    let python = python.filter(has);
    if python.is_none() {
        let get = format!("pip install {}, and HERM_PYTHON names that Python", packages.replace(',', ""));
        herm_untested::not_run(test, &format!("Python with {packages}"), &get);
    }
    python
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

/// Runs a program of `tests/data`; whether it ended well, and what it said.
fn ran(python: &Path, program: &str, arguments: &[&Path]) -> (bool, String) {
    let run = Command::new(python).arg(data(program)).args(arguments).output().expect("Python starts");
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    (run.status.success(), said)
}

/// A brain that has run tasks, and one of the first edition.
fn brains() -> (TempBrains, herm_tests::operator::Operator) {
    let made = TempBrains::new();
    let herm = Herm::new(HERM, &made.path());
    for arguments in
        [&["init", "1"][..], &["run", "1", "--example", "vault"], &["memory", "add", "1", "it holds ether"]]
    {
        let run = herm.run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {run:?}");
    }
    (made, first_edition::operator())
}

#[test]
fn a_stranger_computes_the_bundle_hash_of_a_brain() {
    let Some(python) = python_with("blake3", "a stranger computes the bundle hash of a brain") else { return };
    let (ended, said) = ran(&python, "bundle_hash.py", &[Path::new("--vectors"), &data("bundle_vectors.json")]);
    assert!(ended && !said.contains("DIFFERS"), "{said}");
    let (made, first) = brains();
    for brain in [made.file("1", ""), first.brains().join("1")] {
        let (ended, said) = ran(&python, "bundle_hash.py", &[&brain]);
        let lock = std::fs::read_to_string(brain.join("bundle.lock.json")).expect("a lock");
        let root = said.lines().find_map(|line| line.strip_suffix(" root ok")).unwrap_or_else(|| panic!("{said}"));
        assert!(ended && lock.contains(root), "{said}");
        std::fs::write(brain.join("system.md"), "Another role.\n").expect("changed");
        let (ended, said) = ran(&python, "bundle_hash.py", &[&brain]);
        assert!(!ended && said.contains(" root DIFFERS") && said.contains(" system DIFFERS"), "{said}");
    }
}

#[test]
fn a_stranger_reads_every_row_of_an_export() {
    let Some(python) = python_with("blake3, zstandard", "a stranger reads every row of an export") else { return };
    let (made, first) = brains();
    for herm in [Herm::new(HERM, &made.path()), first.herm()] {
        let file = made.path().join("export.herm");
        let _ = std::fs::remove_file(&file);
        let run = herm.run(&["export", "1", file.to_str().expect("UTF-8"), "--plaintext"]);
        assert_eq!(run.code, 0, "{run:?}");
        let version = &herm.json(&["brain", "show", "1"]).1["brain"]["lock"]["version"];
        let (ended, said) = ran(&python, "read_snapshot.py", &[&file]);
        assert!(ended && said.starts_with(&format!("brain 1, version {version}: ")), "{said}");
        // A byte of the content is another: the digests say so.
        let mut bytes = std::fs::read(&file).expect("an export");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&file, bytes).expect("changed");
        let (ended, said) = ran(&python, "read_snapshot.py", &[&file]);
        assert!(!ended, "{said}");
    }
}
