//! Names that are like a name that is not there.

/// How many names are offered.
const OFFERED: usize = 5;
/// Names less alike than this, in thousandths, are not offered.
const LEAST_ALIKE: usize = 300;

/// The names most like `wanted`, most alike first.
pub(crate) fn near<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(usize, &str)> =
        names.into_iter().map(|name| (alike(&wanted, name), name)).filter(|(score, _)| *score >= LEAST_ALIKE).collect();
    scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// The hint for a name that is not there: what is near, and where all names are.
pub(crate) fn hint<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>, all: &str) -> String {
    let near = near(wanted, names);
    if near.is_empty() { all.to_owned() } else { format!("near it: {}; {all}", near.join(", ")) }
}

/// The share of pairs of letters that two names have in common, in thousandths; more where
/// one holds the other.
fn alike(a: &str, b: &str) -> usize {
    let pairs = |text: &str| -> Vec<(char, char)> {
        let spaced = std::iter::once(' ').chain(text.chars());
        spaced.zip(text.chars()).collect()
    };
    let (left, mut right) = (pairs(a), pairs(b));
    let total = left.len() + right.len();
    let mut common: usize = 0;
    for pair in &left {
        if let Some(at) = right.iter().position(|other| other == pair) {
            right.swap_remove(at);
            common += 1;
        }
    }
    let holds = a.len().min(b.len()) >= 3 && (a.contains(b) || b.contains(a));
    let bonus = if holds { 300 } else { 0 };
    (2_000 * common).checked_div(total).unwrap_or(0) + bonus
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] =
        ["gif-search", "git-search", "oracle-review", "reentrancy-review", "report-writing", "upgrade-review"];

    #[test]
    fn misspelt_and_shortened_names_are_found() {
        assert_eq!(near("gif-serch", NAMES).first(), Some(&"gif-search"));
        assert_eq!(near("reentrancy", NAMES).first(), Some(&"reentrancy-review"));
        assert_eq!(near("Report", NAMES), ["report-writing"]);
    }

    #[test]
    fn what_is_unlike_everything_gets_no_names() {
        assert_eq!(near("zzz", NAMES), Vec::<&str>::new());
        assert_eq!(hint("zzz", NAMES, "skills_list has the names"), "skills_list has the names");
    }

    #[test]
    fn at_most_five_are_offered() {
        assert!(near("review", ["review-a", "review-b", "review-c", "review-d", "review-e", "review-f"]).len() == 5);
    }
}
