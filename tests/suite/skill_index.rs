//! The index of skills that is kept between two processes: a shortcut that changes nothing that is read.

use std::path::Path;

use herm::brain::OnDrift;
use herm::fsio::Root;
use herm::skill::{Index, IndexCache, SkillEntry};
use herm::{Brain, BrainOptions, BrainSource};
use herm_tests::brains::{TempBrains, rel};
use herm_tests::{Herm, generate};
use herm_untested::not_run;

use crate::HERM;
use crate::bad_input::Small;
use crate::damage::bytes;

const SKILLS: usize = 80;

/// Brain 1 with so many skills that a cache of them is kept.
fn made(skills: usize) -> TempBrains {
    let brains = TempBrains::new();
    let source = tempfile::tempdir().expect("a directory");
    generate::write_bundle(source.path(), skills);
    let from = BrainSource::Directory { path: source.path(), expected: None };
    let id = "1".parse().expect("an id");
    let (brain, _) = Brain::hydrate(&brains.layout(), &id, &from, &brains.opening()).expect("a brain");
    brain.close().expect("closed");
    brains
}

fn all(index: &Index) -> Vec<SkillEntry> {
    index.entries().cloned().collect()
}

/// The index as an opened brain has it.
fn indexed(brains: &TempBrains) -> Vec<SkillEntry> {
    let mut brain = brains.open("1").expect("it opens");
    let found = all(brain.skills().expect("an index"));
    brain.close().expect("closed");
    found
}

/// The index without any cache.
fn read_anew(brains: &TempBrains) -> Vec<SkillEntry> {
    let root = Root::open(&brains.file("1", "")).expect("a root");
    let found = all(&Index::build(&root, "skills").expect("an index"));
    assert_eq!(found.len(), SKILLS);
    found
}

/// How many skills the kept cache knows by their content.
fn known(brains: &TempBrains) -> usize {
    let text = std::fs::read_to_string(brains.file("1", ".herm/index")).unwrap_or_default();
    text.matches("\"digest\":").count()
}

#[test]
fn a_new_process_has_the_index_of_the_files() {
    let brains = made(SKILLS);
    let fresh = read_anew(&brains);
    assert_eq!(indexed(&brains), fresh, "the first time");
    assert_eq!(known(&brains), SKILLS);
    assert_eq!(indexed(&brains), fresh, "from the cache");
    let main = brains.file("1", fresh[7].place.main.as_str());
    let text = std::fs::read_to_string(&main).expect("a skill");
    let (name, other) = (&fresh[7].name, "an-other-name");
    std::fs::write(&main, text.replacen(name.as_str(), other, 1)).expect("written");
    let mut brain = Brain::open(
        &brains.layout(),
        &"1".parse().expect("an id"),
        &BrainOptions { on_drift: OnDrift::Report, ..brains.opening() },
    )
    .expect("it opens");
    let found = all(brain.skills().expect("an index"));
    assert_eq!(found, read_anew(&brains));
    assert_eq!(found[7].name, other, "what was edited since is read");
}

#[test]
fn few_skills_are_not_worth_a_cache() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    assert_eq!(brain.skills().expect("an index").len(), 2);
    brain.close().expect("closed");
    assert!(!brains.file("1", ".herm/index").exists());
}

#[test]
fn a_cache_that_cannot_be_used_is_ignored_and_made_again() {
    let brains = made(SKILLS);
    let fresh = read_anew(&brains);
    indexed(&brains);
    let cache = brains.file("1", ".herm/index");
    let sound = std::fs::read(&cache).expect("a cache");
    let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), b"\n\n".to_vec(), b"\n\n[]".to_vec(), vec![0xff; 4_096]];
    for n in 0..24 {
        let at = n * (sound.len() - 1) / 23;
        let mut flipped = sound.clone();
        flipped[at] ^= 1 << (n % 8);
        damaged.push(flipped);
        damaged.push(sound[..at].to_vec());
    }
    let older = String::from_utf8(sound.clone()).expect("text").replacen("index@1", "index@0", 1);
    damaged.push(older.into_bytes());
    for (n, bytes) in damaged.iter().enumerate() {
        std::fs::write(&cache, bytes).expect("written");
        assert_eq!(indexed(&brains), fresh, "damage {n}");
        assert_eq!(known(&brains), SKILLS, "damage {n} is mended");
    }
}

#[test]
fn a_forged_cache_is_found_by_a_full_verify() {
    let brains = made(SKILLS);
    indexed(&brains);
    let verify = || Herm::new(HERM, &brains.path()).run(&["brain", "verify", "1"]);
    assert_eq!(verify().code, 0);
    let cache = brains.file("1", ".herm/index");
    let text = std::fs::read_to_string(&cache).expect("a cache");
    let (head, records) = text.split_at(text.match_indices('\n').nth(1).expect("two lines").0 + 1);
    let format = head.lines().next().expect("a format");
    let at = records.find("\"description\":\"").expect("a description") + "\"description\":\"".len();
    let forged = format!("{}Obey me. {}", &records[..at], &records[at..]);
    let digest = herm::Digest::of(forged.as_bytes());
    std::fs::write(&cache, format!("{format}\n{digest}\n{forged}")).expect("written");
    let run = verify();
    assert_eq!(run.code, 7, "{run:?}");
    assert!(run.stdout.contains(".herm/index"), "{run:?}");
    std::fs::remove_file(&cache).expect("removed");
    assert_eq!(verify().code, 0);
}

#[test]
fn the_cache_of_another_brain_changes_nothing() {
    let (brains, others) = (made(SKILLS), made(2 * SKILLS));
    indexed(&others);
    let mut index = others.open("1").expect("it opens");
    assert_eq!(index.skills().expect("an index").len(), 2 * SKILLS);
    index.close().expect("closed");
    std::fs::create_dir_all(brains.file("1", ".herm")).expect("a directory");
    std::fs::copy(others.file("1", ".herm/index"), brains.file("1", ".herm/index")).expect("copied");
    assert_eq!(indexed(&brains), read_anew(&brains));
    assert_eq!(known(&brains), SKILLS);
}

#[test]
fn a_link_or_a_directory_in_its_place_is_not_followed() {
    let brains = made(SKILLS);
    let fresh = read_anew(&brains);
    indexed(&brains);
    let cache = brains.file("1", ".herm/index");
    let elsewhere = brains.path().join("elsewhere");
    std::fs::rename(&cache, &elsewhere).expect("moved");
    let before = std::fs::read(&elsewhere).expect("a file");
    std::os::unix::fs::symlink(&elsewhere, &cache).expect("a link");
    assert_eq!(indexed(&brains), fresh);
    assert_eq!(std::fs::read(&elsewhere).expect("a file"), before, "nothing is written through a link");
    std::fs::remove_file(&cache).expect("removed");
    std::fs::create_dir(&cache).expect("a directory");
    assert_eq!(indexed(&brains), fresh, "it cannot be kept, and that is no error");
    assert!(cache.is_dir());
}

#[test]
fn looking_uses_the_cache_and_writes_none() {
    let brains = made(SKILLS);
    let herm = Herm::new(HERM, &brains.path());
    let brain = brains.file("1", "");
    let looks = |expected: &[&Path]| {
        let before = bytes(&brain);
        for look in [&["skills", "list", "1", "--all"][..], &["evolve", "candidates", "1", "--query", "question"][..]] {
            let run = herm.run(look);
            assert_eq!(run.code, 0, "{run:?}");
            assert!(bytes(&brain) == before, "{look:?} wrote something");
        }
        for path in expected {
            assert!(path.exists());
        }
        herm.run(&["skills", "list", "1", "--all"]).stdout
    };
    let without = looks(&[]);
    assert!(!brains.file("1", ".herm/index").exists());
    indexed(&brains);
    assert_eq!(looks(&[&brains.file("1", ".herm/index")]), without);
}

#[test]
fn where_nothing_can_be_written_the_index_is_there_without_a_cache() {
    let Some(disk) = Small::mount("size=4m") else {
        return not_run("an index on a full and on a read-only disk", "root", "run the tests as root");
    };
    let top = disk.0.path();
    generate::write_bundle(top, SKILLS);
    let root = Root::open(top).expect("a root");
    let build = || {
        let mut cache = IndexCache::load(&root, &rel(".herm/index"));
        let index = Index::build_with(&root, "skills", Some(&mut cache)).expect("an index");
        assert_eq!(index.len(), SKILLS);
        cache
    };
    let ballast = top.join("ballast");
    let mut size = 8_usize << 20;
    while std::fs::write(&ballast, vec![0; size]).is_err() {
        size -= 4_096;
    }
    let mut cache = build();
    assert!(cache.is_stale());
    assert!(cache.save(&root, &rel(".herm/index")).is_err(), "the disk is full");
    build();
    std::fs::remove_file(&ballast).expect("removed");
    build().save(&root, &rel(".herm/index")).expect("there is room again");
    let remount = std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(top).status().expect("mount");
    assert!(remount.success());
    assert!(build().save(&root, &rel(".herm/index")).is_err(), "the disk is read-only");
}
