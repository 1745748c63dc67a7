//! What there is of verdicts, and what is removed of them.

use herm::successor::{Direction, Patch, Verdict, VerdictStore, detector, sweep};
use herm::{Error, Result, brain, fsio};
use serde_json::{Value, json};

use super::super::to_json;
use crate::config::Settings;
use crate::exit;
use crate::output::{Answer, columns};

/// The largest notes of the detector.
const MOST_NOTES: u64 = 8 << 20;

/// A verdict for people.
pub(super) fn summary(patch: &Patch, verdict: &Verdict) -> Result<String> {
    let hash = verdict.hash()?;
    let short = |hash: &str| hash.strip_prefix("sha256:").unwrap_or(hash).chars().take(12).collect::<String>();
    let mut text = format!(
        "{} · confidence {:.2} · {}\npatch    {} · {}\nbase     brain {} version {} · {}…\n",
        verdict.verdict.name(),
        verdict.confidence,
        short(&hash),
        short(&verdict.patch_hash),
        patch.title(),
        verdict.base.brain,
        verdict.base.version,
        verdict.base.bundle_hash.to_string().chars().take(12).collect::<String>(),
    );
    let walls = &verdict.walls;
    match &walls.tier {
        Some(tier) => text.push_str(&format!(
            "walls    {tier}: {} layers, {} escapes tried before anything ran and none got out\n",
            walls.layers.len(),
            walls.canary.len()
        )),
        None => text.push_str("walls    none could be built\n"),
    }
    text.push_str(&format!("{}\n", verdict.evaluation_summary));
    if !verdict.statistics.is_empty() {
        let mut rows =
            vec![["METRIC", "PART", "PAIRS", "BEFORE", "AFTER", "CHANGE", "95 %", ""].map(str::to_owned).to_vec()];
        for one in &verdict.statistics {
            let direction = match one.direction {
                Direction::Better => "better",
                Direction::Worse => "worse",
                Direction::Same => "same",
                Direction::Unclear => "unclear",
            };
            rows.push(vec![
                one.metric.name().to_owned(),
                one.part.clone().unwrap_or_else(|| "all".to_owned()),
                one.pairs.to_string(),
                figure(one.baseline),
                figure(one.patched),
                format!("{:+.1} %", one.change * 100.0),
                format!("{:+.1} … {:+.1}", one.interval[0] * 100.0, one.interval[1] * 100.0),
                direction.to_owned(),
            ]);
        }
        text.push_str(&columns(&rows));
    }
    for caveat in &verdict.caveats {
        text.push_str(&format!("caveat: {caveat}\n"));
    }
    let spent = &verdict.spent;
    text.push_str(&format!(
        "used {:.1} s, {:.1} s of processors, {} MB of memory, {:.2} USD\n",
        spent.wall_millis as f64 / 1e3,
        spent.cpu_millis as f64 / 1e3,
        spent.memory_bytes / 1_000_000,
        spent.micro_usd as f64 / 1e6
    ));
    Ok(text)
}

fn figure(value: f64) -> String {
    if value.abs() < 10.0 { format!("{value:.3}") } else { format!("{value:.0}") }
}

pub(super) fn list(settings: &Settings) -> Result<Answer> {
    let (records, unreadable) = VerdictStore::new(&settings.layout).all()?;
    let mut rows =
        vec![["VERDICT", "RULING", "CONFIDENCE", "BRAIN", "VERSION", "WHEN", "PATCH"].map(str::to_owned).to_vec()];
    let mut listed = Vec::new();
    for record in &records {
        let verdict = &record.verdict;
        rows.push(vec![
            record.name.clone(),
            verdict.verdict.name().to_owned(),
            format!("{:.2}", verdict.confidence),
            verdict.base.brain.to_string(),
            verdict.base.version.to_string(),
            verdict.ended_at.to_string(),
            record.patch.title().to_owned(),
        ]);
        listed.push(json!({
            "name": record.name,
            "verdict": verdict.verdict,
            "confidence": verdict.confidence,
            "base": verdict.base,
            "endedAt": verdict.ended_at,
            "patch": { "hash": verdict.patch_hash, "title": record.patch.title() },
        }));
    }
    let text = if records.is_empty() {
        "no verdicts yet; `herm successor evaluate ID --patch FILE --task FILE` makes one\n".to_owned()
    } else {
        columns(&rows)
    };
    let answer = Answer::new(text, json!({ "verdicts": listed, "unreadable": unreadable }));
    Ok(match unreadable.is_empty() {
        true => answer,
        false => answer.note(format!("not readable, or changed since: {}", unreadable.join(", "))),
    })
}

pub(super) fn show(settings: &Settings, wanted: &str) -> Result<Answer> {
    let record = VerdictStore::new(&settings.layout).find(wanted)?;
    let mut text = summary(&record.patch, &record.verdict)?;
    let signed = record.envelope.keyid().unwrap_or_default().to_owned();
    text.push_str(&format!("signed by {signed}\nreport: {}\n", record.path.join("report.html").display()));
    Ok(Answer::new(
        text,
        json!({
            "name": record.name,
            "directory": record.path,
            "hash": record.verdict.hash()?,
            "signedBy": signed,
            "verdict": to_json(&record.verdict)?,
            "envelope": to_json(&record.envelope)?,
        }),
    ))
}

/// What the detector found last, brain by brain.
pub(super) fn drafts(settings: &Settings, id: Option<&str>) -> Result<Answer> {
    let brains = match id {
        Some(id) => vec![id.parse()?],
        None => brain::list(&settings.layout)?,
    };
    let (mut text, mut all) = (String::new(), Vec::new());
    for id in &brains {
        let place = detector::notes(&settings.layout, id);
        let file = place.join("found.json");
        if !file.is_file() {
            continue;
        }
        let found: Value = serde_json::from_slice(&fsio::read_regular(&file, MOST_NOTES)?)
            .map_err(|source| Error::corrupt(format!("{} is not JSON", file.display())).because(source))?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        text.push_str(&format!("brain {id}: {} tasks, {}\n", found["tasks"], word(&found["at"])));
        for sentence in found["sentences"].as_array().into_iter().flatten() {
            text.push_str(&format!("  {}\n", word(sentence)));
        }
        if found["draft"].is_object() {
            let (title, at) = (word(&found["draft"]["title"]), place.display());
            text.push_str(&format!(
                "  drafted ({}): {title}\n  herm successor evaluate {id} --patch {at}/patch.json --task {at}/evaluation.json\n",
                word(&found["draft"]["aim"]),
            ));
        }
        all.push(found);
    }
    if all.is_empty() {
        text.push_str(
            "no brain was looked at yet: a server looks after tasks, and `herm successor auto ID --dry-run` now\n",
        );
    }
    Ok(Answer::new(text, json!({ "found": all })))
}

pub(super) fn destroy(settings: &Settings, wanted: &str) -> Result<Answer> {
    let path = VerdictStore::new(&settings.layout).remove(wanted)?;
    Ok(Answer::new(format!("removed {}\n", path.display()), json!({ "removed": path })))
}

pub(super) fn janitor(settings: &Settings) -> Result<Answer> {
    let swept = sweep(&settings.layout)?;
    let mut text = format!(
        "removed {} directories, {} control groups, {} mounts; ended {} processes; {} are in use\n",
        swept.leases.len(),
        swept.cgroups,
        swept.mounts,
        swept.processes,
        swept.held
    );
    for (path, why) in &swept.left {
        text.push_str(&format!("left: {}: {why}\n", path.display()));
    }
    let json = json!({
        "directories": swept.leases,
        "processes": swept.processes,
        "cgroups": swept.cgroups,
        "mounts": swept.mounts,
        "inUse": swept.held,
        "left": swept.left,
    });
    let code = if swept.left.is_empty() { exit::DONE } else { exit::NEGATIVE };
    Ok(Answer::new(text, json).code(code))
}
