//! SHA-256, for what strangers recompute: receipts, transcripts, results.

use sha2::Digest as _;

/// A SHA-256 in hexadecimal: what a stranger can recompute with any standard library.
pub fn sha256(bytes: &[u8]) -> String {
    crate::ids::hex(&sha2::Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn sha256_is_sha256() {
        assert_eq!(super::sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
