//! Inline shell of skills stands behind the same walls.

use herm_tests::can_sandbox;
use herm_tests::model_server::{ModelServer, Step};

use crate::Bench;

/// A skill of brain 1, adopted, and a configuration with these lines in `[skills]`; what the model was asked.
fn asked(bench: &Bench, body: &str, lines: &str) -> String {
    let skill = format!(
        "---\nname: look-around\ndescription: Looks around. Use when someone asks.\n---\n# Look around\n\n{body}\n"
    );
    let dir = bench.brains().join("1/skills/look-around");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("SKILL.md"), skill).unwrap();
    bench.must(&["brain", "adopt", "1"]);
    let model = ModelServer::always(Step::chat(r#"{"tool":"outline","args":{}}"#));
    let config = bench.path().join("herm.toml");
    let text = format!(
        "backend = \"fake\"\n[skills]\n{lines}\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\n\
         model = \"m-1\"\nstream = false\n",
        model.url()
    );
    std::fs::write(&config, text).unwrap();
    let herm = bench.herm().clone().config(&config);
    herm.run(&["run", "1", "/look-around please", "--max-turns", "1"]);
    model.requests().first().map(|request| request.body.to_string()).unwrap_or_default()
}

#[test]
fn a_command_of_inline_shell_gets_the_time_that_is_configured() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let asked =
        asked(&bench, "One: !`sleep 600`. Two: !`expr 20 + 22`.", "inline_shell = true\ninline_shell_timeout = 1");
    assert!(asked.contains("One: [inline-shell error: it took longer than 1s and was ended]. Two: 42."), "{asked}");
    bench.assert_clean();
}

#[test]
fn inline_shell_sees_its_skill_and_not_the_host() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let key = bench.brains().join(".keys/receipts.pem");
    bench.must(&["memory", "add", "1", "a step, so that there is a key"]);
    assert!(key.exists());
    let body = format!(
        "sum: !`expr 20 + 22`\nhere: !`ls`\nthere: !`cd / && ls ${{HERM_SKILL_DIR}}`\nkey: !`cat {}`\nwrite: !`echo x > owned`\nnet: !`ls /sys/class/net 2>/dev/null | wc -l`",
        key.display()
    );
    let asked = asked(&bench, &body, "inline_shell = true");
    assert!(
        asked.contains("sum: 42") && asked.contains("here: SKILL.md") && asked.contains("there: SKILL.md"),
        "{asked}"
    );
    assert!(asked.contains("key: [inline-shell error: exit code 1") && !asked.contains("PRIVATE KEY"), "{asked}");
    assert!(asked.contains("write: [inline-shell error"), "{asked}");
    assert!(!bench.brains().join("1/skills/look-around/owned").exists());
    bench.assert_clean();
}
