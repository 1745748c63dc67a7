//! The families of `seed/families/`, embedded so that an installed `herm` has them anywhere.

use herm::{Error, Result};

use super::Family;

/// The files of a family by path.
type Files = &'static [(&'static str, &'static [u8])];

include!(concat!(env!("OUT_DIR"), "/families.rs"));

/// The names by which `--family` finds them.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// The built-in family of this name; `NotFound` where there is none.
pub fn built_in(name: &str) -> Result<Family> {
    match FAMILIES.iter().find(|(known, _)| *known == name) {
        Some((name, files)) => Family::built_in(name, files),
        None => Err(Error::not_found(format!("there is no directory and no built-in family {name:?}")).hint(format!(
            "name a directory with family.json, or one of {}",
            built_in_names().collect::<Vec<_>>().join(", ")
        ))),
    }
}
