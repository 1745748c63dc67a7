//! Whole evaluations as each user that can run the operator, and in every tier of the sandbox: root and nobody, namespaces of
//! our own and bubblewrap's.

use herm_tests::can_sandbox;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::{HERM, evaluation, patch, scripted};

/// Nobody's number.
const NOBODY: u32 = 65_534;

/// Who runs the operator.
#[derive(Debug, Clone, Copy)]
struct Who(u32);

impl Who {
    /// Root needs no user namespace for its own.
    fn may_make_namespaces(self) -> bool {
        let user = self.0.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--", "unshare", "--user", "true"]);
        self.0 == 0 || command.status().is_ok_and(|status| status.success())
    }
}

/// A place that everybody can reach, with a copy of the program, for one user.
struct Ground {
    dir: tempfile::TempDir,
    who: Who,
    tier: &'static str,
}

impl Ground {
    /// Nothing where this machine cannot change users or lacks the tier; that is recorded.
    fn new(who: Who, tier: &'static str) -> Option<Self> {
        let test = std::thread::current().name().unwrap_or("tiers").to_owned();
        let dir = tempfile::tempdir().unwrap();
        if dir.path().metadata().unwrap().uid() != 0 {
            herm_untested::not_run(&test, "root", "run the tests as root");
            return None;
        }
        if tier == "bubblewrap" && Command::new("/usr/bin/bwrap").arg("--version").output().is_err() {
            herm_untested::not_run(&test, "bubblewrap", "apt-get install bubblewrap");
            return None;
        }
        if !who.may_make_namespaces() {
            herm_untested::not_run(&test, "a sandbox", "allow unprivileged user namespaces (sysctl)");
            return None;
        }
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        // By another process: a thread of this one that starts something would hold the file open, and nobody could run it.
        assert!(Command::new("cp").arg(HERM).arg(dir.path().join("herm")).status().unwrap().success());
        let ground = Self { dir, who, tier };
        std::fs::create_dir(ground.brains()).unwrap();
        std::os::unix::fs::chown(ground.brains(), Some(who.0), Some(who.0)).unwrap();
        Some(ground)
    }

    fn brains(&self) -> PathBuf {
        self.dir.path().join("brains")
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn run(&self, arguments: &[&str]) -> (i32, Value) {
        let user = self.who.0.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]).arg(self.dir.path().join("herm"));
        command.arg("--json").args(arguments).env_clear().env("HERM_BRAINS", self.brains());
        command.env("HOME", self.brains()).env("PATH", "/usr/bin:/bin").env("HERM_SANDBOX_TIER", self.tier);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let json = serde_json::from_str(&said)
            .unwrap_or_else(|error| panic!("{error}: {said} {}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code().unwrap_or(-1), json)
    }

    /// Judges, and looks whether it was this tier that stood around it.
    fn judge(&self, patch: &str, task: &str) -> Value {
        let (_, json) = self.run(&["successor", "evaluate", "1", "--patch", patch, "--task", task]);
        let walls = &json["verdict"]["walls"];
        assert_eq!(walls["tier"], self.tier, "{:?}: {:#}", self.who, json["verdict"]);
        assert!(walls["canary"].as_array().unwrap().len() >= 12, "{walls}");
        json
    }
}

fn seed(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../seed").join(name)).unwrap()
}

/// The demo; then a patch with a program, a recorded task, and a command that would like to get out.
fn whole_evaluations(who: Who, tier: &'static str) {
    let Some(ground) = Ground::new(who, tier) else { return };
    assert_eq!(ground.run(&["init", "1"]).0, 0);
    assert_eq!(ground.run(&["run", "1", "--example", "vault"]).0, 0);
    let (demo, task) = (
        ground.file("demo.json", &seed("patches/compressor.json")),
        ground.file("compress.json", &seed("evaluations/compress.json")),
    );
    assert_eq!(ground.judge(&demo, &task)["verdict"]["verdict"], "APPROVE");

    let lock = ground.brains().join("1/bundle.lock.json");
    let before = std::fs::read(&lock).unwrap();
    let script = format!(
        "test ! -e {brains} && ! echo x > /usr/x && ! echo x > /etc/x && test -w /work && test \"$(ls /sys/class/net 2>/dev/null | grep -v lo)\" = ''",
        brains = ground.brains().display()
    );
    let program = patch(json!([{
        "kind": "tool", "name": "outline",
        "executable": { "text": "#!/bin/sh\nread line\nprintf '{\"text\":\"seen by a program\"}'\n" },
    }]));
    let parts = json!([
        scripted("program", &[r#"{"tool":"outline","args":{}}"#, r#"{"summary":"seen","findings":[],"checked":[],"limits":[]}"#]),
        { "kind": "replay", "name": "before", "last": 1 },
        { "kind": "command", "name": "shell", "argv": ["/bin/sh", "-c", script] },
    ]);
    let (program, task) = (
        ground.file("program.json", program.to_string().as_bytes()),
        ground.file("task.json", evaluation(parts).to_string().as_bytes()),
    );
    let json = ground.judge(&program, &task);
    let verdict = &json["verdict"];
    assert!(verdict["reason"].is_null(), "{who:?}, {tier}: {verdict:#}");
    let checks = &verdict["checks"];
    assert_eq!(checks["patchedPassed"], checks["total"], "{who:?}, {tier}: {verdict:#}");
    let samples = std::fs::read(Path::new(json["directory"].as_str().unwrap()).join("measurements.json")).unwrap();
    let samples: Vec<Value> = serde_json::from_slice(&samples).unwrap();
    let called = samples.iter().filter(|sample| sample["part"] == "program" && sample["arm"] == "patched");
    let errors: Vec<_> = called.map(|sample| sample["metrics"]["toolErrors"].clone()).collect();
    assert_eq!(errors, [json!(0.0)], "{who:?}, {tier}");

    assert_eq!(std::fs::read(&lock).unwrap(), before, "nothing was applied");
    let left: Vec<_> = std::fs::read_dir(ground.brains().join(".successor/forks"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != ".lock")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn root_judges_in_namespaces_of_its_own() {
    if !can_sandbox() {
        return;
    }
    whole_evaluations(Who(0), "namespaces");
}

#[test]
fn root_judges_in_bubblewrap() {
    if !can_sandbox() {
        return;
    }
    whole_evaluations(Who(0), "bubblewrap");
}

#[test]
fn nobody_judges_in_namespaces_of_its_own() {
    if !can_sandbox() {
        return;
    }
    whole_evaluations(Who(NOBODY), "namespaces");
}

#[test]
fn nobody_judges_in_bubblewrap() {
    if !can_sandbox() {
        return;
    }
    whole_evaluations(Who(NOBODY), "bubblewrap");
}

#[test]
fn a_tier_that_does_not_exist_is_refused_with_a_sentence() {
    if !can_sandbox() {
        return;
    }
    let Some(ground) = Ground::new(Who(0), "castle") else { return };
    assert_eq!(ground.run(&["init", "1"]).0, 0);
    let (demo, task) = (
        ground.file("demo.json", &seed("patches/compressor.json")),
        ground.file("compress.json", &seed("evaluations/compress.json")),
    );
    let (_, json) = ground.run(&["successor", "evaluate", "1", "--patch", &demo, "--task", &task]);
    assert_eq!(json["verdict"]["reason"], "sandbox_unavailable", "{json:#}");
    let said = json["verdict"].to_string();
    assert!(said.contains("HERM_SANDBOX_TIER") && said.contains("castle"), "{said}");
}
