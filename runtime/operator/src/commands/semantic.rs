//! `herm semantic`: vectors of what brains hold.

use herm::harness::VectorProgress;
use herm::tool::EmbeddingUses;
use herm::{BrainId, Error, Harness, Result, semantic};
use serde_json::json;

use super::in_runtime;
use crate::cli::Semantic;
use crate::config::Settings;
use crate::output::{self, Answer};

pub(super) fn run(settings: &Settings, command: &Semantic, quiet: bool) -> Result<Answer> {
    match command {
        Semantic::Index { id } => index(settings, &id.parse()?, quiet),
    }
}

fn index(settings: &Settings, id: &BrainId, quiet: bool) -> Result<Answer> {
    if !semantic::is_built_in() {
        return Err(Error::unavailable("this build of herm runs no embedding models, so there are no vectors to make")
            .hint("build it with `--features semantic`, and set `embedder` in [semantic]"));
    }
    let embedder = settings.semantic.embedder()?.ok_or_else(|| {
        Error::invalid("no embedding model is configured").hint("set `embedder` in [semantic] to its directory")
    })?;
    let skills = settings.skills();
    let harness = Harness::builder()
        .brains(settings.layout.brains())
        .signer(settings.signer.get()?.clone())
        .wait(settings.lock_wait)
        .external_skills(skills.directories()?)
        .embedder(embedder)
        .embedding_uses(EmbeddingUses { recall: true, skills: true })
        .build()?;
    let told = |indexed: VectorProgress| {
        if !quiet {
            output::say(&format!("brain {id}: {} of {} vectors", indexed.made, indexed.missing));
        }
    };
    let indexed = in_runtime(async {
        let indexed = harness.index_vectors(id, told).await;
        // What was made is kept, also where the rest could not be.
        let closed = harness.shutdown().await;
        indexed.and_then(|indexed| closed.map(|()| indexed))
    })?;
    let text = match indexed {
        VectorProgress { missing: 0, .. } => format!("brain {id} lacks no vectors\n"),
        VectorProgress { made, .. } => format!("brain {id}: {made} vectors made\n"),
    };
    Ok(Answer::new(text, json!({ "id": id, "made": indexed.made, "missing": indexed.missing })))
}
