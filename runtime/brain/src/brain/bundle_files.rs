//! The files a new brain begins with, wherever they come from.

use std::collections::BTreeMap;
use std::path::Path;

use super::hydrate::{BrainSource, Seed};
use super::manifest::{MAX_MANIFEST_BYTES, ManifestBundle};
use crate::bundle::{BrainOrigin, BundlePart};
use crate::error::{Error, Result};
use crate::fsio::{self, Dir, Root, ScanAction, SurveyLimits};
use crate::ids::{Digest, RelPath};
use crate::layout;
use crate::skill::CreatedBy;

/// The most a new brain may weigh.
const MAX_TOTAL_BYTES: u64 = 256 << 20;

/// What a brain will be made of.
#[derive(Debug)]
pub(super) struct BundleFiles {
    pub(super) files: BTreeMap<RelPath, Vec<u8>>,
    pub(super) origin: BrainOrigin,
    pub(super) expected: Option<Digest>,
    pub(super) created_by: CreatedBy,
    pub(super) summary: String,
}

impl BundleFiles {
    /// Collects and checks the files of `source`. Nothing is written.
    pub(super) fn collect(source: &BrainSource<'_>) -> Result<Self> {
        let bundle = match source {
            BrainSource::Seed(seed) => Self::of_seed(seed)?,
            BrainSource::Manifest { json, expected } => Self::of_manifest(json, *expected)?,
            BrainSource::Directory { path, expected } => Self::of_directory(path, *expected)?,
        };
        if !bundle.files.contains_key(&layout::rel(layout::SYSTEM)?) {
            return Err(Error::invalid("a brain needs a system.md, and there is none")
                .hint("write the agent's role and its final-answer schema into system.md"));
        }
        if let Some(path) = bundle.files.keys().find(|path| BundlePart::of(path.as_str()).is_none()) {
            return Err(Error::invalid(format!("{path} is not part of a brain"))
                .hint("docs/reference/brain.md lists what a brain holds"));
        }
        for path in bundle.files.keys() {
            let mut above = path.parent();
            while let Some(dir) = above {
                if bundle.files.contains_key(&dir) {
                    return Err(
                        Error::invalid(format!("{dir} is a file and cannot hold {path}")).hint("rename one of them")
                    );
                }
                above = dir.parent();
            }
        }
        for (path, content) in &bundle.files {
            if content.len() as u64 > layout::MAX_FILE_BYTES {
                return Err(Error::invalid(format!("{path} is larger than {} bytes", layout::MAX_FILE_BYTES))
                    .hint("make it smaller, or leave it out"));
            }
        }
        Ok(bundle)
    }

    fn of_seed(seed: &Seed<'_>) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (path, content) in seed.files {
            let path: RelPath = path.parse()?;
            // Examples are for people who try the agent. They do not go into its brain.
            if BundlePart::of(path.as_str()).is_some() {
                files.insert(path, content.to_vec());
            }
        }
        Ok(Self {
            files,
            origin: BrainOrigin::Seed { seed: seed.id.clone() },
            expected: None,
            created_by: CreatedBy::Seed,
            summary: format!("created from seed {}", seed.id),
        })
    }

    fn of_manifest(json: &[u8], expected: Option<Digest>) -> Result<Self> {
        if json.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(Error::invalid(format!("a manifest may have {MAX_MANIFEST_BYTES} bytes"))
                .hint("put the files into a directory and use --from"));
        }
        let parcel = ManifestBundle::parse(json)?;
        let manifest = parcel.manifest();
        let mut files: BTreeMap<RelPath, Vec<u8>> =
            parcel.files.into_iter().map(|(path, content)| (path, content.into_bytes())).collect();
        if files.insert(layout::rel(layout::MANIFEST)?, manifest.to_bytes()?).is_some() {
            return Err(Error::invalid("a manifest does not carry a manifest.json: it is one")
                .hint("take manifest.json out of its files"));
        }
        let expected = agree(parcel.expected_hash, expected)?;
        Ok(Self {
            files,
            origin: BrainOrigin::Manifest { expected },
            expected,
            created_by: CreatedBy::Imported,
            summary: format!("created from the manifest of {}", manifest.name),
        })
    }

    fn of_directory(path: &Path, expected: Option<Digest>) -> Result<Self> {
        let root = Root::open(path)?;
        let mut top = Dir::default();
        let survey = fsio::survey(&root, &mut top, SurveyLimits::default(), &|path| {
            if layout::is_not_content(path) { ScanAction::Skip } else { ScanAction::List }
        })?;
        if let Some(odd) = survey.odd.first() {
            return Err(Error::refused(format!("{} in {} is {}", odd.path, path.display(), odd.what))
                .hint("a brain is made of regular files only: replace it or remove it"));
        }
        if root.stat(&layout::rel(layout::DATABASE)?)?.is_some() {
            return Err(Error::invalid(format!(
                "{} holds a memory.db: it is a brain, not the beginning of one",
                path.display()
            ))
            .hint("point --from at a directory with system.md, skills/ and patterns/ only"));
        }
        let mut files = BTreeMap::new();
        let mut total = 0;
        top.for_each_file(&mut |path, _| {
            if BundlePart::of(path).is_none() {
                return Ok(());
            }
            let path: RelPath = path.parse()?;
            let content = root.read(&path, layout::MAX_FILE_BYTES)?.unwrap_or_default();
            total += content.len() as u64;
            if total > MAX_TOTAL_BYTES {
                return Err(Error::invalid(format!("a new brain may weigh {MAX_TOTAL_BYTES} bytes, and this is more"))
                    .hint("leave out what the agent does not need"));
            }
            files.insert(path, content);
            Ok(())
        })?;
        let manifest_path = layout::rel(layout::MANIFEST)?;
        let mut promised = None;
        if let Some(bytes) = files.get(&manifest_path) {
            let parcel = ManifestBundle::parse(bytes)?;
            if !parcel.files.is_empty() {
                return Err(Error::invalid("manifest.json lists files, but the files are beside it")
                    .hint("use --manifest for a manifest that carries its files"));
            }
            promised = parcel.expected_hash;
            files.insert(manifest_path, parcel.manifest().to_bytes()?);
        }
        let expected = agree(promised, expected)?;
        let origin = match expected {
            Some(_) => BrainOrigin::Manifest { expected },
            None => BrainOrigin::Directory,
        };
        Ok(Self {
            files,
            origin,
            expected,
            created_by: CreatedBy::Imported,
            summary: "created from a directory".to_owned(),
        })
    }
}

/// The hash that is promised inside and the one that is asked for must be the same.
fn agree(promised: Option<Digest>, asked: Option<Digest>) -> Result<Option<Digest>> {
    match (promised, asked) {
        (Some(promised), Some(asked)) if promised != asked => {
            Err(Error::refused(format!("the manifest promises the bundle hash {promised}, and {asked} was asked for"))
                .hint("find out which hash is right before you go on"))
        }
        (promised, asked) => Ok(promised.or(asked)),
    }
}
