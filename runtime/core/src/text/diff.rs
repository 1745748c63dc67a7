//! What differs between two texts, line by line: the shortest way from one to the other, found by `similar`.
//!
//! The work is bounded by the number of lines, not by a clock, so that the same texts always have the same difference.
//! Of texts beyond the bound the lines that differ are said as one replacement, which is right if not the shortest way.

use similar::algorithms::{Capture, IdentifyDistinct, Replace, myers};
use similar::{DiffOp, group_diff_ops};

/// More lines than this on both sides together, after what both begin and end with, are replaced as a whole. Myers'
/// algorithm takes at worst time in the square of it, which is about 0.1 s.
const MOST_LINES: usize = 10_000;

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineChange {
    /// It is in both texts.
    Kept,
    /// It is in the text before only.
    Removed,
    /// It is in the text after only.
    Added,
}

/// A run of lines with changes in it, and some that are the same around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk<'t> {
    /// How many lines of the text before come before this hunk.
    pub before: usize,
    /// How many lines of the text after come before this hunk.
    pub after: usize,
    /// The lines, each with its end of line where it has one.
    pub lines: Vec<(LineChange, &'t str)>,
}

/// What differs, with up to `context` lines around each change.
pub fn hunks<'t>(before: &'t str, after: &'t str, context: usize) -> Vec<Hunk<'t>> {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    // `similar` doubles the context, which must not overflow; no text has more lines than this.
    let groups = group_diff_ops(operations(&old, &new), context.min(old.len().max(new.len())));
    groups.iter().filter_map(|group| hunk(group, &old, &new)).collect()
}

/// What differs, as a unified diff without its two lines of names; empty where nothing does.
pub fn unified(before: &str, after: &str, context: usize) -> String {
    let mut text = String::new();
    for hunk in hunks(before, after, context) {
        let count = |other: LineChange| hunk.lines.iter().filter(|(fate, _)| *fate != other).count();
        let (old, new) = (count(LineChange::Added), count(LineChange::Removed));
        text.push_str(&format!("@@ -{} +{} @@\n", range(hunk.before, old), range(hunk.after, new)));
        for (fate, line) in hunk.lines {
            text.push(match fate {
                LineChange::Kept => ' ',
                LineChange::Removed => '-',
                LineChange::Added => '+',
            });
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

/// Lines count from 1; a range without lines names the line before it.
fn range(skipped: usize, count: usize) -> String {
    match count {
        0 => format!("{skipped},0"),
        1 => (skipped + 1).to_string(),
        _ => format!("{},{count}", skipped + 1),
    }
}

/// What leads from one side to the other, in reading order.
fn operations<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<DiffOp> {
    let lead = common(old.iter(), new.iter());
    let (old_rest, new_rest) = (old.get(lead..).unwrap_or_default(), new.get(lead..).unwrap_or_default());
    let tail = common(old_rest.iter().rev(), new_rest.iter().rev());
    let (gone, come) = (old_rest.len() - tail, new_rest.len() - tail);
    if gone + come <= MOST_LINES {
        // Lines become numbers, so that comparing two costs the same however long they are. `capture_diff` would move
        // changes afterwards, and says wrong positions of some that it moved.
        let lines = IdentifyDistinct::<u32>::new(old, 0..old.len(), new, 0..new.len());
        let mut found = Replace::new(Capture::new());
        let (old, new) = (lines.old_lookup(), lines.new_lookup());
        let Ok(()) = myers::diff(&mut found, old, lines.old_range(), new, lines.new_range());
        return found.into_inner().into_ops();
    }
    vec![
        DiffOp::Equal { old_index: 0, new_index: 0, len: lead },
        DiffOp::Replace { old_index: lead, old_len: gone, new_index: lead, new_len: come },
        DiffOp::Equal { old_index: lead + gone, new_index: lead + come, len: tail },
    ]
}

/// How many items two sequences begin with alike.
fn common<'t>(old: impl Iterator<Item = &'t &'t str>, new: impl Iterator<Item = &'t &'t str>) -> usize {
    old.zip(new).take_while(|(a, b)| a == b).count()
}

/// The lines of neighbouring operations.
fn hunk<'t>(operations: &[DiffOp], old: &[&'t str], new: &[&'t str]) -> Option<Hunk<'t>> {
    let first = operations.first()?;
    let mut hunk = Hunk { before: first.old_range().start, after: first.new_range().start, lines: Vec::new() };
    for operation in operations {
        let removed = old.get(operation.old_range()).unwrap_or_default();
        if let DiffOp::Equal { .. } = operation {
            hunk.lines.extend(removed.iter().map(|line| (LineChange::Kept, *line)));
            continue;
        }
        let added = new.get(operation.new_range()).unwrap_or_default();
        hunk.lines.extend(removed.iter().map(|line| (LineChange::Removed, *line)));
        hunk.lines.extend(added.iter().map(|line| (LineChange::Added, *line)));
    }
    Some(hunk)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text after, made from the text before and the hunks alone.
    fn apply(before: &str, hunks: &[Hunk<'_>]) -> String {
        let old: Vec<&str> = before.split_inclusive('\n').collect();
        let mut at = 0;
        let mut made: Vec<&str> = Vec::new();
        for hunk in hunks {
            made.extend(&old[at..hunk.before]);
            at = hunk.before;
            assert_eq!(made.len(), hunk.after, "the hunk says where it stands");
            for (fate, line) in &hunk.lines {
                if *fate != LineChange::Added {
                    assert_eq!(old[at], *line);
                    at += 1;
                }
                if *fate != LineChange::Removed {
                    made.push(line);
                }
            }
        }
        made.extend(&old[at..]);
        made.concat()
    }

    /// How many lines differ at least, by the plain table of the longest common subsequence.
    fn least(before: &str, after: &str) -> usize {
        let old: Vec<&str> = before.split_inclusive('\n').collect();
        let new: Vec<&str> = after.split_inclusive('\n').collect();
        let mut row = vec![0; new.len() + 1];
        for a in &old {
            let above = row.clone();
            for (j, b) in new.iter().enumerate() {
                row[j + 1] = if a == b { above[j] + 1 } else { row[j].max(above[j + 1]) };
            }
        }
        old.len() + new.len() - 2 * row[new.len()]
    }

    fn changes(hunks: &[Hunk<'_>]) -> usize {
        hunks.iter().flat_map(|hunk| &hunk.lines).filter(|(fate, _)| *fate != LineChange::Kept).count()
    }

    #[test]
    fn a_change_has_three_lines_around_it() {
        let before: String = (1..=12).map(|n| format!("{n}\n")).collect();
        let after = before.replace("6\n", "six\n");
        assert_eq!(unified(&before, &after, 3), "@@ -3,7 +3,7 @@\n 3\n 4\n 5\n-6\n+six\n 7\n 8\n 9\n");
        assert_eq!(unified(&before, &before, 3), "");
    }

    #[test]
    fn far_changes_are_apart_and_near_ones_together() {
        let before: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let far = before.replace("2\n3\n", "3\n").replace("20\n", "20\n21\n");
        let heads: Vec<String> =
            unified(&before, &far, 3).lines().filter(|line| line.starts_with("@@")).map(str::to_owned).collect();
        assert_eq!(heads, ["@@ -1,5 +1,4 @@", "@@ -18,3 +17,4 @@"]);
        let near = before.replace("\n5\n", "\nfive\n").replace("\n12\n", "\ntwelve\n");
        assert_eq!(hunks(&before, &near, 3).len(), 1, "six lines between them are context of both");
        let apart = before.replace("\n5\n", "\nfive\n").replace("\n13\n", "\nthirteen\n");
        assert_eq!(hunks(&before, &apart, 3).len(), 2);
    }

    #[test]
    fn a_text_that_comes_or_goes_is_one_hunk() {
        assert_eq!(unified("", "a\nb\n", 3), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(unified("a\n", "", 3), "@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn a_last_line_without_an_end_is_said() {
        let said = "\\ No newline at end of file\n";
        assert_eq!(unified("a\nb", "a\nb\n", 3), format!("@@ -1,2 +1,2 @@\n a\n-b\n{said}+b\n"));
    }

    #[test]
    fn what_has_little_in_common_is_replaced_and_still_right() {
        let before: String = (0..30_000).map(|n| format!("a{n}\n")).collect();
        let after: String = (0..30_000).map(|n| format!("b{}\n", n * 7 % 30_000)).collect();
        let found = hunks(&before, &after, 3);
        assert_eq!(apply(&before, &found), after);
        assert_eq!(found.len(), 1);
        let long: String = (0..MOST_LINES + 99).map(|n| format!("{n}\n")).collect();
        let other = long.replace("\n5\n", "\nfive\n").replace(&format!("\n{}\n", MOST_LINES + 50), "\nmany\n");
        let found = hunks(&long, &other, 3);
        assert_eq!(apply(&long, &found), other);
        assert_eq!((found.len(), found[0].before), (1, 2));
        // A change beside much that is the same is found however long the texts are.
        let near = long.replace("\n5\n", "\nfive\n").replace("\n99\n", "\nmany\n");
        assert_eq!(hunks(&long, &near, 3).len(), 2);
    }

    #[test]
    fn any_context_can_be_asked_for() {
        let found = hunks("a\nb\nc\n", "a\nB\nc\n", usize::MAX);
        assert_eq!((found.len(), found[0].lines.len()), (1, 4));
        assert_eq!(hunks("a\nb\nc\n", "a\nb\nc\n", usize::MAX), []);
        assert_eq!(unified("a\nb\nc\n", "a\nB\nc\n", 0), "@@ -2 +2 @@\n-b\n+B\n");
    }

    #[test]
    fn a_carriage_return_ends_no_line() {
        let said = "\\ No newline at end of file\n";
        assert_eq!(unified("a\rb\r\n", "a\rc\r", 3), format!("@@ -1 +1 @@\n-a\rb\r\n+a\rc\r\n{said}"));
    }

    proptest! {
        #[test]
        fn the_hunks_lead_from_one_text_to_the_other(
            before in "([a-d]?\n){0,40}[a-d]?", after in "([a-d]?\n){0,40}[a-d]?", context in 0_usize..5,
        ) {
            let found = hunks(&before, &after, context);
            prop_assert_eq!(apply(&before, &found), after.clone());
            prop_assert_eq!(changes(&found), least(&before, &after));
        }
    }
}
