use serde_json::{Value, json};

use super::read_record;
use crate::clock::Timestamp;
use crate::memory::{EvidenceStatus, ImportedSession};

const CHANGED: Timestamp = Timestamp(1_800_000_000_000);

fn read(value: &Value) -> ImportedSession {
    read_record(value.to_string().as_bytes(), "from-name", CHANGED).expect("a record")
}

fn call(id: Option<&str>, tool: &str, args: &str) -> Value {
    let mut call = json!({ "function": { "name": tool, "arguments": args } });
    if let Some(id) = id {
        call["id"] = json!(id);
    }
    json!({ "role": "assistant", "content": "", "tool_calls": [call] })
}

fn result(id: Option<&str>, said: &str) -> Value {
    let mut message = json!({ "role": "tool", "content": said });
    if let Some(id) = id {
        message["tool_call_id"] = json!(id);
    }
    message
}

#[test]
fn calls_turns_and_the_skills_of_a_session_are_read() {
    let session = read(&json!({
        "session_id": "demo-1", "session_start": "2026-11-15T09:00:00Z", "last_updated": "2026-11-15T09:04:00Z",
        "model": "m", "platform": "cli",
        "messages": [
            { "role": "user", "content": "check the pump" },
            call(Some("c1"), "skill_view", "{\"name\":\"pump\"}"),
            result(Some("c1"), "{\"success\":true}"),
            call(Some("c2"), "terminal", "{\"command\":\"ls\"}"),
            result(Some("c2"), "{\"exit_code\":2,\"output\":\"no\"}"),
            { "role": "assistant", "content": "pump is fine" },
        ],
    }));
    assert_eq!((session.task.as_str(), session.at.to_string().as_str()), ("demo-1", "2026-11-15T09:00:00.000Z"));
    let rows: Vec<_> = session.tools.iter().map(|row| (row.tool.as_str(), row.status, row.skills.len())).collect();
    // A call after the skill was loaded belongs to it, whatever its arguments say.
    assert_eq!(rows, [("skill_view", EvidenceStatus::Ok, 0), ("terminal", EvidenceStatus::Failed, 1)]);
    let kept: Vec<_> = session.tools.iter().flat_map(|row| &row.arguments).map(ToString::to_string).collect();
    assert_eq!(kept, [r#"{"name":"pump"}"#, r#"{"command":"ls"}"#]);
    assert_eq!(session.skills, ["pump".parse().unwrap()]);
    let turns: Vec<_> = session.turns.iter().map(|turn| (turn.asked.as_str(), turn.answered.as_str())).collect();
    assert_eq!(turns, [("check the pump", "pump is fine")]);
    assert!(session.completed);
}

#[test]
fn calls_without_ids_in_different_messages_do_not_run_together() {
    let session = read(&json!({ "messages": [
        call(None, "terminal", "{\"command\":\"a\"}"), result(None, "error: one"),
        call(None, "terminal", "{\"command\":\"a\"}"), result(None, "two"),
    ]}));
    let said: Vec<_> = session.tools.iter().map(|row| (row.summary.as_str(), row.status)).collect();
    assert_eq!(said, [("error: one", EvidenceStatus::Failed), ("two", EvidenceStatus::Ok)]);
    assert_eq!((session.task.as_str(), session.at), ("from-name", CHANGED));
}

#[test]
fn an_id_that_is_given_twice_takes_its_results_in_order() {
    let session = read(&json!({ "messages": [
        call(Some("x"), "a", "{}"), result(Some("x"), "first"),
        call(Some("x"), "b", "{}"), result(Some("x"), "second"), result(Some("y"), "nobody's"),
    ]}));
    let said: Vec<_> = session.tools.iter().map(|row| row.summary.as_str()).collect();
    assert_eq!(said, ["first", "second"]);
}

#[test]
fn a_skill_that_could_not_be_loaded_is_not_one_of_the_session() {
    let session = read(&json!({ "messages": [
        call(Some("1"), "skill_view", "{\"name\":\"gone\"}"), result(Some("1"), "{\"error\":\"no such skill\"}"),
        call(Some("2"), "run", "{\"skills\":[\"Pump Check\", 7]}"), result(Some("2"), "ran"),
    ]}));
    assert_eq!(session.skills, ["pump-check".parse().unwrap()]);
}

#[test]
fn half_a_surrogate_pair_is_mended_and_a_whole_one_kept() {
    let text = r#"{"messages":[{"role":"user","content":"\ud83d\ude00 \ud800 \\ud800 \udc00x"},{"role":"assistant","content":"ok"}]}"#;
    let session = read_record(text.as_bytes(), "n", CHANGED).expect("a record");
    assert_eq!(session.turns[0].asked, "\u{1f600} \u{fffd} \\ud800 \u{fffd}x");
}

#[test]
fn what_is_no_record_is_told_why() {
    for (bytes, why) in [
        (&b"\xff\xfe{}"[..], "not UTF-8"),
        (b"{\"messages\": [", "cut off"),
        (b"{\"messages\": 3}", "not a list"),
        (b"[1]", "not a JSON object"),
        (b"hello", "not JSON"),
        (b"", "cut off"),
    ] {
        let error = read_record(bytes, "n", CHANGED).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn numbers_that_json_cannot_hold_do_not_lose_the_session() {
    for odd in ["NaN", "-Infinity", "Infinity", "1e999", "-1E+999", "+inf", "12345678901234567890e400"] {
        let text = format!(
            r#"{{"session_id":"odd","cost":{odd},"more":[{odd}, {{"x":{odd}}}],"messages":[
                {{"role":"user","content":"say {odd} and \"{odd}\" twice"}},
                {{"role":"assistant","content":"","tool_calls":[{{"id":"1","function":{{"name":"skill_view",
                  "arguments":"{{\"name\":\"pump\",\"weight\":{odd}}}"}}}}]}},
                {{"role":"tool","tool_call_id":"1","content":"fine"}},
                {{"role":"assistant","content":"{odd}"}}]}}"#
        );
        let session = read_record(text.as_bytes(), "n", CHANGED).unwrap_or_else(|why| panic!("{odd}: {why}"));
        assert_eq!(session.task, "odd");
        assert_eq!(session.skills, ["pump".parse().unwrap()], "{odd} in the arguments");
        let said: Vec<_> = session.turns.iter().map(|turn| (turn.asked.as_str(), turn.answered.as_str())).collect();
        assert_eq!(said, [(format!("say {odd} and \"{odd}\" twice").as_str(), odd)], "strings stay as they are");
    }
    // What is not JSON for another reason is still told so.
    assert!(read_record(b"{\"messages\": [NaN, oops]}", "n", CHANGED).unwrap_err().contains("not JSON"));
    assert!(read_record(b"{\"messages\": [NaN, \"open", "n", CHANGED).unwrap_err().contains("not"));
}

#[test]
fn a_record_without_messages_is_told() {
    for bytes in [&b"{}"[..], b"{\"session_id\": \"x\"}", b"{\"messages\": null}"] {
        assert_eq!(read_record(bytes, "n", CHANGED).unwrap_err(), "it has no messages");
    }
    assert!(read_record(b"{\"messages\": []}", "n", CHANGED).is_ok());
}

#[test]
fn odd_shapes_are_read_as_far_as_they_go() {
    let session = read(&json!({ "session_start": "2026-11-15 09:00:00.25", "messages": [
        7, {}, { "role": "assistant", "tool_calls": [{}, { "name": "bare", "arguments": { "k": 1 } }, { "function": { "name": "raw", "arguments": "not json" } }] },
        result(None, "one"), result(None, "two"),
        { "role": "user", "content": [{ "type": "text", "text": "part one" }, { "type": "image" }] },
        { "role": "assistant", "content": { "some": "object" } },
        { "role": "user", "content": "left unanswered" },
    ]}));
    assert_eq!(session.at.to_string(), "2026-11-15T09:00:00.250Z");
    let tools: Vec<_> = session.tools.iter().map(|row| row.tool.as_str()).collect();
    assert_eq!(tools, ["bare", "raw"]);
    let turns: Vec<_> = session.turns.iter().map(|turn| (turn.asked.as_str(), turn.answered.as_str())).collect();
    assert_eq!(turns, [("part one", "{\"some\":\"object\"}"), ("left unanswered", "")]);
    assert!(!session.completed);
}

#[test]
fn a_call_that_was_still_running_is_left_for_the_next_time() {
    let mut messages = vec![call(Some("1"), "terminal", "{}")];
    assert!(read(&json!({ "messages": messages })).tools.is_empty());
    messages.push(result(Some("1"), "error: connection refused"));
    assert_eq!(read(&json!({ "messages": messages })).tools[0].status, EvidenceStatus::Failed);
}

#[test]
fn a_session_cannot_begin_after_its_record_was_written() {
    for start in [json!(9e11), json!("9999-01-01T00:00:00Z")] {
        assert_eq!(read(&json!({ "session_start": start, "messages": [] })).at, CHANGED);
    }
}

#[test]
fn one_record_cannot_grow_without_bound() {
    let many: Vec<String> = (0..100_000).map(|n| format!("skill-{n}")).collect();
    let mut messages = vec![call(Some("1"), "run", &json!({ "skills": many }).to_string()), result(Some("1"), "ok")];
    for n in 0..12_000 {
        messages.push(json!({ "role": "user", "content": format!("{n}") }));
        messages.push(json!({ "role": "assistant", "content": "yes" }));
    }
    let session = read(&json!({ "messages": messages }));
    assert_eq!((session.skills.len(), session.turns.len()), (64, 10_000));
}
