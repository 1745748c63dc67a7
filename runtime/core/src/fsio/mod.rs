//! Access to the file system: every file of a brain is read and written through this module.
//!
//! - [`Root`]: a directory held open; every path is relative to it, symbolic links are refused at
//!   every level, and files are replaced by rename, never rewritten in place.
//! - [`Survey`]: what lies below a directory, by `stat` alone, cheap to bring up to date.
//! - [`OsLock`]: an exclusive lock between processes that the kernel releases when its holder dies.

mod os_lock;
mod private;
mod root;
mod survey;
mod survey_cache;

pub use os_lock::OsLock;
pub use private::{PrivateFile, create_output, create_private, read_private, remove_file, write_program};
pub use root::{
    BulkWriter, DirEntry, DirEntryKind, Root, SyncTiming, copy_durably, create_dirs, create_scratch, free_bytes,
    open_regular, read_regular, remove_tree, rename_durably,
};
pub use survey::{Dir, FileNode, OddEntry, ScanAction, Stat, Survey, SurveyLimits, survey};
pub use survey_cache::{load_cache, save_cache};
