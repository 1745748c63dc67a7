//! Slash commands: `/gif-search cats, please` asks for a skill by its name.
//!
//! [`parse`] says whether a text is a command, [`Commands`] which skill it means, and
//! [`invocation`] what the model then gets. Names and commands meet under one [`key`], so
//! `/gif-search`, `/gif_search` and a skill called "GIF Search" are the same.

mod invocation;
mod near;

use std::collections::BTreeMap;

use super::index::Index;
use crate::error::{Error, Result};
use crate::ids::Slug;

pub use invocation::{Invocation, invocation};

/// A command as it was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'a> {
    /// What stands between the slash and the first space, without the name of a bot.
    pub word: &'a str,
    /// The user's own words, byte for byte, without the one separator before them.
    pub rest: &'a str,
}

/// Reads a text as a command: a slash and a word of letters, digits, `-` and `_` come first, and a
/// space or the end follows. Paths, comments and patterns are not commands.
pub fn parse(input: &str) -> Option<Command<'_>> {
    let after = input.trim_start().strip_prefix('/')?;
    let (token, rest) = match after.find(char::is_whitespace) {
        Some(end) => after.split_at(end),
        None => (after, ""),
    };
    // In a group, chat programs write `/name@bot`.
    let word = match token.split_once('@') {
        Some((word, bot)) if is_word(bot) => word,
        Some(_) => return None,
        None => token,
    };
    // A word that no skill could be found under is no command: `/-`, `/_`.
    let is_command = is_word(word) && word.contains(|c: char| c.is_ascii_alphanumeric());
    is_command.then_some(Command { word, rest: without_separator(rest) })
}

/// The command that is no skill's: it takes in what was done to the skills by hand, and says what changed.
pub const RELOAD: &str = "reload-skills";

/// Whether a text is that command, in whichever spelling; words behind it are of no use.
pub fn is_reload(input: &str) -> Result<bool> {
    match parse(input) {
        Some(typed) if key(typed.word) == RELOAD => match typed.rest.trim().is_empty() {
            true => Ok(true),
            false => Err(Error::invalid(format!("/{RELOAD} takes no words"))
                .hint(format!("send /{RELOAD} alone, and the task after it"))),
        },
        _ => Ok(false),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

fn without_separator(rest: &str) -> &str {
    let mut chars = rest.chars();
    rest.strip_prefix("\r\n").unwrap_or_else(|| {
        chars.next();
        chars.as_str()
    })
}

/// What names and typed commands are compared by: lower case, spaces and underscores as hyphens,
/// nothing else but `a-z 0-9`, no hyphen at either end and no two in a row.
pub fn key(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => key.push(c),
            '-' | '_' => hyphen(&mut key),
            c if c.is_whitespace() => hyphen(&mut key),
            _ => {}
        }
    }
    key.truncate(key.trim_end_matches('-').len());
    key
}

fn hyphen(key: &mut String) {
    if !key.is_empty() && !key.ends_with('-') {
        key.push('-');
    }
}

/// Two skills that would be found under one key.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CommandCollision {
    /// The key that both names come to; see [`key`].
    pub key: String,
    /// The skill that has it.
    pub winner: Slug,
    /// The skill that is found under its slug only.
    pub loser: Slug,
}

/// What a command's word means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandMatch<'a> {
    /// The skill that the word names.
    Skill(&'a Slug),
    /// Nothing that is there.
    Unknown {
        /// What may have been meant: at most 3, the nearest first.
        near: Vec<String>,
    },
}

/// Which skill each command means. Made once for an index.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    skills: BTreeMap<Box<str>, Slug>,
    collisions: Vec<CommandCollision>,
}

impl Commands {
    /// The commands of every skill that suits this platform.
    pub fn build(index: &Index) -> Self {
        let suited = index.entries().filter(|entry| entry.suits_this_platform());
        Self::of(suited.map(|entry| (&entry.place.slug, entry.name.as_str())))
    }

    /// The commands of skills, given by slug and name. A slug's own key comes before any name; among
    /// names, the one of the first slug in byte order wins, whatever the order they are given in.
    pub fn of<'a>(skills: impl IntoIterator<Item = (&'a Slug, &'a str)>) -> Self {
        let mut given: Vec<(&Slug, &str)> = skills.into_iter().collect();
        given.sort_unstable();
        let own = given.iter().map(|(slug, _)| (key(slug.as_str()).into_boxed_str(), (*slug).clone()));
        let mut commands = Self { skills: own.collect(), collisions: Vec::new() };
        for (slug, name) in given {
            let key = key(name);
            match commands.skills.get(key.as_str()) {
                _ if key.is_empty() => {}
                None => {
                    commands.skills.insert(key.into_boxed_str(), slug.clone());
                }
                Some(winner) if winner == slug => {}
                Some(winner) => {
                    let (winner, loser) = (winner.clone(), slug.clone());
                    commands.collisions.push(CommandCollision { key, winner, loser });
                }
            }
        }
        commands
    }

    /// The skill that a command's word means, or what is near it.
    pub fn resolve(&self, word: &str) -> CommandMatch<'_> {
        let key = key(word);
        match self.skills.get(key.as_str()) {
            Some(slug) => CommandMatch::Skill(slug),
            None => CommandMatch::Unknown { near: near::near(&key, &self.skills) },
        }
    }

    /// Names that lost their key to another skill.
    pub fn collisions(&self) -> &[CommandCollision] {
        &self.collisions
    }
}

#[cfg(test)]
mod tests;
