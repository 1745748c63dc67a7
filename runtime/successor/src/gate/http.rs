//! Asking members over HTTP: `POST /v1/mesh/proposals`, and while the member verifies, `GET /v1/mesh/votes/{proposal}`.
//!
//! Nothing rests on the connection. The proposal is signed by its proposer, the vote by the member's own key; answers are
//! read up to a size, redirects are not followed, and anything but a vote counts as silence.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;

use super::catch_up::{ClosedEpoch, SignedCatchUpRequest};
use super::consensus::SignedConsensus;
use super::mesh::{Member, SignedProposal, Transport, signed_by};
use super::signed::Signed;
use super::vote::SignedVote;
use crate::error::{Error, Result};
use crate::receipt::Envelope;
use herm_http::HttpClient;

/// The most bytes of an answer about a vote or a consensus.
const MOST: usize = 256 << 10;
/// The largest answer with epochs that were missed.
const MOST_MISSED: usize = 64 << 20;
/// How long between two looks for a vote that is still being found.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A [`Transport`] that asks members over HTTP.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    client: HttpClient,
}

impl HttpTransport {
    /// With a client of its own.
    pub fn new() -> Result<Self> {
        Ok(Self { client: HttpClient::new()? })
    }
}

impl HttpTransport {
    /// Asks one member which epochs were closed while this one was away.
    pub async fn missed(
        &self,
        member: &Member,
        asked: &SignedCatchUpRequest,
        within: Duration,
    ) -> Result<Vec<ClosedEpoch>> {
        let (url, body) = (place(member, "/v1/mesh/missed"), as_value(asked)?);
        let sent = self.client.post_json(&url, &[], &body, MOST_MISSED);
        match tokio::time::timeout(within, sent).await {
            Err(_) => Err(Error::unavailable(format!("{} did not answer", member.name)).hint("ask it again later")),
            Ok(answer) => match answer? {
                (200, mut body) => serde_json::from_value(body["missed"].take()).map_err(|source| {
                    Error::refused(format!("{} answered with something else: {source}", member.name))
                }),
                (status, body) => Err(refusal(member, status, &body)),
            },
        }
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn ask(&self, member: &Member, proposal: &SignedProposal, within: Duration) -> Result<SignedVote> {
        let late = |_| {
            Error::unavailable(format!("{} gave no vote within {} s", member.name, within.as_secs_f64()))
                .hint("is it running, and is its url in `[mesh.members]` right?")
        };
        let until = Instant::now() + within;
        let (proposals, body) = (place(member, "/v1/mesh/proposals"), as_value(proposal)?);
        let votes = place(member, &format!("/v1/mesh/votes/{}", proposal.hash().trim_start_matches("sha256:")));
        let (mut is_taken, mut pause) = (false, PAUSE);
        loop {
            let asking = async {
                match is_taken {
                    false => self.client.post_json(&proposals, &[], &body, MOST).await,
                    true => self.client.get_json(&votes, None, MOST).await,
                }
            };
            match tokio::time::timeout_at(until, asking).await.map_err(late)?? {
                (200, body) => return read(member, body),
                (202, _) => is_taken = true,
                // It has enough to do, or was started again and knows nothing: it is asked again.
                (429, _) => {}
                (404, _) if is_taken => is_taken = false,
                (status, body) => return Err(refusal(member, status, &body)),
            }
            tokio::time::timeout_at(until, tokio::time::sleep(pause)).await.map_err(late)?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn tell(&self, member: &Member, consensus: &SignedConsensus, within: Duration) -> Result<()> {
        let (url, body) = (place(member, "/v1/mesh/consensus"), as_value(consensus)?);
        let sent = self.client.post_json(&url, &[], &body, MOST);
        match tokio::time::timeout(within, sent).await {
            Err(_) => Err(Error::unavailable(format!("{} did not answer", member.name)).hint("tell it again later")),
            Ok(answer) => match answer? {
                (200, _) => Ok(()),
                (status, body) => Err(refusal(member, status, &body)),
            },
        }
    }
}

fn place(member: &Member, path: &str) -> String {
    format!("{}{path}", member.url.trim_end_matches('/'))
}

fn as_value(document: &impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(document).map_err(|source| Error::internal("a document cannot be written").because(source))
}

fn read(member: &Member, body: Value) -> Result<SignedVote> {
    let envelope: Envelope = serde_json::from_value(body)
        .map_err(|source| Error::invalid(format!("{} answered with no vote: {source}", member.name)))?;
    let vote = Signed::open(envelope).map_err(|error| {
        Error::refused(format!("{} answered with no good vote: {}", member.name, error.message()))
            .hint("check what answers at its url")
    })?;
    signed_by(member, vote)
}

/// What a member says instead of a vote: cut, since it is a stranger's text.
fn refusal(member: &Member, status: u16, body: &Value) -> Error {
    let said: String =
        body["detail"].as_str().unwrap_or("nothing").chars().filter(|c| !c.is_control()).take(300).collect();
    Error::unavailable(format!("{} answered with {status}: {said}", member.name))
}
