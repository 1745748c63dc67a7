//! `herm init`: make a brain.

use herm::brain::{HydrateOutcome, MAX_MANIFEST_BYTES, OnDrift};
use herm::bundle::BrainOrigin;
use herm::fsio;
use herm::{Brain, BrainId, BrainSource, Digest, Error, Reader, Result};
use serde_json::json;

use super::brain::describe;
use super::finish;
use crate::cli::Init;
use crate::config::Settings;
use crate::output::Answer;
use crate::seeds;

pub(super) fn run(settings: &Settings, arguments: &Init) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let expected: Option<Digest> = arguments.expect.as_deref().map(str::parse).transpose()?;
    let seed_id: BrainId = arguments.seed.as_deref().unwrap_or(&arguments.id).parse()?;
    let json;
    let source = if let Some(path) = &arguments.from {
        BrainSource::Directory { path, expected }
    } else if let Some(path) = &arguments.manifest {
        json = fsio::read_regular(path, MAX_MANIFEST_BYTES)?;
        BrainSource::Manifest { json: &json, expected }
    } else {
        if expected.is_some() {
            return Err(Error::invalid("--expect needs --from or --manifest: a seed is part of this program"));
        }
        // An existing brain needs no seed of its number.
        match seeds::get(&seed_id) {
            Err(_) if arguments.seed.is_none() && settings.layout.brain(&id).exists() => {
                return Err(already_there(settings, &id));
            }
            seed => BrainSource::Seed(seed?),
        }
    };
    let (brain, hydrated) = Brain::hydrate(&settings.layout, &id, &source, &settings.open_options(OnDrift::Refuse))?;
    let same_seed = matches!(&brain.lock().origin, BrainOrigin::Seed { seed } if *seed == seed_id)
        && matches!(source, BrainSource::Seed(_));
    let unfinished = finish(brain)?;
    let created = hydrated == HydrateOutcome::Created;
    if !created && !same_seed {
        return Err(already_there(settings, &id));
    }
    let reader = Reader::open(&settings.layout, &id)?;
    let (text, brain) = describe(settings, &reader)?;
    let note = if created {
        format!("brain {id} is made; look again with `herm brain show {id}`")
    } else {
        format!("brain {id} was there already; nothing was copied over it")
    };
    Ok(Answer::new(text, json!({ "created": created, "brain": brain })).note(note).unfinished(unfinished))
}

fn already_there(settings: &Settings, id: &BrainId) -> Error {
    Error::conflict(format!("brain {id} exists already, at {}", settings.layout.brain(id).display()))
        .hint("choose another number; what a brain has learned is never overwritten")
}
