//! The canonical agents, embedded from `seed/agents/`.

use herm::{BrainId, Error, Result, Seed};

/// The files of a seed by path.
type Files = &'static [(&'static str, &'static [u8])];

include!(concat!(env!("OUT_DIR"), "/seeds.rs"));

/// The numbers of the embedded agents.
pub(crate) fn ids() -> impl Iterator<Item = &'static str> {
    SEEDS.iter().map(|(id, _)| *id)
}

/// The files of one embedded agent, examples included.
pub(crate) fn files(id: &str) -> Option<Files> {
    SEEDS.iter().find(|(seed, _)| *seed == id).map(|(_, files)| *files)
}

/// One embedded agent; `NotFound` where no seed has this number.
pub(crate) fn get(id: &BrainId) -> Result<Seed<'_>> {
    match files(id.as_str()) {
        Some(files) => Ok(Seed { id, files }),
        None => Err(Error::not_found(format!("there is no seed {id}")).hint(format!(
            "the seeds are {}; start from one with `herm init {id} --seed 1`, or from your own files with --from DIR",
            ids().collect::<Vec<_>>().join(", ")
        ))),
    }
}
