//! Which skills an agent sees: those of its brain and of the skill directories, without those that are hidden.
//!
//! A pure function of entries. First every name gets one owner, and the brain's own skill always is; then the owner is
//! hidden if it is for another platform, disabled, or requires what is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::external::ExternalSkill;
use super::index::SkillEntry;
use crate::ids::{RelPath, Slug};

/// The machine and the choices of the operator that hide skills.
#[derive(Debug, Clone, Copy)]
pub struct VisibilityFilter<'a> {
    /// The operating system, called as in [`std::env::consts::OS`].
    pub platform: &'a str,
    /// Names the operator turned off.
    pub disabled: &'a BTreeSet<Slug>,
}

/// Why a skill is not seen.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HiddenReason {
    /// It is for another operating system.
    OtherPlatform,
    /// The operator turned it off.
    Disabled,
    /// It requires a skill that the brain does not have, or that is hidden itself.
    Requires(String),
    /// The brain has a skill of this name.
    Shadowed {
        /// The main file of the brain's own skill.
        by: RelPath,
    },
}

impl std::fmt::Display for HiddenReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OtherPlatform => formatter.write_str("other platform"),
            Self::Disabled => formatter.write_str("disabled"),
            Self::Requires(name) => write!(formatter, "requires {name}"),
            Self::Shadowed { by } => write!(formatter, "shadowed by {by}"),
        }
    }
}

/// A skill, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisibleSkill<'a> {
    /// What the index has of the skill.
    pub entry: &'a SkillEntry,
    /// The directory it is from, unless it is the brain's own.
    pub external: Option<&'a Path>,
}

/// What an agent sees, and what it does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkillVisibility<'a> {
    /// Those that the agent sees, in slug order.
    pub skills: Vec<VisibleSkill<'a>>,
    /// Those that it does not, in slug order; the brain's own before those of the skill directories.
    pub hidden: Vec<(VisibleSkill<'a>, HiddenReason)>,
}

impl SkillVisibility<'_> {
    /// Names and reasons of what is hidden.
    pub fn reasons(&self) -> Vec<(Slug, HiddenReason)> {
        self.hidden.iter().map(|(seen, why)| (seen.entry.place.slug.clone(), why.clone())).collect()
    }
}

/// Decides which skills are seen. The order of `local` and of `shelf`, the skills of the skill directories, does not
/// matter, as long as each has a name once.
pub fn visible<'a>(
    local: impl IntoIterator<Item = &'a SkillEntry>,
    shelf: impl IntoIterator<Item = ExternalSkill<'a>>,
    filter: &VisibilityFilter<'_>,
) -> SkillVisibility<'a> {
    let local: BTreeMap<&Slug, &SkillEntry> = local.into_iter().map(|entry| (&entry.place.slug, entry)).collect();
    let shelf: BTreeMap<&Slug, ExternalSkill<'a>> =
        shelf.into_iter().map(|shelved| (&shelved.entry.place.slug, shelved)).collect();
    let there = satisfied(&local, filter);
    let verdict = |entry: &SkillEntry| {
        if !entry.suits(filter.platform) {
            return Some(HiddenReason::OtherPlatform);
        }
        if filter.disabled.contains(&entry.place.slug) {
            return Some(HiddenReason::Disabled);
        }
        unmet(entry, &|slug| there.contains(slug)).map(|name| HiddenReason::Requires(name.to_owned()))
    };
    let mut visible = SkillVisibility::default();
    let names: BTreeSet<&Slug> = local.keys().chain(shelf.keys()).copied().collect();
    for name in names {
        let own = local.get(name).map(|entry| VisibleSkill { entry, external: None });
        let other = shelf.get(name).map(|shelved| VisibleSkill { entry: shelved.entry, external: Some(shelved.dir) });
        if let Some(seen) = own.or(other) {
            match verdict(seen.entry) {
                None => visible.skills.push(seen),
                Some(why) => visible.hidden.push((seen, why)),
            }
        }
        if let (Some(own), Some(other)) = (own, other) {
            visible.hidden.push((other, HiddenReason::Shadowed { by: own.entry.place.main.clone() }));
        }
    }
    visible
}

/// The brain's skills that are seen: the largest set in which each has what it requires. Skills that require each
/// other stay, for they are all there.
fn satisfied<'a>(local: &BTreeMap<&'a Slug, &'a SkillEntry>, filter: &VisibilityFilter<'_>) -> BTreeSet<&'a Slug> {
    let mut there: BTreeSet<&Slug> = local.keys().copied().collect();
    let mut needed_by: BTreeMap<Slug, Vec<&'a Slug>> = BTreeMap::new();
    let mut gone = Vec::new();
    for (slug, entry) in local {
        let is_off = !entry.suits(filter.platform) || filter.disabled.contains(*slug);
        if is_off || unmet(entry, &|slug| local.contains_key(slug)).is_some() {
            gone.push(*slug);
        }
        for required in entry.requires.iter().filter_map(|name| required(name)).filter_map(Slug::from_title) {
            needed_by.entry(required).or_default().push(slug);
        }
    }
    while let Some(slug) = gone.pop() {
        if there.remove(slug) {
            gone.extend(needed_by.get(slug).into_iter().flatten());
        }
    }
    there
}

/// The first skill that an entry requires and that is not there. A name that cannot be a skill's is not there.
fn unmet<'a>(entry: &'a SkillEntry, is_there: &dyn Fn(&Slug) -> bool) -> Option<&'a str> {
    let mut names = entry.requires.iter().filter_map(|name| required(name));
    names.find(|name| !Slug::from_title(name).is_some_and(|slug| is_there(&slug)))
}

/// The name of a skill in a requirement: `mail` or `skills:mail`. `None` for other requirements, such as `mcp:mail`,
/// which are not about skills.
fn required(requirement: &str) -> Option<&str> {
    match requirement.split_once(':') {
        None => Some(requirement.trim()),
        Some((kind, name)) if matches!(kind.trim(), "skill" | "skills") => Some(name.trim()),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, SkillLocation};
    use proptest::prelude::*;

    fn entry(name: &str, platforms: &[&str], requires: &[&str]) -> SkillEntry {
        let slug: Slug = name.parse().unwrap();
        let main = format!("skills/{name}.md").parse().unwrap();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        SkillEntry {
            place: SkillLocation { slug, main, form: Form::Flat },
            name: name.to_owned(),
            description: "d".into(),
            category: None,
            platforms: owned(platforms),
            triggers: Vec::new(),
            requires: owned(requires),
            pinned: false,
        }
    }

    fn shown(visible: &SkillVisibility<'_>) -> (Vec<String>, Vec<String>) {
        let name = |seen: &VisibleSkill<'_>| {
            let slug = &seen.entry.place.slug;
            seen.external.map_or_else(|| slug.to_string(), |dir| format!("{slug}@{}", dir.display()))
        };
        let hidden = visible.hidden.iter().map(|(seen, why)| format!("{}: {why}", name(seen))).collect();
        (visible.skills.iter().map(name).collect(), hidden)
    }

    fn off(names: &[&str]) -> BTreeSet<Slug> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn each_reason_hides_and_is_named() {
        let local = [
            entry("a", &[], &[]),
            entry("b", &["Darwin", "windows"], &[]),
            entry("c", &["LINUX"], &["A", "skills:a", "mcp:mail"]),
            entry("d", &[], &["b"]),
            entry("e", &[], &["d", "nobody"]),
            entry("f", &[], &["g"]),
            entry("g", &[], &["f", "g"]),
            entry("h", &[], &["???"]),
            entry("off", &[], &[]),
        ];
        let shelf = [
            entry("a", &[], &[]),
            entry("b", &[], &[]),
            entry("x", &[], &["f"]),
            entry("y", &[], &["x"]),
            entry("z", &["windows"], &[]),
        ];
        let dir = Path::new("lib");
        let disabled = off(&["off", "unknown"]);
        let filter = VisibilityFilter { platform: "linux", disabled: &disabled };
        let visible = visible(&local, shelf.iter().map(|entry| ExternalSkill { entry, dir }), &filter);
        let (seen, hidden) = shown(&visible);
        assert_eq!(seen, ["a", "c", "f", "g", "x@lib"]);
        assert_eq!(
            hidden,
            [
                "a@lib: shadowed by skills/a.md",
                "b: other platform",
                "b@lib: shadowed by skills/b.md",
                "d: requires b",
                "e: requires d",
                "h: requires ???",
                "off: disabled",
                "y@lib: requires x",
                "z@lib: other platform",
            ]
        );
        assert_eq!(
            visible.reasons()[0],
            ("a".parse().unwrap(), HiddenReason::Shadowed { by: "skills/a.md".parse().unwrap() })
        );
    }

    fn entries() -> impl Strategy<Value = BTreeMap<String, (Vec<String>, Vec<String>)>> {
        let platform = prop::sample::select(vec!["linux".to_owned(), "macos".to_owned()]);
        let required = "[a-f]|mcp:[a-c]|skills:[a-f]|[ -~]{0,4}";
        let fields = (prop::collection::vec(platform, 0..2), prop::collection::vec(required, 0..3));
        prop::collection::btree_map("[a-f]", fields, 0..6)
    }

    fn made(all: &BTreeMap<String, (Vec<String>, Vec<String>)>) -> Vec<SkillEntry> {
        fn words(words: &[String]) -> Vec<&str> {
            words.iter().map(String::as_str).collect()
        }
        all.iter().map(|(name, (platforms, requires))| entry(name, &words(platforms), &words(requires))).collect()
    }

    proptest! {
        #[test]
        fn everything_is_seen_or_hidden_and_the_brain_always_wins(
            local in entries(), shelf in entries(), disabled in prop::collection::btree_set("[a-f]", 0..3)
        ) {
            let (mut local, mut shelf) = (made(&local), made(&shelf));
            let disabled: BTreeSet<Slug> = disabled.iter().map(|name| name.parse().unwrap()).collect();
            let filter = VisibilityFilter { platform: "linux", disabled: &disabled };
            let dir = Path::new("lib");
            let (local_before, shelf_before) = (local.clone(), shelf.clone());
            let first = visible(&local_before, shelf_before.iter().map(|entry| ExternalSkill { entry, dir }), &filter);
            local.reverse();
            shelf.reverse();
            let second = visible(&local, shelf.iter().map(|entry| ExternalSkill { entry, dir }), &filter);
            prop_assert_eq!(shown(&first), shown(&second), "the order of listing does not matter");
            prop_assert_eq!(first.skills.len() + first.hidden.len(), local.len() + shelf.len());
            let own: BTreeSet<&Slug> = local.iter().map(|entry| &entry.place.slug).collect();
            let seen: BTreeSet<&Slug> = first.skills.iter().map(|seen| &seen.entry.place.slug).collect();
            prop_assert_eq!(seen.len(), first.skills.len(), "a name is seen once");
            prop_assert!(first.skills.is_sorted_by_key(|seen| &seen.entry.place.slug));
            for one in &first.skills {
                let slug = &one.entry.place.slug;
                prop_assert!(one.external.is_none() || !own.contains(slug));
                prop_assert!(!disabled.contains(slug) && one.entry.suits("linux"));
                for name in one.entry.requires.iter().filter_map(|name| required(name)) {
                    let needed = Slug::from_title(name);
                    prop_assert!(needed.is_some_and(|slug| own.contains(&slug) && seen.contains(&slug)));
                }
            }
        }
    }
}
