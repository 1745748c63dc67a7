/// The sentences of a text, each with its mark: `"One. Two?"` has the sentences `"One."` and `"Two?"`.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let next = text.get(at + c.len_utf8()..).unwrap_or_default();
        let begins = next.trim_start().starts_with(|c: char| !c.is_lowercase());
        // A point behind a digit belongs to a version or a number of a list more often than not.
        if matches!(c, '.' | '?' | '!') && next.starts_with(' ') && begins && !before.is_ascii_digit() {
            let end = at + c.len_utf8();
            sentences.extend(text.get(start..end).map(str::trim));
            start = end;
        }
        before = c;
    }
    sentences.extend(text.get(start..).map(str::trim));
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_with_its_mark_before_a_new_beginning() {
        assert_eq!(sentences("Use 1.2. Then e.g. this? Yes!  No"), ["Use 1.2. Then e.g. this?", "Yes!", "No"]);
        assert_eq!(sentences(" "), Vec::<&str>::new());
    }
}
