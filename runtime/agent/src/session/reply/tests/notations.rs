//! Calls in the notations of other harnesses.

use super::*;

/// The calls of other notations in a reply, and whether it can be an answer.
fn calls(reply: &str) -> Vec<(String, Result<Value, ObjectProblem>, bool)> {
    let reading = read(reply, false);
    let found = reading.objects.iter().flat_map(|object| match object {
        Object::Foreign { calls, otherwise, .. } => calls
            .iter()
            .map(|call| (call.tool.clone(), call.args.clone().map(Value::Object), otherwise.is_some()))
            .collect::<Vec<_>>(),
        other => panic!("{reply}: {other:?}"),
    });
    found.collect()
}

#[test]
fn the_notations_of_other_harnesses_are_known() {
    let shapes = [
        (r#"{"name":"recall","arguments":{"q":1}}"#, true),
        (r#"<tool_call>{"name":"recall","arguments":{"q":1}}</tool_call>"#, false),
        ("<tool_call>\n```json\n{\"name\":\"recall\",\"arguments\":{\"q\":1}}\n```\n</tool_call>", false),
        (r#"[TOOL_CALLS] [{"name":"recall","arguments":{"q":1},"id":"a1"}]"#, true),
        (r#"{"name":"recall","arguments":"{\"q\":1}"}"#, true),
        (r#"{"name":"recall","parameters":{"q":1}}"#, true),
        (r#"{"tool_name":"recall","parameters":{"q":1}}"#, true),
        (r#"{"function":"recall","arguments":{"q":1}}"#, true),
        (r#"{"action":"recall","action_input":{"q":1}}"#, true),
        (r#"{"action":"recall","action_input":"{\"q\":1}","thought":"t"}"#, true),
        (r#"{"type":"function","function":{"name":"recall","arguments":"{\"q\":1}"}}"#, false),
        (r#"{"type":"function","function":{"name":"recall","parameters":{"q":1}}}"#, false),
        (r#"{"function":{"name":"recall","arguments":{"q":1}}}"#, true),
        (r#"{"type":"function_call","name":"recall","arguments":"{\"q\":1}","call_id":"c"}"#, false),
        (r#"{"function_call":{"name":"recall","arguments":"{\"q\":1}"}}"#, false),
        (r#"{"functionCall":{"name":"recall","args":{"q":1}}}"#, false),
        (r#"{"tool_call":{"name":"recall","arguments":{"q":1}}}"#, false),
        (r#"{"type":"tool_use","id":"t","name":"recall","input":{"q":1}}"#, false),
        (
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"recall","arguments":"{\"q\":1}"}}]}"#,
            false,
        ),
        (r#"{"tool_calls":[{"name":"recall","args":{"q":1}}]}"#, false),
        (r#"{"tool_uses":[{"recipient_name":"functions.recall","parameters":{"q":1}}]}"#, false),
        (r#"<function=recall>{"q":1}</function>"#, false),
        ("Thought: look.\nAction: recall\nAction Input: {\"q\":1}\nObservation:", false),
        ("✿FUNCTION✿: recall\n✿ARGS✿: {\"q\":1}\n✿RESULT✿", true),
        ("Tool: recall\nInput:\n{\"q\":1}", true),
        ("**Action:** recall\n**Action Input:**\n```json\n{\"q\":1}\n```", false),
        ("<|tool_call_begin|>functions.recall:0<|tool_call_argument_begin|>{\"q\":1}<|tool_call_end|>", false),
        ("<|channel|>commentary to=functions.recall <|constrain|>json<|message|>{\"q\":1}<|call|>", false),
        ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>recall\n```json\n{\"q\":1}\n```<｜tool▁call▁end｜>", false),
    ];
    for (reply, answers) in shapes {
        assert_eq!(calls(reply), [("recall".to_owned(), Ok(json!({"q": 1})), answers)], "{reply}");
    }
}

#[test]
fn several_calls_in_one_object_are_all_there() {
    let reply = r#"{"tool_calls":[{"name":"a","arguments":{}},{"name":"b","arguments":{"x":1}}]}"#;
    let found = calls(reply);
    assert_eq!(found.iter().map(|(tool, ..)| tool.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn arguments_of_another_notation_are_held_to_the_same_rules() {
    for (reply, problem) in [
        (r#"{"name":"a","arguments":"none"}"#, ObjectProblem::ArgsTextNotJson),
        (r#"{"name":"a","arguments":[1]}"#, ObjectProblem::ArgsNotObject),
        (r#"{"name":"a","arguments":{"x":1,"x":2}}"#, ObjectProblem::RepeatedArgument),
        (r#"{"function_call":{"name":"a","arguments":"{\"x\":1,\"x\":2}"}}"#, ObjectProblem::RepeatedArgument),
        (r#"{"name":"a","name":"b","arguments":{}}"#, ObjectProblem::RepeatedKey),
    ] {
        assert_eq!(calls(reply)[0].1, Err(problem), "{reply}");
    }
}

#[test]
fn data_that_only_resembles_a_call_is_data() {
    for reply in [
        r#"{"name":"Bob"}"#,
        r#"{"name":"Bob","input":"text"}"#,
        r#"{"name":"Bob","age":3,"args":[1]}"#,
        r#"{"action":"none","reason":"nothing new"}"#,
        r#"{"action":"create","name":"a","description":"b","body":"c"}"#,
        r#"{"type":"function","name":"transfer","line":12}"#,
        r#"{"arguments":{"a":1}}"#,
        r#"{"tool_calls":3,"function":"x"}"#,
    ] {
        assert_eq!(read(reply, false).objects, [answer(reply)], "{reply}");
    }
}

#[test]
fn an_argument_in_markup_is_never_an_answer() {
    for reply in [
        "<tool_call><function=recall><parameter=filter>{\"a\":1}</parameter></function></tool_call>",
        "<invoke name=\"recall\"><parameter name=\"filter\">{\"a\":1}</parameter></invoke>",
        "<tool_call>recall\n<arg_key>filter</arg_key>\n<arg_value>{\"a\":1}</arg_value></tool_call>",
        "<tool_call>{\"a\":1}</tool_call>",
    ] {
        assert_eq!(read(reply, false).objects, [broken(ObjectProblem::ForeignMarkup)], "{reply}");
    }
}

#[test]
fn a_fence_that_quotes_and_holds_nothing_but_a_call_is_told_of_since_the_fourth_edition() {
    let quoted = |reply: &str| read_as(reply, false, Edition::Fourth).quoted;
    for reply in [
        "```python\n{\"tool\":\"recall\",\"args\":{\"q\":1}}\n```",
        "{\"id\":7}\n```python\n\n  {'tool': 'recall', 'args': {'q': 1},}\n\n```\n{\"id\":8}",
        "  ````bash\n{\"name\":\"recall\",\"arguments\":{}}\n````\nso.",
        "```xml\n<tools><tool_call>{\"name\":\"recall\",\"arguments\":{}}</tool_call>\n</tools>\n```",
        "```js\n{\"tool_calls\":[{\"name\":\"recall\",\"arguments\":{}}]}\n```",
    ] {
        assert_eq!(quoted(reply), ["recall"], "{reply}");
        assert_eq!(read_as(reply, false, Edition::Third).quoted, Vec::<String>::new(), "{reply}");
        let objects = |edition| read_as(reply, false, edition).objects;
        assert_eq!(objects(Edition::Fourth), objects(Edition::Third), "it is never a call itself: {reply}");
    }
    for reply in [
        "```python\nprint({\"tool\":\"recall\",\"args\":{}})\n```",
        "```python\n{\"tool\":\"recall\",\"args\":{}} # so\n```",
        "```python\n{\"id\":7}\n```",
        "```python\n{\"tool\":\"recall\",\"args\":{}\n```",
        "```python\n{\"tool\":\"recall\",\"args\":{}}\n",
        "```python\n```\n{\"id\":7}\n```python\n```",
        "<think>\n```python\n{\"tool\":\"recall\",\"args\":{}}\n```\n</think>{\"id\":7}",
        "```python\n{\"tool\":\"recall\",\"args\":{}}\n```\n</think>{\"id\":7}",
        "```json\n{\"id\":7}\n```",
    ] {
        assert_eq!(quoted(reply), Vec::<String>::new(), "{reply}");
    }
}

#[test]
fn a_thought_inside_code_says_that_what_follows_may_be_a_piece_of_it() {
    let reply = "{\"tool\":\"recall\",\"args\":{}} {a: <think>x</think> } {\"id\":7}";
    let objects = |edition| read_as(reply, false, edition).objects;
    assert_eq!(objects(Edition::Third), [answer("{\"id\":7}")]);
    assert_eq!(objects(Edition::Fourth), [broken(ObjectProblem::NotJson), answer("{\"id\":7}")]);
}

#[test]
fn the_first_edition_reads_as_it_always_did() {
    let first = |reply: &'static str| read_as(reply, false, Edition::First).objects;
    assert_eq!(first(r#"{"name":"a","arguments":{}}"#), [answer(r#"{"name":"a","arguments":{}}"#)]);
    assert_eq!(first("{\u{a0}\"tool\":\"x\",\"args\":{\"a\":1}}"), [answer("{\"a\":1}")]);
    assert_eq!(first("{tool: \"x\", args: {\"a\":1}}"), [answer("{\"a\":1}")]);
    assert_eq!(first(r#"{"a":"it\'s"}"#), [broken(ObjectProblem::NotJson)]);
    assert_eq!(first("{\"a\":1 // don't\n}"), [broken(ObjectProblem::NotJson)]);
    assert_eq!(first(r#"{"tool":"x","args":{"a":1,"a":2}}"#), [call("x", json!({"a": 2}))]);
    assert_eq!(first(r#"{"tool":"x","parameters":{"a":1}}"#), [broken(ObjectProblem::LooseArguments)]);
    assert_eq!(read_as("{\"a\":1}\n```rust\n{", false, Edition::First).end, ReplyEnd::Clean);
}
