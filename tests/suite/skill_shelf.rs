//! Skills outside the brain: seen, read, and never written.

use std::path::{Path, PathBuf};

use herm::ErrorKind;
use herm::skill::SkillDirs;
use herm::skill::external::SkillDirCollision;
use herm_tests::brains::{skill_text, slug};
use herm_tests::{Herm, TempBrains};
use serde_json::json;

use crate::HERM;

fn put(dir: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    std::fs::write(path, content).expect("written");
}

fn listed(shelf: &SkillDirs) -> Vec<String> {
    let name = |dir: &Path| dir.file_name().expect("a name").to_string_lossy().into_owned();
    shelf.entries().map(|shelved| format!("{}@{}", shelved.entry.place.slug, name(shelved.dir))).collect()
}

#[test]
fn earlier_directories_win_and_everything_is_kept_up_to_date() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    put(&at("one"), "mail/SKILL.md", skill_text("mail", "one"));
    put(&at("real"), "cat/mail/SKILL.md", skill_text("mail", "two"));
    put(&at("real"), "cat/web.md", skill_text("web", "two"));
    put(&at("real"), "odd/skill.md", skill_text("odd", "two"));
    put(&at("real"), "broken.md", [0xff]);
    std::os::unix::fs::symlink(at("real"), at("link")).expect("linked");
    let mut shelf = SkillDirs::new(vec![at("missing"), at("one"), at("link"), at("real")]);
    assert_eq!(shelf.entries().count(), 0, "nothing is read before it is asked for");
    let delta = shelf.update().expect("a delta");
    assert_eq!((delta.added.len(), delta.total), (3, 3));
    assert_eq!(listed(&shelf), ["mail@one", "odd@link", "web@link"]);
    assert_eq!(shelf.get(&slug("web")).expect("there").entry.category.as_deref(), Some("cat"));
    let collision = SkillDirCollision { slug: slug("mail"), winner: at("one"), loser: at("link") };
    assert_eq!(shelf.collisions(), [collision]);
    let problems: Vec<&str> = shelf.problems().iter().map(|problem| problem.path.as_str()).collect();
    let shown = |path: PathBuf| path.display().to_string();
    assert_eq!(problems, [shown(at("missing")), shown(at("real")), shown(at("link/broken.md"))]);

    let delta = shelf.update().expect("a delta");
    assert_eq!((delta.unchanged, delta.total), (3, 3));

    // Edited in place, repaired, added, removed; and a directory that is there now.
    put(&at("real"), "odd/skill.md", skill_text("odd", "x").replace("Does odd", "Does it all"));
    put(&at("real"), "broken.md", skill_text("broken", "no longer"));
    put(&at("real"), "cat/new/SKILL.md", skill_text("new", "x"));
    std::fs::remove_file(at("real/cat/web.md")).expect("removed");
    put(&at("missing"), "late.md", skill_text("late", "x"));
    put(&at("missing"), "mail.md", skill_text("mail", "zero"));
    let delta = shelf.update().expect("a delta");
    assert_eq!(delta.added, [slug("broken"), slug("late"), slug("new")]);
    assert_eq!((delta.removed, delta.changed), (vec![slug("web")], vec![slug("mail"), slug("odd")]));
    assert!(shelf.read(&slug("mail"), None).expect("a text").contains("zero"));

    // A directory that goes away takes its skills along, and one that comes back brings them.
    std::fs::rename(at("missing"), at("elsewhere")).expect("moved");
    assert_eq!(shelf.update().expect("a delta").removed, [slug("late")]);
    assert_eq!(listed(&shelf), ["broken@link", "mail@one", "new@link", "odd@link"]);
    std::fs::rename(at("elsewhere"), at("missing")).expect("moved");
    assert_eq!(shelf.update().expect("a delta").added, [slug("late")]);
}

#[test]
fn only_text_of_the_skill_itself_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let lib = dir.path().join("lib");
    put(&lib, "tool/SKILL.md", skill_text("tool", "x"));
    put(&lib, "tool/references/notes.md", "notes\n");
    put(&lib, "tool/references/deep/more.md", "more\n");
    put(&lib, "tool/assets/logo.png", [0x89, b'P', 0]);
    put(&lib, "tool/scripts/big.sh", vec![b'x'; (1 << 20) + 1]);
    put(&lib, "tool/LICENSE", "MIT\n");
    put(&lib, "tool/.env", "KEY=value\n");
    put(&lib, "tool/.git/config", "[remote]\n");
    put(&lib, "flat.md", skill_text("flat", "x"));
    put(dir.path(), "outside.md", "outside\n");
    std::os::unix::fs::symlink(dir.path().join("outside.md"), lib.join("tool/references/link.md")).expect("linked");
    std::os::unix::fs::symlink(dir.path(), lib.join("tool/templates")).expect("linked");
    let mut shelf = SkillDirs::new(vec![lib.clone()]);
    shelf.update().expect("a delta");
    let read = |file: &str| shelf.read(&slug("tool"), Some(file));
    assert_eq!(read("references/deep/more.md").expect("a text"), "more\n");
    assert_eq!(read("LICENSE").expect("a text"), "MIT\n");
    assert_eq!(shelf.read(&slug("flat"), None).expect("a text"), skill_text("flat", "x"));
    for (file, kind) in [
        ("../flat.md", ErrorKind::InvalidInput),
        ("references/../../flat.md", ErrorKind::InvalidInput),
        ("/etc/hostname", ErrorKind::InvalidInput),
        (".env", ErrorKind::Refused),
        (".git/config", ErrorKind::NotFound),
        ("assets/logo.png", ErrorKind::Refused),
        ("scripts/big.sh", ErrorKind::Refused),
        ("references/link.md", ErrorKind::Refused),
        ("templates/outside.md", ErrorKind::Refused),
        ("references/none.md", ErrorKind::NotFound),
        ("references/deep", ErrorKind::Refused),
    ] {
        let error = read(file).expect_err(file);
        assert_eq!(error.kind(), kind, "{file}: {error}");
        assert!(error.hint_text().is_some(), "{file}");
    }
    assert_eq!(shelf.read(&slug("flat"), Some("references/x.md")).expect_err("flat").kind(), ErrorKind::NotFound);
    assert_eq!(shelf.read(&slug("nobody"), None).expect_err("nobody").kind(), ErrorKind::NotFound);
    assert_eq!(
        shelf.files(&slug("tool")).expect("files"),
        ["LICENSE", "assets/logo.png", "references/deep/more.md", "references/notes.md", "scripts/big.sh"]
    );
    assert_eq!(shelf.files(&slug("flat")).expect("files"), Vec::<String>::new());
}

#[test]
fn the_list_shows_where_skills_are_from_and_why_some_are_hidden() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let outside = tempfile::tempdir().expect("a directory");
    let lib = outside.path().join("lib");
    put(&lib, "web/fetch/SKILL.md", skill_text("fetch", "x"));
    put(&lib, "flat-one.md", skill_text("flat-one", "x"));
    put(&lib, "off.md", skill_text("off", "x"));
    put(&lib, "needy.md", "---\nname: needy\ndescription: d\nrequires: [flat-one, nobody]\n---\nx\n");
    put(&lib, "other.md", "---\nname: other\ndescription: d\nplatforms: [plan9]\n---\nx\n");
    let config = brains.path().join("config.toml");
    let say = |text: &str| std::fs::write(&config, format!("[skills]\n{text}\n")).expect("written");
    let herm = Herm::new(HERM, &brains.path());
    let with = |arguments: &[&str]| {
        let mut command = herm.command(&["--config", config.to_str().expect("UTF-8")]);
        command.args(arguments).env("LIBRARIES", outside.path());
        let output = command.output().expect("started");
        let text =
            |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8").replace(&lib.display().to_string(), "[lib]");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    say("external_dirs = [\"${LIBRARIES}/lib\", \"~/none\"]\ndisabled = [\"off\"]");
    let before = herm.json(&["brain", "show", "1"]).1["brain"]["lock"].clone();
    let (code, text, notes) = with(&["skills", "list", "1"]);
    assert_eq!(code, Some(0), "{notes}");
    let squeezed: Vec<String> =
        text.lines().map(|line| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        squeezed,
        ["SKILL STATE USES DESCRIPTION", "dir-one active 0 Does", "fetch external, [lib] -", "flat-one active 0 Does"]
    );
    assert!(
        notes.contains("none: cannot read") && notes.contains("4 skills are hidden: see why with --all"),
        "{notes}"
    );
    let (_, text, _) = with(&["skills", "list", "1", "--all"]);
    for line in [
        "external, [lib], hidden: shadowed by skills/flat-one.md",
        "external, [lib], hidden: requires nobody",
        "external, [lib], hidden: disabled",
        "external, [lib], hidden: other platform",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (code, text, _) = with(&["skills", "view", "1", "fetch"]);
    assert!(code == Some(0) && text.contains("name: fetch"), "{text}");
    let (code, _, notes) = with(&["skills", "view", "1", "nobody"]);
    assert!(code == Some(4) && notes.contains("there is no skill"), "{notes}");
    let (_, text, _) = with(&["--json", "skills", "list", "1"]);
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["skills"][1]["external"], json!("[lib]"));
    assert_eq!(document["skills"][1]["path"], json!("web/fetch/SKILL.md"));
    assert_eq!(document["hidden"][0]["why"], json!({ "shadowed": { "by": "skills/flat-one.md" } }));
    assert_eq!(document["hidden"][1]["why"], json!({ "requires": "nobody" }));
    assert_eq!(herm.json(&["brain", "show", "1"]).1["brain"]["lock"], before, "looking changes nothing");

    for (text, says) in [
        ("external_dirs = [\"$NOT_SET/x\"]", "needs the variable NOT_SET, which is not set"),
        ("disabled = [\"Not A Name\"]", "disabled of [skills]"),
        ("external = []", "unknown field `external`"),
    ] {
        say(text);
        let (code, _, error) = with(&["skills", "list", "1"]);
        assert!(code == Some(2) && error.contains(says) && error.contains("hint"), "{text}: {error}");
    }
}
