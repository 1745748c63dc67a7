//! `herm models` in a build that has none.

use herm_tests::Herm;

use crate::HERM;

#[test]
fn a_build_without_local_models_says_how_to_get_one_that_has_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let herm = Herm::new(HERM, dir.path());
    for arguments in [
        &["models", "list"][..],
        &["models", "check", "x"],
        &["models", "pull", "a/b/c.gguf"],
        &["run", "1", "--backend", "local", "--model", "x.gguf", "hello"],
    ] {
        let run = herm.run(arguments);
        assert_eq!(run.code, 3, "{arguments:?}: {run:?}");
        assert!(run.stderr.contains("this build has no local models"), "{arguments:?}: {run:?}");
        assert!(run.stderr.contains("hint: build it with `cargo build --release --features local`"), "{run:?}");
    }
}
