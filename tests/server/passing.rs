//! What the machine lacks for a moment, room on the disk or descriptors: every task that was accepted is done all the same,
//! once, and without a restart.

use std::path::PathBuf;
use std::process::Command;

use herm_tests::http::Client;
use herm_tests::model_server::{Gate, ModelServer, Step};
use herm_tests::operator::{Operator, Serving};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::{run, until, with_model_and};

const DONE: &str = r#"{"done":1}"#;
const AGENTS: [&str; 4] = ["7", "8", "9", "10"];

/// A small disk of its own for the brains of an operator.
struct Disk(PathBuf);

impl Disk {
    fn mount(place: PathBuf) -> Result<Self, String> {
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "none"]).arg(&place).output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Self(place)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn filler(&self) -> PathBuf {
        self.0.join(".filler")
    }

    /// Fills it to the last byte.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.filler()).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while file.write(&vec![0; size]).is_ok_and(|written| written > 0) {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Where the file system of an operator's brains is mounted, before anything is in it.
fn on_small_disk(model: &ModelServer) -> Result<(Disk, Operator), String> {
    let operator = crate::operator();
    let disk = Disk::mount(operator.brains())?;
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n",
        model.url()
    );
    let operator = AGENTS.iter().fold(operator.configured(&config), |operator, agent| operator.with_plain_brain(agent));
    Ok((disk, operator))
}

fn accept(client: &Client, each: usize) -> Vec<String> {
    let later = client.with("prefer", "respond-async");
    let mut names = Vec::new();
    for number in 0..each {
        for agent in AGENTS {
            let accepted = run(&later, agent, &format!("task {number}"));
            assert_eq!(accepted.status, 202, "{accepted:?}");
            names.push(accepted.json()["task"].as_str().unwrap().to_owned());
        }
    }
    names
}

/// Every task is done, and each has one step.
fn all_done(operator: &Operator, serving: Serving, names: &[String], each: usize) {
    let client = serving.client();
    for name in names {
        let view = crate::over(&client, name);
        assert_eq!((&view["state"], &view["outcome"]["answer"]), (&json!("done"), &json!(DONE)), "{view}");
    }
    for agent in AGENTS {
        assert_eq!(
            client.get(&format!("/v1/agents/{agent}/receipts")).json()["last"],
            json!(1 + each),
            "agent {agent}"
        );
    }
    // The server database says so too, without a restart.
    until("nothing left to write down", || {
        let book = rusqlite::Connection::open(operator.brains().join(".operator/book.db")).unwrap();
        book.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        let left: i64 =
            book.query_row("SELECT count(*) FROM tasks WHERE finished_at IS NULL", [], |row| row.get(0)).unwrap();
        (left == 0).then_some(())
    });
    assert!(serving.stop().success());
    for agent in AGENTS {
        let verified = operator.herm().run(&["receipts", "verify", agent]);
        assert_eq!(verified.code, 0, "{verified:?}");
    }
}

#[test]
fn tasks_that_were_accepted_are_done_after_the_disk_was_full_for_a_while() {
    let gate = Gate::default();
    let model = ModelServer::always(Step::chat(DONE).after(&gate));
    let (disk, operator) = match on_small_disk(&model) {
        Ok(made) => made,
        Err(why) => {
            let test = "tasks_that_were_accepted_are_done_after_the_disk_was_full_for_a_while";
            herm_untested::not_run(test, "the right to mount a tmpfs", &format!("run it as root: {}", why.trim()));
            return;
        }
    };
    let serving = operator.serve();
    let names = accept(&serving.client(), 20);
    until("all agents at work", || (model.requests().len() == AGENTS.len()).then_some(()));
    disk.fill();
    gate.open();
    // Neither the brains nor the server database can be written.
    until("a step that is not settled", || operator.logged().contains("trying again").then_some(()));
    disk.free();
    all_done(&operator, serving, &names, 20);
    assert_eq!(model.requests().len(), names.len(), "what the model said is not asked for again");
}

#[test]
fn tasks_that_were_accepted_are_done_after_the_process_was_out_of_descriptors() {
    let gate = Gate::default();
    let model = ModelServer::always(Step::chat(DONE).after(&gate));
    // One at a time, so that the other brains are not open yet.
    let operator = with_model_and(&model, "[serve]\nrunning = 1");
    let operator = AGENTS[1..].iter().fold(operator, |operator, agent| operator.with_plain_brain(agent));
    let serving = operator.serve();
    let names = accept(&serving.client(), 3);
    until("one at work", || (model.requests().len() == 1).then_some(()));
    let pid = Pid::from_raw(i32::try_from(serving.pid()).unwrap());
    let limit = |current| Rlimit { current: Some(current), maximum: Some(1_024) };
    // What is open stays open; nothing can be opened.
    prlimit(pid, Resource::Nofile, limit(8)).unwrap();
    gate.open();
    until("a brain that cannot be opened", || operator.logged().contains("it is asked again").then_some(()));
    prlimit(pid, Resource::Nofile, limit(1_024)).unwrap();
    all_done(&operator, serving, &names, 3);
}

#[test]
fn a_shortage_that_lasts_longer_than_its_deadline_makes_no_accepted_task_late() {
    let gate = Gate::default();
    let model = ModelServer::always(Step::chat(DONE).after(&gate));
    let operator = with_model_and(&model, "[serve]\nrunning = 1").with_plain_brain("8");
    let serving = operator.serve();
    let later = serving.client().with("prefer", "respond-async");
    let first = run(&later, "7", "go");
    until("one at work", || (model.requests().len() == 1).then_some(()));
    let asked = json!({ "input": "go", "limits": { "deadlineSecs": 4 } });
    let second = later.post("/v1/agents/8/tasks", &asked);
    assert_eq!((first.status, second.status), (202, 202), "{second:?}");
    let pid = Pid::from_raw(i32::try_from(serving.pid()).unwrap());
    let limit = |current| Rlimit { current: Some(current), maximum: Some(1_024) };
    prlimit(pid, Resource::Nofile, limit(8)).unwrap();
    gate.open();
    until("a brain that cannot be opened", || operator.logged().contains("it is asked again").then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(6));
    prlimit(pid, Resource::Nofile, limit(1_024)).unwrap();
    let view = crate::over(&serving.client(), second.json()["task"].as_str().unwrap());
    assert_eq!((&view["state"], &view["outcome"]["answer"]), (&json!("done"), &json!(DONE)), "{view}");
}

#[test]
fn a_step_waits_for_a_brain_that_another_process_took_after_a_commit_had_failed() {
    let gate = Gate::default();
    let model = ModelServer::always(Step::chat(DONE).after(&gate));
    let (disk, operator) = match on_small_disk(&model) {
        Ok(made) => made,
        Err(why) => {
            let test = "a_step_waits_for_a_brain_that_another_process_took_after_a_commit_had_failed";
            herm_untested::not_run(test, "the right to mount a tmpfs", &format!("run it as root: {}", why.trim()));
            return;
        }
    };
    let serving = operator.serve();
    let names = accept(&serving.client(), 1);
    until("all agents at work", || (model.requests().len() == AGENTS.len()).then_some(()));
    disk.fill();
    gate.open();
    // The brain is let go while nobody knows what the disk holds.
    let file = herm::Layout::new(operator.brains()).lock_file(&AGENTS[0].parse().unwrap());
    // For a moment only, so this looks without a pause.
    let take = || herm::fsio::OsLock::acquire(&file, "the brain", std::time::Duration::ZERO).ok();
    let held = until("a brain that is let go", || (0..5_000).find_map(|_| take()));
    disk.free();
    until("a step that waits for its brain", || operator.logged().contains("is held by process").then_some(()));
    drop(held);
    all_done(&operator, serving, &names, 1);
    assert_eq!(model.requests().len(), names.len(), "what the model said is not asked for again");
}
