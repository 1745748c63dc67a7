//! When patches may be applied: hours of the day, in UTC.

use std::fmt;
use std::str::FromStr;

use crate::clock::Timestamp;
use crate::error::{Error, Result};

const HOUR: i64 = 3_600_000;

/// The hours in which patches may be applied; any, unless said. The end is not part of it, and it may be on the next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window(Option<(u8, u8)>);

impl Window {
    /// Whether a moment is inside.
    pub fn has(self, now: Timestamp) -> bool {
        let Some((from, until)) = self.0 else { return true };
        let hour = now.millis().div_euclid(HOUR).rem_euclid(24);
        let (from, until) = (i64::from(from), i64::from(until));
        if from < until { (from..until).contains(&hour) } else { hour >= from || hour < until }
    }
}

impl FromStr for Window {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "any" {
            return Ok(Self(None));
        }
        let bad = || {
            Error::invalid(format!("{text:?} is no window of hours"))
                .hint("write it like 2-5, in UTC: from 02:00 until 05:00; 22-4 goes over midnight")
        };
        let (from, until) = text.split_once('-').ok_or_else(bad)?;
        let hour = |text: &str, most: u8| text.trim().parse::<u8>().ok().filter(|hour| *hour <= most).ok_or_else(bad);
        let (from, until) = (hour(from, 23)?, hour(until, 24)?);
        if from == until {
            return Err(bad());
        }
        Ok(Self(Some((from, until))))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("any hour"),
            Some((from, until)) => write!(f, "{from:02}:00 to {until:02}:00 UTC"),
        }
    }
}

impl serde::Serialize for Window {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64) -> Timestamp {
        Timestamp(20_000 * 24 * HOUR + hour * HOUR + 1)
    }

    #[test]
    fn a_window_has_its_hours_and_may_go_over_midnight() {
        let hours = |text: &str| -> Vec<i64> {
            let window: Window = text.parse().unwrap();
            (0..24).filter(|hour| window.has(at(*hour))).collect()
        };
        assert_eq!(hours("2-5"), [2, 3, 4]);
        assert_eq!(hours("22-2"), [0, 1, 22, 23]);
        assert_eq!(hours("0-24").len(), 24);
        assert_eq!(hours("any").len(), 24);
        assert!(Window::default().has(Timestamp(-1)), "also before 1970");
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for bad in ["", "5", "5-5", "24-2", "2-25", "a-b", "-1-2", "2-"] {
            assert!(bad.parse::<Window>().is_err(), "{bad}");
        }
    }
}
