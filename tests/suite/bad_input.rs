//! Bad input gets a clear sentence and the right exit code, and the brain is unchanged.

use std::path::Path;
use std::process::Command;

use herm_tests::{Herm, Run, TempBrains};
use herm_untested::not_run;

use crate::HERM;

struct Case {
    brains: TempBrains,
    herm: Herm,
    /// The lock of brain 1 as it was made.
    lock: Vec<u8>,
}

impl Case {
    /// Brain 1 from its seed.
    fn new() -> Self {
        let brains = TempBrains::new();
        let herm = Herm::new(HERM, &brains.path());
        assert_eq!(herm.run(&["init", "1"]).code, 0);
        let lock = std::fs::read(brains.file("1", "bundle.lock.json")).expect("a lock");
        Self { brains, herm, lock }
    }

    /// Runs a command that must fail with `code`, a sentence that says `sentence`, and a hint.
    fn refuses(&self, arguments: &[&str], code: i32, sentence: &str) -> Run {
        let run = self.herm.run(arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run:?}");
        assert!(run.stderr.starts_with("error: "), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(sentence), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains("\n  hint: "), "no next step: {arguments:?}: {run:?}");
        run
    }

    fn is_unchanged(&self) {
        let run = self.herm.run(&["brain", "verify", "1"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(std::fs::read(self.brains.file("1", "bundle.lock.json")).expect("a lock"), self.lock);
    }
}

#[test]
fn numbers_that_are_no_token_ids() {
    let case = Case::new();
    let long = "9".repeat(79);
    for (id, rule) in [
        ("../1", "not a digit"),
        ("01", "starts with a zero"),
        (long.as_str(), "more than 78 digits"),
        ("1/../1", "not a digit"),
        ("", "is empty"),
        ("１", "not a digit"),
    ] {
        let run = case.refuses(&["brain", "show", id], 2, rule);
        assert!(run.stderr.contains("hint: a token id is a decimal number"), "{run:?}");
        case.refuses(&["init", id], 2, rule);
    }
    assert_eq!(case.herm.run(&["brain", "show", "-1"]).code, 2);
    assert_eq!(case.herm.run(&["brain", "show", "--", "-1"]).code, 2);
    case.refuses(&["brain", "show", "404"], 4, "there is no brain 404");
    case.refuses(&["init", "404"], 4, "there is no seed 404");
    case.is_unchanged();
}

#[test]
fn a_brain_that_is_a_link_or_a_file() {
    let case = Case::new();
    let path = case.brains.path();
    std::os::unix::fs::symlink(path.join("1"), path.join("2")).expect("linked");
    std::fs::write(path.join("3"), "a file").expect("written");
    for command in [&["brain", "show", "2"][..], &["skills", "pin", "2", "oracle-review"], &["brain", "verify", "2"]] {
        case.refuses(command, 3, "is a symbolic link");
    }
    case.refuses(&["brain", "show", "3"], 3, "not a directory");
    case.refuses(&["init", "2"], 3, "is a symbolic link");
    case.is_unchanged();
}

#[test]
fn a_lock_of_another_version() {
    let case = Case::new();
    let path = case.brains.file("1", "bundle.lock.json");
    let lock = std::fs::read_to_string(&path).expect("a lock");
    std::fs::write(&path, lock.replace("herm/lock@1", "herm/lock@2")).expect("written");
    case.refuses(&["skills", "pin", "1", "oracle-review"], 7, "has the format \"herm/lock@2\"");
    std::fs::write(&path, lock).expect("written");
    case.is_unchanged();
}

#[test]
fn a_database_that_cannot_be_used() {
    let case = Case::new();
    let path = case.brains.file("1", "memory.db");
    let good = std::fs::read(&path).expect("memory.db");
    let bad: [(&str, Vec<u8>); 4] = [
        (
            "is not a SQLite database",
            b"not a database, but long enough to have a header of one hundred bytes, which takes a few more words"
                .to_vec(),
        ),
        ("is not a SQLite database", Vec::new()),
        ("is cut short", good[..good.len() / 2].to_vec()),
        ("has schema 99", {
            let mut newer = good.clone();
            newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
            newer
        }),
    ];
    for (sentence, bytes) in bad {
        std::fs::write(&path, &bytes).expect("written");
        for command in
            [&["brain", "show", "1"][..], &["memory", "search", "1", "x"], &["skills", "pin", "1", "oracle-review"]]
        {
            case.refuses(command, 7, sentence);
        }
        assert_eq!(std::fs::read(&path).expect("memory.db"), bytes, "{sentence}: nothing was written");
    }
    std::fs::remove_file(&path).expect("removed");
    case.refuses(&["brain", "show", "1"], 7, "has no memory.db");
    let list = case.herm.run(&["brain", "list"]);
    assert!(list.code == 0 && list.stdout.contains("has no memory.db"), "{list:?}");
    std::fs::write(&path, &good).expect("written");
    case.is_unchanged();
}

#[test]
fn a_foreign_sqlite_file() {
    let case = Case::new();
    let path = case.brains.file("1", "memory.db");
    std::fs::remove_file(&path).expect("removed");
    let connection = rusqlite::Connection::open(&path).expect("opened");
    connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1);").expect("made");
    drop(connection);
    case.refuses(&["brain", "show", "1"], 7, "not a herm memory");
}

/// A skill tree with too many entries, or too deep.
#[test]
fn trees_without_end() {
    let case = Case::new();
    let wide = case.brains.path().join("wide");
    std::fs::create_dir_all(wide.join("skills")).expect("a directory");
    std::fs::write(wide.join("system.md"), "x").expect("written");
    for n in 0..100_000 {
        std::fs::File::create(wide.join(format!("skills/s{n}.md"))).expect("a file");
    }
    let text = wide.to_str().expect("UTF-8");
    case.refuses(&["init", "7", "--from", text], 2, "more than 50000 files and directories");
    case.refuses(&["skills", "validate", text], 2, "more than 50000 files and directories");
    assert!(!case.brains.path().join("7").exists());

    let deep = case.brains.path().join("deep");
    let mut at = deep.join("skills");
    for _ in 0..300 {
        at.push("d");
    }
    std::fs::create_dir_all(&at).expect("directories");
    std::fs::write(deep.join("system.md"), "x").expect("written");
    std::fs::write(at.join("SKILL.md"), "x").expect("written");
    case.refuses(&["init", "8", "--from", deep.to_str().expect("UTF-8")], 2, "more than 32 levels deep");
    case.refuses(&["skills", "validate", deep.to_str().expect("UTF-8")], 2, "more than 32 levels deep");

    // Inside a brain: nothing settles, and taking the tree away heals it.
    let skills = case.brains.file("1", "skills");
    std::fs::create_dir_all(skills.join(["d"; 60].join("/"))).expect("directories");
    case.refuses(&["skills", "pin", "1", "oracle-review"], 2, "levels deep");
    std::fs::remove_dir_all(skills.join("d")).expect("removed");
    case.is_unchanged();
}

/// Other users and small file systems take root.
const AS_ROOT: &str = "run the tests as root";

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

/// Runs a command as another user, so that permissions bind it.
fn as_nobody(herm: &Herm, arguments: &[&str]) -> Run {
    let plain = herm.command(arguments);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        command.env(name, value.expect("a value"));
    }
    let output = command.output().expect("setpriv starts");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_brain_without_permission() {
    if !is_root() {
        return not_run("a brain without permission", "root", AS_ROOT);
    }
    let case = Case::new();
    // Everyone may pass, nobody but root may write.
    let public = |path: &Path, mode: &str| {
        assert!(Command::new("chmod").arg("-R").arg(mode).arg(path).status().expect("chmod").success());
    };
    let keys = case.brains.path().join(".keys");
    public(&case.brains.path(), "a+rX,go-w");
    // A copy that another user can reach, wherever this checkout lies.
    let reachable = tempfile::tempdir().expect("a directory");
    let program = reachable.path().join("herm");
    std::fs::copy(HERM, &program).expect("copied");
    public(reachable.path(), "a+rX");
    let herm = Herm::new(&program, &case.brains.path());
    let run = as_nobody(&herm, &["skills", "pin", "1", "oracle-review"]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("permission denied") && run.stderr.contains("hint:"), "{run:?}");
    public(&case.brains.file("1", ""), "go-rwx");
    let run = as_nobody(&herm, &["brain", "show", "1"]);
    assert_eq!(run.code, 6, "{run:?}");
    // A key that others can read is refused.
    public(&keys, "go-rwx");
    case.is_unchanged();
}

/// A file system of a given size, in memory.
pub(crate) struct Small(pub(crate) tempfile::TempDir);

impl Small {
    pub(crate) fn mount(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path());
        mount.output().ok().filter(|output| output.status.success()).map(|_| Self(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_during_a_settle() {
    let Some(disk) = Small::mount("size=2m") else {
        return not_run("a full disk during a settle", "root", AS_ROOT);
    };
    let brains = disk.0.path().join("brains");
    let herm = Herm::new(HERM, &brains);
    assert_eq!(herm.run(&["init", "1"]).code, 0);
    let before = herm.json(&["brain", "show", "1"]).1["brain"]["lock"].clone();
    // Fill the disk but for a few kilobytes, then add more than fits.
    let ballast = disk.0.path().join("ballast");
    let mut size = 8_usize << 20;
    while size > 2_048 {
        let mut bytes = std::fs::read(&ballast).unwrap_or_default();
        bytes.resize(bytes.len() + size, 0);
        if std::fs::write(&ballast, &bytes).is_err() {
            bytes.truncate(bytes.len() - size);
            std::fs::write(&ballast, &bytes).expect("what fitted before fits again");
            size /= 2;
        }
    }
    let text = "x".repeat(3_000);
    let run = herm.run(&["memory", "add", "1", &text]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("disk is full") || run.stderr.contains("full"), "{run:?}");
    std::fs::remove_file(&ballast).expect("removed");
    let after = herm.json(&["brain", "show", "1"]).1["brain"]["lock"].clone();
    assert_eq!(before, after);
    assert_eq!(herm.run(&["brain", "verify", "1"]).code, 0);
    assert_eq!(herm.run(&["memory", "add", "1", &text]).code, 0, "with space it works again");
}

/// With any amount of space left, a command that says it failed has changed nothing, and one that
/// says it is done has.
#[test]
fn whatever_space_is_left_the_answer_is_true() {
    let Some(disk) = Small::mount("size=3m") else {
        return not_run("every amount of space that is left", "root", AS_ROOT);
    };
    let herm = Herm::new(HERM, &disk.0.path().join("brains"));
    assert_eq!(herm.run(&["init", "1"]).code, 0);
    let version = || herm.json(&["brain", "show", "1"]).1["brain"]["lock"]["version"].as_u64().expect("a version");
    let ballast = disk.0.path().join("ballast");
    let mut answers = std::collections::BTreeMap::new();
    for left in (0..160).step_by(4) {
        // Fill everything, then give back `left` kilobytes.
        let mut size = 4 << 20;
        while std::fs::write(&ballast, vec![0; size]).is_err() {
            size -= 4_096;
        }
        std::fs::write(&ballast, vec![0; size.saturating_sub(left * 1_024)]).expect("smaller fits");
        let text = format!("{left} {}", "x".repeat(1_500));
        let run = herm.run(&["memory", "add", "1", &text, "--fact", &format!("f{left}")]);
        std::fs::remove_file(&ballast).expect("removed");
        let said = herm.run(&["memory", "search", "1", &left.to_string(), "--limit", "50"]).stdout;
        let there = said.contains(&format!("f{left}: "));
        assert_eq!(run.code == 0, there, "{left} KB left: {run:?}");
        assert!(run.code == 0 || run.code == 6, "{run:?}");
        *answers.entry(run.code).or_insert(0) += 1;
        assert_eq!(herm.run(&["brain", "verify", "1"]).code, 0);
    }
    assert!(answers.len() == 2 && version() > 1, "both answers were seen: {answers:?}");
}

#[test]
fn a_read_only_file_system() {
    let Some(disk) = Small::mount("size=8m") else {
        return not_run("a read-only file system", "root", AS_ROOT);
    };
    let herm = Herm::new(HERM, &disk.0.path().join("brains"));
    assert_eq!(herm.run(&["init", "1"]).code, 0);
    assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(disk.0.path()).status().expect("mount").success());
    let run = herm.run(&["skills", "pin", "1", "oracle-review"]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("read-only") && run.stderr.contains("hint:"), "{run:?}");
}
