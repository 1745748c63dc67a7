//! Template variables: `${HERM_SKILL_DIR}` and `${HERM_SESSION_ID}` in the text of a skill, also in
//! the spellings that imported skills use.
//!
//! One pass from left to right. What is not known, or has no value, stays as it is, so that a reader of the text
//! sees what was missing.

use std::borrow::Cow;

const SKILL_DIR: [&str; 2] = ["HERM_SKILL_DIR", "HERMES_SKILL_DIR"];
const SESSION_ID: [&str; 2] = ["HERM_SESSION_ID", "HERMES_SESSION_ID"];

/// What the variables stand for. An empty value counts as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Variables<'a> {
    /// The directory of the skill.
    pub skill_dir: Option<&'a str>,
    /// The session the skill is loaded in.
    pub session_id: Option<&'a str>,
}

impl<'a> Variables<'a> {
    /// Every name that has a value, in all its spellings.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &'a str)> + use<'a> {
        let both = [(SKILL_DIR, self.skill_dir), (SESSION_ID, self.session_id)];
        both.into_iter().flat_map(|(names, value)| {
            let value = value.filter(|value| !value.is_empty());
            names.into_iter().filter_map(move |name| Some((name, value?)))
        })
    }
}

/// The text with every variable that has a value replaced. Values are not looked at again.
pub fn expand<'t>(text: &'t str, variables: &Variables<'_>) -> Cow<'t, str> {
    let mut expanded = String::new();
    let (mut copied, mut from) = (0, 0);
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("${")) {
        let start = from + at;
        from = start + 2;
        // Compared with known names only: a search for the closing brace would take quadratic time.
        let rest = text.get(from..).unwrap_or_default();
        let is_here = |name: &str| rest.strip_prefix(name).is_some_and(|after| after.starts_with('}'));
        let Some((name, value)) = variables.given().find(|(name, _)| is_here(name)) else { continue };
        expanded.push_str(text.get(copied..start).unwrap_or_default());
        expanded.push_str(value);
        from += name.len() + 1;
        copied = from;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    expanded.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: Variables<'_> = Variables { skill_dir: Some("/brain/skills/mail"), session_id: Some("t-7") };

    #[test]
    fn both_spellings_of_both_variables_are_replaced() {
        let text = "${HERM_SKILL_DIR}/a ${HERMES_SKILL_DIR}/b ${HERM_SESSION_ID}${HERMES_SESSION_ID}";
        assert_eq!(expand(text, &BOTH), "/brain/skills/mail/a /brain/skills/mail/b t-7t-7");
    }

    #[test]
    fn what_is_unknown_or_has_no_value_stays_visible() {
        for text in
            ["${HOME}", "${}", "${", "$HERM_SKILL_DIR", "${HERM_SKILL_DIR", "${herm_skill_dir}", "${HERM_SKILL_DIR:-x}"]
        {
            assert!(matches!(expand(text, &BOTH), Cow::Borrowed(same) if same == text), "{text}");
        }
        let only_session = Variables { skill_dir: Some(""), ..BOTH };
        assert_eq!(expand("${HERM_SKILL_DIR} ${HERM_SESSION_ID}", &only_session), "${HERM_SKILL_DIR} t-7");
        assert_eq!(expand("${HERM_SKILL_DIR}", &Variables::default()), "${HERM_SKILL_DIR}");
    }

    #[test]
    fn a_value_is_not_expanded_again() {
        let variables = Variables { skill_dir: Some("${HERM_SESSION_ID}"), session_id: Some("${HERM_SKILL_DIR}") };
        assert_eq!(expand("${HERM_SKILL_DIR}|${HERM_SESSION_ID}", &variables), "${HERM_SESSION_ID}|${HERM_SKILL_DIR}");
        // Nor do a value and the text beside it make a variable together.
        let variables = Variables { skill_dir: Some("${HERM_SESSION"), session_id: Some("t") };
        assert_eq!(expand("${HERM_SKILL_DIR}_ID}", &variables), "${HERM_SESSION_ID}");
    }

    #[test]
    fn variables_inside_each_other_are_read_from_the_left() {
        assert_eq!(expand("${${HERM_SESSION_ID}}", &BOTH), "${t-7}");
        assert_eq!(expand("$${HERM_SESSION_ID}", &BOTH), "$t-7");
    }

    /// Quadratic time would show: this would take minutes.
    #[test]
    fn a_text_made_to_be_slow_is_not() {
        let text = "${".repeat(500_000);
        assert_eq!(expand(&text, &BOTH), text);
    }

    proptest! {
        #[test]
        fn everything_but_the_variables_is_left_byte_for_byte(
            pieces in proptest::collection::vec("[^$]{0,12}|\\$[^{]|\\$\\{[^HERM]{0,6}\\}", 1..8)
        ) {
            let text = pieces.join("${HERM_SESSION_ID}");
            prop_assert_eq!(expand(&text, &BOTH), pieces.join("t-7"));
        }

        #[test]
        fn a_text_without_variables_is_not_copied(text in ".*") {
            prop_assume!(!text.contains("${HERM"));
            prop_assert!(matches!(expand(&text, &BOTH), Cow::Borrowed(same) if same == text));
        }
    }
}
