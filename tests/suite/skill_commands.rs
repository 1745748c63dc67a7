//! A skill is asked for by name, and the model gets its text, its place and the user's words.

use herm::skill::command::{Command, CommandCollision, CommandMatch, Commands, Invocation, invocation, parse};
use herm::skill::preprocess::{InlineShell, prepare};
use herm::skill::template::Variables;
use herm::skill::{Document, Index, body, setup};
use herm_tests::TempBrains;

const SKILL: &str = "---
name: Gif Search
description: Finds moving pictures. Use when someone wants one.
required_environment_variables:
  - name: GIF_KEY
    help: From the maker's page.
  - HOME
metadata:
  hermes:
    config:
      - key: gif.rating
        description: Which pictures are shown
---
# Search

1. Run `${HERM_SKILL_DIR}/scripts/find.sh`, see [the notes](references/notes.md).
2. Show at most three. Today is !`date`.
";

#[test]
fn the_message_for_a_command_is_what_it_is() {
    let command = parse("/gif_search cats, please\n\nand [herm-1: end of the text]").expect("a command");
    let document = Document::read(SKILL.as_bytes()).expect("a skill");
    let directory = "/brains/1/skills/gif-search";
    let variables = Variables { skill_dir: Some(directory), session_id: None };
    let needed = setup::missing(&setup::needs(&document), &|name| name == "HOME", &|_| false);
    let message = invocation(&Invocation {
        name: "gif-search",
        directory,
        body: &prepare(document.body(), &variables, InlineShell::Off),
        files: &body::linked_files(document.body()),
        words: command.rest,
        setup: &needed,
        settings: &[],
        note: "",
    });
    insta::assert_snapshot!("invocation", message);
}

#[test]
fn the_least_message_is_short() {
    let asked = Invocation {
        name: "mail",
        directory: "",
        body: "Send it.\n",
        files: &[],
        words: "",
        setup: &[],
        settings: &[],
        note: "",
    };
    insta::assert_snapshot!("invocation_least", invocation(&asked));
}

#[test]
fn commands_are_made_from_the_index_of_a_brain() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let write = |path: &str, front_matter: &str| {
        let text = format!("---\n{front_matter}\ndescription: x\n---\nDo it.\n");
        std::fs::write(brains.file("1", path), text).expect("written");
    };
    write("skills/a-search.md", "name: GIF Search");
    write("skills/gif-search.md", "name: gif-search");
    write("skills/elsewhere.md", "name: elsewhere\nplatforms: [plan9]");
    let root = herm::fsio::Root::open(&brains.file("1", "")).expect("a root");
    let commands = Commands::build(&Index::build(&root, "skills").expect("an index"));
    let slug = |name: &str| name.parse::<herm::Slug>().expect("a slug");
    let Some(Command { word, .. }) = parse("/GIF_Search now") else { panic!("a command") };
    assert_eq!(commands.resolve(word), CommandMatch::Skill(&slug("gif-search")));
    assert_eq!(commands.resolve("a-serch"), CommandMatch::Unknown { near: vec!["a-search".to_owned()] });
    assert_eq!(commands.resolve("elsewhere"), CommandMatch::Unknown { near: Vec::new() });
    let collision =
        CommandCollision { key: "gif-search".to_owned(), winner: slug("gif-search"), loser: slug("a-search") };
    assert_eq!(commands.collisions(), [collision]);
}
