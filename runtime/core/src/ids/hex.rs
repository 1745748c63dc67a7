//! Bytes as hexadecimal digits, and back.

use std::fmt::Write as _;

/// Bytes as lower-case hexadecimal digits, two for each.
///
/// ```
/// assert_eq!(herm_core::ids::hex(&[0, 10, 255]), "000aff");
/// ```
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes from hexadecimal digits of either case; `None` if there is another character or half a byte.
///
/// ```
/// assert_eq!(herm_core::ids::unhex("000aFF"), Some(vec![0, 10, 255]));
/// assert_eq!(herm_core::ids::unhex("+1"), None);
/// ```
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    digits.as_bytes().chunks_exact(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect()
}
