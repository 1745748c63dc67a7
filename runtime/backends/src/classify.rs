//! What kind of failure an endpoint reports.
//!
//! Pure: a status and the error it came with in, an [`ErrorClass`] out. Vendors agree on statuses more
//! than on names and on names more than on sentences, so they are looked at in that order, except
//! where a vendor is known to hide one failure behind the status of another.

use std::time::Duration;

use serde_json::Value;

use super::ErrorClass;

/// The longest an endpoint is believed when it says when to ask again.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// An error as an endpoint tells it, in whichever shape.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fault {
    /// What it says to people.
    pub(super) message: String,
    /// Its `code` and `type`, and the names it has deeper down, in lower case.
    names: Vec<String>,
    /// Its `code` where that is a status.
    status: Option<u16>,
    /// Everything it says, in lower case, to look for wordings in.
    words: String,
}

impl Fault {
    /// The fault in a body that may be a good reply as well: only what is unmistakable counts.
    pub(super) fn in_reply(body: &Value) -> Option<Self> {
        let body = unwrapped(body);
        match body.get("error") {
            None | Some(Value::Null | Value::Bool(false)) => {
                let says_error = |key| body.get(key).and_then(Value::as_str) == Some("error");
                (says_error("object") || says_error("type")).then(|| Self::from_object(body))
            }
            Some(Value::String(text)) if text.is_empty() => None,
            Some(Value::Object(object)) if object.is_empty() => None,
            Some(Value::Bool(true)) => Some(Self::from_object(body)),
            Some(error) => Some(Self::from_error(error)),
        }
    }

    /// The fault in the body of a response whose status is already an error's.
    pub(super) fn in_failure(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::in_reply(&value).unwrap_or_else(|| Self::from_object(unwrapped(&value))),
            Err(_) if body.trim_start().starts_with('<') => {
                Self { message: "(an HTML page)".into(), words: body.to_lowercase(), ..Self::default() }
            }
            Err(_) => Self::from_text(body),
        }
    }

    /// A fault that is a sentence and nothing else.
    pub(super) fn from_text(text: &str) -> Self {
        Self { message: text.trim().to_owned(), words: text.to_lowercase(), ..Self::default() }
    }

    /// A fault from the value of an `error` field: an object, a sentence, or anything else.
    pub(super) fn from_error(error: &Value) -> Self {
        match error {
            Value::String(text) => Self::from_text(text),
            _ => Self::from_object(error),
        }
    }

    fn from_object(error: &Value) -> Self {
        let message = ["message", "detail", "msg", "title"]
            .iter()
            .find_map(|key| error.get(key))
            .map_or_else(|| error.to_string(), |said| said.as_str().map_or_else(|| said.to_string(), str::to_owned));
        // Routers put what the model's own vendor said below `metadata`.
        let message = match error.pointer("/metadata/raw").and_then(Value::as_str) {
            Some(raw) => format!("{message}: {raw}"),
            None => message,
        };
        let code = error.get("code");
        let status = code
            .and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()))
            .and_then(|code| u16::try_from(code).ok())
            .filter(|code| (400..600).contains(code));
        let names = ["/code", "/type", "/details/error_code", "/innererror/code", "/status"]
            .iter()
            .filter_map(|path| error.pointer(path)?.as_str())
            .map(str::to_lowercase)
            .collect();
        Self { message, names, status, words: error.to_string().to_lowercase() }
    }

    /// Whether any wording of `list` is in it.
    pub(super) fn mentions(&self, list: &[&str]) -> bool {
        list.iter().any(|wording| self.words.contains(wording))
    }

    fn is_named(&self, list: &[&str]) -> bool {
        self.names.iter().any(|name| list.contains(&name.as_str()))
    }

    /// The status its names stand for, for errors that came inside a status 200.
    fn implied_status(&self) -> u16 {
        const NAMES: &[(u16, &[&str])] = &[
            (401, &["authentication_error", "invalid_api_key", "unauthorized", "unauthenticated"]),
            (402, &["billing_error", "insufficient_credits", "payment_required"]),
            (403, &["permission_error", "permission_denied", "forbidden"]),
            (404, &["not_found_error", "model_not_found", "not_found"]),
            (408, &["timeout_error", "timeout", "deadline_exceeded"]),
            (413, &["request_too_large"]),
            (429, &["rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "too_many_requests"]),
            (400, &["invalid_request_error", "invalid_argument", "bad_request", "badrequesterror"]),
            (503, &["overloaded_error", "unavailable", "service_unavailable"]),
        ];
        let named = NAMES.iter().find(|(_, names)| self.is_named(names)).map(|(status, _)| *status);
        self.status.or(named).unwrap_or(500)
    }
}

/// Some gateways wrap their one error in a list.
fn unwrapped(body: &Value) -> &Value {
    body.as_array().and_then(|list| list.first()).unwrap_or(body)
}

/// The account is the matter, whatever the status says.
const BILLING_NAMES: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "enforced_spend_limit_reached",
    "insufficient_credits",
    "billing_error",
];
const BILLING_WORDS: &[&str] = &["insufficient_quota", "credit balance is too low", "insufficient balance"];

/// How vendors say that a conversation does not fit.
const OVERFLOW_WORDS: &[&str] = &[
    "context_length_exceeded",      // OpenAI, Groq
    "maximum context length",       // OpenAI, vLLM, DeepSeek, Mistral, Ollama
    "prompt is too long",           // Anthropic
    "exceed context limit",         // Anthropic
    "exceed_context_size",          // llama.cpp
    "available context size",       // llama.cpp
    "context size has been",        // llama.cpp
    "maximum model length",         // vLLM
    "maximum prompt length",        // xAI
    "input token count",            // Gemini
    "too large for model with",     // Mistral
    "reduce the length of the",     // OpenAI, Groq
    "tokens + `max_new_tokens`",    // TGI
    "tokens + max_new_tokens",      // Together
    "greater than the context len", // LM Studio
    "context length of only",       // LM Studio
    "range of input length",        // Qwen
    "input is too long",            // Bedrock
    "exceeds the context window",   // OpenAI, responses
    "context window exceeded",      // gateways
    "context_window_exceeded",      // gateways
];

const POLICY_NAMES: &[&str] = &["content_filter", "content_policy_violation", "responsibleaipolicyviolation"];
const POLICY_WORDS: &[&str] =
    &["moderation", "guardrail", "flagged", "content policy", "content_policy", "content management policy"];

const MODEL_NAMES: &[&str] = &["model_not_found", "model_not_available"];
const MODEL_WORDS: &[&str] = &["is not a valid model", "model not found"];

/// The class of a failure with this status; a status below 400 means that the error came inside
/// a response that was good by its status.
pub(super) fn class_of(status: u16, fault: &Fault) -> ErrorClass {
    let status = if status < 300 { fault.implied_status() } else { status };
    let broke = || fault.is_named(BILLING_NAMES) || fault.mentions(BILLING_WORDS);
    match status {
        400 | 403 | 422 | 429 if broke() => ErrorClass::Billing,
        // llama.cpp has answered 500 to a conversation that is too long, gateways 413.
        400 | 413 | 422 | 500 if fault.mentions(OVERFLOW_WORDS) => ErrorClass::ContextOverflow,
        400 | 422 if fault.is_named(POLICY_NAMES) => ErrorClass::ContentPolicy,
        400 | 422 if fault.is_named(MODEL_NAMES) || fault.mentions(MODEL_WORDS) => ErrorClass::ModelNotFound,
        403 if fault.is_named(POLICY_NAMES) || fault.mentions(POLICY_WORDS) => ErrorClass::ContentPolicy,
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::Billing,
        404 => ErrorClass::ModelNotFound,
        408 | 524 => ErrorClass::Timeout,
        413 => ErrorClass::PayloadTooLarge,
        429 => ErrorClass::RateLimit,
        503 | 529 => ErrorClass::Overloaded,
        500.. => ErrorClass::Server,
        _ => ErrorClass::BadRequest,
    }
}

/// When the endpoint wants to be asked again: in seconds, in milliseconds, or as a date. A date is compared with the one of
/// the answer itself, so that clocks that do not agree make no difference; without one it is not read.
pub(super) fn retry_after<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Duration> {
    let number = |name: &str| header(name)?.trim().parse::<f64>().ok();
    let seconds = match number("retry-after-ms") {
        Some(milliseconds) => milliseconds / 1000.0,
        None => match number("retry-after") {
            Some(seconds) => seconds,
            // One that has passed is now.
            None => (date(header("retry-after")?)? - date(header("date")?)?).max(0) as f64,
        },
    };
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    // Capped before it is made a duration, which cannot hold every number.
    Duration::try_from_secs_f64(seconds.min(LONGEST_WAIT.as_secs_f64())).ok()
}

/// An HTTP date, in seconds since 1970.
fn date(text: &str) -> Option<i64> {
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim());
    parsed.ok().map(|moment| moment.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorClass::*;

    #[test]
    fn statuses_and_bodies_have_their_class() {
        let table: &[(u16, &str, ErrorClass)] = &[
            (401, r#"{"error":{"message":"bad key","code":"invalid_api_key"}}"#, Auth),
            (403, r#"{"error":{"message":"no access to this project"}}"#, Auth),
            (
                403,
                r#"{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["x"]}}}"#,
                ContentPolicy,
            ),
            (403, r#"{"error":{"code":403,"message":"blocked by a guardrail"}}"#, ContentPolicy),
            (403, r#"{"error":{"message":"requires moderation"}}"#, ContentPolicy),
            (402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, Billing),
            (404, "", ModelNotFound),
            (404, "<html>nginx</html>", ModelNotFound),
            (400, r#"{"error":{"message":"acme/x is not a valid model ID","code":400}}"#, ModelNotFound),
            (408, "", Timeout),
            (524, "", Timeout),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                PayloadTooLarge,
            ),
            (413, r#"{"error":{"message":"prompt is too long"}}"#, ContextOverflow),
            (
                429,
                r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
                RateLimit,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                Billing,
            ),
            (
                429,
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
                Billing,
            ),
            (429, r#"{"error":{"message":"too many tokens, reduce the length of the messages"}}"#, RateLimit),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
                Billing,
            ),
            (400, r#"{"error":{"code":"content_filter","message":"The response was filtered"}}"#, ContentPolicy),
            (400, r#"{"error":{"message":"unknown field"}}"#, BadRequest),
            (400, "no", BadRequest),
            (405, "", BadRequest),
            (409, "", BadRequest),
            (307, "", BadRequest),
            (422, r#"{"detail":[{"loc":["body","x"],"msg":"extra"}]}"#, BadRequest),
            (500, r#"{"error":{"message":"the request exceeds the available context size"}}"#, ContextOverflow),
            (500, "", Server),
            (502, "<html>bad gateway</html>", Server),
            (504, "", Server),
            (520, "", Server),
            (503, "", Overloaded),
            (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overloaded),
        ];
        for (status, body, class) in table {
            assert_eq!(class_of(*status, &Fault::in_failure(body)), *class, "{status} {body}");
        }
    }

    #[test]
    fn every_vendors_wording_of_a_conversation_that_does_not_fit_is_known() {
        for wording in [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "the request exceeds the available context size (4096 tokens), try increasing it",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "Please reduce the length of the messages or completion.",
            "`inputs` tokens + `max_new_tokens` must be <= 8192",
            "The number of tokens to keep from the initial prompt is greater than the context length",
            "Range of input length should be [1, 30720]",
            "Input is too long for requested model.",
            "Your input exceeds the context window of this model.",
        ] {
            let body = serde_json::json!({"error": {"message": wording}}).to_string();
            assert_eq!(class_of(400, &Fault::in_failure(&body)), ContextOverflow, "{wording}");
        }
    }

    #[test]
    fn an_error_inside_a_good_status_is_classed_by_its_code_or_name() {
        let table: &[(&str, ErrorClass)] = &[
            (r#"{"error":{"code":429,"message":"slow down"}}"#, RateLimit),
            (r#"{"error":{"code":"429","message":"slow down"}}"#, RateLimit),
            (r#"{"error":{"code":402,"message":"credits"}}"#, Billing),
            (r#"{"error":{"code":502,"message":"upstream"}}"#, Server),
            (r#"{"error":{"message":"no code"}}"#, Server),
            (r#"{"error":"a plain sentence"}"#, Server),
            (r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#, ContextOverflow),
            (r#"{"error":{"code":"rate_limit_exceeded","message":"x"}}"#, RateLimit),
            (r#"{"error":{"code":7,"message":"x"}}"#, Server),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overloaded),
            (r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#, Server),
            (r#"{"type":"error","error":{"type":"authentication_error","message":"x"}}"#, Auth),
            (r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#, BadRequest),
            (r#"[{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#, Overloaded),
        ];
        for (body, class) in table {
            let fault = Fault::in_reply(&serde_json::from_str(body).unwrap()).unwrap();
            assert_eq!(class_of(200, &fault), *class, "{body}");
        }
    }

    #[test]
    fn a_good_reply_has_no_fault() {
        for body in
            [r#"{"choices":[]}"#, r#"{"error":null}"#, r#"{"error":""}"#, r#"{"error":{}}"#, r#"{"type":"message"}"#]
        {
            assert_eq!(Fault::in_reply(&serde_json::from_str(body).unwrap()), None, "{body}");
        }
    }

    #[test]
    fn a_fault_says_what_the_endpoint_said() {
        let table = [
            (r#"{"error":{"message":"m","metadata":{"raw":"upstream said no"}}}"#, "m: upstream said no"),
            (r#"{"error":"plain"}"#, "plain"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"detail":[{"msg":"extra"}]}"#, r#"[{"msg":"extra"}]"#),
            (r#"{"error":{"why":1}}"#, r#"{"why":1}"#),
            (" some text \n", "some text"),
            ("<!doctype html><p>x", "(an HTML page)"),
        ];
        for (body, message) in table {
            assert_eq!(Fault::in_failure(body).message, message, "{body}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_milliseconds_and_capped() {
        let asked = |pairs: &'static [(&'static str, &'static str)]| {
            retry_after(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
        };
        assert_eq!(asked(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(asked(&[("retry-after", " 1.5 ")]), Some(Duration::from_millis(1500)));
        assert_eq!(asked(&[("retry-after-ms", "250"), ("retry-after", "9")]), Some(Duration::from_millis(250)));
        assert_eq!(asked(&[("retry-after", "86400")]), Some(LONGEST_WAIT));
        assert_eq!(asked(&[("retry-after", "1e300")]), Some(LONGEST_WAIT));
        assert_eq!(asked(&[("retry-after", "inf")]), None);
        assert_eq!(asked(&[("retry-after", "-3")]), None);
        assert_eq!(asked(&[]), None);
    }

    #[test]
    fn retry_after_is_read_as_a_date_against_the_date_of_the_answer() {
        let asked = |date: Option<&'static str>, after: &'static str| {
            retry_after(|name| match name {
                "date" => date,
                "retry-after" => Some(after),
                _ => None,
            })
        };
        let now = Some("Wed, 21 Oct 2026 07:27:30 GMT");
        assert_eq!(asked(now, "Wed, 21 Oct 2026 07:28:00 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(asked(now, "Wed, 21 Oct 2026 07:27:00 GMT"), Some(Duration::ZERO), "it has passed");
        assert_eq!(asked(now, "Thu, 22 Oct 2026 07:28:00 GMT"), Some(LONGEST_WAIT), "a day is too long");
        assert_eq!(asked(now, "soon"), None);
        assert_eq!(asked(Some("a while ago"), "Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(asked(None, "Wed, 21 Oct 2026 07:28:00 GMT"), None, "nothing to compare it with");
    }
}
