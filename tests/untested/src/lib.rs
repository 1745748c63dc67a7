//! Keeps a record of the tests that a machine cannot run, and sums it up at the end of a test run.
//!
//! A test that needs something the machine lacks calls [`not_run`] and returns. The record lies beside the test binaries, in a
//! directory named after the process that runs the suite (Cargo), so the test binaries of one `cargo test` share it and two
//! runs do not. The test `summary` of this package runs last and prints [`summary`].
//!
//! With `HERM_CI=1` nothing may be left out: [`not_run`] fails the test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// So many tests are named for one thing that they need; each was named when it was left out.
const MOST_NAMED: usize = 8;

/// Records that a test did not run because this machine lacks `needs`; `get` says how to get it.
///
/// # Panics
/// With `HERM_CI=1`, where every test must run.
pub fn not_run(test: &str, needs: &str, get: &str) {
    assert!(!everything_must_run(), "{test} must run here, and needs {needs}: {get}");
    left_out(test, needs, get);
}

/// The same for a test that needs what `.ci/run` does not install either: it is recorded, and never fails.
pub fn left_out(test: &str, needs: &str, get: &str) {
    // Not `eprintln!`: the test harness would capture it.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: needs {needs} ({get})");
    if let Err(error) = record(&directory(), test, needs, get) {
        let _ = writeln!(std::io::stderr(), "the summary will not list it: {error}");
    }
}

/// Whether `HERM_CI=1` says that a test which cannot run is a failure.
pub fn everything_must_run() -> bool {
    std::env::var("HERM_CI").is_ok_and(|value| value == "1")
}

/// What the test run that this process belongs to left out, for people. Empty where nothing was. Removes the records.
pub fn summary() -> String {
    let own = directory();
    let text = summarise(&own);
    // Records of runs that stopped before their summary go too.
    if let Some(all) = own.parent() {
        let _ = std::fs::remove_dir_all(all);
    }
    text
}

/// Beside the test binaries: `target/debug/untested/<the process that runs them>`.
fn directory() -> PathBuf {
    let binary = std::env::current_exe().unwrap_or_default();
    let profile = binary.parent().and_then(Path::parent).map_or_else(std::env::temp_dir, Path::to_owned);
    profile.join("untested").join(std::os::unix::process::parent_id().to_string())
}

fn record(directory: &Path, test: &str, needs: &str, get: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let line = [test, needs, get].map(|field| field.replace(['\t', '\n'], " ")).join("\t") + "\n";
    // One short write to a file opened for appending: lines of several processes do not mix.
    std::fs::OpenOptions::new().create(true).append(true).open(directory.join("records"))?.write_all(line.as_bytes())
}

fn summarise(directory: &Path) -> String {
    let records = std::fs::read_to_string(directory.join("records")).unwrap_or_default();
    let mut by_need: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for line in records.lines() {
        let mut fields = line.splitn(3, '\t');
        if let (Some(test), Some(needs), Some(get)) = (fields.next(), fields.next(), fields.next()) {
            let tests = by_need.entry((needs, get)).or_default();
            if !tests.contains(&test) {
                tests.push(test);
            }
        }
    }
    let count: usize = by_need.values().map(Vec::len).sum();
    if count == 0 {
        return String::new();
    }
    let mut text = format!("NOT RUN on this machine: {count} {}\n", plural(count, "test", "tests"));
    for ((needs, get), tests) in by_need {
        let _ = writeln!(text, "\n  needs {needs}: {get}");
        for test in tests.iter().take(MOST_NAMED) {
            let _ = writeln!(text, "    {test}");
        }
        if tests.len() > MOST_NAMED {
            let _ = writeln!(text, "    and {} more", tests.len() - MOST_NAMED);
        }
    }
    text.push_str("\nEverything else was run. `.ci/run` installs all of it on a Debian-like Linux.\n");
    text
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_listed_once_by_what_it_needs() {
        let directory = std::env::temp_dir().join(format!("herm-untested-{}", std::process::id()));
        assert_eq!(summarise(&directory), "", "nothing was left out");
        for number in 1..=10 {
            record(&directory, &format!("n{number}"), "root", "sudo").unwrap();
        }
        assert!(summarise(&directory).contains("    n8\n    and 2 more\n"), "{}", summarise(&directory));
        std::fs::remove_dir_all(&directory).unwrap();
        for (test, needs, get) in [
            ("kills", "strace", "apt-get install strace"),
            ("page\nviews", "Chromium", "apt-get install chromium"),
            ("faults", "strace", "apt-get install strace"),
            ("kills", "strace", "apt-get install strace"),
        ] {
            record(&directory, test, needs, get).unwrap();
        }
        let text = summarise(&directory);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(
            text,
            "NOT RUN on this machine: 3 tests\n\
             \n  needs Chromium: apt-get install chromium\n    page views\n\
             \n  needs strace: apt-get install strace\n    kills\n    faults\n\
             \nEverything else was run. `.ci/run` installs all of it on a Debian-like Linux.\n"
        );
    }
}
