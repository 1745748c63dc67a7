//! Where a key was, nothing of it is left. The whole memory of this process is searched, with dead
//! stack and freed heap.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use zeroize::Zeroize as _;

use super::*;

/// The secret, byte by byte: as a whole it stands nowhere but in the key.
fn secret(at: usize) -> u8 {
    (at as u8).wrapping_mul(37) ^ 0xa7
}

#[derive(Debug)]
struct Known;

impl Random for Known {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = secret(at));
        Ok(())
    }
}

/// In how many places of this process's memory the secret stands.
fn copies() -> usize {
    const CHUNK: usize = 1 << 20;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let memory = File::open("/proc/self/mem").unwrap();
    let mut buffer = vec![0_u8; CHUNK];
    // What was read is in memory too, and may be read again.
    let ours = buffer.as_ptr() as u64..buffer.as_ptr() as u64 + CHUNK as u64;
    let mut found = 0;
    for map in maps.lines() {
        let mut fields = map.split_whitespace();
        let (range, rights) = (fields.next().unwrap(), fields.next().unwrap());
        if !rights.starts_with("rw") {
            continue;
        }
        let (from, to) = range.split_once('-').unwrap();
        let (mut at, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        while at < to {
            let length = CHUNK.min((to - at) as usize);
            // What another thread has given back since is not there any more.
            if memory.read_exact_at(&mut buffer[..length], at).is_ok() {
                let is_it = |window: &[u8]| window.iter().enumerate().all(|(at, byte)| *byte == secret(at));
                let hits = buffer[..length].windows(32).zip(at..).filter(|(window, _)| is_it(window));
                found += hits.filter(|(_, address)| !ours.contains(address)).count();
            }
            buffer.as_mut_slice().zeroize();
            // A copy on a border is found in the next chunk.
            at += if at + (length as u64) < to { length as u64 - 31 } else { length as u64 };
        }
    }
    found
}

#[test]
fn a_key_is_in_memory_once_and_nowhere_when_it_is_gone() {
    let signer = Signer::generate(&Known).unwrap();
    let others: Vec<Signer> = (0..10).map(|_| signer.clone()).collect();
    let signatures = others.iter().map(|other| other.sign(b"message"));
    assert!(signatures.collect::<Vec<_>>().windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(copies(), 1);
    drop(signer);
    assert_eq!(copies(), 1, "clones still sign with it");
    drop(others);
    assert_eq!(copies(), 0);

    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("key.pem");
    drop(Signer::load_or_create(&file, &Known).unwrap());
    assert_eq!(copies(), 0, "a key that was written down");
    drop(Signer::load_or_create(&file, &Known).unwrap());
    assert_eq!(copies(), 0, "a key that was read");
}
