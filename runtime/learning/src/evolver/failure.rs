//! Whether a tool's result says that it failed: by its structure where it has one, and by its words
//! only where it has none. English and Chinese.

use serde_json::Value;

/// How much of a text is judged: a failure is said early, and this bounds the work.
pub const JUDGED_CHARS: usize = 16_384;

/// What failures say of themselves.
const FAILURES: [&str; 23] = [
    "traceback (most recent call last)",
    "exception:",
    "error:",
    "error ",
    "error[",
    "fatal:",
    "panicked at",
    "command failed",
    "failed with",
    "failed to ",
    "test failed",
    "tests failed",
    "build failed",
    "assertion failed",
    "timed out",
    "segmentation fault",
    "core dumped",
    "permission denied",
    "no such file or directory",
    "non-zero exit",
    "nonzero exit",
    "command not found",
    "connection refused",
];
/// The same in Chinese.
const FAILURES_ZH: [&str; 6] = ["失败", "报错", "异常退出", "出错", "请求超时", "连接超时"];
/// What makes a word of failure say the opposite.
const DENIALS: [&str; 8] = ["0", "no", "zero", "without", "not", "never", "any", "fixed"];

/// Whether a result says that it failed.
pub fn result(said: &str) -> bool {
    let trimmed = said.trim_start();
    if trimmed.starts_with(['{', '[']) {
        // The first value; what follows it, if anything, is remarks.
        let first = serde_json::Deserializer::from_str(trimmed).into_iter::<Value>().next();
        if let Some(Ok(value)) = first
            && let Some(failed) = structure(&value)
        {
            return failed;
        }
    }
    text(said)
}

/// What the structure of a result says; `None` where it says nothing, as a text or a number.
pub fn structure(value: &Value) -> Option<bool> {
    let fields = match value {
        Value::Object(fields) => fields,
        // A list failed where everything in it did.
        Value::Array(many) => return Some(!many.is_empty() && many.iter().all(|one| structure(one) == Some(true))),
        _ => return None,
    };
    let is_set = |name: &str| match fields.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Array(many)) => !many.is_empty(),
        Some(Value::Object(many)) => !many.is_empty(),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::Bool(true)) => true,
    };
    let is_bad_code = |name: &str| match fields.get(name) {
        Some(Value::String(text)) => text.trim() != "0" && !text.trim().is_empty(),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        _ => false,
    };
    let is_http_error =
        |name: &str| fields.get(name).and_then(Value::as_u64).is_some_and(|code| (400..600).contains(&code));
    let says_no = |name: &str| fields.get(name) == Some(&Value::Bool(false));
    let says_yes = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    Some(
        is_set("error")
            || is_set("exception")
            || ["success", "ok"].into_iter().any(says_no)
            || ["is_error", "isError"].into_iter().any(says_yes)
            || ["exit_code", "exitCode", "returncode"].into_iter().any(is_bad_code)
            || is_set("errors")
            || ["statusCode", "status_code"].into_iter().any(is_http_error)
            || is_http_error("status")
            || fields.get("status").and_then(Value::as_str).is_some_and(|status| {
                ["error", "failed", "failure"].iter().any(|word| status.eq_ignore_ascii_case(word))
            }),
    )
}

/// Whether the text says of itself that something failed; "0 errors" does not.
pub fn text(text: &str) -> bool {
    let text: String = text.chars().take(JUDGED_CHARS).flat_map(char::to_lowercase).collect();
    let is_denied = |at: usize| {
        let before = text.get(..at).unwrap_or_default();
        let word = before.split_whitespace().next_back().unwrap_or_default();
        DENIALS.contains(&word.trim_matches(|c: char| !c.is_alphanumeric()))
    };
    let said = FAILURES.iter().any(|phrase| {
        text.match_indices(phrase).any(|(at, _)| {
            let begins =
                text.get(..at).and_then(|before| before.chars().next_back()).is_none_or(|c| c != '-' && c != '/');
            let is_loose = *phrase == "error ";
            // A bare "error" says little; followed by a number or a code it names one.
            let names_one = || {
                let rest = text.get(at + phrase.len()..).unwrap_or_default();
                rest.starts_with(|c: char| c.is_ascii_digit() || c == '[' || c == '(')
            };
            // "failed: 0" counts, and counts none.
            let counted = text.get(at + phrase.len()..).unwrap_or_default().trim_start_matches([' ', ':', '=']);
            let number: String = counted.chars().take_while(char::is_ascii_alphanumeric).collect();
            let counts_none = number == "0";
            begins && !is_denied(at) && !counts_none && (!is_loose || names_one())
        })
    });
    said || has_count(&text) || FAILURES_ZH.iter().any(|phrase| text.contains(phrase)) || has_bad_exit(&text)
}

/// "2 failed", "1 error", "FAILED tests/a.py".
fn has_count(text: &str) -> bool {
    let mut words =
        text.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | ')')).filter(|word| !word.is_empty());
    let mut before = words.next().unwrap_or_default();
    let begins_failed = text.lines().any(|line| line.starts_with("failed ") && line.contains('/'));
    begins_failed
        || words.any(|word| {
            let counted = before.bytes().all(|byte| byte.is_ascii_digit()) && before.bytes().any(|byte| byte != b'0');
            before = word;
            counted
                && matches!(word.trim_end_matches(['.', ':']), "failed" | "failure" | "failures" | "error" | "errors")
        })
}

/// "exit code 2", "exit status: 1", "exited with 3".
fn has_bad_exit(text: &str) -> bool {
    ["exit code", "exit status", "exit_code", "exited with code", "exited with"].iter().any(|phrase| {
        text.match_indices(phrase).any(|(at, _)| {
            let rest = text.get(at + phrase.len()..).unwrap_or_default();
            let rest = rest.trim_start_matches([' ', ':', '=', '"', '\'']);
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            !digits.is_empty() && digits.bytes().any(|digit| digit != b'0')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::result;

    #[test]
    fn structure_decides_before_words_do() {
        for said in [
            r#"{"success": true, "content": "error handling: 3 failed attempts"}"#,
            r#"{"exit_code": "0", "output": "Traceback (most recent call last)"}"#,
            r#"{"exit_code": 0} error: ignored tail"#,
            r#"{"error": null}"#,
            r#"{"error": ""}"#,
            r#"["error: one", "two"]"#,
            "[]",
            "0 errors, 12 passed",
            "no errors found",
            "finished without error: all good",
            "",
            "17",
            "tests failed: 0",
            "12 passed, 0 failed",
            "超时时间设置为30秒",
            r#"{"status": "ok", "errors": []}"#,
            r#"{"statusCode": 200}"#,
        ] {
            assert!(!result(said), "{said}");
        }
        for said in [
            r#"{"error": "not found"}"#,
            r#"{"success": false}"#,
            r#"{"ok": false}"#,
            r#"{"isError": true, "content": []}"#,
            r#"{"exit_code": 2, "output": "all good"}"#,
            r#"{"exit_code": "127"}"#,
            r#"[{"error": "a"}, {"success": false}]"#,
            "Traceback (most recent call last): ValueError",
            "error: no such flag",
            "bash: foo: command not found",
            "the command ended with exit code 3",
            "执行失败",
            "12 passed, 2 failed",
            "FAILED tests/a.py::b",
            "1 error generated.",
            r#"{"status": "error", "message": "no"}"#,
            r#"{"errors": ["a"]}"#,
            r#"{"statusCode": 500}"#,
            "{not json} error: broken",
        ] {
            assert!(result(said), "{said}");
        }
    }
}
