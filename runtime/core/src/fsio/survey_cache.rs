//! A survey kept on disk between two openings of a brain. Only ever a shortcut: a missing,
//! foreign or damaged cache means that every file is read once.

use super::root::{Root, SyncTiming};
use super::survey::{Dir, FileNode, Stat};
use crate::error::Result;
use crate::ids::{Digest, RelPath};

const MAGIC: &[u8; 8] = b"hermsv01";
const MAX_BYTES: u64 = 64 << 20;
/// The fewest bytes a file and a directory take: what is left of the cache bounds how many follow.
const SMALLEST_FILE: usize = 2 + 32 + 32;
const SMALLEST_DIR: usize = 2 + 32 + 4 + 4;
/// Files changed this shortly before the cache was written may change again without a visible
/// change of their times (clock ticks are up to 10 ms apart), so their digests are not kept.
const RACY_NANOS: i64 = 50_000_000;

/// Reads the cache at `rel` with the note it was saved with, or `None` if there is none or it cannot be trusted.
pub fn load_cache(root: &Root, rel: &RelPath) -> Option<(Dir, Vec<Digest>)> {
    let bytes = match root.read(rel, MAX_BYTES) {
        Ok(found) => found?,
        Err(error) => {
            tracing::debug!(%error, "survey cache not read");
            return None;
        }
    };
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    if Digest::of(body).bytes() != sum {
        return None;
    }
    let mut input = body.strip_prefix(MAGIC)?;
    let top = read_dir(&mut input, "".into(), 0)?;
    let mut note = Vec::new();
    while !input.is_empty() {
        note.push(take::<32>(&mut input)?.into());
    }
    Some((top, note))
}

/// Writes the cache, with digests that hold for exactly this survey as a note. Not synced: losing
/// it costs one reading of the brain.
pub fn save_cache(root: &Root, rel: &RelPath, top: &Dir, note: &[Digest]) -> Result<()> {
    // The file system's own idea of "now" is the time of a file just written.
    root.replace(rel, MAGIC, SyncTiming::Later)?;
    let now = root.stat(rel)?.map_or(i64::MAX, |stat| stat.mtime);
    let mut out = MAGIC.to_vec();
    write_dir(&mut out, top, now - RACY_NANOS);
    for digest in note {
        out.extend_from_slice(digest.bytes());
    }
    let sum = Digest::of(&out);
    out.extend_from_slice(sum.bytes());
    root.replace(rel, &out, SyncTiming::Later)
}

fn write_dir(out: &mut Vec<u8>, dir: &Dir, racy: i64) {
    write_stat(out, &dir.stat, racy);
    write_count(out, dir.files.len());
    for file in &dir.files {
        write_name(out, &file.name);
        match file.digest {
            Some(digest) => {
                write_stat(out, &file.stat, racy);
                out.extend_from_slice(digest.bytes());
            }
            None => {
                write_stat(out, &Stat::UNKNOWN, racy);
                out.extend_from_slice(&[0; 32]);
            }
        }
    }
    write_count(out, dir.dirs.len());
    for below in &dir.dirs {
        write_name(out, &below.name);
        write_dir(out, below, racy);
    }
}

fn write_stat(out: &mut Vec<u8>, stat: &Stat, racy: i64) {
    let stat = if stat.mtime.max(stat.ctime) >= racy { Stat::UNKNOWN } else { *stat };
    out.extend_from_slice(&stat.size.to_le_bytes());
    out.extend_from_slice(&stat.mtime.to_le_bytes());
    out.extend_from_slice(&stat.ctime.to_le_bytes());
    out.extend_from_slice(&stat.ino.to_le_bytes());
}

fn write_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

fn read_dir(input: &mut &[u8], name: Box<str>, depth: usize) -> Option<Dir> {
    if depth > RelPath::MAX_DEPTH {
        return None;
    }
    let mut dir = Dir { name, stat: read_stat(input)?, ..Dir::default() };
    let files = u32::from_le_bytes(take(input)?) as usize;
    dir.files.reserve_exact(files.min(input.len() / SMALLEST_FILE));
    for _ in 0..files {
        let name = read_name(input)?;
        let stat = read_stat(input)?;
        let digest = Digest::from(take::<32>(input)?);
        let digest = (stat != Stat::UNKNOWN).then_some(digest);
        dir.files.push(FileNode { name, stat, digest });
    }
    let dirs = u32::from_le_bytes(take(input)?) as usize;
    dir.dirs.reserve_exact(dirs.min(input.len() / SMALLEST_DIR));
    for _ in 0..dirs {
        let name = read_name(input)?;
        dir.dirs.push(read_dir(input, name, depth + 1)?);
    }
    Some(dir)
}

fn read_stat(input: &mut &[u8]) -> Option<Stat> {
    Some(Stat {
        size: u64::from_le_bytes(take(input)?),
        mtime: i64::from_le_bytes(take(input)?),
        ctime: i64::from_le_bytes(take(input)?),
        ino: u64::from_le_bytes(take(input)?),
    })
}

fn read_name(input: &mut &[u8]) -> Option<Box<str>> {
    let length = usize::from(u16::from_le_bytes(take(input)?));
    let (name, rest) = input.split_at_checked(length)?;
    *input = rest;
    let name = std::str::from_utf8(name).ok()?;
    // A name from a cache is trusted no more than one from a manifest.
    (!name.contains('/') && RelPath::validate(name).is_ok()).then(|| name.into())
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*head)
}
