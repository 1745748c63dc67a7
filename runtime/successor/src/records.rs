//! What survives a successor: a directory for each signed verdict, with its report, measurements, patch and evaluation.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::evaluation::Evaluation;
use crate::fsio::{self, DirEntryKind, Root, SyncTiming};
use crate::ids::{RelPath, sha256};
use crate::layout::{self, Layout};
use crate::measure::EvaluationSample;
use crate::patch::Patch;
use crate::receipt::{Envelope, PublicKey, Signer};
use crate::report::VerdictReport;
use crate::verdict::{Artifact, Verdict};

/// The verdict as JSON.
pub(super) const VERDICT: &str = "verdict.json";
/// The DSSE envelope of the verdict: this file counts, and [`VERDICT`] must say the same.
pub(super) const SIGNED: &str = "verdict.dsse.json";
pub(super) const REPORT: &str = "report.html";
pub(super) const MEASUREMENTS: &str = "measurements.json";
pub(super) const PATCH: &str = "patch.json";
pub(super) const EVALUATION: &str = "evaluation.json";
/// The largest file that is read back.
pub(super) const MOST: u64 = 128 << 20;

/// The deepest directory of a record.
const MOST_DEPTH: usize = 12;

/// The verdicts of a brains directory.
#[derive(Debug, Clone)]
pub struct VerdictStore {
    root: PathBuf,
}

/// A verdict that was written down.
#[derive(Debug, Clone)]
pub struct VerdictRecord {
    /// Its name: the beginning of its hash.
    pub name: String,
    /// The directory of the record, with its artifacts.
    pub path: PathBuf,
    /// The verdict as the envelope holds it; who signed it is for the caller to check.
    pub verdict: Verdict,
    /// The DSSE envelope that the verdict was read from.
    pub envelope: Envelope,
    /// The patch, whose hash is that of the verdict.
    pub patch: Patch,
    /// The evaluation, whose hash is that of the verdict.
    pub evaluation: Evaluation,
}

impl VerdictRecord {
    /// The same, if every artifact is what was signed: a decision about a report must be about the signed one.
    fn whole(self) -> Result<Self> {
        let root = Root::open(&self.path)?;
        for artifact in &self.verdict.artifacts {
            let content = artifact.path.parse().ok().and_then(|path| root.read(&path, MOST).ok().flatten());
            if content.is_none_or(|content| sha256(&content) != artifact.sha256) {
                let what = format!("{} of verdict {} is not what was signed", artifact.path, self.name);
                return Err(Error::corrupt(what).hint("evaluate again, and do not rely on what is there"));
            }
        }
        Ok(self)
    }
}

/// What is to be written down.
pub(super) struct Saved<'a> {
    pub(super) verdict: Verdict,
    pub(super) patch: &'a Patch,
    pub(super) evaluation: &'a Evaluation,
    pub(super) samples: &'a [EvaluationSample],
}

impl VerdictStore {
    /// The verdicts of a brains directory.
    pub fn new(layout: &Layout) -> Self {
        Self { root: layout.successors().join("verdicts") }
    }

    /// A verdict in the making, in a directory that somebody else removes where it is not finished.
    pub(super) fn begin(&self, path: &Path) -> Result<Making> {
        fsio::create_dirs(path)?;
        fsio::create_dirs(&self.root)?;
        Ok(Making { records: self.clone(), path: path.to_owned() })
    }

    /// The names of all verdicts, in no order.
    pub fn names(&self) -> Result<Vec<String>> {
        if !self.root.exists() {
            return Ok(Vec::new());
        }
        let entries = Root::open(&self.root)?.list()?;
        let is_record = |name: &String| name.len() == 16 && name.bytes().all(|c| c.is_ascii_hexdigit());
        Ok(entries
            .into_iter()
            .filter(|entry| entry.kind == DirEntryKind::Dir)
            .map(|entry| entry.name)
            .filter(is_record)
            .collect())
    }

    /// Every verdict that can be read, newest first, and the names of those that cannot.
    pub fn all(&self) -> Result<(Vec<VerdictRecord>, Vec<String>)> {
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        for name in self.names()? {
            match self.read(&name) {
                Ok(record) => records.push(record),
                Err(_) => unreadable.push(name),
            }
        }
        records.sort_by(|a, b| b.verdict.ended_at.cmp(&a.verdict.ended_at).then_with(|| a.name.cmp(&b.name)));
        Ok((records, unreadable))
    }

    /// The verdict whose name, or hash, begins so.
    pub fn find(&self, wanted: &str) -> Result<VerdictRecord> {
        self.read(&self.name_of(wanted)?)?.whole()
    }

    /// Where the verdict is whose name, or hash, begins so, whatever its directory holds.
    pub(super) fn place(&self, wanted: &str) -> Result<(String, PathBuf)> {
        let name = self.name_of(wanted)?;
        let path = self.root.join(&name);
        Ok((name, path))
    }

    fn name_of(&self, wanted: &str) -> Result<String> {
        let wanted = wanted.strip_prefix("sha256:").unwrap_or(wanted);
        let wanted = wanted.get(..wanted.len().min(16)).unwrap_or(wanted);
        let mut names: Vec<String> = self.names()?.into_iter().filter(|name| name.starts_with(wanted)).collect();
        match (names.pop(), names.is_empty(), wanted.len()) {
            (Some(name), true, 4..) => Ok(name),
            (Some(_), ..) => Err(Error::invalid(format!("{wanted:?} names more than one verdict, or is too short"))
                .hint("give more of it; `herm successor list` has the names")),
            (None, ..) => {
                Err(Error::not_found(format!("there is no verdict {wanted:?}"))
                    .hint("`herm successor list` has the names"))
            }
        }
    }

    fn read(&self, name: &str) -> Result<VerdictRecord> {
        let path = self.root.join(name);
        let root = Root::open(&path)?;
        let file = |file: &str| -> Result<Vec<u8>> {
            root.read(&file.parse()?, MOST)?
                .ok_or_else(|| Error::corrupt(format!("verdict {name} has lost its {file}")))
        };
        let envelope = Envelope::parse(&String::from_utf8_lossy(&file(SIGNED)?))?;
        // Which key it must be is for the caller to check.
        let key: PublicKey =
            envelope.keyid().ok_or_else(|| Error::corrupt(format!("verdict {name} is not signed")))?.parse()?;
        let verdict = Verdict::open(&envelope, &key)?;
        let (patch, evaluation) = (Patch::parse(&file(PATCH)?)?, Evaluation::read_back(&file(EVALUATION)?)?);
        let same = (verdict.patch_hash == patch.hash(), verdict.evaluation_hash == evaluation.hash()?);
        if same != (true, true) || !verdict.hash()?.starts_with(&format!("sha256:{name}")) {
            return Err(Error::corrupt(format!("verdict {name} and the files beside it do not belong together"))
                .hint("evaluate again"));
        }
        // What people and other programs read is the same byte for byte.
        if root.read(&VERDICT.parse()?, MOST)? != Some(json(&verdict)?) {
            return Err(Error::corrupt(format!("{VERDICT} of verdict {name} is not the verdict that was signed"))
                .hint(format!("{SIGNED} beside it is what counts; evaluate again")));
        }
        Ok(VerdictRecord { name: name.to_owned(), path, verdict, envelope, patch, evaluation })
    }

    /// Removes a verdict with its artifacts.
    pub fn remove(&self, wanted: &str) -> Result<PathBuf> {
        // Also one that nobody can read any more.
        let (_, path) = self.place(wanted)?;
        fsio::remove_tree(&path)?;
        Ok(path)
    }
}

/// A verdict in the making.
#[derive(Debug)]
pub(super) struct Making {
    records: VerdictStore,
    path: PathBuf,
}

impl Making {
    /// Where files for it go.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes everything, signs, and puts it in its place.
    pub(super) fn finish(self, saved: Saved<'_>, signer: &Signer) -> Result<(Verdict, PathBuf)> {
        let Saved { mut verdict, patch, evaluation, samples } = saved;
        let root = Root::open(&self.path)?;
        let mut artifacts = Vec::new();
        let mut keep = |kind: &str, name: &RelPath, content: &[u8]| {
            artifacts.push(Artifact {
                kind: kind.to_owned(),
                path: name.to_string(),
                sha256: sha256(content),
                bytes: content.len() as u64,
            });
        };
        let report = VerdictReport { verdict: &verdict, patch, evaluation, samples }.to_html();
        for (kind, name, content) in
            [("report", REPORT, report.into_bytes()), ("measurements", MEASUREMENTS, json(&samples)?)]
        {
            let name: RelPath = name.parse()?;
            root.replace(&name, &content, SyncTiming::Later)?;
            keep(kind, &name, &content);
        }
        for name in below(&root, None, 0)? {
            if [REPORT, MEASUREMENTS].contains(&name.as_str()) {
                continue;
            }
            let content = root.read(&name, MOST)?.unwrap_or_default();
            keep("output", &name, &content);
        }
        verdict.artifacts = artifacts;
        let envelope = verdict.seal(signer)?;
        for (name, content) in [
            (PATCH, patch.bytes().to_vec()),
            (EVALUATION, json(evaluation)?),
            (VERDICT, json(&verdict)?),
            (SIGNED, envelope.to_line()?.into_bytes()),
        ] {
            root.replace(&name.parse()?, &content, SyncTiming::Now)?;
        }
        root.clear_temporaries()?;
        let hash = verdict.hash()?;
        let name = hash.strip_prefix("sha256:").and_then(|hash| hash.get(..16)).unwrap_or(&hash).to_owned();
        let place = self.records.root.join(&name);
        fsio::rename_durably(&self.path, &place)?;
        Ok((verdict, place))
    }
}

/// Regular files below, by path; links and the like are not there.
fn below(root: &Root, dir: Option<&RelPath>, depth: usize) -> Result<Vec<RelPath>> {
    let here = match dir {
        None => root.list()?,
        Some(dir) => match root.below(dir)? {
            Some(below) => below.list()?,
            None => return Ok(Vec::new()),
        },
    };
    let mut files = Vec::new();
    for entry in here {
        let path: std::result::Result<RelPath, _> = match dir {
            None => entry.name.parse(),
            Some(dir) => format!("{dir}/{}", entry.name).parse(),
        };
        let Ok(path) = path else { continue };
        match entry.kind {
            DirEntryKind::File => files.push(path),
            // Files on their way to their names are nobody's yet.
            DirEntryKind::Dir if dir.is_none() && entry.name == layout::INTERNAL_DIR => {}
            DirEntryKind::Dir if depth < MOST_DEPTH => files.extend(below(root, Some(&path), depth + 1)?),
            _ => {}
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn json(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|source| Error::internal("a record cannot be written").because(source))?;
    bytes.push(b'\n');
    Ok(bytes)
}
