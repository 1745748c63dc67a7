//! Lessons: what fails again and again, and what then works.
//!
//! A failure is put into a class by its tool and by what it said with everything left out that differs
//! from call to call. What worked is looked for in the same task, after the failure: the tool that
//! failed, if it succeeded later, else whatever succeeded next.

use std::collections::{BTreeMap, BTreeSet};

use super::EvidenceRow;
use super::sanitize::sanitize;
use super::variants::Guidance;
use crate::memory::{Evidence, EvidenceStatus};
use crate::text::{CLASS_CHARS, class};

/// A failure that was seen once is an accident.
const LEAST_FAILURES: u64 = 2;
/// The most lessons of a skill.
pub const MAX_LESSONS: usize = 5;
/// The most pieces of evidence that a lesson names.
const MAX_IDS: usize = 20;
/// How many characters of a tool's name are shown.
const TOOL_CHARS: usize = 64;

/// A class of failures, and what then worked. Its texts are [`sanitize`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct FailureLesson {
    /// The tool that failed.
    pub tool: String,
    /// What it said, without what differs from call to call.
    pub class: String,
    /// How often.
    pub failures: u64,
    /// In how many tasks.
    pub tasks: u64,
    /// What worked most often in the same task afterwards.
    pub worked: Option<LessonFix>,
    /// The newest of the evidence it rests on, in order.
    pub ids: Vec<i64>,
}

/// What worked after a failure.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct LessonFix {
    /// The tool.
    pub tool: String,
    /// What was different about the call.
    pub how: LessonFixKind,
    /// After how many of the failures.
    pub times: u64,
}

impl LessonFix {
    /// Whether the tool that had failed is the one that worked.
    pub fn same_tool(&self) -> bool {
        self.how != LessonFixKind::OtherTool
    }
}

/// What was different about the call that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LessonFixKind {
    /// The same tool with other arguments.
    OtherArguments,
    /// The same tool with the same arguments: the failure went away.
    SameCall,
    /// Another tool.
    OtherTool,
}

impl FailureLesson {
    /// What failed, how often, and what then worked how often.
    pub fn sentence(&self) -> String {
        let failed = format!(
            "`{}` failed {} in {}{}",
            self.tool,
            times(self.failures),
            if self.tasks == 1 { "1 task".to_owned() } else { format!("{} tasks", self.tasks) },
            self.saying(),
        );
        match &self.worked {
            None => format!("{failed}; nothing in those tasks worked after it."),
            Some(worked) => format!("{failed}; what then worked: {}, {}.", worked.name(), times(worked.times)),
        }
    }

    /// What to do about it.
    pub(super) fn advice(&self, style: Guidance) -> String {
        let before = match style {
            Guidance::VerifyFirst => {
                format!("Before calling `{}`, rule out what made it fail {}", self.tool, times(self.failures))
            }
            Guidance::EvidenceFirst => format!("Expect `{}` to fail as it did {}", self.tool, times(self.failures)),
            Guidance::ErrorsFirst => {
                format!("Avoid the call of `{}` that failed {}", self.tool, times(self.failures))
            }
        };
        match &self.worked {
            None => format!("{before}{}; no way around it is known yet.", self.saying()),
            Some(worked) => format!("{before}{}; where it still fails, try {}.", self.saying(), worked.name()),
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

/// What is gathered about a class.
#[derive(Default)]
struct Gathered<'a> {
    failures: u64,
    tasks: BTreeSet<&'a str>,
    worked: BTreeMap<(LessonFixKind, &'a str), u64>,
    ids: Vec<i64>,
}

/// The failures that recur in these rows: those with the most of them first, at most [`MAX_LESSONS`].
pub fn lessons(rows: &[EvidenceRow]) -> Vec<FailureLesson> {
    let mut tasks: BTreeMap<&str, Vec<&EvidenceRow>> = BTreeMap::new();
    for row in rows {
        tasks.entry(row.1.task.as_str()).or_default().push(row);
    }
    let mut classes: BTreeMap<(&str, String), Gathered<'_>> = BTreeMap::new();
    for (task, mut rows) in tasks {
        // From the end, so that what came after a failure is known when it is reached.
        rows.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        let mut next: Option<&Evidence> = None;
        let mut next_of: BTreeMap<&str, &Evidence> = BTreeMap::new();
        for (id, evidence) in rows {
            let tool = evidence.tool.as_str();
            if evidence.status == EvidenceStatus::Ok {
                next = Some(evidence);
                next_of.insert(tool, evidence);
                continue;
            }
            let found = classes.entry((tool, class(&evidence.summary))).or_default();
            found.failures += 1;
            found.tasks.insert(task);
            found.ids.push(*id);
            let worked = match (next_of.get(tool), next) {
                (Some(later), _) if later.args == evidence.args => Some((LessonFixKind::SameCall, tool)),
                (Some(_), _) => Some((LessonFixKind::OtherArguments, tool)),
                (None, Some(other)) => Some((LessonFixKind::OtherTool, other.tool.as_str())),
                (None, None) => None,
            };
            if let Some(worked) = worked {
                *found.worked.entry(worked).or_default() += 1;
            }
        }
    }
    let mut recurring: Vec<_> = classes.into_iter().filter(|(_, found)| found.failures >= LEAST_FAILURES).collect();
    // Stable, and they come in the order of tool and class.
    recurring.sort_by_key(|(_, found)| std::cmp::Reverse(found.failures));
    recurring.truncate(MAX_LESSONS);
    recurring.into_iter().map(|((tool, class), found)| found.lesson(tool, &class)).collect()
}

impl Gathered<'_> {
    fn lesson(mut self, tool: &str, class: &str) -> FailureLesson {
        self.ids.sort_unstable();
        let oldest = self.ids.len().saturating_sub(MAX_IDS);
        // Of those that worked equally often, the first in order.
        let worked = self.worked.iter().max_by_key(|(key, times)| (**times, std::cmp::Reverse(**key)));
        FailureLesson {
            tool: tool_name(tool),
            class: sanitize(class, CLASS_CHARS),
            failures: self.failures,
            tasks: u64::try_from(self.tasks.len()).unwrap_or(u64::MAX),
            worked: worked.map(|((how, tool), times)| LessonFix { tool: tool_name(tool), how: *how, times: *times }),
            ids: self.ids.split_off(oldest),
        }
    }
}

fn tool_name(tool: &str) -> String {
    let name = sanitize(tool, TOOL_CHARS);
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
