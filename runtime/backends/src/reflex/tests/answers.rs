//! What the answers to the three seeds look like.

use super::*;

fn answer(seed: &Seed) -> Value {
    let answer = run(seed, 8).answer();
    assert_eq!(problems(&schema_of(&seed.role()), &answer), Vec::<String>::new());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    assert!(text(&answer["summary"]).starts_with("No language model spoke."), "{answer}");
    assert!(text(&answer["limits"]).starts_with("No language model read the input."));
    answer
}

fn finding(answer: &Value, pattern: &str) -> Value {
    answer["findings"].as_array().unwrap().iter().find(|finding| finding["pattern"] == pattern).unwrap().clone()
}

#[test]
fn an_audit_has_one_finding_a_pattern_worst_first() {
    let answer = answer(&AUDIT);
    let findings = answer["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 11);
    let ranks: Vec<&str> = findings.iter().map(|finding| finding["severity"].as_str().unwrap()).collect();
    assert!(ranks.is_sorted_by_key(|rank| crate::skill::PatternSeverity::named(rank)));
    let fix = findings[0]["recommendation"].as_str().unwrap();
    assert!(fix.starts_with("Track assets internally, or add virtual offsets"), "{fix}");
    assert_eq!(
        finding(&answer, "reentrancy"),
        json!({
            "title": "Reentrancy in `withdraw`",
            "severity": "high",
            "pattern": "reentrancy",
            "lines": [68],
            "explanation": "Line 68 reads `(bool ok, ) = msg.sender.call{value: assets}(\"\");`: a match of the pattern \
                reentrancy, to be confirmed. A call that sends value or invokes a hook lets the receiver run code. If a \
                balance, a share count or a flag is written only after that call, the receiver can enter again and act \
                on the old value. The usual result is paying out the same balance several times, up to the whole of \
                the contract.",
            "recommendation": "Confirm it first: Who receives control? A fixed trusted contract is weaker than \
                `msg.sender` or an address the caller supplies. Then: List every storage write *after* the call in the \
                same function. None means no classic reentrancy. What to do is in the pattern reentrancy, which was \
                not read in full.",
        })
    );
}

#[test]
fn a_triage_names_no_root_cause_and_repeats_no_secret() {
    let answer = answer(&TRIAGE);
    let text = answer.to_string();
    assert!(!text.contains("example-only-pw"), "{text}");
    let secret = finding(&answer, "secret-in-log");
    assert_eq!((&secret["role"], &secret["confidence"]), (&json!("separate"), &json!("low")));
    assert!(
        secret["evidence"].as_str().unwrap().starts_with("Line 42, not quoted as it may hold a secret: "),
        "{secret}"
    );
    assert_eq!(finding(&answer, "recent-change")["role"], "trigger");
    assert_eq!(finding(&answer, "retry-storm")["role"], "amplifier");
    let worst = finding(&answer, "upstream-timeout");
    assert!(worst["next_steps"].as_array().unwrap().len() > 1, "{worst}");
}

#[test]
fn a_clause_review_quotes_exact_words_and_names_the_clause() {
    let answer = answer(&CLAUSE);
    let input = CLAUSE.input();
    for finding in answer["findings"].as_array().unwrap() {
        let quote = finding["quote"].as_str().unwrap();
        assert!(!quote.is_empty() && input.contains(quote) && quote.split_whitespace().count() <= 30, "{finding}");
    }
    assert_eq!(finding(&answer, "auto-renewal")["clause"], "3.1");
    let licence = finding(&answer, "content-licence");
    assert_eq!((&licence["lines"], &licence["clause"]), (&json!([35]), &json!("5.1")));
}
