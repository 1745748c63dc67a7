//! Texts to tokens and back, by the rules in the model's own file.

use std::collections::HashMap;

use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::{NormalizerWrapper, Tokenizer};

use crate::error::{ModelError, Result};
use crate::file::{ModelFile, whole};
use crate::pieces::Pieces;

/// What a token is, as the file numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A piece of text.
    Text,
    /// A mark of the conversation's frame: no text of anyone becomes one.
    Control,
    /// A byte that no piece of text covers.
    Byte,
    /// A number that the vocabulary has no text for.
    Unused,
}

/// How a text is cut.
enum Cutter {
    /// Pairs of bytes that are often together become one.
    Bytes(Box<Tokenizer>),
    /// The likeliest pieces, as SentencePiece has them.
    Pieces(Pieces),
}

/// The tokens of a model.
pub(crate) struct Vocabulary {
    cutter: Cutter,
    /// What each token is as bytes; a control token as its name.
    bytes: Vec<Vec<u8>>,
    kinds: Vec<Kind>,
    /// Control tokens by their names.
    controls: HashMap<String, u32>,
    longest_control: usize,
    /// The token a conversation begins with, where the file wants one.
    begin: Option<u32>,
    /// The tokens that end a reply, the usual one first.
    ends: Vec<u32>,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vocabulary({} tokens)", self.bytes.len())
    }
}

/// Bytes of a token, and of all of them: more than any model has, and less than the grammar's tree can hold.
const LONGEST: usize = 1_000;
const MOST_BYTES: usize = 4_000_000;
/// Bytes of a mark that is looked for in the frame.
const LONGEST_MARK: usize = 128;

/// Names under which files end a reply, beside what they declare.
const ENDS: [&str; 5] = ["<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>"];

impl Vocabulary {
    /// Reads it from a model's file.
    pub(crate) fn read(file: &ModelFile) -> Result<Self> {
        let bad = |why: &str| {
            ModelError::corrupt(format!("the tokens of {} cannot be used: {why}", file.path().display()))
                .hint("fetch the file again, or use another model")
        };
        let names = file.list("tokenizer.ggml.tokens").ok_or_else(|| bad("the file lists none"))?;
        let names = names
            .iter()
            .map(|name| name.to_string().cloned().map_err(|_| bad("one of them has no name")))
            .collect::<Result<Vec<String>>>()?;
        if names.len() != file.shape.vocabulary {
            return Err(bad(&format!("there are {}, and the network has {}", names.len(), file.shape.vocabulary)));
        }
        if names.iter().any(|name| name.len() > LONGEST) || names.iter().map(String::len).sum::<usize>() > MOST_BYTES {
            return Err(bad("they are too long"));
        }
        let listed = file.list("tokenizer.ggml.token_type").unwrap_or_default();
        let kinds: Vec<Kind> = (0..names.len()).map(|at| kind(listed.get(at).and_then(whole))).collect();
        let (cutter, bytes) = match file.text("tokenizer.ggml.model").unwrap_or_default() {
            "gpt2" => {
                let cutter = Cutter::Bytes(Box::new(byte_level(file, &names).map_err(|why| bad(&why))?));
                let alphabet = alphabet();
                let bytes = names.iter().zip(&kinds).map(|(name, kind)| match kind {
                    Kind::Text => spelled(name, &alphabet),
                    _ => name.clone().into_bytes(),
                });
                (cutter, bytes.collect::<Vec<_>>())
            }
            "llama" => {
                let pieces = Pieces::read(file, &names).map_err(|why| bad(&why))?;
                let bytes = names.iter().zip(&kinds).map(|(name, kind)| match kind {
                    Kind::Byte => Pieces::byte_of(name).map_or_else(Vec::new, |byte| vec![byte]),
                    Kind::Text => name.replace('\u{2581}', " ").into_bytes(),
                    _ => name.clone().into_bytes(),
                });
                let bytes = bytes.collect();
                (Cutter::Pieces(pieces), bytes)
            }
            other => return Err(bad(&format!("they are of the kind {other:?}, which is not known here"))),
        };
        let controls: HashMap<String, u32> = (0u32..)
            .zip(names.iter().zip(&kinds))
            .filter(|(_, (name, kind))| **kind == Kind::Control && (1..=LONGEST_MARK).contains(&name.len()))
            .map(|(id, (name, _))| (name.clone(), id))
            .collect();
        let id = |key: &str| {
            file.number(key).and_then(|id| u32::try_from(id).ok()).filter(|id| (*id as usize) < names.len())
        };
        let declared = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"].into_iter().filter_map(id);
        let mut ends: Vec<u32> = declared.chain(ENDS.iter().filter_map(|name| controls.get(*name).copied())).collect();
        let mut seen = std::collections::BTreeSet::new();
        ends.retain(|end| seen.insert(*end));
        if ends.is_empty() {
            return Err(bad("none of them ends a reply"));
        }
        let begins = file.flag("tokenizer.ggml.add_bos_token").unwrap_or(matches!(cutter, Cutter::Pieces(_)));
        Ok(Self {
            longest_control: controls.keys().map(String::len).max().unwrap_or(0),
            begin: id("tokenizer.ggml.bos_token_id").filter(|_| begins),
            cutter,
            bytes,
            kinds,
            controls,
            ends,
        })
    }

    /// How many tokens there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The token a conversation begins with, where the file wants one.
    pub(crate) fn begin(&self) -> Option<u32> {
        self.begin
    }

    /// The tokens that end a reply, the usual one first.
    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The name of a token, for templates.
    pub(crate) fn name(&self, token: u32) -> String {
        self.bytes.get(token as usize).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    /// What a token adds to a text. The frame of the conversation adds nothing.
    pub(crate) fn text_of(&self, token: u32) -> &[u8] {
        match (self.kinds.get(token as usize), self.bytes.get(token as usize)) {
            (Some(Kind::Text | Kind::Byte), Some(bytes)) => bytes,
            _ => &[],
        }
    }

    /// Whether a token is one of the conversation's frame.
    pub(crate) fn is_control(&self, token: u32) -> bool {
        !matches!(self.kinds.get(token as usize), Some(Kind::Text | Kind::Byte))
    }

    /// Cuts what someone said, behind `tokens`: whatever it looks like, none of it becomes a mark of the frame.
    pub(crate) fn cut_behind(&self, text: &str, tokens: &mut Vec<u32>) {
        let first = tokens.last().is_none_or(|token| self.is_control(*token));
        tokens.extend(match &self.cutter {
            Cutter::Pieces(pieces) if first => pieces.cut_first(text),
            _ => self.cut(text),
        });
    }

    /// Cuts a text that goes on in the middle of another.
    pub(crate) fn cut(&self, text: &str) -> Vec<u32> {
        match &self.cutter {
            // A text that cannot be cut is not possible with a byte alphabet.
            Cutter::Bytes(tokenizer) => {
                tokenizer.encode_fast(text, false).map(|cut| cut.get_ids().to_vec()).unwrap_or_default()
            }
            Cutter::Pieces(pieces) => pieces.cut(text),
        }
    }

    /// Cuts a piece of the frame, with its marks.
    pub(crate) fn cut_frame(&self, text: &str, tokens: &mut Vec<u32>) {
        let (mut rest, mut plain) = (text, 0);
        while plain < rest.len() {
            let (before, after) = rest.split_at(plain);
            let control = (1..=self.longest_control.min(after.len()))
                .rev()
                .filter_map(|len| after.get(..len))
                .find_map(|name| self.controls.get(name).map(|id| (name.len(), *id)));
            match control {
                Some((len, id)) => {
                    self.cut_behind(before, tokens);
                    tokens.push(id);
                    rest = after.get(len..).unwrap_or_default();
                    plain = 0;
                }
                None => plain += after.chars().next().map_or(1, char::len_utf8),
            }
        }
        self.cut_behind(rest, tokens);
    }
}

fn kind(number: Option<u64>) -> Kind {
    match number {
        Some(2 | 3) => Kind::Control,
        Some(5) => Kind::Unused,
        Some(6) => Kind::Byte,
        _ => Kind::Text,
    }
}

fn byte_level(file: &ModelFile, names: &[String]) -> std::result::Result<Tokenizer, String> {
    let merges = file.list("tokenizer.ggml.merges").ok_or("the file does not say how they are put together")?;
    let vocabulary: tokenizers::models::bpe::Vocab = names.iter().cloned().zip(0u32..).collect();
    let merges = merges.iter().map(|merge| {
        let merge = merge.to_string().map_err(|_| "a pair is no text".to_owned())?;
        let (first, second) = merge.split_once(' ').ok_or_else(|| format!("{merge:?} is no pair"))?;
        // The builder relies on it, with a panic.
        match [first, second, &format!("{first}{second}")].iter().all(|name| vocabulary.contains_key(*name)) {
            true => Ok((first.to_owned(), second.to_owned())),
            false => Err(format!("{merge:?} makes no token")),
        }
    });
    let merges = merges.collect::<std::result::Result<Vec<_>, String>>()?;
    let kind = file.text("tokenizer.ggml.pre").unwrap_or("default");
    let (before, normal) = cut_before(kind)?;
    let model = BPE::builder()
        .vocab_and_merges(vocabulary, merges)
        .ignore_merges(matches!(kind, "llama-bpe" | "llama3"))
        .build()
        .map_err(|error| error.to_string())?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(before));
    if let Some(normal) = normal {
        tokenizer.with_normalizer(Some(normal)).map_err(|error| error.to_string())?;
    }
    Ok(tokenizer)
}

/// How a text is cut before pairs are looked for, by the name that files give to it.
fn cut_before(kind: &str) -> std::result::Result<(PreTokenizerWrapper, Option<NormalizerWrapper>), String> {
    const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|";
    const REST: &str = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let split = |digits: &str| -> std::result::Result<PreTokenizerWrapper, String> {
        let pattern = SplitPattern::Regex(format!("{WORDS}{digits}{REST}"));
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(|error| error.to_string())?;
        Ok(Sequence::new(vec![split.into(), ByteLevel::new(false, true, false).into()]).into())
    };
    match kind {
        "smollm" | "starcoder" | "refact" | "command-r" => {
            let digits = Digits::new(true);
            Ok((Sequence::new(vec![digits.into(), ByteLevel::new(false, true, true).into()]).into(), None))
        }
        "default" | "gpt-2" | "gpt2" => Ok((ByteLevel::new(false, true, true).into(), None)),
        "qwen2" => Ok((split(r"\p{N}")?, Some(NFC.into()))),
        "llama-bpe" | "llama3" | "smaug-bpe" | "lfm2" => Ok((split(r"\p{N}{1,3}")?, None)),
        other => Err(format!("texts are cut as {other:?}, which is not known here")),
    }
}

/// The letters that stand for bytes in byte-level vocabularies.
fn alphabet() -> HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut shifted = 0u32;
    (0..=255u8)
        .filter_map(|byte| {
            let letter = if printable(byte) {
                char::from(byte)
            } else {
                shifted += 1;
                char::from_u32(255 + shifted)?
            };
            Some((letter, byte))
        })
        .collect()
}

fn spelled(name: &str, alphabet: &HashMap<char, u8>) -> Vec<u8> {
    let letters: Option<Vec<u8>> = name.chars().map(|letter| alphabet.get(&letter).copied()).collect();
    // A token that a user added is spelled as it is.
    letters.unwrap_or_else(|| name.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_letter_and_a_space_is_the_known_one() {
        let alphabet = alphabet();
        assert_eq!(alphabet.len(), 256);
        assert_eq!((alphabet[&'Ġ'], alphabet[&'Ċ'], alphabet[&'a']), (b' ', b'\n', b'a'));
    }

    #[test]
    fn a_way_to_cut_that_nobody_knows_is_refused_by_name() {
        assert!(cut_before("tekken-9").unwrap_err().contains("tekken-9"));
        for known in ["smollm", "qwen2", "llama-bpe", "default"] {
            assert!(cut_before(known).is_ok());
        }
    }
}
