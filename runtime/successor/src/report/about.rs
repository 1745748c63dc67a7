//! What was judged, where and within which bounds: the patch, the base, budgets, walls, and how to do it again.

use super::{Column, VerdictReport, more, row, table};
use crate::evaluation::EvaluationPart;
use crate::judge::figures::{bytes, counted, micros, number, percent};
use crate::patch::PatchChange;
use crate::report::chart::{bar, safe};

/// The most layers, probes, parts or artifacts that are listed.
const MAX_LISTED: usize = 64;

fn facts(rows: &[(&str, String)]) -> String {
    let rows: Vec<String> = rows.iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n")).collect();
    format!("<dl>\n{}</dl>\n", rows.concat())
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", safe(text, 200))
}

fn chips(of: &[String]) -> String {
    let items: Vec<String> = of.iter().take(MAX_LISTED).map(|one| format!("<li>{}</li>", safe(one, 80))).collect();
    format!("<ul class=\"chips\">{}</ul>\n{}", items.concat(), more(of.len(), MAX_LISTED, "of them"))
}

impl VerdictReport<'_> {
    pub(super) fn patched(&self) -> String {
        let changes: Vec<String> =
            self.patch.changes().iter().take(MAX_LISTED).map(|change| format!("<li>{}</li>\n", told(change))).collect();
        let why = self.patch.why().map(|why| format!("<p>{}</p>\n", safe(why, 2_000)));
        format!(
            "<section>\n<h2>The patch</h2>\n{}<ul>\n{}</ul>\n<p class=\"small dim\">{}</p>\n</section>\n",
            why.unwrap_or_default(),
            changes.concat(),
            code(&self.verdict.patch_hash),
        )
    }

    pub(super) fn base(&self) -> String {
        let (base, identity, evaluation) = (&self.verdict.base, &self.verdict.identity, self.evaluation);
        let parts: Vec<String> = evaluation.parts.iter().map(told_part).collect();
        format!(
            "<section>\n<h2>What it was evaluated against</h2>\n{}{}</section>\n",
            facts(&[
                ("Brain", format!("{}, version {}", safe(&base.brain.to_string(), 80), base.version)),
                ("Bundle hash", code(&base.bundle_hash.to_string())),
                ("Identity before", code(&identity.before)),
                ("Identity after", identity.after.as_deref().map_or_else(|| "not reached".to_owned(), code)),
                ("Evaluation", safe(&evaluation.title, 200)),
                ("Evaluation hash", code(&self.verdict.evaluation_hash)),
                (
                    "Repetitions",
                    format!("every case {} on each side", counted(evaluation.repeat as usize, "time", "times"))
                ),
            ]),
            chips(&parts),
        )
    }

    pub(super) fn budgets(&self) -> String {
        let (budget, spent) = (self.verdict.budget, self.verdict.spent);
        let dollars = |micro: f64| format!("{:.2} USD", micro / 1e6);
        // What processors did as a share of the time that passed; less than a millisecond tells nothing.
        let cpu = spent.cpu_millis as f64 * 100.0 / (spent.wall_millis.max(1) as f64);
        let of_processor = |value: f64| format!("{value:.0} % of a processor");
        type Row<'a> = (&'a str, f64, f64, &'a dyn Fn(f64) -> String);
        let rows: [Row<'_>; 7] = [
            ("Time", spent.wall_millis as f64 * 1e3, budget.wall_secs as f64 * 1e6, &micros),
            ("Models", spent.micro_usd as f64, budget.micro_usd as f64, &dollars),
            ("Disk", spent.disk_bytes as f64, budget.disk_bytes as f64, &bytes),
            ("Processor", cpu, f64::from(budget.cpu_percent), &of_processor),
            ("Memory", spent.memory_bytes as f64, budget.memory_bytes as f64, &bytes),
            ("Processes", f64::from(spent.processes), f64::from(budget.processes), &number),
            ("Files", spent.files as f64, budget.files as f64, &number),
        ];
        let columns = [Column::Words("Budget"), Column::Words(""), Column::Numbers("Share"), Column::Numbers("Used")];
        let one = |(name, used, allowed, words): &Row<'_>| {
            let over = if used > allowed { " <span class=\"tag bad\">over</span>" } else { "" };
            let share = if *allowed > 0.0 { percent(used / allowed) } else { "–".to_owned() };
            let used_of = format!("{} <span class=\"dim\">of {}</span>", words(*used), words(*allowed));
            row(&columns, name, &[bar(*used, *allowed), format!("{share}{over}"), used_of])
        };
        let rows: Vec<String> = rows.iter().map(one).collect();
        let table = table("What the successor used of what it was allowed", &columns, &rows);
        format!("<section class=\"bars\">\n<h2>Budgets</h2>\n{table}</section>\n")
    }

    pub(super) fn walls(&self) -> String {
        let walls = &self.verdict.walls;
        let Some(tier) = walls.tier.as_deref() else {
            return "<section>\n<h2>Walls</h2>\n<p>No successor was isolated, so nothing of the patch was run.</p>\n\
                    </section>\n"
                .to_owned();
        };
        let canary = counted(walls.canary.len(), "probe", "probes");
        format!(
            "<section>\n<h2>Walls</h2>\n<p>Isolated by <b>{}</b> in {}. Before anything of the patch was loaded, \
             {canary} tried to get out and \
             {} stopped.</p>\n<h3>Layers</h3>\n{}<details><summary>{canary}</summary>\n{}</details>\n</section>\n",
            safe(tier, 80),
            counted(walls.layers.len(), "layer", "layers"),
            if walls.canary.len() == 1 { "was" } else { "were" },
            chips(&walls.layers),
            chips(&walls.canary),
        )
    }

    pub(super) fn again(&self) -> String {
        let verdict = self.verdict;
        let columns = [Column::Words("Type"), Column::Words("Path"), Column::Numbers("Size"), Column::Words("SHA-256")];
        let artifacts: Vec<String> = verdict
            .artifacts
            .iter()
            .take(MAX_LISTED)
            .map(|one| {
                let cells = [safe(&one.path, 120), bytes(one.bytes as f64), code(&one.sha256)];
                row(&columns, &safe(&one.kind, 40), &cells)
            })
            .collect();
        let table = if artifacts.is_empty() { String::new() } else { table("Artifacts", &columns, &artifacts) };
        format!(
            "<section>\n<h2>Do it again</h2>\n<pre>herm successor evaluate {} --patch PATCH.json --task \
             EVALUATION.json</pre>\n\
             <p class=\"small\">with the two files that have the hashes above, on the brain at version {}. \
             Deterministic metrics come out the same; \
             times and memory vary with the machine. From the same measurements and the seed every number of this \
             page comes out the same.</p>\n{}{table}</section>\n",
            safe(&verdict.base.brain.to_string(), 80),
            verdict.base.version,
            facts(&[
                ("Seed", verdict.seed.to_string()),
                ("Started", safe(&verdict.started_at.to_string(), 40)),
                ("Ended", safe(&verdict.ended_at.to_string(), 40)),
            ]),
        )
    }
}

/// What a change does, in a line.
fn told(change: &PatchChange) -> String {
    match change {
        PatchChange::Constants { set } => {
            let set = serde_json::to_string(set).unwrap_or_default();
            format!("constants: {}", code(&set))
        }
        PatchChange::Component { component, to } => format!("{} becomes {}", component.name(), code(to)),
        PatchChange::Role { content: Some(content), .. } => {
            format!("another role: <code>system.md</code>, {}", bytes(content.len() as f64))
        }
        PatchChange::Role { content: None, edits } => {
            let shown =
                edits.iter().take(3).map(|edit| format!("{} becomes {}", code(&edit.find), code(&edit.replace)));
            let shown: Vec<String> = shown.collect();
            let count = counted(edits.len(), "edit", "edits");
            format!("{count} of <code>system.md</code>: {}", shown.join("; "))
        }
        PatchChange::Tool { name, other: Some(other), .. } => {
            format!("the tool {} becomes {}", code(name), code(other))
        }
        PatchChange::Tool { name, executable, .. } => {
            let size = executable.as_ref().and_then(|one| one.program().ok()).map_or(0, |program| program.len());
            format!("the tool {} becomes a program of {}", code(name), bytes(size as f64))
        }
        PatchChange::Migration(migration) => format!("a migration: {}", code(&migration.up)),
        PatchChange::Files { set, remove } => {
            let paths: Vec<String> = set.keys().chain(remove).take(8).map(|path| code(path)).collect();
            let (set, remove) = (counted(set.len(), "file", "files"), remove.len());
            format!("{set} written, {remove} removed: {}", paths.join(", "))
        }
    }
}

/// What a part runs, in a few words.
fn told_part(part: &EvaluationPart) -> String {
    let count = |count: u32, one: &str, many: &str| counted(count as usize, one, many);
    let what = match part {
        EvaluationPart::Suite { tasks, .. } => counted(tasks.len(), "task", "tasks"),
        EvaluationPart::Replay { last, .. } => format!("the last {} again", count(*last, "task", "tasks")),
        EvaluationPart::Compress { sessions, .. } => count(*sessions, "long session", "long sessions"),
        EvaluationPart::Curate { lives, skills, .. } => {
            format!("{} of {} each", count(*lives, "life", "lives"), count(*skills, "skill", "skills"))
        }
        EvaluationPart::Calls { tool, calls, at_once, .. } => {
            format!("{} of {tool}, {at_once} at once", count(*calls, "call", "calls"))
        }
        EvaluationPart::Command { argv, .. } => format!("the command {}", argv.first().map_or("", String::as_str)),
    };
    format!("{}: {what}", part.name())
}
