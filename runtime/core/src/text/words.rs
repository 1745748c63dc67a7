//! Texts cut into what can be looked for: words, and pairs of characters in scripts that are written without spaces.
//! The search of the memory and the choice of skills both go by this.

use std::sync::OnceLock;

use super::stem::stem;

/// Words that say nothing about what a text is about.
const STOP_WORDS: &str = "\
a about above after again against ain all almost already also always am among an and another any anything are aren \
around as at be because become been before being below between both but by can cannot could couldn did didn do does \
doesn doing don down during each either else enough even ever every everyone everything everywhere few for from \
further get give given got had hadn has hasn have haven having he her here hers herself him himself his how however \
i if in indeed instead into is isn it its itself just let like ll ma made make many may maybe me might mightn mine \
more most much must mustn my myself need needn never no nor not nothing now of off often on once only or other \
otherwise our ours ourselves out over own perhaps please rather re really same several shall shan she should \
shouldn since so some someone something somewhere such than that the their theirs them themselves then there these \
they this those though through thus to together too toward towards under until up upon us ve very via want was wasn \
we well were weren what whatever when whenever where wherever whether which while who whom why will with within \
without won would wouldn yet you your yours yourself yourselves";

/// The same among pairs of characters.
const STOP_PAIRS: &str = "一个 一個 一下 一些 可以 可能 能够 能夠 需要 想要 使用 用户 用戶 用于 用於 进行 進行 如何 如果 以及 并且 並且 \
但是 因为 因為 所以 时候 時候 其他 或者 当前 當前 例如 比如 通过 通過";

/// Characters that make a pair say nothing: pronouns, particles, conjunctions.
const STOP_CHARACTERS: &str = "的了是在我你您他她它们們这這那和与與或吗嗎呢吧把被请請帮幫就都也很么麼";

fn listed(list: &'static str, words: &OnceLock<Vec<&'static str>>, word: &str) -> bool {
    let sorted = || {
        let mut words: Vec<&str> = list.split(' ').collect();
        words.sort_unstable();
        words
    };
    words.get_or_init(sorted).binary_search(&word).is_ok()
}

/// Whether a word in lower case says nothing.
pub fn is_stop_word(word: &str) -> bool {
    static WORDS: OnceLock<Vec<&'static str>> = OnceLock::new();
    listed(STOP_WORDS, &WORDS, word)
}

/// Whether a pair of characters says nothing. In Japanese, what is written in Hiragana alone is mostly grammar.
fn is_stop_pair(pair: &str) -> bool {
    static PAIRS: OnceLock<Vec<&'static str>> = OnceLock::new();
    let is_hiragana = |c: char| matches!(u32::from(c), 0x3040..=0x309F);
    pair.chars().any(|c| STOP_CHARACTERS.contains(c))
        || pair.chars().all(is_hiragana)
        || listed(STOP_PAIRS, &PAIRS, pair)
}

/// Whether a character belongs to a script written without spaces (or, for Hangul, one whose words
/// carry endings that hide them from a word index).
pub fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x1100..=0x11FF      // Hangul Jamo
        | 0x3005..=0x3007    // ideographic marks
        | 0x3040..=0x30FF    // Hiragana, Katakana
        | 0x31F0..=0x31FF    // Katakana extensions
        | 0x3400..=0x4DBF    // ideographs, extension A
        | 0x4E00..=0x9FFF    // ideographs
        | 0xAC00..=0xD7AF    // Hangul syllables
        | 0xF900..=0xFAFF    // compatibility ideographs
        | 0xFF66..=0xFF9F    // halfwidth Katakana
        | 0x20000..=0x323AF) // ideographs, further extensions
}

/// A run of characters of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run<'a> {
    /// Characters of an unspaced script.
    Unspaced(&'a str),
    /// Letters and digits of any other script.
    Word(&'a str),
    /// Spaces, punctuation and other signs between runs.
    Gap,
}

/// Splits text into runs, in order.
pub fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let kind = |c: char| {
            if is_unspaced(c) { 2 } else { i32::from(c.is_alphanumeric()) }
        };
        let first = kind(rest.chars().next()?);
        let end = rest.find(|c| kind(c) != first).unwrap_or(rest.len());
        let (run, tail) = rest.split_at(end);
        rest = tail;
        Some(match first {
            2 => Run::Unspaced(run),
            1 => Run::Word(run),
            _ => Run::Gap,
        })
    })
}

/// The pairs of neighbouring characters of a run.
pub fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let ends = run.char_indices().map(|(at, c)| at + c.len_utf8()).skip(1);
    run.char_indices().zip(ends).filter_map(|((start, _), end)| run.get(start..end))
}

/// What a text is about: gives `take` the stems of its words and the pairs of its unspaced runs, in their order, without
/// those that say nothing and without single letters, for as long as `take` wants more.
pub fn each_term(text: &str, mut take: impl FnMut(&str) -> bool) {
    let mut word = String::new();
    for run in runs(text) {
        match run {
            Run::Gap => {}
            Run::Word(written) => {
                word.clear();
                word.extend(written.chars().flat_map(char::to_lowercase));
                if word.chars().nth(1).is_none() || is_stop_word(&word) {
                    continue;
                }
                stem(&mut word);
                if !take(&word) {
                    return;
                }
            }
            Run::Unspaced(run) => {
                if !pairs(run).filter(|pair| !is_stop_pair(pair)).all(&mut take) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        each_term(text, |term| {
            terms.push(term.to_owned());
            true
        });
        terms
    }

    #[test]
    fn terms_are_stems_without_words_that_say_nothing() {
        assert_eq!(of("How do I review the upgrades of my contracts?"), ["review", "upgrad", "contract"]);
        assert_eq!(of("PDF-Dateien zusammenführen"), ["pdf", "dateien", "zusammenführen"]);
        assert!(of("What can you do for me, and why? Please don't.").is_empty());
    }

    #[test]
    fn unspaced_text_becomes_pairs_and_glued_words_are_words() {
        assert_eq!(of("请帮我合并PDF文件"), ["合并", "pdf", "文件"]);
        assert_eq!(of("データを分析する"), ["デー", "ータ", "タを", "を分", "分析", "析す"]);
        assert!(of("的 我们的").is_empty());
    }

    #[test]
    fn pairs_are_neighbours() {
        assert_eq!(pairs("分布系统").collect::<Vec<_>>(), ["分布", "布系", "系统"]);
        assert_eq!(pairs("存").count() + pairs("").count(), 0);
    }

    proptest! {
        #[test]
        fn any_text_can_be_cut(text in "\\PC{0,80}|[a-z缓存はの ]{0,40}") {
            for term in of(&text) {
                prop_assert!(term.chars().count() >= 2 && !term.contains(char::is_whitespace));
            }
        }
    }
}
