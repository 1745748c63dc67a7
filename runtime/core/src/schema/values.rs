//! Values as JSON Schema compares them: 1 and 1.0 are one number.

use serde_json::{Number, Value};

/// A finite decimal number: digits without trailing zeros, and the power of ten of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Decimal {
    negative: bool,
    digits: u64,
    power: i32,
}

impl Decimal {
    fn of(number: &Number) -> Self {
        let (negative, mut digits, mut power) = match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(whole), ..) => (false, whole, 0),
            (None, Some(whole), _) => (true, whole.unsigned_abs(), 0),
            (None, None, float) => {
                // The shortest text that reads back as this number: what was meant.
                let float = float.unwrap_or_default();
                let text = format!("{:e}", float.abs());
                let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
                let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
                let digits = format!("{whole}{part}").parse().unwrap_or_default();
                let places = i32::try_from(part.len()).unwrap_or_default();
                (float < 0.0, digits, power.parse::<i32>().unwrap_or_default() - places)
            }
        };
        if digits == 0 {
            return Self { negative: false, digits: 0, power: 0 };
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            power += 1;
        }
        Self { negative, digits, power }
    }
}

/// Whether a number is a multiple of another, exactly.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    let (number, of) = (Decimal::of(number), Decimal::of(of));
    if of.digits == 0 {
        return true;
    }
    if number.digits == 0 {
        return true;
    }
    // Neither ends in a zero, so a larger power of the divisor leaves a rest.
    let Ok(shift) = u32::try_from(number.power - of.power) else { return false };
    let modulus = u128::from(of.digits);
    let mut power = 1_u128 % modulus;
    for _ in 0..shift {
        power = power * 10 % modulus;
    }
    ((u128::from(number.digits) % modulus) * power).is_multiple_of(modulus)
}

/// Whether a number has no fraction.
pub(super) fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// The order of two numbers.
pub(super) fn order(a: &Number, b: &Number) -> std::cmp::Ordering {
    let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
    }
}

/// Whether two values are the same.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Decimal::of(a) == Decimal::of(b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Writes a value down so that the same values give the same text, and others do not.
pub(super) fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => {
            let Decimal { negative, digits, power } = Decimal::of(number);
            text.push_str(&format!("{}{digits}e{power}", if negative { "-" } else { "" }));
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            text.push('{');
            for key in keys {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                if let Some(value) = map.get(key) {
                    canonical(value, text);
                }
                text.push(',');
            }
            text.push('}');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_compared_by_their_value() {
        assert!(same(&json!({"a": [1.0, -0.0]}), &json!({"a": [1, 0]})));
        assert!(!same(&json!(1), &json!(true)) && !same(&json!(9007199254740993_u64), &json!(9007199254740992_u64)));
        let number = |value: Value| value.as_number().cloned().expect("a number");
        for (a, b, expected) in [
            (json!(0.0075), json!(0.0001), true),
            (json!(0.00751), json!(0.0001), false),
            (json!(1e308), json!(0.123456789), false),
            (json!(12391239123_u64), json!(1e-8), true),
            (json!(9), json!(3), true),
            (json!(10), json!(3), false),
            (json!(0), json!(7), true),
            (json!(4.5), json!(1.5), true),
        ] {
            assert_eq!(is_multiple(&number(a.clone()), &number(b.clone())), expected, "{a} {b}");
        }
    }
}
