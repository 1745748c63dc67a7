//! The executor of a command.

use herm::{Error, Result};

/// Runs what waits for a store or a model on an executor of its own, to the end. Not within another executor.
pub fn in_runtime<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| Error::unavailable("no threads can be started").because(source))?;
    runtime.block_on(work)
}
