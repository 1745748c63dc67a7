//! herm as an MCP server, with the public Python client.

use std::path::{Path, PathBuf};
use std::process::Command;

use herm_tests::model_server::{ModelServer, Step};
use herm_tests::operator::Operator;

const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");

#[test]
fn the_public_mcp_client_runs_tasks_recalls_and_verifies_over_http_and_stdio() {
    let python = std::env::var_os("HERM_PYTHON").map(PathBuf::from);
    let has = |python: &PathBuf| {
        Command::new(python).args(["-c", "import mcp"]).output().is_ok_and(|run| run.status.success())
    };
    let Some(python) = python.filter(has) else {
        assert!(std::env::var_os("HERM_CI").is_none(), "mcp is needed in the Python of HERM_PYTHON");
        eprintln!("NOT RUN: set HERM_PYTHON to a Python that has mcp");
        return;
    };
    let model = ModelServer::always(Step::chat(r#"{"done":"yes"}"#));
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n",
        model.url()
    );
    let operator = Operator::new(HERM).configured(&config).with_plain_brain("7").with_plain_brain("8");
    let key = operator.key(&["mcp", "--agents", "7"]);
    let serving = operator.serve();
    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mcp_client.py"))
        .args([&format!("http://{}/mcp", serving.address()), &key, HERM])
        .env("HERM_BRAINS", operator.brains())
        .env("HERM_CONFIG", operator.path().join("config.toml"))
        .env("HOME", operator.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", operator.logged());
    assert!(said.contains("17 checks passed"), "{said}");
    // Without a key nothing is even listed.
    assert_eq!(serving.client().post("/mcp", &serde_json::json!({})).status, 401);
}
