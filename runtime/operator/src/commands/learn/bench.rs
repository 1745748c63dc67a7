//! `herm learn bench`: what learning brings, on families of tasks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use herm::backend::Backend;
use herm::fsio::{self, Root};
use herm::{BrainId, Error, RelPath, Result};
use herm_bench::{BenchArm, BenchOptions, BenchProgress, BenchTable, Family, KeptReplies};
use serde_json::{Value, json};

use crate::backends;
use crate::cli::LearnBench;
use crate::commands::in_runtime;
use crate::config::Settings;
use crate::output::{self, Answer};
use crate::spinner::Spinner;

pub(super) fn run(settings: &Settings, arguments: &LearnBench, quiet: bool) -> Result<Answer> {
    let families = families(&arguments.families)?;
    if arguments.check {
        return Ok(checked(&families));
    }
    if arguments.tasks == Some(0) || arguments.learn == Some(0) {
        return Err(Error::invalid("no tasks are to be run").hint("give --tasks and --learn a number from 1 on"));
    }
    let arms = match &arguments.arms {
        Some(names) => BenchArm::parse_all(names)?,
        None => herm_bench::ARMS.to_vec(),
    };
    may_start(settings, &families, arguments.allow_programs)?;
    let (learn, held_out) = (arguments.learn.or(arguments.tasks), arguments.tasks);
    let (demonstrations, labels) = (arguments.demonstrate, !arguments.no_labels);
    let options = BenchOptions { arms, learn, held_out, demonstrations, labels };
    // What cannot be written is known before hours of asking.
    if let Some(out) = &arguments.out {
        fsio::create_dirs(out)?;
        write(&out.join("table.md"), "")?;
    }
    if let Some(svg) = &arguments.svg {
        write(svg, "")?;
    }
    let (backend, kept) = speaker(settings, arguments)?;
    let mut spinner = if quiet { None } else { Spinner::start() };
    let mut say = |progress: BenchProgress<'_>| match progress {
        BenchProgress::Task { family, arm, half, task, of } => {
            if let Some(spinner) = &mut spinner {
                spinner.say(&format!("{family}, {}, {half}: task {task} of {of}", arm.title()));
            }
        }
        BenchProgress::Arm { .. } if quiet => {}
        BenchProgress::Arm { family, arm, learned, measured } => {
            let solved = |tasks: &[herm_bench::TaskResult]| {
                format!("{} of {}", tasks.iter().filter(|task| task.solved).count(), tasks.len())
            };
            let line = format!(
                "{family}, {}: {} while learning, {} held out\n",
                arm.title(),
                solved(learned),
                solved(measured)
            );
            // It goes on where the terminal cannot be written to.
            let _ = std::io::Write::write_all(&mut crate::spinner::Above, output::printable(&line).as_bytes());
        }
    };
    let table = in_runtime(herm_bench::run(&families, &backend, &options, &mut say));
    drop(spinner);
    let table = table?;
    let (text, document) = (table.markdown(), table.json());
    if let Some(out) = &arguments.out {
        write_all(out, &table, &text, &document)?;
    }
    if let Some(svg) = &arguments.svg {
        write(svg, &table.curves())?;
    }
    let answer = Answer::new(text, document);
    Ok(match kept.and_then(|kept| kept.broken()) {
        Some(why) => answer.note(format!("the model's replies are not kept: {why}")),
        None => answer,
    })
}

/// The families that were named: directories first, then built-in ones by name; all of these where none is named.
fn families(named: &[PathBuf]) -> Result<Vec<Family>> {
    let mut families = Vec::new();
    for path in named {
        let built_in = path.to_str().filter(|_| !path.exists()).filter(|name| !name.contains(['/', '\\']));
        match built_in {
            Some(name) => families.push(herm_bench::built_in(name)?),
            None => {
                let below = Family::below(path)?;
                let paths = if below.is_empty() { vec![path.clone()] } else { below };
                for path in paths {
                    families.push(Family::open(&path)?);
                }
            }
        }
    }
    if named.is_empty() {
        families = herm_bench::built_in_names().map(herm_bench::built_in).collect::<Result<_>>()?;
    }
    for (at, family) in families.iter().enumerate() {
        if families.iter().take(at).any(|before| before.name == family.name) {
            return Err(Error::conflict(format!("two families are named {:?}", family.name))
                .hint("give one of them another \"name\" in its family.json"));
        }
    }
    Ok(families)
}

/// A family is data that travels; what travels starts programs only where the operator says so.
fn may_start(settings: &Settings, families: &[Family], allowed: bool) -> Result<()> {
    let programs: Vec<String> = families.iter().flat_map(Family::programs).collect();
    if programs.is_empty() || allowed || backends::permissions(settings).process {
        return Ok(());
    }
    Err(Error::refused(format!("a family starts a program: {}", programs.join("; ")))
        .hint("look at it, then say --allow-programs; it runs with your rights"))
}

/// Who answers, and the replies that are kept of it.
type Speaker = (Arc<dyn Backend>, Option<Arc<KeptReplies>>);

/// Who answers. A model in the process answers the same every time: it is asked nothing twice.
fn speaker(settings: &Settings, arguments: &LearnBench) -> Result<Speaker> {
    let id: BrainId = "1".parse()?;
    let backend = backends::backend_named(settings, &id, &arguments.backend, arguments.model.as_deref())?;
    let speaker = format!("{} {}", arguments.backend, arguments.model.as_deref().unwrap_or_default());
    let kept = match &arguments.replies {
        Some(path) => KeptReplies::in_file(backend, speaker, path)?,
        None if backends::is_local(settings, &arguments.backend) => KeptReplies::in_memory(backend, speaker),
        None => return Ok((backend, None)),
    };
    let kept = Arc::new(kept);
    Ok((Arc::clone(&kept) as _, Some(kept)))
}

/// What the families are, where nothing is run.
fn checked(families: &[Family]) -> Answer {
    let mut text = String::new();
    let mut documents = Vec::new();
    for family in families {
        let (learn, held_out) = family.sizes();
        let tools = family.tool_names();
        let shown = match family.demonstrated() {
            0 => String::new(),
            1 => ", 1 demonstration".to_owned(),
            many => format!(", {many} demonstrations"),
        };
        text.push_str(&format!(
            "{}: {learn} tasks to learn from, {held_out} held out{shown}; tools: {}\n",
            family.name,
            tools.join(", ")
        ));
        for line in std::iter::once(&family.about).filter(|about| !about.is_empty()).chain(&family.remarks) {
            text.push_str(&format!("  {line}\n"));
        }
        documents.push(json!({
            "name": family.name, "about": family.about, "learn": learn, "heldOut": held_out,
            "demonstrations": family.demonstrated(), "tools": tools, "programs": family.programs(), "remarks": family.remarks,
        }));
    }
    Answer::new(text, json!({ "families": documents }))
}

fn write_all(out: &Path, table: &BenchTable, text: &str, document: &Value) -> Result<()> {
    write(&out.join("table.md"), text)?;
    write(&out.join("table.json"), &format!("{document:#}\n"))?;
    write(&out.join("curves.svg"), &table.curves())?;
    write(&out.join("tasks.jsonl"), &table.task_lines())
}

fn write(path: &Path, content: &str) -> Result<()> {
    let absolute = std::path::absolute(path).map_err(|source| Error::io("write", path, source))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name().and_then(|name| name.to_str())) else {
        return Err(Error::invalid(format!("{} is not the path of a file", path.display())).hint("name a file"));
    };
    let parent = parent.canonicalize().map_err(|source| Error::io("write", parent, source))?;
    let name: RelPath = name.parse()?;
    Root::open(&parent)?.write_tail(&name, 0, content.as_bytes()).map(|_| ())
}
