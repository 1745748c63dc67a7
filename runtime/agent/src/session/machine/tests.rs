//! Which object of a reply counts, once a tool has run.

use proptest::prelude::*;
use serde_json::json;

use super::super::reply::ObjectProblem;
use super::*;

/// A machine in which one call of `recall` went well, and the role wants these keys of an answer.
fn after_a_call(keys: &[&str]) -> Machine {
    let rules = SessionRules {
        tools: vec!["note".to_owned(), "recall".to_owned()],
        answer_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..SessionRules::default()
    };
    run_once(Machine::new(rules, "role".into(), "input".into()))
}

fn run_once(mut machine: Machine) -> Machine {
    assert_eq!(machine.hear(r#"{"tool":"recall","args":{"query":"first"}}"#, FinishReason::Stop), ReplyEffect::Call);
    machine.take(&ToolReport::new(EvidenceStatus::Ok, "nothing", "0 hits"));
    machine
}

/// What a reply led to: the call, the answer, or what the model was told.
#[derive(Debug, PartialEq)]
enum Led {
    Call(String, Value),
    Answer(String),
    Told(String),
}

fn led(machine: &mut Machine, reply: &str) -> Led {
    let heard = machine.hear(reply, FinishReason::Stop);
    match (heard, machine.next()) {
        (ReplyEffect::Call, Next::Call(call)) => Led::Call(call.tool.clone(), Value::Object(call.args.clone())),
        (ReplyEffect::Done, Next::Done(Stop { answer: Some(answer), .. })) => Led::Answer(answer.clone()),
        (ReplyEffect::Nudged(text) | ReplyEffect::Refused { text, .. }, _) => Led::Told(text.to_string()),
        (other, next) => panic!("{reply}: {other:?} {next:?}"),
    }
}

fn reads(reply: &str) -> Led {
    led(&mut after_a_call(&[]), reply)
}

fn recall() -> Led {
    Led::Call("recall".to_owned(), json!({ "query": "x" }))
}

#[test]
fn calls_in_other_notations_are_made_and_the_conversation_keeps_their_text() {
    for reply in [
        r#"<tool_call>{"name":"recall","arguments":{"query":"x"}}</tool_call>"#,
        r#"{"name":"recall","arguments":{"query":"x"}}"#,
        r#"{"action":"recall","action_input":{"query":"x"}}"#,
        r#"{"type":"function","function":{"name":"recall","arguments":"{\"query\":\"x\"}"}}"#,
        r#"{"tool_calls":[{"name":"rm","arguments":{}},{"name":"recall","arguments":{"query":"x"}}]}"#,
        r#"{"tool_name":"recall","parameters":{"query":"x"}}"#,
        r#"{"tool":"recall","arguments":{"query":"x"}}"#,
        "Action: recall\nAction Input: {\"query\":\"x\"}",
    ] {
        let mut machine = after_a_call(&[]);
        assert_eq!(led(&mut machine, reply), recall(), "{reply}");
        assert!(machine.said.contains(&ConversationEntry::Reply(reply.into())), "{reply}");
    }
}

#[test]
fn data_with_a_name_stays_an_answer() {
    for answer in [
        r#"{"name":"Bob","arguments":"none"}"#,
        r#"{"name":"Bob","arguments":{"for":"it"}}"#,
        r#"{"action":"Final Answer","action_input":"done"}"#,
        r#"{"name":"recall","count":3}"#,
        r#"{"name":"transfer","parameters":["to","amount"]}"#,
        r#"{"function":{"name":"transfer","parameters":["to"]}}"#,
    ] {
        assert_eq!(reads(answer), Led::Answer(answer.to_owned()), "{answer}");
    }
}

#[test]
fn what_the_role_wants_of_an_answer_is_an_answer_even_if_it_looks_like_a_call() {
    let answer = r#"{"name":"recall","arguments":{"query":"x"}}"#;
    assert_eq!(led(&mut after_a_call(&["name", "arguments"]), answer), Led::Answer(answer.to_owned()));
    assert_eq!(led(&mut after_a_call(&["summary"]), answer), recall());
}

#[test]
fn a_call_of_a_tool_that_is_not_there_is_refused_in_every_sure_notation() {
    for reply in [
        r#"{"tool":"rm","args":{}}"#,
        r#"<tool_call>{"name":"rm","arguments":{}}</tool_call>"#,
        r#"{"type":"function","function":{"name":"rm","arguments":"{}"}}"#,
        r#"{"tool_calls":[{"name":"rm","arguments":{}}]}"#,
    ] {
        let Led::Told(text) = reads(reply) else { panic!("{reply}") };
        assert!(text.contains("\"rm\"") && text.contains("note, recall"), "{text}");
    }
}

#[test]
fn arguments_that_cannot_be_used_are_told_of() {
    for (reply, said) in [
        (r#"{"name":"recall","arguments":"the weather"}"#, ObjectProblem::ArgsTextNotJson),
        (r#"{"action":"recall","action_input":"the weather"}"#, ObjectProblem::ArgsTextNotJson),
        (r#"{"tool":"recall","args":{"query":"x","query":"y"}}"#, ObjectProblem::RepeatedArgument),
        (r#"{"name":"recall","arguments":{"query":{"a":1,"a":1}}}"#, ObjectProblem::RepeatedArgument),
    ] {
        assert_eq!(reads(reply), Led::Told(said.advice().to_owned()), "{reply}");
    }
}

#[test]
fn a_call_goes_before_data_wherever_it_stands() {
    let call = r#"{"tool":"recall","args":{"query":"x"}}"#;
    for reply in [
        format!(r#"The record {{"id":7}} is old. {call}"#),
        format!("{{}} {call}"),
        format!(r#"{{"summary":"almost done","findings":[]}} {call}"#),
        format!(r#"{call} {{"summary":"done"}}"#),
        format!("{}{call}", r#"{"id":7} "#.repeat(50)),
        r#"{"id":7} {"name":"recall","arguments":{"query":"x"}}"#.to_owned(),
    ] {
        assert_eq!(reads(&reply), recall(), "{reply}");
    }
}

#[test]
fn what_cannot_be_read_lends_nothing() {
    for reply in [
        "{tool: \"recall\", args: {\"query\":\"x\"}}",
        "{tool: \"recall\", args: {\"query\":\"x\"}",
        "{“tool”: “recall”, “args”: {\"query\":\"x\"}}",
        "{\"tool\" = \"recall\", \"args\": {\"query\":\"x\"}}",
        "{ # a comment\n\"tool\": \"recall\", \"args\": {\"query\":\"x\"}}",
    ] {
        assert!(matches!(reads(reply), Led::Told(_)), "{reply}");
    }
    for reply in [
        "{\u{a0}\"tool\": \"recall\", \"args\": {\"query\":\"x\"}}",
        "{ // look it up\n\"tool\": \"recall\", \"args\": {\"query\":\"x\"}}",
        "{ /* don't */ \"tool\": \"recall\", \"args\": {\"query\":\"x\"}}",
    ] {
        assert_eq!(reads(reply), recall(), "{reply}");
    }
}

#[test]
fn an_answer_beside_something_unreadable_is_asked_for_again_while_tools_may_be_called() {
    for reply in [
        "{\"id\":7} {\"tool\":\"recall\",\"args\":{\"query\":\"x\"",
        "{\"id\":7} {\"tool\":\"recall\" oops}",
        "{\"id\":7}\n```python\n{\"tool\":\"recall\",\"args\":{}}",
    ] {
        assert_eq!(reads(reply), Led::Told(MIXED.to_owned()), "{reply}");
    }
    let mut machine = run_once(Machine::new(
        SessionRules { turns: 2, tools: vec!["recall".to_owned()], ..SessionRules::default() },
        "role".into(),
        "input".into(),
    ));
    assert_eq!(led(&mut machine, "{\"id\":7} {\"a\":"), Led::Answer("{\"id\":7}".to_owned()));
}

#[test]
fn an_empty_answer_is_sent_back_once() {
    let mut machine = after_a_call(&[]);
    assert!(matches!(led(&mut machine, "{}"), Led::Told(text) if text.starts_with("{} is an empty answer")));
    assert_eq!(led(&mut machine, "{}"), Led::Answer("{}".to_owned()));
}

#[test]
fn an_answer_without_the_keys_of_the_role_is_sent_back_once() {
    let mut machine = after_a_call(&["summary", "findings"]);
    let told = led(&mut machine, r#"{"summary":"x"}"#);
    assert!(matches!(&told, Led::Told(text) if text.starts_with(r#"That answer lacks "findings""#)), "{told:?}");
    assert_eq!(led(&mut machine, r#"{"summary":"y"}"#), Led::Answer(r#"{"summary":"y"}"#.to_owned()));
    let both = r#"{"summary":"x","findings":[]}"#;
    assert_eq!(led(&mut after_a_call(&["summary", "findings"]), both), Led::Answer(both.to_owned()));
}

#[test]
fn an_answer_that_was_sent_back_counts_if_nothing_better_comes() {
    for reason in [StopReason::Ceiling, StopReason::Backend, StopReason::Deadline, StopReason::Budget] {
        let mut machine = after_a_call(&["findings"]);
        assert!(matches!(led(&mut machine, r#"{"summary":"x"}"#), Led::Told(_)));
        match reason {
            StopReason::Ceiling => (0..6).for_each(|_| drop(machine.hear("prose", FinishReason::Stop))),
            other => machine.end(other, "gone"),
        }
        let Next::Done(stop) = machine.next() else { panic!("not done") };
        assert_eq!(
            (stop.reason, stop.answer.as_deref()),
            (StopReason::Final, Some(r#"{"summary":"x"}"#)),
            "{reason:?}"
        );
    }
    let mut machine = after_a_call(&["findings"]);
    led(&mut machine, "{}");
    machine.end(StopReason::Cancelled, "the caller cancelled the task");
    assert!(matches!(machine.next(), Next::Done(Stop { reason: StopReason::Cancelled, answer: None, .. })));
}

#[test]
fn of_several_objects_the_complete_one_is_the_answer() {
    let (whole, part) = (r#"{"summary":"x"}"#, r#"{"id":7}"#);
    assert_eq!(led(&mut after_a_call(&["summary"]), &format!("{part} {whole}")), Led::Answer(whole.to_owned()));
    assert_eq!(reads(&format!("{{}} {part} {whole}")), Led::Answer(part.to_owned()));
}

#[test]
fn nothing_is_asked_for_again_on_the_last_turn() {
    let rules = SessionRules { turns: 1, answer_keys: vec!["summary".to_owned()], ..SessionRules::default() };
    let mut machine = Machine::new(rules, "role".into(), "input".into());
    assert_eq!(led(&mut machine, "{}"), Led::Answer("{}".to_owned()));
}

#[test]
fn the_first_edition_chooses_as_it_always_did() {
    let rules = SessionRules {
        tools: vec!["recall".to_owned()],
        reading: Edition::First,
        answer_keys: vec!["summary".to_owned()],
        ..SessionRules::default()
    };
    for (reply, answer) in [
        (r#"{"id":7} {"tool":"recall","args":{}}"#, r#"{"id":7}"#),
        (r#"{"name":"recall","arguments":{}}"#, r#"{"name":"recall","arguments":{}}"#),
        ("{}", "{}"),
        ("{\"id\":7} {\"a\":", "{\"id\":7}"),
    ] {
        let mut machine = run_once(Machine::new(rules.clone(), "role".into(), "input".into()));
        assert_eq!(led(&mut machine, reply), Led::Answer(answer.to_owned()), "{reply}");
    }
}

/// Prose as people and models write it: braces, quotes, code and marks, and no calls.
fn prose() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[^{}`<>]{0,30}",
        1 => "[a-z{}\"':,/ \n\u{a0}]{0,20}",
        1 => prop::sample::select(vec![
            "I look it up: ", "{see below}", "{color: red}", "if (x) { y(); }", ":{", "{“a”: 1}", "{{", "}}",
            "don't", "{a: {\"b\": 1}}", "{\u{a0}", "{ // note\n", "\n```\n", "\n```json\n", "\n```rust\nfn f() { 1 }\n```\n",
            "<tool_response>", "Observation:", "{\"open\": ", "{'a':", "[", "]",
            "\n```python\n{\"id\": 7}\n```\n", "\n```python\nprint({\"id\": 7})\n```\n", "\n~~~\n",
            "<think>I look.</think>", "<think>{\"id\":7}</think>", "<Reasoning>{a: 1}\n</reasoning>",
        ])
        .prop_map(str::to_owned),
    ]
}

/// A tag of a thought that stands alone, before a call or after one: what a call is in would be no call.
fn tag(closes: bool) -> impl Strategy<Value = String> {
    let tags = if closes { ["</think>", "</thinking>"] } else { ["<think>", "<reasoning>"] };
    prop::sample::select(tags.to_vec()).prop_map(str::to_owned)
}

/// Data that names no tool.
fn data() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "{}",
        r#"{"id":7}"#,
        r#"{"name":"Bob","arguments":"none"}"#,
        r#"{"summary":"all done","findings":[{"a":{"b":1}}]}"#,
        r#"{"note":"say {\"tool\":\"recall\"}"}"#,
        "{'single':'quoted',}",
        "{\"a\":\"it\\'s\"}",
        r#"{"broken": oops}"#,
    ])
    .prop_map(str::to_owned)
}

fn one_call() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        r#"{"tool":"recall","args":{"query":"x"}}"#,
        r#"{"tool":"recall","args":"{\"query\":\"x\"}"}"#,
        r#"{"name":"recall","arguments":{"query":"x"}}"#,
        r#"<tool_call>{"name":"recall","arguments":{"query":"x"}}</tool_call>"#,
        r#"{"action":"recall","action_input":{"query":"x"}}"#,
        r#"{"type":"function","function":{"name":"recall","arguments":"{\"query\":\"x\"}"}}"#,
        r#"{"tool_calls":[{"function":{"name":"recall","arguments":{"query":"x"}}}]}"#,
    ])
    .prop_map(str::to_owned)
}

/// A call, plain or as all that is in a fence.
fn one_call_or_a_fence_with_it() -> impl Strategy<Value = String> {
    let fence = prop::sample::select(vec!["json", "python", "bash", "xml", "tool_use"]);
    (one_call(), prop::option::of(fence)).prop_map(|(call, fence)| match fence {
        Some(info) => format!("\n```{info}\n{call}\n```\n"),
        None => call,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn no_reply_with_one_legal_call_ends_as_an_answer(
        before in prop::collection::vec(prop_oneof![4 => prose(), 4 => data(), 1 => tag(true)], 0..5),
        call in one_call_or_a_fence_with_it(),
        after in prop::collection::vec(prop_oneof![4 => prose(), 4 => data(), 1 => tag(false)], 0..5),
        keys in prop::sample::select(vec![vec![], vec!["summary"]]),
    ) {
        let reply = format!("{}{call}{}", before.concat(), after.concat());
        let mut machine = after_a_call(&keys);
        let led = led(&mut machine, &reply);
        prop_assert!(!matches!(led, Led::Answer(_)), "{:?}: {:?}", reply, led);
        if let Led::Call(tool, args) = led {
            prop_assert_eq!((tool.as_str(), args), ("recall", json!({ "query": "x" })));
        }
    }

    #[test]
    fn a_call_among_whole_objects_and_plain_prose_is_made(
        before in prop::collection::vec("[^{}`<>/]{0,20}", 0..4),
        data in prop::sample::select(vec!["{}", r#"{"id":7}"#, r#"{"summary":"done"}"#]),
        call in one_call(),
    ) {
        let reply = format!("{}{data} {call} {data}", before.concat());
        prop_assert_eq!(led(&mut after_a_call(&[]), &reply), recall(), "{}", reply);
    }
}

#[test]
fn a_call_that_is_all_of_a_fence_is_asked_for_again_and_loses_to_no_data() {
    let fence = "```python\n{\"tool\":\"recall\",\"args\":{\"query\":\"x\"}}\n```";
    let told = Led::Told(ObjectProblem::Quoted.advice().to_owned());
    for reply in [format!("{{\"id\":7}}\n{fence}"), format!("{fence}\n{{\"id\":7}}"), fence.to_owned()] {
        assert_eq!(reads(&reply), told, "{reply}");
        let rules = SessionRules { reading: Edition::Third, ..after_a_call(&[]).rules };
        let mut before = run_once(Machine::new(rules, "role".into(), "input".into()));
        let by_the_third = led(&mut before, &reply);
        assert_eq!(matches!(by_the_third, Led::Answer(_)), reply != fence, "{reply}: {by_the_third:?}");
    }
    // What no tool of the task is called is a quotation, and a plain call beside the fence is made.
    let other = fence.replace("recall", "rm");
    assert_eq!(reads(&format!("{{\"id\":7}}\n{other}")), Led::Answer("{\"id\":7}".to_owned()));
    let plain = r#"{"tool":"recall","args":{"query":"x"}}"#;
    assert_eq!(reads(&format!("{fence}\n{plain}")), recall());
    // On the last turn nothing can be called, and the answer counts.
    let rules = SessionRules { turns: 2, ..after_a_call(&[]).rules };
    let mut last = run_once(Machine::new(rules, "role".into(), "input".into()));
    assert_eq!(led(&mut last, &format!("{{\"id\":7}}\n{fence}")), Led::Answer("{\"id\":7}".to_owned()));
}

#[test]
fn a_call_in_another_notation_on_the_last_turn_is_not_the_answer() {
    for reply in
        [r#"{"name":"recall","arguments":{"query":"x"}}"#, r#"{"action":"recall","action_input":{"query":"x"}}"#]
    {
        let rules = SessionRules { tools: vec!["recall".to_owned()], turns: 2, ..SessionRules::default() };
        let mut machine = run_once(Machine::new(rules, "role".into(), "input".into()));
        machine.hear(reply, FinishReason::Stop);
        let Next::Done(stop) = machine.next() else { panic!("{reply}: the last turn was used up") };
        assert_eq!((stop.reason, &stop.answer), (StopReason::Ceiling, &None), "{reply}");
    }
}

#[test]
fn before_any_tool_has_run_what_looks_like_an_answer_and_a_call_is_a_call() {
    let rules = SessionRules {
        tools: vec!["recall".to_owned()],
        answer_keys: vec!["name".to_owned()],
        ..SessionRules::default()
    };
    let mut machine = Machine::new(rules, "role".into(), "input".into());
    assert_eq!(led(&mut machine, r#"{"name":"recall","arguments":{"query":"x"}}"#), recall());
}

/// A call of `recall` in every notation: what stands before the JSON, the JSON, and what stands behind it.
const NOTATIONS: [(&str, &str, &str); 25] = [
    ("", r#"{"tool":"recall","args":{"query":{"deep":"x"}}}"#, ""),
    ("", r#"{"tool":"recall","arguments":{"query":{"deep":"x"}}}"#, ""),
    ("", r#"{"name":"recall","arguments":{"query":{"deep":"x"}}}"#, ""),
    ("", r#"{"name":"recall","input":{"query":{"deep":"x"}}}"#, ""),
    ("", r#"{"name":"recall","parameters":{"query":{"deep":"x"}}}"#, ""),
    ("", r#"{"name":"recall","arguments":"{\"query\":{\"deep\":\"x\"}}"}"#, ""),
    ("<tool_call>", r#"{"name":"recall","arguments":{"query":{"deep":"x"}}}"#, "</tool_call>"),
    ("<tool_call>\n```json\n", r#"{"name":"recall","arguments":{"query":{"deep":"x"}}}"#, "\n```\n</tool_call>"),
    ("[TOOL_CALLS] [", r#"{"name":"recall","arguments":{"query":{"deep":"x"}},"id":"a1"}"#, "]"),
    ("", r#"{"tool_name":"recall","parameters":{"query":{"deep":"x"}}}"#, ""),
    ("", r#"{"function":"recall","arguments":{"query":{"deep":"x"}}}"#, ""),
    ("", r#"{"action":"recall","action_input":{"query":{"deep":"x"}}}"#, ""),
    ("", r#"{"type":"function","function":{"name":"recall","arguments":{"query":{"deep":"x"}}}}"#, ""),
    ("", r#"{"function_call":{"name":"recall","arguments":"{\"query\":1}"}}"#, ""),
    ("", r#"{"functionCall":{"name":"recall","args":{"query":{"deep":"x"}}}}"#, ""),
    ("", r#"{"type":"tool_use","id":"t","name":"recall","input":{"query":{"deep":"x"}}}"#, ""),
    (
        "",
        r#"{"role":"assistant","tool_calls":[{"function":{"name":"recall","arguments":{"query":{"deep":"x"}}}}]}"#,
        "",
    ),
    ("", r#"{"tool_uses":[{"recipient_name":"functions.recall","parameters":{"query":{"deep":"x"}}}]}"#, ""),
    ("<function=recall>", r#"{"query":{"deep":"x"}}"#, "</function>"),
    ("Action: recall\nAction Input: ", r#"{"query":{"deep":"x"}}"#, "\nObservation:"),
    ("✿FUNCTION✿: recall\n✿ARGS✿: ", r#"{"query":{"deep":"x"}}"#, "\n✿RESULT✿"),
    (
        "<|tool_call_begin|>functions.recall:0<|tool_call_argument_begin|>",
        r#"{"query":{"deep":"x"}}"#,
        "<|tool_call_end|>",
    ),
    ("<|channel|>commentary to=functions.recall <|constrain|>json<|message|>", r#"{"query":{"deep":"x"}}"#, "<|call|>"),
    (
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>recall\n```json\n",
        r#"{"query":{"deep":"x"}}"#,
        "\n```<｜tool▁call▁end｜>",
    ),
    ("<tool_call>recall ", r#"{"query":{"deep":"x"}}"#, "</tool_call>"),
];

/// Whether a reply still has a whole object where the JSON was; then it says what it says.
fn is_whole(json: &str) -> bool {
    serde_json::from_str::<Map<String, Value>>(json).is_ok()
}

/// What is wrong with how a broken call was taken. It may be told of, refused, or still be made out as the call; it is not
/// the answer, nor is what is in it.
fn taken_wrongly(reply: &str) -> Option<String> {
    for keys in [&[][..], &["query"], &["deep"]] {
        match led(&mut after_a_call(keys), reply) {
            Led::Answer(answer) => return Some(format!("{reply:?} is the answer {answer}")),
            Led::Call(tool, _) if tool != "recall" => return Some(format!("{reply:?} is a call of {tool}")),
            _ => {}
        }
    }
    // Nor is it where nothing but an answer is legal. `{}` says nothing, and nothing of the call.
    let rules = SessionRules { tools: vec!["recall".to_owned()], turns: 2, ..SessionRules::default() };
    let mut last = run_once(Machine::new(rules, "role".into(), "input".into()));
    last.hear(reply, FinishReason::Stop);
    match last.next() {
        Next::Done(Stop { answer: Some(answer), .. }) if answer != "{}" => {
            Some(format!("{reply:?} is at last the answer {answer}"))
        }
        _ => None,
    }
}

#[test]
fn a_call_that_is_cut_or_broken_anywhere_is_never_an_answer_in_any_notation() {
    let mut replies = Vec::new();
    for (before, json, after) in NOTATIONS {
        let whole = format!("{before}{json}{after}");
        let places = |text: &str| text.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
        let cuts = places(&whole).into_iter().filter(|cut| *cut < before.len() + json.len());
        replies.extend(cuts.map(|cut| whole[..cut].to_owned()));
        for at in places(json) {
            for other in ["", "x", "“", "\\", "{", "}", "'", ":"] {
                let changed = format!("{}{other}{}", &json[..at], &json[at + 1..]);
                if !is_whole(&changed) {
                    replies.push(format!("{before}{changed}{after}"));
                }
            }
            // The beginning is lost, up to somewhere in a key.
            let rest = &json[at..];
            let is_in_key = rest.split('{').next().is_some_and(|first| first.contains(char::is_alphabetic));
            if at > 0 && before.is_empty() && is_in_key {
                replies.push(rest.to_owned());
            }
        }
    }
    let wrong: Vec<String> = replies.iter().filter_map(|reply| taken_wrongly(reply)).collect();
    assert!(replies.len() > 5_000, "{}", replies.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), replies.len(), wrong.join("\n"));
}

#[test]
fn a_call_whose_opening_mark_is_misspelt_is_known_by_its_end() {
    for reply in [
        "<funktion=recall>{\"query\":\"x\"}</function>",
        "<toolcall>{\"query\":\"x\"}</tool_call>",
        "recall\n```json\n{\"query\":\"x\"}\n```<｜tool▁call▁end｜>",
        "Acton: recall\nAction Input: {\"query\":\"x\"}",
    ] {
        assert_eq!(taken_wrongly(reply), None);
    }
}

#[test]
fn a_broken_call_beside_data_is_asked_for_again_and_the_data_is_not_the_answer() {
    for call in [
        "{name: \"recall\", input: {\"query\":\"x\"}}",
        "{“name”: “recall”, “arguments”: {\"query\":\"x\"}}",
        "{name\": \"recall\", \"input\": {\"query\":\"x\"}}",
        "{,\"name\": \"recall\", \"arguments\": \"{}\"}",
        "{\"name\": recall, \"input\": {\"query\":\"x\"}}",
        "\"name\": \"recall\", \"arguments\": {\"query\":\"x\"}}",
        "{“name”: “recall”, “arguments”: {\"tool\":\"note\",\"args\":{}}}",
    ] {
        for reply in [format!("{call} {{\"id\":7}}"), format!("{{\"id\":7}} {call}")] {
            assert!(matches!(reads(&reply), Led::Told(_)), "{reply}: {:?}", reads(&reply));
        }
        let mut machine = after_a_call(&[]);
        assert!(matches!(led(&mut machine, call), Led::Told(_)), "{call}");
        assert_eq!(led(&mut machine, "{\"id\":7}"), Led::Answer("{\"id\":7}".to_owned()), "{call}");
    }
}

#[test]
fn prose_before_an_answer_may_hold_words_of_calls() {
    for prose in [
        "The \"answer\": ",
        "Its name: Bob, and the input: none. ",
        "I used {name} and {input}. ",
        "if (x) { call(name, input); } ",
        "The call had \"arguments\" and a \"name\". ",
        "Result of the tool: ",
        "- \"answer\": ",
    ] {
        assert_eq!(reads(&format!("{prose}{{\"id\":7}}")), Led::Answer("{\"id\":7}".to_owned()), "{prose}");
    }
}

/// A machine of these rules with the tools `find` and `skill_view`, of which `find` touches the matter.
fn with_matter(reading: Edition) -> Machine {
    let rules = SessionRules {
        tools: vec!["find".to_owned(), "skill_view".to_owned()],
        working_tools: vec!["find".to_owned()],
        reading,
        facts: FactRules { grounding: Grounding::Reports, ..FactRules::default() },
        ..SessionRules::default()
    };
    Machine::new(rules, "You find things.".into(), "Where is the lamp?".into())
}

fn call_of(machine: &mut Machine, call: &str, status: EvidenceStatus, text: &str) {
    assert_eq!(machine.hear(call, FinishReason::Stop), ReplyEffect::Call);
    machine.take(&ToolReport::new(status, text, ""));
}

#[test]
fn a_failure_that_repeats_the_arguments_vouches_for_nothing() {
    let after = |reading| {
        let mut machine = with_matter(reading);
        let call = r#"{"tool":"find","args":{"thing":"Kolp"}}"#;
        call_of(&mut machine, call, EvidenceStatus::Failed, "the list has no Kolp");
        call_of(
            &mut machine,
            r#"{"tool":"find","args":{"thing":"lamp"}}"#,
            EvidenceStatus::Ok,
            "It is with Tam Oster.",
        );
        machine
    };
    let told = "That answer is not accepted: no result of this task says \"kolp\". Call a tool, or answer with what the \
                results above say and nothing else.";
    assert_eq!(led(&mut after(Edition::Fourth), r#"{"answer":"Kolp"}"#), Led::Told(told.to_owned()));
    let answer = |text: &str| Led::Answer(text.to_owned());
    assert_eq!(led(&mut after(Edition::Third), r#"{"answer":"Kolp"}"#), answer(r#"{"answer":"Kolp"}"#));
    assert_eq!(led(&mut after(Edition::Fourth), r#"{"answer":"Tam Oster"}"#), answer(r#"{"answer":"Tam Oster"}"#));
}

#[test]
fn what_a_skill_says_is_no_result_of_the_task() {
    let mut machine = with_matter(Edition::Fourth);
    let view = r#"{"tool":"skill_view","args":{"name":"find"}}"#;
    call_of(&mut machine, view, EvidenceStatus::Ok, "Example: the answer is Zed.");
    call_of(&mut machine, r#"{"tool":"find","args":{"thing":"lamp"}}"#, EvidenceStatus::Ok, "It is with Tam Oster.");
    assert_eq!(machine.results(), ["It is with Tam Oster."]);
    assert!(matches!(led(&mut machine, r#"{"answer":"Zed"}"#), Led::Told(text) if text.contains("\"zed\"")));
}

#[test]
fn where_all_went_wrong_what_the_failures_say_of_themselves_may_be_told() {
    let mut machine = with_matter(Edition::Fourth);
    for n in 0..4 {
        let call = format!(r#"{{"tool":"find","args":{{"thing":"Kolp {n}"}}}}"#);
        call_of(&mut machine, &call, EvidenceStatus::Failed, &format!("Kolp {n} is closed by order of Mira Tol"));
    }
    let answer = r#"{"answer":"Closed by Mira Tol"}"#;
    assert_eq!(led(&mut machine.clone(), answer), Led::Answer(answer.to_owned()));
    assert!(matches!(led(&mut machine, r#"{"answer":"Kolp"}"#), Led::Told(text) if text.contains("\"kolp\"")));
}
