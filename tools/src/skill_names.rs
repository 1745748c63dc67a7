//! Which skill a name means.

use herm::tool::WorkingCopy;
use herm::{Error, Result, Slug};

use crate::near;

/// The slug a name stands for, whatever its case, marks or ending.
pub(crate) fn slug(name: &str) -> Result<Slug> {
    let name = name.trim();
    Slug::from_title(name.strip_suffix(".md").unwrap_or(name)).ok_or_else(|| {
        Error::invalid(format!("{:?} is not a skill name", herm::text::line(name, 80)))
            .hint("a skill name looks like \"reentrancy-check\"")
    })
}

/// The active skill a name means.
pub(crate) fn find(desk: &mut WorkingCopy, name: &str) -> Result<Slug> {
    let slug = slug(name)?;
    if desk.skill_place(&slug)?.is_some() || desk.is_outside(&slug) {
        return Ok(slug);
    }
    if desk.archived()?.contains(&slug) {
        return Err(Error::not_found(format!("skill {slug} is archived"))
            .hint("only the operator brings it back; go on without it"));
    }
    let cards = desk.skills()?;
    let names = cards.iter().map(|card| card.slug.as_str());
    Err(Error::not_found(format!("there is no skill {:?}", slug.as_str())).hint(near::hint(
        slug.as_str(),
        names,
        "skills_list has the names",
    )))
}

/// How many files an error names.
const NAMED: usize = 40;

/// An error about a missing file of a skill, with the files that are there.
pub(crate) fn with_files(desk: &mut WorkingCopy, slug: &Slug, error: Error) -> Error {
    if error.kind() != herm::ErrorKind::NotFound {
        return error;
    }
    let hint = match desk.skill_files(slug) {
        Ok(files) if files.len() > NAMED => {
            format!("its files: {}, and {} more", files[..NAMED].join(", "), files.len() - NAMED)
        }
        Ok(files) if !files.is_empty() => format!("its files: {}", files.join(", ")),
        _ => "it has no files beside its text; leave `file` out".to_owned(),
    };
    Error::not_found(error.message()).hint(hint)
}
