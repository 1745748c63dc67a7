//! What a text that stands where a secret does looks like: a secret, a sample of one, a word, or code.

/// Words that say that something else is to be put here.
const STAND_INS: [&str; 24] = [
    "your",
    "example",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "replace",
    "insert",
    "xxxx",
    "redacted",
    "dummy",
    "sample",
    "here",
    "todo",
    "fake",
    "mock",
    "****",
    "...",
    "…",
    "<",
    "{{",
    "${",
    "000000",
    "notreal",
];

/// Words that stand beside those.
const COMPANIONS: [&str; 26] = [
    "key", "keys", "api", "apikey", "token", "secret", "password", "pass", "my", "me", "this", "is", "a", "the", "not",
    "real", "test", "demo", "value", "change", "use", "put", "with", "goes", "only", "for",
];

/// Marks that say that something was left out.
const GAPS: [&str; 2] = ["...", "…"];

/// Marks around what is filled in by a person or a machine.
const FILLED: [(&str, &str); 7] =
    [("<%", "%>"), ("<", ">"), ("{{", "}}"), ("${", "}"), ("#{", "}"), ("$(", ")"), ("****", "*")];

/// Words that people make up secrets from.
const MADE_UP: [&str; 37] = [
    "secret",
    "password",
    "passwd",
    "token",
    "apikey",
    "test",
    "demo",
    "admin",
    "hunter",
    "welcome",
    "letmein",
    "qwerty",
    "foobar",
    "deadbeef",
    "cafebabe",
    "abc123",
    "user",
    "strong",
    "secure",
    "super",
    "string",
    "value",
    "random",
    "private",
    "public",
    "invalid",
    "wrong",
    "correct",
    "horse",
    "postgres",
    "mysql",
    "pass",
    // What a value would be is no value.
    "base64",
    "encoded",
    // What a rule of passwords asks for.
    "special",
    "uppercase",
    "lowercase",
];

/// Published samples that everyone copies.
const PUBLISHED: [&str; 27] = [
    "eyJzdWIiOiIxMjM0NTY3ODkw",
    "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    "4eC39HqLyjWDarjtT1zdp7dc",
    "BQokikJOvBiI2HlWgH4olfQ2",
    "wJalrXUtnFEMI",
    "dGhpcyBpcyBhIHNlY3JldA",
    // The keys of the emulators of Azure Storage and Cosmos DB.
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1",
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEH",
    // The tokens, passwords and secrets of RFC 5849, 6749, 6750 and 7009.
    "ad180jjd733klru7",
    "kd94hf93k423kf44",
    "pfkkdhi9sl3r4s00",
    "nnch734d00sl2jdk",
    "gX1fBat3bV",
    "7Fjfp0ZBr1KtDRbnfVdmIw",
    "2YotnFZFEjr1zCsicMWpAA",
    "tGzv3JOkF0XG5Qx2TlKWIA",
    "SplxlOBeZQQYbYS6WxSbIA",
    "45ghiukldjahdnhzdauz",
    // The key of the tutorial of FastAPI.
    "09d25e094faa6ca2556c818166b7a956",
    // The secret of every page on one-time passwords.
    "JBSWY3DPEHPK3PXP",
    // The UUIDs of encyclopedias, standards and the manuals of generators.
    "550e8400-e29b-41d4-a716-",
    "123e4567-e89b-12d3-a456-",
    "f81d4fae-7dec-11d0-a765-",
    "6ba7b810-9dad-11d1-80b4-",
    "3fa85f64-5717-4562-b3fc-",
    "7c9e6679-7425-40de-944b-",
    "9b1deb4d-3b7d-4bad-9bdd-",
];

/// There, and no placeholder: `$NAME`, `${NAME}`, `<name>`, `{name}`, `[redacted]`, `%NAME%`, `***`.
pub(super) fn is_given(value: &str) -> bool {
    let named = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-. ".contains(c));
    let between =
        |open: &str, close: &str| value.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)).is_some_and(named);
    let variable = value.strip_prefix('$').is_some_and(|name| named(name) && !name.contains(['-', '.', ' ']));
    let placeholder = variable
        || value.starts_with("[redacted]")
        || [("${", "}"), ("<", ">"), ("{{", "}}"), ("{", "}"), ("[", "]"), ("%", "%")]
            .iter()
            .any(|(a, b)| between(a, b))
        || value.chars().all(|c| matches!(c, '*' | 'x' | '.' | '…' | '-'))
        || value.contains("...")
        || value.contains('…');
    value.contains(char::is_alphanumeric) && !placeholder
}

/// Whether a text is code that gets a value, and not the value: a call, a variable, an address, a path, a type.
pub(super) fn is_code(value: &str, is_quoted: bool) -> bool {
    const WORDS: [&str; 24] = [
        "null",
        "none",
        "nil",
        "true",
        "false",
        "undefined",
        "string",
        "str",
        "text",
        "number",
        "bool",
        "boolean",
        "required",
        "optional",
        "any",
        "object",
        "bytes",
        "int",
        "await",
        "new",
        "async",
        "function",
        "this",
        "self",
    ];
    let lower = value.to_ascii_lowercase();
    let plain = lower.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let references = ["://", "process.env", "os.environ", "os.getenv", "secrets.", "op://"];
    if WORDS.contains(&plain) || references.iter().any(|mark| lower.contains(mark)) {
        return true;
    }
    let is_filled = ["$(", "${", "{{", "<%", "#{"].iter().any(|mark| value.contains(mark));
    if !is_filled && is_format(value) {
        return true;
    }
    if is_filled && !holds_key(value, &merged(filled(value))) {
        return true;
    }
    if is_pattern(value) {
        return true;
    }
    let is_path = value.starts_with(['/', '~']) || value.starts_with("./") || value.starts_with("../");
    let is_file = [".pem", ".key", ".json", ".txt", ".env", ".yaml", ".yml", ".crt", ".p8", ".p12"]
        .iter()
        .any(|extension| lower.ends_with(extension));
    if is_path || is_file || value.starts_with('$') {
        return true;
    }
    if is_quoted {
        return false;
    }
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '?' | '!'))
    };
    let dotted = value.split('.').collect::<Vec<_>>();
    let is_member =
        dotted.len() > 1 && dotted.iter().all(|part| is_name(part)) && !(is_random(value) && is_mixed(value));
    value.contains(['(', '[', '{', '<', '|', '\\']) || value.contains("::") || value.contains("->") || is_member
}

/// Whether a text is filled in from variables, with nothing but words and signs between them: `{header}.{payload}`.
fn is_format(value: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.()[]".contains(c))
    };
    let (mut rest, mut names, mut beside) = (value, 0, String::new());
    while let Some((before, (name, behind))) =
        rest.split_once('{').and_then(|(before, inside)| Some((before, inside.split_once('}')?)))
    {
        if !is_name(name) {
            return false;
        }
        beside.push_str(before);
        beside.push(' ');
        (rest, names) = (behind, names + 1);
    }
    beside.push_str(rest);
    let is_constant = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let is_word =
        |word: &str| word.bytes().filter(u8::is_ascii_digit).count() <= 2 && (is_constant(word) || is_wordy(word));
    let is_sign = |c: char| !c.is_ascii_alphanumeric();
    names > 0 && beside.split(is_sign).filter(|word| !word.is_empty()).all(|word| word.len() <= 14 && is_word(word))
}

/// Whether a text names something on a chain that everyone may see: an account or a contract of Ethereum, or, with as many
/// characters as 32 bytes have there, one of Solana.
pub(super) fn is_address(value: &str) -> bool {
    let is_base58 = |byte: u8| byte.is_ascii_alphanumeric() && !matches!(byte, b'0' | b'O' | b'I' | b'l');
    let hex = value.strip_prefix("0x").unwrap_or_default();
    (hex.len() == 40 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || ((43..=44).contains(&value.len()) && value.bytes().all(is_base58))
}

/// Whether a text is the fingerprint of a key: 20 bytes in capitals, as programs for OpenPGP print it.
pub(super) fn is_fingerprint(value: &str) -> bool {
    value.len() == 40
        && value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'A'..=b'F'))
        && value.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Whether as many digits stand in a text as in one drawn at random: names of things have fewer.
fn is_mixed(value: &str) -> bool {
    value.bytes().filter(u8::is_ascii_digit).count() * 16 > value.len()
}

/// Whether a text is a regular expression that says what keys look like: classes or escapes that are repeated, and
/// nothing that looks like a key beside them.
fn is_pattern(value: &str) -> bool {
    let is_repeated = |rest: &str| rest.starts_with(['+', '*', '?', '{']);
    let (mut repeats, mut beside, mut rest) = (false, String::new(), value);
    while let Some(at) = rest.find(['[', '\\']) {
        let (before, atom) = rest.split_at(at);
        beside.push_str(before);
        beside.push(' ');
        if let Some(class) = atom.strip_prefix('[') {
            // One that is not closed goes on behind the quote.
            let (inside, behind) = class.split_once(']').unwrap_or((class, "+"));
            beside.push_str(&without_ranges(inside));
            beside.push(' ');
            repeats |= is_repeated(behind);
            rest = class.split_once(']').map_or("", |(_, behind)| behind);
        } else {
            let mut chars = atom.strip_prefix('\\').unwrap_or_default().chars();
            let is_class = chars.next().is_some_and(|c| "dwsDWSbB".contains(c));
            rest = chars.as_str();
            repeats |= is_class && is_repeated(rest);
        }
    }
    beside.push_str(rest);
    let looks_like_key = |part: &str| {
        let count = |is: fn(&u8) -> bool| part.bytes().filter(is).count();
        part.len() >= 8 && count(u8::is_ascii_digit) >= 2 && count(u8::is_ascii_alphabetic) >= 2 && !is_wordy(part)
    };
    repeats && !beside.split([' ', '{', '}', '(', ')', '|']).any(looks_like_key)
}

/// What a class of characters names one by one.
fn without_ranges(class: &str) -> String {
    let mut single = String::new();
    let mut chars = class.chars().peekable();
    while let Some(c) = chars.next() {
        let is_range = chars.peek() == Some(&'-');
        if is_range {
            chars.nth(1);
        } else {
            single.push(c);
        }
    }
    single
}

/// Whether a text is a UUID.
pub(super) fn is_uuid(value: &str) -> bool {
    let mut parts = value.split('-');
    [8, 4, 4, 4, 12].iter().all(|length| {
        parts.next().is_some_and(|part| part.len() == *length && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }) && parts.next().is_none()
}

/// Whether a text is made of words: `your-api-key`, `settings_key_v2`.
pub(super) fn is_wordy(value: &str) -> bool {
    let is_word = |part: &str| {
        let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let mut chars = letters.chars();
        let first = chars.next();
        let is_one_case = chars.clone().all(|c| c.is_ascii_lowercase())
            || (first.is_some_and(|c| c.is_ascii_uppercase()) && chars.all(|c| c.is_ascii_uppercase()));
        letters.len() <= 14
            && part.len() - letters.len() <= 4
            && (letters.is_empty() || (first.is_some_and(|c| c.is_ascii_alphabetic()) && is_one_case))
    };
    let parts = || value.split(['-', '_', '.', '/', ' ', ':', '@', '|']).filter(|part| !part.is_empty());
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    // Single letters between digits are no words.
    let words = parts().filter(|part| part.bytes().filter(u8::is_ascii_alphabetic).count() >= 2).count();
    parts().all(is_word) && (words > 0 || letters == 0) && (words * 2 >= parts().count())
}

/// Whether a text stands in for a secret: it says so, or is made of words.
pub(super) fn is_stand_in(value: &str) -> bool {
    says_stand_in(value) || is_wordy(value)
}

/// Whether a text says that something else is to be put here, and is not a key beside such a word.
pub(super) fn says_stand_in(value: &str) -> bool {
    let mut distinct = [false; 256];
    value.bytes().filter(u8::is_ascii_alphanumeric).for_each(|byte| {
        if let Some(seen) = distinct.get_mut(usize::from(byte.to_ascii_lowercase())) {
            *seen = true;
        }
    });
    if distinct.iter().filter(|seen| **seen).count() <= 1 {
        return true;
    }
    let words = stand_ins(value);
    let is_no_key = || !is_varied(value) || GAPS.iter().any(|gap| value.contains(gap));
    !words.is_empty() && (is_no_key() || !holds_key(value, &words))
}

/// Whether what is left of a text without some places holds a key.
fn holds_key(value: &str, places: &[(usize, usize)]) -> bool {
    beside(value, places).any(|rest| is_token(rest) && is_unguessed(core(rest)))
}

fn is_token(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+/=.~".contains(&byte))
}

/// Where a text says that something else is to be put here.
fn stand_ins(value: &str) -> Vec<(usize, usize)> {
    let lower = value.to_ascii_lowercase();
    let bytes = lower.as_bytes();
    let is_part = |at: usize, word: &str| {
        let apart =
            |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        apart(at.checked_sub(1)) && apart(Some(at + word.len()))
    };
    let mut found = filled(value);
    let is_made_of_words = std::cell::LazyCell::new(|| is_wordy(value));
    for word in STAND_INS {
        let says = |at: usize| {
            // Four letters turn up by chance in a long key, so short words stand alone.
            let is_short = word.len() <= 4 && word.starts_with(|c: char| c.is_ascii_alphabetic()) && word != "xxxx";
            !is_short || is_part(at, word) || (word == "your" && *is_made_of_words)
        };
        found.extend(lower.match_indices(word).filter(|(at, _)| says(*at)).map(|(at, _)| (at, at + word.len())));
    }
    merged(found)
}

/// Where a text is filled in, with the marks around it.
fn filled(value: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (open, close) in FILLED {
        let mut from = 0;
        while let Some(start) = value.get(from..).and_then(|rest| rest.find(open)).map(|at| from + at) {
            let inside = start + open.len();
            let end = value.get(inside..).and_then(|rest| rest.find(close));
            let Some(end) = end.map(|at| inside + at + close.len()) else { break };
            found.push((start, end));
            from = end;
        }
    }
    found
}

/// Places in order, those that overlap as one.
fn merged(mut places: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    places.sort_unstable();
    places.dedup_by(|next, last| {
        let overlaps = next.0 <= last.1;
        last.1 = if overlaps { last.1.max(next.1) } else { last.1 };
        overlaps
    });
    places
}

/// What is left of a text without some places.
fn beside<'a>(value: &'a str, places: &[(usize, usize)]) -> impl Iterator<Item = &'a str> {
    let ends = places.iter().map(|(_, until)| *until);
    let starts = places.iter().map(|(from, _)| *from).chain([value.len()]);
    std::iter::once(0).chain(ends).zip(starts).filter_map(|(from, until)| value.get(from..until))
}

/// A text without the words at its ends that say what it is, or that something else is to be put here.
pub(super) fn core(value: &str) -> &str {
    let is_sign = |c: char| !c.is_ascii_alphanumeric();
    let mut core = value.trim_matches(is_sign);
    // First from one end, then from the other: what stands at the far end is not looked at each time.
    while let Some((word, rest)) = core.find(is_sign).and_then(|at| core.split_at_checked(at)) {
        if !is_label(word) {
            break;
        }
        core = rest.trim_start_matches(is_sign);
    }
    while let Some((rest, word)) = core.rfind(is_sign).and_then(|at| core.split_at_checked(at)) {
        if !is_label(word.trim_matches(is_sign)) {
            break;
        }
        core = rest.trim_end_matches(is_sign);
    }
    core
}

/// Whether a word says what a value is, or that another is to be put in its place.
fn is_label(word: &str) -> bool {
    STAND_INS.iter().chain(&COMPANIONS).any(|label| label.eq_ignore_ascii_case(word))
}

/// Whether a word that says so, and a sign that joins it, stand right before a place.
pub(super) fn follows_label(bytes: &[u8], at: usize) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    let Some((b'-' | b'_', before)) = before.split_last() else { return false };
    let length = before.iter().rev().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
    std::str::from_utf8(before.get(before.len() - length..).unwrap_or_default()).is_ok_and(is_label)
}

/// Whether a sign that joins it, and a word that says so, stand right behind a place.
pub(super) fn precedes_label(bytes: &[u8], at: usize) -> bool {
    let Some((b'-' | b'_', behind)) = bytes.get(at..).and_then(<[u8]>::split_first) else { return false };
    let length = behind.iter().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
    std::str::from_utf8(behind.get(..length).unwrap_or_default()).is_ok_and(is_label)
}

/// Long, varied, and neither words nor a sample.
fn is_unguessed(value: &str) -> bool {
    is_varied(value) && !is_wordy(value) && !is_sample(value)
}

fn is_varied(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    value.len() >= 16 && digits >= 2 && letters >= 2
}

/// Whether a text was written to look like a secret: a sequence, a repetition, a word, a published sample.
pub(super) fn is_sample(value: &str) -> bool {
    let plain: Vec<u8> = value.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let letters: Vec<u8> = plain.iter().filter(|byte| byte.is_ascii_alphabetic()).map(u8::to_ascii_lowercase).collect();
    let digits: Vec<u8> = plain.iter().filter(|byte| byte.is_ascii_digit()).copied().collect();
    longest_sequence(&plain) >= 6
        || (letters.len() >= 4 && longest_sequence(&letters) >= 5)
        || longest_sequence(&digits) >= 7
        || repeats(&plain)
        || entropy(&plain) < least_entropy(plain.len())
        || is_made_up(value)
        || PUBLISHED.iter().any(|sample| value.contains(sample))
}

/// Whether a text holds a word that people make up secrets from, also with digits and signs for letters.
pub(super) fn is_made_up(value: &str) -> bool {
    let letters: String = value
        .bytes()
        .map(|byte| match byte.to_ascii_lowercase() {
            b'0' => 'o',
            b'1' | b'!' => 'i',
            b'3' => 'e',
            b'4' | b'@' => 'a',
            b'5' | b'$' => 's',
            b'7' => 't',
            byte => char::from(byte),
        })
        .collect();
    let lower = value.to_ascii_lowercase();
    // In a long key a short word is chance.
    let says = |word: &str| (word.len() > 4 || value.len() < 24) && (letters.contains(word) || lower.contains(word));
    MADE_UP.iter().any(|word| says(word))
}

/// Whether nobody made a text up: long, varied, no sample and no words, also once it is decoded.
pub(super) fn is_random(value: &str) -> bool {
    // Of a web token, the signature is what nobody can guess.
    let is_web_token = value.starts_with("eyJ") && value.contains('.');
    let value = if is_web_token { value.split('.').nth(2).unwrap_or_default() } else { value };
    is_unguessable(value) && plain_text(value).is_none_or(|text| holds_secret(&text))
}

fn is_unguessable(value: &str) -> bool {
    is_varied(value) && !says_stand_in(value) && is_unguessed(core(value))
}

/// Whether a text that was decoded holds what nobody made up. Of `user:password` the password is what nobody should know.
fn holds_secret(text: &str) -> bool {
    let password = text.split_once(':').map_or(text, |(_, password)| password);
    let is_apart = |c: char| !(c.is_ascii_alphanumeric() || "_-+/=".contains(c));
    text.split(is_apart).any(is_unguessable) || (is_strong(password) && !text.contains([' ', ';', '{', '"']))
}

/// What a text says that is in base64: the identifiers and words that services encode, and no key, which is bytes drawn at
/// random. A dozen of those are printable once in 200,000 keys.
fn plain_text(value: &str) -> Option<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    let body = value.trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(body).or_else(|_| URL_SAFE_NO_PAD.decode(body)).ok()?;
    let is_printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    (bytes.len() >= 12 && bytes.iter().all(is_printable)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a password looks like one that is in use: three kinds of characters and no word that says otherwise.
pub(super) fn is_strong(value: &str) -> bool {
    let kinds: [fn(&u8) -> bool; 4] =
        [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit, u8::is_ascii_punctuation];
    let kinds = kinds.iter().filter(|kind| value.bytes().any(|byte| kind(&byte))).count();
    value.len() >= 8
        && kinds >= 3
        && !ends_in_count(value)
        && !is_stand_in(value)
        && !is_sample(value)
        && plain_text(value).is_none_or(|text| holds_secret(&text))
}

/// Whether a password is one word with the first digits behind it, such as `Admin123` or `Welcome1234!`, as manuals and
/// first logins have it.
fn ends_in_count(value: &str) -> bool {
    let word = value.trim_end_matches(|c: char| c.is_ascii_punctuation());
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let count = word.get(letters.len()..).unwrap_or_default();
    count.len() >= 3 && "1234567890".starts_with(count) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Long enough, of more than one kind of character, and no placeholder.
pub(super) fn looks_secret(value: &str, is_quoted: bool) -> bool {
    value.len() >= 12
        && is_given(value)
        && value.bytes().all(|byte| byte.is_ascii_graphic())
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !is_code(value, is_quoted)
        && !is_stand_in(value)
}

/// The longest run of neighbours in the alphabet or among the digits, up or down: `abcdef`, `987654`.
fn longest_sequence(bytes: &[u8]) -> usize {
    let (mut longest, mut up, mut down) = (usize::from(!bytes.is_empty()), 1, 1);
    for (a, b) in bytes.iter().zip(bytes.iter().skip(1)) {
        up = if *b == a.wrapping_add(1) || (*a == b'9' && *b == b'0') { up + 1 } else { 1 };
        down = if *a == b.wrapping_add(1) { down + 1 } else { 1 };
        longest = longest.max(up).max(down);
    }
    longest
}

/// Whether a piece of at most eight characters is all there is, over and over.
fn repeats(bytes: &[u8]) -> bool {
    bytes.len() >= 12
        && (1..=8).any(|period| {
            bytes.iter().zip(bytes.iter().skip(period)).filter(|(a, b)| a == b).count() * 4
                >= (bytes.len() - period) * 3
        })
}

/// Bits a character, by how often each occurs.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|byte| {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    });
    let whole = bytes.len().max(1) as f64;
    let share = |count: &u32| f64::from(*count) / whole;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

/// What even hexadecimal digits drawn at random stay above.
fn least_entropy(length: usize) -> f64 {
    match length {
        0..12 => 1.5,
        12..24 => 2.4,
        _ => 2.8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_stand_ins_are_told_from_keys() {
        for value in [
            "your-api-key-here",
            "YOUR_API_KEY",
            "settings_key_v2",
            "xxxxxxxxxxxxxxxx",
            "my-secret-token",
            "abc-your-key-1234",
        ] {
            assert!(is_stand_in(value), "{value}");
        }
        for value in ["k9Xw2mPq7RtZ4vBn", "3f2a9c81d04be765", "hunter2hunter2", "AbCdEfGh1jKlMnOp"] {
            assert!(!is_stand_in(value), "{value}");
        }
        // A key stays one beside a word that says otherwise.
        for value in [
            "k9Xw2mPq7RtZ4vBn_your_key",
            "example-3f2a9c81d04be765",
            "k9Xw2mPq7RtZ4vBnEXAMPLE",
            "my_fake_k9Xw2mPq7RtZ4vBn",
            "k9Xw2mPq7RtZ4vBnL3sD<your_key>",
            "<your_key>k9Xw2mPq7RtZ4vBnL3sD",
            "k9Xw2mPq7RtZ4vBnL3sD{{suffix}}",
            "****k9Xw2mPq7RtZ4vBnL3sD",
        ] {
            assert!(!is_stand_in(value) && is_random(value), "{value}");
        }
    }

    #[test]
    fn what_was_written_to_look_like_a_key_is_a_sample() {
        for value in [
            "1234567890abcdef",
            "a1b2c3d4e5f6g7h8",
            "x9x9x9x9x9x9x9x9",
            "S3cr3tP4ssw0rd99",
            "abcdefghijklmnop",
            "qwerty12345678",
        ] {
            assert!(is_sample(value), "{value}");
        }
        for value in ["k9Xw2mPq7RtZ4vBn", "3f2a9c81d04be765", "9fQ2zLm47XcV81pT"] {
            assert!(!is_sample(value), "{value}");
        }
    }

    #[test]
    fn what_is_in_base64_is_as_random_as_what_it_says() {
        use base64::Engine as _;
        let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        for text in
            ["3518375430000058280", "page:2;offset:40;sort:asc", "user@example.com:orders", "{\"id\":1738035200}"]
        {
            assert!(!is_random(&encoded(text)), "{text}");
        }
        assert!(!is_strong(&encoded("not my real password")) && is_strong(&encoded("deploy:Kq9!x3Lm")));
        let header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
        assert!(!is_random(&format!("{header}.test")) && !is_random(&format!("{header}.eyJzdWIiOjF9.signature")));
        assert!(is_random(&format!("{header}.eyJzdWIiOjF9.k9Xw2mPq7RtZ4vBnL3sDk9Xw2mPq7Rt")));
        for text in ["sk-k9Xw2mPq7RtZ4vBnL3sD", "deploy:k9Xw2mPq7RtZ4vBn", "Kq9!x3Lm#Tz2", "deploy:Kq9!x3Lm"] {
            assert!(is_random(&encoded(text)), "{text}");
        }
    }

    #[test]
    fn code_is_told_from_values() {
        for value in [
            "generate()",
            "config.apiKey",
            "process.env.TOKEN1",
            "get_token2[0]",
            "https://a.example/x1",
            "/etc/key1.pem",
            "Foo::new1()",
            "gh[pousr]_[A-Za-z0-9_]{36,}",
        ] {
            assert!(is_code(value, false), "{value}");
        }
        for value in ["xox[baprs]-[0-9]{12}-\\w+", "sk-[A-HJ-NP-Za-km-z1-9_]{20}", "Bearer [^", "AKIA[0-9A-Z]{16}"] {
            assert!(is_code(value, true), "{value}");
        }
        for value in [
            "ACME\\dK9x2mPq7Rt",
            "ACME\\d+K9x2mPq7Rt",
            "a0-9]K9x2mPq7Rt",
            "[^K9x2mPq7Rt4vBn",
            "[K9x2mPq7Rt4vBn]+",
            "K9x2mPq7Rt4vBnL3{{suffix}}",
        ] {
            assert!(!is_code(value, true), "{value}");
        }
        assert!(!is_code("k9Xw2mPq7RtZ4vBn", false) && !is_code("pa(ss)w0rd", true));
        assert!(is_code("acme.server.auth.providers.auth0.Auth0Provider", false));
        assert!(!is_code("Tk9Xw2mPq7RtZ4vBnL3s.Dk9Xw2.PqRtZ4vBnL3sDk9Xw2m", false));
    }

    #[test]
    fn a_word_with_the_first_digits_behind_it_is_no_password_in_use() {
        for value in ["AcmeBase123", "Admin1234!", "Welcome12345"] {
            assert!(!is_strong(value), "{value}");
        }
        for value in ["Kq9!x3Lm", "Wt123fQ8#", "AcmeBase724", "Kq9x123"] {
            assert_eq!(is_strong(value), value.len() >= 8, "{value}");
        }
        assert!(is_wordy("required|min:8|confirmed") && !is_wordy("k9Xw2|mPq7RtZ4vBn"));
    }

    #[test]
    fn long_values_of_many_words_are_read_in_one_pass() {
        // To look for the far end, or at all words, for each of them would take hours.
        let long = "b".repeat(400_000);
        assert_eq!(core(&format!("{}{long}", "a-".repeat(200_000))), long);
        assert_eq!(core(&format!("{long}{}", "-a".repeat(200_000))), long);
        assert!(says_stand_in(&format!("{}-your-key", "xyourx9".repeat(50_000))));
    }
}
