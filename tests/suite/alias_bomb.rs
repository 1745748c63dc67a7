//! A few hundred bytes of aliases must not become hundreds of megabytes. In a binary of its own, so that the memory
//! it measures is its own.

use herm::skill::{Document, Rule, rules};

/// Nine aliases of nine aliases, eight times over: some forty million values when written out.
fn bomb(indent: &str) -> String {
    let mut bomb = format!("{indent}a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (before, name) in "abcdefg".chars().zip("bcdefgh".chars()) {
        let items = vec![format!("*{before}"); 9].join(",");
        bomb.push_str(&format!("{indent}{name}: &{name} [{items}]\n"));
    }
    bomb
}

/// The most memory this process ever held, in kilobytes.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn an_alias_bomb_costs_less_than_a_megabyte_and_is_reported() {
    assert!((250..350).contains(&bomb("").len()), "{}", bomb("").len());
    let before = peak();
    for front_matter in [
        bomb(""),
        format!("metadata:\n{}", bomb("  ")),
        format!("metadata:\n  list:\n  - {}", bomb("    ").trim_start()),
        format!("metadata: {{{}}}\n", bomb("").trim_end().replace('\n', ", ")),
        format!("text: |\n  x\n? &z {{{}}}\n", bomb("").trim_end().replace('\n', ", ")),
        format!("text: wrapped\n  text\n? {{{}}}\n: x\n", bomb("").trim_end().replace('\n', ", ")),
    ] {
        let text = format!("---\nname: bomb\n{front_matter}---\nbody\n");
        let document = Document::read(text.as_bytes()).unwrap();
        let keys: Vec<&str> = document.keys().collect();
        for key in keys {
            let _ = document.value(key);
        }
        assert_eq!(document.name().as_deref(), Some("bomb"));
        let findings = rules::check(&document, None);
        let is_reported = |rule| findings.iter().any(|finding| finding.rule == rule);
        assert!(is_reported(Rule::AliasOrTag) || is_reported(Rule::InvalidYaml), "{text}");
    }
    if let (Some(before), Some(after)) = (before, peak()) {
        assert!(after - before < 1024, "{} kB", after - before);
    }
}
