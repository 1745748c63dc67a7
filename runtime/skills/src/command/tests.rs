use super::*;
use proptest::prelude::*;

fn slug(name: &str) -> Slug {
    name.parse().unwrap()
}

#[test]
fn a_command_is_a_slash_a_word_and_the_users_own_words() {
    for (input, word, rest) in [
        ("/gif-search", "gif-search", ""),
        ("/gif_search cats", "gif_search", "cats"),
        ("  \t/Gif2  cats,  please \n", "Gif2", " cats,  please \n"),
        ("/gif\n/not-this one\n", "gif", "/not-this one\n"),
        ("/gif\r\n\r\ncats", "gif", "\r\ncats"),
        ("/gif@my_bot cats", "gif", "cats"),
        ("/gif@my_bot", "gif", ""),
        ("/gif /etc/passwd", "gif", "/etc/passwd"),
        ("/prüfung ä", "prüfung", "ä"),
        ("/2", "2", ""),
    ] {
        assert_eq!(parse(input), Some(Command { word, rest }), "{input:?}");
    }
}

#[test]
fn paths_comments_and_patterns_are_not_commands() {
    for input in [
        "",
        "/",
        "/ gif",
        "//comment",
        "// comment",
        "/* comment */",
        "/etc/passwd",
        "/usr/bin x",
        "/etc/",
        "/^a+$/",
        "/foo/g",
        "/foo.md",
        "/a|b",
        "/gif,",
        "/gif@",
        "/gif@host.name/x",
        "/@bot",
        "/-",
        "/__",
        "/日本",
        "gif /search",
        "see\n/gif",
        "\\/gif",
        "./gif",
    ] {
        assert_eq!(parse(input), None, "{input:?}");
    }
}

#[test]
fn names_and_commands_meet_under_one_key() {
    for text in ["gif-search", "gif_search", "GIF Search", " Gif\u{a0}-_ Search! ", "G.I.F. (search)"] {
        assert_eq!(key(text), "gif-search", "{text:?}");
    }
    assert_eq!(key("日本"), "");
    assert_eq!(key("--"), "");
}

#[test]
fn a_command_finds_its_skill_by_slug_and_by_name() {
    let (search, mail) = (slug("gif-search"), slug("mail"));
    let commands = Commands::of([(&search, "GIF Search"), (&mail, "Send Mail")]);
    for word in ["gif-search", "gif_search", "GIF-SEARCH"] {
        assert_eq!(commands.resolve(word), CommandMatch::Skill(&search), "{word}");
    }
    assert_eq!(commands.resolve("mail"), CommandMatch::Skill(&mail));
    assert_eq!(commands.resolve("send_mail"), CommandMatch::Skill(&mail));
    assert_eq!(commands.resolve("gif-serch"), CommandMatch::Unknown { near: vec!["gif-search".to_owned()] });
    assert_eq!(Commands::default().resolve("gif"), CommandMatch::Unknown { near: Vec::new() });
    assert_eq!(commands.collisions(), []);
}

#[test]
fn a_slug_wins_over_a_name_and_the_first_slug_over_the_second() {
    let (a, b, c) = (slug("a"), slug("b"), slug("c"));
    let given = [(&c, "B"), (&b, "Same name"), (&a, "same_name!")];
    let collision = |key: &str, winner: &Slug, loser: &Slug| CommandCollision {
        key: key.to_owned(),
        winner: winner.clone(),
        loser: loser.clone(),
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let commands = Commands::of(order.map(|at: usize| given[at]));
        assert_eq!(commands.resolve("b"), CommandMatch::Skill(&b));
        assert_eq!(commands.resolve("same-name"), CommandMatch::Skill(&a));
        assert_eq!(commands.resolve("c"), CommandMatch::Skill(&c));
        assert_eq!(commands.collisions(), [collision("same-name", &a, &b), collision("b", &b, &c)]);
    }
}

proptest! {
    #[test]
    fn any_text_can_be_parsed(input in "\\PC*|[ \t\r\n]*/[a-z_@-]{0,8}(.|\n)*") {
        if let Some(command) = parse(&input) {
            let after = input.trim_start().strip_prefix('/').unwrap();
            prop_assert!(after.starts_with(command.word));
            prop_assert!(input.ends_with(command.rest));
            prop_assert!(!key(command.word).is_empty());
        }
    }

    #[test]
    fn the_key_of_a_key_is_itself_and_every_slug_is_its_own(text in "(.|\n)*", title in "[A-Za-z0-9 _.-]{1,80}") {
        let once = key(&text);
        prop_assert_eq!(key(&once), once);
        if let Some(slug) = Slug::from_title(&title) {
            prop_assert_eq!(key(slug.as_str()), slug.as_str());
        }
    }

    #[test]
    fn every_slug_is_found_whatever_the_names(names in proptest::collection::vec(("[a-d]{1,2}", "[a-d _]{0,3}"), 0..8)) {
        let given: Vec<(Slug, String)> = names.into_iter().map(|(title, name)| (slug(&title), name)).collect();
        let commands = Commands::of(given.iter().map(|(slug, name)| (slug, name.as_str())));
        for (slug, _) in &given {
            prop_assert_eq!(commands.resolve(slug.as_str()), CommandMatch::Skill(slug));
        }
    }
}
