//! `herm run` on a real terminal: what is shown while a task runs, and what is left when it has ended.

use herm_tests::model_server::{Gate, ModelServer, Step};
use herm_tests::terminal::{Ended, Terminal};
use herm_tests::{Herm, Run};
use serde_json::json;

use crate::{HERM, ON_TERMINAL};

const CTRL_C: &str = "\u{3}";
/// Wide enough that nothing wraps.
const WIDE: u16 = 120;

/// A directory of brains, and a model that speaks as scripted.
struct Desk {
    dir: tempfile::TempDir,
    model: ModelServer,
}

impl Desk {
    fn new(steps: Vec<Step>) -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), model: ModelServer::start(steps) }
    }

    /// Runs a command without a terminal.
    fn herm(&self, arguments: &[&str]) -> Run {
        Herm::new(HERM, &self.dir.path().join("brains")).run(arguments)
    }

    /// Starts a task of a brain on a terminal of this kind.
    fn task(&self, id: &str, flags: &[&str], kind: Option<&str>, columns: u16) -> Terminal {
        let herm = Herm::new(ON_TERMINAL, &self.dir.path().join("brains"));
        let mut arguments = vec![HERM];
        arguments.extend(flags);
        arguments.extend(["run", id, "contract A {}", "--backend", "openai", "--model", "m"]);
        let mut command = herm.command(&arguments);
        command.env("OPENAI_BASE_URL", format!("{}/v1", self.model.url()));
        if let Some(kind) = kind {
            command.env("TERM", kind);
        }
        Terminal::start(command, columns)
    }

    /// The brain is whole, its receipts hold, and the last of them is that of a task.
    fn is_settled(&self, id: &str) {
        for arguments in [["brain", "verify", id], ["receipts", "verify", id]] {
            let run = self.herm(&arguments);
            assert_eq!(run.code, 0, "{run:?}");
        }
        let history = self.herm(&["brain", "history", id]);
        assert!(history.stdout.contains("task"), "{history:?}");
    }
}

/// The terminal as the program left it, with every duration as `#`.
fn left(ended: &Ended) -> Vec<String> {
    let timeless = |row: &String| match row.split_once(" ms)").and_then(|(row, _)| row.rsplit_once('(')) {
        Some((row, _)) => format!("{row}(# ms)"),
        None => row.clone(),
    };
    ended.screen.iter().map(timeless).collect()
}

#[test]
fn a_terminal_shows_what_happens_and_keeps_nothing_of_the_spinner() {
    let (first, second) = (Gate::default(), Gate::default());
    let desk = Desk::new(vec![
        Step::chat(r#"{"tool": "outline", "args": {}}"#).after(&first),
        Step::chat(r#"{"summary": "seen", "findings": [], "checked": [], "limits": []}"#).after(&second),
    ]);
    let terminal = desk.task("1", &[], Some("xterm"), WIDE);
    terminal.wait_for(&["brain 1 · version 1 · openai"]);
    terminal.wait_for(&["turn 1 of 8", " s"]);
    first.open();
    terminal.wait_for(&["1 ✓ outline · ", " ms)"]);
    terminal.wait_for(&["turn 2 of 8", " s"]);
    second.open();
    let ended = terminal.end();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "{\"summary\": \"seen\", \"findings\": [], \"checked\": [], \"limits\": []}\n"),
        "{ended:#?}"
    );
    let expected = [
        "brain 1 · version 1 · openai",
        "  1 ✓ outline · Solidity: 1 line, 13 characters, 1 place (# ms)",
        "converged · 2 turns, 1 calls · m-1",
        "brain 1 is now version 2 · receipt signed: look with `herm receipts verify 1`",
    ];
    assert_eq!(left(&ended), expected, "{ended:#?}");
    assert!(ended.shows_cursor && ended.is_restored, "{ended:#?}");
    assert!(!ended.written.contains("seen"), "the answer is on standard output alone: {ended:#?}");
}

#[test]
fn ctrl_c_during_a_reply_cancels_the_task() {
    let desk = Desk::new(vec![Step::never()]);
    let mut terminal = desk.task("1", &[], Some("xterm"), WIDE);
    terminal.wait_for(&["turn 1 of 8"]);
    terminal.types(CTRL_C);
    let ended = terminal.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:#?}");
    let expected = [
        "brain 1 · version 1 · openai",
        "failed: the caller cancelled the task",
        "failed · 0 turns, 0 calls · nobody",
        "brain 1 is now version 2 · receipt signed: look with `herm receipts verify 1`",
    ];
    assert_eq!(left(&ended), expected, "{ended:#?}");
    assert!(ended.shows_cursor && ended.is_restored, "{ended:#?}");
    desk.is_settled("1");
}

#[test]
fn ctrl_c_during_a_call_on_a_narrow_terminal_leaves_nothing_of_the_spinner() {
    // The agent that is asked gets no reply, so the call does not end.
    let call = json!({ "tool": "ask_agent", "args": { "agent": "2", "input": "What do you see?" } });
    let desk = Desk::new(vec![Step::chat(&call.to_string()), Step::never()]);
    let role = desk.dir.path().join("role");
    std::fs::create_dir(&role).expect("made");
    std::fs::write(role.join("system.md"), "You ask others.\n").expect("written");
    assert_eq!(desk.herm(&["init", "7", "--from", role.to_str().expect("UTF-8")]).code, 0);
    assert_eq!(desk.herm(&["init", "2"]).code, 0);
    let mut terminal = desk.task("7", &[], Some("xterm"), 24);
    terminal.wait_for(&["calling ask_agent"]);
    terminal.types(CTRL_C);
    let ended = terminal.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:#?}");
    let expected = [
        "brain 7 · version 1 · op",
        "enai",
        "failed: the caller cance",
        "lled the task",
        "failed · 1 turns, 0 call",
        "s · m-1",
        "brain 7 is now version 2",
        " · receipt signed: look",
        "with `herm receipts veri",
        "fy 7`",
    ];
    assert_eq!(left(&ended), expected, "{ended:#?}");
    assert!(ended.shows_cursor && ended.is_restored, "{ended:#?}");
    desk.is_settled("7");
}

#[test]
fn the_log_and_the_spinner_do_not_mix() {
    let gate = Gate::default();
    let busy = || Step::json(503, json!({ "error": { "message": "busy" } })).header("retry-after", "0");
    let desk = Desk::new(vec![
        busy().after(&gate),
        Step::chat(r#"{"tool": "outline", "args": {}}"#),
        Step::chat(r#"{"summary": "seen", "findings": [], "checked": [], "limits": []}"#),
    ]);
    let terminal = desk.task("1", &["-v"], Some("xterm"), WIDE);
    terminal.wait_for(&["turn 1 of 8"]);
    gate.open();
    let ended = terminal.end();
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert!(ended.screen.iter().any(|row| row.starts_with(" INFO")), "{ended:#?}");
    assert!(!ended.screen.iter().any(|row| row.contains("turn 1 of 8")), "{ended:#?}");
}

#[test]
fn a_terminal_that_cannot_erase_gets_plain_lines() {
    for kind in [None, Some("dumb")] {
        let desk = Desk::new(vec![
            Step::chat(r#"{"tool": "outline", "args": {}}"#),
            Step::chat(r#"{"summary": "seen", "findings": [], "checked": [], "limits": []}"#),
        ]);
        let ended = desk.task("1", &[], kind, WIDE).end();
        let expected = [
            "brain 1 · version 1 · openai",
            "  1 ✓ outline · Solidity: 1 line, 13 characters, 1 place (# ms)",
            "converged · 2 turns, 1 calls · m-1",
            "brain 1 is now version 2 · receipt signed: look with `herm receipts verify 1`",
        ];
        assert_eq!(left(&ended), expected, "{ended:#?}");
        assert!(!ended.written.contains('\u{1b}'), "{ended:#?}");
    }
}
