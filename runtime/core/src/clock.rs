//! Time enters through here and nowhere else, so that a test, a replay and a curator pass can all
//! choose what "now" is.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// A moment: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The beginning of the year 0, the first that RFC 3339 can write.
    pub const FIRST: Self = Self(-62_167_219_200_000);
    /// 9999-12-30T22:00:00Z, the last that every time zone can write with four digits of a year.
    pub const LAST: Self = Self(253_402_207_200_000);

    /// The nearest moment that can be written down and read again.
    #[must_use]
    pub fn writable(self) -> Self {
        self.clamp(Self::FIRST, Self::LAST)
    }

    /// Milliseconds since the epoch.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// Reads an RFC 3339 time.
    pub fn parse(text: &str) -> Result<Self> {
        text.parse::<jiff::Timestamp>().map(|t| Self(t.as_millisecond())).map_err(|source| {
            Error::invalid(format!("{text:?} is not an RFC 3339 time"))
                .hint("write it like 2026-01-02T03:04:05Z")
                .because(source)
        })
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with milliseconds: `2026-11-16T03:04:05.678Z`. What RFC 3339 cannot write is written as the
    /// nearest moment that it can: a lock or a receipt must never hold a time that cannot be read again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_millisecond(self.writable().0).unwrap_or_default();
        write!(f, "{time:.3}")
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Where "now" comes from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment, to the millisecond. It may be earlier than at the call before.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock is read here")]
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Timestamp(millis).writable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_written_so_that_it_can_be_read_again() {
        for millis in [i64::MIN, -62_167_219_200_001, 0, 253_402_300_800_000, 257_411_522_578_225, i64::MAX] {
            let written = Timestamp(millis).to_string();
            assert_eq!(Timestamp::parse(&written).unwrap(), Timestamp(millis).writable(), "{written}");
            assert_eq!(written.len(), "2026-11-16T03:04:05.678Z".len(), "{written}");
        }
        assert_eq!(Timestamp::LAST.to_string(), "9999-12-30T22:00:00.000Z");
        assert_eq!(Timestamp::FIRST.to_string(), "0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn http_dates_are_those_of_its_specification() {}
}
