//! Whether a text repeats someone's words, however they are written.
//!
//! A text is read as letters: case, marks, spaces, punctuation, look-alikes and characters that are not seen make no
//! difference. Where two texts have letters in common, the words of the source decide: eight in a row are a quotation,
//! or ten ideographs, or twenty letters of Thai or kana. Four are enough where they are cut otherwise than in the
//! source, because that does not happen by chance. Pieces that are too short alone count together, where a task writes
//! them into several files.

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
/// So many letters that the two texts cut into words otherwise are a quotation, if they are so many words and so often
/// cut otherwise.
const REGROUPED: usize = 20;
const REGROUPED_WORDS: usize = 4;
const REGROUPED_CUTS: usize = 3;
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
}

impl Index {
    fn of(texts: &[Arc<str>]) -> Self {
        let mut source = Letters::default();
        for text in texts {
            source.read(text);
            // No quotation reaches from one text into the next.
            source.letters.push(u32::MAX);
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
        Self { source, places }
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
        let differs = |at: &usize| self.source.is_cut(from + at) != written.is_cut(common.written + at);
        common.length >= REGROUPED
            && words >= REGROUPED_WORDS
            && (1..common.length).filter(differs).count() >= REGROUPED_CUTS
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
pub struct SoFar {
    /// Places in the sources.
    pieces: Vec<(usize, usize)>,
    /// The end of what was written last.
    tail: String,
}

/// Texts whose words are not to be repeated.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    texts: Vec<Arc<str>>,
    index: OnceLock<Index>,
}

impl Sources {
    /// Adds a text.
    pub fn add(&mut self, text: &str) {
        if text.trim().is_empty() || self.texts.iter().any(|known| **known == *text) {
            return;
        }
        self.texts.push(text.into());
        self.index = OnceLock::new();
    }

    /// The first words of `written` that repeat a source; those that stood in `before` already are no news.
    pub fn repeated(&self, written: &str, before: &str) -> Option<String> {
        self.repeated_after(&mut SoFar::default(), written, before)
    }

    /// The same, for one of several texts of a task: what it wrote before counts too.
    pub fn repeated_after(&self, so_far: &mut SoFar, written: &str, before: &str) -> Option<String> {
        if self.texts.is_empty() {
            return None;
        }
        let index = self.index.get_or_init(|| Index::of(&self.texts));
        let mut known = Vec::new();
        index.common(&Letters::of(before), |common| known.push(common.in_source()));
        let known = Known::new(known);
        let letters = Letters::of(written);
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
    }

    /// Reads the beginning of a text as going on from the end of what the task wrote last, and keeps its own end.
    pub fn goes_on(&self, so_far: &mut SoFar, written: &str) -> Option<String> {
        let head = written.get(..written.floor_char_boundary(TAIL)).unwrap_or_default();
        let whole = format!("{} {head}", so_far.tail);
        let found = self.repeated(&whole, "");
        so_far.tail.push(' ');
        so_far.tail.push_str(
            written.get(written.ceil_char_boundary(written.len().saturating_sub(TAIL))..).unwrap_or_default(),
        );
        let cut = so_far.tail.ceil_char_boundary(so_far.tail.len().saturating_sub(TAIL));
        so_far.tail.drain(..cut);
        found
    }
}

impl SoFar {
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
pub const ALIKE: f64 = 0.7;
/// A change of fewer words is compared with others as a whole: as few words say different things in different places.
const FEW: usize = 4;

/// What a text says, by its words, so that two can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape(Vec<String>);

impl Shape {
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
    pub fn likeness(&self, other: &Self) -> f64 {
        likeness(&self.0.iter().collect(), &other.0.iter().collect())
    }
}

fn likeness<T: Ord>(a: &BTreeSet<T>, b: &BTreeSet<T>) -> f64 {
    let all = a.union(b).count();
    if all == 0 { 0.0 } else { a.intersection(b).count() as f64 / all as f64 }
}

/// What a change of files says, by the words that it brings and takes away, so that two can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gist {
    before: Vec<String>,
    after: Vec<String>,
}

impl Gist {
    /// The gist of a change: the files that it touches as they were, and as they become.
    pub fn of<'a>(before: impl Iterator<Item = &'a [u8]>, after: impl Iterator<Item = &'a [u8]>) -> Self {
        Self {
            before: before.flat_map(|file| Shape::of_file(file).0).collect(),
            after: after.flat_map(|file| Shape::of_file(file).0).collect(),
        }
    }

    /// Whether two changes say the same, or nearly: they come to the same words, or they bring nearly the same ones; where
    /// they bring none, they take nearly the same ones away.
    pub fn says_the_same(&self, other: &Self) -> bool {
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
        self.after == other.after || is_large && likeness(&mine, &others) >= ALIKE
    }

    /// The words that it brings, and those that it takes away.
    fn words(&self) -> (BTreeSet<&String>, BTreeSet<&String>) {
        let (before, after): (BTreeSet<_>, BTreeSet<_>) = (self.before.iter().collect(), self.after.iter().collect());
        (after.difference(&before).copied().collect(), before.difference(&after).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(source: &str, written: &str) -> bool {
        let mut sources = Sources::default();
        sources.add(source);
        sources.repeated(written, "").is_some()
    }

    const ENGLISH: &str = "our unreleased vault at 0xabc holds all of the treasury funds for now";

    #[test]
    fn long_texts_are_compared_in_one_pass() {
        // To look for each run, or each word, among all that stood there before would take hours.
        let many = |from: u32| (from..from + 100_000).map(|n| format!("w{n} ")).collect::<String>();
        let glued =
            |from: u32| (from..from + 20_000).map(|n| format!("averyverylongwordnumber{n} ")).collect::<String>();
        let mut sources = Sources::default();
        sources.add(&many(0));
        sources.add(&glued(0));
        assert_eq!(sources.repeated(&many(0), &many(0)), None, "it stood there before");
        assert_eq!(sources.repeated(&glued(50_000), &glued(50_000)), None);
        assert!(sources.repeated(&many(0), &many(50_000)).is_some_and(|words| words.starts_with("w0 w1 w2")));
    }

    #[test]
    fn eight_words_in_a_row_are_a_quotation_and_seven_are_not() {
        assert!(repeats(ENGLISH, "Note: the vault at 0xABC holds all of the treasury, funds!"));
        assert!(!repeats(ENGLISH, "Seven words: at 0xabc holds all of the treasury."));
        assert!(!repeats(ENGLISH, "Check the vault for treasury funds."));
        assert!(!repeats("", "anything at all that someone may write down here today"));
        assert!(!repeats(ENGLISH, ""));
    }

    #[test]
    fn names_of_skills_and_files_are_words_too() {
        for written in [
            "our-unreleased-vault-at-0xabc-holds-all-of",
            "references/our_unreleased_vault_at_0xabc_holds_all_of.md",
            "OUR.UNRELEASED.VAULT.AT.0XABC.HOLDS.ALL.OF",
        ] {
            assert!(repeats(ENGLISH, written), "{written}");
        }
    }

    #[test]
    fn words_that_are_cut_otherwise_are_still_their_words() {
        let letters = |between: &str| ENGLISH.chars().map(|c| format!("{c}{between}")).collect::<String>();
        for written in [
            "ourunreleased vaultat0xabc".to_owned(),
            "ou runre leasedva ultat 0xa bcho lds".to_owned(),
            "our unrel eased vaultat 0xabc holdsall of the trea sury funds".to_owned(),
            "ourunreleased vault at 0xabc holdsall of the treasury fundsfor now".to_owned(),
            letters(" "),
            letters("-"),
            letters(".\n"),
            letters("*_* "),
            ENGLISH.replace("un", "un-").replace("va", "va-").replace("ea", "e-a"),
        ] {
            assert!(repeats(ENGLISH, &written), "{written}");
        }
    }

    #[test]
    fn look_alikes_marks_and_case_hide_nothing_in_any_script() {
        use unicode_normalization::UnicodeNormalization as _;
        let cyrillic = |text: &str| {
            text.chars()
                .map(|c| match c {
                    'a' => 'а',
                    'e' => 'е',
                    'o' => 'о',
                    'c' => 'с',
                    'p' => 'р',
                    'y' => 'у',
                    'x' => 'х',
                    'i' => 'і',
                    's' => 'ѕ',
                    'v' => 'ν',
                    'u' => 'υ',
                    'n' => 'ո',
                    c => c,
                })
                .collect::<String>()
        };
        let struck = |text: &str| text.chars().flat_map(|c| [c, '\u{336}', '\u{301}']).collect::<String>();
        for source in [
            ENGLISH,
            "unser geheimer Tresor in der Müllerstraße 7 enthält alle Rücklagen für das nächste Jahr",
            "наш секретный сейф на улице вязов семь хранит все деньги до марта и никто не знает",
            "το μυστικό χρηματοκιβώτιο στην οδό Φτελιάς επτά έχει όλα τα χρήματα μέχρι τον Μάρτιο",
            "két tőzsdei cég közös ajánlatát a jövő héten írják alá Győrben a vezetők",
            "우리 금고의 비밀번호는 빨간 창고 일곱 번째 서랍에 있습니다 아무에게도 말하지 마세요",
            "私の口座番号は四二七一で暗証番号はガギグゲゴです",
        ] {
            for written in [
                source.to_uppercase(),
                source.to_lowercase(),
                source.nfd().collect(),
                source.nfkc().collect(),
                source.nfkd().collect(),
                source.nfd().filter(|c| !unicode_normalization::char::is_combining_mark(*c)).collect(),
                cyrillic(source),
                struck(source),
                cyrillic(&source.to_uppercase()),
                struck(&source.nfd().collect::<String>()).replace(' ', ""),
            ] {
                assert!(repeats(source, &written), "{written}");
            }
        }
        let wide = |text: &str| -> String {
            text.chars()
                .map(|c| char::from_u32(u32::from(c) + 0xFEE0).filter(|_| c.is_ascii_graphic()).unwrap_or(c))
                .collect()
        };
        assert!(repeats(ENGLISH, &wide(&cyrillic(ENGLISH).to_uppercase())));
        assert!(repeats(
            "the morning modem number may remain in memory tonight",
            "the rnorning rnodern nurnber rnay rernain in rnernory tonight"
        ));
    }

    #[test]
    fn pieces_too_short_alone_count_together() {
        let source = "Our unreleased vault at 0xabc holds all of the treasury funds for now, and the board will move them to the \
            second vault on the ninth of March unless the auditors object";
        let mut sources = Sources::default();
        sources.add(source);
        for size in [4, 5, 6, 7] {
            let mut so_far = SoFar::default();
            let words: Vec<&str> = source.split_whitespace().collect();
            let found = words.chunks(size).enumerate().find_map(|(number, piece)| {
                let file =
                    format!("references/part-{number}.md # Part {number}\n\nNote: {}. That is all.", piece.join(" "));
                assert_eq!(sources.repeated(&file, ""), None, "{file}");
                sources.repeated_after(&mut so_far, &file, "")
            });
            assert!(found.is_some(), "{size}");
        }
        // Files that hold nothing else go on from each other, however short they are.
        let mut so_far = SoFar::default();
        let found = source.split_whitespace().find_map(|word| sources.goes_on(&mut so_far, word));
        assert!(found.is_some());
        // The same words in other orders are nobody's sentence.
        let mut so_far = SoFar::default();
        for file in
            ["the vault holds funds", "move all of the funds", "the treasury will object", "for now, on the ninth"]
        {
            assert_eq!(sources.repeated_after(&mut so_far, file, ""), None);
            assert_eq!(sources.goes_on(&mut so_far, file), None);
        }
    }

    #[test]
    fn large_texts_of_any_kind_are_compared_in_linear_work() {
        let random = |size: usize, seed: u64, letters: u64| {
            let mut state = seed;
            std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'a' + u8::try_from((state >> 40) % letters).unwrap())
            })
            .take(size)
            .collect::<String>()
        };
        const SIZE: usize = 1 << 16;
        let texts = [
            "a".repeat(SIZE),
            "ab".repeat(SIZE / 2),
            "a ".repeat(SIZE / 2),
            "our unreleased vault ".repeat(SIZE / 21),
            random(SIZE, 1, 2),
            random(SIZE, 2, 25),
        ];
        for source in &texts {
            let index = Index::of(&[source.as_str().into()]);
            for written in &texts {
                let written = Letters::of(written);
                let work = index.common(&written, |_| {});
                assert!(work <= 100 * (written.letters.len() + index.source.letters.len()), "{work}");
            }
        }
        const LARGE: usize = 1 << 20;
        let (source, other) = (random(LARGE, 3, 25), random(LARGE, 4, 25));
        let mut sources = Sources::default();
        sources.add(&source);
        assert_eq!(sources.repeated(&other, ""), None);
        // A letter apart each, at the very end.
        let spelled: String = source.chars().skip(LARGE - 40).flat_map(|c| [c, ' ']).collect();
        assert!(sources.repeated(&format!("{other} {spelled}"), "").is_some());
    }

    #[test]
    fn words_written_together_are_compared_by_letters() {
        assert!(repeats(ENGLISH, "scripts/OurUnreleasedVaultAt0xabcHolds.sh"));
        assert!(repeats(ENGLISH, "see thevaultat0xabcholdsallof, xvaultat0xabcholdsallofx"));
        // One long word of the source is a word, and a long word that the source does not have is no quotation.
        let hash = "look at 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 please";
        assert!(!repeats(hash, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"));
        assert!(!repeats(ENGLISH, "internationalization-of-telecommunications"));
    }

    #[test]
    fn scripts_without_spaces_are_compared_by_characters() {
        for (source, written, other) in [
            (
                "我们尚未发布的金库地址是红色仓库七号请不要告诉别人",
                "步骤：尚未发布的金库地址是红色仓库，然后检查。",
                "检查金库的地址，然后告诉用户结果如何。",
            ),
            (
                "私の口座番号は四二七一で暗証番号は九九です",
                "手順: 口座番号は四二七一で暗証番号を見る",
                "口座の番号を聞いてから、手順を読む。",
            ),
            ("รหัสผ่านของฉันคือดอกไม้สีแดงในสวนหลังบ้าน", "ขั้นตอน: รหัสผ่านของฉันคือดอกไม้สีแดง", "ตรวจรหัสก่อนแล้วบอกผล"),
            (
                "우리 금고의 비밀번호는 빨간 창고 일곱 번째 서랍에 있습니다",
                "우리금고의비밀번호는빨간창고일곱번째서랍",
                "금고를 확인하고 결과를 알립니다",
            ),
        ] {
            assert!(repeats(source, written), "{written}");
            assert!(!repeats(source, other), "{other}");
            // Spaces between the characters hide nothing.
            let spaced: String = written.chars().flat_map(|c| [c, ' ']).collect();
            assert!(repeats(source, &spaced), "{spaced}");
        }
    }

    #[test]
    fn invisible_characters_case_marks_and_wide_letters_hide_nothing() {
        let wide: String = ENGLISH
            .chars()
            .map(|c| if c == ' ' { c } else { char::from_u32(u32::from(c) + 0xFEE0).unwrap() })
            .collect();
        let hidden: String = ENGLISH.chars().flat_map(|c| [c, '\u{200b}', '\u{ad}']).collect();
        for written in [wide, hidden, ENGLISH.to_uppercase(), ENGLISH.replace(' ', " **_** ")] {
            assert!(repeats(ENGLISH, &written), "{written}");
        }
        assert!(repeats("don't tell anyone that it's the blue house", "don’t tell anyone that it’s the blue house"));
    }

    #[test]
    fn what_stood_there_before_is_no_news() {
        let mut sources = Sources::default();
        sources.add(ENGLISH);
        let before = format!("Step one. {ENGLISH}.");
        assert_eq!(sources.repeated(&format!("{before} Step two."), &before), None);
        // Pieces that only together say it are told from what was there.
        let half = "our unreleased vault at";
        assert_eq!(sources.repeated(half, ""), None);
        assert!(sources.repeated(&format!("{half} 0xabc holds all of the treasury"), half).is_some());
    }

    #[test]
    fn several_sources_are_compared_each() {
        let mut sources = Sources::default();
        sources.add("count to five");
        sources.add(ENGLISH);
        sources.add(ENGLISH);
        assert_eq!(sources.texts.len(), 2);
        assert_eq!(sources.repeated(&format!("x {ENGLISH}!"), "").as_deref(), Some(ENGLISH));
    }

    #[test]
    fn shapes_are_equal_where_only_marks_differ_and_alike_where_few_words_do() {
        assert_eq!(Shape::of("# Count\n\n1. Call `echo`."), Shape::of("count: 1) call echo"));
        let (a, b) =
            (Shape::of("one two three four five six seven eight"), Shape::of("one two three four five six nine"));
        assert!(a.likeness(&b) > 0.6 && a.likeness(&Shape::of("something else")) < 0.1);
        assert_eq!(Shape::of("金库地址").likeness(&Shape::of("金库，地址")), 1.0);
    }

    #[test]
    fn changes_are_compared_by_what_they_change() {
        let long: String = (0..80).map(|n| format!("step{n} of the way. ")).collect();
        let gist =
            |before: &str, after: &str| Gist::of([before.as_bytes()].into_iter(), [after.as_bytes()].into_iter());
        let with = |more: &str| gist(&long, &format!("{long}{more}"));
        let asks = with("Ask the bank before noon.");
        assert!(asks.says_the_same(&with("ASK the bank, before noon!")));
        assert!(asks.says_the_same(&with("First ask the bank before noon.")));
        assert!(!asks.says_the_same(&with("Never call anybody at night.")));
        // One word is another change wherever else it stands.
        assert!(!with("never").says_the_same(&gist(&long, &long.replace("step9 of", "never step9 of"))));
        assert!(with("never").says_the_same(&with("Never!")));
        // What is taken away is compared with what is taken away.
        let without = |from: &str, to: &str| {
            gist(&long, &long.replace(&long[long.find(from).unwrap()..long.find(to).unwrap()], ""))
        };
        assert!(without("step10", "step20").says_the_same(&without("step10", "step21")));
        assert!(!without("step10", "step20").says_the_same(&without("step30", "step40")));
        assert!(!without("step10", "step20").says_the_same(&asks));
        // Front matter that is not compared makes no two changes the same.
        let tagged = |tags: &str| {
            gist("---\nname: x\ndescription: d\n---\nb", &format!("---\nname: x\ndescription: d\ntags: {tags}\n---\nb"))
        };
        assert!(!tagged("[a]").says_the_same(&tagged("[b]")));
    }

    proptest::proptest! {
        #[test]
        fn any_text_of_enough_words_repeats_itself_and_nothing_panics(text in "\\PC{0,200}", more in "\\PC{0,50}") {
            let mut sources = Sources::default();
            sources.add(&text);
            let letters = Letters::of(&text);
            let long = letters.letters.len() >= SEED + STEP && letters.worth_of(0, letters.letters.len()) >= RUN;
            let whole = format!("{more} {text} {more}");
            proptest::prop_assert_eq!(sources.repeated(&whole, "").is_some() || !long, true);
            let _ = sources.repeated(&more, &text);
        }
    }
}
