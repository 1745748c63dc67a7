//! Time enters through here and nowhere else, so that a test, a replay and a curator pass can all
//! choose what "now" is.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// A moment: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

impl Moment {
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

impl fmt::Display for Moment {
    /// RFC 3339 in UTC with milliseconds: `2026-11-16T03:04:05.678Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl serde::Serialize for Moment {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Moment {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Where "now" comes from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment.
    fn now(&self) -> Moment;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn now(&self) -> Moment {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Moment(millis)
    }
}
