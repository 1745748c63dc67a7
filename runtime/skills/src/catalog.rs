//! Which skills fit a text best: BM25 over slug, description and triggers.
//!
//! A skill fits only by a term that tells skills apart. Words that say nothing are left out on both sides
//! ([`crate::text::words`]); what a large part of all skills says counts, but alone it makes no match, unless no skill
//! fits by any other term.
//!
//! The order is that of BM25. Its numbers say nothing by themselves, so each match also has a score from 0 to 1: how much of
//! what the skill says of itself the text says too. What is put before a task unasked has to reach [`SCORE_FLOOR`].

use std::collections::{HashMap, HashSet};

use super::index::{Index, SkillEntry};
use crate::ids::Slug;
use crate::text::words::each_term;

const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Terms of a text that are looked at, from its beginning: an input may be a megabyte.
const MAX_TERMS: usize = 400;
/// The stems of what descriptions say whatever the skill: "Use this skill when the user asks for help".
const SAID_BY_ALL: [&str; 5] = ["skill", "us", "user", "ask", "help"];
/// Of so many skills and more, a term that more than one in [`COMMON_PART`] has does not tell them apart.
const MANY: usize = 40;
const COMMON_PART: usize = 5;
/// A skill that scores less is no match for more than a line in an index. Two words of a long description reach it, one
/// does where the description has no more than six; words that many skills have count less than one.
pub const SCORE_FLOOR: f64 = 0.15;
/// A description with more telling terms than this is scored as though it had so many.
const SCORED_TERMS: u64 = 12;
/// What rarity is counted in, in whole numbers: their sum is the same in any order.
const RARITY_UNIT: f64 = 1e6;

/// A skill that fits a text.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredSkill {
    /// The skill whose words were compared.
    pub slug: Slug,
    /// How much of what tells it from others the text says, 0 to 1, in thousandths.
    pub score: f64,
}

/// An inverted index over the skills of a brain.
#[derive(Debug, Clone, Default)]
pub struct SkillCatalog {
    slugs: Vec<Slug>,
    lengths: Vec<f32>,
    average: f32,
    postings: HashMap<Box<str>, Vec<(u32, f32)>>,
    /// The rarity of all terms of each skill, and how many it has.
    totals: Vec<(u64, u64)>,
}

impl SkillCatalog {
    /// Indexes every skill that suits this platform.
    pub fn build(index: &Index) -> Self {
        Self::of(index.entries())
    }

    /// The same for skills from anywhere.
    pub fn of<'e>(entries: impl Iterator<Item = &'e SkillEntry>) -> Self {
        let mut catalog = Self::default();
        let mut total = 0.0;
        for entry in entries.filter(|entry| entry.suits_this_platform()) {
            let number = u32::try_from(catalog.slugs.len()).unwrap_or(u32::MAX);
            let mut length = 0.0;
            // The name says most, and what the author said calls for it.
            let triggers = entry.triggers.iter().map(|trigger| (trigger.as_str(), 2.0));
            for (text, weight) in
                [(entry.place.slug.as_str(), 2.0), (&*entry.description, 1.0)].into_iter().chain(triggers)
            {
                each_telling_term(text, |term| {
                    length += weight;
                    let postings = match catalog.postings.get_mut(term) {
                        Some(known) => known,
                        None => catalog.postings.entry(term.into()).or_default(),
                    };
                    match postings.last_mut() {
                        Some((last, count)) if *last == number => *count += weight,
                        _ => postings.push((number, weight)),
                    }
                    true
                });
            }
            catalog.slugs.push(entry.place.slug.clone());
            catalog.lengths.push(length);
            total += length;
        }
        catalog.average = if total > 0.0 { total / catalog.slugs.len() as f32 } else { 1.0 };
        let count = catalog.slugs.len();
        catalog.totals = vec![(0, 0); count];
        for postings in catalog.postings.values() {
            let rarity = whole(rarity(count, postings.len()));
            for (number, _) in postings {
                if let Some((sum, terms)) = catalog.totals.get_mut(*number as usize) {
                    *sum += rarity;
                    *terms += 1;
                }
            }
        }
        catalog
    }

    /// The `most` skills that fit `text` best, best first; fewer if fewer fit at all. Equal ones are in the
    /// order of their slugs.
    pub fn best(&self, text: &str, most: usize) -> Vec<&Slug> {
        self.ranked(text, most).into_iter().map(|(slug, _)| slug).collect()
    }

    /// The same, with how well each one fits.
    pub fn scored(&self, text: &str, most: usize) -> Vec<ScoredSkill> {
        let ranked = self.ranked(text, most).into_iter();
        ranked.map(|(slug, score)| ScoredSkill { slug: slug.clone(), score }).collect()
    }

    fn ranked(&self, text: &str, most: usize) -> Vec<(&Slug, f64)> {
        let count = self.slugs.len();
        let mut scores = vec![0.0_f32; count];
        let mut shared = vec![0_u64; count];
        let mut is_told = vec![false; count];
        for term in distinct(text) {
            let Some(postings) = self.postings.get(term.as_str()) else { continue };
            let rarity = rarity(count, postings.len());
            let tells = count < MANY || postings.len() * COMMON_PART <= count;
            for (number, times) in postings {
                let at = *number as usize;
                if let (Some(score), Some(shared), Some(length), Some(told)) =
                    (scores.get_mut(at), shared.get_mut(at), self.lengths.get(at), is_told.get_mut(at))
                {
                    let norm = K1 * (1.0 - B + B * length / self.average);
                    *score += rarity * times * (K1 + 1.0) / (times + norm);
                    *shared += whole(rarity);
                    *told |= tells;
                }
            }
        }
        let any_told = is_told.contains(&true);
        let mut ranked: Vec<(f32, usize)> = (scores.into_iter().zip(is_told).zip(0..))
            .filter(|((score, told), _)| *score > 0.0 && (*told || !any_told))
            .map(|((score, _), at)| (score, at))
            .collect();
        let slug = |at: usize| self.slugs.get(at);
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| slug(a.1).cmp(&slug(b.1))));
        let share = |at: usize| part(shared.get(at).copied(), self.totals.get(at).copied());
        ranked.into_iter().take(most).filter_map(|(_, at)| Some((slug(at)?, share(at)))).collect()
    }
}

/// How much a term tells that so many of all skills have.
fn rarity(skills: usize, having: usize) -> f32 {
    let (skills, having) = (skills as f32, having as f32);
    ((skills - having + 0.5) / (having + 0.5) + 1.0).ln()
}

fn whole(rarity: f32) -> u64 {
    (f64::from(rarity) * RARITY_UNIT).round() as u64
}

/// The part that is shared of all the terms of a skill, by their rarity, in thousandths.
fn part(shared: Option<u64>, total: Option<(u64, u64)>) -> f64 {
    let (Some(shared), Some((total, terms))) = (shared, total) else { return 0.0 };
    let all = total as f64 * (SCORED_TERMS as f64 / terms.max(1) as f64).min(1.0);
    if all > 0.0 { ((shared as f64 / all).min(1.0) * 1_000.0).round() / 1_000.0 } else { 0.0 }
}

/// The first terms of a text, each once.
fn distinct(text: &str) -> Vec<String> {
    let (mut seen, mut order, mut looked_at) = (HashSet::new(), Vec::new(), 0);
    each_telling_term(text, |term| {
        if !seen.contains(term) {
            seen.insert(term.to_owned());
            order.push(term.to_owned());
        }
        looked_at += 1;
        // A text that says the same all over is not read to its end for it.
        order.len() < MAX_TERMS && looked_at < MAX_TERMS * 8
    });
    order
}

/// The terms of a text but for those that descriptions of skills have by convention.
fn each_telling_term(text: &str, mut take: impl FnMut(&str) -> bool) {
    each_term(text, |term| SAID_BY_ALL.contains(&term) || take(term));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, SkillLocation};

    fn entry(name: &str, description: &str) -> SkillEntry {
        SkillEntry {
            place: SkillLocation {
                slug: name.parse().unwrap(),
                main: format!("skills/{name}.md").parse().unwrap(),
                form: Form::Flat,
            },
            name: name.to_owned(),
            description: description.into(),
            category: None,
            platforms: Vec::new(),
            triggers: Vec::new(),
            requires: Vec::new(),
            pinned: false,
        }
    }

    /// Skills as libraries have them, among many others.
    fn library() -> SkillCatalog {
        let mut entries = vec![
            entry("pdf-merge", "Merges and splits PDF files. Use when the user wants to combine documents."),
            entry(
                "contract-review",
                "Reviews smart contracts before they are deployed. Use when the user asks for it.",
            ),
            entry("weather", "What the weather will be. Use when the user asks about rain or the temperature."),
            entry("hebing", "合并和拆分PDF文件。当用户想要合并多个文档时使用。"),
            entry("fanyi", "把文章翻译成英文，保留原来的格式。"),
            entry("bunseki", "売上データを分析してグラフを作成します。"),
            entry("beonyeok", "한국어 문서를 영어로 번역합니다."),
        ];
        for n in 0..300 {
            entries.push(entry(
                &format!("other-{n:03}"),
                &format!("Does number {n} of the things. Use this skill when the user wants to have it done for them."),
            ));
        }
        SkillCatalog::of(entries.iter())
    }

    fn best(text: &str) -> Vec<String> {
        library().best(text, 40).into_iter().map(Slug::to_string).collect()
    }

    #[test]
    fn skills_that_share_only_stop_words_with_a_task_are_no_matches() {
        assert_eq!(best("What will the weather be when I am there?"), ["weather"]);
        assert_eq!(best("When should I do this for them, and why?"), Vec::<String>::new());
        assert_eq!(best("What can you help me with? How do I use your skills?"), Vec::<String>::new());
        assert_eq!(best("Could the user use this to merge the PDFs?")[..2], ["pdf-merge", "hebing"]);
        assert!(!best("Could the user use this to merge the PDFs?").iter().any(|slug| slug.starts_with("other")));
    }

    #[test]
    fn other_forms_of_a_word_find_the_skill() {
        assert_eq!(best("review the deployment of my contract"), ["contract-review"]);
        assert_eq!(best("is it raining?"), ["weather"]);
        assert_eq!(best("merging a document"), ["pdf-merge"]);
    }

    #[test]
    fn a_task_in_a_script_without_spaces_finds_its_skills() {
        assert_eq!(best("请帮我把这两个文档合并起来"), ["hebing"]);
        assert_eq!(best("你能翻译这篇文章吗？"), ["fanyi"]);
        assert_eq!(best("このデータを分析してください"), ["bunseki"]);
        assert_eq!(best("이 문서를 번역해 주세요"), ["beonyeok"]);
        assert_eq!(best("我们的是什么"), Vec::<String>::new());
    }

    #[test]
    fn what_all_skills_say_is_a_match_only_where_nothing_else_is() {
        assert_eq!(best("number of things").len(), 40);
        assert_eq!(best("number of PDF things"), ["pdf-merge", "hebing"]);
    }

    /// What would be put before a task unasked.
    fn above_the_floor(text: &str) -> Vec<String> {
        let scored = library().scored(text, 40).into_iter();
        scored.filter(|found| found.score >= SCORE_FLOOR).map(|found| found.slug.to_string()).collect()
    }

    #[test]
    fn a_word_of_many_is_below_the_floor_and_two_of_a_long_description_are_above_it() {
        let long = "Prepares the yearly accounts of a bakery: flour, yeast, wages, ovens, rent, taxes, receipts, suppliers, \
                    insurance, vans, fuel, loans and the auditor's letter.";
        let entries = [
            entry("bakery-books", long),
            entry("weather", "What the weather will be."),
            entry("walks", "Plans walks."),
        ];
        let catalog = SkillCatalog::of(entries.iter());
        let score = |text: &str| catalog.scored(text, 1).first().map_or(0.0, |found| found.score);
        assert!(score("Which vans are for hire here?") < SCORE_FLOOR);
        assert!(score("What did the suppliers of flour get?") >= SCORE_FLOOR);
        assert!(score("Will the weather hold?") >= SCORE_FLOOR, "its one word");
        assert_eq!(score(long), 1.0);
        assert_eq!(score("Who signs?"), 0.0);
    }

    #[test]
    fn what_all_skills_say_never_reaches_the_floor() {
        assert_eq!(above_the_floor("What number of things should I do?"), Vec::<String>::new());
        assert_eq!(above_the_floor("Could you merge the PDFs?")[0], "pdf-merge");
        assert_eq!(above_the_floor("is it raining?"), ["weather"]);
        assert_eq!(above_the_floor("请帮我把这两个文档合并起来"), ["hebing"]);
    }

    #[test]
    fn words_far_into_a_long_text_count_as_much_as_the_first() {
        let text = format!("zebra {} weather", (0..300).map(|n| format!("w{n} ")).collect::<String>());
        assert_eq!(best(&text), ["weather"]);
    }

    const ACTIONS: [&str; 25] = [
        "merge",
        "split",
        "translate",
        "audit",
        "deploy",
        "encrypt",
        "compress",
        "rotate",
        "render",
        "validate",
        "migrate",
        "schedule",
        "archive",
        "compare",
        "annotate",
        "transcribe",
        "benchmark",
        "refactor",
        "monitor",
        "sign",
        "print",
        "sort",
        "publish",
        "restore",
        "summarize",
    ];
    const OBJECTS: [&str; 40] = [
        "invoice",
        "contract",
        "photograph",
        "spreadsheet",
        "database",
        "calendar",
        "podcast",
        "recipe",
        "thesis",
        "playlist",
        "backup",
        "certificate",
        "cluster",
        "container",
        "dashboard",
        "dataset",
        "diagram",
        "email",
        "font",
        "gallery",
        "heatmap",
        "ledger",
        "library",
        "logo",
        "manuscript",
        "map",
        "newsletter",
        "notebook",
        "passport",
        "pipeline",
        "poem",
        "portfolio",
        "questionnaire",
        "receipt",
        "resume",
        "roadmap",
        "script",
        "survey",
        "ticket",
        "voucher",
    ];
    const CHINESE_ACTIONS: [&str; 10] =
        ["翻译", "合并", "压缩", "校对", "总结", "打印", "归档", "分类", "加密", "恢复"];
    const CHINESE_OBJECTS: [&str; 20] = [
        "合同", "发票", "照片", "表格", "日历", "论文", "简历", "邮件", "证书", "菜谱", "问卷", "护照", "地图", "字幕",
        "录音", "备份", "账单", "海报", "目录", "课程",
    ];

    /// 3,200 skills whose descriptions say mostly what descriptions say by convention. The name of each holds what it does
    /// and with what.
    fn thousands() -> Vec<SkillEntry> {
        let places = ["at home", "at work", "at school"];
        let mut entries = Vec::new();
        for (action, object) in ACTIONS.iter().flat_map(|action| OBJECTS.map(|object| (action, object))) {
            entries.extend(places.iter().zip(0..).map(|(place, n)| {
                let text = format!(
                    "How to {action} one {object} or many of them {place}, with care and step by step. Use this skill when \
                     the user asks for help with it, or says that they would like to have it done."
                );
                entry(&format!("{action}-{object}-{n}"), &text)
            }));
        }
        for (at, action) in CHINESE_ACTIONS.iter().enumerate() {
            entries.extend(CHINESE_OBJECTS.iter().enumerate().map(|(of, object)| {
                let text = format!("如何{action}{object}，保留原来的格式。当用户需要{action}{object}的时候使用。");
                entry(&format!("zh-{at}-{of}"), &text)
            }));
        }
        entries
    }

    #[test]
    fn of_thousands_of_skills_those_shown_share_more_with_the_task_than_stop_words() {
        let entries = thousands();
        let catalog = SkillCatalog::of(entries.iter());
        assert!(entries.len() >= 3_000);
        let asked = ACTIONS.iter().flat_map(|action| OBJECTS.iter().step_by(7).map(move |object| (action, object)));
        for (action, object) in asked {
            for text in [
                format!("Could you please {action} my {object} for me? I do not know how this should be done."),
                format!(
                    "When they have the {object}s, what is the way to {action} all of them, step by step and with care?"
                ),
            ] {
                let shown: Vec<&str> = catalog.best(&text, 40).into_iter().map(Slug::as_str).collect();
                assert_eq!(shown.len(), 40, "{text}");
                let mut first = shown[..3].to_vec();
                first.sort_unstable();
                assert_eq!(first, ["0", "1", "2"].map(|n| format!("{action}-{object}-{n}")), "{text}");
                let strangers: Vec<&&str> = shown
                    .iter()
                    .filter(|slug| !slug.split('-').any(|word| [*action, *object].contains(&word)))
                    .collect();
                assert!(strangers.is_empty(), "{text}: {strangers:?}");
            }
        }
        let nothing = "Could you please do this for me? I do not know how, and why I should.";
        assert_eq!(catalog.best(nothing, 40), Vec::<&Slug>::new());
    }

    #[test]
    fn of_thousands_of_skills_a_chinese_task_is_shown_its_chinese_ones() {
        let entries = thousands();
        let catalog = SkillCatalog::of(entries.iter());
        for (at, action) in CHINESE_ACTIONS.iter().enumerate() {
            for (of, object) in CHINESE_OBJECTS.iter().enumerate() {
                let text = format!("你好，请帮我把这份{object}{action}一下，可以吗？我不知道应该怎么做，谢谢你。");
                let shown: Vec<&str> = catalog.best(&text, 40).into_iter().map(Slug::as_str).collect();
                assert_eq!(shown.first().copied(), Some(format!("zh-{at}-{of}").as_str()), "{text}: {shown:?}");
                let is_of_it = |slug: &str| {
                    slug.starts_with(&format!("zh-{at}-"))
                        || (slug.starts_with("zh-") && slug.ends_with(&format!("-{of}")))
                };
                let strangers: Vec<&&str> = shown.iter().filter(|slug| !is_of_it(slug)).collect();
                // All that do it, and all that are about it: 20 and 10, of which one is both.
                assert!(strangers.is_empty() && shown.len() == 29, "{text}: {shown:?}");
            }
        }
    }
}
