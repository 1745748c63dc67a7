//! What happens to a skill's text on its way to the model: template variables, then inline shell.
//!
//! Both look at the text as its author wrote it. A value of a variable is not searched for
//! snippets, and the output of a snippet is not searched for anything. Inside a snippet nothing is
//! replaced: there the variables are variables of the shell, so a path is never read as code.

use std::borrow::Cow;

use super::shell::{self, Runner};
use super::template::{self, Variables};

/// Whether inline shell is run.
#[derive(Clone, Copy)]
pub enum InlineShell<'r> {
    /// Snippets stay as they are.
    Off,
    /// Snippets are run. Only for a skill that [`shell::may_run`].
    On(&'r dyn Runner),
}

/// The text as the model gets it.
pub fn prepare<'b>(body: &'b str, variables: &Variables<'_>, inline_shell: InlineShell<'_>) -> Cow<'b, str> {
    match inline_shell {
        InlineShell::Off => template::expand(body, variables),
        InlineShell::On(runner) => {
            Cow::Owned(shell::expand_around(body, runner, |between| template::expand(between, variables)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Runner for Echo {
        fn run(&self, command: &str) -> Result<String, String> {
            Ok(format!("<{command}>"))
        }
    }

    const VARIABLES: Variables<'_> = Variables { skill_dir: Some("/d/!`rm -r x`"), session_id: None };

    #[test]
    fn snippets_stay_where_inline_shell_is_off() {
        let text = prepare(
            "${HERM_SKILL_DIR} !`date`",
            &Variables { skill_dir: Some("/d"), session_id: None },
            InlineShell::Off,
        );
        assert_eq!(text, "/d !`date`");
    }

    #[test]
    fn a_value_is_never_run() {
        assert_eq!(prepare("${HERM_SKILL_DIR} !`a`", &VARIABLES, InlineShell::On(&Echo)), "/d/!`rm -r x` <a>");
    }

    #[test]
    fn a_command_gets_no_text_put_into_it_and_its_output_is_not_expanded() {
        let text = prepare("!`ls ${HERM_SKILL_DIR}`", &VARIABLES, InlineShell::On(&Echo));
        assert_eq!(text, "<ls ${HERM_SKILL_DIR}>");
    }
}
