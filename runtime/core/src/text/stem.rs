//! The stem of an English word, by Porter's algorithm: what the full-text index of the memory does (`tokenize=porter`, which
//! is SQLite's own), for texts that are not in a database.

/// Shorter words have no endings, longer ones are no words.
const LENGTHS: std::ops::RangeInclusive<usize> = 3..=64;

/// Leaves the stem of a word in lower case. Whatever is not made of the letters a to z stays as it is.
pub(super) fn stem(word: &mut String) {
    if !LENGTHS.contains(&word.len()) || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    let mut stemmed = Stemmer(std::mem::take(word).into_bytes());
    stemmed.plurals();
    stemmed.past_and_progressive();
    stemmed.final_y();
    stemmed.replace_longest(&DOUBLE_ENDINGS);
    stemmed.replace_longest(&SIMPLE_ENDINGS);
    stemmed.remove_longest(&LAST_ENDINGS);
    stemmed.final_e_and_double_l();
    // Only letters of the alphabet were taken away or put on.
    *word = String::from_utf8(stemmed.0).unwrap_or_default();
}

/// Endings with what they become where something with a measure above 0 stands before them; a longer one before those
/// that it ends in.
const DOUBLE_ENDINGS: [(&[u8], &[u8]); 20] = [
    (b"ational", b"ate"),
    (b"ization", b"ize"),
    (b"iveness", b"ive"),
    (b"fulness", b"ful"),
    (b"ousness", b"ous"),
    (b"tional", b"tion"),
    (b"biliti", b"ble"),
    (b"entli", b"ent"),
    (b"ousli", b"ous"),
    (b"ation", b"ate"),
    (b"alism", b"al"),
    (b"aliti", b"al"),
    (b"iviti", b"ive"),
    (b"enci", b"ence"),
    (b"anci", b"ance"),
    (b"izer", b"ize"),
    (b"abli", b"able"),
    (b"alli", b"al"),
    (b"ator", b"ate"),
    (b"eli", b"e"),
];

const SIMPLE_ENDINGS: [(&[u8], &[u8]); 7] = [
    (b"icate", b"ic"),
    (b"ative", b""),
    (b"alize", b"al"),
    (b"iciti", b"ic"),
    (b"ical", b"ic"),
    (b"ness", b""),
    (b"ful", b""),
];

/// Endings that go where something with a measure above 1 stands before them.
const LAST_ENDINGS: [&[u8]; 19] = [
    b"ement", b"ance", b"ence", b"able", b"ible", b"ment", b"ant", b"ent", b"ion", b"ism", b"ate", b"iti", b"ous",
    b"ive", b"ize", b"al", b"er", b"ic", b"ou",
];

struct Stemmer(Vec<u8>);

impl Stemmer {
    fn is_consonant(&self, at: usize) -> bool {
        match self.0.get(at) {
            Some(b'a' | b'e' | b'i' | b'o' | b'u') => false,
            Some(b'y') => at == 0 || !self.is_consonant(at - 1),
            _ => true,
        }
    }

    /// How often a consonant follows a vowel in the first `end` letters.
    fn measure(&self, end: usize) -> usize {
        (1..end).filter(|at| self.is_consonant(*at) && !self.is_consonant(at - 1)).count()
    }

    fn has_vowel(&self, end: usize) -> bool {
        (0..end).any(|at| !self.is_consonant(at))
    }

    fn ends_in_double_consonant(&self) -> bool {
        let end = self.0.len();
        end >= 2 && self.0.get(end - 1) == self.0.get(end - 2) && self.is_consonant(end - 1)
    }

    /// Whether the first `end` letters end in consonant, vowel, consonant, and the last is not w, x or y: `hop`, `fil`.
    fn ends_short(&self, end: usize) -> bool {
        end >= 3
            && self.is_consonant(end - 1)
            && !self.is_consonant(end - 2)
            && self.is_consonant(end - 3)
            && !matches!(self.0.get(end - 1), Some(b'w' | b'x' | b'y'))
    }

    /// How many letters stand before an ending.
    fn before(&self, ending: &[u8]) -> Option<usize> {
        self.0.strip_suffix(ending).map(<[u8]>::len)
    }

    fn put(&mut self, end: usize, ending: &[u8]) {
        self.0.truncate(end);
        self.0.extend_from_slice(ending);
    }

    /// Takes the ending of a plural away: `caresses`, `ponies`, `cats`.
    fn plurals(&mut self) {
        if let Some(end) = self.before(b"sses") {
            self.put(end, b"ss");
        } else if let Some(end) = self.before(b"ies") {
            self.put(end, b"i");
        } else if self.before(b"ss").is_none()
            && let Some(end) = self.before(b"s")
        {
            self.put(end, b"");
        }
    }

    /// Takes the ending of a past or progressive form away: `agreed`, `plastered`, `motoring`.
    fn past_and_progressive(&mut self) {
        if let Some(end) = self.before(b"eed") {
            if self.measure(end) > 0 {
                self.put(end, b"ee");
            }
            return;
        }
        let Some(end) = self.before(b"ed").or_else(|| self.before(b"ing")).filter(|end| self.has_vowel(*end)) else {
            return;
        };
        self.0.truncate(end);
        let whole = [b"at", b"bl", b"iz"].iter().any(|ending| self.before(*ending).is_some());
        if whole {
            self.0.push(b'e');
        } else if self.ends_in_double_consonant() && !matches!(self.0.last(), Some(b'l' | b's' | b'z')) {
            self.0.pop();
        } else if self.measure(end) == 1 && self.ends_short(end) {
            self.0.push(b'e');
        }
    }

    /// `happy` and `happi-ness` meet. Behind a vowel it stays, as in Porter's later rules: `deploy` and `deployment` meet.
    fn final_y(&mut self) {
        let follows_consonant = |end: usize| self.has_vowel(end) && self.is_consonant(end.saturating_sub(1));
        if let Some(end) = self.before(b"y").filter(|end| follows_consonant(*end)) {
            self.put(end, b"i");
        }
    }

    fn replace_longest(&mut self, endings: &[(&[u8], &[u8])]) {
        let found = endings.iter().find_map(|(ending, by)| Some((self.before(ending)?, *by)));
        if let Some((end, by)) = found.filter(|(end, _)| self.measure(*end) > 0) {
            self.put(end, by);
        }
    }

    fn remove_longest(&mut self, endings: &[&[u8]]) {
        let Some((end, ending)) = endings.iter().find_map(|ending| Some((self.before(ending)?, *ending))) else {
            return;
        };
        let fits = ending != b"ion" || matches!(self.0.get(end.wrapping_sub(1)), Some(b's' | b't'));
        if fits && self.measure(end) > 1 {
            self.0.truncate(end);
        }
    }

    fn final_e_and_double_l(&mut self) {
        if let Some(end) = self.before(b"e") {
            let measure = self.measure(end);
            if measure > 1 || (measure == 1 && !self.ends_short(end)) {
                self.0.truncate(end);
            }
        }
        if self.0.ends_with(b"ll") && self.measure(self.0.len() - 1) > 1 {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stemmed(word: &str) -> String {
        let mut word = word.to_owned();
        stem(&mut word);
        word
    }

    #[test]
    fn words_lose_their_endings_as_porter_says() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("caress", "caress"),
            ("cats", "cat"),
            ("agreed", "agre"),
            ("feed", "feed"),
            ("plastered", "plaster"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("sized", "size"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("digitizer", "digit"),
            ("vietnamization", "vietnam"),
            ("hopefulness", "hope"),
            ("triplicate", "triplic"),
            ("electrical", "electr"),
            ("adjustable", "adjust"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("probate", "probat"),
            ("cease", "ceas"),
            ("controll", "control"),
            ("roll", "roll"),
            ("deployments", "deploy"),
            ("deploying", "deploy"),
        ] {
            assert_eq!(stemmed(word), expected, "{word}");
        }
        for word in ["", "is", "résumés", "x86", "2024"] {
            assert_eq!(stemmed(word), word);
        }
    }

    proptest! {
        #[test]
        fn no_word_makes_it_panic_or_grow(word in "[a-zé0-9]{0,70}") {
            prop_assert!(stemmed(&word).len() <= word.len() + 1);
        }
    }
}
