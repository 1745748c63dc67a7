//! Texts cut into the likeliest pieces, as SentencePiece's byte-pair models do: neighbours whose union has the
//! best score are put together first.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use candle_core::quantized::gguf_file::Value;

use crate::file::ModelFile;

/// The space of such vocabularies.
const SPACE: char = '\u{2581}';

/// Pieces with their scores.
#[derive(Debug)]
pub(crate) struct Pieces {
    known: HashMap<String, (u32, f32)>,
    bytes: Vec<Option<u32>>,
    unknown: u32,
    leading_space: bool,
}

impl Pieces {
    /// Reads them from a model's file.
    pub(crate) fn read(file: &ModelFile, names: &[String]) -> Result<Self, String> {
        let scores = file.list("tokenizer.ggml.scores").ok_or("the file gives no scores for them")?;
        if scores.len() < names.len() {
            return Err("some of them have no score".to_owned());
        }
        let score = |value: &Value| value.to_f32().unwrap_or(f32::MIN);
        let leading_space = file.flag("tokenizer.ggml.add_space_prefix").unwrap_or(true);
        let unknown = file.number("tokenizer.ggml.unknown_token_id").and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        Ok(Self::of(names.iter().cloned().zip(scores.iter().map(score)), unknown, leading_space))
    }

    fn of(scored: impl IntoIterator<Item = (String, f32)>, unknown: u32, leading_space: bool) -> Self {
        let mut bytes = vec![None; 256];
        let mut known = HashMap::new();
        for ((name, score), id) in scored.into_iter().zip(0u32..) {
            if let Some(place) = Self::byte_of(&name).and_then(|byte| bytes.get_mut(usize::from(byte))) {
                *place = Some(id);
            }
            known.insert(name, (id, score));
        }
        Self { known, bytes, unknown, leading_space }
    }

    /// The byte a token such as `<0x0A>` stands for.
    pub(crate) fn byte_of(name: &str) -> Option<u8> {
        let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
        u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2)
    }

    /// Cuts a text at the beginning of all, or behind a mark of the frame: words have a space before them.
    pub(crate) fn cut_first(&self, text: &str) -> Vec<u32> {
        match self.leading_space && !text.is_empty() && !text.starts_with(' ') {
            true => self.cut(&format!(" {text}")),
            false => self.cut(text),
        }
    }

    /// Cuts a text that goes on behind another.
    pub(crate) fn cut(&self, text: &str) -> Vec<u32> {
        let spaced: String = text.chars().map(|letter| if letter == ' ' { SPACE } else { letter }).collect();
        let mut line = Line::of(&spaced);
        let mut unions = BinaryHeap::new();
        for left in 0..line.parts.len().saturating_sub(1) {
            self.propose(&line, left, &mut unions);
        }
        while let Some(union) = unions.pop() {
            if let Some(left) = line.unite(&union) {
                if let Some(before) = line.parts.get(left).and_then(|part| part.before) {
                    self.propose(&line, before, &mut unions);
                }
                self.propose(&line, left, &mut unions);
            }
        }
        line.parts.iter().filter(|part| part.len > 0).flat_map(|part| self.tokens_of(line.text_of(part))).collect()
    }

    fn propose(&self, line: &Line<'_>, left: usize, unions: &mut BinaryHeap<Union>) {
        let Some(part) = line.parts.get(left) else { return };
        let Some(next) = part.after.and_then(|after| line.parts.get(after)) else { return };
        let len = part.len + next.len;
        let Some((_, score)) = line.text.get(part.start..part.start + len).and_then(|text| self.known.get(text)) else {
            return;
        };
        unions.push(Union { score: *score, left, len });
    }

    fn tokens_of(&self, text: &str) -> Vec<u32> {
        match self.known.get(text) {
            Some((id, _)) => vec![*id],
            None => text
                .bytes()
                .map(|byte| self.bytes.get(usize::from(byte)).copied().flatten().unwrap_or(self.unknown))
                .collect(),
        }
    }
}

/// A part of the text: empty once it was put into the one before.
struct Part {
    start: usize,
    len: usize,
    before: Option<usize>,
    after: Option<usize>,
}

struct Line<'t> {
    text: &'t str,
    parts: Vec<Part>,
}

impl<'t> Line<'t> {
    fn of(text: &'t str) -> Self {
        let mut parts: Vec<Part> = text
            .char_indices()
            .enumerate()
            .map(|(at, (start, letter))| Part {
                start,
                len: letter.len_utf8(),
                before: at.checked_sub(1),
                after: Some(at + 1),
            })
            .collect();
        if let Some(last) = parts.last_mut() {
            last.after = None;
        }
        Self { text, parts }
    }

    fn text_of(&self, part: &Part) -> &'t str {
        self.text.get(part.start..part.start + part.len).unwrap_or_default()
    }

    /// Puts two neighbours together, where both still are what they were; the place of the union.
    fn unite(&mut self, union: &Union) -> Option<usize> {
        let right = self.parts.get(union.left).filter(|part| part.len > 0)?.after?;
        let (gone, after) = self.parts.get(right).map(|part| (part.len, part.after))?;
        let left = self.parts.get_mut(union.left).filter(|part| part.len + gone == union.len)?;
        left.len = union.len;
        left.after = after;
        if let Some(part) = self.parts.get_mut(right) {
            part.len = 0;
        }
        if let Some(part) = after.and_then(|after| self.parts.get_mut(after)) {
            part.before = Some(union.left);
        }
        Some(union.left)
    }
}

/// Two neighbours that could be one. The best score first, then the leftmost.
struct Union {
    score: f32,
    left: usize,
    len: usize,
}

impl Ord for Union {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Union {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Union {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Union {}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Pieces {
        let names = ["<unk>", "\u{2581}", "h", "e", "l", "o", "he", "ll", "hell", "\u{2581}hell", "<0xC3>", "<0xA9>"];
        let scores = [0.0, -9.0, -9.0, -9.0, -9.0, -9.0, -1.0, -2.0, -3.0, -4.0, 0.0, 0.0];
        Pieces::of(names.iter().map(|name| (*name).to_owned()).zip(scores), 0, true)
    }

    #[test]
    fn the_best_unions_are_made_first() {
        assert_eq!(some().cut_first("hello"), [9, 5]);
        assert_eq!(some().cut_first("hello hello"), [9, 5, 9, 5]);
    }

    #[test]
    fn what_no_piece_covers_becomes_its_bytes() {
        assert_eq!(some().cut_first("hé"), [1, 2, 10, 11]);
        assert_eq!(some().cut_first("x"), [1, 0]);
        assert_eq!(some().cut_first(""), Vec::<u32>::new());
    }

    #[test]
    fn a_text_that_goes_on_gets_no_space_before_it() {
        assert_eq!(some().cut("hello"), [8, 5]);
        assert_eq!(some().cut(" hello"), [9, 5]);
    }
}
