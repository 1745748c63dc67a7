//! How models of texts run.

use std::str::FromStr;

use crate::error::{Error, Result};

/// How many characters of a text a model sees, unless said otherwise.
pub const TEXT_LIMIT: usize = 512;
/// How many characters it may be told to see: beyond that a text costs more memory than it is worth.
pub const MOST_TEXT: usize = 8_192;

/// What does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The best there is in this build: the CPU.
    #[default]
    Auto,
    /// The CPU, even in a build that could use more.
    Cpu,
    /// A graphics card, which no build has yet: the CPU does the work, and [`SemanticOptions::remark`] says so.
    Cuda,
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            other => Err(Error::invalid(format!("{other:?} is no device")).hint("use auto, cpu or cuda")),
        }
    }
}

/// How a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemanticOptions {
    text_limit: usize,
    device: Device,
}

impl SemanticOptions {
    /// With so many characters of each text, on this device.
    pub fn new(text_limit: usize, device: Device) -> Result<Self> {
        if !(1..=MOST_TEXT).contains(&text_limit) {
            return Err(Error::invalid(format!(
                "a text limit of {text_limit} characters is not from 1 to {MOST_TEXT}"
            ))
            .hint(format!("{TEXT_LIMIT} is the default")));
        }
        Ok(Self { text_limit, device })
    }

    /// How many characters of a text a model sees.
    pub fn text_limit(&self) -> usize {
        self.text_limit
    }

    /// What does the work.
    pub fn device(&self) -> Device {
        self.device
    }

    /// What a person should know of it.
    pub fn remark(&self) -> Option<&'static str> {
        match self.device {
            Device::Auto | Device::Cpu => None,
            Device::Cuda => Some("no build of herm has CUDA yet: the CPU does the work"),
        }
    }
}

impl Default for SemanticOptions {
    fn default() -> Self {
        Self { text_limit: TEXT_LIMIT, device: Device::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_limit_is_at_least_one_character_and_bounded() {
        assert_eq!(SemanticOptions::default().text_limit(), 512);
        assert_eq!(SemanticOptions::new(64, Device::Cpu).unwrap().text_limit(), 64);
        for wrong in [0, MOST_TEXT + 1, usize::MAX] {
            assert!(SemanticOptions::new(wrong, Device::Auto).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_device_that_no_build_has_is_said_to_be_missing() {
        assert_eq!("auto".parse::<Device>().unwrap(), Device::Auto);
        assert!("gpu".parse::<Device>().is_err());
        let running = SemanticOptions::new(512, "cuda".parse().unwrap()).unwrap();
        assert_eq!(running.remark(), Some("no build of herm has CUDA yet: the CPU does the work"));
        assert_eq!(SemanticOptions::default().remark(), None);
    }
}
