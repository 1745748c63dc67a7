//! What a subscriber said does not get into skills, which are everyone's: not by any field, not in pieces, not in a script
//! without spaces, and not by way of what earlier tasks kept.

use herm_tests::brains::skill_text;

use super::*;

const SECRET: &str = "our unreleased vault at seven elm street holds all of the treasury funds until march";
const CHINESE: &str = "我们尚未发布的金库在榆树街七号里面放着三月之前的全部资金";
const THAI: &str = "รหัสผ่านของฉันคือดอกไม้สีแดงในสวนหลังบ้านของคุณยาย";

fn of_alice(input: &str) -> Task {
    Task { subscriber: Some("alice".parse().expect("an id")), ..task(input) }
}

async fn run(brains: &TempBrains, asked: Task, words: Vec<String>, synthesis: &str) -> (herm::Outcome, Vec<String>) {
    let backend = Arc::new(ScriptedBackend::new(words).synthesising(synthesis));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let harness = builder(brains).router(router).build().expect("a harness");
    let outcome = harness.run(&"1".parse().expect("an id"), asked).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    let told = backend.asked().iter().map(|ask| ask.messages.last().expect("a message").content.to_string()).collect();
    (outcome, told)
}

/// Every file below skills/, names and texts.
fn skills(brains: &TempBrains) -> String {
    fn walk(dir: &std::path::Path, all: &mut String) {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            all.push_str(&path.to_string_lossy());
            match path.is_dir() {
                true => walk(&path, all),
                false => all.push_str(&std::fs::read_to_string(&path).unwrap_or_default()),
            }
        }
    }
    let mut all = String::new();
    walk(&brains.file("1", "skills"), &mut all);
    all
}

fn manage(args: Value) -> String {
    call("skill_manage", args)
}

/// A skill of the agent's own, and one of a person's, both there before.
async fn prepared() -> TempBrains {
    let brains = TempBrains::new();
    brain(&brains);
    let make = manage(json!({ "action": "create", "name": "own", "content": skill_text("own", "Step one.") }));
    run(&brains, task("make it"), vec![make, ANSWER.to_owned()], "").await;
    brains
}

/// Calls that write a text into skills, each another way.
fn attacks(secret: &str) -> Vec<(&'static str, Value)> {
    let words: Vec<&str> = secret.split(' ').collect();
    let half = words.len() / 2;
    let (first, second) = match words.len() {
        1 => {
            let middle = secret.char_indices().nth(secret.chars().count() / 2).expect("a middle").0;
            secret.split_at(middle)
        }
        _ => secret.split_at(words[..half].join(" ").len()),
    };
    let with = |body: &str| skill_text("fresh", body);
    vec![
        ("body", json!({ "action": "create", "name": "fresh", "content": with(secret) })),
        ("description", json!({ "action": "create", "name": "fresh", "content": "Do it.\n", "description": secret })),
        ("whole text", json!({ "action": "edit", "name": "own", "content": skill_text("own", secret) })),
        (
            "front matter",
            json!({ "action": "edit", "name": "own",
            "content": format!("---\nname: own\ndescription: d. Use when d.\ntags: [\"{secret}\"]\n---\nText.\n") }),
        ),
        (
            "two fields",
            json!({ "action": "create", "name": "fresh", "description": first, "content": format!("{second}\n") }),
        ),
        ("file", json!({ "action": "write_file", "name": "own", "file": "references/a.md", "content": secret })),
        (
            "script",
            json!({ "action": "write_file", "name": "own", "file": "scripts/a.sh", "content": format!("# {secret}\n") }),
        ),
        ("patch", json!({ "action": "patch", "name": "own", "find": "Step one.", "replace": secret })),
        (
            "a person's",
            json!({ "action": "patch", "name": "flat-one", "find": "Do the flat thing.", "replace": secret }),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_the_task_at_hand_get_into_no_field_of_a_skill() {
    for secret in [SECRET, CHINESE, THAI] {
        let brains = prepared().await;
        let before = skills(&brains);
        for (field, args) in attacks(secret) {
            let (outcome, told) = run(&brains, of_alice(secret), vec![manage(args), ANSWER.to_owned()], "").await;
            assert!(told[1].contains("repeats the subscriber's own words"), "{field} of {secret}: {}", told[1]);
            assert_eq!(skills(&brains), before, "{field} of {secret}");
            assert_eq!((outcome.skills_changed, outcome.skills_proposed), (vec![], vec![]));
        }
    }
    // The operator's own words, and where subscribers share theirs, are no secret.
    let brains = prepared().await;
    let (outcome, told) =
        run(&brains, task(SECRET), vec![manage(attacks(SECRET)[0].1.clone()), ANSWER.to_owned()], "").await;
    assert_eq!(outcome.skills_changed.len(), 1, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_skills_and_files_do_not_carry_them() {
    let brains = prepared().await;
    let before = skills(&brains);
    let slug = "our-unreleased-vault-at-seven-elm-street-holds-all";
    let glued = "references/OurUnreleasedVaultAtSevenElmStreet.md";
    for args in [
        json!({ "action": "create", "name": slug, "content": skill_text(slug, "Do it.") }),
        json!({ "action": "create", "name": slug.to_uppercase(), "content": "Do it.\n", "description": "Does. Use when." }),
        json!({ "action": "write_file", "name": "own", "file": format!("references/{slug}.md"), "content": "x\n" }),
        json!({ "action": "write_file", "name": "own", "file": glued, "content": "x\n" }),
        json!({ "action": "write_file", "name": "own", "file": format!("references/{CHINESE}.md"), "content": "x\n" }),
    ] {
        let asked = of_alice(&format!("{SECRET}. {CHINESE}"));
        let (_, told) = run(&brains, asked, vec![manage(args.clone()), ANSWER.to_owned()], "").await;
        assert!(told[1].contains("repeats the subscriber's own words"), "{args}: {}", told[1]);
    }
    assert_eq!(skills(&brains), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_task_heard_does_not_come_back_through_recall_or_the_notes() {
    for (secret, query) in [(SECRET, "unreleased vault"), (CHINESE, "金库")] {
        let brains = prepared().await;
        // The first task hears it, and keeps it: as a message, as a fact, as a note on the user.
        let keeping = vec![
            call("note", json!({ "key": "vault", "value": secret })),
            call("memory", json!({ "action": "add", "target": "user", "content": format!("They say: {secret}") })),
            ANSWER.to_owned(),
        ];
        run(&brains, of_alice(secret), keeping, "").await;
        let before = skills(&brains);
        let recall = call("recall", json!({ "query": query }));
        for (field, args) in attacks(secret) {
            let words = vec![recall.clone(), manage(args.clone()), ANSWER.to_owned()];
            let (_, told) = run(&brains, of_alice("do it again"), words, "").await;
            assert!(told[1].contains("fact: ") || told[1].contains("message: "), "it is found: {}", told[1]);
            assert!(told[2].contains("repeats the subscriber's own words"), "{field} of {secret}: {}", told[2]);
            // The notes on the user stand in every prompt of theirs, without any recall.
            let (_, told) = run(&brains, of_alice("go on"), vec![manage(args), ANSWER.to_owned()], "").await;
            assert!(told[1].contains("repeats the subscriber's own words"), "{field} of {secret}: {}", told[1]);
        }
        let synthesis =
            json!({ "action": "create", "name": "learned", "description": "Does. Use when.", "body": secret });
        let words = std::iter::once(recall.clone()).chain((0..5).map(echo)).chain([ANSWER.to_owned()]).collect();
        let (outcome, _) = run(&brains, of_alice("do it again"), words, &synthesis.to_string()).await;
        assert!(outcome.warnings.iter().any(|said| said.contains("own words")), "{:?}", outcome.warnings);
        assert_eq!(skills(&brains), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_are_patched_in_by_pieces_are_seen_in_the_whole() {
    for (first, second, secret) in [
        ("our unreleased vault at seven", " elm street holds all of the treasury", SECRET),
        ("我们尚未发布的", "金库在榆树街七号里面", CHINESE),
    ] {
        let brains = prepared().await;
        let words = vec![
            manage(json!({ "action": "patch", "name": "own", "find": "Step one.", "replace": first })),
            manage(json!({ "action": "patch", "name": "own", "find": first, "replace": format!("{first}{second}") })),
            manage(json!({ "action": "write_file", "name": "own", "file": "references/a.md", "content": first })),
            manage(
                json!({ "action": "patch", "name": "own", "file": "references/a.md", "find": first, "replace": format!("{first}{second}") }),
            ),
            ANSWER.to_owned(),
        ];
        let (_, told) = run(&brains, of_alice(secret), words, "").await;
        assert!(told[2].contains("own words") && told[4].contains("own words"), "{told:?}");
        assert!(!skills(&brains).contains(&format!("{first}{second}")));
        // In another task of theirs, after the first piece was settled.
        let end =
            manage(json!({ "action": "patch", "name": "own", "find": first, "replace": format!("{first}{second}") }));
        let (_, told) = run(&brains, of_alice(secret), vec![end, ANSWER.to_owned()], "").await;
        assert!(told[1].contains("own words"), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_in_disguise_are_still_theirs() {
    let spelled: String = SECRET.chars().flat_map(|c| [c, ' ']).collect();
    let brains = prepared().await;
    let before = skills(&brains);
    for disguised in [
        "ourunreleased vaultat seven".to_owned(),
        spelled.clone(),
        spelled.to_uppercase(),
        SECRET.replace('e', "е\u{301}").replace('a', "а"),
        SECRET.replace("ea", "e-a").replace("ol", "o-l").replace("re", "r-e").replace("un", "u-n"),
        "b3VyIHVucmVsZWFzZWQgdmF1bHQgYXQgc2V2ZW4gZWxtIHN0cmVldCBob2xkcyBhbGw=".to_owned(),
        SECRET.replace('a', "&#97;").replace('u', "\\x75"),
    ] {
        for args in [
            json!({ "action": "create", "name": "fresh", "content": skill_text("fresh", &disguised) }),
            json!({ "action": "write_file", "name": "own", "file": "references/a.md", "content": &disguised }),
        ] {
            let (_, told) = run(&brains, of_alice(SECRET), vec![manage(args), ANSWER.to_owned()], "").await;
            assert!(told[1].contains("own words"), "{disguised}: {}", told[1]);
        }
    }
    assert_eq!(skills(&brains), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_are_spread_over_several_files_are_seen_together() {
    let pieces: Vec<String> = SECRET.split(' ').collect::<Vec<_>>().chunks(4).map(|words| words.join(" ")).collect();
    let brains = prepared().await;
    let file = |number: usize, piece: &str| {
        let content = format!("# Part {number}\n\nNote: {piece}. That is all.\n");
        manage(
            json!({ "action": "write_file", "name": "own", "file": format!("references/{number}.md"), "content": content }),
        )
    };
    let calls = pieces.iter().enumerate().map(|(number, piece)| file(number, piece));
    let (_, told) = run(&brains, of_alice(SECRET), calls.chain([ANSWER.to_owned()]).collect(), "").await;
    assert!(told.last().is_some_and(|said| said.contains("own words")), "{told:?}");
    // A task that repeats no more than common words writes as many files as it likes.
    let calls = (0..4).map(|number| file(number, "the funds in the vault, all of them, until march"));
    let (_, told) = run(&brains, of_alice(SECRET), calls.chain([ANSWER.to_owned()]).collect(), "").await;
    assert!(!told.concat().contains("own words"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_says_it_already_can_be_changed_elsewhere() {
    let brains = TempBrains::new();
    brain(&brains);
    let make = manage(
        json!({ "action": "create", "name": "own", "content": skill_text("own", &format!("{SECRET}. Step one.")) }),
    );
    run(&brains, task("make it"), vec![make, ANSWER.to_owned()], "").await;
    let patch = manage(json!({ "action": "patch", "name": "own", "find": "Step one.", "replace": "Step two." }));
    let file = manage(json!({ "action": "write_file", "name": "own", "file": "references/a.md", "content": "more\n" }));
    let (outcome, told) = run(&brains, of_alice(SECRET), vec![patch, file, ANSWER.to_owned()], "").await;
    assert_eq!(outcome.skills_changed.len(), 1, "{told:?}");
    assert!(skills(&brains).contains("Step two.") && skills(&brains).contains("more"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_agent_said_in_their_name_is_theirs_too() {
    let brains = prepared().await;
    brains.make("2").close().expect("closed");
    let answer = json!({ "answer": format!("I know that {SECRET}") }).to_string();
    let words = vec![
        call("ask_agent", json!({ "agent": "2", "input": "what do you know?" })),
        echo(1),
        answer,
        manage(json!({ "action": "create", "name": "fresh", "content": skill_text("fresh", SECRET) })),
        ANSWER.to_owned(),
    ];
    let (outcome, told) = run(&brains, of_alice("ask the other one"), words, "").await;
    assert!(told.iter().any(|said| said.contains("Agent 2 answered")), "{told:?}");
    assert!(told.iter().any(|said| said.contains("repeats the subscriber's own words")), "{told:?}");
    assert_eq!(outcome.skills_changed, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_does_not_quote_a_subscriber_in_any_script() {
    for secret in [SECRET, CHINESE, THAI] {
        let brains = prepared().await;
        let said = secret.to_owned();
        let mut tools = toolbox();
        tools
            .add(made("quoting", move |_| Err(herm::Error::unavailable(format!("no page for {said}")))))
            .expect("added");
        let words = [call("quoting", json!({})), ANSWER.to_owned()];
        let harness = builder(&brains).toolbox(tools).backend(ScriptedBackend::new(words)).build().expect("a harness");
        harness.run(&"1".parse().expect("an id"), of_alice(secret)).await.expect("an outcome");
        harness.shutdown().await.expect("closed");
        let row = reader(&brains).evidence(1).expect("evidence").remove(0).1;
        assert_eq!(row.summary, "[quotes the subscriber]");
    }
}
