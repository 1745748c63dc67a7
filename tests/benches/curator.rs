//! The figures of skills as a living system. `cargo bench -p herm-tests --bench curator`
//!
//! CPU time of this process, because the machine is shared.

use std::sync::Arc;
use std::time::Duration;

use herm::curator::{self, CuratorPolicy};
use herm::skill::CreatedBy;
use herm::skill::command::CommandMatch;
use herm::{Brain, BrainId, BrainOptions, BrainSource, Draft, Layout, Seed, Slug, StepKind};
use herm_tests::{ManualClock, generate};
use rustix::time::{ClockId, clock_gettime};

const SKILLS: usize = 5_000;
const DAY: i64 = 24 * 60 * 60 * 1_000;

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let layout = Layout::new(dir.path());
    let id: BrainId = "1".parse().expect("an id");
    let clock = Arc::new(ManualClock::new());
    let opening = BrainOptions { clock: clock.clone(), ..BrainOptions::default() };
    let seed = Seed { id: &id, files: &[("system.md", b"You are a bench.\n")] };
    let (mut brain, _) = Brain::hydrate(&layout, &id, &BrainSource::Seed(seed), &opening).expect("a brain");
    let slugs = fill(&mut brain);

    // Nothing is due: what every session pays, and a whole pass.
    clock.advance_ms(20 * DAY);
    row(
        "is anything due? (after every session)",
        median(51, || assert_eq!(curator::due(&brain, CuratorPolicy::default()).expect("looked"), 0)),
        "",
    );
    row(
        "pass over 5,000 skills, none due",
        median(21, || drop(curator::run(&mut brain, CuratorPolicy::default()).expect("a pass"))),
        "≤ 10 ms",
    );

    // Ten at a time grow old enough for the archive.
    let mut samples = Vec::new();
    for round in 0..7 {
        let mut draft = Draft::new();
        let mut editor = brain.edit(&mut draft);
        for slug in slugs.iter().skip((round + 1) * 10) {
            editor.used(slug).expect("counted");
        }
        brain.settle(&draft, StepKind::Maintenance, "used").expect("settled");
        clock.advance_ms(95 * DAY);
        let mut draft = Draft::new();
        let mut editor = brain.edit(&mut draft);
        for slug in slugs.iter().skip((round + 1) * 10) {
            editor.used(slug).expect("counted");
        }
        brain.settle(&draft, StepKind::Maintenance, "used again").expect("settled");
        let prepared = cpu_now();
        let report = curator::run(&mut brain, CuratorPolicy::default()).expect("a pass");
        assert_eq!(report.plan.transitioned.len(), 10);
        samples.push(cpu_now() - prepared);
    }
    samples.sort();
    row("pass over 5,000 skills, 10 archived, settled", samples[3], "≤ 60 ms");

    let word = slugs[2_345].as_str().replace('-', "_");
    assert!(matches!(brain.command(&word).expect("resolved"), CommandMatch::Skill(_)));
    let mut found = 0;
    let thousand = median(51, || {
        for _ in 0..1_000 {
            found += usize::from(matches!(brain.command(&word).expect("resolved"), CommandMatch::Skill(_)));
        }
    });
    assert_eq!(found, 51_000);
    row("a slash command among 5,000 skills", thousand / 1_000, "≤ 20 µs");
    row(
        "one that is unknown, with what is near",
        median(21, || {
            assert!(matches!(brain.command("zzz-nothing-like-it").expect("resolved"), CommandMatch::Unknown { .. }))
        }),
        "",
    );

    let input = generate::messages(5).map(|said| said.content).collect::<Vec<_>>().join(" ");
    brain.best_skills(&input, 50).expect("chosen");
    row(
        "the best 50 of 5,000 skills for an input",
        median(51, || drop(brain.best_skills(&input, 50).expect("chosen"))),
        "≤ 5 ms",
    );
    brain.close().expect("closed");
}

/// 5,000 skills of the agent's own, each used once.
fn fill(brain: &mut Brain) -> Vec<Slug> {
    let mut slugs = Vec::new();
    let words: Vec<String> = generate::messages(SKILLS).map(|said| said.content.chars().take(160).collect()).collect();
    for (n, chunk) in words.chunks(500).enumerate() {
        let mut draft = Draft::new();
        let mut editor = brain.edit(&mut draft);
        for (m, said) in chunk.iter().enumerate() {
            let slug: Slug = format!("skill-{:05}", n * 500 + m).parse().expect("a slug");
            let description = herm::text::line(said, 150).replace(['"', ':', '#'], " ");
            let text = format!("---\nname: {slug}\ndescription: \"{description}\"\n---\n# {slug}\n\n{said}\n");
            editor.create_skill(&slug, &text, CreatedBy::Agent).expect("made");
            editor.used(&slug).expect("counted");
            slugs.push(slug);
        }
        brain.settle(&draft, StepKind::Maintenance, "made").expect("settled");
    }
    slugs.sort();
    slugs
}

fn row(what: &str, measured: Duration, bound: &str) {
    let micros = measured.as_secs_f64() * 1e6;
    let shown = if micros < 100.0 { format!("{micros:.2} µs") } else { format!("{:.2} ms", micros / 1e3) };
    println!("{what:<58} {shown:>14}   {bound}");
}

fn cpu_now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn median(times: usize, mut work: impl FnMut()) -> Duration {
    let mut samples: Vec<Duration> = (0..times)
        .map(|_| {
            let started = cpu_now();
            work();
            cpu_now() - started
        })
        .collect();
    samples.sort();
    samples[times / 2]
}
