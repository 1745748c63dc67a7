//! What a program finds inside.

use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::spec::{CHANNEL_DESCRIPTOR, CHANNEL_VARIABLE};

/// The socket to the process that started the sandbox, the first time it is asked for; nothing outside a sandbox, or
/// where the sandbox was given none.
pub fn channel() -> Option<UnixStream> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let named = std::env::var(CHANNEL_VARIABLE).is_ok_and(|name| name == CHANNEL_DESCRIPTOR.to_string());
    if !named || TAKEN.swap(true, Ordering::SeqCst) {
        return None;
    }
    #[expect(unsafe_code, reason = "a descriptor that was handed over by number has to be taken by number")]
    // SAFETY: the variable is set by the stage that put the socket at this descriptor, and the swap above sees to it
    // that it is taken once in this process.
    Some(unsafe { UnixStream::from_raw_fd(CHANNEL_DESCRIPTOR) })
}
