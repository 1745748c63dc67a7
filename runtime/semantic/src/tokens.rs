//! Texts as numbers of tokens, cut as `tokenizer.json` of a model says.

use std::path::Path;

use tokenizers::{EncodeInput, Tokenizer, TruncationParams};

use crate::error::{Error, Result};
use crate::fsio;

/// How many bytes a tokenizer may have; that of XLM-RoBERTa has 17 MB.
const MOST_BYTES: u64 = 64 << 20;

/// A model's own way to cut texts.
#[derive(Debug)]
pub(super) struct Tokens {
    tokenizer: Tokenizer,
    end: Option<u32>,
}

impl Tokens {
    /// `most` tokens of a text are kept; `end` is what a text must end with, where the model needs one.
    pub(super) fn read(directory: &Path, most: usize, end: Option<u32>) -> Result<Self> {
        let path = directory.join("tokenizer.json");
        let bytes = fsio::read_regular(&path, MOST_BYTES)?;
        let unreadable = |why: tokenizers::Error| {
            Error::corrupt(format!("{} cannot be read: {why}", path.display())).hint("fetch the model again")
        };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(unreadable)?;
        // A file may ask to be filled up to a fixed length, which only costs time for one text.
        tokenizer.with_padding(None);
        let truncation = TruncationParams { max_length: most, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(unreadable)?;
        Ok(Self { tokenizer, end })
    }

    /// The tokens of a text.
    pub(super) fn of(&self, text: &str) -> Result<Vec<u32>> {
        self.cut(text.into())
    }

    /// The tokens of two texts that are read together.
    pub(super) fn of_both(&self, first: &str, second: &str) -> Result<Vec<u32>> {
        self.cut((first, second).into())
    }

    fn cut(&self, input: EncodeInput<'_>) -> Result<Vec<u32>> {
        let cut = self.tokenizer.encode(input, true);
        let cut = cut.map_err(|why| Error::unavailable(format!("the text cannot be cut into tokens: {why}")))?;
        let mut ids = cut.get_ids().to_vec();
        if let Some(end) = self.end.filter(|end| ids.last() != Some(end)) {
            ids.push(end);
        }
        if ids.is_empty() {
            return Err(Error::invalid("the text has no tokens").hint("leave empty texts out"));
        }
        Ok(ids)
    }
}
