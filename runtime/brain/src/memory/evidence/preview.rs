//! A text as evidence.

use std::borrow::Cow;

use crate::redact::{cut_off, scrub};
use crate::text;

/// The most characters of a preview.
pub(super) const PREVIEW_CHARS: usize = 500;
/// How much of a text is looked through for secrets: one that begins where the preview ends is still whole.
const LOOKED_AT_CHARS: usize = 2_000;

/// A text as evidence: without secrets and control characters, on one line, and bounded.
pub fn preview(text: &str) -> String {
    let looked_at = match text.char_indices().nth(LOOKED_AT_CHARS) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    };
    // A control character inside a secret would hide it, and so would a letter that goes with an escape: so
    // secrets are looked for before and after those are taken away.
    let before = if looked_at.contains(char::is_control) { Cow::Owned(scrub(looked_at)) } else { looked_at.into() };
    let looked_at = text::without_escapes(&before);
    let looked_at = printable(&looked_at);
    let clean = match looked_at.strip_suffix('…') {
        Some(cut) => format!("{}…", scrub(&without_half_secret(cut))),
        None => scrub(&looked_at),
    };
    text::line(&clean, PREVIEW_CHARS - 1)
}

/// The text without control characters but those that are white space.
fn printable(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && !c.is_whitespace();
    match text.contains(is_bad) {
        true => text.chars().filter(|c| !is_bad(*c)).collect::<String>().into(),
        false => text.into(),
    }
}

/// A text that was cut, and perhaps inside a secret: what is left of that no longer looks like one.
fn without_half_secret(cut: &str) -> Cow<'_, str> {
    match cut_off(cut) {
        Some(start) => format!("{}[redacted]", cut.get(..start).unwrap_or_default()).into(),
        None => cut.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Secrets of every shape that is promised to be kept out, each around the same marked middle.
    fn secrets() -> Vec<String> {
        let mark = "Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Z";
        vec![
            format!("sk-ant-{mark}"),
            format!("ghp_{mark}"),
            format!("xoxb-{mark}"),
            format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{mark}"),
            format!("-----BEGIN RSA PRIVATE KEY-----\n{mark}\n-----END RSA PRIVATE KEY-----"),
            format!("postgres://app:{mark}@db.internal:5432/prod"),
            format!("Authorization: Basic {mark}"),
            format!("authorization: Bearer {mark}"),
            format!("AWS_SECRET_ACCESS_KEY={mark}"),
            format!("export DB_PASSWORD='{mark}'"),
            format!("{{\"api_key\": \"{mark}\"}}"),
            format!("{{\\\"password\\\":\\\"{mark}\\\"}}"),
            format!("Cookie: session={mark}"),
        ]
    }

    proptest! {
        #[test]
        fn no_planted_secret_survives(
            before in "[a-z .,:{}\\[\\]\"\n\u{0}\u{1b}]{0,60}",
            which in 0_usize..13,
            after in "[ ,;\n\"'}\\])][a-zA-Z0-9 =:/\n\u{0}]{0,900}",
        ) {
            let secret = secrets().swap_remove(which);
            let kept = preview(&format!("{before} {secret}{after}"));
            prop_assert!(!kept.contains("Zq7Z"), "{kept}");
            prop_assert!(kept.chars().count() <= PREVIEW_CHARS && !kept.contains(char::is_control));
        }

        #[test]
        fn a_secret_at_the_edge_of_what_is_looked_at_does_not_survive(
            pad in 1_900_usize..2_010, which in 0_usize..4,
        ) {
            let secret = secrets().swap_remove(which);
            let kept = preview(&format!("{} {secret}", "x".repeat(pad)));
            prop_assert!(!kept.contains("Zq7Z"), "{kept}");
        }
    }

    #[test]
    fn what_was_cut_inside_a_secret_before_is_taken_for_one() {
        assert_eq!(preview("key sk-ant-a1B2a1B2…"), "key [redacted]…");
    }
}
