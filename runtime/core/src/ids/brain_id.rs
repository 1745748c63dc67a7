//! The number of an agent, which names its brain's directory.

use crate::error::{Error, Result};
use crate::validated_text;

/// A token id: decimal, no sign, no leading zero, at most 78 digits (the width of a `uint256`).
/// It names the brain's directory, so nothing else can ever become a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BrainId(Box<str>);

impl BrainId {
    /// Whether a text is a token id. The error, of kind `InvalidInput`, says what is wrong with it.
    pub fn validate(text: &str) -> Result<()> {
        let rule = if text.is_empty() {
            "it is empty"
        } else if text.len() > 78 {
            "it has more than 78 digits"
        } else if !text.bytes().all(|b| b.is_ascii_digit()) {
            "it has a character that is not a digit"
        } else if text.len() > 1 && text.starts_with('0') {
            "it starts with a zero"
        } else {
            return Ok(());
        };
        let shown: String = text.chars().take(90).collect();
        Err(Error::invalid(format!("{shown:?} is not a token id: {rule}"))
            .hint("a token id is a decimal number such as 1, with no sign and no leading zero"))
    }
}

validated_text!(BrainId);

#[cfg(test)]
mod tests {
    use super::BrainId;

    #[test]
    fn only_plain_decimal_numbers_are_token_ids() {
        for good in ["0", "1", "42", &"9".repeat(78)] {
            assert!(good.parse::<BrainId>().is_ok(), "{good}");
        }
        for bad in ["", "01", "-1", "+1", "../1", "1/2", " 1", "1 ", "٣", "1e3", &"9".repeat(79)] {
            assert!(bad.parse::<BrainId>().is_err(), "{bad}");
        }
    }
}
