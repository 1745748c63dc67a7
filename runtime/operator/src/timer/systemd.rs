//! User units of systemd: a service that runs once, and the timer that starts it.
//!
//! Quoting is that of systemd.syntax(7) and systemd.service(5): words between double quotes with C
//! escapes, `%%` for a per cent sign everywhere, and `$$` for a dollar sign in arguments.

use herm::{BrainId, Error, Result};

use super::{ABOUT, MARK, Schedule, TimerPlan, full_path};

/// Seconds that a run may take.
const LONGEST_RUN: u32 = 3_600;
/// The most seconds by which a run is put off, so that many brains do not start at once.
const SPREAD: u32 = 300;

/// The name of a unit of a brain.
pub(super) fn unit(brain: &BrainId, kind: &str) -> String {
    format!("herm-evolver-{brain}.{kind}")
}

/// The service. What hardening it has, a user manager can give without privileges.
pub(super) fn service(plan: &TimerPlan) -> Result<String> {
    let brain = &plan.brain;
    let mut text = format!("# {MARK} {ABOUT}\n[Unit]\nDescription=herm: evolve the skills of brain {brain}\n\n");
    text.push_str(&format!("[Service]\nType=oneshot\nExecStart={}\n", command(plan)?));
    text.push_str(&format!("WorkingDirectory={}\n", directory(plan)?));
    for (name, value) in &plan.environment {
        text.push_str(&format!("Environment={}\n", word(&format!("{name}={value}"), Dollar::Plain)));
    }
    text.push_str(&format!("TimeoutStartSec={LONGEST_RUN}\nNice=10\nUMask=0077\n"));
    for on in ["NoNewPrivileges", "LockPersonality", "RestrictRealtime", "RestrictSUIDSGID"] {
        text.push_str(&format!("{on}=yes\n"));
    }
    text.push_str("SystemCallArchitectures=native\n");
    Ok(text)
}

/// The timer unit, which starts the service of the same brain.
pub(super) fn timer(plan: &TimerPlan) -> String {
    let brain = &plan.brain;
    let (when, spread) = match &plan.schedule {
        Schedule::Every(seconds) => {
            (format!("OnActiveSec={seconds}\nOnUnitActiveSec={seconds}\n"), (seconds.get() / 10).min(SPREAD))
        }
        calendar => (format!("OnCalendar={calendar}\nPersistent=true\n"), SPREAD),
    };
    format!(
        "# {MARK} {ABOUT}\n[Unit]\nDescription=herm: when to evolve the skills of brain {brain}\n\n\
         [Timer]\n{when}RandomizedDelaySec={spread}\nUnit={}\n\n[Install]\nWantedBy=timers.target\n",
        unit(brain, "service")
    )
}

/// The program and its arguments as one line.
fn command(plan: &TimerPlan) -> Result<String> {
    let program = full_path(&plan.program, "the program")?;
    if program.contains(['"', '\'', '\\']) {
        return Err(Error::invalid(format!(
            "systemd starts no program with a quote or backslash in its path: {program}"
        ))
        .hint("put herm into a directory with a plain name"));
    }
    // Only arguments have their variables replaced; in the program a dollar sign is one.
    let mut line = word(program, Dollar::Plain);
    for argument in &plan.arguments {
        line.push(' ');
        line.push_str(&word(argument, Dollar::Doubled));
    }
    Ok(line)
}

/// The directory is the rest of the line: no quotes, and nothing at its end that the line would lose.
fn directory(plan: &TimerPlan) -> Result<String> {
    let path = full_path(&plan.working_dir, "the working directory")?;
    if path.ends_with('\\') || path.trim_end() != path {
        return Err(Error::invalid(format!("systemd takes no working directory that ends like {path:?}"))
            .hint("move it to a place with a plain name"));
    }
    Ok(path.replace('%', "%%"))
}

/// What a dollar sign becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dollar {
    /// Nothing is replaced there.
    Plain,
    /// A single one would begin the name of a variable.
    Doubled,
}

/// One word of a line.
fn word(text: &str, dollar: Dollar) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "_@+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(bare) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' => quoted.push_str("%%"),
            '$' if dollar == Dollar::Doubled => quoted.push_str("$$"),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
