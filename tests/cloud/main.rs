//! Snapshots in stores beyond this machine: over the S3 protocol, with a real server on loopback that is made to fail, and
//! in what GCS, Azure and WebDAV document.

mod brains;
mod others;
mod s3;
mod second_opinion;

use std::sync::Arc;

use herm::snapshot::store::CloudStore;
use herm_tests::s3_server::S3Server;

/// A client of its own, with its own connections.
fn store(server: &S3Server, prefix: &str) -> Arc<CloudStore> {
    Arc::new(CloudStore::open(&format!("s3://herm/{prefix}"), server.options()).expect("a store"))
}
