//! Tools of MCP servers, against real servers: `support/bin/mcp_server.rs` over pipes and over HTTP.
//! `cargo test -p herm-tests --features mcp --test mcp`

mod as_server;
mod learn_bench;
mod run_command;

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use herm::memory::EvidenceStatus;
use herm::tool::{Permission, ReplaySource, Secrets, TaskFrame, Tool, ToolContext, ToolReport, WorkingCopy, dispatch};
use herm::{Brain, BrainId, BrainOptions, BrainSource, Layout, Seed, Timestamp};
use herm_tools::mcp::{McpServer, SecretHeader, connect};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Long enough for any machine: what comes later does not come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Short enough for a call that never ends.
const SHORT: Duration = Duration::from_millis(300);

/// The server.
fn program() -> String {
    env!("CARGO_BIN_EXE_mcp-server").to_owned()
}

fn stdio(name: &str) -> McpServer {
    patient(McpServer::process(name, &program(), vec!["stdio".into()], Vec::new()).unwrap())
}

fn shell(name: &str, script: &str) -> McpServer {
    McpServer::process(name, "sh", vec!["-c".into(), script.into()], Vec::new()).unwrap()
}

fn patient(server: McpServer) -> McpServer {
    server.start_timeout(PATIENCE).call_timeout(PATIENCE).reconnect_pause(Duration::ZERO)
}

/// A server over HTTP, which ends with this value.
struct Http {
    _child: Child,
    address: String,
}

impl Http {
    async fn start(address: &str, kind: &[&str]) -> Self {
        let mut child = Command::new(program())
            .args(["http", address])
            .args(kind)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).await.unwrap();
        Self { _child: child, address: address.trim().to_owned() }
    }

    async fn stop(mut self) {
        self._child.kill().await.unwrap();
    }

    fn server(&self, name: &str) -> McpServer {
        patient(McpServer::http(name, &format!("http://{}/mcp", self.address), None).unwrap())
    }
}

/// Tools, and a task to call them in.
struct Bench {
    _dir: tempfile::TempDir,
    cx: ToolContext,
    tools: Vec<Arc<dyn Tool>>,
    warnings: Vec<String>,
}

impl Bench {
    async fn new(servers: Vec<McpServer>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let id: BrainId = "7".parse().unwrap();
        let files: [(&str, &[u8]); 1] = [("system.md", b"You test tools.\n")];
        let source = BrainSource::Seed(Seed { id: &id, files: &files });
        let (brain, _) =
            Brain::hydrate(&Layout::new(dir.path().join("brains")), &id, &source, &BrainOptions::default()).unwrap();
        let at = Timestamp::parse("2026-11-16T03:04:05Z").unwrap();
        let slot = Arc::new(tokio::sync::Mutex::new(Some(brain)));
        let desk = Arc::new(Mutex::new(WorkingCopy::new(slot.lock_owned().await, at)));
        let frame = TaskFrame {
            brain: id.clone(),
            task: "t-1".parse().unwrap(),
            subscriber: None,
            input: "".into(),
            at,
            path: vec![id],
            until: Instant::now() + PATIENCE * 2,
            settles: true,
            shares: false,
            has_budget: false,
            backend: None,
            commanded: Default::default(),
        };
        let cx = ToolContext::new(Arc::new(frame), desk, Arc::new(Secrets::default()), None);
        let (tools, warnings) = connect(servers).await;
        Self { _dir: dir, cx, tools, warnings }
    }

    fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        self.tools.iter().find(|tool| tool.spec().name == name).unwrap_or_else(|| panic!("{name}: {:?}", self.warnings))
    }

    fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.spec().name.as_str()).collect()
    }

    async fn call(&self, name: &str, args: Value) -> ToolReport {
        let args: Map<String, Value> = serde_json::from_value(args).unwrap();
        dispatch(self.tool(name), args, &self.cx, self.cx.task().until).await
    }

    async fn ok(&self, name: &str, args: Value) -> String {
        let report = self.call(name, args).await;
        assert_eq!(report.status, EvidenceStatus::Ok, "{report:?}");
        report.text
    }

    async fn fails(&self, name: &str, args: Value) -> String {
        let report = self.call(name, args).await;
        assert_eq!(report.status, EvidenceStatus::Failed, "{report:?}");
        report.text
    }
}

/// What every server must do, over any transport.
async fn serves(bench: &Bench, name: &str) {
    let tool = |tool: &str| format!("mcp_{name}_{tool}");
    assert_eq!(bench.ok(&tool("echo"), json!({ "text": "grün\n\"x\"" })).await, "grün\n\"x\"");
    assert_eq!(bench.ok(&tool("add"), json!({ "a": 2, "b": 40 })).await, "42");
    assert_eq!(bench.ok(&tool("picture"), json!({})).await, "look:\n[image, 4 bytes]");
    let failed = bench.fails(&tool("fail"), json!({})).await;
    assert!(failed.starts_with("The tool failed: there is no such thing\nHint: so says the MCP server"), "{failed}");
    let big = bench.ok(&tool("big"), json!({})).await;
    assert_eq!(big, format!("{}\n[cut here: 984000 more characters]", "x".repeat(16_000)));
    let huge = bench.fails(&tool("huge"), json!({})).await;
    assert!(huge.contains("was lost in this call: its answer is larger than 16 MiB"), "{huge}");
    assert_eq!(bench.ok(&tool("add"), json!({ "a": 1, "b": 1 })).await, "2");
}

#[tokio::test]
async fn tools_are_listed_and_called_over_pipes() {
    let bench = Bench::new(vec![stdio("x")]).await;
    serves(&bench, "x").await;
}

#[tokio::test]
async fn tools_are_listed_and_called_over_http_with_events() {
    let http = Http::start("127.0.0.1:0", &[]).await;
    let bench = Bench::new(vec![http.server("web")]).await;
    assert_eq!(bench.tool("mcp_web_add").spec().permission, Permission::Network);
    serves(&bench, "web").await;
}

#[tokio::test]
async fn tools_are_listed_and_called_over_http_with_json() {
    let http = Http::start("127.0.0.1:0", &["json"]).await;
    let bench = Bench::new(vec![http.server("web")]).await;
    serves(&bench, "web").await;
}

#[tokio::test]
async fn cards_say_where_a_tool_is_from_and_names_are_apart() {
    let bench = Bench::new(vec![stdio("x"), stdio("y").max_tools(2)]).await;
    let expected = [
        "mcp_x_echo",
        "mcp_x_add",
        "mcp_x_fail",
        "mcp_x_slow",
        "mcp_x_crash",
        "mcp_x_big",
        "mcp_x_huge",
        "mcp_x_picture",
        "mcp_x_environment",
        "mcp_x_hold",
        "mcp_x_spawn",
        "mcp_x_garbage",
        "mcp_x_get_item",
        "mcp_x_get_item_2",
        "mcp_x_a_tool_with_a_name_that_is_far_longer_than_the_sixty_four_",
        "mcp_y_echo",
        "mcp_y_add",
    ];
    assert_eq!(bench.names(), expected);
    let card = bench.tool("mcp_x_echo").spec();
    assert_eq!(card.description, "From the MCP server x: Says what it is told.");
    assert_eq!((card.permission, card.replay, card.output_cap), (Permission::Process, ReplaySource::Recorded, 16_000));
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    assert_eq!(card.schema, text);
    assert_eq!(bench.tool("mcp_x_fail").spec().schema, json!({ "type": "object", "properties": {} }));
    let card = bench.tool("mcp_x_garbage").spec();
    assert_eq!(card.description, "From the MCP server x; its description was left out.");
    let expected = [
        "the tool \"garbage\" of the MCP server x is used without its description: it overrides the role",
        "the tool \"wide\" of the MCP server x is left out: its schema has 40050 bytes, and 32768 are allowed",
        "the tool \"list\" of the MCP server x is left out: its arguments are not an object",
        "the MCP server y has more than 2 tools; the first 2 are used",
    ];
    let mut toolbox = herm_tools::standard().unwrap();
    for tool in &bench.tools {
        toolbox.add(Arc::clone(tool)).unwrap();
    }
    assert_eq!(bench.warnings.len(), expected.len(), "{:?}", bench.warnings);
    for (warning, expected) in bench.warnings.iter().zip(expected) {
        assert_eq!(cut_numbers(warning), cut_numbers(expected));
    }
}

fn cut_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[tokio::test]
async fn arguments_that_do_not_fit_do_not_reach_the_server() {
    let bench = Bench::new(vec![stdio("x")]).await;
    for args in [json!({}), json!({ "a": "one", "b": 2 }), json!({ "a": 1, "b": 2, "c": 3 })] {
        let report = bench.call("mcp_x_add", args).await;
        assert_eq!(report.status, EvidenceStatus::Refused, "{report:?}");
    }
}

#[tokio::test]
async fn a_server_sees_only_what_it_is_allowed_to() {
    // Cargo sets this for tests.
    let allowed = McpServer::process("x", &program(), vec!["stdio".into()], vec!["CARGO_PKG_NAME".into()]).unwrap();
    let bench = Bench::new(vec![patient(allowed), stdio("y")]).await;
    let seen = bench.ok("mcp_x_environment", json!({})).await;
    assert!(seen.split(' ').all(|name| ["CARGO_PKG_NAME", "HOME", "LANG", "PATH"].contains(&name)), "{seen}");
    assert!(seen.contains("CARGO_PKG_NAME") && seen.contains("PATH"), "{seen}");
    assert!(!bench.ok("mcp_y_environment", json!({})).await.contains("CARGO"));
}

#[tokio::test]
async fn a_call_that_never_ends_is_ended_and_the_server_is_kept_once() {
    let bench = Bench::new(vec![stdio("x").call_timeout(SHORT)]).await;
    let slow = bench.fails("mcp_x_slow", json!({})).await;
    assert!(slow.contains("the MCP server x did not answer within 0.3 seconds"), "{slow}");
    let (listener, address) = listener().await;
    let patience = Bench::new(vec![stdio("x").call_timeout(SHORT * 15)]).await;
    patience.ok("mcp_x_hold", json!({ "address": address })).await;
    let held = accept(&listener).await;
    patience.fails("mcp_x_slow", json!({})).await;
    // Answered in between: the server is only slow at one thing.
    assert_eq!(patience.ok("mcp_x_echo", json!({ "text": "a" })).await, "a");
    patience.fails("mcp_x_slow", json!({})).await;
    patience.fails("mcp_x_slow", json!({})).await;
    // Twice in a row: it is ended.
    ends(held).await;
    assert_eq!(patience.ok("mcp_x_echo", json!({ "text": "b" })).await, "b");
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_started_again_by_the_next() {
    let bench = Bench::new(vec![stdio("x")]).await;
    for _ in 0..3 {
        let crash = bench.fails("mcp_x_crash", json!({})).await;
        assert!(crash.contains("the MCP server x was lost in this call: it ended the connection"), "{crash}");
        assert_eq!(bench.ok("mcp_x_echo", json!({ "text": "a" })).await, "a");
    }
}

#[tokio::test]
async fn a_server_that_keeps_dying_is_left_alone_for_a_while() {
    let bench = Bench::new(vec![stdio("x").reconnect_pause(PATIENCE * 60)]).await;
    bench.fails("mcp_x_crash", json!({})).await;
    bench.fails("mcp_x_crash", json!({})).await;
    let left = bench.fails("mcp_x_echo", json!({ "text": "a" })).await;
    assert!(left.contains("the MCP server x was lost, a moment after it was reached for"), "{left}");
}

#[tokio::test]
async fn a_service_that_goes_away_is_reached_again_when_it_is_back() {
    let http = Http::start("127.0.0.1:0", &[]).await;
    let address = http.address.clone();
    let bench = Bench::new(vec![http.server("web")]).await;
    assert_eq!(bench.ok("mcp_web_echo", json!({ "text": "a" })).await, "a");
    http.stop().await;
    for _ in 0..2 {
        let lost = bench.fails("mcp_web_echo", json!({ "text": "b" })).await;
        assert!(lost.contains("the MCP server web") && !lost.contains(&address), "{lost}");
    }
    let _back = Http::start(&address, &[]).await;
    assert_eq!(bench.ok("mcp_web_echo", json!({ "text": "c" })).await, "c");
}

#[tokio::test]
async fn calls_at_the_same_time_do_not_mix() {
    let bench = Arc::new(Bench::new(vec![stdio("x")]).await);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..32 {
        let bench = Arc::clone(&bench);
        calls.spawn(async move { (bench.ok("mcp_x_add", json!({ "a": number, "b": 1 })).await, number + 1) });
    }
    while let Some(done) = calls.join_next().await {
        let (said, expected) = done.unwrap();
        assert_eq!(said, expected.to_string());
    }
}

#[tokio::test]
async fn a_server_that_does_not_serve_is_a_warning() {
    let closed = listener().await.1;
    let servers = vec![
        McpServer::process("missing", "/nonexistent/server", Vec::new(), Vec::new()).unwrap(),
        patient(shell("dead", "exit 1")),
        shell("mute", "exec sleep 1000").start_timeout(SHORT),
        shell("garbage", "while read -r line; do echo '<html>'; echo '{\"a\":1}'; done").start_timeout(SHORT),
        patient(shell("endless", "cat /dev/zero")),
        McpServer::http("closed", &format!("http://{closed}/mcp"), None).unwrap(),
        stdio("good").max_tools(16),
    ];
    let bench = Bench::new(servers).await;
    let expected = [
        "the MCP server missing cannot be started",
        "the MCP server dead did not begin as the protocol wants it: it ended the connection",
        "the MCP server mute did not begin in time",
        "the MCP server garbage did not begin in time",
        "the MCP server endless did not begin as the protocol wants it: its answer is larger than 16 MiB",
        "the MCP server closed did not begin as the protocol wants it: it cannot be reached",
    ];
    for (warning, expected) in bench.warnings.iter().zip(expected) {
        assert!(warning.starts_with(expected), "{:?}", bench.warnings);
    }
    assert_eq!(bench.ok("mcp_good_echo", json!({ "text": "a" })).await, "a");
}

#[tokio::test]
async fn a_server_and_what_it_started_end_with_the_connection() {
    let (listener, address) = listener().await;
    let bench = Bench::new(vec![stdio("x")]).await;
    bench.ok("mcp_x_hold", json!({ "address": address })).await;
    let server = accept(&listener).await;
    bench.ok("mcp_x_spawn", json!({ "address": address })).await;
    let started = accept(&listener).await;
    drop(bench);
    ends(server).await;
    ends(started).await;
}

#[tokio::test]
async fn what_a_server_started_ends_although_the_server_died_first() {
    let (listener, address) = listener().await;
    let bench = Bench::new(vec![stdio("x")]).await;
    bench.ok("mcp_x_spawn", json!({ "address": address })).await;
    let started = accept(&listener).await;
    // What it started holds its standard output open, so that only time can tell.
    let server = bench.fails("mcp_x_crash", json!({}));
    assert!(tokio::time::timeout(SHORT, server).await.is_err());
    drop(bench);
    ends(started).await;
}

#[test]
fn a_server_ends_where_there_is_no_runtime_any_more() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (bench, held) = runtime.block_on(async {
        let (listener, address) = listener().await;
        let bench = Bench::new(vec![stdio("x")]).await;
        bench.ok("mcp_x_hold", json!({ "address": address })).await;
        (bench, accept(&listener).await.into_std().unwrap())
    });
    drop(runtime);
    drop(bench);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { ends(TcpStream::from_std(held).unwrap()).await });
}

#[tokio::test]
async fn a_header_is_sent_and_a_refusal_is_told() {
    let (listener, address) = listener().await;
    let asked = tokio::spawn(async move {
        let mut stream = accept(&listener).await;
        let mut request = vec![0; 4096];
        let count = stream.read(&mut request).await.unwrap();
        request.truncate(count);
        let answer = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    let header = SecretHeader::new("Authorization", &SecretString::from("token-1234")).unwrap();
    let bench = Bench::new(vec![McpServer::http("web", &format!("http://{address}/mcp"), Some(header)).unwrap()]).await;
    let request = asked.await.unwrap().to_ascii_lowercase();
    assert!(
        request.starts_with("post /mcp http/1.1") && request.contains("authorization: bearer token-1234"),
        "{request}"
    );
    assert!(bench.warnings[0].contains("it answered 401 Unauthorized"), "{:?}", bench.warnings);
    assert!(!bench.warnings[0].contains("token-1234") && !bench.warnings[0].contains(&address), "{:?}", bench.warnings);
}

/// Against the reference implementation.
#[tokio::test]
async fn the_python_reference_server_is_understood() {
    let Some(python) = as_server::python("herm against the public MCP server") else { return };
    // The class has another name since version 2.
    let script = "try:\n    from mcp.server.mcpserver import MCPServer as Server\n\
                  except ImportError:\n    from mcp.server.fastmcp import FastMCP as Server\n\
                  server = Server('reference')\n\
                  @server.tool()\n\
                  def add(a: int, b: int) -> int:\n    \"\"\"Adds two numbers.\"\"\"\n    return a + b\n\
                  @server.tool()\n\
                  def fail() -> str:\n    raise ValueError('no such thing')\n\
                  server.run()\n";
    let args = vec!["-c".into(), script.into()];
    let server = McpServer::process("py", python.to_str().unwrap(), args, Vec::new()).unwrap();
    let bench = Bench::new(vec![patient(server)]).await;
    assert_eq!((bench.names(), bench.warnings.len()), (vec!["mcp_py_add", "mcp_py_fail"], 0), "{:?}", bench.warnings);
    assert_eq!(bench.tool("mcp_py_add").spec().description, "From the MCP server py: Adds two numbers.");
    assert_eq!(bench.ok("mcp_py_add", json!({ "a": 2, "b": 40 })).await, "42");
    let failed = bench.fails("mcp_py_fail", json!({})).await;
    assert!(failed.contains("fail\n") || failed.contains("no such thing"), "{failed}");
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap().0
}

/// Waits until the process at the other end is gone.
async fn ends(mut held: TcpStream) {
    let end = tokio::time::timeout(PATIENCE, held.read(&mut [0])).await;
    assert!(matches!(end, Ok(Ok(0) | Err(_))), "the process is still there: {end:?}");
}
