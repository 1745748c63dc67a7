//! Weights in a safetensors file, read tensor by tensor: a length, a header of JSON, and bytes. Nothing is believed
//! that was not compared with the file's own size first, so a file cannot make the process allocate more than about
//! double its own size in bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use crate::fsio;

/// How many bytes a file of weights may have.
const MOST_BYTES: u64 = 6 << 30;
/// How many bytes its header may have; that of a model with a thousand tensors has about 100 KB.
const MOST_HEADER: u64 = 16 << 20;
/// How many bytes are read at a time.
const PIECE: usize = 1 << 20;
/// How many places of the weights are looked at to tell two files apart, and how many bytes at each.
const SAMPLES: u64 = 64;
const SAMPLE: u64 = 4_096;

/// An opened file of weights.
#[derive(Debug)]
pub(super) struct Weights {
    path: PathBuf,
    file: File,
    begin: u64,
    entries: BTreeMap<String, Entry>,
    prefix: String,
}

#[derive(Debug, Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    _metadata: Option<IgnoredAny>,
    #[serde(flatten)]
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The number formats that weights are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    F32,
    F16,
    Bf16,
}

impl Format {
    fn width(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    fn append(self, bytes: &[u8], to: &mut Vec<f32>) {
        match self {
            Self::F32 => to.extend(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four))),
            Self::F16 => to.extend(bytes.as_chunks::<2>().0.iter().map(|two| half(u16::from_le_bytes(*two)))),
            Self::Bf16 => to.extend(
                bytes.as_chunks::<2>().0.iter().map(|two| f32::from_bits(u32::from(u16::from_le_bytes(*two)) << 16)),
            ),
        }
    }
}

/// A number of sixteen bits (IEEE 754), as one of thirty-two.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        // Too small for an exponent of its own: so many parts of 2^-24.
        0 => {
            let value = fraction as f32 / 16_777_216.0;
            if sign == 0 { value } else { -value }
        }
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// A table of which single rows are read, kept as it was stored: that of the words is the largest part of a model.
#[derive(Debug)]
pub(super) struct Table {
    format: Format,
    width: usize,
    bytes: Vec<u8>,
}

impl Table {
    /// Adds a row to a vector; false where there is no such row.
    pub(super) fn add(&self, row: usize, to: &mut [f32]) -> bool {
        let length = self.width * self.format.width();
        let Some(bytes) = row.checked_mul(length).and_then(|begin| self.bytes.get(begin..)?.get(..length)) else {
            return false;
        };
        let mut numbers = Vec::with_capacity(self.width);
        self.format.append(bytes, &mut numbers);
        to.iter_mut().zip(numbers).for_each(|(to, number)| *to += number);
        true
    }
}

impl Weights {
    /// Opens `model.safetensors` of a model's directory.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("model.safetensors");
        if !path.exists() && directory.join("model.safetensors.index.json").exists() {
            return Err(Error::invalid(format!("the weights of {} are in several files", directory.display()))
                .hint("use a model with one model.safetensors"));
        }
        let (file, size) = fsio::open_regular(&path)?;
        if size > MOST_BYTES {
            let said = format!("{} has {size} bytes, and at most {MOST_BYTES} are read", path.display());
            return Err(Error::invalid(said).hint("use a smaller model"));
        }
        let mut length = [0; 8];
        let length = match file.read_exact_at(&mut length, 0) {
            Ok(()) if &length == b"version " => {
                let said = format!("{} only points at weights that Git LFS keeps elsewhere", path.display());
                return Err(Error::invalid(said).hint("fetch the file itself with `git lfs pull`"));
            }
            Ok(()) => u64::from_le_bytes(length),
            Err(_) => return Err(foreign(&path, "it is too short")),
        };
        if length > MOST_HEADER {
            return Err(foreign(&path, "it does not begin with the length of a header"));
        }
        if length + 8 > size {
            return Err(truncated(&path, size));
        }
        let mut header = vec![0; length as usize];
        file.read_exact_at(&mut header, 8).map_err(|source| Error::io("read", &path, source))?;
        let header: Header = serde_json::from_slice(&header)
            .map_err(|source| foreign(&path, "its header is not readable").because(source))?;
        let begin = length + 8;
        for (name, entry) in &header.entries {
            let [first, end] = entry.data_offsets;
            if first > end {
                return Err(Error::corrupt(format!("{}: {name} ends before it begins", path.display()))
                    .hint("fetch the model again"));
            }
            if end > size - begin {
                return Err(truncated(&path, size));
            }
        }
        Ok(Self { path, file, begin, entries: header.entries, prefix: String::new() })
    }

    /// Finds out what stands before every name of this file, by the one that a model must have.
    pub(super) fn rooted_at(mut self, must_have: &str) -> Result<Self> {
        let prefixes = self.entries.keys().filter_map(|name| name.strip_suffix(must_have));
        let prefix =
            prefixes.filter(|prefix| prefix.is_empty() || prefix.ends_with('.')).min_by_key(|prefix| prefix.len());
        let prefix = prefix.ok_or_else(|| {
            Error::invalid(format!(
                "{} has no {must_have}: it is of another architecture than config.json says",
                self.shown()
            ))
            .hint("fetch weights and config.json of one model")
        })?;
        self.prefix = prefix.to_owned();
        Ok(self)
    }

    /// A tensor below the prefix.
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.at_root(&format!("{}{name}", self.prefix), shape)
    }

    /// A tensor by its whole name.
    pub(super) fn at_root(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let (format, begin, length) = self.place(name, shape)?;
        let mut numbers = Vec::with_capacity(length / format.width());
        let mut piece = vec![0; length.min(PIECE)];
        let mut done = 0;
        while done < length {
            let now = (length - done).min(PIECE);
            let Some(piece) = piece.get_mut(..now) else { break };
            self.read(piece, begin + done as u64)?;
            format.append(piece, &mut numbers);
            done += now;
        }
        Ok(numbers)
    }

    /// A table below the prefix, of which single rows will be read.
    pub(super) fn table(&self, name: &str, rows: usize, width: usize) -> Result<Table> {
        let (format, begin, length) = self.place(&format!("{}{name}", self.prefix), &[rows, width])?;
        let mut bytes = vec![0; length];
        self.read(&mut bytes, begin)?;
        Ok(Table { format, width, bytes })
    }

    /// What tells this file from another of the same layout: names and shapes, and samples of the numbers.
    pub(super) fn fingerprint(&self, into: &mut blake3::Hasher) -> Result<()> {
        let mut end = 0;
        for (name, entry) in &self.entries {
            into.update(format!("{name} {} {:?} {:?}\n", entry.dtype, entry.shape, entry.data_offsets).as_bytes());
            end = end.max(entry.data_offsets[1]);
        }
        let size = SAMPLE.min(end);
        let mut sample = vec![0; size as usize];
        for at in 0..SAMPLES {
            // From the first bytes to the last ones.
            self.read(&mut sample, self.begin + (end - size) * at / (SAMPLES - 1))?;
            into.update(&sample);
        }
        Ok(())
    }

    /// Where a tensor's bytes are: checked against the shape that it must have and the file's size.
    fn place(&self, name: &str, shape: &[usize]) -> Result<(Format, u64, usize)> {
        let entry = self.entries.get(name).ok_or_else(|| {
            Error::corrupt(format!("{} has no {name}", self.shown())).hint("fetch weights and config.json of one model")
        })?;
        if entry.shape.iter().copied().ne(shape.iter().map(|&side| side as u64)) {
            let said = format!("{}: {name} has the shape {:?} and must have {shape:?}", self.shown(), entry.shape);
            return Err(Error::corrupt(said).hint("fetch weights and config.json of one model"));
        }
        let format = match entry.dtype.as_str() {
            "F32" => Format::F32,
            "F16" => Format::F16,
            "BF16" => Format::Bf16,
            other => {
                return Err(Error::invalid(format!("{}: {name} holds {other}, which is not read", self.shown()))
                    .hint("use weights in F32, F16 or BF16"));
            }
        };
        let wanted = shape.iter().try_fold(format.width(), |size, &side| size.checked_mul(side));
        let [first, end] = entry.data_offsets;
        match wanted.filter(|&wanted| wanted as u64 == end - first) {
            Some(length) => Ok((format, self.begin + first, length)),
            None => Err(Error::corrupt(format!("{}: {name} has not the bytes that its shape needs", self.shown()))
                .hint("fetch the model again")),
        }
    }

    fn read(&self, into: &mut [u8], at: u64) -> Result<()> {
        self.file.read_exact_at(into, at).map_err(|source| Error::io("read", &self.path, source))
    }

    fn shown(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

fn foreign(path: &Path, why: &str) -> Error {
    Error::corrupt(format!("{} is not a safetensors file: {why}", path.display())).hint("fetch the model again")
}

fn truncated(path: &Path, size: u64) -> Error {
    Error::corrupt(format!("{} is cut off: {size} bytes are fewer than its header says", path.display()))
        .hint("fetch the model again")
}

#[cfg(test)]
mod tests;
