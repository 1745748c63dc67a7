//! Embeds the canonical agents and the page into the binary, so that an installed `herm` works anywhere.
//!
//! `agents` is a link to `seed/agents/` of the repository; in a published package it is a directory with the same files.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[expect(clippy::disallowed_methods, reason = "a build script writes its own output")]
fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("seeds.rs"), agents()?)?;
    fs::write(out.join("page.rs"), page()?)
}

/// The canonical agents, each with its files.
fn agents() -> io::Result<String> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).join("agents").canonicalize()?;
    let mut code = String::from("pub(crate) static SEEDS: &[(&str, Files)] = &[\n");
    for directory in sorted(&above)? {
        let Some(id) = directory.file_name().and_then(|name| name.to_str()) else { continue };
        let _ = writeln!(code, "    ({id:?}, &[");
        let mut files = Vec::new();
        collect(&directory, &mut files)?;
        for file in files {
            let relative = file.strip_prefix(&directory).unwrap_or(&file).display().to_string();
            let _ = writeln!(code, "        ({relative:?}, include_bytes!({:?})),", file.display().to_string());
        }
        code.push_str("    ]),\n");
    }
    code.push_str("];\n");
    tell_cargo(&above);
    Ok(code)
}

/// The files of the page, each with a tag that changes when it does.
fn page() -> io::Result<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
    let mut files = Vec::new();
    collect(&dir, &mut files)?;
    let mut code = String::from("static PAGE: &[(&str, &[u8], &str)] = &[\n");
    for file in files {
        tell_cargo(&file);
        let relative = file.strip_prefix(&dir).unwrap_or(&file).display().to_string();
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(&file)?);
        let tag = format!("\"{:016x}\"", hasher.finish());
        let _ = writeln!(code, "    ({relative:?}, include_bytes!({:?}), {tag:?}),", file.display().to_string());
    }
    code.push_str("];\n");
    Ok(code)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    // A directory's own line makes cargo notice added and removed files.
    tell_cargo(dir);
    for path in sorted(dir)? {
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn sorted(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn tell_cargo(dir: &Path) {
    println!("cargo::rerun-if-changed={}", dir.display());
}
