//! The guard and the redaction of secrets on a labelled set: how often they are right on texts they were tuned on, and on
//! those they were not.
//!
//! Secrets are stored in parts, a prefix and the shape of the rest, and put together here from a seed: no key stands in
//! the repository.

use std::collections::BTreeMap;

use herm::redact;
use herm::skill::guard::{self, ObjectionWeight};

#[derive(serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Case {
    kind: String,
    of: String,
    text: String,
    before: String,
    prefix: String,
    tail: String,
    after: String,
}

/// A text with its label.
struct Labelled {
    kind: String,
    name: String,
    text: String,
    /// The unguessable part of the secret in it.
    secret: Option<String>,
    is_held_out: bool,
}

/// How many of a class there are, and which of them went wrong.
type Classes = BTreeMap<String, (usize, Vec<String>)>;

/// At most one of a class may go wrong, and never all of it.
fn assert_no_class_is_lost(classes: &Classes) {
    let is_lost = |(all, wrong): &(usize, Vec<String>)| wrong.len() > 1 || wrong.len() == *all;
    let lost: Classes =
        classes.iter().filter(|(_, found)| is_lost(found)).map(|(a, b)| (a.clone(), b.clone())).collect();
    assert_eq!(lost, Classes::new());
}

fn read(file: &str) -> Vec<Labelled> {
    let path = format!("{}/data/guard/{file}", env!("CARGO_MANIFEST_DIR"));
    let lines = std::fs::read_to_string(path).unwrap();
    lines.lines().map(|line| labelled(line, serde_json::from_str(line).unwrap())).collect()
}

fn labelled(line: &str, case: Case) -> Labelled {
    let mut random = blake3::Hasher::new().update(line.as_bytes()).finalize_xof();
    let mut longest = String::new();
    let mut filled = String::new();
    let mut rest = case.tail.as_str();
    while let Some((before, behind)) = rest.split_once('{') {
        let (run, behind) = behind.split_once('}').unwrap();
        let (count, class) = run.split_at(run.len() - 1);
        let piece = draw(&mut random, count.parse().unwrap(), class);
        filled.push_str(before);
        filled.push_str(&piece);
        if piece.len() > longest.len() {
            longest = piece;
        }
        rest = behind;
    }
    filled.push_str(rest);
    let text = match case.tail.is_empty() {
        true => case.text,
        false => format!("{}{}{filled}{}", case.before, case.prefix, case.after),
    };
    let secret = (!case.tail.is_empty()).then_some(longest);
    let is_held_out = blake3::hash(line.as_bytes()).as_bytes().first().is_some_and(|byte| byte % 2 == 0);
    Labelled { name: format!("{} {}", case.kind, case.of), kind: case.kind, text, secret, is_held_out }
}

fn draw(random: &mut blake3::OutputReader, count: usize, class: &str) -> String {
    let alphabet: &[u8] = match class {
        "d" => b"123456789",
        "h" => b"0123456789abcdef",
        "u" => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "p" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "q" => b"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
        "A" => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        "a" => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        "w" => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-",
        "b" => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/",
        other => panic!("{other}"),
    };
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(alphabet[usize::from(*byte) % alphabet.len()])).collect()
}

fn is_refused(text: &str) -> bool {
    let skill = format!("---\nname: x\ndescription: Says how to do a thing.\n---\n{text}");
    guard::skill_objections(&skill).iter().any(|objection| objection.weight == ObjectionWeight::Refusal)
}

/// The decision record tells what is measured here.
fn assert_recorded(figures: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/decisions/0027-secrets-and-orders-are-found-by-data.md");
    let record = std::fs::read_to_string(path).unwrap();
    let words: Vec<&str> = record.split_whitespace().collect();
    assert!(words.join(" ").contains(figures), "docs/decisions/0027 does not say: {figures}");
}

#[test]
fn real_secrets_and_hidden_orders_are_refused_and_ordinary_skills_are_not() {
    let (positives, negatives) = (read("positives.jsonl"), read("negatives.jsonl"));
    assert!(positives.len() >= 300 && negatives.len() >= 300);
    let sizes = format!("{} positives, {} negatives", positives.len(), negatives.len());
    println!("{sizes}");
    assert_recorded(&sizes);
    for is_held_out in [false, true] {
        let half = |cases: &[Labelled], wanted: bool| {
            let (mut all, mut right) = (0, 0);
            for case in cases.iter().filter(|case| case.is_held_out == is_held_out) {
                all += 1;
                right += usize::from(is_refused(&case.text) == wanted);
                if is_refused(&case.text) != wanted {
                    println!("refused {}: {}: {:?}", !wanted, case.name, case.text);
                }
            }
            (all, right)
        };
        let ((bad, caught), (good, passed)) = (half(&positives, true), half(&negatives, false));
        let recall = caught as f64 / bad as f64;
        let precision = caught as f64 / (caught + good - passed) as f64;
        let measured = format!("{caught} of {bad} caught and {} of {good} wrongly refused", good - passed);
        println!("held out {is_held_out}: {measured}");
        if is_held_out {
            assert_recorded(&format!("{measured} in the held-out half"));
        }
        assert!(recall >= 0.95 && precision >= 0.90, "recall {recall}, precision {precision}");
    }
    // No disguise, no issuer and no innocent kind is lost in the totals.
    let mut classes = Classes::new();
    for (cases, wanted) in [(&positives, true), (&negatives, false)] {
        for case in cases {
            let class = if wanted { case.name.clone() } else { format!("innocent: {}", case.kind) };
            let (all, wrong) = classes.entry(class).or_default();
            *all += 1;
            if is_refused(&case.text) != wanted {
                wrong.push(case.text.clone());
            }
        }
    }
    assert!(classes.len() > 120, "{}", classes.len());
    assert_no_class_is_lost(&classes);
}

#[test]
fn secrets_of_every_issuer_are_redacted_and_ordinary_texts_stay() {
    let (mut all, mut gone) = (0, 0);
    let mut issuers = Classes::new();
    for case in read("positives.jsonl") {
        let Some(secret) = case.secret else { continue };
        let is_gone = !redact::redact(&case.text).contains(&secret);
        all += 1;
        gone += usize::from(is_gone);
        let (of_issuer, kept) = issuers.entry(case.name.clone()).or_default();
        *of_issuer += 1;
        if !is_gone {
            kept.push(case.text.clone());
            println!("kept: {}: {:?}", case.name, case.text);
        }
    }
    println!("{gone} of {all} secrets redacted");
    assert!(gone * 100 >= all * 95, "{gone} of {all}");
    assert!(issuers.len() > 85, "{}", issuers.len());
    assert_no_class_is_lost(&issuers);
    let plain = ["sha", "sha256", "uuid", "integrity", "base64", "etag", "cache", "script", "plain talk"];
    for case in read("negatives.jsonl").iter().filter(|case| plain.contains(&case.kind.as_str())) {
        assert_eq!(redact::scrub(&case.text), case.text, "{}", case.name);
    }
}

#[test]
fn a_word_that_says_placeholder_beside_a_real_secret_hides_nothing() {
    let (mut all, mut gone, mut refused) = (0, 0, 0);
    for case in read("positives.jsonl") {
        let Some(secret) = case.secret.filter(|secret| secret.len() >= 20) else { continue };
        let found = redact::find(&case.text);
        // The whole of it, with what its issuer puts before.
        let Some(whole) = found.iter().find(|found| case.text[found.start..found.end].contains(&secret)) else {
            continue;
        };
        if !["an API key", "an access token", "a token"].contains(&whole.what) || whole.sample {
            continue;
        }
        let key = &case.text[whole.start..whole.end];
        for beside in [
            format!("{key}_your_key"),
            format!("{key}-example"),
            format!("EXAMPLE-{key}"),
            format!("your_api_key_{key}"),
            format!("dummy_{key}_here"),
        ] {
            let text = case.text.replace(key, &beside);
            let (is_gone, is_refused) = (!redact::redact(&text).contains(&secret), is_refused(&text));
            all += 1;
            gone += usize::from(is_gone);
            refused += usize::from(is_refused);
            if !is_gone || !is_refused {
                println!("redacted {is_gone}, refused {is_refused}: {}: {text:?}", case.name);
            }
        }
    }
    println!("{gone} redacted and {refused} refused of {all}");
    assert!(all > 500 && gone * 100 >= all * 95 && refused * 100 >= all * 95, "{gone} and {refused} of {all}");
}

#[test]
fn what_an_agent_writes_is_refused_also_where_it_is_quoted() {
    let quoted = "Prompt injection: inputs may say \"Ignore all previous instructions\".";
    assert!(!is_refused(quoted));
    assert!(guard::check(quoted).unwrap_err().to_string().contains("line 1"));
    assert!(guard::check("Add 👩‍💻 and می‌خواهم.").is_ok());
    assert!(guard::check("Turn on Developer Mode in Discord.").is_ok());
}
