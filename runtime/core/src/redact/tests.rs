use super::*;

#[test]
fn keys_and_tokens_are_found_and_nothing_else_is_touched() {
    let key = format!("sk-ant-{}", "a1B2".repeat(8));
    let cases = [
        (format!("use {key} here"), "use [redacted] here".to_owned()),
        (format!("Authorization: Bearer {}", "x9".repeat(20)), "Authorization: Bearer [redacted]".to_owned()),
        ("password = \"hunter2hunter2\"".to_owned(), "password = \"[redacted]\"".to_owned()),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\nrest".to_owned(),
            "[redacted]\nrest".to_owned(),
        ),
    ];
    for (text, clean) in cases {
        assert_eq!(redact(&text), clean);
    }
    let token = format!("eyJ{}.eyJ{}.{}", "hbGciOi1", "zdWIiOiIxMjM0", "s9XyZ_-a".repeat(3));
    assert_eq!(redact(&format!("({token})")), "([redacted])");
    assert_eq!(redact("at postgres://me:hunter2@db:5432/x now"), "at postgres://me:[redacted]@db:5432/x now");
}

#[test]
fn evidence_keeps_nothing_that_stands_where_a_secret_does() {
    for (text, clean) in [
        ("Authorization: Basic dTpw\nrest", "Authorization: [redacted]\nrest"),
        ("{\"authorization\": \"abc\", \"n\": 1}", "{\"authorization\": \"[redacted]\", \"n\": 1}"),
        ("X-Api-Key: short", "X-Api-Key: [redacted]"),
        ("export DB_PASS=pw && run", "export DB_PASS=[redacted] && run"),
        ("MY_API_TOKEN=\"two words\" x", "MY_API_TOKEN=\"[redacted]\" x"),
        ("aws_secret_access_key = wJalr/x+y", "aws_secret_access_key = [redacted]"),
        ("{\"token\": \"abc\"}", "{\"token\": \"[redacted]\"}"),
        ("postgres://app:%40dm1nP4ss@db/prod", "postgres://app:[redacted]@db/prod"),
        ("{\"AWS_SECRET_ACCESS_KEY\": \"a b\"}", "{\"AWS_SECRET_ACCESS_KEY\": \"[redacted]\"}"),
        ("SIGNING_KEY: abc", "SIGNING_KEY: [redacted]"),
        ("API_TOKEN = x1", "API_TOKEN = [redacted]"),
        ("token=x1&next=2", "token=[redacted]&next=2"),
        ("secret: x1", "secret: [redacted]"),
        ("X-Auth-Token: x1", "X-Auth-Token: [redacted]"),
        ("AccountKey=abc==;Next", "AccountKey=[redacted];Next"),
        ("config['db_password'] = 'pw'", "config['db_password'] = '[redacted]'"),
        ("password: abc", "password: [redacted]"),
        ("{\"password\": \"abc\"}", "{\"password\": \"[redacted]\"}"),
        ("{\\\"password\\\": \\\"abc\\\"}", "{\\\"password\\\": \\\"[redacted]\"}"),
    ] {
        assert_eq!(scrub(text), clean);
    }
    let same = [
        "KEYBOARD=us",
        "x = 1; TOKENS == 2",
        "API_KEY=$API_KEY",
        "password:",
        "monkey=1",
        "max_tokens: 512",
        "token == x",
        "password: ${DB_PASSWORD}",
        "token: <your-token>",
        "secret: [redacted]",
        "keys: 3",
    ];
    for text in same {
        assert_eq!(scrub(text), text);
    }
}

#[test]
fn keys_of_issuers_that_shapes_alone_tell_are_found_wherever_they_stand() {
    let tail = |length: usize| -> String { "q7RtZ4vBnL3sDk9Xw2mPfH8jYc5eUaG6".chars().cycle().take(length).collect() };
    let cases = [
        ("Groq", format!("gsk_{}", tail(52))),
        ("xAI", format!("xai-{}", tail(80))),
        ("HashiCorp Vault", format!("hvs.CAESI{}", tail(90))),
        ("Telegram", format!("7263519482:AA{}", tail(33))),
        ("Slack", format!("https://hooks.slack.com/services/T04KQ7RB2ZX/B05M8WNPL3D/{}", tail(24))),
        ("Slack", format!("https://hooks.slack.com/triggers/T04KQ7RB2ZX/4827193650284/{}", tail(32))),
    ];
    for (whose, secret) in cases {
        for (before, after) in [("the key is ", " now"), ("`", "`"), ("X=\"", "\"\nrest"), ("", "")] {
            let text = format!("{before}{secret}{after}");
            let [found] = find(&text).try_into().unwrap_or_else(|found| panic!("{text}: {found:?}"));
            assert_eq!((found.whose, found.sample), (whose, false), "{text}");
            let clean = redact(&text);
            assert!(clean.starts_with(before) && clean.ends_with(&format!("[redacted]{after}")), "{clean}");
            assert!(!clean.contains(&tail(20)), "{clean}");
        }
    }
    // One character too few is none of them.
    for text in [format!("7263519482:AA{}", tail(32)), format!("gsk_{}", tail(39)), format!("xai-{}", tail(59))] {
        assert_eq!(redact(&text), text);
    }
}

/// Quadratic time would show: each of these would take minutes.
#[test]
fn texts_made_to_be_slow_are_not() {
    for piece in [
        "password=",
        "-----BEGIN ",
        "-----BEGIN \n",
        "-----BEGIN PRIVATE KEY",
        "sk-",
        "Bearer ",
        "api_key: ",
        "eyJ",
        "://",
        "://a:b@",
        "cookie:",
        "AB_KEY=",
        "=",
        "eyJ.eyJ.",
    ] {
        scrub(&piece.repeat((1 << 20) / piece.len()));
    }
}

#[test]
fn what_public_skills_showed_is_no_real_secret() {
    for text in [
        "[{\"mnemonic\": \"FPF-ALLQHF_CDSDOWN250BPS_P5\"}]",
        "dsn := \"root:******@tcp(10.10.10.1:2881)/test?charset=utf8mb4&parseTime=True\"",
        "Token = `base64url(json_payload).base64url(hmac_sha256)`; payload carries `exp`",
        "https://files.example.io/a.png?alt=media&token=99013e3d-30cb-43c2-bef2-97f8770a2801",
        "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KNKQi38OHD2g==;",
        "\"GitHub Token\": r\"gh[pousr]_[A-Za-z0-9_]{36,}\",",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAAhello\nmorecontent\n-----END OPENSSH PRIVATE KEY-----",
    ] {
        assert!(find(text).iter().all(|found| found.sample), "{text}");
    }
    // Beside them, real ones are.
    for text in [
        "token: 883ada2fc996ab9487bed7a3ba21d2f1",
        "Token = `k9Xw2mPq7RtZ4vBnL3sD`",
        "password=99013e3d-30cb-43c2-bef2-97f8770a2801",
        "api_key = \"k9Xw2mPq7RtZ4vBnL3sD<your_key>\"",
        "password: \"ACME\\dK9x2mPq7Rt\"",
    ] {
        assert!(find(text).iter().any(|found| !found.sample), "{text}");
    }
}

#[test]
fn what_only_looks_like_one_stays() {
    for text in [
        "the password: ask the operator",
        "api_key = ${API_KEY}",
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "task-sk-list and risk-averse",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "password = 'changeme'",
        "see https://example.org:8080/a@b and git@host:repo",
        "eyJ.eyJ.x and eyJhbGciOi",
    ] {
        assert_eq!(redact(text), text);
    }
}

#[test]
fn a_token_that_names_a_place_or_a_device_is_no_secret_and_no_evidence() {
    let value = "q8ZrW1kXo4TnB7sLd2VhYc9GmEj5PfUa";
    for name in ["nextToken", "next_page_token", "version-token", "DEVICE_TOKEN", "syncToken"] {
        let text = format!("{name}: {value}");
        assert_eq!(redact(&text), text, "{name}");
        assert!(!scrub(&text).contains(value), "{name}");
    }
    for name in ["token", "accessToken", "DEPLOY_TOKEN", "session_token", "next_access_token"] {
        assert!(!redact(&format!("{name}: {value}")).contains(value), "{name}");
    }
}

#[test]
fn names_that_only_hold_the_name_of_a_secret_and_digests_of_passwords_are_none() {
    for text in [
        "sid = \"XFDSN:ZJ_A0001_40_E_I_E\"",
        "\"generateAuthKey\": \"bfe243b8b3262762a7c545d428cadc00cb81f4d2e2d01bc4fff76b538cb537d9\"",
        "\"recreateAcmeCredentials\": \"0868cd82335b2074fd2ec9183004830d69b2701b7e9ebe84066430e189f45718\"",
        "| password: *6691484ea6b50ddde1926a220da01fa9e575c18a",
        "'password' => 'required|min:8|confirmed',",
        "export ACME_SERVER_AUTH=acme.server.auth.providers.auth0.Auth0Provider",
        "token = f\"{header_b64}.{payload_b64}.{sig_b64}\"",
        "token = f\"__LAST30DAYS_ENGINE_FOOTER_{len(footers)}__\"",
    ] {
        assert_eq!(find(text), [], "{text}");
    }
    // What may be one by its name, and is public by its form, is taken away and said to be a sample.
    for text in [
        "token: '0xaf88d065e77c8cC2239327C5EDb3A432268e5831', // a coin",
        "pay send me --token EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        "export ACME_KEY=1484120AC4E9F8A1A577AEEE97A80C63C9D8B80B",
        "access_token=2YotnFZFEjr1zCsicMWpAA",
    ] {
        assert!(find(text).iter().all(|found| found.sample), "{text}");
    }
    for text in [
        "SENTRY_DSN: k9Xw2mPq7RtZ4vBnL3sD",
        "\"authKey\": \"bfe243b8b3262762a7c545d428cadc00cb81f4d2e2d01bc4fff76b538cb537d9\"",
        "\"generatedKey\": 1, \"apiKey\": \"k9Xw2mPq7RtZ4vBnL3sD\"",
        "token = f\"{prefix}k9Xw2mPq7RtZ4vBnL3sD\"",
        "export ACME_KEY=1484120ac4e9f8a1a577aeee97a80c63c9d8b80b",
        "secret: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'",
    ] {
        assert!(find(text).iter().any(|found| !found.sample), "{text}");
    }
}

#[test]
fn a_key_that_is_longer_than_any_password_is_taken_away_to_its_end() {
    let letters = b"q7RtZ4vBnL3sDk9Xw2mPfH8jYc5eUaG6+/";
    let body: String = (0..1_600_usize).map(|n| char::from(letters[(n * n + n / 7) % letters.len()])).collect();
    for text in [format!("{{\"private_key\": \"{body}==\"}}"), format!("PRIVATE_KEY={body}\nrest")] {
        let clean = redact(&text);
        assert!(clean.contains("[redacted]") && !clean.contains(&body[1_500..]), "{clean}");
    }
}
