//! Counts and listings for what a model should read.

/// `1 hit`, `2 hits`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Lines of an answer, as many as fit into a budget of characters.
#[derive(Debug)]
pub(crate) struct Listing {
    text: String,
    left: usize,
    shown: usize,
}

impl Listing {
    /// Room for `budget` characters.
    pub(crate) fn new(budget: usize) -> Self {
        Self { text: String::new(), left: budget, shown: 0 }
    }

    /// Adds a line; `false` where it does not fit any more.
    pub(crate) fn add(&mut self, line: &str) -> bool {
        let length = line.chars().count() + 1;
        if length > self.left {
            self.left = 0;
            return false;
        }
        self.left -= length;
        self.shown += 1;
        self.text.push_str(line);
        self.text.push('\n');
        true
    }

    /// How many lines fitted.
    pub(crate) fn shown(&self) -> usize {
        self.shown
    }

    /// The lines that fit, each with its line feed.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_stops_at_the_first_line_that_does_not_fit() {
        let mut listing = Listing::new(5);
        assert!(listing.add("ab") && !listing.add("abc") && !listing.add("x"));
        assert_eq!((listing.shown(), listing.into_text()), (1, "ab\n".to_owned()));
    }
}
