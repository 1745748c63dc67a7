//! Keeping a secret out of texts, in every form an answer may carry it.

/// A shorter text is not searched for: it would cut words apart.
pub(crate) const SHORTEST: usize = 6;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What is taken out of texts, and what stands there instead.
pub(crate) struct Redaction {
    /// Longest first, so that no form is broken by a part of itself.
    forms: Vec<String>,
    mark: String,
}

impl Redaction {
    /// Takes out these texts, as they are and as they are encoded.
    pub(crate) fn new<'a>(name: &str, texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms: Vec<String> = texts.into_iter().flat_map(forms).filter(|form| form.len() >= SHORTEST).collect();
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        forms.dedup();
        Self { forms, mark: format!("[secret {name}]") }
    }

    /// The text without the secret.
    pub(crate) fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for form in &self.forms {
            if text.contains(form.as_str()) {
                text = text.replace(form.as_str(), &self.mark);
            }
        }
        text
    }

    /// The text without the secret, where its end was cut off and may hold the beginning of one.
    pub(crate) fn clean_cut(&self, text: &str) -> String {
        let longest = self.forms.first().map_or(0, String::len);
        let keep = text.floor_char_boundary(text.len().saturating_sub(longest));
        self.clean(text.split_at(keep).0)
    }
}

fn forms(text: &str) -> Vec<String> {
    let mut forms = vec![text.to_owned()];
    for hex in ["0123456789ABCDEF", "0123456789abcdef"] {
        let digit = |value: u8| char::from(hex.as_bytes().get(usize::from(value)).copied().unwrap_or(b'0'));
        let pair = |byte: u8| [digit(byte >> 4), digit(byte & 15)];
        let percent = |keeps: fn(u8) -> bool| -> String {
            let one = |byte: u8| {
                if keeps(byte) { char::from(byte).to_string() } else { format!("%{}", String::from_iter(pair(byte))) }
            };
            text.bytes().map(one).collect()
        };
        let strict = percent(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~'));
        forms.push(strict.replace("%20", "+"));
        forms.push(strict);
        // As a path keeps them, and as JavaScript's encodeURI does.
        forms.push(percent(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?#".contains(&byte)));
        forms.push(text.bytes().flat_map(pair).collect());
    }
    for shift in 0..3 {
        let core = base64_core(text.as_bytes(), shift);
        forms.push(core.replace('+', "-").replace('/', "_"));
        forms.push(core);
    }
    let json = serde_json::Value::from(text).to_string();
    let json = json.trim_matches('"').to_owned();
    forms.push(json.replace('/', "\\/"));
    forms.push(json);
    forms
}

/// The characters of a Base64 text that `bytes` alone decide when `shift` bytes stand before them.
fn base64_core(bytes: &[u8], shift: usize) -> String {
    let shifted: Vec<u8> = std::iter::repeat_n(0, shift).chain(bytes.iter().copied()).collect();
    let bit = |at: usize| shifted.get(at / 8).map_or(0, |byte| (byte >> (7 - at % 8)) & 1);
    let decided = (shift * 8).div_ceil(6)..shifted.len() * 8 / 6;
    let sextet = |n: usize| (0..6).fold(0, |value: u8, i| value << 1 | bit(n * 6 + i));
    decided.map(|n| char::from(BASE64.get(usize::from(sextet(n))).copied().unwrap_or(b'A'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "s3cr3t/K€y+42?x";

    #[test]
    fn every_form_of_a_secret_is_taken_out() {
        let redaction = Redaction::new("rpc", [SECRET]);
        let forms = [
            SECRET,
            "s3cr3t%2FK%E2%82%ACy%2B42%3Fx",
            "s3cr3t%2fK%e2%82%acy%2b42%3fx",
            "s3cr3t/K%E2%82%ACy+42?x",
            "czNjcjN0L0vigqx5KzQyP3g=",
            "s3cr3t\\/K€y+42?x",
            "7333637233742f4be282ac792b34323f78",
        ];
        for form in forms {
            let clean = redaction.clean(&format!("a {form} b {form}"));
            assert_eq!(clean.matches("[secret rpc]").count(), 2, "{form}: {clean}");
            assert!(!clean.contains("3cr3t") && !clean.contains("cr3"), "{form}: {clean}");
        }
    }

    #[test]
    fn a_secret_is_found_in_base64_wherever_it_stands() {
        let redaction = Redaction::new("key", ["hunter2-hunter2"]);
        // "x:…", "xy:…" and "xyz:…", as `Basic` sends them.
        for encoded in ["eDpodW50ZXIyLWh1bnRlcjI=", "eHk6aHVudGVyMi1odW50ZXIy", "eHl6Omh1bnRlcjItaHVudGVyMg=="] {
            assert!(redaction.clean(encoded).contains("[secret key]"), "{encoded}: {}", redaction.clean(encoded));
        }
    }

    #[test]
    fn the_beginning_of_a_secret_does_not_survive_a_cut() {
        let redaction = Redaction::new("key", ["hunter2-hunter2"]);
        let clean = redaction.clean_cut(&format!("{} hunter2-hunt", "word ".repeat(40)));
        assert!(clean.starts_with("word word") && !clean.contains("hunter"), "{clean}");
    }
}
