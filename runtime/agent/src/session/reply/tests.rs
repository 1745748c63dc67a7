//! Named cases for every rule, then properties over made-up replies.

use std::cell::Cell;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

mod notations;

thread_local! {
    static VISITS: Cell<usize> = const { Cell::new(0) };
}

/// Counts one look at one byte.
pub(super) fn count_visit() {
    VISITS.set(VISITS.get() + 1);
}

/// A call as it stands in the reply.
fn call(tool: &str, args: Value) -> Object<'static> {
    called(tool, args, false)
}

/// A call whose text was repaired.
fn mended_call(tool: &str, args: Value) -> Object<'static> {
    called(tool, args, true)
}

fn called(tool: &str, args: Value, repaired: bool) -> Object<'static> {
    let Value::Object(args) = args else { panic!("arguments are an object") };
    Object::Call { tool: tool.to_owned(), args, repaired }
}

/// A final answer as it stands in the reply.
fn answer(text: &str) -> Object<'_> {
    Object::Final { text: Cow::Borrowed(text), repaired: false }
}

/// A final answer whose text was repaired to this.
fn mended(text: &str) -> Object<'_> {
    Object::Final { text: Cow::Borrowed(text), repaired: true }
}

/// Each case is a name, a reply, the objects in it and how it ends.
macro_rules! cases {
    ($($name:ident: $reply:expr => [$($object:expr),*], $end:ident;)*) => {
        $(
            #[test]
            fn $name() {
                let objects = vec![$($object),*];
                assert_eq!(read($reply, false), ParsedReply { objects, end: ReplyEnd::$end, left_out: 0, quoted: vec![] });
            }
        )*
    };
}

mod finding {
    use super::*;

    cases! {
        an_empty_reply_holds_nothing: "" => [], Clean;
        prose_holds_nothing: "I am done, I think." => [], Clean;
        a_bare_call_is_found: r#"{"tool":"x","args":{"a":1}}"# => [call("x", json!({"a": 1}))], Clean;
        a_call_between_prose_is_found:
            "I'll look \"now\": {\"tool\":\"x\",\"args\":{}} ok?" => [call("x", json!({}))], Clean;
        a_bare_final_is_found: r#"{"verdict":"safe"}"# => [answer(r#"{"verdict":"safe"}"#)], Clean;
        several_objects_come_in_order:
            r#"{"a":1} {"tool":"x","args":{}}, {"b":2}"# =>
            [answer(r#"{"a":1}"#), call("x", json!({})), answer(r#"{"b":2}"#)], Clean;
        touching_objects_are_two: r#"{"a":1}{"b":2}"# => [answer(r#"{"a":1}"#), answer(r#"{"b":2}"#)], Clean;
        objects_in_an_array_are_found_one_by_one:
            r#"[{"tool":"x","args":{}},{"tool":"y"}]"# => [call("x", json!({})), call("y", json!({}))], Clean;
        arrays_numbers_and_strings_are_no_objects: r#"[1, 2] 3 "four" null"# => [], Clean;
        an_object_inside_an_object_is_not_found_twice:
            r#"{"a":{"tool":"x","args":{}}}"# => [answer(r#"{"a":{"tool":"x","args":{}}}"#)], Clean;
        an_escaped_object_in_a_string_of_prose_is_not_found: r#""{\"tool\":\"x\"}""# => [], Clean;
        braces_and_escapes_in_strings_are_text:
            r#"{"tool":"x","args":{"code":"}}}\"{"}} {"a":1}"# =>
            [call("x", json!({"code": "}}}\"{"})), answer(r#"{"a":1}"#)], Clean;
        an_escaped_backslash_before_a_quote_ends_the_string:
            r#"{"a":"\\"} {"b":"\\\"}"}"# => [answer(r#"{"a":"\\"}"#), answer(r#"{"b":"\\\"}"}"#)], Clean;
        unicode_escapes_are_decoded_in_calls:
            r#"{"t\u006fol":"\u00e9","args":{"a":"\ud83d\ude00"}}"# => [call("é", json!({"a": "😀"}))], Clean;
        a_lone_surrogate_is_not_json: r#"{"a":"\ud800"}"# => [broken(ObjectProblem::NotJson)], Clean;
        an_escaped_nul_is_text: r#"{"tool":"x","args":{"a":"\u0000"}}"# => [call("x", json!({"a": "\0"}))], Clean;
        a_nul_outside_strings_is_not_json: "{\"a\":\0 1}" => [broken(ObjectProblem::NotJson)], Clean;
        a_nul_in_prose_is_prose: "\0{\"a\":1}\0" => [answer("{\"a\":1}")], Clean;
        a_byte_order_mark_is_passed: "\u{feff}{\"a\":1}" => [answer("{\"a\":1}")], Clean;
        a_fence_after_a_byte_order_mark_counts: "\u{feff}```rust\n{\"a\":1}\n```" => [], Clean;
        carriage_returns_do_no_harm:
            "Look:\r\n```json\r\n{\"tool\":\"x\",\r\n\"args\":{}}\r\n```\r\n" => [call("x", json!({}))], Clean;
        many_bytes_per_character_do_no_harm:
            "é😀{\"é😀\":\"\\\\é\"}é" => [answer("{\"é😀\":\"\\\\é\"}")], Clean;
        a_backslash_before_a_long_character_is_not_json: "{\"a\":\"\\é\"} é" => [broken(ObjectProblem::NotJson)], Clean;
        odd_blanks_and_key_order_of_a_final_are_kept:
            "x {\t\"z\" :\r\n 1 ,\n\"a\":[ ] , \"z\":2.50E+1 } y" =>
            [answer("{\t\"z\" :\r\n 1 ,\n\"a\":[ ] , \"z\":2.50E+1 }")], Clean;
        long_numbers_of_a_final_are_kept:
            r#"{"a":123456789012345678901234567890.10,"b":-0,"c":1e-400}"# =>
            [answer(r#"{"a":123456789012345678901234567890.10,"b":-0,"c":1e-400}"#)], Clean;
        a_number_out_of_range_is_not_json: r#"{"a":[1e400]}"# => [broken(ObjectProblem::NotJson)], Clean;
        json_tags_around_are_text: "<json>{\"a\":1}</json>" => [answer("{\"a\":1}")], Clean;
    }

    #[test]
    fn the_text_of_a_strict_final_is_borrowed_from_the_reply() {
        let reply = "é {\"a\": 1 } é";
        let ParsedReply { objects, .. } = read(reply, false);
        let [Object::Final { text: Cow::Borrowed(text), .. }] = objects.as_slice() else { panic!("{objects:?}") };
        assert_eq!(text.as_ptr(), reply["é ".len()..].as_ptr());
    }
}

mod thoughts {
    use super::*;

    cases! {
        a_thought_is_passed: "<think>{\"a\":1}</think>{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        all_three_names_are_known:
            "<think>{\"a\":1}</think><thinking>{\"a\":1}</thinking><reasoning>{\"a\":1}</reasoning>" => [], Clean;
        case_does_not_matter: "<Think>{\"a\":1}</THINK>{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        an_opening_tag_does_not_close_a_thought: "<think>1<think>{\"a\":1}" => [], InThought;
        objects_before_a_thought_stay: "{\"a\":1}<think>{}</think>" => [answer("{\"a\":1}")], Clean;
        an_unclosed_thought_takes_the_rest: "{\"a\":1}<think>{\"b\":2}" => [answer("{\"a\":1}")], InThought;
        an_open_object_in_a_thought_does_no_harm: "<think>{\"a\":</think>{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        an_open_quoted_fence_in_a_thought_does_no_harm:
            "<think>\n```rust\n</think>{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_thought_needs_its_own_closing_tag: "<think>{\"a\":1}</thinking>{\"b\":2}" => [], InThought;
        a_mention_of_the_tag_in_a_thought_does_not_nest:
            "<think>my <think> tag</think>{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        what_stood_in_nested_thoughts_is_dropped:
            "<think>1<think>2</think>{\"a\":1}</think>{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        what_stood_in_differently_nested_thoughts_is_dropped:
            "<reasoning>1<think>2</think>{\"a\":1}</reasoning>{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_lone_closing_tag_drops_what_was_before:
            "{\"tool\":\"x\"} no. </think>{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_lone_closing_tag_at_the_end_leaves_nothing: "{\"tool\":\"x\"}</Reasoning>" => [], Clean;
        a_tag_in_a_string_is_text:
            "{\"a\":\"</think><think>\"}{\"b\":2}" =>
            [answer("{\"a\":\"</think><think>\"}"), answer("{\"b\":2}")], Clean;
        a_tag_with_blanks_or_attributes_is_text:
            "<think >{\"a\":1}<think a=\"b\">" => [answer("{\"a\":1}")], Clean;
        a_tag_with_a_longer_name_is_text: "<thinker>{\"a\":1}</thinker>" => [answer("{\"a\":1}")], Clean;
        an_unfinished_tag_is_text: "{\"a\":1}</think" => [answer("{\"a\":1}")], Clean;
        a_closing_tag_inside_a_broken_object_still_ends_the_thought:
            "{\"tool\":\"x\"} {\"a\": hm </think> } {\"b\":2}" =>
            [broken(ObjectProblem::NotJson), answer("{\"b\":2}")], Clean;
        a_closing_tag_inside_an_open_object_still_ends_the_thought:
            "{\"tool\":\"x\"} {\"a\": hm </think> {\"b\":2}" => [], Truncated;
        a_closing_tag_inside_an_open_fence_still_ends_the_thought:
            "{\"tool\":\"x\"}\n```rust\n</think>\n{\"b\":2}" => [], Truncated;
        another_closing_tag_inside_an_open_thought_still_ends_the_outer_one:
            "{\"tool\":\"x\"} <think> hm </reasoning>{\"b\":2}" => [], InThought;
    }
}

mod braces {
    use super::*;

    cases! {
        a_brace_before_prose_is_junk: "{see below} {\"a\":1}" => [answer("{\"a\":1}")], Clean;
        code_with_braces_is_junk: "if (x) { y(); } {\"a\":1}" => [answer("{\"a\":1}")], Clean;
        a_brace_before_a_bracket_is_junk: "{[\"a\"] {\"b\":1}" => [answer("{\"b\":1}")], Clean;
        an_open_junk_brace_does_no_harm: "{ {\"a\":1}" => [answer("{\"a\":1}")], Clean;
        doubled_braces_hold_one_object: "{{\"a\":1}}" => [answer("{\"a\":1}")], Clean;
        a_lone_closing_brace_is_junk: "} {\"a\":1} }" => [answer("{\"a\":1}")], Clean;
        a_brace_at_the_end_is_junk: "{\"a\":1} {" => [answer("{\"a\":1}")], Clean;
        an_empty_object_is_a_final: "{}" => [answer("{}")], Clean;
        an_empty_object_with_blanks_is_a_final: "{ \r\n\t}" => [answer("{ \r\n\t}")], Clean;
        blanks_that_json_does_not_know_are_blanks:
            "{\u{a0}\"a\"\u{3000}:\u{feff}1\u{200b}}" => [mended("{ \"a\" : 1 }")], Clean;
        a_call_behind_a_no_break_space_is_a_call:
            "{\u{a0}\"tool\":\"x\",\"args\":{\"a\":1}}" => [mended_call("x", json!({"a": 1}))], Clean;
        an_object_without_quotes_around_its_keys_lends_nothing:
            "{tool: \"x\", args: {\"a\":1}} {\"b\":2}" => [broken(ObjectProblem::NotJson), answer("{\"b\":2}")], Clean;
        code_without_quotes_around_its_keys_is_passed_over:
            "{color: red, inner: {\"a\":1}} {\"b\":2}" => [answer("{\"b\":2}")], Clean;
        an_open_object_without_quotes_around_its_keys_lends_nothing:
            "{tool: \"x\", args: {\"a\":1}" => [], Truncated;
        an_object_in_typographic_quotes_lends_nothing: "{“tool”: “x”, “args”: {\"a\":1}}" => [broken(ObjectProblem::NotJson)], Clean;
        code_lends_no_answer: "fn f() { return {\"a\":1}; } {\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_call_in_braces_of_prose_is_a_call: "{so: I call} {see {\"tool\":\"x\"}}" => [call("x", json!({}))], Clean;
        an_emoticon_does_no_harm: ":{ sad. {\"a\":1}" => [answer("{\"a\":1}")], Clean;
        braces_of_prose_around_doubled_ones_still_count:
            "{x {{\"a\":1}} } {\"b\":2}" => [answer("{\"b\":2}")], Clean;
    }
}

mod truncation {
    use super::*;

    cases! {
        an_open_object_is_truncated: "{\"tool\":\"x\",\"args\":{}" => [], Truncated;
        an_open_string_is_truncated: "{\"tool\":\"x}" => [], Truncated;
        an_open_single_quoted_string_is_truncated: "{'tool':'x}" => [], Truncated;
        complete_objects_before_an_open_one_stay: "{\"a\":1} {\"b\":" => [answer("{\"a\":1}")], Truncated;
        objects_inside_an_open_one_are_not_found: "{\"a\":{\"tool\":\"x\",\"args\":{}}, " => [], Truncated;
        objects_after_an_open_one_are_not_found:
            "{\"a\": {\"tool\":\"x\",\"args\":{}} {\"tool\":\"y\"}" => [], Truncated;
    }

    #[test]
    fn a_cut_reply_holds_nothing() {
        for reply in ["", "{\"tool\":\"x\",\"args\":{}}", "{\"a\":1} {\"b\":", "<think>", "prose"] {
            assert_eq!(
                read(reply, true),
                ParsedReply { objects: vec![], end: ReplyEnd::Truncated, left_out: 0, quoted: vec![] },
                "{reply}"
            );
        }
    }

    #[test]
    fn no_proper_prefix_of_a_call_is_a_call() {
        let calls = [
            r#"{"tool":"x","args":{"a":[{"tool":"y","args":{}}],"b":"}\"é\\"}}"#,
            r#"{"args":"{\"tool\":\"y\",\"args\":{}}","tool":"x"}"#,
            "{'tool':'x','args':{'a':'}',},}",
            "{\n  \"tool\": \"x\",\n  \"args\": {\"a\": \"1\n2\"}\n}",
        ];
        for call in calls {
            for before in ["", "So:\n```json\n", "<think>hm</think>", "[", "{see} "] {
                let whole = format!("{before}{call}");
                assert!(matches!(read(&whole, false).objects.as_slice(), [Object::Call { .. }]), "{whole}");
                for (end, _) in call.char_indices() {
                    let prefix = &whole[..before.len() + end];
                    // A brace with nothing after it is still a junk brace.
                    let is_open = call[..end].trim().len() > 1;
                    let end = if is_open { ReplyEnd::Truncated } else { ReplyEnd::Clean };
                    assert_eq!(
                        read(prefix, false),
                        ParsedReply { objects: vec![], end, left_out: 0, quoted: vec![] },
                        "{prefix}"
                    );
                }
            }
        }
    }
}

mod repairs {
    use super::*;

    cases! {
        trailing_commas_are_dropped:
            "{\"a\":[1,2 , ],\"b\":{\"c\":\",}\",\n},}" => [mended("{\"a\":[1,2  ],\"b\":{\"c\":\",}\"\n}}")], Clean;
        a_repaired_call_says_so: "{\"tool\":\"x\",\"args\":{\"a\":1,},}" => [mended_call("x", json!({"a": 1}))], Clean;
        a_trailing_comma_without_a_value_is_not_repaired: "{\"a\":[,]}" => [broken(ObjectProblem::NotJson)], Clean;
        a_trailing_comma_after_a_colon_is_not_repaired: "{\"a\":,}" => [broken(ObjectProblem::NotJson)], Clean;
        two_trailing_commas_are_not_repaired: "{\"a\":1,,}" => [broken(ObjectProblem::NotJson)], Clean;
        single_quotes_become_double_quotes:
            "{'tool': 'x' , 'args': {'a': ['b','c']}}" => [mended_call("x", json!({"a": ["b", "c"]}))], Clean;
        braces_in_single_quoted_strings_are_text:
            "{'a':'}{','b':1} {}" => [mended("{\"a\":\"}{\",\"b\":1}"), answer("{}")], Clean;
        an_escaped_apostrophe_loses_its_backslash: r"{'a':'it\'s \\\n'}" => [mended(r#"{"a":"it's \\\n"}"#)], Clean;
        an_apostrophe_in_a_single_quoted_string_is_not_repaired:
            "{'a':'it's'} {\"b\":2}" => [broken(ObjectProblem::NotJson), answer("{\"b\":2}")], Clean;
        a_plural_apostrophe_before_a_comma_is_not_repaired:
            "{'a':'the dogs', he said'} {\"b\":2}" => [broken(ObjectProblem::NotJson), answer("{\"b\":2}")], Clean;
        a_needless_escape_of_an_apostrophe_loses_its_backslash:
            r#"{"a":"it\'s \\' \"\'"}"# => [mended(r#"{"a":"it's \\' \"'"}"#)], Clean;
        a_single_quoted_string_after_a_value_is_not_repaired: "{'a':1 'b':2}" => [broken(ObjectProblem::NotJson)], Clean;
        mixed_quotes_are_not_repaired: "{\"a\":'b'}" => [broken(ObjectProblem::NotJson)], Clean;
        a_double_quote_in_a_single_quoted_string_is_not_repaired:
            "{'a':'say \"hi\"'}" => [broken(ObjectProblem::NotJson)], Clean;
        apostrophes_in_double_quoted_strings_are_text: "{\"a\":\"it's '}\"}" => [answer("{\"a\":\"it's '}\"}")], Clean;
        raw_line_breaks_in_strings_are_escaped:
            "{\"a\":\"1\r\n\t2\",\n\"b\":\"\u{f}\u{10}\u{1f}\0\"}" =>
            [mended("{\"a\":\"1\\r\\n\\t2\",\n\"b\":\"\\u000f\\u0010\\u001f\\u0000\"}")], Clean;
        raw_line_breaks_in_single_quoted_strings_are_escaped: "{'a':'1\n2'}" => [mended("{\"a\":\"1\\n2\"}")], Clean;
        a_raw_line_break_after_a_backslash_is_not_repaired: "{\"a\":\"1\\\n2\"}" => [broken(ObjectProblem::NotJson)], Clean;
        all_repairs_work_together:
            "{'a':'1\n2',\n'b':['c',],}" => [mended("{\"a\":\"1\\n2\",\n\"b\":[\"c\"]}")], Clean;
        comments_are_taken_out:
            "{ // \"don't\" {\n\"a\":1 /* } */, // last\n}" => [mended("{  \"a\":1    }")], Clean;
        a_comment_in_a_string_is_text: "{\"a\":\"http://x /* */\"}" => [answer("{\"a\":\"http://x /* */\"}")], Clean;
        a_comment_that_never_ends_leaves_the_object_open: "{\"a\":1 /* }" => [], Truncated;
        the_end_of_a_thought_in_a_comment_ends_the_thought:
            "{\"tool\":\"x\"} {\"a\":1 // </think>\n}" => [mended("{\"a\":1  }")], Clean;
        bare_keys_are_not_repaired: "{\"a\":1,b:2}" => [broken(ObjectProblem::NotJson)], Clean;
        words_of_other_languages_are_not_repaired: "{'a':None,'b':True}" => [broken(ObjectProblem::NotJson)], Clean;
        a_missing_bracket_is_not_repaired: "{\"a\":[1,2}" => [broken(ObjectProblem::NotJson)], Clean;
        a_missing_comma_is_not_repaired: "{\"a\":1 \"b\":2}" => [broken(ObjectProblem::NotJson)], Clean;
        nothing_inside_a_broken_object_is_found:
            "{\"a\": hm, \"b\":{\"tool\":\"x\",\"args\":{}}} {\"c\":3}" =>
            [broken(ObjectProblem::NotJson), answer("{\"c\":3}")], Clean;
        a_single_quoted_brace_does_not_end_a_broken_object:
            "{\"a\":'}', \"b\":{\"tool\":\"x\",\"args\":{}}} {\"c\":3}" =>
            [broken(ObjectProblem::NotJson), answer("{\"c\":3}")], Clean;
    }
}

mod fences {
    use super::*;

    cases! {
        a_call_in_a_fence_after_prose_is_found:
            "So:\n```json\n{\"tool\":\"x\",\"args\":{}}\n```\nDone." => [call("x", json!({}))], Clean;
        a_fence_without_info_is_transparent: "```\n{\"a\":1}\n```" => [answer("{\"a\":1}")], Clean;
        an_open_transparent_fence_does_no_harm: "```json\n{\"a\":1}" => [answer("{\"a\":1}")], Clean;
        a_quoted_fence_is_passed:
            "```solidity\n{\"a\":1} {\"b\":\n```\n{\"c\":3}" => [answer("{\"c\":3}")], Clean;
        an_open_quoted_fence_takes_the_rest: "{\"a\":1}\n```rust\n{\"b\":2} {\"c\":" => [answer("{\"a\":1}")], Truncated;
        a_quoted_fence_may_be_indented_by_three:
            "   ```rust\n{\"a\":1}\n   ```\n{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_fence_indented_by_four_does_not_count: "    ```rust\n{\"a\":1}" => [answer("{\"a\":1}")], Clean;
        a_closing_fence_indented_by_four_does_not_count:
            "```rust\n    ```\n{\"a\":1}\n```\n{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_fence_inside_a_line_does_not_count: "see ```rust\n{\"a\":1}" => [answer("{\"a\":1}")], Clean;
        two_backticks_are_no_fence: "``rust\n{\"a\":1}" => [answer("{\"a\":1}")], Clean;
        an_object_in_the_line_of_a_fence_is_found: "```{\"tool\":\"x\"}```" => [call("x", json!({}))], Clean;
        an_object_after_the_info_in_the_line_of_a_fence_is_found:
            "```json {\"a\":1}```\n```rust{\"b\":2}```" => [answer("{\"a\":1}"), answer("{\"b\":2}")], Clean;
        info_of_two_words_does_not_count: "```rust ignore\n{\"a\":1}\n```" => [answer("{\"a\":1}")], Clean;
        info_with_a_brace_does_not_count: "```{\"a\":1\n}\n```" => [answer("{\"a\":1\n}")], Clean;
        info_with_a_backtick_does_not_count: "```rust```\n{\"a\":1}" => [answer("{\"a\":1}")], Clean;
        info_may_stand_apart_from_the_fence:
            "``` \trust \r\n{\"a\":1}\r\n```\r\n{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_fence_with_info_does_not_close: "```rust\n```json\n{\"a\":1}\n```\n{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_shorter_fence_does_not_close: "````md\n```\n{\"a\":1}\n````\n{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_longer_fence_closes: "```md\n{\"a\":1}\n`````  \n{\"b\":2}" => [answer("{\"b\":2}")], Clean;
        a_quoted_fence_inside_a_transparent_one_is_passed:
            "```text\n```c\n{\"a\":1}\n```\n{\"b\":2}\n```" => [answer("{\"b\":2}")], Clean;
        two_quoted_fences_in_a_row_are_passed: "```c\n{}\n```\n```c\n{}\n```" => [], Clean;
        a_fence_in_a_string_is_text: "{\"a\":\"\\n```rust\\n\"}" => [answer("{\"a\":\"\\n```rust\\n\"}")], Clean;
        a_raw_fence_in_a_string_is_text:
            "{\"a\":\"\n```rust\n```\n\"}" => [mended("{\"a\":\"\\n```rust\\n```\\n\"}")], Clean;
    }

    #[test]
    fn every_transparent_info_counts_in_any_case() {
        for info in ["", "json", "jsonc", "json5", "tool", "tool_call", "tool_code", "text", "JSON", "Tool_Call"] {
            let reply = format!("```{info}\n{{\"a\":1}}\n```");
            assert_eq!(read(&reply, false).objects, [answer("{\"a\":1}")], "{info}");
        }
    }
}

mod kinds {
    use super::*;

    cases! {
        a_tool_that_is_not_a_string_is_broken: r#"{"tool":1,"args":{}}"# => [broken(ObjectProblem::ToolNotText)], Clean;
        a_tool_that_is_null_is_broken: r#"{"tool":null}"# => [broken(ObjectProblem::ToolNotText)], Clean;
        a_tool_name_is_kept_as_it_is: r#"{"tool":" X ","args":{}}"# => [call(" X ", json!({}))], Clean;
        a_tool_name_may_be_empty: r#"{"tool":""}"# => [call("", json!({}))], Clean;
        missing_args_are_empty: r#"{"tool":"x"}"# => [call("x", json!({}))], Clean;
        null_args_are_empty: r#"{"tool":"x","args":null,"a":1}"# => [call("x", json!({}))], Clean;
        args_may_come_first: r#"{"args":{"a":1},"tool":"x"}"# => [call("x", json!({"a": 1}))], Clean;
        remarks_are_no_arguments:
            r#"{"thought":"a","reasoning":"b","comment":"c","tool":"x"}"# => [call("x", json!({}))], Clean;
        arguments_beside_the_tool_are_broken: r#"{"tool":"x","path":"y"}"# => [broken(ObjectProblem::LooseArguments)], Clean;
        other_keys_beside_args_are_ignored:
            r#"{"tool":"x","args":{"a":1},"id":2}"# => [call("x", json!({"a": 1}))], Clean;
        args_as_text_are_parsed: r#"{"tool":"x","args":" {\"a\":1}\n"}"# => [call("x", json!({"a": 1}))], Clean;
        args_as_prose_are_broken: r#"{"tool":"x","args":"a"}"# => [broken(ObjectProblem::ArgsTextNotJson)], Clean;
        args_as_empty_text_are_broken: r#"{"tool":"x","args":""}"# => [broken(ObjectProblem::ArgsTextNotJson)], Clean;
        args_as_text_of_null_are_broken: r#"{"tool":"x","args":"null"}"# => [broken(ObjectProblem::ArgsTextNotJson)], Clean;
        args_as_text_of_an_array_are_broken: r#"{"tool":"x","args":"[]"}"# => [broken(ObjectProblem::ArgsTextNotJson)], Clean;
        args_as_text_of_two_objects_are_broken:
            r#"{"tool":"x","args":"{}{}"}"# => [broken(ObjectProblem::ArgsTextNotJson)], Clean;
        args_as_text_with_a_fault_are_broken:
            r#"{"tool":"x","args":"{\"a\":1,}"}"# => [broken(ObjectProblem::ArgsTextNotJson)], Clean;
        args_as_an_array_are_broken: r#"{"tool":"x","args":[{}]}"# => [broken(ObjectProblem::ArgsNotObject)], Clean;
        args_as_a_number_are_broken: r#"{"tool":"x","args":1}"# => [broken(ObjectProblem::ArgsNotObject)], Clean;
        args_as_a_boolean_are_broken: r#"{"tool":"x","args":false}"# => [broken(ObjectProblem::ArgsNotObject)], Clean;
        two_tools_are_broken: r#"{"tool":"x","args":{},"tool":"y"}"# => [broken(ObjectProblem::RepeatedKey)], Clean;
        two_tools_are_broken_even_if_one_is_escaped:
            r#"{"tool":"x","args":{},"\u0074ool":"x"}"# => [broken(ObjectProblem::RepeatedKey)], Clean;
        two_args_are_broken: r#"{"tool":"x","args":{},"args":null}"# => [broken(ObjectProblem::RepeatedKey)], Clean;
        two_args_are_broken_even_without_a_tool: r#"{"args":{},"args":{}}"# => [broken(ObjectProblem::RepeatedKey)], Clean;
        two_null_tools_are_broken: r#"{"tool":null,"tool":"x"}"# => [broken(ObjectProblem::RepeatedKey)], Clean;
        other_keys_may_repeat: r#"{"a":1,"a":2}"# => [answer(r#"{"a":1,"a":2}"#)], Clean;
        a_tool_deeper_inside_makes_no_call: r#"{"a":{"tool":1}}"# => [answer(r#"{"a":{"tool":1}}"#)], Clean;
        a_tool_in_capitals_makes_no_call: r#"{"Tool":"x"}"# => [answer(r#"{"Tool":"x"}"#)], Clean;
        args_alone_make_no_call: r#"{"args":{}}"# => [answer(r#"{"args":{}}"#)], Clean;
        a_key_that_occurs_twice_in_args_is_refused:
            r#"{"tool":"x","args":{"a":1,"a":2}}"# => [broken(ObjectProblem::RepeatedArgument)], Clean;
        a_key_that_occurs_twice_deep_in_args_is_refused:
            r#"{"tool":"x","args":{"a":[{"b":{"c":1,"\u0063":1}}]}}"# => [broken(ObjectProblem::RepeatedArgument)], Clean;
        a_key_that_occurs_twice_in_args_as_text_is_refused:
            r#"{"tool":"x","args":"{\"a\":1,\"a\":1}"}"# => [broken(ObjectProblem::RepeatedArgument)], Clean;
        a_key_may_occur_in_two_objects_of_args:
            r#"{"tool":"x","args":{"a":{"b":1},"c":{"b":1}}}"# =>
            [call("x", json!({"a": {"b": 1}, "c": {"b": 1}}))], Clean;
        arguments_of_a_tool_may_have_another_name:
            r#"{"tool":"x","parameters":{"a":1},"thought":"t"}"# => [call("x", json!({"a": 1}))], Clean;
        text_under_another_name_is_no_arguments:
            r#"{"tool":"x","input":"a"}"# => [broken(ObjectProblem::LooseArguments)], Clean;
    }

    #[test]
    fn every_problem_has_one_sentence_of_advice() {
        let problems = [
            ObjectProblem::NotJson,
            ObjectProblem::ToolNotText,
            ObjectProblem::ArgsNotObject,
            ObjectProblem::ArgsTextNotJson,
            ObjectProblem::LooseArguments,
            ObjectProblem::RepeatedKey,
            ObjectProblem::RepeatedArgument,
            ObjectProblem::ForeignMarkup,
            ObjectProblem::TooDeep,
        ];
        for problem in problems {
            let advice = problem.advice();
            assert!(advice.ends_with('.') && !advice.contains(['\n', '!']) && !advice.contains(". "), "{advice}");
        }
    }
}

mod limits {
    use super::*;

    #[test]
    fn a_call_behind_any_number_of_objects_is_found() {
        let reply = format!("{}{{\"tool\":\"x\"}}", "{\"a\":1} ".repeat(100));
        let reading = read(&reply, false);
        assert_eq!(reading.objects.last(), Some(&call("x", json!({}))));
        assert_eq!((reading.objects.len(), reading.left_out), (MOST_OBJECTS + 1, 100 - MOST_OBJECTS));
    }

    #[test]
    fn the_depth_limit_is_the_one_of_the_parser() {
        let nested = |levels: usize| format!("{{\"a\":{}1{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        assert_eq!(read(&nested(DEEPEST), false).objects, [answer(&nested(DEEPEST))]);
        assert!(serde_json::from_str::<Value>(&nested(DEEPEST)).is_ok());
        assert_eq!(read(&nested(DEEPEST + 1), false).objects, [broken(ObjectProblem::TooDeep)]);
        assert!(serde_json::from_str::<Value>(&nested(DEEPEST + 1)).is_err());
    }

    #[test]
    fn brackets_in_strings_are_not_deep() {
        let reply = format!("{{\"a\":\"{}\"}}", "[{".repeat(1000));
        assert_eq!(read(&reply, false).objects, [answer(&reply)]);
    }

    #[test]
    fn brackets_in_a_row_are_not_deep() {
        let reply = format!("{{\"a\":[{}1]}}", "[],{},".repeat(1000));
        assert_eq!(read(&reply, false).objects, [answer(&reply)]);
    }

    #[test]
    fn very_deep_objects_do_no_harm() {
        let levels = 1 << 18;
        let reply = format!("{}1{} {{}}", "{\"a\":".repeat(levels), "}".repeat(levels));
        assert_eq!(read(&reply, false).objects, [broken(ObjectProblem::TooDeep), answer("{}")]);
        let args = format!("{{\\\"a\\\":{}", "[".repeat(levels));
        let reply = format!("{{\"tool\":\"x\",\"args\":\"{args}\"}}");
        assert_eq!(read(&reply, false).objects, [broken(ObjectProblem::ArgsTextNotJson)]);
    }

    #[test]
    fn objects_beyond_the_limit_are_counted() {
        let reading = |count: usize| {
            let reply = "{}{\"a\":,}".repeat(count / 2);
            let reading = read(&reply, false);
            (reading.objects.len(), reading.left_out)
        };
        assert_eq!(reading(MOST_OBJECTS), (MOST_OBJECTS, 0));
        assert_eq!(reading(MOST_OBJECTS + 10), (MOST_OBJECTS, 10));
    }

    #[test]
    fn a_lone_closing_tag_drops_the_count_too() {
        let reply = format!("{}</think>{{\"a\":1}}", "{}".repeat(100));
        assert_eq!(
            read(&reply, false),
            ParsedReply { objects: vec![answer("{\"a\":1}")], end: ReplyEnd::Clean, left_out: 0, quoted: vec![] }
        );
    }

    #[test]
    fn the_work_is_linear_for_any_shape() {
        let pieces = [
            "{",
            "{\"",
            "{\"a\":",
            "[",
            "{[",
            "<think>",
            "<",
            "</think>",
            "</",
            "<thinkin",
            "`",
            "```",
            "```\n",
            "```rust\n",
            "```x\n```\n",
            "```x\n{\n```\n",
            "```x\n{\"a\":{}}\n```\n",
            "```x\n<a><b>{}\n```\n",
            "```x\n<\n```\n",
            "\n   ```",
            "`  ",
            "\\",
            "{\"\\",
            "\"",
            "'",
            "{'",
            "{' ",
            "{   ",
            "{}",
            "{'a'}",
            "{'a':'b' c',}",
            "{\"a\":1,}",
            "{\"a\":</think>}",
            "{\"a\" , ",
            ",   ",
            ", ]",
            "\0",
            "\n",
            "{\"a\":\"\n\"}",
            "é",
            "{<",
            "'a', ",
            "{//",
            "{/*",
            "{/**/",
            "{//\n",
            "{a:",
            "{a: {\"b\":1} ",
            "{x }",
            "{{}",
            "{\u{a0}",
            "<tool_call>{}",
            "{\"name\":\"a\",\"arguments\":{}}",
        ];
        for piece in pieces {
            for (open, close) in
                [("", ""), ("{\"", "\"}"), ("{'", "'}"), ("{\"a\":[", "]}"), ("{'a':[", "]}"), ("<think>", "")]
            {
                let reply = format!("{open}{}{close}", piece.repeat(20_000 / piece.len()));
                assert_linear(&reply);
            }
        }
    }
}

/// Fails if a reading looks at the bytes of a reply more than eight times each.
fn assert_linear(reply: &str) {
    for edition in [Edition::Second, Edition::default()] {
        VISITS.set(0);
        let _ = read_as(reply, false, edition);
        let start: String = reply.chars().take(40).collect();
        assert!(VISITS.get() <= 8 * reply.len() + 8, "{} visits of {} bytes: {start}", VISITS.get(), reply.len());
    }
}

/// Fails if a reading breaks a promise that holds for every reply.
fn assert_sound(reply: &str) {
    assert_linear(reply);
    let reading = read(reply, false);
    let others = reading.objects.iter().filter(|object| matches!(object, Object::Final { .. } | Object::Broken { .. }));
    assert!(others.count() <= MOST_OBJECTS);
    let source = reply.as_bytes().as_ptr_range();
    for object in &reading.objects {
        if let Object::Final { text, repaired } = object {
            let value = serde_json::from_str::<Value>(text);
            assert!(value.is_ok_and(|value| value.is_object()), "{text}");
            assert_eq!(*repaired, !source.contains(&text.as_ptr()), "{text}");
        }
    }
    assert_eq!(
        read(reply, true),
        ParsedReply { objects: vec![], end: ReplyEnd::Truncated, left_out: 0, quoted: vec![] }
    );
}

/// Any JSON value, a few levels deep.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Eighths are exact, so that they survive printing and parsing.
        any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any_text(), inner), 0..6).prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    })
}

/// Any text, mostly made of what could confuse a reader of JSON.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[{}\\[\\]\"',:<>/`\\\\a \n\t\u{0}é]{0,12}", "</?think>|```[a-z]{0,3}\n|tool|args"]
}

/// Any JSON object, never a call.
fn any_final() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((any_text(), any_value()), 0..6)
        .prop_map(Map::from_iter)
        .prop_filter("a call", |object: &Map<String, Value>| !object.contains_key("tool"))
}

/// Prose that no rule looks at.
/// Text around an object, without a key of an object around that.
fn any_prose() -> impl Strategy<Value = String> {
    "[^{}`<>]{0,20}".prop_filter("a key", |prose| {
        let blank = |c: char| c.is_whitespace() || c == '\\';
        prose
            .split([':', '='])
            .rev()
            .skip(1)
            .all(|text| !text.trim_end_matches(blank).ends_with(['"', '\'', '“', '”', '„', '‘', '’']))
    })
}

/// A value printed with all the faults that can be repaired at once.
fn print_faulty(value: &Value, quote: char, json: &mut String) {
    match value {
        Value::Array(items) => {
            json.push('[');
            for item in items {
                print_faulty(item, quote, json);
                json.push_str(" ,\n");
            }
            json.push(']');
        }
        Value::Object(entries) => {
            json.push('{');
            for (key, value) in entries {
                print_faulty(&Value::from(key.as_str()), quote, json);
                json.push_str(" : ");
                print_faulty(value, quote, json);
                json.push_str(" ,\n");
            }
            json.push('}');
        }
        Value::String(text) => {
            json.push(quote);
            for c in text.chars() {
                match c {
                    '"' if quote == '\'' => json.push_str("\\u0022"),
                    '"' | '\\' => json.extend(['\\', c]),
                    '\'' if quote == '\'' => json.push_str("\\'"),
                    _ => json.push(c),
                }
            }
            json.push(quote);
        }
        plain => json.push_str(&plain.to_string()),
    }
}

proptest! {
    #[test]
    fn any_string_is_read_soundly(reply: String) {
        assert_sound(&reply);
    }

    #[test]
    fn any_json_like_string_is_read_soundly(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", "\"", "'", ":", ",", "\\", "\n", " ", "a", "1", "\0", "é",
                "{\"", "\"}", "{}", "{'a':'",
                "\"tool\":\"x\"", "\"args\":{}", "\"a\":1", "<think>", "</think>", "</Reasoning>",
                "<", "```", "```rust\n", "\n```\n",
            ]),
            0..60,
        ),
    ) {
        assert_sound(&parts.concat());
    }

    #[test]
    fn any_object_in_prose_is_found_with_its_bytes(
        object in any_final(), before in any_prose(), after in any_prose(), pretty: bool,
    ) {
        let object = Value::Object(object);
        let text = if pretty { format!("{object:#}") } else { object.to_string() };
        let reply = format!("{before}{text}{after}");
        assert_sound(&reply);
        prop_assert_eq!(read(&reply, false), ParsedReply { objects: vec![answer(&text)], end: ReplyEnd::Clean, left_out: 0, quoted: vec![] });
    }

    #[test]
    fn any_call_in_prose_is_found_and_no_prefix_of_it(
        tool in any_text(), args in any_final(), before in any_prose(), as_text: bool,
    ) {
        let args = Value::Object(args);
        let written = if as_text { Value::from(args.to_string()) } else { args.clone() };
        let text = json!({"tool": tool, "args": written}).to_string();
        let reply = format!("{before}{text}");
        prop_assert_eq!(read(&reply, false).objects, [call(&tool, args)]);
        for (end, _) in text.char_indices().skip(2) {
            let reading = read(&text[..end], false);
            prop_assert!(reading.objects.is_empty() && reading.end == ReplyEnd::Truncated, "{}", &text[..end]);
        }
    }

    #[test]
    fn any_repair_gives_the_value_back(object in any_final(), single: bool) {
        let object = Value::Object(object);
        let mut text = String::new();
        print_faulty(&object, if single { '\'' } else { '"' }, &mut text);
        let ParsedReply { objects, .. } = read(&text, false);
        let [Object::Final { text: mended, .. }] = objects.as_slice() else { panic!("{text}: {objects:?}") };
        prop_assert_eq!(serde_json::from_str::<Value>(mended).ok(), Some(object), "{}", text);
    }

    #[test]
    fn what_stands_inside_a_broken_object_is_never_found(object in any_final(), inner in any_final()) {
        let inner = json!({"tool": "x", "args": inner, "rest": object});
        let text = format!("{{\"a\": {inner} no json, \"b\": {inner}}}");
        prop_assert_eq!(read(&text, false).objects, [broken(ObjectProblem::NotJson)]);
    }
}

#[test]
fn any_bytes_are_read_soundly() {
    proptest!(|(bytes in proptest::collection::vec(any::<u8>(), 0..400))| assert_sound(&String::from_utf8_lossy(&bytes)));
}
