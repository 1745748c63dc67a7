//! What differs between two texts, line by line: Myers' algorithm in linear space.
//!
//! The work is bounded. Where two texts are very large or have very little in common, the lines
//! that differ are said as one replacement, which is right if not the shortest way to say it.

use std::collections::HashMap;

/// More lines than this on either side, after what both begin and end with, are replaced as a whole.
const MOST_LINES: usize = 100_000;
/// How many comparisons are made before the rest is replaced as a whole.
const MOST_WORK: usize = 4_000_000;

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
    gather(&fates(&old, &new), context)
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

/// Every line of both texts with its fate, in reading order.
fn fates<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(LineChange, &'t str)> {
    let (removed, added) = marks(old, new);
    let mut lines = Vec::new();
    let mut old = old.iter().zip(removed).peekable();
    let mut new = new.iter().zip(added).peekable();
    loop {
        while let Some((line, _)) = old.next_if(|(_, removed)| *removed) {
            lines.push((LineChange::Removed, *line));
        }
        while let Some((line, _)) = new.next_if(|(_, added)| *added) {
            lines.push((LineChange::Added, *line));
        }
        // What is neither removed nor added is in both, in the same order.
        match (old.next(), new.next()) {
            (Some((line, _)), Some(_)) => lines.push((LineChange::Kept, *line)),
            _ => return lines,
        }
    }
}

/// Cuts the lines into hunks: changes that are at most twice the context apart share one.
fn gather<'t>(lines: &[(LineChange, &'t str)], context: usize) -> Vec<Hunk<'t>> {
    let mut hunks: Vec<Hunk<'t>> = Vec::new();
    let (mut before, mut after) = (0, 0);
    // Lines that are the same since the last change: they end a hunk or stand between two.
    let mut kept: Vec<&'t str> = Vec::new();
    let mut open = false;
    let close = |hunks: &mut Vec<Hunk<'t>>, kept: &[&'t str]| {
        if let Some(hunk) = hunks.last_mut() {
            hunk.lines.extend(kept.iter().take(context).map(|line| (LineChange::Kept, *line)));
        }
    };
    for (fate, line) in lines {
        if *fate == LineChange::Kept {
            kept.push(line);
            before += 1;
            after += 1;
            continue;
        }
        if open && kept.len() > context.saturating_mul(2) {
            close(&mut hunks, &kept);
            open = false;
        }
        if !open {
            let lead = kept.len().min(context);
            kept.drain(..kept.len() - lead);
            hunks.push(Hunk { before: before - lead, after: after - lead, lines: Vec::new() });
            open = true;
        }
        if let Some(hunk) = hunks.last_mut() {
            hunk.lines.extend(kept.drain(..).map(|line| (LineChange::Kept, line)));
            hunk.lines.push((*fate, line));
        }
        match fate {
            LineChange::Removed => before += 1,
            LineChange::Added | LineChange::Kept => after += 1,
        }
    }
    if open {
        close(&mut hunks, &kept);
    }
    hunks
}

/// Which lines of each side are not in the other.
fn marks<'t>(old: &[&'t str], new: &[&'t str]) -> (Vec<bool>, Vec<bool>) {
    let mut removed = vec![false; old.len()];
    let mut added = vec![false; new.len()];
    let lead = common(old.iter(), new.iter());
    let (old, new) = (old.get(lead..).unwrap_or_default(), new.get(lead..).unwrap_or_default());
    let tail = common(old.iter().rev(), new.iter().rev());
    let (n, m) = (old.len() - tail, new.len() - tail);
    let (Some(removed_here), Some(added_here)) = (removed.get_mut(lead..lead + n), added.get_mut(lead..lead + m))
    else {
        return (removed, added);
    };
    if n.max(m) > MOST_LINES {
        removed_here.fill(true);
        added_here.fill(true);
        return (removed, added);
    }
    // Lines become numbers, so that comparing two costs the same however long they are.
    let mut numbers: HashMap<&'t str, u32> = HashMap::new();
    let mut number = |line: &&'t str| -> u32 {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(line).or_insert(next)
    };
    let a: Vec<u32> = old.iter().take(n).map(&mut number).collect();
    let b: Vec<u32> = new.iter().take(m).map(&mut number).collect();
    Search { work: MOST_WORK }.mark(&a, &b, removed_here, added_here);
    (removed, added)
}

/// How many items two sequences begin with alike.
fn common<'t>(old: impl Iterator<Item = &'t &'t str>, new: impl Iterator<Item = &'t &'t str>) -> usize {
    old.zip(new).take_while(|(a, b)| a == b).count()
}

/// The search for the shortest way from one side to the other.
struct Search {
    /// How many comparisons are left.
    work: usize,
}

impl Search {
    /// Marks the lines of `a` that go and those of `b` that come.
    fn mark(&mut self, a: &[u32], b: &[u32], removed: &mut [bool], added: &mut [bool]) {
        let middle = if a.is_empty() || b.is_empty() { None } else { self.middle(a, b) };
        let Some(Snake { x, y, u, v, cost }) = middle else {
            removed.fill(true);
            added.fill(true);
            return;
        };
        if cost <= 1 {
            // One line more on one side, where the two stop being alike; or none.
            let lead = index(run(a.iter(), b.iter()));
            let side = if a.len() > b.len() { removed } else { added };
            if let Some(mark) = side.get_mut(lead).filter(|_| cost == 1) {
                *mark = true;
            }
            return;
        }
        if let (Some(a), Some(b), Some(removed), Some(added)) =
            (a.get(..x), b.get(..y), removed.get_mut(..x), added.get_mut(..y))
        {
            self.mark(a, b, removed, added);
        }
        if let (Some(a), Some(b), Some(removed), Some(added)) =
            (a.get(u..), b.get(v..), removed.get_mut(u..), added.get_mut(v..))
        {
            self.mark(a, b, removed, added);
        }
    }

    /// The middle of a shortest way, found from both ends at once; `None` where it would take too much work.
    fn middle(&mut self, a: &[u32], b: &[u32]) -> Option<Snake> {
        let (n, m) = (isize::try_from(a.len()).ok()?, isize::try_from(b.len()).ok()?);
        let delta = n - m;
        let odd = delta % 2 != 0;
        // The furthest point reached on each diagonal. More diagonals than this are never in use at once.
        let size = 2 * n.min(m) + 2;
        let slot = |k: isize| usize::try_from(k.rem_euclid(size)).unwrap_or(0);
        let reached = |points: &[isize], k: isize| points.get(slot(k)).copied().unwrap_or(0);
        let mut forward = vec![0; a.len().min(b.len()) * 2 + 2];
        let mut backward = forward.clone();
        for h in 0..=(n + m + 1) / 2 {
            for ahead in [true, false] {
                let (mine, other) = if ahead { (&mut forward, &backward) } else { (&mut backward, &forward) };
                let last = h - 2 * (h - n).max(0);
                let mut k = -(h - 2 * (h - m).max(0));
                while k <= last {
                    let down = k == -h || (k != h && reached(mine, k - 1) < reached(mine, k + 1));
                    let x0 = if down { reached(mine, k + 1) } else { reached(mine, k - 1) + 1 };
                    let y0 = x0 - k;
                    let same = if ahead {
                        run(a.iter().skip(index(x0)), b.iter().skip(index(y0)))
                    } else {
                        run(a.iter().rev().skip(index(x0)), b.iter().rev().skip(index(y0)))
                    };
                    self.work = self.work.checked_sub(same.unsigned_abs() + 1)?;
                    let (x, y) = (x0 + same, y0 + same);
                    if let Some(point) = mine.get_mut(slot(k)) {
                        *point = x;
                    }
                    let mirror = delta - k;
                    let reach = if ahead { h - 1 } else { h };
                    let met = odd == ahead && mirror.abs() <= reach && x + reached(other, mirror) >= n;
                    if met {
                        let cost = if ahead { 2 * h - 1 } else { 2 * h };
                        return Some(if ahead {
                            Snake { x: index(x0), y: index(y0), u: index(x), v: index(y), cost }
                        } else {
                            Snake { x: index(n - x), y: index(m - y), u: index(n - x0), v: index(m - y0), cost }
                        });
                    }
                    k += 2;
                }
            }
        }
        None
    }
}

/// A run of equal lines in the middle of a shortest way, and what the whole way costs.
struct Snake {
    x: usize,
    y: usize,
    u: usize,
    v: usize,
    cost: isize,
}

fn index(number: isize) -> usize {
    usize::try_from(number).unwrap_or(0)
}

fn run<'t>(a: impl Iterator<Item = &'t u32>, b: impl Iterator<Item = &'t u32>) -> isize {
    isize::try_from(a.zip(b).take_while(|(a, b)| a == b).count()).unwrap_or(0)
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
        let long: String = (0..MOST_LINES + 99).map(|n| format!("{n}\n")).collect();
        let other = long.replace("\n5\n", "\nfive\n").replace(&format!("\n{}\n", MOST_LINES + 50), "\nmany\n");
        let found = hunks(&long, &other, 3);
        assert_eq!(apply(&long, &found), other);
        assert_eq!(found.len(), 1);
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

        #[test]
        fn running_out_of_work_changes_the_length_and_not_the_truth(
            before in proptest::collection::vec(0_u32..5, 0..60), after in proptest::collection::vec(0_u32..5, 0..60),
            work in 0_usize..300,
        ) {
            let (mut removed, mut added) = (vec![false; before.len()], vec![false; after.len()]);
            Search { work }.mark(&before, &after, &mut removed, &mut added);
            let kept = |side: &[u32], gone: &[bool]| -> Vec<u32> {
                side.iter().zip(gone).filter(|(_, gone)| !**gone).map(|(line, _)| *line).collect()
            };
            prop_assert_eq!(kept(&before, &removed), kept(&after, &added));
        }
    }
}
