//! The shape of prose: headings, and the sections and clauses of agreements.

use crate::outline::Shape;

/// Words that begin a section when a number follows.
const SECTION_WORDS: [&str; 10] =
    ["article", "section", "clause", "schedule", "exhibit", "annex", "appendix", "chapter", "part", "title"];
/// A longer line is a paragraph, not a heading.
const HEADING_CHARS: usize = 100;
/// How much of a clause without a title is shown.
const CLAUSE_CHARS: usize = 70;
/// A title that a paragraph begins with has at most so many characters.
const RUN_IN_CHARS: usize = 60;

/// The lines outside fenced code, numbered.
pub(crate) fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, None) => true,
            (None, Some(mark)) => {
                fence = Some(mark);
                false
            }
            (Some(open), Some(mark)) if open == mark => {
                fence = None;
                false
            }
            (Some(_), _) => false,
        }
    })
}

/// The level and text of a Markdown heading.
pub(crate) fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let titled = text.starts_with([' ', '\t']) && !text.trim().is_empty();
    ((1..=6).contains(&level) && titled).then(|| (level, text.trim().trim_end_matches('#').trim_end()))
}

/// The depth and title of a section or clause: `ARTICLE IV`, `1. Term`, `1. Term. It begins …`, `2.1 The Provider …`,
/// or a line such as `TERM AND RENEWAL`.
fn section(line: &str) -> Option<(usize, String)> {
    let line = line.trim().trim_start_matches('*').trim_end_matches('*');
    let first = line.split_whitespace().next()?;
    let rest = line.strip_prefix(first)?.trim_start();
    let short = line.chars().nth(HEADING_CHARS).is_none();
    let is_title = short && !line.ends_with(['.', ';', ',']);
    if SECTION_WORDS.iter().any(|word| first.eq_ignore_ascii_case(word)) {
        let number = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let numbered = !number.is_empty()
            && (number.chars().all(|c| c.is_ascii_digit())
                || number.chars().all(|c| matches!(c, 'I' | 'V' | 'X' | 'L' | 'C'))
                || (number.len() == 1 && number.chars().all(|c| c.is_ascii_uppercase())));
        return (numbered && is_title).then(|| (0, line.to_owned()));
    }
    let number = first.trim_end_matches(['.', ')']);
    let parts = number.split('.').count();
    let numbered = !number.is_empty()
        && number.split('.').all(|part| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()));
    if numbered && rest.starts_with(char::is_alphabetic) {
        let run_in = rest.split_once(". ").map(|(title, _)| title);
        let run_in = run_in.filter(|title| title.starts_with(char::is_uppercase) && title.len() <= RUN_IN_CHARS);
        // `2.1` begins a clause, however long; `1.` begins a section only where a title follows.
        return match run_in {
            Some(title) => Some((parts - 1, format!("{first} {title}"))),
            None if is_title => Some((parts - 1, line.to_owned())),
            None => (parts > 1).then(|| (parts - 1, herm::text::line(line, CLAUSE_CHARS))),
        };
    }
    let letters = line.chars().filter(|c| c.is_alphabetic()).count();
    let shouts = letters >= 4 && !line.chars().any(char::is_lowercase) && line.chars().any(char::is_uppercase);
    (shouts && is_title).then(|| (0, line.to_owned()))
}

/// The headings, sections and clauses of a text.
pub(crate) fn shape(text: &str) -> Shape {
    let mut shape = Shape::default();
    let mut level_now = 0;
    let mut before: Option<(usize, &str)> = None;
    for (number, line) in unfenced(text) {
        let is_rule = |mark: char| line.len() >= 3 && line.trim_end().chars().all(|c| c == mark);
        if let Some((level, title)) = heading(line) {
            level_now = level;
            shape.entries.add(number, level - 1, title);
        } else if let Some((at, title)) = before.filter(|_| is_rule('=') || is_rule('-')) {
            level_now = if is_rule('=') { 1 } else { 2 };
            shape.entries.add(at, level_now - 1, title);
        } else if let Some((depth, title)) = section(line) {
            shape.entries.add(number, level_now + depth, &title);
        }
        // A line that may turn out to be underlined: short, alone, and no entry yet.
        let alone = !line.trim().is_empty() && line.chars().nth(HEADING_CHARS).is_none();
        let is_plain = heading(line).is_none() && section(line).is_none() && line.starts_with(char::is_alphanumeric);
        before = (alone && is_plain).then_some((number, line));
    }
    shape
}

#[cfg(test)]
mod tests {
    use crate::outline::outline;

    fn entries(text: &str) -> Vec<String> {
        outline(text).text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn markdown_headings_have_their_level() {
        let text = "# Top\n\nText.\n\n## Part one ##\n\n```\n# not one\n```\n\nUnder\n-----\n\n#hashtag\n";
        assert_eq!(entries(text), ["L1 Top", "L5   Part one", "L11   Under"]);
    }

    #[test]
    fn clauses_of_an_agreement_are_found() {
        let text = "SERVICES AGREEMENT\n\nARTICLE IV. FEES\n\n1. Term\nThe term is a year.\n\n\
                    2.1 Provider may suspend access immediately.\n\nSchedule A Prices\n\nPart of the price is due.\n\n\
                    2. Provider will send an invoice and wait.\n\n3. Exit. Either party may leave.\n1999 was a year\n";
        assert_eq!(
            entries(text),
            [
                "L1 SERVICES AGREEMENT",
                "L3 ARTICLE IV. FEES",
                "L5 1. Term",
                "L8   2.1 Provider may suspend access immediately.",
                "L10 Schedule A Prices",
                "L16 3. Exit",
            ]
        );
    }
}
