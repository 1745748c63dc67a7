//! Exit codes. They are part of the interface: scripts branch on them.

use herm::ErrorKind;

/// The command did what it was asked to do, and the result is not negative.
pub(crate) const DONE: u8 = 0;
/// The thing asked for came out negative.
pub(crate) const NEGATIVE: u8 = 1;
/// The command was not understood.
pub(crate) const USAGE: u8 = 2;
/// A rule or a permission forbids it: `ErrorKind::Refused`.
pub(crate) const REFUSED: u8 = 3;
/// There is no such thing.
pub(crate) const NOT_FOUND: u8 = 4;
/// It was changed underneath.
pub(crate) const CONFLICT: u8 = 5;
/// The machine cannot do it now.
pub(crate) const UNAVAILABLE: u8 = 6;
/// Stored data is not what it must be.
pub(crate) const CORRUPT: u8 = 7;

/// The exit code of an error.
pub(crate) fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidInput => USAGE,
        ErrorKind::Refused => REFUSED,
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::Unavailable => UNAVAILABLE,
        ErrorKind::Corrupt => CORRUPT,
        ErrorKind::Internal => NEGATIVE,
    }
}
