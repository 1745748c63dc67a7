//! Patches on brains that this server holds: what commands ask for, what is applied by itself in its window, and what the
//! mesh agreed to while this operator was away. Everything goes through the same gates as by command.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herm::fsio::{self, Root, SyncTiming};
use herm::ids::sha256;
use herm::successor::audit::{APPROVAL_FILE, CONSENSUS_FILE};
use herm::successor::auto::GateStatus;
use herm::successor::gate::{HttpTransport, Member, SignedConsensus};
use herm::successor::{SuccessorLayout, VerdictRecord, VerdictStore};
use herm::{BrainId, Error, ErrorKind, Layout, Result, brain};

use super::app::App;
use super::mesh::MeshState;
use crate::config::Settings;
use crate::operations::gate_status::standing;
use crate::operations::patches::{apply_with, take_back_with};
use crate::operations::server_requests::{self, Fulfilled, Request};

/// How often requests of commands are looked for.
const REQUESTS: Duration = Duration::from_millis(250);
/// How often verdicts are looked at whose gates may have opened.
const GATES: Duration = Duration::from_secs(2);
/// How often the others of the mesh are asked what was missed.
const MISSED: Duration = Duration::from_secs(600);
/// How long one of them has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The largest document of a gate.
const MOST: u64 = 8 << 20;

/// Does what commands ask for that cannot take a brain from this server, for as long as it runs.
pub(crate) async fn answer_requests(app: App) {
    loop {
        tokio::time::sleep(REQUESTS).await;
        let layout = app.settings.layout.clone();
        let taken = blocking(move || server_requests::take(&layout)).await;
        let requests = taken.unwrap_or_else(|error| {
            tracing::warn!(%error, "requests of commands cannot be read");
            Vec::new()
        });
        for (name, request) in requests {
            tokio::spawn(answer(app.clone(), name, request));
        }
    }
}

async fn answer(app: App, name: String, request: Request) {
    let done = carry_out(&app, &request).await;
    if let Err(error) = &done {
        tracing::warn!(?request, %error, "what a command asked for was not done");
    }
    let layout = app.settings.layout.clone();
    if let Err(error) = blocking(move || server_requests::answer(&layout, &name, done)).await {
        tracing::warn!(%error, "a command was not answered");
    }
}

async fn carry_out(app: &App, request: &Request) -> Result<Fulfilled> {
    match request {
        Request::Apply { verdict } => {
            let (records, wanted) = (VerdictStore::new(&app.settings.layout), verdict.clone());
            let record = blocking(move || records.find(&wanted)).await?;
            apply_with(&app.harness, &app.settings, &record).await.map(Fulfilled::Applied)
        }
        Request::TakeBack { brain, step } => take_back_with(&app.harness, brain, *step).await.map(Fulfilled::TakenBack),
    }
}

/// Applies what its gates opened for, in its window, where the operator allows that; and asks the mesh for what was missed.
/// Runs for as long as the server does.
pub(crate) async fn keep_in_step(app: App) {
    let applying = match app.settings.applying() {
        Ok(applying) => applying,
        Err(error) => {
            tracing::error!(%error, "no patch is applied by itself");
            return;
        }
    };
    // What came of a verdict with these documents, so that it is not asked again.
    let mut over: HashMap<String, String> = HashMap::new();
    let mut asked: Option<Instant> = None;
    loop {
        let is_due = applying.is_due(app.clock.now());
        if is_due && let Err(error) = apply_open(&app, &mut over).await {
            tracing::warn!(%error, "verdicts cannot be looked at");
        }
        if let Some(door) = &app.mesh
            && (asked.is_none_or(|asked| asked.elapsed() >= MISSED) || door.take_hint())
        {
            asked = Some(Instant::now());
            // What was found is applied first: the next epoch rests on it.
            if catch_up(&app, door, applying.is_automatic()).await {
                asked = None;
            }
        }
        tokio::time::sleep(GATES).await;
    }
}

/// Applies every patch whose gates are open.
async fn apply_open(app: &App, over: &mut HashMap<String, String>) -> Result<()> {
    let settings = app.settings.clone();
    let known = over.clone();
    let candidates = blocking(move || open(&settings, &known)).await?;
    for (name, documents, found) in candidates {
        let record = match found {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!(verdict = %name, %error, "a patch is not applied");
                over.insert(name, documents);
                continue;
            }
        };
        match apply_with(&app.harness, &app.settings, &record).await {
            Ok(applied) => {
                let brain = &record.verdict.base.brain;
                tracing::info!(%brain, verdict = %name, version = applied.version, "a patch was applied");
                over.insert(name, documents);
            }
            // Someone holds the brain, or the disk is full: it is tried again.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable) => {
                tracing::info!(verdict = %name, %error, "a patch is not applied yet");
            }
            Err(error) => {
                tracing::info!(verdict = %name, %error, "a patch is not applied");
                over.insert(name, documents);
            }
        }
    }
    Ok(())
}

type Candidate = (String, String, Result<VerdictRecord>);

/// The verdicts whose gates are open, by name and the digest of what was decided about them; those that cannot be read, too.
fn open(settings: &Settings, over: &HashMap<String, String>) -> Result<Vec<Candidate>> {
    let records = VerdictStore::new(&settings.layout);
    let mut found = Vec::new();
    for name in records.names()? {
        let path = SuccessorLayout::of(&settings.layout).verdicts().join(&name);
        let read = |file: &str| fsio::read_regular(&path.join(file), MOST).unwrap_or_default();
        let decided = [read(APPROVAL_FILE), read(CONSENSUS_FILE)].concat();
        let documents = sha256(&decided);
        if decided.is_empty() || over.get(&name) == Some(&documents) {
            continue;
        }
        let looked = records.find(&name).and_then(|record| match standing(settings, &record)? {
            GateStatus::Open { .. } => Ok(Some(record)),
            GateStatus::Waiting { .. } => Ok(None),
            GateStatus::Shut { why } => Err(Error::refused(why)),
        });
        match looked {
            Ok(None) => {}
            Ok(Some(record)) => found.push((name, documents, Ok(record))),
            Err(error) => found.push((name, documents, Err(error))),
        }
    }
    Ok(found)
}

/// Puts what the mesh agreed to beside this operator's own verdict, where the gate looks for it.
pub(crate) fn keep_consensus(layout: &Layout, verdict_hash: &str, consensus: &SignedConsensus) -> Result<()> {
    let record = VerdictStore::new(layout).find(verdict_hash)?;
    Root::open(&record.path)?.replace(&CONSENSUS_FILE.parse()?, consensus.to_line()?.as_bytes(), SyncTiming::Now)
}

/// Asks the others what the mesh decided meanwhile; whether something is to be applied before the rest is looked at.
async fn catch_up(app: &App, door: &MeshState, automatic: bool) -> bool {
    let layout = app.settings.layout.clone();
    let Ok(brains) = blocking(move || brain::list(&layout)).await else { return false };
    let Ok(transport) = HttpTransport::new().map(Arc::new) else { return false };
    let mut is_found = false;
    for id in brains {
        let others = door.node().mesh().members().iter().filter(|member| member.key != *door.node().key());
        for member in others.cloned().collect::<Vec<_>>() {
            match catch_up_from(app, door, &transport, (&id, &member), automatic).await {
                Ok(true) => {
                    is_found = true;
                    break;
                }
                Ok(false) => {}
                // It may be down, or of an earlier version; another one answers.
                Err(error) => {
                    tracing::debug!(brain = %id, member = %member.name, %error, "nothing was learned of the mesh");
                }
            }
        }
    }
    is_found
}

/// What one member knows; whether something of it is to be applied.
async fn catch_up_from(
    app: &App,
    door: &MeshState,
    transport: &HttpTransport,
    (id, member): (&BrainId, &Member),
    automatic: bool,
) -> Result<bool> {
    let (node, brain, key) = (door.node().clone(), id.clone(), member.key.clone());
    let asked = blocking(move || node.behind(&brain, &key)).await?;
    for missed in transport.missed(member, &asked, ANSWER_WITHIN).await? {
        let about = missed.consensus.predicate().about.clone();
        let (node, closing) = (door.node().clone(), missed.consensus.clone());
        if about.base.brain != *id || node.book().closed(id)? >= about.epoch {
            continue;
        }
        let is_passed = closing.recount(node.mesh())?.passed;
        let found = match (is_passed && automatic, node.book().vote(&about.proposal)?, &missed.proposal) {
            (true, Some(vote), _) => vote.predicate().verdict_hash.clone(),
            (true, None, Some(proposal)) => match node.catch_up(&closing, proposal).await {
                Ok(verdict) => Some(verdict),
                Err(error) if error.kind() == ErrorKind::Refused => {
                    tracing::warn!(brain = %id, epoch = about.epoch, %error, "this brain is out of step with the mesh");
                    None
                }
                // Not closed here: it is tried again.
                Err(error) => {
                    tracing::warn!(brain = %id, epoch = about.epoch, %error, "this brain is out of step with the mesh");
                    return Ok(false);
                }
            },
            _ => None,
        };
        let layout = app.settings.layout.clone();
        let is_found = found.is_some();
        blocking(move || {
            node.close(&closing)?;
            found.map_or(Ok(()), |verdict| keep_consensus(&layout, &verdict, &closing))
        })
        .await?;
        tracing::info!(brain = %id, epoch = about.epoch, from = %member.name, "caught up with the mesh");
        if is_found {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal("looking at patches was interrupted"))?
}
