//! Layer 1: small Markdown files frozen into every prompt. Pure: text in, text out.
//!
//! A file is an optional head (whatever stands before the first entry) and entries, each a line
//! that starts with `- `. Lines that follow an entry without being one belong to it.

use crate::error::{Error, Result};

/// The cap of `MEMORY.md`, in characters.
pub const MEMORY_CAP: usize = 4_000;
/// The cap of `USER.md` and of one subscriber's file, in characters.
pub const USER_CAP: usize = 2_000;

/// One change to a layer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum LayerEdit {
    /// Adds an entry at the end. The same entry again changes nothing.
    Add {
        /// The text of the new entry.
        content: String,
    },
    /// Replaces the one entry that contains `find`.
    Replace {
        /// Text that only that entry contains.
        find: String,
        /// The text that takes its place.
        content: String,
    },
    /// Removes the one entry that contains `find`.
    Remove {
        /// Text that only that entry contains.
        find: String,
    },
}

/// Applies all edits or none. Over the cap, the oldest entries that these edits did not write are
/// dropped from the front.
pub fn apply(text: &str, edits: &[LayerEdit], cap: usize) -> Result<String> {
    let (head, mut entries) = split(text);
    let mut written: Vec<String> = Vec::new();
    for edit in edits {
        match edit {
            LayerEdit::Add { content } => {
                let entry = entry(content, cap)?;
                if !entries.contains(&entry) {
                    entries.push(entry.clone());
                }
                written.push(entry);
            }
            LayerEdit::Replace { find, content } => {
                let at = only_match(&entries, find)?;
                let entry = entry(content, cap)?;
                if let Some(slot) = entries.get_mut(at) {
                    slot.clone_from(&entry);
                }
                written.push(entry);
            }
            LayerEdit::Remove { find } => {
                entries.remove(only_match(&entries, find)?);
            }
        }
    }
    let mut text = join(&head, &entries);
    while text.chars().count() > cap {
        let Some(oldest) = entries.iter().position(|entry| !written.contains(entry)) else {
            return Err(Error::invalid(format!("the new entries do not fit into {cap} characters"))
                .hint("shorten them or the head of the file, or write the detail into a skill"));
        };
        entries.remove(oldest);
        text = join(&head, &entries);
    }
    Ok(text)
}

/// The text as it goes into a prompt: cut at the cap, and marked where it was.
pub fn frozen(text: &str, cap: usize) -> String {
    let total = text.chars().count();
    if total <= cap {
        return text.to_owned();
    }
    let kept: String = text.chars().take(cap).collect();
    format!("{kept}\n[cut: {cap} of {total} characters shown]\n")
}

/// The entries of a layer, without their bullets.
pub fn entries(text: &str) -> Vec<String> {
    let bare = |entry: String| entry.strip_prefix("- ").unwrap_or(&entry).to_owned();
    split(text).1.into_iter().map(bare).collect()
}

fn split(text: &str) -> (String, Vec<String>) {
    let mut head = String::new();
    let mut entries: Vec<String> = Vec::new();
    for line in text.lines() {
        match entries.last_mut() {
            _ if line.starts_with("- ") => entries.push(line.to_owned()),
            Some(entry) if !line.trim().is_empty() => {
                entry.push('\n');
                entry.push_str(line);
            }
            Some(_) => {}
            None => {
                head.push_str(line);
                head.push('\n');
            }
        }
    }
    (head, entries)
}

fn join(head: &str, entries: &[String]) -> String {
    let mut text = head.to_owned();
    for entry in entries {
        text.push_str(entry);
        text.push('\n');
    }
    text
}

/// One line: newlines and other control characters become spaces, so that an entry can neither
/// break out of its bullet nor hide anything.
fn entry(content: &str, cap: usize) -> Result<String> {
    let spaced: String = content.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let flat = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.is_empty() {
        return Err(Error::invalid("an entry must say something").hint("give it some text"));
    }
    let length = flat.chars().count() + 3;
    if length > cap {
        return Err(Error::invalid(format!("an entry of {length} characters does not fit into {cap}"))
            .hint("shorten it, or write the detail into a skill"));
    }
    Ok(format!("- {flat}"))
}

fn only_match(entries: &[String], find: &str) -> Result<usize> {
    if find.trim().is_empty() {
        return Err(Error::invalid("the text to find must say something").hint("name text that the entry contains"));
    }
    let matches: Vec<usize> = (0..).zip(entries).filter(|(_, entry)| entry.contains(find)).map(|(at, _)| at).collect();
    match matches.as_slice() {
        [only] => Ok(*only),
        [] => Err(Error::not_found(format!("no entry contains {find:?}")).hint("read the entries again")),
        // Identical entries are one to a reader: the first stands for all.
        [first, rest @ ..] if rest.iter().all(|at| entries.get(*at) == entries.get(*first)) => Ok(*first),
        several => Err(Error::conflict(format!("{} entries contain {find:?}", several.len()))
            .hint("name text that only one entry contains")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(content: &str) -> LayerEdit {
        LayerEdit::Add { content: content.to_owned() }
    }

    #[test]
    fn five_hundred_additions_keep_the_newest_under_the_cap() {
        let mut text = "# Memory\n".to_owned();
        for n in 0..500 {
            text = apply(&text, &[add(&format!("note number {n}\nwith a second line"))], MEMORY_CAP).unwrap();
        }
        assert!(text.chars().count() <= MEMORY_CAP && text.starts_with("# Memory\n"));
        assert!(text.contains("- note number 499 with a second line\n") && !text.contains("number 0 "));
    }

    #[test]
    fn a_batch_with_one_bad_edit_changes_nothing() {
        let bad = LayerEdit::Remove { find: "absent".into() };
        assert!(apply("- one\n", &[add("two"), bad], MEMORY_CAP).is_err());
    }

    #[test]
    fn an_ambiguous_text_is_refused_and_the_same_entry_twice_is_kept_once() {
        let text = apply("", &[add("red car"), add("red house"), add("red car")], USER_CAP).unwrap();
        assert_eq!(text, "- red car\n- red house\n");
        let remove = |find: &str| apply(&text, &[LayerEdit::Remove { find: find.into() }], USER_CAP);
        assert_eq!(remove("red").unwrap_err().kind(), crate::error::ErrorKind::Conflict);
        assert_eq!(remove("house").unwrap(), "- red car\n");
    }

    #[test]
    fn what_is_over_the_cap_is_cut_and_says_so() {
        let shown = frozen(&"x".repeat(2_100), USER_CAP);
        assert!(shown.ends_with("[cut: 2000 of 2100 characters shown]\n"));
    }

    proptest! {
        #[test]
        fn an_added_entry_is_found_again_on_one_line(content in "\\PC{1,200}|[ -~\n\r\t]{1,200}") {
            if let Ok(text) = apply("head\n", &[add(&content)], USER_CAP) {
                prop_assert_eq!(text.lines().count(), 2);
                prop_assert_eq!(entries(&text).len(), 1);
            }
        }
    }
}
