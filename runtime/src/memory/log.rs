//! SQLite's write-ahead log, as far as single flipped bits in it can be found and put right by its checksums.
//!
//! The format is that of <https://www.sqlite.org/fileformat2.html#walformat>: a header of 32 bytes, then frames of 24 bytes
//! and a page. The checksum of a frame goes on from that of the frame before and is linear, so that the bit whose change
//! explains a difference can be computed.

use std::path::Path;

use crate::error::{ErrorKind, Result};
use crate::fsio;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Puts single flipped bits in the log of a database right, one a frame at most. Everything else stays.
pub(crate) fn mend(log: &Path) -> Result<()> {
    fsio::overwrite_bytes(log, &fixes(read(log)?))
}

/// Whether there is anything that [`mend`] would put right.
pub(crate) fn can_mend(log: &Path) -> Result<bool> {
    Ok(!fixes(read(log)?).is_empty())
}

fn read(log: &Path) -> Result<Vec<u8>> {
    match fsio::read_regular(log, u64::MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// The bytes that must change, by their place.
fn fixes(mut bytes: Vec<u8>) -> Vec<(u64, u8)> {
    let mut fixes = Vec::new();
    let Some(first) = bytes.get(..HEADER).and_then(|header| <[u8; HEADER]>::try_from(header).ok()) else {
        return fixes;
    };
    let Some((header, flipped)) = mended_header(first) else { return fixes };
    fixes.extend(flipped.map(|at| (at as u64, header[at])));
    bytes[..HEADER].copy_from_slice(&header);
    let order = order_of(&header);
    let page = big(&header, 8) as usize;
    let page = if page == 1 { 65_536 } else { page };
    let mut sum = (big(&header, 24), big(&header, 28));
    let mut start = HEADER;
    while let Some(frame) = bytes.get_mut(start..start + FRAME_HEADER + page) {
        let Some((next, flipped)) = mend_frame(frame, &header[16..24], sum, order) else { break };
        fixes.extend(flipped.map(|at| ((start + at) as u64, frame[at])));
        sum = next;
        start += FRAME_HEADER + page;
    }
    fixes
}

type Sum = (u32, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

fn order_of(header: &[u8]) -> Order {
    if big(header, 0) & 1 == 1 { Order::Big } else { Order::Little }
}

/// The header with at most one bit put right, and the byte that changed; `None` where it is no header of a log.
fn mended_header(header: [u8; HEADER]) -> Option<([u8; HEADER], Option<usize>)> {
    let is_good = |header: &[u8; HEADER]| {
        let page = big(header, 8);
        big(header, 0) & !1 == 0x377f_0682
            && (page == 1 || (512..=65_536).contains(&page) && page.is_power_of_two())
            && add((0, 0), &header[..24], order_of(header)) == (big(header, 24), big(header, 28))
    };
    if is_good(&header) {
        return Some((header, None));
    }
    (0..HEADER * 8).find_map(|bit| {
        let mut other = header;
        other[bit / 8] ^= 1 << (bit % 8);
        is_good(&other).then_some((other, Some(bit / 8)))
    })
}

/// Checks a frame and puts one bit of it right where that explains everything; the checksum after it and the byte that
/// changed. `None` where no single bit does.
fn mend_frame(frame: &mut [u8], salt: &[u8], before: Sum, order: Order) -> Option<(Sum, Option<usize>)> {
    let stored = (big(frame, 16), big(frame, 20));
    let found = add(add(before, &frame[..8], order), &frame[FRAME_HEADER..], order);
    let salt_bits: u32 = frame[8..16].iter().zip(salt).map(|(a, b)| (a ^ b).count_ones()).sum();
    if found == stored {
        // The salts are in no checksum.
        return match salt_bits {
            0 => Some((found, None)),
            1 => {
                let at = (0..8).find(|at| frame[8 + at] != salt[*at])?;
                frame[8 + at] = salt[at];
                Some((found, Some(8 + at)))
            }
            _ => None,
        };
    }
    if salt_bits != 0 {
        // A frame of an earlier log.
        return None;
    }
    if (found.0 ^ stored.0).count_ones() + (found.1 ^ stored.1).count_ones() == 1 {
        let right = [found.0.to_be_bytes(), found.1.to_be_bytes()].concat();
        let at = (0..8).find(|at| frame[16 + at] != right[*at])?;
        frame[16 + at] = right[at];
        return Some((found, Some(16 + at)));
    }
    let wanted = (stored.0.wrapping_sub(found.0), stored.1.wrapping_sub(found.1));
    let words: Vec<usize> = (0..8).chain(FRAME_HEADER..frame.len()).step_by(4).collect();
    // What a change of one in a word does to the checksum, for the two words of a pair: from the last pair backwards.
    let (mut first, mut second): (Sum, Sum) = ((1, 1), (0, 1));
    for pair in words.chunks(2).rev() {
        for (at, effect) in pair.iter().zip([first, second]) {
            for bit in 0..32_u32 {
                let word = word(frame, *at, order);
                let change = if word >> bit & 1 == 1 { (1_u32 << bit).wrapping_neg() } else { 1 << bit };
                if (change.wrapping_mul(effect.0), change.wrapping_mul(effect.1)) == wanted {
                    let byte = match order {
                        Order::Little => at + bit as usize / 8,
                        Order::Big => at + 3 - bit as usize / 8,
                    };
                    frame[byte] ^= 1 << (bit % 8);
                    return Some((stored, Some(byte)));
                }
            }
        }
        first = further(first);
        second = further(second);
    }
    None
}

/// The effect of a change after one more pair of words.
fn further((a, b): Sum) -> Sum {
    let a = a.wrapping_add(b);
    (a, b.wrapping_add(a))
}

/// SQLite's checksum, going on from `sum`.
fn add(sum: Sum, bytes: &[u8], order: Order) -> Sum {
    bytes.chunks_exact(8).fold(sum, |(a, b), pair| {
        let a = a.wrapping_add(word(pair, 0, order)).wrapping_add(b);
        (a, b.wrapping_add(word(pair, 4, order)).wrapping_add(a))
    })
}

fn word(bytes: &[u8], at: usize, order: Order) -> u32 {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    match order {
        Order::Little => u32::from_le_bytes(word),
        Order::Big => u32::from_be_bytes(word),
    }
}

fn big(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at, Order::Big)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of three pages, as SQLite writes it.
    fn log() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('some text')").unwrap();
        std::fs::read(dir.path().join("x.db-wal")).unwrap()
    }

    #[test]
    fn any_single_flipped_bit_is_found_and_put_right() {
        let log = log();
        assert!(log.len() > 2 * 4_096 && fixes(log.clone()).is_empty(), "a sound log needs nothing");
        for bit in (0..log.len() * 8).step_by(97).chain(0..(HEADER + FRAME_HEADER) * 8) {
            let mut damaged = log.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let found = fixes(damaged);
            // Which checkpoint of a file it is the header says, and nobody reads it.
            assert_eq!(found, [((bit / 8) as u64, log[bit / 8])], "bit {bit}");
        }
    }

    #[test]
    fn what_no_single_bit_explains_stays() {
        let log = log();
        let mut zeroed = log.clone();
        zeroed[HEADER + FRAME_HEADER..HEADER + FRAME_HEADER + 600].fill(0x55);
        assert!(fixes(zeroed).is_empty());
        for end in [0, 5, 31, 40, 4_000] {
            assert!(fixes(log[..end].to_vec()).is_empty());
        }
    }
}
