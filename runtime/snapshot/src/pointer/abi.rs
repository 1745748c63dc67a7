//! The little of the Ethereum ABI that reading a text record takes: words of 32 bytes, bytes, strings.

use sha3::{Digest as _, Keccak256};

use crate::ids::{hex, unhex as unhex_digits};

/// Keccak-256, as Ethereum has it.
pub(super) fn keccak(bytes: &[u8]) -> [u8; 32] {
    Keccak256::digest(bytes).into()
}

/// The node of a name (ENSIP-1): from the last label to the first, each hashed onto what comes after it.
pub(super) fn namehash(name: &str) -> [u8; 32] {
    let mut node = [0; 32];
    for label in name.rsplit('.').filter(|label| !label.is_empty()) {
        node = keccak(&[node, keccak(label.as_bytes())].concat());
    }
    node
}

/// A name as DNS writes it (ENSIP-10): each label with its length, then a zero.
pub(super) fn dns_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn word(number: usize) -> [u8; 32] {
    let mut word = [0; 32];
    for (place, byte) in word.iter_mut().rev().zip(number.to_le_bytes()) {
        *place = byte;
    }
    word
}

/// One argument of a contract call, in the encoding of its type.
pub(super) enum Argument<'a> {
    /// 32 bytes as they are.
    Word([u8; 32]),
    /// Bytes or a string.
    Bytes(&'a [u8]),
}

/// A call: the selector, and the arguments in head and tail.
pub(super) fn call(selector: [u8; 4], arguments: &[Argument<'_>]) -> Vec<u8> {
    let mut head = Vec::new();
    let mut tail: Vec<u8> = Vec::new();
    for argument in arguments {
        match argument {
            Argument::Word(word) => head.extend_from_slice(word),
            Argument::Bytes(bytes) => {
                head.extend_from_slice(&word(32 * arguments.len() + tail.len()));
                tail.extend_from_slice(&word(bytes.len()));
                tail.extend_from_slice(bytes);
                tail.resize(tail.len().next_multiple_of(32), 0);
            }
        }
    }
    [selector.to_vec(), head, tail].concat()
}

/// The word at a place.
pub(super) fn word_at(data: &[u8], at: usize) -> Option<[u8; 32]> {
    data.get(at..at.checked_add(32)?)?.try_into().ok()
}

/// The number at a place, where it is one that can be an offset or a length.
pub(super) fn number_at(data: &[u8], at: usize) -> Option<usize> {
    let word = word_at(data, at)?;
    let (high, low) = word.split_at(24);
    if high.iter().any(|byte| *byte != 0) {
        return None;
    }
    usize::try_from(u64::from_be_bytes(low.try_into().ok()?)).ok()
}

/// The bytes whose offset stands in the head at `at`; offsets count from `base`.
pub(super) fn bytes_at(data: &[u8], base: usize, at: usize) -> Option<&[u8]> {
    let start = base.checked_add(number_at(data, base.checked_add(at)?)?)?;
    let length = number_at(data, start)?;
    let first = start.checked_add(32)?;
    data.get(first..first.checked_add(length)?)
}

/// The address in a word; `None` where it is zero.
pub(super) fn address_in(word: [u8; 32]) -> Option<String> {
    let (padding, address) = word.split_at(12);
    let is_address = padding.iter().all(|byte| *byte == 0) && address.iter().any(|byte| *byte != 0);
    is_address.then(|| format!("0x{}", hex(address)))
}

/// Bytes from hexadecimal digits, with or without `0x`.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    unhex_digits(text.strip_prefix("0x").unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hashes_are_those_of_the_standards() {
        assert_eq!(hex(&keccak(b"")), "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
        // The examples of ENSIP-1.
        assert_eq!(hex(&namehash("")), "0".repeat(64));
        assert_eq!(hex(&namehash("eth")), "93cdeb708b7545dc668eb9280176169d1c33cfd8ed6f04690a0bcc88a93fc4ae");
        assert_eq!(hex(&namehash("foo.eth")), "de9b09fd7c5f901e23a3f19fecc54828e9c848539801e86591bd9801b019f84f");
        assert_eq!(dns_name("foo.eth"), b"\x03foo\x03eth\x00");
    }

    #[test]
    fn selectors_are_those_of_their_signatures() {
        for (signature, selector) in [
            ("resolver(bytes32)", "0178b8bf"),
            ("text(bytes32,string)", "59d1d43c"),
            ("supportsInterface(bytes4)", "01ffc9a7"),
            ("resolve(bytes,bytes)", "9061b923"),
            ("OffchainLookup(address,string[],bytes,bytes4,bytes)", "556f1830"),
        ] {
            assert_eq!(hex(&keccak(signature.as_bytes())[..4]), selector, "{signature}");
        }
    }

    #[test]
    fn a_call_has_its_arguments_in_head_and_tail() {
        let data = call([1, 2, 3, 4], &[Argument::Word([7; 32]), Argument::Bytes(b"abc")]);
        assert_eq!(data.len(), 4 + 4 * 32);
        assert_eq!(bytes_at(&data[4..], 0, 32), Some(&b"abc"[..]));
    }

    proptest! {
        #[test]
        fn whatever_a_node_answers_reading_it_does_not_panic(data in proptest::collection::vec(any::<u8>(), 0..300), at in 0_usize..400) {
            bytes_at(&data, at, 0);
            bytes_at(&data, 0, at);
            number_at(&data, at);
            unhex(&String::from_utf8_lossy(&data));
        }
    }
}
