//! Any bytes as a reply: no panic, and what is found is really there.
#![no_main]

use herm::session::reply::{End, MOST_OBJECTS, Object, read};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let reading = read(&text, false);
    let others = reading.objects.iter().filter(|object| matches!(object, Object::Final { .. } | Object::Broken { .. }));
    assert!(others.count() <= MOST_OBJECTS, "too many objects");
    for object in &reading.objects {
        if let Object::Final { text: found, repaired } = object {
            assert!(*repaired || text.contains(&**found), "an answer that was not written");
            let answer: Map<String, Value> = serde_json::from_str(found).expect("an answer is a JSON object");
            assert!(!answer.contains_key("tool"), "a call taken for an answer");
            // What was kept is read again as what it is.
            let again = read(found, false);
            let same = Object::Final { text: found.as_ref().into(), repaired: false };
            assert_eq!((again.objects.as_slice(), again.end), ([same].as_slice(), End::Clean));
        }
    }
    let cut = read(&text, true);
    assert!(cut.objects.is_empty() && cut.end == End::Truncated, "something of a reply that was cut");
});
