//! Lessons: what fails again and again, and what then works.
//!
//! A failure is put into a class by its tool and by what it said with everything left out that differs from call to
//! call. What worked is looked for in the same task, after the failure, and only where it was meant for the same: the
//! tool that failed, or another one that got the same arguments. Where the arguments of calls are kept, a lesson names
//! those that most of the tasks have in common. What differs from task to task is the task's own, and stands as `…`.

mod call;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::EvidenceRow;
use super::sanitize::sanitize;
use super::variants::Guidance;
use crate::ids::Digest;
use crate::memory::{Evidence, EvidenceStatus};
use crate::text::{CLASS_CHARS, class};
use call::{CallPattern, is_about_the_same};

/// A failure that was seen once is an accident.
const LEAST_FAILURES: u64 = 2;
/// The most lessons of a skill.
pub const MAX_LESSONS: usize = 5;
/// The most pieces of evidence that a lesson names.
const MAX_IDS: usize = 20;
/// How many characters of a tool's name are shown.
const TOOL_CHARS: usize = 64;

/// A class of failures, and what then worked. Its texts are [`sanitize`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct FailureLesson {
    /// The tool that failed.
    pub tool: String,
    /// What it said, without what differs from call to call.
    pub class: String,
    /// How many calls failed in this way.
    pub failures: u64,
    /// In how many tasks.
    pub tasks: u64,
    /// What the calls that failed have in common, where that says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<NamedCall>,
    /// What worked most often in the same task afterwards.
    pub worked: Option<LessonFix>,
    /// The newest of the evidence it rests on, in order.
    pub ids: Vec<i64>,
    /// The arguments that the calls that worked have in common.
    #[serde(skip)]
    constants: String,
}

/// What the calls of a kind have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct NamedCall {
    /// Their arguments as JSON, with `…` for what differs from task to task.
    pub arguments: String,
    /// How many of the calls are like this.
    pub calls: u64,
}

/// What worked after a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct LessonFix {
    /// The tool whose call worked.
    pub tool: String,
    /// What was different about the call.
    pub how: LessonFixKind,
    /// After how many of the failures.
    pub times: u64,
    /// What the calls that worked have in common, where that says something; `calls` is what `times` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<NamedCall>,
}

impl LessonFix {
    /// Whether the tool that had failed is the one that worked.
    pub fn same_tool(&self) -> bool {
        self.how != LessonFixKind::OtherTool
    }
}

/// What was different about the call that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LessonFixKind {
    /// The same tool with other arguments.
    OtherArguments,
    /// The same tool with the same arguments: the failure went away.
    SameCall,
    /// Another tool with the same arguments, or about the same.
    OtherTool,
}

impl LessonFixKind {
    fn name(self) -> &'static str {
        match self {
            Self::OtherArguments => "other_arguments",
            Self::SameCall => "same_call",
            Self::OtherTool => "other_tool",
        }
    }
}

impl FailureLesson {
    /// What failed, how often, and what then worked how often.
    pub fn sentence(&self) -> String {
        let failed = format!(
            "{} failed {} in {}{}",
            self.subject(),
            times(self.failures),
            if self.tasks == 1 { "1 task".to_owned() } else { format!("{} tasks", self.tasks) },
            self.saying(),
        );
        match &self.worked {
            None => format!("{failed}; nothing in those tasks worked after it."),
            Some(LessonFix { tool, call: Some(call), .. }) => {
                format!("{failed}; `{tool}` with `{}` worked, {} of {}.", call.arguments, call.calls, self.failures)
            }
            Some(worked) => format!("{failed}; what then worked: {}, {}.", worked.name(), times(worked.times)),
        }
    }

    /// What to do about it.
    pub(super) fn advice(&self, style: Guidance) -> String {
        if let Some(LessonFix { tool, call: Some(call), .. }) = &self.worked {
            let way = format!("`{tool}` with `{}`", call.arguments);
            let bad = format!("{}, which failed {}{}", self.bare_subject(), times(self.failures), self.saying());
            return match style {
                Guidance::VerifyFirst => format!("Call {way} rather than {bad}; check what it says."),
                Guidance::EvidenceFirst => format!("Instead of {bad}, try {way}."),
                Guidance::ErrorsFirst => format!("Avoid {bad}; call {way}."),
            };
        }
        let before = match style {
            Guidance::VerifyFirst => {
                format!("Before calling {}, rule out what made it fail {}", self.bare_subject(), times(self.failures))
            }
            Guidance::EvidenceFirst => {
                format!("Expect {} to fail as it did {}", self.bare_subject(), times(self.failures))
            }
            Guidance::ErrorsFirst => {
                format!("Avoid the call of {} that failed {}", self.bare_subject(), times(self.failures))
            }
        };
        match &self.worked {
            None => format!("{before}{}; no way around it is known yet.", self.saying()),
            Some(worked) => format!("{before}{}; where it still fails, try {}.", self.saying(), worked.name()),
        }
    }

    /// Names the lesson by what it says: the tool, the class of the failure, and what worked. How often it was seen and
    /// in which tasks does not matter, so that the same lesson from newer evidence has the same name.
    pub fn shape(&self) -> Digest {
        let fix = self.worked.as_ref().map(|worked| (worked.tool.as_str(), worked.how.name(), self.constants.as_str()));
        Digest::of(serde_json::json!([self.tool, self.class, fix]).to_string().as_bytes())
    }

    /// The call that failed.
    fn subject(&self) -> String {
        match &self.call {
            Some(call) if call.calls < self.failures => format!("`{}`, mostly with `{}`,", self.tool, call.arguments),
            _ => self.bare_subject(),
        }
    }

    fn bare_subject(&self) -> String {
        match &self.call {
            Some(call) => format!("`{}` with `{}`", self.tool, call.arguments),
            None => format!("`{}`", self.tool),
        }
    }

    fn saying(&self) -> String {
        if self.class.is_empty() { String::new() } else { format!(" with `{}`", self.class) }
    }
}

impl LessonFix {
    fn name(&self) -> String {
        match self.how {
            LessonFixKind::OtherArguments => "the same tool with other arguments".to_owned(),
            LessonFixKind::SameCall => "the same call again".to_owned(),
            LessonFixKind::OtherTool => format!("`{}`", self.tool),
        }
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// The rows of each task, in the order of the calls.
type Tasks<'a> = BTreeMap<&'a str, Vec<&'a EvidenceRow>>;

/// The failures that recur in these rows: those with the most of them first, at most [`MAX_LESSONS`].
pub fn lessons(rows: &[EvidenceRow]) -> Vec<FailureLesson> {
    let mut tasks: Tasks<'_> = BTreeMap::new();
    for row in rows {
        tasks.entry(row.1.task.as_str()).or_default().push(row);
    }
    let mut classes: BTreeMap<(&str, String), Vec<&EvidenceRow>> = BTreeMap::new();
    for rows in tasks.values_mut() {
        rows.sort_unstable_by_key(|(id, _)| *id);
        for row in rows.iter().filter(|(_, row)| row.status != EvidenceStatus::Ok) {
            classes.entry((row.1.tool.as_str(), class(&row.1.summary))).or_default().push(row);
        }
    }
    let mut recurring: Vec<_> = classes.into_iter().filter(|(_, failed)| count(failed) >= LEAST_FAILURES).collect();
    // Stable, and they come in the order of tool and class.
    recurring.sort_by_key(|(_, failed)| Reverse(failed.len()));
    recurring.truncate(MAX_LESSONS);
    recurring.into_iter().map(|((tool, class), failed)| lesson(tool, &class, &failed, &tasks)).collect()
}

/// What the failures of a class teach.
fn lesson(tool: &str, class: &str, failed: &[&EvidenceRow], tasks: &Tasks<'_>) -> FailureLesson {
    let pattern = CallPattern::of(failed.iter().map(|(_, row)| row));
    let mut fixes: BTreeMap<(LessonFixKind, &str), Vec<&Evidence>> = BTreeMap::new();
    for (id, row) in failed.iter().copied() {
        let rows = tasks.get(row.task.as_str()).map(Vec::as_slice).unwrap_or_default();
        let later = rows.iter().filter(|(later, _)| later > id).map(|(_, later)| later);
        if let Some(found) = fix(row, later, &pattern) {
            let how = match (found.tool == row.tool, found.args == row.args) {
                (true, true) => LessonFixKind::SameCall,
                (true, false) => LessonFixKind::OtherArguments,
                (false, _) => LessonFixKind::OtherTool,
            };
            fixes.entry((how, found.tool.as_str())).or_default().push(found);
        }
    }
    // Of those that worked equally often, the first in order.
    let worked = fixes.iter().max_by_key(|(key, calls)| (calls.len(), Reverse(**key)));
    let after = worked.map(|(_, calls)| CallPattern::of(calls.iter().copied())).unwrap_or_default();
    let says_more = worked.is_some_and(|((how, _), _)| match how {
        LessonFixKind::OtherArguments => after.shown() != pattern.shown(),
        LessonFixKind::OtherTool => true,
        LessonFixKind::SameCall => false,
    });
    let named_fix = worked.filter(|_| says_more).and_then(|(_, calls)| after.named(calls.iter().copied()));
    let is_worth_naming = named_fix.is_some() || pattern.has_constants();
    let named = pattern.named(failed.iter().map(|(_, row)| row)).filter(|_| is_worth_naming);
    let in_tasks: BTreeSet<&str> = failed.iter().map(|(_, row)| row.task.as_str()).collect();
    let mut ids: Vec<i64> = failed.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    let oldest = ids.len().saturating_sub(MAX_IDS);
    FailureLesson {
        tool: tool_name(tool),
        class: sanitize(class, CLASS_CHARS),
        failures: count(failed),
        tasks: count_of(in_tasks.len()),
        call: named,
        constants: named_fix.as_ref().map(|_| after.constants()).unwrap_or_default(),
        worked: worked.map(|((how, tool), calls)| LessonFix {
            tool: tool_name(tool),
            how: *how,
            times: named_fix.as_ref().map_or(count_of(calls.len()), |named| named.calls),
            call: named_fix,
        }),
        ids: ids.split_off(oldest),
    }
}

/// The later call of the same task that did what a failed one was to do. The tool that failed comes first, where its call
/// was about the same, then another tool that was told the same, then the tool that failed whatever it was told; of
/// each the next one.
fn fix<'a>(
    failed: &Evidence,
    later: impl Iterator<Item = &'a Evidence>,
    pattern: &CallPattern<'_>,
) -> Option<&'a Evidence> {
    let matter = pattern.matter(failed);
    let rank = |row: &Evidence| match (row.tool == failed.tool, is_about_the_same(failed, row, &matter)) {
        (true, true) => Some(0),
        (true, false) if matter.is_empty() => Some(0),
        (false, true) => Some(1),
        (true, false) => Some(2),
        (false, false) => None,
    };
    later
        .filter(|row| row.status == EvidenceStatus::Ok)
        .enumerate()
        .filter_map(|(at, row)| Some(((rank(row)?, at), row)))
        .min_by_key(|(order, _)| *order)
        .map(|(_, row)| row)
}

fn count<T>(many: &[T]) -> u64 {
    count_of(many.len())
}

fn count_of(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn tool_name(tool: &str) -> String {
    let name = sanitize(tool, TOOL_CHARS);
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
