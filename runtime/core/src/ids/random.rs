//! Randomness enters through here and nowhere else.

use std::fmt;

use crate::error::{Error, Result};

/// Where random bytes come from.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `bytes` with random ones; an error where there are none to be had.
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;

    /// A number from 0 up to 1.
    fn fraction(&self) -> f64 {
        let mut bytes = [0; 4];
        match self.fill(&mut bytes) {
            Ok(()) => f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
            // Only spreads retries out: without randomness they are not spread.
            Err(_) => 0.5,
        }
    }
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|source| {
            Error::unavailable(format!("the operating system gives no random bytes: {source}"))
                .hint("check the machine; herm makes no keys or ids without randomness")
        })
    }
}
