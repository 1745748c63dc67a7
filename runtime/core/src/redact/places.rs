//! Secrets by where they stand: behind a name that says secret, in a header, in an address, in the lines
//! of a private key.

use super::shapes::begins;
use super::value::{
    is_address, is_code, is_fingerprint, is_given, is_made_up, is_random, is_sample, is_stand_in, is_strong, is_uuid,
    is_wordy, looks_secret, says_stand_in,
};
use super::{Keeping, SecretMatch};

/// A longer value is a text and no password.
const LONGEST_VALUE: usize = 512;
/// The body of the shortest private key there is: Ed25519 in PKCS #8.
const SHORTEST_KEY: usize = 64;
/// The longest private key that is looked for.
const LONGEST_KEY: usize = 32 << 10;

/// Names that say that a secret follows, in parts: `api key` is also `api_key`, `api-key` and `apiKey`.
pub(super) const NAMES: [&str; 33] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "pass",
    "secret",
    "token",
    "api key",
    "api secret",
    "app key",
    "access key",
    "access key id",
    "account key",
    "secret key",
    "private key",
    "signing key",
    "shared key",
    "encryption key",
    "master key",
    "service key",
    "service role key",
    "license key",
    "subscription key",
    "auth key",
    "credential",
    "credentials",
    "dsn",
    "mnemonic",
    "seed phrase",
    "webhook url",
    "connection string",
    "_key",
    "auth",
];

/// Names of headers whose value is a credential.
pub(super) const HEADERS: [&str; 3] = ["authorization", "set-cookie", "cookie"];

/// How far a name's parts may stand apart.
pub(super) fn spellings(name: &str) -> Vec<String> {
    if !name.contains(' ') {
        return vec![name.to_owned()];
    }
    ["", "_", "-", " "].iter().map(|between| name.replace(' ', between)).collect()
}

/// Where the piece that begins at `start` ends: at a character that `ends` it, or after `most` bytes.
fn end_within(text: &str, start: usize, most: usize, ends: impl Fn(char) -> bool) -> usize {
    let limit = text.floor_char_boundary(start.saturating_add(most));
    text.get(start..limit).and_then(|piece| piece.find(ends)).map_or(limit, |length| start + length)
}

fn end_of_token(text: &str, start: usize) -> usize {
    let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '+' | '/' | '=');
    end_within(text, start, text.len(), |c| !is_token(c))
}

/// Whether a name at `start` is a tag whose content begins at `from` and ends with a closing tag.
fn is_element(text: &str, start: usize, from: usize) -> bool {
    let end = end_within(text, from, LONGEST_VALUE, |c| matches!(c, '<' | '\n'));
    text.get(..start).is_some_and(|before| before.ends_with(['<', ':', '_', '-']))
        && text.get(end..).is_some_and(|rest| rest.starts_with("</"))
}

/// Whether words go on behind an unquoted value: `pass: inspect the plan` assigns nothing.
fn is_sentence(text: &str, from: usize, until: usize) -> bool {
    let value = text.get(from..until).unwrap_or_default();
    let rest = text.get(until..).unwrap_or_default();
    let is_word = value.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '-' | '’' | '：' | '，'));
    is_word
        && (!value.is_ascii() || rest.trim_start_matches([' ', ',', '.', ':']).starts_with(char::is_alphabetic))
        && !rest.starts_with('\n')
}

/// What stands behind a name that ends at `after`: the value's place, and whether it is in quotes.
fn assigned(text: &str, start: usize, after: usize) -> Option<(usize, usize, bool)> {
    let bytes = text.as_bytes();
    let at = |n: usize| bytes.get(n).copied();
    // The name ends here, perhaps in quotes, brackets or emphasis.
    let mut sign = after;
    while sign - after < 8 && matches!(at(sign), Some(b' ' | b'\t' | b'"' | b'\'' | b'\\' | b']' | b'*' | b'`')) {
        sign += 1;
    }
    let is_flag = || {
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let length = bytes.iter().take(start).rev().take(40).take_while(is_name).count();
        bytes.get(start - length..start).is_some_and(|name| name.starts_with(b"--"))
    };
    let is_machine = || {
        let line = bytes.iter().take(start).rev().take(200).take_while(|byte| **byte != b'\n').count();
        let line = text.get(start - line..start).unwrap_or_default();
        line.contains("machine ") && line.contains("login ")
    };
    let mut from = match at(sign) {
        Some(b':') if at(sign + 1) == Some(b':') => return None,
        Some(b':') if text.get(sign + 1..).is_some_and(|rest| rest.starts_with("//")) => return None,
        Some(b'=') if at(sign + 1) == Some(b'=') => return None,
        Some(b':' | b'=') => sign + 1,
        Some(b'>') if sign == after && is_element(text, start, sign + 1) => sign + 1,
        Some(_) if sign > after && text.get(sign..).is_some_and(|rest| rest.starts_with("is ")) => sign + 3,
        Some(_) if sign > after && (is_flag() || is_machine()) => sign - 1,
        _ => return None,
    };
    while matches!(at(from), Some(b' ' | b'\t' | b'=' | b'>' | b'\\' | b'*')) {
        from += 1;
    }
    let mut quote = at(from).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    // f"…", b'…' and their like.
    if quote.is_none() && at(from).is_some_and(|byte| matches!(byte, b'f' | b'b' | b'r' | b'u')) {
        quote = at(from + 1).filter(|byte| matches!(byte, b'"' | b'\''));
        from += usize::from(quote.is_some());
    }
    let value = from + usize::from(quote.is_some());
    let is_marked = text.get(value..).is_some_and(|value| value.starts_with(['$', '{', '<', '[']));
    let ends = |c: char| match quote {
        Some(quote) => c == char::from(quote) || c == '\n',
        None if is_marked => c.is_whitespace() || matches!(c, '"' | '\'' | '`'),
        None => c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | ')' | '}' | '&' | '<'),
    };
    let end = end_within(text, value, LONGEST_VALUE, ends);
    (end > value).then_some((value, end, quote.is_some()))
}

/// A name that says secret stands at `start..end`: what is assigned to it.
pub(super) fn named(text: &str, start: usize, end: usize, keeping: Keeping) -> Option<SecretMatch> {
    let bytes = text.as_bytes();
    let name = text.get(start..end)?;
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if bytes.get(end).is_some_and(goes_on) {
        return None;
    }
    let is_apart = begins(bytes, start) || matches!(bytes.get(start.wrapping_sub(1)), Some(b'_' | b'-'));
    match name {
        // `monkey` is none, `SIGNING_KEY` is one.
        _ if name.eq_ignore_ascii_case("_key") && (name != "_KEY" || names_public(text, start)) => return None,
        _ if (name.eq_ignore_ascii_case("pass") || name.eq_ignore_ascii_case("dsn")) && !is_apart => return None,
        _ if name.eq_ignore_ascii_case("auth") && !matches!(bytes.get(start.wrapping_sub(1)), Some(b'_')) => {
            return None;
        }
        _ if keeping == Keeping::Text && name.eq_ignore_ascii_case("token") && names_place(text, start) => return None,
        _ if keeping == Keeping::Text && names_procedure(text, start) => return None,
        _ => {}
    }
    let (from, mut until, is_quoted) = assigned(text, start, end)?;
    if until - from + 4 > LONGEST_VALUE {
        // A key that is longer than a password is taken away to its end.
        until = end_of_token(text, until);
    }
    let value = text.get(from..until)?;
    let is_prose = name.contains(' ') || text.get(end..from).is_some_and(|between| between.contains("is "));
    let lower = name.to_ascii_lowercase();
    // In backticks stands code as often as a value.
    let is_string = is_quoted && bytes.get(until) != Some(&b'`');
    // Such a phrase is words, which nothing tells from other words.
    let is_phrase = matches!(lower.as_str(), "mnemonic" | "seed phrase" | "seed_phrase" | "seed-phrase" | "seedphrase");
    let looks = looks_secret(value, is_string) && !is_phrase;
    let sign = text.get(end..from).unwrap_or_default();
    let is_said = || !is_quoted && sign.contains(':') && !sign.contains('=') && is_sentence(text, from, until);
    let is_typed = || !is_quoted && matches!(bytes.get(until), Some(b'<' | b'(')) && !sign.contains('>');
    // Names that mean other things too want a value that is no word.
    let is_weak = || lower == "_key" || lower == "auth" || (lower == "pass" && sign.contains(':'));
    let is_variable = || !is_quoted && names_secret(value);
    let kept = match keeping {
        Keeping::Evidence if !is_prose => {
            let is_value = || is_given(value) && !is_code(value, is_quoted) && !says_stand_in(value);
            let is_other = || is_said() || is_typed() || is_variable();
            looks || (is_value() && !is_other() && !(is_weak() && (is_wordy(value) || !value.is_ascii())))
        }
        _ => looks,
    };
    // As MySQL and MariaDB show a password: a star and its digest.
    let is_digest = value.len() == 40
        && value.bytes().all(|byte| byte.is_ascii_hexdigit())
        && bytes.get(from.wrapping_sub(1)) == Some(&b'*');
    if is_digest && keeping == Keeping::Text {
        return None;
    }
    let is_password = lower.starts_with("pass") || lower == "pwd";
    // A person who can read an address of an image may see the image.
    let is_of_address = is_uuid(value.trim_end_matches(['>', ']', '.', '\\']))
        && matches!(bytes.get(start.wrapping_sub(1)), Some(b'?' | b'&' | b';'));
    // A token of a wallet is a coin, and a key that is shown by its fingerprint is not shown.
    let is_public = (lower == "token" && is_address(value)) || is_fingerprint(value);
    let is_real = !is_of_address && !is_public && (is_random(value) || (is_password && is_quoted && is_strong(value)));
    kept.then_some(SecretMatch { what: "a password or key", whose: "", start: from, end: until, sample: !is_real })
}

/// Whether a value is the name of a variable that holds a secret: `password=password`, `user.token = hashedToken`.
fn names_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    value.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.'))
        && ["password", "token", "key", "secret", "credential", "hash", "auth"].iter().any(|name| lower.contains(name))
}

/// Whether the name that goes on at `at` is that of a key for everyone: `PUBLIC_KEY`, `PUBLISHABLE_KEY`.
fn names_public(text: &str, at: usize) -> bool {
    text.get(..at).is_some_and(|before| before.ends_with("PUBLIC") || before.ends_with("PUBLISHABLE"))
}

/// Whether the name of a token that goes on at `at` is that of a place in a list, a state of a thing or a device, which
/// nobody gets in with: `nextPageToken`, `version_token`.
fn names_place(text: &str, at: usize) -> bool {
    const PLACES: [&str; 11] = [
        "page",
        "next",
        "continuation",
        "pagination",
        "cursor",
        "scroll",
        "resume",
        "sync",
        "version",
        "consistency",
        "device",
    ];
    let before = text.get(..at).unwrap_or_default().trim_end_matches(['_', '-']);
    let word = before.get(before.ceil_char_boundary(before.len().saturating_sub(12))..).unwrap_or_default();
    let word = word.to_ascii_lowercase();
    PLACES.iter().any(|place| word.ends_with(place))
}

/// Whether the name that goes on at `at` is that of a procedure, such as `generateAuthKey` or `listCredentials`, whose
/// digest, page or number stands behind it.
fn names_procedure(text: &str, at: usize) -> bool {
    const VERBS: [&str; 8] = ["generate", "recreate", "create", "list", "delete", "revoke", "validate", "verify"];
    let before = text.get(..at).unwrap_or_default();
    let nearest = before.get(before.ceil_char_boundary(before.len().saturating_sub(40))..).unwrap_or_default();
    let word = nearest.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let goes_on = text.get(at..).is_some_and(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
    let is_small = |c: char| c.is_ascii_lowercase();
    let begins = |verb: &str| word.strip_prefix(verb).is_some_and(|rest| !rest.starts_with(is_small));
    goes_on && VERBS.into_iter().any(begins)
}

/// `Bearer …`, with the token at `start`.
pub(super) fn bearer(text: &str, start: usize) -> Option<SecretMatch> {
    let end = end_of_token(text, start);
    let whole = text.get(start..end)?;
    let token = whole.trim_end_matches('.');
    let end = start + token.len();
    let is_token = token.len() >= 20 && !whole.contains("...") && !is_stand_in(token);
    let sample = !is_random(token) || is_sample(token);
    is_token.then_some(SecretMatch { what: "a bearer token", whose: "", start, end, sample })
}

/// `Basic …`, with a user and a password in base64 at `start`.
pub(super) fn basic(text: &str, start: usize) -> Option<SecretMatch> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    let end = end_of_token(text, start);
    let token = text.get(start..end)?;
    if !(12..LONGEST_VALUE).contains(&token.len()) {
        return None;
    }
    let plain =
        STANDARD_NO_PAD.decode(token.trim_end_matches('=')).ok().and_then(|plain| String::from_utf8(plain).ok())?;
    let (user, password) = plain.split_once(':')?;
    let is_pair = !plain.contains(char::is_control) && !is_dummy(user, password);
    let sample = !(is_random(password) || is_strong(password));
    is_pair.then_some(SecretMatch { what: "a password", whose: "", start, end, sample })
}

/// Whether a password stands in for one: `user:pass`, `postgres:postgres`, `root:`.
fn is_dummy(user: &str, password: &str) -> bool {
    const DUMMIES: [&str; 16] = [
        "pass",
        "password",
        "passwd",
        "pwd",
        "secret",
        "token",
        "key",
        "apikey",
        "api_key",
        "user",
        "guest",
        "root",
        "admin",
        "changeme",
        "x-oauth-basic",
        "xxx",
    ];
    let lower = password.to_ascii_lowercase();
    let letters: String = lower.replace("%40", "a").replace('@', "a").replace('0', "o").replace('$', "s");
    !is_given(password)
        || password.eq_ignore_ascii_case(user)
        || DUMMIES.contains(&lower.as_str())
        || DUMMIES.contains(&letters.as_str())
        || password.contains(['$', '{', '<', '[', '(', '*'])
        || (is_stand_in(password) && is_wordy_dummy(&lower))
}

/// Words of which at least one says that it is made up.
fn is_wordy_dummy(password: &str) -> bool {
    const WORDS: [&str; 10] =
        ["pass", "secret", "your", "my", "example", "changeme", "token", "key", "test", "placeholder"];
    WORDS.iter().any(|word| password.contains(word)) || password.chars().all(|c| c == 'x' || c == '*')
}

/// Addresses with a password in them: `postgres://user:password@host`, with the user at `start`. The match
/// is the password alone.
pub(super) fn address(text: &str, start: usize) -> Option<SecretMatch> {
    const LONGEST: usize = 512;
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>' | '`' | ',' | '|');
    let end = end_within(text, start, LONGEST, ends);
    let authority = text.get(start..end)?;
    let (user, host) = authority.rsplit_once('@')?;
    let (name, password) = user.split_once(':')?;
    if is_dummy(name, password) || host.contains(['(', '\\', '+']) || password.contains(")") {
        return None;
    }
    let at = start + name.len() + 1;
    let host = host.split(':').next().unwrap_or(host).to_ascii_lowercase();
    let is_nowhere = host == "localhost" || host.starts_with("127.") || host.contains("example") || host == "host";
    let plain = percent_decoded(password);
    let kinds = plain.bytes().any(|b| b.is_ascii_digit()) && plain.bytes().any(|b| b.is_ascii_alphabetic());
    let is_real = plain.chars().count() >= 8 && kinds && !is_stand_in(password) && !is_sample(password) && !is_nowhere;
    let end = at + password.len();
    Some(SecretMatch { what: "a password in an address", whose: "", start: at, end, sample: !is_real })
}

/// A text with `%2F` and its like as what they stand for.
fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let byte = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(byte.map_or('%', char::from));
        plain.push_str(piece.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default());
    }
    plain
}

/// A header whose value is a credential, up to the end of the line or of the quotation. Its name ends at `after`.
pub(super) fn header(text: &str, name: usize, after: usize) -> Option<SecretMatch> {
    const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "digest", "negotiate", "apikey"];
    if !(begins(text.as_bytes(), name) || text.as_bytes().get(name.wrapping_sub(1)) == Some(&b'-')) {
        return None;
    }
    let rest = text.get(after..)?;
    let value_at = rest.find(|c: char| !matches!(c, ' ' | '"' | '\'' | ':' | '=' | '\\'))?;
    let between = rest.get(..value_at)?;
    if !between.contains(['=', ':']) || between.contains('\n') {
        return None;
    }
    let start = after + value_at;
    let end = end_within(text, start, text.len(), |c| matches!(c, '\n' | '\r' | '"' | '\'' | '`'));
    let value = text.get(start..end)?;
    let (first, behind) = value.split_once(' ').unwrap_or((value, ""));
    let is_scheme = SCHEMES.iter().any(|scheme| first.eq_ignore_ascii_case(scheme));
    let credential = if is_scheme { behind } else { value };
    // `f"…"` and its like: the quotation behind the letter is what counts.
    let is_prefix = value.len() == 1 && text.get(end..=end).is_some_and(|quote| matches!(quote, "\"" | "'"));
    let is_harmless = is_prefix
        || value.starts_with('+')
        || is_code(credential.trim(), between.contains(':'))
        || (is_scheme && is_dummy("", credential.trim()));
    let is_kept = is_given(credential) && !is_harmless;
    is_kept.then_some(SecretMatch { what: "a credential", whose: "", start, end, sample: true })
}

/// A private key whose first line begins at `start`, with `-----BEGIN `.
pub(super) fn private_key(text: &str, start: usize) -> Option<SecretMatch> {
    let title = start + "-----BEGIN ".len();
    // A title is one short line; looking further each time would take quadratic time.
    let title_end = end_within(text, title, 60, |c| matches!(c, '-' | '\n'));
    if !text.get(title..title_end)?.contains("PRIVATE KEY") {
        return None;
    }
    let body = title_end + text.get(title_end..)?.bytes().take_while(|byte| *byte == b'-').count();
    let near = text.floor_char_boundary(body.saturating_add(LONGEST_KEY));
    let inside = text.get(body..near)?;
    let is_body = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || matches!(c, '+' | '/' | '=' | '\\' | '"');
    // Up to the next line of dashes, so that no two keys are looked for in the same place.
    let inside = inside.find("-----").map_or(inside, |dashes| inside.get(..dashes).unwrap_or_default());
    let (inside, end) = match text.get(body + inside.len()..)?.starts_with("-----END ").then_some(inside.len()) {
        Some(length) => {
            let last = body + length + "-----END ".len();
            let end = end_within(text, last, 60, |c| c == '\n');
            let line = text.get(last..end)?;
            (inside.get(..length)?, last + line.find("-----").map_or(line.len(), |at| at + 5))
        }
        // Cut short, or only the first line is spoken of.
        None => {
            let length = inside.find(|c| !is_body(c)).unwrap_or(inside.len());
            (inside.get(..length)?, body + length)
        }
    };
    let longest =
        inside.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '='))).map(str::len).max();
    let letters = inside.bytes().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')).count();
    let has_end = text.get(body + inside.len()..).is_some_and(|rest| rest.starts_with("-----END "));
    let is_there = longest.is_some_and(|longest| longest >= if has_end { 4 } else { 24 })
        && !inside.contains("...")
        && !inside.contains('…');
    let spoken_of = inside.split_whitespace().filter(|word| word.bytes().all(|b| b.is_ascii_lowercase())).count() > 3;
    let sample = letters < SHORTEST_KEY || is_made_up(inside) || is_stand_in(inside) || is_sample_body(inside);
    (is_there && !spoken_of).then_some(SecretMatch { what: "a private key", whose: "", start, end, sample })
}

/// Whether the body of a key is made of one repeated piece, or of words.
fn is_sample_body(inside: &str) -> bool {
    let lines = inside.lines().map(str::trim).filter(|line| line.len() >= 16);
    let mut lines = lines.peekable();
    lines.peek().is_some() && lines.all(is_sample)
}
