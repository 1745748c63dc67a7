//! Whether a text repeats someone's words, however they are written.
//!
//! A text is read as letters: case, marks, spaces, punctuation, look-alikes and characters that are not seen make no
//! difference. Where two texts have letters in common, the words of the source decide: eight in a row are a quotation,
//! or ten ideographs, or twenty letters of Thai or kana. Four are enough where they are cut otherwise than in the
//! source, because that does not happen by chance. Pieces that are too short alone count together, where a task writes
//! them into several files.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use super::document::Document;
use super::guard::fold;

/// What a quotation must be worth.
const RUN: usize = 40;
/// What its pieces are worth. An ideograph counts as four letters, one of kana or Thai as two.
const WORD: usize = 5;
const IDEOGRAPH: usize = 4;
const LETTER: usize = 2;
/// So many letters that the two texts cut into words otherwise are a quotation, if they are at least `REGROUPED_WORDS`
/// words and `REGROUPED_CUTS` cuts differ.
const REGROUPED: usize = 20;
const REGROUPED_WORDS: usize = 4;
const REGROUPED_CUTS: usize = 3;
/// So many are enough where no more cuts are the same.
const FEWEST_CUTS: usize = 2;
/// So many letters that only the written text cuts into eight words.
const SPELLED: usize = 32;
/// What a piece must be worth to count together with others, and what they must be worth together, side by side.
const PIECE: usize = 2 * WORD;
const SPREAD: usize = 12 * WORD;
/// So many letters in common are looked at more closely.
const SEED: usize = 12;
/// The source is looked up at every so manieth letter.
const STEP: usize = 4;
/// The most places of the source that one piece is compared with.
const PLACES: usize = 4;
/// No item of a list has a longer number.
const MARKER: usize = 4;
/// Stands between two texts.
const BETWEEN: u32 = u32::MAX;
/// How much of what was written last is read together with what is written next.
const TAIL: usize = 400;

/// What a character of a script without spaces is worth; `None` for all others.
fn worth(c: char) -> Option<usize> {
    match u32::from(c) {
        0x3005..=0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x323AF => Some(IDEOGRAPH),
        // Kana, Thai, Lao, Tibetan, Myanmar, Khmer.
        0x3040..=0x30FF | 0x31F0..=0x31FF | 0x0E00..=0x0EFF | 0x0F00..=0x109F | 0x1780..=0x17FF => Some(LETTER),
        // The parts of a Hangul syllable.
        0x1100..=0x11FF | 0xA960..=0xA97F | 0xD7B0..=0xD7FF => Some(1),
        _ => None,
    }
}

/// A text as letters. A word is a piece, and so is a character of a script without spaces.
#[derive(Debug, Clone, Default)]
struct Letters {
    /// A character that is worth several letters stands there as often.
    letters: Vec<u32>,
    /// The piece that each belongs to.
    piece: Vec<u32>,
    /// Where each stands in the text, in bytes.
    at: Vec<usize>,
    /// What all pieces up to the end of each are worth.
    worth: Vec<usize>,
}

impl Letters {
    fn of(text: &str) -> Self {
        let mut all = Self::default();
        all.read(text);
        all
    }

    /// Adds a text; nothing goes on from the end of what is there.
    fn read(&mut self, text: &str) {
        let mut in_word = false;
        fold::each_letter(text, |at, letter| match letter {
            None => in_word = false,
            Some(c) => {
                let alone = worth(c);
                if !in_word || alone.is_some() {
                    let before = self.worth.last().copied().unwrap_or_default();
                    self.worth.push(before + alone.unwrap_or(WORD));
                }
                in_word = alone.is_none();
                for copy in 0..alone.unwrap_or(1) {
                    self.letters.push(u32::from(c) | (copy as u32) << 24);
                    self.piece.push(self.worth.len() as u32);
                    self.at.push(at);
                }
            }
        });
    }

    fn piece(&self, at: usize) -> usize {
        self.piece.get(at).map_or(0, |piece| *piece as usize)
    }

    /// Whether a piece begins here.
    fn is_cut(&self, at: usize) -> bool {
        at == 0 || self.piece(at) != self.piece(at - 1)
    }

    /// What the pieces are worth that lie wholly between two places.
    fn worth_of(&self, from: usize, until: usize) -> usize {
        if from >= until {
            return 0;
        }
        let first = self.piece(from) - usize::from(self.is_cut(from));
        let is_whole = until >= self.letters.len() || self.is_cut(until);
        let last = self.piece(until - 1) - usize::from(!is_whole);
        let up_to = |piece: usize| piece.checked_sub(1).and_then(|at| self.worth.get(at)).copied().unwrap_or_default();
        up_to(last).saturating_sub(up_to(first))
    }
}

/// The hash of every run of [`SEED`] letters, with the place it begins at.
fn seeds(letters: &[u32]) -> impl Iterator<Item = (usize, u64)> {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    const LEAVING: u64 = PRIME.wrapping_pow(SEED as u32);
    let mut hash = 0_u64;
    letters.iter().enumerate().filter_map(move |(at, letter)| {
        hash = hash.wrapping_mul(PRIME).wrapping_add(u64::from(*letter) + 1);
        if let Some(out) = at.checked_sub(SEED).and_then(|at| letters.get(at)) {
            hash = hash.wrapping_sub((u64::from(*out) + 1).wrapping_mul(LEAVING));
        }
        Some(((at + 1).checked_sub(SEED)?, hash))
    })
}

/// Every run of whole words that is worth a quotation and has too few letters for a seed, as places.
fn short_runs(text: &Letters) -> impl Iterator<Item = (usize, usize)> {
    let starts: Vec<usize> = (0..=text.letters.len()).filter(|at| text.is_cut(*at)).collect();
    let mut last = 0;
    (0..starts.len()).filter_map(move |first| {
        let from = *starts.get(first)?;
        last = last.max(first);
        while text.worth_of(from, *starts.get(last)?) < RUN {
            last += 1;
        }
        let until = *starts.get(last)?;
        let letters = text.letters.get(from..until)?;
        (letters.len() < SEED + STEP && !letters.contains(&BETWEEN)).then_some((from, until))
    })
}

/// Letters that a source and a written text have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Common {
    source: usize,
    written: usize,
    length: usize,
}

impl Common {
    fn in_source(&self) -> (usize, usize) {
        (self.source, self.source + self.length)
    }
}

/// Texts, and where each of their letters stand.
#[derive(Debug, Clone, Default)]
struct Index {
    source: Letters,
    places: HashMap<u64, Vec<u32>>,
    /// Eight words of few letters, with the place they begin at.
    runs: HashMap<Vec<u32>, usize>,
}

impl Index {
    fn of(texts: &[Arc<str>]) -> Self {
        let mut source = Letters::default();
        let unmarked: Vec<String> = texts.iter().filter_map(|text| without_markers(text)).collect();
        for text in texts.iter().map(|text| &**text).chain(unmarked.iter().map(String::as_str)) {
            source.read(text);
            // No quotation reaches from one text into the next.
            source.letters.push(BETWEEN);
            source.worth.push(source.worth.last().copied().unwrap_or_default());
            source.piece.push(source.worth.len() as u32);
            source.at.push(0);
        }
        let mut places: HashMap<u64, Vec<u32>> = HashMap::new();
        for (at, hash) in seeds(&source.letters).step_by(STEP) {
            let places = places.entry(hash).or_default();
            if places.len() < PLACES {
                places.push(at as u32);
            }
        }
        let mut runs = HashMap::new();
        for (from, until) in short_runs(&source) {
            if let Some(letters) = source.letters.get(from..until) {
                runs.entry(letters.to_vec()).or_insert(from);
            }
        }
        Self { source, places, runs }
    }

    /// Everything that a text has in common with the source. Each letter is looked at a bounded number of times; the
    /// number of comparisons comes back.
    fn common(&self, written: &Letters, mut each: impl FnMut(Common)) -> usize {
        let (mut past, mut work) = (0, 0);
        for (at, hash) in seeds(&written.letters) {
            work += 1;
            if at < past {
                continue;
            }
            for place in self.places.get(&hash).into_iter().flatten() {
                let common = self.around(written, *place as usize, at);
                work += common.length + 1;
                if common.length >= SEED {
                    each(common);
                    past = past.max((common.written + common.length + 1).saturating_sub(SEED));
                }
            }
        }
        if self.runs.is_empty() {
            return work;
        }
        for (at, until) in short_runs(written) {
            work += until - at;
            let run = written.letters.get(at..until).and_then(|letters| self.runs.get(letters));
            if let Some(source) = run {
                each(Common { source: *source, written: at, length: until - at });
            }
        }
        work
    }

    /// How far two texts agree around two places.
    fn around(&self, written: &Letters, source: usize, at: usize) -> Common {
        let ahead = |(a, b): &(&u32, &u32)| a == b;
        let forward = |from: usize, to: usize| {
            let both = self.source.letters.iter().skip(from).zip(written.letters.iter().skip(to));
            both.take_while(ahead).count()
        };
        let back = {
            let from = self.source.letters.get(..source).unwrap_or_default();
            let to = written.letters.get(..at).unwrap_or_default();
            from.iter().rev().zip(to.iter().rev()).take(SEED + STEP).take_while(ahead).count()
        };
        Common { source: source - back, written: at - back, length: back + forward(source, at) }
    }

    /// Whether what two texts have in common is a quotation by itself.
    fn is_quotation(&self, written: &Letters, common: &Common) -> bool {
        let (from, until) = common.in_source();
        if self.source.worth_of(from, until) >= RUN {
            return true;
        }
        let end = common.written + common.length;
        if common.length >= SPELLED && written.worth_of(common.written, end) >= RUN {
            return true;
        }
        let words = self.source.piece(until - 1) + 1 - self.source.piece(from);
        if common.length < REGROUPED || words < REGROUPED_WORDS {
            return false;
        }
        let cuts = |at: usize| (self.source.is_cut(from + at), written.is_cut(common.written + at));
        let differing = (1..common.length).filter(|at| matches!(cuts(*at), (true, false) | (false, true))).count();
        let same = (1..common.length).filter(|at| cuts(*at) == (true, true)).count();
        differing >= REGROUPED_CUTS || (differing >= FEWEST_CUTS && differing >= same)
    }
}

/// Places of a source, so that one can be asked whether they hold another.
struct Known {
    from: Vec<usize>,
    /// The furthest end of all up to each.
    until: Vec<usize>,
}

impl Known {
    fn new(mut places: Vec<(usize, usize)>) -> Self {
        places.sort_unstable();
        let mut furthest = 0;
        let (from, until) = places
            .into_iter()
            .map(|(from, until)| {
                furthest = furthest.max(until);
                (from, furthest)
            })
            .unzip();
        Self { from, until }
    }

    fn holds(&self, (from, until): (usize, usize)) -> bool {
        let after = self.from.partition_point(|known| *known <= from);
        after.checked_sub(1).and_then(|at| self.until.get(at)).is_some_and(|known| *known >= until)
    }
}

/// What a task has written so far that the sources say too.
#[derive(Debug, Clone, Default)]
pub struct QuotationProgress {
    /// Places in the sources.
    pieces: Vec<(usize, usize)>,
    /// The end of what was written last.
    tail: String,
}

/// Texts whose words are not to be repeated.
#[derive(Debug, Clone, Default)]
pub struct QuotableTexts {
    texts: Vec<Arc<str>>,
    index: OnceLock<Index>,
}

impl QuotableTexts {
    /// Adds a text. An empty one, or one that is known already, changes nothing.
    pub fn add(&mut self, text: &str) {
        if text.trim().is_empty() || self.texts.iter().any(|known| **known == *text) {
            return;
        }
        self.texts.push(text.into());
        self.index = OnceLock::new();
    }

    /// The first words of `written` that repeat a source; those that stood in `before` already do not count.
    pub fn repeated(&self, written: &str, before: &str) -> Option<String> {
        self.repeated_after(&mut QuotationProgress::default(), written, before)
    }

    /// The same, for one of several texts of a task: what it wrote before counts too.
    pub fn repeated_after(&self, so_far: &mut QuotationProgress, written: &str, before: &str) -> Option<String> {
        if self.texts.is_empty() {
            return None;
        }
        let index = self.index.get_or_init(|| Index::of(&self.texts));
        let mut known = Vec::new();
        for before in views(before) {
            index.common(&Letters::of(&before), |common| known.push(common.in_source()));
        }
        let known = Known::new(known);
        views(written).find_map(|view| {
            let letters = Letters::of(&view);
            let mut found: Option<Common> = None;
            let mut last_piece: Option<Common> = None;
            index.common(&letters, |common| {
                if found.is_some() || known.holds(common.in_source()) {
                    return;
                }
                if index.is_quotation(&letters, &common) {
                    found = Some(common);
                }
                let (from, until) = common.in_source();
                if index.source.worth_of(from, until) >= PIECE {
                    so_far.pieces.push((from, until));
                    last_piece = Some(common);
                }
            });
            let found = found.or_else(|| last_piece.filter(|_| so_far.side_by_side(&index.source) >= SPREAD));
            found.map(|common| shown(written, &letters, &common))
        })
    }

    /// Reads the beginning of a text as going on from the end of what the task wrote last, and keeps its own end.
    pub fn continued_quotation(&self, so_far: &mut QuotationProgress, written: &str) -> Option<String> {
        let head = written.get(..written.floor_char_boundary(TAIL)).unwrap_or_default();
        let whole = format!("{}\n{head}", so_far.tail);
        let found = self.repeated(&whole, "");
        so_far.tail.push('\n');
        so_far.tail.push_str(
            written.get(written.ceil_char_boundary(written.len().saturating_sub(TAIL))..).unwrap_or_default(),
        );
        let cut = so_far.tail.ceil_char_boundary(so_far.tail.len().saturating_sub(TAIL));
        so_far.tail.drain(..cut);
        found
    }
}

impl QuotationProgress {
    /// What the pieces are worth that lie side by side in the source, at most.
    fn side_by_side(&mut self, source: &Letters) -> usize {
        self.pieces.sort_unstable();
        self.pieces.dedup();
        let (mut most, mut start, mut end) = (0, 0, 0);
        for (from, until) in &self.pieces {
            if *from > end {
                start = *from;
            }
            end = end.max(*until);
            most = most.max(source.worth_of(start, end));
        }
        most
    }
}

/// A text as it stands, and without the marks of lists where it has some.
fn views(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    std::iter::once(Cow::Borrowed(text)).chain(std::iter::once_with(|| without_markers(text).map(Cow::Owned)).flatten())
}

/// A text with spaces in place of what numbers the items of its lists and the rows of its tables: `1.`, `- 2)`, `| 3 |`.
/// Every letter stays where it is; `None` where there is nothing of the kind.
fn without_markers(text: &str) -> Option<String> {
    let mut plain = String::new();
    for line in text.split_inclusive('\n') {
        let body = line.trim_start_matches([' ', '\t', '-', '*', '+', '|', '>', '#', '(', '[']);
        let digits = body.bytes().take_while(u8::is_ascii_digit).count();
        // A single letter numbers an item too.
        let letters = usize::from(body.starts_with(|c: char| c.is_ascii_alphabetic()));
        let marker = digits.max(letters);
        let behind = body.get(marker..).unwrap_or_default().trim_start_matches(' ');
        if (1..=MARKER).contains(&marker) && behind.starts_with(['.', ')', ']', ':', '|']) {
            let from = line.len() - body.len();
            plain.push_str(line.get(..from).unwrap_or_default());
            plain.extend(std::iter::repeat_n(' ', marker));
            plain.push_str(body.get(marker..).unwrap_or_default());
        } else {
            plain.push_str(line);
        }
    }
    (plain != text).then_some(plain)
}

/// What two texts have in common, as it is written, on one line and cut short.
fn shown(text: &str, letters: &Letters, common: &Common) -> String {
    const ENOUGH: usize = 80;
    let place = |at: usize| letters.at.get(at).copied().unwrap_or(text.len());
    let whole = text.get(place(common.written)..place(common.written + common.length)).unwrap_or_default();
    let words = whole.split_whitespace().collect::<Vec<_>>().join(" ");
    words.trim_end_matches(|c: char| !c.is_alphanumeric()).chars().filter(|c| !c.is_control()).take(ENOUGH).collect()
}

/// The words of a text, folded.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_word = false;
    fold::each_letter(text, |_, letter| match letter {
        None => in_word = false,
        Some(c) => {
            let alone = worth(c).is_some();
            match words.last_mut().filter(|_| in_word && !alone) {
                Some(word) => word.push(c),
                None => words.push(c.to_string()),
            }
            in_word = !alone;
        }
    });
    words
}

/// Two texts that share this part of their words say nearly the same.
pub const SIMILARITY_THRESHOLD: f64 = 0.7;
/// A change of fewer words is compared with others as a whole: as few words say different things in different places.
const FEW: usize = 4;

/// What a text says, by its words, so that two can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFingerprint(Vec<String>);

impl TextFingerprint {
    /// The shape of a text.
    pub fn of(text: &str) -> Self {
        Self(words(text))
    }

    /// What a file of a skill says, apart from its name, its version and where it comes from.
    pub fn of_file(content: &[u8]) -> Self {
        match Document::read(content) {
            Ok(document) if document.has_front_matter() => {
                Self::of(&format!("{}\n{}", document.description().unwrap_or_default(), document.body()))
            }
            _ => Self::of(&String::from_utf8_lossy(content)),
        }
    }

    /// Whether it says something.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much of all the words of both they share, from 0 to 1.
    pub fn similarity(&self, other: &Self) -> f64 {
        likeness(&self.0.iter().collect(), &other.0.iter().collect())
    }
}

fn likeness<T: Ord>(a: &BTreeSet<T>, b: &BTreeSet<T>) -> f64 {
    let all = a.union(b).count();
    if all == 0 { 0.0 } else { a.intersection(b).count() as f64 / all as f64 }
}

/// What a change of files says, by the words that it brings and takes away, so that two can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeFingerprint {
    before: Vec<String>,
    after: Vec<String>,
}

impl ChangeFingerprint {
    /// The gist of a change: the files that it touches as they were, and as they become.
    pub fn of<'a>(before: impl Iterator<Item = &'a [u8]>, after: impl Iterator<Item = &'a [u8]>) -> Self {
        Self {
            before: before.flat_map(|file| TextFingerprint::of_file(file).0).collect(),
            after: after.flat_map(|file| TextFingerprint::of_file(file).0).collect(),
        }
    }

    /// Whether two changes say the same, or nearly: they come to the same words, or they bring nearly the same ones; where
    /// they bring none, they take nearly the same ones away.
    pub fn is_similar(&self, other: &Self) -> bool {
        let is_news = |gist: &Self| gist.before != gist.after;
        if !is_news(self) || !is_news(other) {
            return false;
        }
        let (mine, others) = (self.words(), other.words());
        let (mine, others) = match (mine.0.is_empty(), others.0.is_empty()) {
            (false, false) => (mine.0, others.0),
            (true, true) => (mine.1, others.1),
            _ => return false,
        };
        let is_large = mine.union(&others).count() >= FEW;
        self.after == other.after || is_large && likeness(&mine, &others) >= SIMILARITY_THRESHOLD
    }

    /// The words that it brings, and those that it takes away.
    fn words(&self) -> (BTreeSet<&String>, BTreeSet<&String>) {
        let (before, after): (BTreeSet<_>, BTreeSet<_>) = (self.before.iter().collect(), self.after.iter().collect());
        (after.difference(&before).copied().collect(), before.difference(&after).copied().collect())
    }
}

#[cfg(test)]
mod tests;
