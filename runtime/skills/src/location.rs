//! Where a skill stands: two forms, one identity.

use crate::error::{Error, Result};
use crate::ids::{RelPath, Slug};
use crate::layout;

/// How a skill is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// One file: `skills/<slug>.md`, without support files.
    Flat,
    /// `skills/<slug>/SKILL.md` and support files.
    Directory,
}

/// Where one skill stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillLocation {
    /// The skill's name, the same wherever it stands.
    pub slug: Slug,
    /// The file with its front matter and body.
    pub main: RelPath,
    /// Whether it is one file or a directory.
    pub form: Form,
}

/// Names of the main file that are understood; only the first is written.
pub const MAIN_FILES: [&str; 3] = [layout::SKILL_FILE, "skill.md", "Skill.md"];
/// Markdown files of a category that are not skills.
const NOT_SKILLS: [&str; 2] = [layout::CATEGORY_FILE, "README.md"];

/// Whether a file name is the main file of a skill in directory form.
pub(super) fn is_main_file(name: &str) -> bool {
    MAIN_FILES.contains(&name)
}

/// Whether a file name can be a flat skill.
pub(super) fn is_flat_file(name: &str) -> bool {
    name.ends_with(".md") && !name.starts_with('.') && !is_main_file(name) && !NOT_SKILLS.contains(&name)
}

/// The skill whose main file a path is, judged by the path alone: `top` is the directory that
/// holds skills. A flat skill stands in `top` or in one category below it.
pub(super) fn of_main_file(path: &RelPath, top: &str) -> Option<SkillLocation> {
    let inside = path.as_str().strip_prefix(top)?.strip_prefix('/')?;
    let mut parts: Vec<&str> = inside.split('/').collect();
    let name = parts.pop()?;
    if parts.iter().any(|part| layout::PRUNED_DIRS.contains(part)) {
        return None;
    }
    if is_main_file(name) {
        let slug = Slug::from_title(parts.last()?)?;
        return Some(SkillLocation { slug, main: path.clone(), form: Form::Directory });
    }
    if is_flat_file(name) && parts.len() <= 1 {
        let slug = Slug::from_title(name.strip_suffix(".md")?)?;
        return Some(SkillLocation { slug, main: path.clone(), form: Form::Flat });
    }
    None
}

/// Whether a path is the main file of a skill below `top`, judged by the path alone.
pub fn is_main_file_below(path: &RelPath, top: &str) -> bool {
    of_main_file(path, top).is_some()
}

/// Every skill among the files below `top`, which are in path order. What lies inside a skill's
/// directory is the skill's own: neither `a/notes.md` nor `a/b/SKILL.md` beside `a/SKILL.md` is one.
pub fn all<'a>(files: &'a [RelPath], top: &'a str) -> impl Iterator<Item = SkillLocation> {
    files.iter().filter_map(move |path| of_main_file(path, top).filter(|place| !is_inside_skill(place, files, top)))
}

/// The place of `slug` among the files below `top`, which are in path order.
pub(super) fn find(files: &[RelPath], top: &str, slug: &Slug) -> Option<SkillLocation> {
    files
        .iter()
        .filter(|path| near(path, slug))
        .filter_map(|path| of_main_file(path, top))
        .find(|place| place.slug == *slug && !is_inside_skill(place, files, top))
}

/// Whether a directory above the place has a main file of its own.
fn is_inside_skill(place: &SkillLocation, files: &[RelPath], top: &str) -> bool {
    has_main_file_above(place.dir().unwrap_or_else(|| place.main.clone()).parent(), files, top)
}

/// The same for a file: whether it belongs to a directory that is a skill, and is not its main file.
pub(super) fn is_inside_unit(path: &RelPath, files: &[RelPath], top: &str) -> bool {
    let above = if is_main_file(path.name()) { path.parent().and_then(|dir| dir.parent()) } else { path.parent() };
    has_main_file_above(above, files, top)
}

fn has_main_file_above(mut above: Option<RelPath>, files: &[RelPath], top: &str) -> bool {
    while let Some(dir) = above {
        if dir.as_str() == top {
            return false;
        }
        let has = |name: &str| {
            let path = format!("{dir}/{name}");
            files.binary_search_by(|file| file.as_str().cmp(&path)).is_ok()
        };
        if MAIN_FILES.iter().any(|name| has(name)) {
            return true;
        }
        above = dir.parent();
    }
    false
}

/// A cheap first look: the slug's first letter must begin the name that would give the slug.
fn near(path: &RelPath, slug: &Slug) -> bool {
    let name = path.name();
    let titled = if is_main_file(name) {
        path.as_str().rsplit('/').nth(1).unwrap_or_default()
    } else if name.ends_with(".md") {
        name
    } else {
        return false;
    };
    let first = |text: &str| text.chars().find(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
    first(titled) == first(slug.as_str()) || !titled.is_ascii()
}

impl SkillLocation {
    /// The directory of a skill in directory form.
    pub fn dir(&self) -> Option<RelPath> {
        match self.form {
            Form::Directory => self.main.parent(),
            Form::Flat => None,
        }
    }

    /// The folders between `skills` and the skill.
    pub fn category(&self) -> Option<String> {
        let unit = self.dir().unwrap_or_else(|| self.main.clone());
        let above = unit.parent()?;
        above.as_str().strip_prefix(layout::SKILLS_DIR)?.strip_prefix('/').map(str::to_owned)
    }

    /// The same place in directory form.
    pub(super) fn promoted(&self) -> Result<Self> {
        match self.form {
            Form::Directory => Ok(self.clone()),
            Form::Flat => {
                let above = self.main.parent().ok_or_else(|| Error::internal("a skill stands at the top"))?;
                let main = above.join(&format!("{}/{}", self.slug, layout::SKILL_FILE))?;
                Ok(Self { slug: self.slug.clone(), main, form: Form::Directory })
            }
        }
    }
}
