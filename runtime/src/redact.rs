//! Secrets in texts: found by the shapes that keys and tokens have. Conservative: a digest, a path or
//! a contract address is no secret.

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it looks like: `a private key`, `an API key`.
    pub what: &'static str,
    /// Where it begins, in bytes.
    pub start: usize,
    /// Where it ends, in bytes.
    pub end: usize,
}

/// Prefixes that only keys and tokens have, with the fewest characters that follow.
const PREFIXES: [(&str, usize, &str); 17] = [
    ("sk-ant-", 20, "an API key"),
    ("sk-proj-", 20, "an API key"),
    ("sk-or-", 20, "an API key"),
    ("sk_live_", 16, "an API key"),
    ("rk_live_", 16, "an API key"),
    ("sk-", 32, "an API key"),
    ("ghp_", 30, "an access token"),
    ("gho_", 30, "an access token"),
    ("ghs_", 30, "an access token"),
    ("github_pat_", 30, "an access token"),
    ("glpat-", 18, "an access token"),
    ("xoxb-", 20, "an access token"),
    ("xoxp-", 20, "an access token"),
    ("AKIA", 16, "an access key id"),
    ("AIza", 35, "an API key"),
    ("hf_", 30, "an access token"),
    ("npm_", 36, "an access token"),
];

/// Names whose value, when one is given right after, is a secret.
const NAMES: [&str; 10] = [
    "password",
    "passwd",
    "api_key",
    "apikey",
    "api-key",
    "secret_key",
    "access_token",
    "auth_token",
    "private_key",
    "client_secret",
];

/// A longer value is a text and no password.
const LONGEST_VALUE: usize = 512;

/// Every secret in a text, in order, without overlaps.
pub fn find(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    private_keys(text, &mut found);
    prefixed(text, &mut found);
    bearer(text, &mut found);
    named(text, &mut found);
    found.sort_by_key(|secret| (secret.start, usize::MAX - secret.end));
    let mut until = 0;
    found.retain(|secret| {
        let apart = secret.start >= until;
        until = until.max(secret.end);
        apart
    });
    found
}

/// The text with every secret in it replaced.
pub fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for secret in find(text) {
        clean.push_str(text.get(at..secret.start).unwrap_or_default());
        clean.push_str("[redacted]");
        at = secret.end;
    }
    clean.push_str(text.get(at..).unwrap_or_default());
    clean
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn token_end(text: &str, start: usize) -> usize {
    text.bytes().skip(start).position(|byte| !is_token(byte)).map_or(text.len(), |length| start + length)
}

/// Where the piece that begins at `start` ends: at a character that `ends` it, or after `most` bytes.
fn end_within(text: &str, start: usize, most: usize, ends: impl Fn(char) -> bool) -> usize {
    let mut limit = start.saturating_add(most).min(text.len());
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    text.get(start..limit).and_then(|piece| piece.find(ends)).map_or(limit, |length| start + length)
}

fn private_keys(text: &str, found: &mut Vec<Found>) {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("-----BEGIN ")) {
        let start = from + at;
        // A header is one short line; looking further each time would take quadratic time.
        let line_end = end_within(text, start, 100, |c| c == '\n');
        let is_private = text.get(start..line_end).is_some_and(|line| line.contains("PRIVATE KEY"));
        if is_private {
            let end = text.get(line_end..).and_then(|rest| rest.find("-----END ")).map_or(text.len(), |end| {
                let last = line_end + end;
                text.get(last..).and_then(|rest| rest.find('\n')).map_or(text.len(), |end| last + end)
            });
            found.push(Found { what: "a private key", start, end });
            from = end.max(start + 1);
        } else {
            from = line_end.max(start + 1);
        }
    }
}

fn prefixed(text: &str, found: &mut Vec<Found>) {
    for (prefix, least, what) in PREFIXES {
        let mut from = 0;
        while let Some(at) = text.get(from..).and_then(|rest| rest.find(prefix)) {
            let start = from + at;
            let after = start + prefix.len();
            let end = token_end(text, after);
            let begins = start == 0 || !text.as_bytes().get(start - 1).copied().is_some_and(is_token);
            if begins && end - after >= least {
                found.push(Found { what, start, end });
            }
            from = end.max(after);
        }
    }
}

fn bearer(text: &str, found: &mut Vec<Found>) {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("Bearer ")) {
        let start = from + at + "Bearer ".len();
        let end = token_end(text, start);
        if end - start >= 20 {
            found.push(Found { what: "a bearer token", start, end });
        }
        from = end.max(start);
    }
}

/// `password = "…"`: a name, a sign of assignment, and a value that is no placeholder.
fn named(text: &str, found: &mut Vec<Found>) {
    let lower = text.to_ascii_lowercase();
    for name in NAMES {
        let mut from = 0;
        while let Some(at) = lower.get(from..).and_then(|rest| rest.find(name)) {
            let after = from + at + name.len();
            from = after;
            let Some(rest) = text.get(after..) else { break };
            let value_at = rest.find(|c: char| !matches!(c, ' ' | '"' | '\'' | ':' | '=')).unwrap_or(rest.len());
            let between = rest.get(..value_at).unwrap_or_default();
            if !between.contains(['=', ':']) || between.contains('\n') {
                continue;
            }
            let start = after + value_at;
            let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | ')');
            let end = end_within(text, start, LONGEST_VALUE, ends);
            let value = text.get(start..end).unwrap_or_default();
            if looks_secret(value) {
                found.push(Found { what: "a password or key", start, end });
            }
        }
    }
}

/// Long enough, of more than one kind of character, and no placeholder.
fn looks_secret(value: &str) -> bool {
    let placeholder = value.starts_with(['<', '$', '{', '[', '%', '*']) || value.contains("...") || value.contains('…');
    value.len() >= 12
        && !placeholder
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tokens_are_found_and_nothing_else_is_touched() {
        let key = format!("sk-ant-{}", "a1B2".repeat(8));
        let cases = [
            (format!("use {key} here"), "use [redacted] here".to_owned()),
            (format!("Authorization: Bearer {}", "x9".repeat(20)), "Authorization: Bearer [redacted]".to_owned()),
            ("password = \"hunter2hunter2\"".to_owned(), "password = \"[redacted]\"".to_owned()),
            (
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\nrest".to_owned(),
                "[redacted]\nrest".to_owned(),
            ),
        ];
        for (text, clean) in cases {
            assert_eq!(redact(&text), clean);
        }
    }

    /// Quadratic time would show: each of these would take minutes.
    #[test]
    fn texts_made_to_be_slow_are_not() {
        for piece in
            ["password=", "-----BEGIN ", "-----BEGIN \n", "-----BEGIN PRIVATE KEY", "sk-", "Bearer ", "api_key: "]
        {
            find(&piece.repeat((1 << 20) / piece.len()));
        }
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        for text in [
            "the password: ask the operator",
            "api_key = ${API_KEY}",
            "0x52908400098527886E0F7030069857D2E4169EE7",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "task-sk-list and risk-averse",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            "password = 'changeme'",
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
