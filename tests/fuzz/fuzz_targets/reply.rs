//! Any bytes as a reply: no panic, and what is found is really there.
#![no_main]

use herm::session::reply::{End, Object, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let reading = read(&text, false);
    for object in &reading.objects {
        if let Object::Final { text: found, repaired: false } = object {
            assert!(text.contains(&**found), "an answer that was not written");
        }
    }
    assert!(read(&text, true).objects.is_empty() && read(&text, true).end == End::Truncated);
});
