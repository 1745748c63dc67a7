//! `skills_list`: the skills of the brain, a line each.

use async_trait::async_trait;
use herm::skill::Delta;
use herm::tool::{Category, Permission, SkillSummary, Tool, ToolContext, ToolOutput, ToolPurpose, ToolSpec};
use herm::{Result, Slug};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{arguments, fit};

/// How many skills a page has at most.
const PAGE: usize = 100;
/// How many characters a page has at most; below the card's cap, so that the last line stays.
const PAGE_CHARS: usize = 15_000;
const DESCRIPTION_CHARS: usize = 240;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Only skills whose name or description contains this text.
    #[schemars(length(max = 200))]
    query: Option<String>,
    /// Only skills of this category.
    #[schemars(length(max = 200))]
    category: Option<String>,
    /// How many skills to skip: the next page of a long list.
    offset: Option<u32>,
    /// Look at the files again first, and say what changed.
    reload: Option<bool>,
}

/// The tool `skills_list`: lists the skills that a task may load.
#[derive(Debug)]
pub struct SkillsList {
    card: ToolSpec,
}

impl Default for SkillsList {
    fn default() -> Self {
        let description = "Lists the skills of this agent, one line each: `name: what it does and when to use it`. \
                           Look here before you work out a procedure yourself.";
        Self {
            card: ToolSpec::new("skills_list", description, Permission::Read, arguments::schema::<Args>())
                .quick()
                .lookup()
                .for_purpose(ToolPurpose::ListsSkills),
        }
    }
}

#[async_trait]
impl Tool for SkillsList {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let args: Args = arguments::read(args)?;
        let reload = args.reload.unwrap_or(false);
        let (changed, cards, categories) = cx
            .with_working_copy(move |desk| {
                let changed = if reload { Some(desk.reload()?) } else { None };
                let cards = desk.skills()?;
                let categories = desk.categories(&cards)?;
                Ok((changed, cards, categories))
            })
            .await?;
        let offset = args.offset.and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
        let category = arguments::given(args.category.as_ref());
        let mut output = match category {
            Some(name) if !categories.iter().any(|category| &*category.name == name) => no_category(name, &categories),
            Some(name) => {
                let within: Vec<SkillSummary> =
                    cards.into_iter().filter(|card| card.category.as_deref() == Some(name)).collect();
                page(&within, arguments::given(args.query.as_ref()), offset)
            }
            None => {
                let mut output = page(&cards, arguments::given(args.query.as_ref()), offset);
                output.text.push_str(&folders(&categories));
                output
            }
        };
        if let Some(changed) = changed {
            output.text.insert_str(0, &reloaded(&changed));
        }
        Ok(output)
    }
}

/// How many categories are named.
const NAMED_CATEGORIES: usize = 40;

fn folders(categories: &[Category]) -> String {
    if categories.is_empty() {
        return String::new();
    }
    let mut text = "[categories:".to_owned();
    for category in categories.iter().take(NAMED_CATEGORIES) {
        text.push_str(&format!(" {} ({})", category.name, category.skills));
        if !category.description.is_empty() {
            text.push_str(&format!(" {}", herm::text::line(&category.description, 80)));
        }
        text.push(';');
    }
    if categories.len() > NAMED_CATEGORIES {
        text.push_str(&format!(" {} more;", categories.len() - NAMED_CATEGORIES));
    }
    text.push_str(" give `category` to see one]\n");
    text
}

fn no_category(name: &str, categories: &[Category]) -> ToolOutput {
    let name = herm::text::line(name, 60);
    let text = match categories {
        [] => format!("There is no category {name:?}; the skills have none.\n"),
        some => format!("There is no category {name:?}.\n{}", folders(some)),
    };
    ToolOutput::new(text, "no such category")
}

fn reloaded(changed: &Delta) -> String {
    let names = |what: &str, slugs: &[Slug]| match slugs {
        [] => String::new(),
        slugs => {
            let shown: Vec<&str> = slugs.iter().take(20).map(Slug::as_str).collect();
            let more = if slugs.len() > 20 { ", …" } else { "" };
            format!(" {} {what} ({}{more});", slugs.len(), shown.join(", "))
        }
    };
    format!(
        "[reloaded:{}{}{} {} unchanged, {} in all]\n",
        names("added", &changed.added),
        names("removed", &changed.removed),
        names("changed", &changed.changed),
        changed.unchanged,
        changed.total
    )
}

fn page(cards: &[SkillSummary], query: Option<&str>, offset: usize) -> ToolOutput {
    let wanted = query.map(str::to_lowercase);
    let fits = |card: &&SkillSummary| {
        wanted.as_ref().is_none_or(|wanted| {
            card.slug.as_str().contains(wanted.as_str()) || card.description.to_lowercase().contains(wanted.as_str())
        })
    };
    let found: Vec<&SkillSummary> = cards.iter().filter(fits).collect();
    if found.is_empty() {
        let text = match (cards.len(), query) {
            (0, _) => "There are no skills yet.".to_owned(),
            (all, Some(_)) => format!("No skill matches; there are {all}. Leave `query` out to see them."),
            (_, None) => String::new(),
        };
        return ToolOutput::new(text, format!("0 of {}", fit::count(cards.len(), "skill")));
    }
    let mut listing = fit::Listing::new(PAGE_CHARS);
    for card in found.iter().skip(offset).take(PAGE) {
        let description = match card.description.trim() {
            "" => "(no description)".to_owned(),
            text => herm::text::line(text, DESCRIPTION_CHARS),
        };
        let category = card.category.as_ref().map(|category| format!(" [{category}]")).unwrap_or_default();
        if !listing.add(&format!("{}: {description}{category}", card.slug)) {
            break;
        }
    }
    let shown = listing.shown();
    let mut text = listing.into_text();
    if shown == 0 {
        text = format!("There are only {}; use a smaller `offset`.\n", fit::count(found.len(), "skill"));
    }
    let more = found.len().saturating_sub(offset + shown);
    if more > 0 && shown > 0 {
        text.push_str(&format!("[{more} more: call again with offset {}]\n", offset + shown));
    }
    if shown > 0 {
        text.push_str("[skill_view reads one by its name]\n");
    }
    ToolOutput::new(text, format!("{shown} of {}", fit::count(found.len(), "skill")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(number: usize) -> Vec<SkillSummary> {
        let card = |n: usize| SkillSummary {
            slug: format!("skill-{n:03}").parse().unwrap(),
            description: format!("Does {n}.").into(),
            category: None,
            external: false,
        };
        (0..number).map(card).collect()
    }

    #[test]
    fn a_long_list_comes_in_pages_and_says_how_many_are_left() {
        let first = page(&cards(250), None, 0);
        assert!(first.text.starts_with("skill-000: Does 0.\n"), "{}", first.text);
        assert!(first.text.ends_with(
            "skill-099: Does 99.\n[150 more: call again with offset 100]\n[skill_view reads one by its name]\n"
        ));
        let last = page(&cards(250), None, 200);
        assert!(
            last.text.ends_with("skill-249: Does 249.\n[skill_view reads one by its name]\n")
                && last.summary == "50 of 250 skills"
        );
        assert_eq!(page(&cards(2), None, 9).text, "There are only 2 skills; use a smaller `offset`.\n");
    }

    #[test]
    fn long_descriptions_shorten_the_page_and_lose_nothing() {
        let mut many = cards(100);
        many.iter_mut().for_each(|card| card.description = "word ".repeat(200).into());
        let first = page(&many, None, 0);
        assert!(first.text.chars().count() < 16_000);
        let shown = first.text.lines().count() - 2;
        assert!(first.text.ends_with(&format!(
            "[{} more: call again with offset {shown}]\n[skill_view reads one by its name]\n",
            100 - shown
        )));
    }

    #[test]
    fn a_query_looks_at_names_and_descriptions() {
        assert_eq!(
            page(&cards(250), Some("DOES 24."), 0).text,
            "skill-024: Does 24.\n[skill_view reads one by its name]\n"
        );
        assert_eq!(
            page(&cards(250), Some("skill-007"), 0).text,
            "skill-007: Does 7.\n[skill_view reads one by its name]\n"
        );
        assert!(page(&cards(3), Some("zzz"), 0).text.contains("there are 3"));
        assert_eq!(page(&[], None, 0).text, "There are no skills yet.");
    }
}
