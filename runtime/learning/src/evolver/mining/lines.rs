//! Observations from lines of JSON. A line that is not an observation is reported and stops nothing.

use super::{MiningObservation, ReviewCandidate, mine};

/// The longest line in bytes; a longer one is not read.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// The most lines that one call reads.
pub const MAX_LINES: usize = 100_000;

/// What was mined from lines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MiningReport {
    /// The candidates, in the order of their lines.
    pub candidates: Vec<ReviewCandidate>,
    /// The lines that are not observations: their number, from 1, and why.
    pub bad: Vec<(usize, String)>,
}

/// Mines every line. Empty lines are passed over.
pub fn read_lines(input: &[u8]) -> MiningReport {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let mut mined = MiningReport::default();
    for (index, line) in input.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        if index == MAX_LINES {
            // A line end after the last allowed line begins no further one.
            if !line.is_empty() || input.split(|byte| *byte == b'\n').nth(number).is_some() {
                mined.bad.push((number, format!("there are more than {MAX_LINES} lines; the rest was not read")));
            }
            break;
        }
        match observe(line) {
            Ok(None) => {}
            Ok(Some(observation)) => mined.candidates.push(mine(&observation)),
            Err(why) => mined.bad.push((number, why)),
        }
    }
    mined
}

fn observe(line: &[u8]) -> Result<Option<MiningObservation>, String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("it is longer than {MAX_LINE_BYTES} bytes"));
    }
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => "it is cut off: not a whole JSON object".to_owned(),
        _ => format!("it is not JSON: {error}"),
    })?;
    MiningObservation::from_json(&value).map(Some)
}
