//! The page in a real browser: headless Chromium, driven by the tests in `tests/page`.

use std::path::{Path, PathBuf};
use std::process::Command;

use herm_tests::generate;
use serde_json::json;

use crate::{answering, operator, run, vault};

/// The tests of the page and the browser they run in; `None` where something is missing.
fn browser(test: &str) -> Option<(PathBuf, PathBuf)> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let browser = PathBuf::from(std::env::var_os("HERM_PAGE_BROWSER").unwrap_or_else(|| "/usr/bin/chromium".into()));
    let missing = [
        !tests.join("node_modules/playwright-core").is_dir(),
        !browser.is_file(),
        Command::new("node").arg("--version").output().is_err(),
    ];
    if missing.contains(&true) {
        let get =
            "apt-get install chromium nodejs npm, then npm ci --prefix tests/page (HERM_PAGE_BROWSER names another)";
        herm_untested::not_run(test, "Chromium, Node.js and playwright-core", get);
        return None;
    }
    Some((tests, browser))
}

/// Nothing is answered by the test: a real brain, a real server, a real browser.
#[test]
fn five_thousand_skills_of_a_real_brain_are_shown_in_a_browser() {
    let Some((tests, browser)) = browser("five thousand skills in a browser") else { return };
    let operator = operator();
    let source = operator.path().join("source");
    std::fs::create_dir_all(&source).unwrap();
    generate::write_bundle(&source, 5_000);
    let made = operator.herm().run(&["init", "5", "--from", source.to_str().unwrap()]);
    assert_eq!(made.code, 0, "{made:?}");
    let serving = operator.serve();
    let output = Command::new("node")
        .args(["--test", "--test-reporter=tap", "large.test.mjs"])
        .current_dir(&tests)
        .env("HERM_PAGE_URL", format!("http://{}", serving.address()))
        .env("HERM_PAGE_BROWSER", &browser)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", operator.logged());
    assert!(said.contains("# painted: ") && said.contains("# fail 0"), "{said}");
}

#[test]
fn the_page_works_in_a_browser() {
    let Some((tests, browser)) = browser("the page in a browser") else { return };
    let operator = operator();
    let key = operator.key(&["page", "--operations", "operate", "--rate", "1000000"]);
    let serving = operator.serve();
    let client = serving.client().key(&key);
    for number in 0..3 {
        assert_eq!(run(&client, "1", &format!("{}// {number}\n", vault())).status, 200);
    }
    // Something that waits for a person.
    assert!(serving.stop().success());
    crate::recurring_failures(&operator);
    let serving = operator.serve();
    let client = serving.client().key(&key);
    assert_eq!(client.post("/v1/agents/1/evolve", &json!({})).status, 200);
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&shots).unwrap();
    let output = Command::new("node")
        .args(["--test", "--test-reporter=tap", "page.test.mjs"])
        .current_dir(&tests)
        .env("HERM_PAGE_URL", format!("http://{}", serving.address()))
        .env("HERM_PAGE_KEY", key)
        .env("HERM_PAGE_SHOTS", &shots)
        .env("HERM_PAGE_BROWSER", &browser)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", operator.logged());
    assert!(std::fs::read_dir(&shots).unwrap().count() > 10, "screenshots are kept");
    assert!(said.contains("# fail 0") && !said.contains("# pass 0"), "{said}");
}

/// The agent's trials are real: a skill that helps, one that hurts, one that is not decided and one that nothing is known of.
#[test]
fn the_learning_tab_shows_where_every_skill_stands_in_a_browser() {
    let Some((tests, browser)) = browser("the learning tab in a browser") else { return };
    let operator = answering(r#"{"done":1}"#);
    crate::with_brain(&operator, "7", |brain| {
        herm_tests::learned::every_state(brain);
        herm_tests::learned::example(brain, "cellar", "cellar-0", "Where is the lamp?");
    });
    let serving = operator.serve();
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&shots).unwrap();
    let output = Command::new("node")
        .args(["--test", "--test-reporter=tap", "learning.test.mjs"])
        .current_dir(&tests)
        .env("HERM_PAGE_URL", format!("http://{}", serving.address()))
        .env("HERM_PAGE_SHOTS", &shots)
        .env("HERM_PAGE_BROWSER", &browser)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", operator.logged());
    assert!(said.contains("# fail 0") && !said.contains("# pass 0"), "{said}");
    assert!(shots.join("learned-light.png").is_file() && shots.join("learned-dark.png").is_file());
}
