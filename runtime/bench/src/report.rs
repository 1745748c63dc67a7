//! The table in Markdown.

use std::fmt::Write as _;

use super::arms::BenchArm;
use super::table::{BenchTable, Comparison, Row, RowGroup, SIGNIFICANT};

impl BenchTable {
    /// The table for people.
    pub fn markdown(&self) -> String {
        let mut text = format!("# What learning brings: {}\n\n", plain(&self.model));
        let groups = self.groups();
        self.about(&mut text);
        solved(&self.arms(), &groups, &mut text);
        each(&groups, &mut text);
        compared(&groups, &mut text);
        self.remarks(&groups, &mut text);
        text
    }

    fn about(&self, text: &mut String) {
        let sizes: Vec<(usize, usize)> = self
            .families
            .iter()
            .filter_map(|family| family.arms.first().map(|arm| (arm.learn.len(), arm.held_out.len())))
            .collect();
        let learn = range(sizes.iter().map(|(learn, _)| *learn));
        let held_out = range(sizes.iter().map(|(_, held_out)| *held_out));
        let told = if self.labels {
            "and is told which of its answers were good"
        } else {
            "and is told nothing about its answers"
        };
        let families = count(self.families.len(), "family", "families");
        add(
            text,
            format_args!(
                "{families}, backend `{}`. Each arm answers {learn} tasks with learning on {told}; then learning is frozen and it \
             answers {held_out} others. A share has Wilson's 95 % interval; p is from the exact McNemar test against no \
             learning, task by task.\n",
                plain(&self.backend),
            ),
        );
    }

    fn remarks(&self, groups: &[RowGroup], text: &mut String) {
        text.push_str("\n## Remarks\n\n");
        let worse: Vec<String> = groups
            .iter()
            .flat_map(|group| group.rows.iter().map(move |row| (group, row)))
            .filter(|(_, row)| row.difference() == Some(false))
            .map(|(group, row)| format!("{} ({})", plain(&group.title), row.arm.title()))
            .collect();
        match worse.is_empty() {
            true => add(text, format_args!("- No arm is significantly below no learning (p < {SIGNIFICANT}).\n")),
            false => add(text, format_args!("- Significantly below no learning: {}.\n", worse.join(", "))),
        }
        for family in &self.families {
            if family.demonstrations > 0 {
                let given = count(family.demonstrations, "demonstration", "demonstrations");
                add(text, format_args!("- {}: the arms that learn began with {given}\n", plain(&family.name)));
            }
            for remark in &family.remarks {
                add(text, format_args!("- {}: {}\n", plain(&family.name), plain(remark)));
            }
            let unanswered = family.arms.iter().flat_map(|arm| arm.learn.iter().chain(&arm.held_out));
            let unanswered = unanswered.filter(|task| task.unanswered).count();
            if unanswered > 0 {
                let tasks = count(unanswered, "task", "tasks");
                add(
                    text,
                    format_args!(
                        "- {}: the backend did not answer {tasks}; they count as not solved\n",
                        plain(&family.name)
                    ),
                );
            }
        }
    }
}

/// A line a family: solved of the held-out tasks, by arm.
fn solved(arms: &[BenchArm], groups: &[RowGroup], text: &mut String) {
    text.push_str("\n## Held-out tasks solved\n\n| family | tasks |");
    arms.iter().for_each(|arm| add(text, format_args!(" {} |", arm.title())));
    text.push_str("\n|---|---:|");
    arms.iter().for_each(|_| text.push_str("---:|"));
    text.push('\n');
    for group in groups {
        let tasks = group.rows.first().map_or(0, |row| row.held_out.tasks);
        add(text, format_args!("| {} | {tasks} |", title(group)));
        for arm in arms {
            match group.rows.iter().find(|row| row.arm == *arm) {
                None => text.push_str(" – |"),
                Some(row) => {
                    let mark = row.difference().map_or("", |better| if better { " ↑" } else { " ↓" });
                    add(text, format_args!(" {}{mark} |", row.held_out.solved));
                }
            }
        }
        text.push('\n');
    }
    add(text, format_args!("\n↑ significantly more than no learning, ↓ significantly fewer (p < {SIGNIFICANT}).\n"));
}

/// A line an arm.
fn each(groups: &[RowGroup], text: &mut String) {
    text.push_str(
        "\n## Each arm\n\n| family | arm | while learning | held out | 95 % | against no learning | p | turns | calls | \
         skills learned | evolved | shown |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for group in groups {
        for row in &group.rows {
            add(text, format_args!("| {} | {} |{}\n", title(group), row.arm.title(), figures(row)));
        }
    }
}

fn figures(row: &Row) -> String {
    let [low, high] = row.held_out.interval().map(|share| (share * 100.0).round());
    let (against, p) = match row.against_none {
        Some(counts) => (format!("+{} −{}", counts.better, counts.worse), chance(counts.p())),
        None => ("–".to_owned(), "–".to_owned()),
    };
    let mean = |mean: Option<f64>| mean.map_or_else(|| "–".to_owned(), |mean| format!("{mean:.1}"));
    format!(
        " {}/{} | {}/{} | {low}–{high} % | {against} | {p} | {} | {} | {} | {} | {} |",
        row.learn.solved,
        row.learn.tasks,
        row.held_out.solved,
        row.held_out.tasks,
        mean(row.turns),
        mean(row.calls),
        row.learned,
        row.evolved,
        row.shown,
    )
}

/// A line for each two arms that learn and are compared with each other.
fn compared(groups: &[RowGroup], text: &mut String) {
    let all: Vec<(&RowGroup, &Comparison)> =
        groups.iter().flat_map(|group| group.comparisons.iter().map(move |compared| (group, compared))).collect();
    if all.is_empty() {
        return;
    }
    text.push_str(
        "\n## One arm against another\n\n| family | arm | against | only the arm | only the other | p |\n\
         |---|---|---|---:|---:|---:|\n",
    );
    for (group, Comparison { arm, against, counts }) in all {
        add(
            text,
            format_args!(
                "| {} | {} | {} | {} | {} | {} |\n",
                title(group),
                arm.title(),
                against.title(),
                counts.better,
                counts.worse,
                chance(counts.p())
            ),
        );
    }
    text.push_str("\nHeld-out tasks that only one of the two solved.\n");
}

fn chance(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

fn title(group: &RowGroup) -> String {
    match group.pooled {
        true => format!("**{}** ({})", plain(&group.title), count(group.families, "family", "families")),
        false => plain(&group.title),
    }
}

fn count(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn range(values: impl Iterator<Item = usize> + Clone) -> String {
    match (values.clone().min(), values.max()) {
        (Some(low), Some(high)) if low != high => format!("{low} to {high}"),
        (_, high) => high.unwrap_or_default().to_string(),
    }
}

/// A text that cannot end a cell or begin markup.
fn plain(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '|' | '<' | '>' | '`' | '*') || c.is_control() { ' ' } else { c }).collect()
}

fn add(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn the_table_says_what_was_solved_and_how_sure_that_is() {
        let text = table::tests::table().markdown();
        for line in [
            "# What learning brings: tiny",
            "2 families, backend `scripted`. Each arm answers 4 tasks",
            "| family | tasks | no learning | curated skill | examples |",
            "| ferry | 8 | 0 | 4 | 8 ↑ |",
            "| bus | 8 | 8 | – | 4 |",
            "| **all** (2 families) | 16 | 8 | – | 12 |",
            "| ferry | examples | 3/4 | 8/8 | 68–100 % | +8 −0 | 0.0078 | 2.0 | 1.0 | 1 | 0 | 8 |",
            "| ferry | no learning | 1/4 | 0/8 | 0–32 % | – | – | 2.0 | 1.0 | 1 | 0 | 0 |",
            "- No arm is significantly below no learning (p < 0.05).",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_nearest_example_is_compared_with_a_random_one_task_by_task() {
        let mut table = table::tests::table();
        assert!(!table.markdown().contains("## One arm against another"));
        for family in &mut table.families {
            let mut random = family.arms[0].clone();
            random.arm = BenchArm::Random;
            family.arms.push(random);
            family.demonstrations = 1;
        }
        let text = table.markdown();
        for line in [
            "| ferry | examples | a random example | 8 | 0 | 0.0078 |",
            "| bus | examples | a random example | 0 | 4 | 0.1250 |",
            "| **all** (2 families) | examples | a random example | 8 | 4 | 0.3877 |",
            "- bus: the arms that learn began with 1 demonstration",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(
            table.json()["table"][0]["compared"],
            serde_json::json!([{ "arm": "examples", "against": "random", "better": 8, "worse": 0, "p": 0.0078125 }])
        );
    }

    #[test]
    fn nothing_in_a_name_breaks_the_table() {
        let mut table = table::tests::table();
        table.model = "a|b\n<script>".to_owned();
        assert!(table.markdown().starts_with("# What learning brings: a b  script \n"));
        assert_eq!((chance(0.00001), chance(0.04)), ("< 0.0001".to_owned(), "0.0400".to_owned()));
    }
}
