//! After a patch was applied: is the brain worse off than before? The rule is pure; the tasks are read from receipts,
//! which are kept for ever and say how every task ended.

use serde::Serialize;
use serde_json::Value;

use crate::brain::{Reader, StepKind};
use crate::error::{Error, Result};
use crate::receipt::Envelope;

/// Tasks after a patch that are watched, unless said.
pub const WATCHED: usize = 16;
/// The fewest tasks on either side that are compared.
pub const LEAST_WATCHED: usize = 5;
/// The most tasks before a patch that are compared with.
const MOST_BEFORE: usize = 50;
/// By how much a share must be worse at least.
pub const WORSE_BY: f64 = 0.10;
/// How unlikely that must be by chance. Two shares are compared, so it is half of 5 %.
pub const WORSE_P: f64 = 0.025;
/// How far back a patch is looked for.
const MOST_STEPS: usize = 400;

/// How a task went, as its receipt says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedTask {
    /// It ended without an answer.
    pub failed: bool,
    /// A tool call of it failed or was refused.
    pub erred: bool,
}

/// A patch that was applied, and the tasks around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedPatch {
    /// The number of the step that applied it; taking it back names this step.
    pub step: i64,
    /// What the step says of it.
    pub summary: String,
    /// Tasks before, the nearest first.
    pub before: Vec<WatchedTask>,
    /// Tasks since, the nearest first.
    pub since: Vec<WatchedTask>,
}

/// What the tasks since say.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "standing", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WatchStatus {
    /// No patch is watched.
    Nothing,
    /// There are too few tasks yet.
    Watching {
        /// How many tasks ended since the patch.
        since: usize,
        /// Tasks that are watched.
        of: usize,
    },
    /// It is worse than before.
    Worse {
        /// What is worse, in a sentence.
        why: String,
    },
    /// Enough tasks went by, and it is not worse.
    Kept {
        /// How many tasks since the patch were compared.
        since: usize,
    },
}

/// Whether the tasks since a patch are worse than those before: of the tasks that end without an answer, or of those in
/// which a tool fails, the share is at least 10 points higher, and so much so that chance explains it in at most 2.5 % of
/// cases (Fisher's exact test, one-sided).
pub fn judge(patched: Option<&WatchedPatch>, watched: usize) -> WatchStatus {
    let Some(patched) = patched else { return WatchStatus::Nothing };
    let watched = watched.max(LEAST_WATCHED);
    let since: Vec<WatchedTask> = patched.since.iter().take(watched).copied().collect();
    if since.len() >= LEAST_WATCHED && patched.before.len() >= LEAST_WATCHED {
        for (what, is_bad) in [
            ("tasks ended without an answer", (|went: &WatchedTask| went.failed) as fn(&WatchedTask) -> bool),
            ("tasks had a tool fail", |went| went.erred),
        ] {
            let count = |tasks: &[WatchedTask]| tasks.iter().filter(|went| is_bad(went)).count();
            let (before, after) = (count(&patched.before), count(&since));
            let share = |bad: usize, of: usize| bad as f64 / of as f64;
            let rise = share(after, since.len()) - share(before, patched.before.len());
            let p = fisher(before, patched.before.len(), after, since.len());
            if rise >= WORSE_BY && p <= WORSE_P {
                let why = format!(
                    "{after} of {} {what} since, and {before} of {} before (p = {p:.4})",
                    since.len(),
                    patched.before.len()
                );
                return WatchStatus::Worse { why };
            }
        }
    }
    match since.len() < watched {
        true => WatchStatus::Watching { since: since.len(), of: watched },
        false => WatchStatus::Kept { since: since.len() },
    }
}

/// The probability of at least `after` bad ones among `since`, if the bad ones of both sides were dealt out by chance.
pub fn fisher(before: usize, of_before: usize, after: usize, since: usize) -> f64 {
    let all = of_before + since;
    let bad = before + after;
    // Logarithms of factorials: the numbers themselves are too large.
    let mut logs = vec![0.0_f64];
    for number in 1..=all {
        logs.push(logs.last().copied().unwrap_or(0.0) + (number as f64).ln());
    }
    let log = |number: usize| logs.get(number).copied().unwrap_or(f64::INFINITY);
    let choose = |n: usize, k: usize| log(n) - log(k) - log(n - k);
    let tail = (after..=bad.min(since)).filter(|hit| bad - hit <= of_before);
    let sum: f64 = tail.map(|hit| (choose(since, hit) + choose(of_before, bad - hit) - choose(all, bad)).exp()).sum();
    sum.min(1.0)
}

/// The last patch that was applied and stands, with the tasks around it.
pub(super) fn last_patch(reader: &Reader, watched: usize) -> Result<Option<WatchedPatch>> {
    let steps = reader.history(MOST_STEPS)?;
    let Some(patch) = steps.iter().find(|step| step.kind == StepKind::Patch) else { return Ok(None) };
    if steps.iter().any(|step| step.kind.undoes() == Some(patch.seq)) {
        return Ok(None);
    }
    let mut patched =
        WatchedPatch { step: patch.seq, summary: patch.summary.clone(), before: Vec::new(), since: Vec::new() };
    // The nearest first on both sides.
    let since = steps.iter().rev().filter(|step| step.seq > patch.seq);
    let before = steps.iter().filter(|step| step.seq < patch.seq);
    for (side, room, most) in [
        (since.collect::<Vec<_>>(), &mut patched.since, watched.max(LEAST_WATCHED)),
        (before.collect(), &mut patched.before, MOST_BEFORE),
    ] {
        for step in side {
            if room.len() < most
                && step.kind == StepKind::Task
                && let Some(went) = went(reader, step.seq)?
            {
                room.push(went);
            }
        }
    }
    Ok(Some(patched))
}

/// How a task went; nothing where the caller ended it, or nobody signed for it.
fn went(reader: &Reader, step: i64) -> Result<Option<WatchedTask>> {
    let Some(seq) = reader.receipt_of(step)? else { return Ok(None) };
    let Some(taped) = reader.receipts(seq, seq)?.pop() else { return Ok(None) };
    let statement: Value = serde_json::from_slice(&Envelope::parse(&taped.envelope)?.payload()?)
        .map_err(|source| Error::corrupt(format!("receipt {seq} is not JSON")).because(source))?;
    let task = &statement["predicate"]["task"];
    if task["stop"] == "cancelled" {
        return Ok(None);
    }
    let calls = task["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Some(WatchedTask {
        failed: task["status"] != "converged",
        erred: calls.iter().any(|call| call["status"] != "ok"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(bad: usize, of: usize) -> Vec<WatchedTask> {
        (0..of).map(|at| WatchedTask { failed: at < bad, erred: false }).collect()
    }

    fn standing(before: (usize, usize), since: (usize, usize)) -> WatchStatus {
        let patched = WatchedPatch {
            step: 7,
            summary: "patch: x".to_owned(),
            before: tasks(before.0, before.1),
            since: tasks(since.0, since.1),
        };
        judge(Some(&patched), WATCHED)
    }

    #[test]
    fn the_exact_test_gives_the_known_figures() {
        // The lady tasting tea: 4 of 4 right among 8 cups.
        assert!((fisher(0, 4, 4, 4) - 1.0 / 70.0).abs() < 1e-12);
        assert!((fisher(1, 4, 3, 4) - 17.0 / 70.0).abs() < 1e-12);
        assert!((fisher(0, 16, 3, 8) - 56.0 / 2_024.0).abs() < 1e-12);
        assert_eq!(fisher(0, 10, 0, 10), 1.0);
    }

    #[test]
    fn it_is_worse_only_where_chance_does_not_explain_it() {
        assert!(matches!(standing((0, 16), (4, 8)), WatchStatus::Worse { .. }));
        assert_eq!(standing((0, 16), (3, 8)), WatchStatus::Watching { since: 8, of: WATCHED });
        assert_eq!(standing((8, 16), (9, 16)), WatchStatus::Kept { since: 16 });
        assert_eq!(standing((16, 16), (0, 16)), WatchStatus::Kept { since: 16 });
    }

    #[test]
    fn too_few_tasks_say_nothing() {
        assert_eq!(standing((0, 50), (4, 4)), WatchStatus::Watching { since: 4, of: WATCHED });
        assert_eq!(standing((0, 4), (16, 16)), WatchStatus::Kept { since: 16 }, "there is nothing to compare with");
        assert_eq!(judge(None, WATCHED), WatchStatus::Nothing);
    }

    #[test]
    fn failing_tools_count_as_well() {
        let erring = vec![WatchedTask { failed: false, erred: true }; 8];
        let fine = vec![WatchedTask { failed: false, erred: false }; 20];
        let patched = WatchedPatch { step: 7, summary: String::new(), before: fine, since: erring };
        let WatchStatus::Worse { why } = judge(Some(&patched), WATCHED) else { panic!("it is worse") };
        assert!(why.starts_with("8 of 8 tasks had a tool fail since, and 0 of 20 before"), "{why}");
    }
}
