//! When an argument of a call is the one that a row of a table names.

use serde_json::Value;

/// What stands for any value.
const ANY: &str = "*";

/// Whether a row's value stands for this one. Texts are compared without regard to case and blanks, numbers by their
/// value, also where one of the two is a text.
pub(super) fn fits(wanted: &Value, given: &Value) -> bool {
    match (wanted, given) {
        (Value::String(any), _) if any == ANY => true,
        (Value::String(wanted), Value::String(given)) => folded(wanted) == folded(given),
        (Value::Number(wanted), Value::Number(given)) => wanted == given || wanted.as_f64() == given.as_f64(),
        (Value::String(text), plain) | (plain, Value::String(text)) if plain.is_number() || plain.is_boolean() => {
            // `007` is no number in JSON, and is not 7 here.
            serde_json::from_str::<Value>(&folded(text)).is_ok_and(|read| !read.is_string() && fits(&read, plain))
        }
        (Value::Array(wanted), Value::Array(given)) => {
            wanted.len() == given.len() && wanted.iter().zip(given).all(|(wanted, given)| fits(wanted, given))
        }
        (Value::Object(wanted), Value::Object(given)) => {
            wanted.len() == given.len()
                && wanted.iter().all(|(key, wanted)| given.get(key).is_some_and(|given| fits(wanted, given)))
        }
        _ => wanted == given,
    }
}

/// A text in lower case, with single blanks between its words and none around them.
pub(super) fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn case_blanks_and_the_type_of_a_number_do_not_matter() {
        for (wanted, given) in [
            (json!("Oak  Shelf"), json!(" oak shelf\n")),
            (json!(12), json!("12")),
            (json!("12"), json!(12.0)),
            (json!("true"), json!(true)),
            (json!("*"), json!({ "a": 1 })),
            (json!(["A", 1]), json!(["a", "1"])),
            (json!({ "a": "*" }), json!({ "a": null })),
            (json!("ÉTÉ"), json!("été")),
        ] {
            assert!(fits(&wanted, &given), "{wanted} {given}");
        }
    }

    #[test]
    fn what_differs_does_not_fit() {
        for (wanted, given) in [
            (json!("007"), json!(7)),
            (json!("007"), json!("7")),
            (json!("12a"), json!(12)),
            (json!("oak"), json!("oak shelf")),
            (json!(["a"]), json!(["a", "b"])),
            (json!({ "a": 1 }), json!({ "a": 1, "b": 2 })),
            (json!(true), json!(1)),
            (json!(null), json!("")),
        ] {
            assert!(!fits(&wanted, &given), "{wanted} {given}");
        }
    }
}
