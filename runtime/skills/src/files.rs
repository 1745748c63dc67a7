//! What a skill store needs of a brain's files.

use crate::error::Result;
use crate::ids::RelPath;

/// Files below a brain, with the changes of the step in the making already visible.
pub trait Files {
    /// The content of a file, or `None` where there is none.
    fn read(&self, path: &RelPath) -> Result<Option<Vec<u8>>>;
    /// The files below a directory, in path order.
    fn below(&self, dir: &str) -> Result<Vec<RelPath>>;
    /// Makes a file with this content, or replaces the one that is there.
    fn write(&mut self, path: RelPath, content: Vec<u8>);
    /// Takes a file away.
    fn remove(&mut self, path: RelPath);
}
