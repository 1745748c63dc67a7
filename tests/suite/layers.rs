//! Data flows one way: no module of the runtime uses one above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The packages that have layers inside, each from the ground up. A module may use those before it, and itself; between
/// packages cargo sees to it.
const PACKAGES: [(&str, &[&[&str]]); 4] = [
    ("core", &[&["error"], &["clock", "ids", "layout", "fsio", "redact", "schema", "text"]]),
    ("brain", &[&["bundle", "semantic", "signing", "tuning"], &["memory"], &["brain"], &["receipt"]]),
    ("agent", &[&["backend", "checks"], &["tool"], &["task"], &["session"]]),
    ("learning", &[&["evolver"], &["trial"], &["curator"]]),
];

/// The lines that a package may have without its tests.
const MOST_LINES: usize = 20_000;

/// What the library may compile, itself included, without its features.
const MOST_PACKAGES: usize = 100;

/// Inside a layer, who may use whom.
const SIDEWAYS: [(&str, &str); 4] = [("layout", "ids"), ("fsio", "ids"), ("fsio", "layout"), ("ids", "clock")];

/// The packages of the library, from the ground up: each may use those before it.
const ORDER: [&str; 11] = [
    "core",
    "http",
    "skills",
    "brain",
    "agent",
    "backends",
    "learning",
    "snapshot",
    "semantic",
    "harness",
    "successor",
];

fn runtime() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime")
}

/// Every `crate::module` a file mentions, in `use` lists and in paths.
fn edges(text: &str) -> BTreeSet<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    code.split("crate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_module_uses_one_above_it() {
    let (mut upward, mut seen) = (Vec::new(), 0);
    for (package, layers) in PACKAGES {
        let layer_of = |module: &str| layers.iter().position(|layer| layer.contains(&module));
        let root = runtime().join(package).join("src");
        let mut files = Vec::new();
        sources(&root, &mut files);
        for file in files {
            let relative = file.strip_prefix(&root).expect("inside");
            let module = relative.iter().next().expect("a part").to_str().expect("UTF-8").trim_end_matches(".rs");
            if module == "lib" {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a file");
            let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            for hidden in ["crate::{", "crate::*"] {
                assert!(!code.contains(hidden), "{}: {hidden} hides where an edge goes", file.display());
            }
            let from = layer_of(module).unwrap_or_else(|| panic!("{package}: {module} has no layer: add it"));
            for target in edges(&text) {
                // What the package takes from another package: cargo sees to the direction.
                let Some(to) = layer_of(&target) else { continue };
                seen += 1;
                if to >= from && target != module && !SIDEWAYS.contains(&(module, target.as_str())) {
                    upward.push(format!("{package}: {} uses crate::{target}", relative.display()));
                }
            }
        }
    }
    assert_eq!(upward, Vec::<String>::new());
    assert!(seen > 100, "only {seen} edges: the test no longer reads the code");
}

#[test]
fn packages_of_the_library_use_only_those_below_them() {
    for (at, package) in ORDER.iter().enumerate() {
        let manifest = std::fs::read_to_string(runtime().join(package).join("Cargo.toml")).expect("a manifest");
        let shipped = manifest.split("[dev-dependencies]").next().expect("a manifest");
        for above in &ORDER[at..] {
            let name = format!("herm-{above}");
            let uses = shipped
                .lines()
                .any(|line| line.starts_with(&format!("{name}.")) || line.starts_with(&format!("{name} ")));
            assert!(!uses, "herm-{package} uses {name}, which stands above it");
        }
    }
}

#[test]
fn packages_depend_one_way() {
    let manifest = |path: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).expect("a manifest")
    };
    let uses =
        |path: &str, name: &str| manifest(path).lines().any(|line| line.starts_with(&format!("{name}.workspace")));
    for forbidden in ["herm-tools", "herm-operator", "herm-tests", "clap", "axum"] {
        assert!(!uses("runtime/Cargo.toml", forbidden), "the runtime uses {forbidden}");
    }
    for forbidden in ["herm-operator", "herm-tests", "clap"] {
        assert!(!uses("tools/Cargo.toml", forbidden), "the tools use {forbidden}");
    }
    // What the command is made of: none uses another, nor what is typed and what is sent over HTTP.
    let parts = ["herm-bench", "herm-settings", "herm-server-db"];
    for part in parts {
        let manifest = format!("runtime/{}/Cargo.toml", part.trim_start_matches("herm-"));
        for forbidden in parts.into_iter().chain(["herm-operator", "herm-tests", "clap", "axum"]) {
            assert!(!uses(&manifest, forbidden), "{part} uses {forbidden}");
        }
        assert!(uses("runtime/operator/Cargo.toml", part), "the operator does without {part}");
    }
    assert!(!uses("runtime/server-db/Cargo.toml", "herm-tools"), "the server database uses tools");
    assert!(uses("runtime/operator/Cargo.toml", "herm-tools") && uses("tools/Cargo.toml", "herm"));
}

/// The server and the commands do the same things through `operations`, and meet only where a command starts the server.
#[test]
fn the_server_and_the_commands_do_not_use_each_other() {
    let root = runtime().join("operator/src");
    let forbidden: [(&str, &[&str]); 3] = [
        ("serve", &["commands", "output"]),
        ("commands", &["serve"]),
        ("operations", &["commands", "output", "cli", "serve"]),
    ];
    let (mut found, mut seen) = (Vec::new(), 0);
    for (folder, forbidden) in forbidden {
        let mut files = Vec::new();
        sources(&root.join(folder), &mut files);
        seen += files.len();
        for file in files {
            let relative = file.strip_prefix(&root).expect("inside").display().to_string();
            let edges = edges(&std::fs::read_to_string(&file).expect("a file"));
            let bad = forbidden.iter().filter(|module| edges.contains(**module));
            found.extend(bad.map(|module| format!("{relative} uses crate::{module}")));
        }
    }
    assert_eq!(found, ["commands/serve.rs uses crate::serve"]);
    assert!(seen > 60, "only {seen} files: the test no longer reads the code");
}

/// Files of the server and of successors: what stands above the core names them itself.
const NAMES_ABOVE_CORE: [&str; 5] = [".operator", "book.db", "serve.lock", ".keys-made", ".successor"];

#[test]
fn the_core_names_no_file_of_the_server_or_of_successors() {
    let root = runtime().join("core/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 20, "only {} files: the test no longer reads the code", files.len());
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file");
        let relative = file.strip_prefix(&root).expect("inside").display().to_string();
        found.extend(
            NAMES_ABOVE_CORE.iter().filter(|name| text.contains(**name)).map(|name| format!("{relative}: {name}")),
        );
    }
    assert_eq!(found, Vec::<String>::new());
}

/// How many lines of a file are not tests: those before `mod NAME {` under `#[cfg(test)]`, which ends a file, or all.
fn lines_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins_tests = |at: &usize| {
        let below = lines[*at + 1..].iter().find(|line| !line.starts_with("#["));
        lines[*at] == "#[cfg(test)]" && below.is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    };
    (0..lines.len()).find(begins_tests).unwrap_or(lines.len())
}

/// Every line of `src/**/*.rs` counts, also empty ones and comments, but those of files named `tests.rs`, of files in a
/// folder named `tests`, and of modules of tests at the end of a file. Packages below `tests/` are not published.
#[test]
fn no_package_has_more_than_twenty_thousand_lines_without_its_tests() {
    let top = runtime().join("..");
    let manifest = std::fs::read_to_string(top.join("Cargo.toml")).expect("a manifest");
    let members = manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).expect("members");
    let members = members.split('"').skip(1).step_by(2).filter(|member| !member.starts_with("tests"));
    let counted: BTreeMap<&str, usize> = members
        .map(|member| {
            let src = top.join(member).join("src");
            let mut files = Vec::new();
            sources(&src, &mut files);
            let is_tests = |file: &PathBuf| {
                let inside = file.strip_prefix(&src).expect("inside");
                inside.iter().any(|part| part == "tests" || part == "tests.rs")
            };
            let texts = files.iter().filter(|file| !is_tests(file)).map(std::fs::read_to_string);
            (member, texts.map(|text| lines_without_tests(&text.expect("a file"))).sum())
        })
        .collect();
    assert!(
        counted.len() > 15 && counted["runtime/operator"] > 10_000,
        "the test no longer reads the code: {counted:?}"
    );
    let large: Vec<_> = counted.iter().filter(|(_, lines)| **lines > MOST_LINES).collect();
    assert_eq!(large, [], "cut these along their modules");
}

#[test]
fn a_module_of_tests_at_the_end_of_a_file_does_not_count() {
    let code = "use std::fmt;\n\n#[cfg(test)]\nuse fmt::Write;\n\nfn one() {}\n";
    assert_eq!(lines_without_tests(code), 6);
    for begin in ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\n#[expect(dead_code)]\npub(crate) mod tests {"] {
        assert_eq!(lines_without_tests(&format!("{code}\n{begin}\n    fn two() {{}}\n}}\n")), 7, "{begin}");
    }
}

/// Someone who brings a backend compiles the brain and the loop: no HTTP client, no TLS, no cipher of snapshots, no models, no
/// sandbox.
#[test]
fn the_bare_library_is_small() {
    let tree = std::process::Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "-p",
            "herm",
            "--no-default-features",
            "-e",
            "normal,build",
            "--prefix",
            "none",
        ])
        .current_dir(runtime())
        .output()
        .expect("cargo");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).expect("UTF-8");
    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    for forbidden in
        ["reqwest", "rustls", "zstd", "chacha20", "chacha20poly1305", "candle-core", "landlock", "herm-sandbox"]
    {
        assert!(!names.contains(forbidden), "the bare library compiles {forbidden}");
    }
    assert!(names.len() <= MOST_PACKAGES, "the bare library compiles {} packages: {names:?}", names.len());
}

/// Words of the backends that are also the name of a tool: properties and values of answers, words that tell nothing apart, a module.
const OTHER_WORDS: [(&str, &str); 6] = [
    ("reflex/fields.rs", "memory"),
    ("reflex/fields.rs", "note"),
    ("reflex/fill.rs", "note"),
    ("reflex/mod.rs", "note"),
    ("reflex/mod.rs", "outline"),
    ("reflex/plan.rs", "memory"),
];

/// The sources of the backends without their tests, by path, each with its code.
fn backend_sources() -> Vec<(String, String)> {
    let root = runtime().join("backends/src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files
        .iter()
        .map(|file| (file.strip_prefix(&root).expect("inside").to_str().expect("UTF-8").to_owned(), file))
        .filter(|(path, _)| !path.contains("/tests"))
        .map(|(path, file)| {
            let text = std::fs::read_to_string(file).expect("a file");
            (path, text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned())
        })
        .collect()
}

#[test]
fn no_backend_names_a_tool() {
    let tools = herm_tools::standard().expect("tools");
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    assert!(names.len() >= 12, "{names:?}");
    let mut named = Vec::new();
    for (path, text) in backend_sources() {
        for name in &names {
            // A name of two words stands for nothing else; one of one word does so where it is quoted.
            let quoted = [format!("\"{name}\""), format!("`{name}`")];
            let found =
                if name.contains('_') { text.contains(name) } else { quoted.iter().any(|word| text.contains(word)) };
            if found && !OTHER_WORDS.contains(&(path.as_str(), name)) {
                named.push(format!("{path} names {name}"));
            }
        }
    }
    assert_eq!(named, Vec::<String>::new());
}

/// The system message and the input are read, and the list of skills in the question about a lesson. What a tool wrote is put
/// behind a type that can only quote it.
#[test]
fn reflex_does_not_read_what_tools_wrote() {
    let (mut contents, mut texts, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    for (path, text) in backend_sources().iter().filter(|(path, _)| path.starts_with("reflex/")) {
        for line in text.lines().map(str::trim) {
            let found = || format!("{path}: {line}");
            if line.contains(".content") {
                contents.push(found());
            }
            if line.contains("call.text") {
                texts.push(found());
            }
            if ["data, not instructions", "[result", "[failure", "[refusal", "[shortened"]
                .iter()
                .any(|mark| line.contains(mark))
            {
                marks.push(found());
            }
        }
    }
    contents.sort();
    assert_eq!(
        contents,
        [
            r#"reflex/lesson.rs: let question = ask.messages.last().map_or("", |message| &*message.content);"#,
            r#"reflex/talk.rs: let system: &str = system.map_or("", |message| &message.content);"#,
            r#"reflex/talk.rs: let text: &str = messages.get(at).map_or("", |message| &message.content);"#,
        ]
    );
    assert_eq!(texts, ["reflex/talk.rs: said: Quotable(&call.text),"]);
    assert_eq!(marks, Vec::<String>::new());
}

/// Who may write a step, its lock or its receipt, beside the place that defines the call: the one commit path; the repair,
/// which keeps the receipts of lost steps in the chain; and the rewinding of a copy for a replay.
const STEP_WRITERS: [(&str, &[&str]); 6] = [
    ("add_step(", &["commit.rs", "journal.rs", "repair.rs"]),
    ("save_lock(", &["commit.rs", "journal.rs", "rewind.rs"]),
    ("receipt_log::add", &["repair.rs"]),
    ("receipt_log::sign_step", &["commit.rs"]),
    ("INSERT INTO steps", &["journal.rs"]),
    ("INSERT INTO receipts", &["receipt_log.rs"]),
];

#[test]
fn a_step_is_written_by_the_one_commit_path_and_two_named_exceptions() {
    let dir = runtime().join("brain/src");
    let mut files = Vec::new();
    sources(&dir, &mut files);
    let texts: Vec<(String, String)> = files
        .iter()
        .map(|file| {
            let name = file.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
            let text = std::fs::read_to_string(file).expect("a file");
            let code: Vec<&str> = text.lines().take(lines_without_tests(&text)).collect();
            (name, code.join("\n"))
        })
        .collect();
    let holding = |part: &str| -> BTreeSet<&str> {
        texts.iter().filter(|(_, text)| text.contains(part)).map(|(name, _)| name.as_str()).collect()
    };
    for (writes, allowed) in STEP_WRITERS {
        assert_eq!(holding(writes), allowed.iter().copied().collect(), "{writes}");
    }
}
