//! What an undo took back: the operator reads it still, and a subscriber no longer.
//! Who undoes an edit wants it gone for others.

use std::collections::{HashMap, HashSet};

use herm::brain::FileVersion;
use herm::ids::RelPath;
use herm::{Digest, Reader, Result, StepKind};

/// The contents that a caller without `operate` may not be told of, by file.
#[derive(Debug, Default)]
pub(super) struct UndoneTexts(HashMap<RelPath, HashSet<Digest>>);

impl UndoneTexts {
    /// Those of a brain.
    pub(super) fn of(reader: &Reader) -> Result<Self> {
        let mut files: HashMap<RelPath, Vec<FileVersion>> = HashMap::new();
        for version in reader.versions_of_undone_files()? {
            files.entry(version.path.clone()).or_default().push(version);
        }
        let hidden = files.into_iter().map(|(path, versions)| {
            let (mut taken, mut standing) = (HashSet::new(), HashSet::new());
            for (version, is_taken_back) in versions.iter().zip(taken_back(&versions)) {
                let texts = if is_taken_back { &mut taken } else { &mut standing };
                texts.extend(version.digest);
            }
            (path, &taken - &standing)
        });
        Ok(Self(hidden.collect()))
    }

    /// Whether a content of a file was taken back.
    pub(super) fn has(&self, path: &RelPath, digest: &Digest) -> bool {
        self.0.get(path).is_some_and(|digests| digests.contains(digest))
    }
}

/// Which versions of a file, oldest first, an undo has taken back: it brings back what stood before the step that it
/// undoes, and takes back all that came between. One that is undone itself has taken back nothing.
pub(super) fn taken_back(versions: &[FileVersion]) -> Vec<bool> {
    let mut taken = vec![false; versions.len()];
    let mut undone: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, version) in
        versions.iter().enumerate().filter(|(_, version)| matches!(version.kind, StepKind::Undo { .. }))
    {
        let back_to = versions[..at].iter().rposition(|earlier| earlier.digest == version.digest);
        // Nothing like it stood there before: there was no file.
        let undoes = back_to.map_or(0, |back_to| back_to + 1);
        undone.remove(&undoes).into_iter().flatten().for_each(|again| taken[again] = false);
        let newly: Vec<usize> = (undoes..at).filter(|at| !taken[*at]).collect();
        newly.iter().for_each(|at| taken[*at] = true);
        undone.insert(at, newly);
    }
    taken
}

#[cfg(test)]
mod tests {
    use herm::Timestamp;

    use super::*;

    fn version(step: i64, kind: StepKind, text: Option<&str>) -> FileVersion {
        let digest = text.map(|text| Digest::of(text.as_bytes()));
        FileVersion { step, version: step, at: Timestamp(step), kind, digest, path: "skills/x.md".parse().unwrap() }
    }

    #[test]
    fn an_undo_takes_back_all_since_the_step_that_it_undoes_and_an_undone_undo_nothing() {
        use StepKind::{Create, Task};
        const ROLLBACK: StepKind = StepKind::Undo { of: None };
        let history = [
            version(1, Create, Some("seed")),
            version(2, Task, Some("secret")),
            // It was built upon, and forced back.
            version(3, Task, Some("secret, and more")),
            version(4, ROLLBACK, Some("seed")),
        ];
        assert_eq!(taken_back(&history), [false, true, true, false]);
        let again = [&history[..], &[version(5, ROLLBACK, Some("secret, and more"))]].concat();
        assert_eq!(taken_back(&again), [false, false, false, true, false]);
        let one_by_one = [
            version(1, Create, Some("seed")),
            version(2, Task, Some("secret")),
            version(3, Task, Some("secret, and more")),
            version(4, ROLLBACK, Some("secret")),
            version(5, ROLLBACK, Some("seed")),
        ];
        assert_eq!(taken_back(&one_by_one), [false, true, true, true, false]);
        let made = [version(2, Task, Some("secret")), version(3, ROLLBACK, None), version(4, Task, Some("fine"))];
        assert_eq!(taken_back(&made), [true, false, false]);
    }
}
