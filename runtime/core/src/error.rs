//! The one public error.
//!
//! Rules of this file:
//! - A kind says what the caller can *do*, not where it happened (see [`ErrorKind`]).
//! - A message names the thing and the rule it broke. A hint names the next step.
//! - Input and output errors are never swallowed; they become an `Error` with the path that failed.

use std::fmt;
use std::path::Path;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The input breaks a rule: fix it and call again.
    InvalidInput,
    /// The thing named does not exist.
    NotFound,
    /// Someone else holds it, or it changed underneath: look again, then retry.
    Conflict,
    /// The machine cannot do it now (full disk, unreachable peer): retry later.
    Unavailable,
    /// Stored data is not what it must be: stop writing and repair or restore.
    Corrupt,
    /// A policy says no.
    Refused,
    /// A bug in herm.
    Internal,
}

impl ErrorKind {
    /// The kind's stable name, as in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Refused => "refused",
            Self::Internal => "internal",
        }
    }
}

/// What went wrong, and what to do next.
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    is_passing: bool,
}

impl Error {
    /// An error of `kind` with a sentence that names the thing and the rule.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None, is_passing: false }
    }

    /// The input breaks a rule.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// The thing named does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Someone else holds it, or it changed underneath.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// The machine cannot do it now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Stored data is not what it must be.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// A policy says no.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// A bug in herm.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the error that caused this one; [`source`](std::error::Error::source) returns it.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Classifies a failed file operation: `doing` is what was tried ("write", "open").
    pub fn io(doing: &str, path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let place = path.display();
        let error = match source.kind() {
            Io::NotFound => {
                Self::not_found(format!("cannot {doing} {place}: it does not exist")).hint("check the path")
            }
            Io::PermissionDenied => Self::unavailable(format!("cannot {doing} {place}: permission denied"))
                .hint("give the user that runs herm access to it"),
            Io::ReadOnlyFilesystem => {
                Self::unavailable(format!("cannot {doing} {place}: the file system is read-only"))
                    .hint("mount it writable, or point --brains at a writable directory")
            }
            Io::StorageFull | Io::QuotaExceeded => {
                Self::unavailable(format!("cannot {doing} {place}: the disk is full"))
                    .hint("free some space and try again")
            }
            _ => Self::unavailable(format!("cannot {doing} {place}: {source}"))
                .hint("check the file and the disk it is on, and try again"),
        };
        error.because(source)
    }

    /// Whether the machine lacks something for now that it may have again: room on the disk, descriptors, memory, a lock or
    /// a lease that another process holds. The same call may work later, without anyone changing the input.
    ///
    /// Missing permissions, a read-only file system and what SQLite forbids are not: waiting does not mend them. Other
    /// conflicts do not count either.
    pub fn is_passing(&self) -> bool {
        let may_pass = self.is_passing || self.source.as_deref().is_some_and(passes);
        may_pass && matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Conflict)
    }

    /// Says that the cause may pass without anyone changing the input; see [`Error::is_passing`].
    #[must_use]
    pub fn passing(mut self) -> Self {
        self.is_passing = true;
        self
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The sentence, without the hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The next step, where one is known.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Whether a cause is a lack that may pass.
fn passes(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    use std::io::ErrorKind as Io;
    cause.downcast_ref::<std::io::Error>().is_some_and(|error| {
        // Descriptors have no kind of their own: EMFILE and ENFILE, which are 24 and 23 on every Unix.
        matches!(error.raw_os_error(), Some(23 | 24))
            || matches!(error.kind(), Io::StorageFull | Io::QuotaExceeded | Io::OutOfMemory)
            || matches!(error.kind(), Io::Interrupted | Io::WouldBlock | Io::TimedOut | Io::ResourceBusy)
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        if let Some(source) = &self.source {
            write!(f, " [{source}]")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_machine_lacks_for_now_passes() {
        use std::io::{Error as Io, ErrorKind as Kind};
        let of = |source: Io| Error::io("write", Path::new("x"), source).is_passing();
        for number in [23, 24, 28, 12] {
            assert!(of(Io::from_raw_os_error(number)), "{number}");
        }
        for kind in [Kind::PermissionDenied, Kind::ReadOnlyFilesystem, Kind::NotFound, Kind::IsADirectory] {
            assert!(!of(Io::from(kind)), "{kind:?}");
        }
        assert!(!Error::unavailable("a rule of ours").is_passing());
        assert!(Error::conflict("someone holds it").passing().is_passing());
        assert!(!Error::conflict("it changed underneath").is_passing());
        assert!(!Error::refused("a policy").passing().is_passing());
    }
}
