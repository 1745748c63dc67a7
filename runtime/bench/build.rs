//! Embeds the families into the library, so that an installed `herm` has them anywhere.
//!
//! `families` is a link to `seed/families/` of the repository; in a published package it is a directory with the same
//! files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[expect(clippy::disallowed_methods, reason = "a build script writes its own output")]
fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("families.rs"), families()?)
}

/// Every family, each with its files.
fn families() -> io::Result<String> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).join("families").canonicalize()?;
    let mut code = String::from("static FAMILIES: &[(&str, Files)] = &[\n");
    for directory in sorted(&above)? {
        let Some(name) = directory.file_name().and_then(|name| name.to_str()) else { continue };
        let _ = writeln!(code, "    ({name:?}, &[");
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

fn tell_cargo(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}
