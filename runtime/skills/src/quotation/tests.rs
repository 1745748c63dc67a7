use super::*;

fn repeats(source: &str, written: &str) -> bool {
    let mut sources = QuotableTexts::default();
    sources.add(source);
    sources.repeated(written, "").is_some()
}

const ENGLISH: &str = "our unreleased vault at 0xabc holds all of the treasury funds for now";

#[test]
fn long_texts_are_compared_in_one_pass() {
    // To look for each run, or each word, among all that stood there before would take hours.
    let many = |from: u32| (from..from + 100_000).map(|n| format!("w{n} ")).collect::<String>();
    let glued = |from: u32| (from..from + 20_000).map(|n| format!("averyverylongwordnumber{n} ")).collect::<String>();
    let mut sources = QuotableTexts::default();
    sources.add(&many(0));
    sources.add(&glued(0));
    assert_eq!(sources.repeated(&many(0), &many(0)), None, "it stood there before");
    assert_eq!(sources.repeated(&glued(50_000), &glued(50_000)), None);
    assert!(sources.repeated(&many(0), &many(50_000)).is_some_and(|words| words.starts_with("w0 w1 w2")));
}

#[test]
fn eight_words_in_a_row_are_a_quotation_and_seven_are_not() {
    assert!(repeats(ENGLISH, "Note: the vault at 0xABC holds all of the treasury, funds!"));
    assert!(!repeats(ENGLISH, "Seven words: at 0xabc holds all of the treasury."));
    assert!(!repeats(ENGLISH, "Check the vault for treasury funds."));
    assert!(!repeats("", "anything at all that someone may write down here today"));
    assert!(!repeats(ENGLISH, ""));
}

#[test]
fn eight_words_of_few_letters_are_a_quotation_too() {
    let pin = "my pin is 9 4 2 7 1 8";
    assert!(repeats(pin, "Note that the pin is 9 4 2 7 1 8, and go on."));
    assert!(repeats("pin is 9 4 2 7 1 8", "pin is 9 4 2 7 1 8"));
    assert!(!repeats(pin, "Note that the pin is 9 4 2 7 1, and go on."));
    assert!(!repeats(pin, "9 4 2 8 1 7 is no pin"));
    let mut sources = QuotableTexts::default();
    sources.add(pin);
    assert_eq!(sources.repeated("Step. The pin is 9 4 2 7 1 8.", "The pin is 9 4 2 7 1 8."), None);
}

#[test]
fn lists_and_tables_of_one_word_an_item_hide_nothing() {
    let numbered = |mark: fn(usize) -> String| -> String {
        ENGLISH.split(' ').enumerate().map(|(at, word)| format!("{}{word}\n", mark(at + 1))).collect()
    };
    for written in [
        numbered(|at| format!("{at}. ")),
        numbered(|at| format!("  {at}) ")),
        numbered(|at| format!("- {at}: ")),
        numbered(|at| format!("| {at} | ")),
        numbered(|at| format!("({}) ", char::from(b'a' + u8::try_from(at).unwrap()))),
        numbered(|_| "- ".to_owned()),
        numbered(|_| "* ".to_owned()),
        numbered(|_| "| ".to_owned()),
    ] {
        assert!(repeats(ENGLISH, &written), "{written}");
        assert!(repeats(&written, ENGLISH), "{written}");
        // Each item in a file of its own.
        let mut sources = QuotableTexts::default();
        sources.add(ENGLISH);
        let mut so_far = QuotationProgress::default();
        assert!(written.lines().find_map(|line| sources.continued_quotation(&mut so_far, line)).is_some(), "{written}");
        assert_eq!(sources.repeated(&format!("{written}More."), &written), None, "it stood there before");
    }
    assert!(!repeats(ENGLISH, "1. Look at the vault.\n2. Count the funds.\n3. Say all of it."));
}

#[test]
fn names_of_skills_and_files_are_words_too() {
    for written in [
        "our-unreleased-vault-at-0xabc-holds-all-of",
        "references/our_unreleased_vault_at_0xabc_holds_all_of.md",
        "OUR.UNRELEASED.VAULT.AT.0XABC.HOLDS.ALL.OF",
    ] {
        assert!(repeats(ENGLISH, written), "{written}");
    }
}

#[test]
fn words_that_are_cut_otherwise_are_still_their_words() {
    let letters = |between: &str| ENGLISH.chars().map(|c| format!("{c}{between}")).collect::<String>();
    for written in [
        "ourunreleased vaultat0xabc".to_owned(),
        "ou runre leasedva ultat 0xa bcho lds".to_owned(),
        "our unrel eased vaultat 0xabc holdsall of the trea sury funds".to_owned(),
        "ourunreleased vault at 0xabc holdsall of the treasury fundsfor now".to_owned(),
        "ourunreleased vaultat 0xabc".to_owned(),
        letters(" "),
        letters("-"),
        letters(".\n"),
        letters("*_* "),
        ENGLISH.replace("un", "un-").replace("va", "va-").replace("ea", "e-a"),
    ] {
        assert!(repeats(ENGLISH, &written), "{written}");
    }
}

#[test]
fn look_alikes_marks_and_case_hide_nothing_in_any_script() {
    use unicode_normalization::UnicodeNormalization as _;
    let cyrillic = |text: &str| {
        text.chars()
            .map(|c| match c {
                'a' => 'а',
                'e' => 'е',
                'o' => 'о',
                'c' => 'с',
                'p' => 'р',
                'y' => 'у',
                'x' => 'х',
                'i' => 'і',
                's' => 'ѕ',
                'v' => 'ν',
                'u' => 'υ',
                'n' => 'ո',
                'l' => 'ł',
                'd' => 'đ',
                'h' => 'ħ',
                't' => 'ŧ',
                c => c,
            })
            .collect::<String>()
    };
    let struck = |text: &str| text.chars().flat_map(|c| [c, '\u{336}', '\u{301}']).collect::<String>();
    for source in [
        ENGLISH,
        "unser geheimer Tresor in der Müllerstraße 7 enthält alle Rücklagen für das nächste Jahr",
        "наш секретный сейф на улице вязов семь хранит все деньги до марта и никто не знает",
        "το μυστικό χρηματοκιβώτιο στην οδό Φτελιάς επτά έχει όλα τα χρήματα μέχρι τον Μάρτιο",
        "két tőzsdei cég közös ajánlatát a jövő héten írják alá Győrben a vezetők",
        "우리 금고의 비밀번호는 빨간 창고 일곱 번째 서랍에 있습니다 아무에게도 말하지 마세요",
        "私の口座番号は四二七一で暗証番号はガギグゲゴです",
    ] {
        for written in [
            source.to_uppercase(),
            source.to_lowercase(),
            source.nfd().collect(),
            source.nfkc().collect(),
            source.nfkd().collect(),
            source.nfd().filter(|c| !unicode_normalization::char::is_combining_mark(*c)).collect(),
            cyrillic(source),
            struck(source),
            cyrillic(&source.to_uppercase()),
            struck(&source.nfd().collect::<String>()).replace(' ', ""),
        ] {
            assert!(repeats(source, &written), "{written}");
        }
    }
    let wide = |text: &str| -> String {
        text.chars()
            .map(|c| char::from_u32(u32::from(c) + 0xFEE0).filter(|_| c.is_ascii_graphic()).unwrap_or(c))
            .collect()
    };
    assert!(repeats(ENGLISH, &wide(&cyrillic(ENGLISH).to_uppercase())));
    assert!(repeats(
        "the morning modem number may remain in memory tonight",
        "the rnorning rnodern nurnber rnay rernain in rnernory tonight"
    ));
}

#[test]
fn pieces_too_short_alone_count_together() {
    let source = "Our unreleased vault at 0xabc holds all of the treasury funds for now, and the board will move them to the \
        second vault on the ninth of March unless the auditors object";
    let mut sources = QuotableTexts::default();
    sources.add(source);
    for size in [4, 5, 6, 7] {
        let mut so_far = QuotationProgress::default();
        let words: Vec<&str> = source.split_whitespace().collect();
        let found = words.chunks(size).enumerate().find_map(|(number, piece)| {
            let file =
                format!("references/part-{number}.md # Part {number}\n\nNote: {}. That is all.", piece.join(" "));
            assert_eq!(sources.repeated(&file, ""), None, "{file}");
            sources.repeated_after(&mut so_far, &file, "")
        });
        assert!(found.is_some(), "{size}");
    }
    // Files that hold nothing else go on from each other, however short they are.
    let mut so_far = QuotationProgress::default();
    let found = source.split_whitespace().find_map(|word| sources.continued_quotation(&mut so_far, word));
    assert!(found.is_some());
    // The same words in other orders are nobody's sentence.
    let mut so_far = QuotationProgress::default();
    for file in ["the vault holds funds", "move all of the funds", "the treasury will object", "for now, on the ninth"]
    {
        assert_eq!(sources.repeated_after(&mut so_far, file, ""), None);
        assert_eq!(sources.continued_quotation(&mut so_far, file), None);
    }
}

#[test]
fn large_texts_of_any_kind_are_compared_in_linear_work() {
    let random = |size: usize, seed: u64, letters: u64| {
        let mut state = seed;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + u8::try_from((state >> 40) % letters).unwrap())
        })
        .take(size)
        .collect::<String>()
    };
    const SIZE: usize = 1 << 16;
    let texts = [
        "a".repeat(SIZE),
        "ab".repeat(SIZE / 2),
        "a ".repeat(SIZE / 2),
        "our unreleased vault ".repeat(SIZE / 21),
        random(SIZE, 1, 2),
        random(SIZE, 2, 25),
    ];
    for source in &texts {
        let index = Index::of(&[source.as_str().into()]);
        for written in &texts {
            let written = Letters::of(written);
            let work = index.common(&written, |_| {});
            assert!(work <= 100 * (written.letters.len() + index.source.letters.len()), "{work}");
        }
    }
    const LARGE: usize = 1 << 20;
    let (source, other) = (random(LARGE, 3, 25), random(LARGE, 4, 25));
    let mut sources = QuotableTexts::default();
    sources.add(&source);
    assert_eq!(sources.repeated(&other, ""), None);
    // A letter apart each, at the very end.
    let spelled: String = source.chars().skip(LARGE - 40).flat_map(|c| [c, ' ']).collect();
    assert!(sources.repeated(&format!("{other} {spelled}"), "").is_some());
}

#[test]
fn words_written_together_are_compared_by_letters() {
    assert!(repeats(ENGLISH, "scripts/OurUnreleasedVaultAt0xabcHolds.sh"));
    assert!(repeats(ENGLISH, "see thevaultat0xabcholdsallof, xvaultat0xabcholdsallofx"));
    // One long word of the source is a word, and a long word that the source does not have is no quotation.
    let hash = "look at 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 please";
    assert!(!repeats(hash, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"));
    assert!(!repeats(ENGLISH, "internationalization-of-telecommunications"));
}

#[test]
fn scripts_without_spaces_are_compared_by_characters() {
    for (source, written, other) in [
        (
            "我们尚未发布的金库地址是红色仓库七号请不要告诉别人",
            "步骤：尚未发布的金库地址是红色仓库，然后检查。",
            "检查金库的地址，然后告诉用户结果如何。",
        ),
        (
            "私の口座番号は四二七一で暗証番号は九九です",
            "手順: 口座番号は四二七一で暗証番号を見る",
            "口座の番号を聞いてから、手順を読む。",
        ),
        ("รหัสผ่านของฉันคือดอกไม้สีแดงในสวนหลังบ้าน", "ขั้นตอน: รหัสผ่านของฉันคือดอกไม้สีแดง", "ตรวจรหัสก่อนแล้วบอกผล"),
        (
            "우리 금고의 비밀번호는 빨간 창고 일곱 번째 서랍에 있습니다",
            "우리금고의비밀번호는빨간창고일곱번째서랍",
            "금고를 확인하고 결과를 알립니다",
        ),
    ] {
        assert!(repeats(source, written), "{written}");
        assert!(!repeats(source, other), "{other}");
        // Spaces between the characters hide nothing.
        let spaced: String = written.chars().flat_map(|c| [c, ' ']).collect();
        assert!(repeats(source, &spaced), "{spaced}");
    }
}

#[test]
fn invisible_characters_case_marks_and_wide_letters_hide_nothing() {
    let wide: String =
        ENGLISH.chars().map(|c| if c == ' ' { c } else { char::from_u32(u32::from(c) + 0xFEE0).unwrap() }).collect();
    let hidden: String = ENGLISH.chars().flat_map(|c| [c, '\u{200b}', '\u{ad}']).collect();
    for written in [wide, hidden, ENGLISH.to_uppercase(), ENGLISH.replace(' ', " **_** ")] {
        assert!(repeats(ENGLISH, &written), "{written}");
    }
    assert!(repeats("don't tell anyone that it's the blue house", "don’t tell anyone that it’s the blue house"));
}

#[test]
fn what_stood_there_before_is_no_news() {
    let mut sources = QuotableTexts::default();
    sources.add(ENGLISH);
    let before = format!("Step one. {ENGLISH}.");
    assert_eq!(sources.repeated(&format!("{before} Step two."), &before), None);
    // Pieces that only together say it are told from what was there.
    let half = "our unreleased vault at";
    assert_eq!(sources.repeated(half, ""), None);
    assert!(sources.repeated(&format!("{half} 0xabc holds all of the treasury"), half).is_some());
}

#[test]
fn several_sources_are_compared_each() {
    let mut sources = QuotableTexts::default();
    sources.add("count to five");
    sources.add(ENGLISH);
    sources.add(ENGLISH);
    assert_eq!(sources.texts.len(), 2);
    assert_eq!(sources.repeated(&format!("x {ENGLISH}!"), "").as_deref(), Some(ENGLISH));
}

#[test]
fn shapes_are_equal_where_only_marks_differ_and_alike_where_few_words_do() {
    assert_eq!(TextFingerprint::of("# Count\n\n1. Call `echo`."), TextFingerprint::of("count: 1) call echo"));
    let (a, b) = (
        TextFingerprint::of("one two three four five six seven eight"),
        TextFingerprint::of("one two three four five six nine"),
    );
    assert!(a.similarity(&b) > 0.6 && a.similarity(&TextFingerprint::of("something else")) < 0.1);
    assert_eq!(TextFingerprint::of("金库地址").similarity(&TextFingerprint::of("金库，地址")), 1.0);
}

#[test]
fn changes_are_compared_by_what_they_change() {
    let long: String = (0..80).map(|n| format!("step{n} of the way. ")).collect();
    let gist = |before: &str, after: &str| {
        ChangeFingerprint::of([before.as_bytes()].into_iter(), [after.as_bytes()].into_iter())
    };
    let with = |more: &str| gist(&long, &format!("{long}{more}"));
    let asks = with("Ask the bank before noon.");
    assert!(asks.is_similar(&with("ASK the bank, before noon!")));
    assert!(asks.is_similar(&with("First ask the bank before noon.")));
    assert!(!asks.is_similar(&with("Never call anybody at night.")));
    // One word is another change wherever else it stands.
    assert!(!with("never").is_similar(&gist(&long, &long.replace("step9 of", "never step9 of"))));
    assert!(with("never").is_similar(&with("Never!")));
    // What is taken away is compared with what is taken away.
    let without =
        |from: &str, to: &str| gist(&long, &long.replace(&long[long.find(from).unwrap()..long.find(to).unwrap()], ""));
    assert!(without("step10", "step20").is_similar(&without("step10", "step21")));
    assert!(!without("step10", "step20").is_similar(&without("step30", "step40")));
    assert!(!without("step10", "step20").is_similar(&asks));
    // Front matter that is not compared makes no two changes the same.
    let tagged = |tags: &str| {
        gist("---\nname: x\ndescription: d\n---\nb", &format!("---\nname: x\ndescription: d\ntags: {tags}\n---\nb"))
    };
    assert!(!tagged("[a]").is_similar(&tagged("[b]")));
}

proptest::proptest! {
    #[test]
    fn any_text_of_enough_words_repeats_itself_and_nothing_panics(text in "\\PC{0,200}", more in "\\PC{0,50}") {
        let mut sources = QuotableTexts::default();
        sources.add(&text);
        let letters = Letters::of(&text);
        let long = letters.worth_of(0, letters.letters.len()) >= RUN;
        let whole = format!("{more} {text} {more}");
        proptest::prop_assert_eq!(sources.repeated(&whole, "").is_some() || !long, true);
        let _ = sources.repeated(&more, &text);
    }
}
