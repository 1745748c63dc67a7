//! The mesh, from outside: members propose patches, and are answered with this operator's signed vote.
//!
//! Nobody needs a key of this operator here. What is sent is signed by a member, or it is refused; what is answered is
//! signed by this operator, and can be checked by anyone. Verifying runs beside the requests: one at a time, with one
//! more waiting, and it goes on when the one who asked is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use herm::ids::SystemRandom;
use herm::receipt::Envelope;
use herm::successor::gate::{
    ClosedEpoch, Mesh, MeshNode, MeshNodeParts, PatchVerifier, Signed, SignedCatchUpRequest, SignedConsensus,
    SignedProposal, SignedVote, VoteStore,
};
use herm::{Error, Result, SystemClock};
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinHandle};
use utoipa::ToSchema;

use super::app::App;
use super::body::Payload;
use super::patches::keep_consensus;
use super::problem::{HandlerResult, Problem, ProblemDocument};
use crate::config::Settings;

/// Proposals that are verified or wait for it.
const MOST_JOBS: usize = 2;
/// What came to nothing and is remembered, to be told to who asks again.
const MOST_VAIN: usize = 32;
/// How long a request waits for the vote before it is told to ask again.
const WAITS: Duration = Duration::from_secs(10);
/// When to ask again, in seconds.
const ASK_AGAIN: u64 = 5;

/// This operator as a node of the mesh.
#[derive(Debug, Clone)]
pub(crate) struct MeshState {
    node: MeshNode,
    jobs: Arc<Mutex<BTreeMap<String, Job>>>,
    turn: Arc<Semaphore>,
    /// Whether something was proposed that this operator is not in step for.
    hint: Arc<AtomicBool>,
}

/// What becomes of a proposal that has no vote yet.
#[derive(Debug)]
enum Job {
    /// It is verified, or waits for it.
    Open { proposer: String, over: watch::Receiver<bool>, voting: AbortHandle },
    /// It could not be verified.
    Failed(Problem),
    /// It was not judged. Such a vote counts for nothing and is not stored: only a member that asks soon is told.
    Unjudged(Box<SignedVote>),
}

impl MeshState {
    /// The node of these settings.
    pub(crate) fn open(settings: &Settings, mesh: Mesh, verifier: Arc<dyn PatchVerifier>) -> Result<Self> {
        let node = MeshNode::new(MeshNodeParts {
            mesh,
            signer: settings.signer.get()?.clone(),
            book: VoteStore::open(&settings.layout)?,
            verifier,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        })?;
        Ok(Self { node, jobs: Arc::default(), turn: Arc::new(Semaphore::new(1)), hint: Arc::default() })
    }

    /// This operator as a node of its mesh, for what is asked of other members.
    pub(crate) fn node(&self) -> &MeshNode {
        &self.node
    }

    /// Whether others seem to be further, since this was last asked.
    pub(crate) fn take_hint(&self) -> bool {
        self.hint.swap(false, Ordering::Relaxed)
    }

    /// Turns strangers away before anything they sent is looked into. That the key is really theirs is seen later.
    fn check_sender(&self, sent: &Envelope, what: &str) -> HandlerResult<()> {
        match sent.keyid().and_then(|key| key.parse().ok()) {
            Some(key) if self.node.mesh().member(&key).is_none() => {
                Err(Error::refused(format!("{key} signed the {what} and is no member here"))
                    .hint("members of the mesh are named in `[mesh.members]` of each")
                    .into())
            }
            _ => Ok(()),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a proposal verified, unless it already is; what turns true when that is over.
    fn take(&self, proposal: SignedProposal) -> HandlerResult<watch::Receiver<bool>> {
        let mut jobs = self.jobs();
        if let Some(Job::Open { over, .. }) = jobs.get(proposal.hash()) {
            return Ok(over.clone());
        }
        let by = proposal.key().to_string();
        let open = jobs.values().filter_map(|job| match job {
            Job::Open { proposer, .. } => Some(proposer),
            Job::Failed(_) | Job::Unjudged(_) => None,
        });
        let (mut count, mut has_one) = (0, false);
        for proposer in open {
            count += 1;
            has_one |= *proposer == by;
        }
        if has_one {
            return Err(Problem::too_many("another proposal of this member is being verified", ASK_AGAIN));
        }
        if count >= MOST_JOBS {
            return Err(Problem::too_many(format!("{count} proposals are being verified"), ASK_AGAIN));
        }
        let (done, over) = watch::channel(false);
        let hash = proposal.hash().to_owned();
        let (node, turn) = (self.node.clone(), Arc::clone(&self.turn));
        // On its own, so that a panic is one failed proposal, and so that it can be ended.
        let voting = tokio::spawn(async move {
            let _turn = turn.acquire_owned().await;
            node.vote(&proposal).await
        });
        jobs.insert(hash.clone(), Job::Open { proposer: by, over: over.clone(), voting: voting.abort_handle() });
        drop(jobs);
        tokio::spawn(self.clone().conclude(hash, voting, done));
        Ok(over)
    }

    /// Ends what is being verified, without a vote: the server stops.
    pub(crate) async fn stop(&self) {
        let open: Vec<watch::Receiver<bool>> = {
            let jobs = self.jobs();
            let open = jobs.values().filter_map(|job| match job {
                Job::Open { over, voting, .. } => {
                    voting.abort();
                    Some(over.clone())
                }
                Job::Failed(_) | Job::Unjudged(_) => None,
            });
            open.collect()
        };
        for mut over in open {
            // It is over as well if nobody is left to say so.
            let _ = over.wait_for(|over| *over).await;
        }
    }

    async fn conclude(self, hash: String, voting: JoinHandle<Result<SignedVote>>, done: watch::Sender<bool>) {
        let voted = voting.await.unwrap_or_else(|_| Err(Error::internal("verifying the proposal was interrupted")));
        let mut jobs = self.jobs();
        let vain = match voted {
            Ok(vote) => {
                let said = vote.predicate();
                tracing::info!(
                    proposal = %hash,
                    ruling = said.ruling.name(),
                    reason = said.reason.as_deref().unwrap_or_default(),
                    "voted on a proposal of the mesh"
                );
                if said.verdict_hash.is_none() {
                    self.hint.store(true, Ordering::Relaxed);
                }
                said.verdict_hash.is_none().then(|| Job::Unjudged(Box::new(vote)))
            }
            Err(error) => {
                tracing::warn!(proposal = %hash, %error, "a proposal of the mesh could not be verified");
                Some(Job::Failed(error.into()))
            }
        };
        match vain {
            None => drop(jobs.remove(&hash)),
            Some(vain) => {
                let is_vain = |job: &Job| !matches!(job, Job::Open { .. });
                if jobs.values().filter(|job| is_vain(job)).count() >= MOST_VAIN
                    && let Some(one) = jobs.iter().find_map(|(hash, job)| is_vain(job).then(|| hash.clone()))
                {
                    jobs.remove(&one);
                }
                jobs.insert(hash, vain);
            }
        }
        drop(jobs);
        done.send_replace(true);
    }

    /// What there is to say of a proposal.
    async fn answer(&self, hash: &str) -> HandlerResult<Response> {
        // Before the vote store is read: a vote is stored before its job is over.
        let (is_open, vain) = match self.jobs().get(hash) {
            Some(Job::Open { .. }) => (true, None),
            Some(Job::Failed(problem)) => (false, Some(Err(problem.clone()))),
            Some(Job::Unjudged(vote)) => (false, Some(Ok(Json(SignedVote::clone(vote)).into_response()))),
            None => (false, None),
        };
        if is_open {
            let pending = Pending { proposal: hash.to_owned(), state: "verifying" };
            return Ok((StatusCode::ACCEPTED, [(RETRY_AFTER, ASK_AGAIN.to_string())], Json(pending)).into_response());
        }
        let (book, asked) = (self.node.book().clone(), hash.to_owned());
        let voted = blocking(move || book.vote(&asked)).await?;
        match (voted, vain) {
            (Some(vote), _) => Ok(Json(vote).into_response()),
            (None, Some(told)) => told,
            (None, None) => Err(Problem::not_found(format!("there is no vote on {hash} here"))
                .hint("propose it with `POST /v1/mesh/proposals`")),
        }
    }
}

/// A proposal that is being verified.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pending {
    /// The SHA-256 of the proposal's statement: `sha256:` and 64 hex digits.
    proposal: String,
    /// Always `verifying`: there is no vote yet.
    #[schema(value_type = String)]
    state: &'static str,
}

/// What came of a proposal, as it was counted again here.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Closed {
    /// The number of the brain that the proposal is about.
    brain: String,
    /// Its epoch that is closed.
    epoch: u64,
    /// Whether the mesh agreed.
    passed: bool,
}

fn mesh_state(app: &App) -> HandlerResult<&MeshState> {
    app.mesh.as_ref().ok_or_else(|| {
        Problem::not_found("this operator is in no mesh").hint("members are named in `[mesh]` of the configuration")
    })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal("looking into the votes was interrupted"))?
}

/// Proposes a patch to this member of the mesh. The body is a proposal in a DSSE envelope, signed by a member.
#[utoipa::path(
    post, path = "/v1/mesh/proposals", tag = "mesh", request_body = Object, security(()),
    responses(
        (status = 200, description = "This operator's vote, in a DSSE envelope", body = Object),
        (status = 202, description = "It is being verified: ask for the vote later", body = Pending),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "It cannot be verified here now", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn propose(State(app): State<App>, Payload(sent): Payload<Envelope>) -> HandlerResult<Response> {
    let door = mesh_state(&app)?;
    if app.is_closing() {
        return Err(Error::unavailable("the server is stopping").hint("ask again when it is back").into());
    }
    door.check_sender(&sent, "proposal")?;
    let node = door.node.clone();
    let admitted = blocking(move || {
        let proposal: SignedProposal = Signed::open(sent)?;
        let vote: Option<SignedVote> = node.admit(&proposal)?;
        Ok((proposal, vote))
    });
    let (proposal, vote) = admitted.await?;
    if let Some(vote) = vote {
        return Ok(Json(vote).into_response());
    }
    let hash = proposal.hash().to_owned();
    let mut over = door.take(proposal)?;
    // However it ends, what there is to say is in the vote store or among the jobs.
    let _ = tokio::time::timeout(WAITS, over.wait_for(|over| *over)).await;
    door.answer(&hash).await
}

/// This operator's vote on a proposal.
#[utoipa::path(
    get, path = "/v1/mesh/votes/{proposal}", tag = "mesh", security(()),
    params(("proposal" = String, Path, description = "The SHA-256 of the proposal's statement", pattern = "^[0-9a-f]{64}$")),
    responses(
        (status = 200, description = "The vote, in a DSSE envelope", body = Object),
        (status = 202, description = "It is being verified: ask again later", body = Pending),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "It cannot be verified here now", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn vote(State(app): State<App>, Path(proposal): Path<String>) -> HandlerResult<Response> {
    mesh_state(&app)?.answer(&format!("sha256:{proposal}")).await
}

/// Tells this member what came of a proposal. The body is a consensus in a DSSE envelope; its votes are counted again.
#[utoipa::path(
    post, path = "/v1/mesh/consensus", tag = "mesh", request_body = Object, security(()),
    responses(
        (status = 200, description = "The epoch is closed", body = Closed),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn close(State(app): State<App>, Payload(sent): Payload<Envelope>) -> HandlerResult<Json<Closed>> {
    let door = mesh_state(&app)?;
    door.check_sender(&sent, "consensus")?;
    let node = door.node.clone();
    let layout = app.settings.layout.clone();
    let closed = blocking(move || {
        let consensus: SignedConsensus = Signed::open(sent)?;
        let tally = node.close(&consensus)?;
        let about = &consensus.predicate().about;
        let vote = node.book().vote(&about.proposal)?;
        if let Some(verdict) = vote.filter(|_| tally.passed).and_then(|vote| vote.predicate().verdict_hash.clone())
            && let Err(error) = keep_consensus(&layout, &verdict, &consensus)
        {
            tracing::warn!(brain = %about.base.brain, %error, "what the mesh agreed to cannot be applied here");
        }
        Ok(Closed { brain: about.base.brain.to_string(), epoch: about.epoch, passed: tally.passed })
    });
    Ok(Json(closed.await?))
}

/// The epochs that a member missed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MissedEpochs {
    /// What closed each epoch, with what was proposed, in DSSE envelopes.
    #[schema(value_type = Vec<Object>)]
    missed: Vec<ClosedEpoch>,
}

/// Tells a member which epochs were closed while it was away. The body is its question in a DSSE envelope.
#[utoipa::path(
    post, path = "/v1/mesh/missed", tag = "mesh", request_body = Object, security(()),
    responses(
        (status = 200, description = "The next epochs, in order", body = MissedEpochs),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn missed(
    State(app): State<App>,
    Payload(sent): Payload<Envelope>,
) -> HandlerResult<Json<MissedEpochs>> {
    let door = mesh_state(&app)?;
    door.check_sender(&sent, "question")?;
    let node = door.node.clone();
    let missed = blocking(move || {
        let asked: SignedCatchUpRequest = Signed::open(sent)?;
        node.missed(&asked)
    });
    Ok(Json(MissedEpochs { missed: missed.await? }))
}
