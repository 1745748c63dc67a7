//! When a timer runs.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use herm::{Error, Result};

/// The longest time between two runs.
const MAX_SECONDS: u32 = 366 * 24 * 3_600;
/// The longest calendar expression.
const MAX_CALENDAR: usize = 120;
/// Calendar expressions of systemd that are single words.
const WORDS: [&str; 6] = ["minutely", "monthly", "quarterly", "semiannually", "yearly", "annually"];

/// When a timer runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// Once an hour: on the hour with systemd, every 3,600 seconds with launchd.
    Hourly,
    /// Once a day: at 00:00 with systemd, at 9:00 with launchd.
    Daily,
    /// On Mondays: at 00:00 with systemd, at 9:00 with launchd.
    Weekly,
    /// Every so many seconds.
    Every(NonZeroU32),
    /// When a calendar expression of systemd says so.
    Calendar(String),
}

impl FromStr for Schedule {
    type Err = Error;
    fn from_str(given: &str) -> Result<Self> {
        let text = given.trim();
        let bad = |rule: &str| {
            let shown: String = text.chars().take(60).collect();
            Error::invalid(format!("{shown:?} is not a schedule: {rule}")).hint(
                "write hourly, daily, weekly, a number of seconds, or with systemd an expression like \
                 \"Mon..Fri *-*-* 09:00\"",
            )
        };
        match text {
            "" => return Err(bad("it is empty")),
            "hourly" => return Ok(Self::Hourly),
            "daily" => return Ok(Self::Daily),
            "weekly" => return Ok(Self::Weekly),
            _ => {}
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let seconds = text.parse::<u32>().ok().filter(|seconds| *seconds <= MAX_SECONDS);
            let seconds = seconds.ok_or_else(|| bad("it is longer than a year"))?;
            return NonZeroU32::new(seconds).map(Self::Every).ok_or_else(|| bad("it is no time at all"));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || " *:,./~_+-".contains(c);
        // A time, a date or one of the words: anything else that systemd knows has one of these signs.
        let is_calendar =
            WORDS.contains(&text) || (text.contains([':', '-', '*']) && !text.starts_with(['-', '+', '.']));
        if text.len() > MAX_CALENDAR {
            return Err(bad("it is too long"));
        }
        if !text.chars().all(allowed) {
            return Err(bad("it has a character that no calendar expression has"));
        }
        if !is_calendar || !text.contains(|c: char| c.is_ascii_digit() || c == '*') && !WORDS.contains(&text) {
            return Err(bad("it is neither a known word, nor a positive number of seconds, nor a time"));
        }
        Ok(Self::Calendar(text.to_owned()))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hourly => formatter.write_str("hourly"),
            Self::Daily => formatter.write_str("daily"),
            Self::Weekly => formatter.write_str("weekly"),
            Self::Every(seconds) => write!(formatter, "{seconds}"),
            Self::Calendar(expression) => formatter.write_str(expression),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_seconds_and_times_are_schedules_and_nothing_else_is() {
        for good in [
            "hourly",
            "daily",
            "weekly",
            "1",
            "3600",
            "monthly",
            "Mon..Fri *-*-* 09:00",
            "*-*-01 04:00:00 Europe/Berlin",
            "Sat,Sun 12:05",
            "*:0/15",
            "*-02~03",
        ] {
            assert_eq!(good.parse::<Schedule>().unwrap().to_string(), good);
        }
        for (bad, why) in [
            ("", "it is empty"),
            ("0", "it is no time at all"),
            ("99999999999", "it is longer than a year"),
            ("-5", "it is neither a known word, nor a positive number of seconds, nor a time"),
            ("1.5", "it is neither a known word, nor a positive number of seconds, nor a time"),
            ("sometimes", "it is neither a known word, nor a positive number of seconds, nor a time"),
            ("12:00\nExecStart=/bin/sh", "it has a character that no calendar expression has"),
            ("%h:00", "it has a character that no calendar expression has"),
            ("12:00; 13:00", "it has a character that no calendar expression has"),
        ] {
            let error = bad.parse::<Schedule>().unwrap_err();
            assert_eq!(error.message().split_once(" is not a schedule: ").map(|(_, rule)| rule), Some(why), "{bad:?}");
        }
    }
}
