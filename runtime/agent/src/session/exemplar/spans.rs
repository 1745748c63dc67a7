//! The values that a text offers to an argument: its words, runs of words, names, quotations and identifiers, each
//! as it stands there. Pure.
//!
//! The list is generous. A value that is missing from it cannot be given by a model that is held to it.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::text::words::{is_stop_word, is_unspaced};

/// Runs of so many words are offered, however short the value of the example was.
const USUAL_RUN: usize = 3;
/// The most words of a quotation or of a name with small words in it.
const LONG_RUN: usize = 12;
/// An identifier of more parts offers its parts and its ends, not every run of them.
const MOST_PARTS: usize = 4;
/// The most characters of a run in a script that is written without spaces.
const UNSPACED_RUN: usize = 4;
/// The same, from one change of script or particle to another.
const UNSPACED_NAME: usize = 12;
/// Characters that stand between words of such scripts and begin or end no value.
const PARTICLES: &str = "的了是在吗嗎呢吧和与與或请請把被のはがをにでとへもや";
/// Marks that belong to a value at its beginning, and at its end.
const OPENS_VALUE: &str = "#$€£¥@/\\~.+-_";
const ENDS_VALUE: &str = "%°/\\#+€$£¥_";
/// Marks of which a run of words has none behind any but its last, and before any but its first.
const SEPARATES: &str = ";!?:\"()[]{}<>“”„«»`…、。，？！：；（）「」『』";
/// Words that with `'s` behind them stand for two words.
const CONTRACTED: [&str; 12] =
    ["he", "here", "how", "it", "let", "she", "that", "there", "what", "when", "where", "who"];
/// Small words inside a name.
const LINKS: [&str; 5] = ["and", "for", "of", "the", "to"];
const QUOTES: [(char, char); 8] =
    [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»'), ('‘', '’'), ('`', '`'), ('「', '」'), ('\'', '\'')];

/// A word of a line, with what stands around it.
#[derive(Debug, Clone)]
struct Token<'t> {
    raw: &'t str,
    /// Where the first and the last letter or digit stand in the line.
    bare: Range<usize>,
    /// The same with the marks that may belong to a value.
    whole: Range<usize>,
    /// Where the word ends without its possessive ending.
    owner: Option<usize>,
    /// Whether it begins a line or a sentence.
    begins: bool,
}

/// The values of a text: runs of up to `words` words, and longer ones that are plainly one thing. Each once, in an order
/// that is always the same.
pub(super) fn spans(text: &str, words: usize) -> Vec<String> {
    let mut found = Found::default();
    for line in text.lines() {
        let tokens = tokens(line);
        quotations(line, &mut found);
        for token in &tokens {
            parts(line, token, &mut found);
        }
        for length in 1..=words.max(USUAL_RUN) {
            for at in 0..tokens.len().saturating_sub(length - 1) {
                if let Some(run) = tokens.get(at..at + length) {
                    run_of(line, run, length > words, &mut found);
                }
            }
        }
        names(line, &tokens, words.max(USUAL_RUN), &mut found);
        unspaced(line, &mut found);
    }
    found.values
}

/// The numbers of a text, thousands written with or without a comma.
pub(super) fn numbers(text: &str) -> Vec<String> {
    let mut found = Found::default();
    let characters: Vec<(usize, char)> = text.char_indices().collect();
    let digit = |at: usize| characters.get(at).is_some_and(|(_, c)| c.is_ascii_digit());
    let mut at = 0;
    while at < characters.len() {
        if !digit(at) {
            at += 1;
            continue;
        }
        let start = at;
        while digit(at) || digit(at + 1) && characters.get(at).is_some_and(|(_, c)| matches!(c, '.' | ',')) {
            at += 1;
        }
        let byte = |at: usize| characters.get(at).map_or(text.len(), |(byte, _)| *byte);
        let before = |back: usize| start.checked_sub(back).and_then(|at| characters.get(at)).map(|(_, c)| *c);
        let written = text.get(byte(start)..byte(at)).unwrap_or_default();
        let plain = written.replace(',', "");
        // A joint is not a sign: "order-572".
        let is_negative = before(1) == Some('-') && before(2).is_none_or(|c| !c.is_alphanumeric());
        if is_negative {
            found.add(&format!("-{plain}"));
        }
        for piece in written.split(',').chain([plain.as_str()]).chain(plain.split('.')) {
            found.add(piece);
        }
    }
    found.values
}

#[derive(Default)]
struct Found {
    values: Vec<String>,
    known: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, value: &str) {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        if value.chars().any(char::is_alphanumeric) && self.known.insert(value.clone()) {
            self.values.push(value);
        }
    }

    fn add_range(&mut self, line: &str, range: Range<usize>) {
        self.add(line.get(range).unwrap_or_default());
    }
}

fn tokens(line: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut begins = true;
    for raw in line.split_whitespace() {
        // The pieces are parts of the line, in their order.
        let start = raw.as_ptr() as usize - line.as_ptr() as usize;
        let trimmed = |opens: &str, ends: &str| {
            let kept = |c: char, marks: &str| c.is_alphanumeric() || marks.contains(c);
            let head = raw.trim_start_matches(|c: char| !kept(c, opens));
            let from = raw.len() - head.len();
            let text = head.trim_end_matches(|c: char| !kept(c, ends));
            start + from..start + from + text.len()
        };
        let bare = trimmed("", "");
        if !bare.is_empty() {
            let text = line.get(bare.clone()).unwrap_or_default();
            let owner = ["'s", "’s", "'S", "’S"].iter().find_map(|ending| text.strip_suffix(ending));
            let owner = owner.filter(|owner| !owner.is_empty()).map(|owner| bare.start + owner.len());
            tokens.push(Token { raw, whole: trimmed(OPENS_VALUE, ENDS_VALUE), bare, owner, begins });
        }
        begins = raw.ends_with(['.', '!', '?', ':', '…']);
    }
    tokens
}

/// What stands between marks of quotation.
fn quotations(line: &str, found: &mut Found) {
    for (open, close) in QUOTES {
        let mut rest = line;
        while let Some(at) = rest.find(open) {
            let (before, behind) = rest.split_at(at);
            let behind = behind.get(open.len_utf8()..).unwrap_or_default();
            rest = behind;
            // An apostrophe in a word opens nothing.
            if open == '\'' && before.chars().next_back().is_some_and(char::is_alphanumeric) {
                continue;
            }
            let ends = |end: &usize| {
                let after = behind.get(end + close.len_utf8()..).and_then(|tail| tail.chars().next());
                close != '\'' && close != '’' || after.is_none_or(|c| !c.is_alphanumeric())
            };
            let Some(end) = behind.match_indices(close).map(|(end, _)| end).find(ends) else { continue };
            let quoted = behind.get(..end).unwrap_or_default();
            if quoted.split_whitespace().count() <= LONG_RUN {
                found.add(quoted);
                found.add(quoted.trim_end_matches(['.', ',', '?', '!', ';', ':']));
            }
            rest = behind.get(end + close.len_utf8()..).unwrap_or_default();
        }
    }
}

/// The parts of one word: of `order-572`, `anna@x.org`, `12kg`.
fn parts(line: &str, token: &Token<'_>, found: &mut Found) {
    let bare = line.get(token.bare.clone()).unwrap_or_default();
    let digit_at = |at: usize| bare.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    // "don't", "O'Brien"
    let is_one = bare.contains(['\'', '’']);
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut start = None;
    for (at, c) in bare.char_indices() {
        let is_decimal = matches!(c, '.' | ',' | ':') && at > 0 && digit_at(at - 1) && digit_at(at + 1);
        match (c.is_alphanumeric() || is_decimal, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                parts.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    parts.extend(start.map(|from| from..bare.len()));
    if parts.len() > 1 && !is_one {
        for first in 0..parts.len() {
            for last in first..parts.len() {
                let is_edge = first == 0 || last + 1 == parts.len() || first == last;
                if let (Some(from), Some(to)) = (parts.get(first), parts.get(last))
                    && (is_edge || parts.len() <= MOST_PARTS)
                {
                    let part = bare.get(from.start..to.end).unwrap_or_default();
                    if !is_stop_word(&part.to_lowercase()) {
                        found.add(part);
                    }
                }
            }
        }
    }
    // A number with its unit.
    let letters = bare.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','));
    let number = bare.get(..bare.len() - letters.len()).unwrap_or_default();
    if !number.is_empty() && letters.starts_with(|c: char| c.is_alphabetic() || matches!(c, '%' | '°')) {
        found.add(number);
        if letters.chars().all(char::is_alphabetic) {
            found.add(letters);
        }
    }
}

/// A run of words, where it begins and ends with one that says something and no mark parts it.
/// `is_longer` says that it is longer than what is looked for: then small words link it, and no verb stands in it.
fn run_of(line: &str, run: &[Token<'_>], is_longer: bool, found: &mut Found) {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
    let is_parted =
        run.windows(2).any(|pair| pair.first().zip(pair.get(1)).is_some_and(|(a, b)| parts_words(line, a, b)));
    let stands_alone = run.len() == 1;
    let inner = run.get(1..run.len() - 1).unwrap_or_default();
    let links = |token: &Token<'_>| {
        let word = line.get(token.bare.clone()).unwrap_or_default().to_lowercase();
        !is_stop_word(&word) || LINKS.contains(&word.as_str())
    };
    if is_longer && !inner.iter().all(links) {
        return;
    }
    if is_parted || !says_something(line, first, run.get(1), stands_alone) || !says_something(line, last, None, true) {
        return;
    }
    found.add_range(line, first.bare.start..last.bare.end);
    found.add_range(line, first.whole.start..last.whole.end);
    if let Some(owner) = last.owner {
        found.add_range(line, first.bare.start..owner);
        found.add_range(line, first.whole.start..owner);
    }
}

/// Whether what stands between two neighbours parts them. A comma does not in "Smith, John" and "4 May, 2024".
fn parts_words(line: &str, one: &Token<'_>, other: &Token<'_>) -> bool {
    let between = line.get(one.bare.end..other.bare.start).unwrap_or_default();
    let is_name = |token: &Token<'_>| {
        line.get(token.bare.clone()).unwrap_or_default().starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
    };
    between.contains(|c| SEPARATES.contains(c)) || between.contains(',') && !(is_name(one) && is_name(other))
}

/// Whether a run may begin or end with a word. A small word may where it is written as a name, owns something, or is a
/// letter at the end of a clause: "Will", "Will's", "platform A".
fn says_something(line: &str, token: &Token<'_>, next: Option<&Token<'_>>, may_end: bool) -> bool {
    let text = |token: &Token<'_>| line.get(token.bare.clone()).unwrap_or_default().to_owned();
    let word = text(token);
    let plain = token.owner.and_then(|owner| line.get(token.bare.start..owner)).unwrap_or(&word);
    if !is_stop_word(&plain.to_lowercase()) {
        // "don't", "what's"
        let head = word.split(['\'', '’']).next().unwrap_or_default().to_lowercase();
        return head == word.to_lowercase() || token.owner.is_some() || !is_stop_word(&head);
    }
    let is_name = |word: &str| word.starts_with(char::is_uppercase) && word != "I";
    let ends_clause = token.raw.ends_with(|c: char| !c.is_alphanumeric()) || line.trim_end().len() == token.bare.end;
    match () {
        () if is_name(&word) && !token.begins => true,
        // At the beginning every word is written so.
        () if is_name(&word) && token.owner.is_some() => !CONTRACTED.contains(&plain.to_lowercase().as_str()),
        () if is_name(&word) => next.is_some_and(|next| is_name(&text(next))),
        () => may_end && word.chars().count() == 1 && word != "I" && ends_clause,
    }
}

/// Names with small words in them, longer than a usual run: "The Old Man and the Sea".
fn names(line: &str, tokens: &[Token<'_>], usual: usize, found: &mut Found) {
    let text = |token: &Token<'_>| line.get(token.bare.clone()).unwrap_or_default().to_owned();
    let is_capital = |token: &Token<'_>| {
        let text = text(token);
        text != "I" && text.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit())
    };
    let is_small = |token: &Token<'_>| text(token).chars().count() <= 3 || is_stop_word(&text(token).to_lowercase());
    let mut at = 0;
    while let Some(first) = tokens.get(at) {
        let mut end = at + 1;
        if is_capital(first) {
            while let (Some(before), Some(token)) = (tokens.get(end - 1), tokens.get(end))
                && !parts_words(line, before, token)
                && (is_capital(token) || is_small(token))
            {
                end += 1;
            }
            while end > at + 1 && tokens.get(end - 1).is_some_and(|last| !is_capital(last)) {
                end -= 1;
            }
        }
        // A question word at the beginning belongs to no name: "Where is the Old Mill?"
        let is_small_first = first.begins && is_stop_word(&text(first).to_lowercase());
        let next = (at + 1..end).find(|at| tokens.get(*at).is_some_and(is_capital));
        let begins_name = !is_small_first || next == Some(at + 1);
        for from in begins_name.then_some(at).into_iter().chain(next.filter(|_| is_small_first)) {
            if let Some(run) = tokens.get(from..end).filter(|run| run.len() > usual && run.len() <= LONG_RUN)
                && let (Some(first), Some(last)) = (run.first(), run.last())
            {
                found.add_range(line, first.bare.start..last.owner.unwrap_or(last.bare.end));
                found.add_range(line, first.bare.start..last.bare.end);
            }
        }
        at = end;
    }
}

/// Runs of characters in scripts that are written without spaces.
fn unspaced(line: &str, found: &mut Found) {
    let characters: Vec<(usize, char)> = line.char_indices().collect();
    let character = |at: usize| characters.get(at).map(|(_, c)| *c);
    let byte = |at: usize| characters.get(at).map_or(line.len(), |(byte, _)| *byte);
    let is_particle = |at: usize| character(at).is_some_and(|c| PARTICLES.contains(c));
    let is_boundary = |at: usize| {
        let before = at.checked_sub(1);
        let kind = |at: usize| character(at).map_or(0, script);
        before.is_none_or(|before| kind(before) != kind(at) || is_particle(before)) || is_particle(at)
    };
    for start in 0..characters.len() {
        if is_particle(start) || character(start).is_none_or(|c| !c.is_alphanumeric()) {
            continue;
        }
        let mut has_unspaced = false;
        for end in start + 1..=(start + UNSPACED_NAME).min(characters.len()) {
            let Some(last) = character(end - 1).filter(|c| c.is_alphanumeric() || *c == '・') else { break };
            has_unspaced |= is_unspaced(last);
            let is_short = end - start <= UNSPACED_RUN;
            let is_cut = |at: usize| at == characters.len() || is_boundary(at);
            // Letters of other scripts beside it are one word.
            let is_inside = |at: usize| {
                let neighbours = at.checked_sub(1).and_then(character).zip(character(at));
                neighbours.is_some_and(|(a, b)| [a, b].iter().all(|c| c.is_alphanumeric() && !is_unspaced(*c)))
            };
            if has_unspaced
                && !is_particle(end - 1)
                && !is_inside(start)
                && !is_inside(end)
                && (is_short || is_cut(start) && is_cut(end))
            {
                found.add_range(line, byte(start)..byte(end));
            }
        }
    }
}

/// A number for the script of a character.
fn script(c: char) -> u8 {
    match u32::from(c) {
        0x3040..=0x309F => 1,
        0x30A0..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9F => 2,
        0x1100..=0x11FF | 0xAC00..=0xD7AF => 3,
        _ if is_unspaced(c) => 4,
        _ if c.is_ascii_digit() => 5,
        _ if c.is_alphanumeric() => 6,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offers(text: &str, value: &str) -> bool {
        let words = value.split_whitespace().count();
        spans(text, words).iter().any(|span| span == value)
    }

    #[test]
    fn a_value_is_offered_as_it_stands_in_the_text() {
        for (text, value) in [
            ("Which bus leaves after 07:15?", "07:15"),
            ("Where is Anna's locker?", "Anna"),
            ("Where is James’ locker?", "James"),
            ("What leaves from platform A?", "A"),
            ("which train is on platform a", "a"),
            ("Where does Will sit?", "Will"),
            ("Will's desk is where?", "Will"),
            ("Will Smith wants his badge.", "Will Smith"),
            ("Who carries order-572?", "572"),
            ("Who carries order-572?", "order-572"),
            ("Find the card of Smith, John.", "Smith, John"),
            ("Is 1,250 in stock?", "1,250"),
            ("Who was on duty on 2024-05-17?", "2024-05-17"),
            ("Who was on duty on 4 May, 2024?", "4 May, 2024"),
            ("Write to anna.lee@post.example.org, please", "anna.lee@post.example.org"),
            ("What does /srv/data/a_b.txt hold?", "/srv/data/a_b.txt"),
            ("What does C:\\data\\x.txt hold?", "C:\\data\\x.txt"),
            ("How much is 12kg?", "12"),
            ("How much is 12kg?", "12kg"),
            ("Is 15% enough?", "15%"),
            ("Does the \"door of the old mill by the sea\" open?", "door of the old mill by the sea"),
            ("Who wrote The Old Man and the Sea?", "The Old Man and the Sea"),
            ("Where is the red leather suitcase?", "red leather suitcase"),
            ("(see B-12/7): open?", "B-12/7"),
            ("Ticket #4411 is late.", "#4411"),
            ("Ticket #4411 is late.", "4411"),
            ("Wo ist die Straßenbahn von Jürgen?", "Jürgen"),
            ("Где ключ Анны?", "Анны"),
            ("山田さんの電話番号は？", "山田"),
            ("张伟的电话是多少？", "张伟"),
            ("请问北京今天天气怎么样", "北京"),
            ("東京タワーの高さは？", "東京タワー"),
            ("민수의 전화번호?", "민수"),
            ("请打开PDF文件", "PDF文件"),
        ] {
            assert!(offers(text, value), "{text}: {value} is not in {:?}", spans(text, 2));
        }
    }

    #[test]
    fn words_that_say_nothing_are_not_offered() {
        let offered = spans("What is it that I don't have in there, and will they?", 2);
        assert_eq!(offered, Vec::<String>::new());
        assert_eq!(spans("Where is the old harp?", 1), ["old", "harp", "old harp"]);
    }

    #[test]
    fn numbers_are_found_in_identifiers_and_with_commas() {
        assert_eq!(numbers("order-572, 1,250 pieces at -4.5°"), ["572", "1", "250", "1250", "-4.5", "4.5", "4", "5"]);
    }

    proptest! {
        #[test]
        fn a_value_that_stands_between_words_is_offered(
            value in "[A-Z][a-z]{2,8}|[a-z]{4,9}-[0-9]{1,4}|[0-9]{1,2}:[0-9]{2}|[A-Z]{1,3}[0-9]{1,4}|[a-z]{3,6}\\.[a-z]{2,4}@[a-z]{3,6}\\.org\
                |/[a-z]{2,5}/[a-z]{2,5}\\.txt|[0-9]{4}-[0-9]{2}-[0-9]{2}|[1-9],[0-9]{3}|[A-Z][a-z]{3,6}, [A-Z][a-z]{3,6}\
                |[A-Z][a-z]{2,6} [A-Z][a-z]{2,6}|[А-Я][а-я]{3,6}|[0-9]{1,3}%",
            before in prop::sample::select(vec!["Where is ", "which of these has ", "Tell me (quickly) about ", "order: ", "\"", "(", "the ", ""]),
            behind in prop::sample::select(vec!["?", " now?", ", please.", "\" is where", ") or not", "'s box?", "’s box", ".", "", "; and then?", "!"]),
            filler in "[a-z ]{0,60}",
        ) {
            let text = format!("{filler}{}{before}{value}{behind}", if filler.is_empty() || filler.ends_with(' ') { "" } else { " " });
            prop_assert!(offers(&text, &value), "{}: {} is not in {:?}", text, value, spans(&text, 2));
        }

        #[test]
        fn any_text_can_be_cut(text in "\\PC{0,200}|[a-zA-Z0-9 '\"\\-.,:;@/的はの文]{0,120}") {
            for span in spans(&text, 2) {
                prop_assert!(!span.trim().is_empty());
            }
            for number in numbers(&text) {
                prop_assert!(number.parse::<f64>().is_ok() || number.contains('.'), "{}", number);
            }
        }
    }
}
