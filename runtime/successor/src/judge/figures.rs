//! Numbers for people: shares, times, sizes and counts, as summaries, caveats and reports write them.

use crate::measure::Metric;

/// A share in percent: `18 %`, `3.4 %`, `0.02 %`. Only small ones have decimals.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    let digits = match value.abs() {
        size if size == 0.0 || size >= 9.95 => 0,
        size if size >= 0.095 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    match text.strip_prefix('-') {
        Some("0") => "0 %".to_owned(),
        Some(rest) => format!("−{rest} %"),
        None => format!("{text} %"),
    }
}

/// A share in percent with its sign: `+18 %`, `−3.4 %`, `0 %`.
pub(crate) fn signed_percent(share: f64) -> String {
    let text = percent(share);
    if share > 0.0 && text != "0 %" { format!("+{text}") } else { text }
}

/// A share where rounding must not make it certain: only 1 is `100 %`, only 0 is `0 %`.
pub(crate) fn certainty(share: f64) -> String {
    if share < 1.0 && share > 0.995 {
        format!("{:.1} %", (share * 1_000.0).floor() / 10.0)
    } else if share > 0.0 && share < 0.005 {
        "0.1 %".to_owned()
    } else {
        format!("{:.0} %", share * 100.0)
    }
}

/// A value of a metric with its unit: `840 µs`, `12.3 ms`, `1.4 MB`, `84 %`, `12,400`.
pub(crate) fn quantity(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Solved | Metric::KeptFacts => percent(value),
        Metric::CpuMicros | Metric::WallMicros | Metric::LatencyP99Micros => micros(value),
        Metric::ContextBytes | Metric::MemoryBytes => bytes(value),
        Metric::Turns
        | Metric::ToolCalls
        | Metric::ToolErrors
        | Metric::Tokens
        | Metric::RetiredUsed
        | Metric::DeadKept => number(value),
    }
}

/// A time: `840 µs`, `12.3 ms`, `1.24 s`, `3 min 20 s`.
pub(crate) fn micros(value: f64) -> String {
    if value < 999.5 {
        format!("{value:.0} µs")
    } else if value < 999_500.0 {
        format!("{} ms", three(value / 1_000.0))
    } else if value < 59_995_000.0 {
        format!("{} s", three(value / 1_000_000.0))
    } else {
        let seconds = (value / 1_000_000.0).round();
        let minutes = format!("{} min", grouped((seconds / 60.0).floor()));
        if seconds % 60.0 == 0.0 { minutes } else { format!("{minutes} {} s", seconds % 60.0) }
    }
}

/// A size in decimal units: `840 B`, `12.3 kB`, `1.24 GB`.
pub(crate) fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return if unit == "B" { format!("{value:.0} B") } else { format!("{} {unit}", three(value)) };
        }
        value /= 1_000.0;
    }
    format!("{} TB", three(value))
}

/// A count or a mean of counts: `3`, `2.25`, `12,400`.
pub(crate) fn number(value: f64) -> String {
    if value.abs() >= 1_000.0 { grouped(value.round()) } else { three(value) }
}

/// How many of something: `1 case`, `12 cases`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {many}", grouped(count as f64)) }
}

/// Three digits that say something, without zeros at the end.
fn three(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    if digits == 0 {
        return grouped(value.round());
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A whole number with a comma at every third digit.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("−", rest));
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Text from outside, fit for a line: no control or direction characters, at most `most` characters.
pub(crate) fn line(text: &str, most: usize) -> String {
    let mut kept: String = text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).take(most + 1).collect();
    if kept.chars().count() > most {
        kept = kept.chars().take(most.saturating_sub(1)).collect();
        kept.push('…');
    }
    kept
}

/// Whether a character acts on the text around it and is not seen itself.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!(
            [0.0, 0.18, -0.034, 0.0002, -0.00001, 3.0].map(percent),
            ["0 %", "18 %", "−3.4 %", "0.02 %", "0 %", "300 %"]
        );
        assert_eq!([0.05, -0.5, 0.0, 0.000_001].map(signed_percent), ["+5 %", "−50 %", "0 %", "0 %"]);
        assert_eq!([1.0, 0.9996, 0.94, 0.0, 0.0005].map(certainty), ["100 %", "99.9 %", "94 %", "0 %", "0.1 %"]);
        assert_eq!(
            [840.0, 12_345.0, 1_240_000.0, 200_000_000.0].map(micros),
            ["840 µs", "12.3 ms", "1.24 s", "3 min 20 s"]
        );
        assert_eq!([840.0, 12_345.0, 4e9].map(bytes), ["840 B", "12.3 kB", "4 GB"]);
        assert_eq!([3.0, 2.25, 12_400.4, 123.4].map(number), ["3", "2.25", "12,400", "123"]);
    }

    #[test]
    fn a_line_has_no_tricks_in_it() {
        assert_eq!(line("a\u{202e}b\nc", 10), "a b c");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(line("abcd", 4), "abcd");
    }
}
