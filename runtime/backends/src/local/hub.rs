//! Models from a hub: fetched by name, resumed where a connection broke, and believed only by their digest.

use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, LOCATION, RANGE};
use reqwest::{Method, Response, StatusCode, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, ErrorKind, Result};
use herm_core::fsio;
use herm_http::install_crypto;

/// The hub that is asked where nobody says which.
const USUAL_HUB: &str = "https://huggingface.co";
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// How long a server may send nothing.
const SILENT: Duration = Duration::from_secs(60);
/// How often a hub may say "look there".
const MOST_REDIRECTS: usize = 5;
/// How often in a row a connection may break before it has brought anything new.
const RESUMES: usize = 5;

/// Which file of which repository on the hub is the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRef {
    /// Whose, and which: `HuggingFaceTB/SmolLM2-360M-Instruct-GGUF`.
    pub repository: String,
    /// The file in it.
    pub file: String,
    /// Which state of it: a commit, a tag or a branch.
    pub revision: String,
    /// The SHA-256 it must have. Where it is not said, what the hub itself says of the file counts.
    pub sha256: Option<String>,
}

impl ModelRef {
    /// Reads `OWNER/REPOSITORY/FILE` or `OWNER/REPOSITORY/FILE@REVISION`.
    pub fn parse(name: &str, sha256: Option<&str>) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!("{name:?} does not name a model"))
                .hint("write OWNER/REPOSITORY/FILE.gguf, with @REVISION behind it for a certain state")
        };
        let (path, revision) = name.split_once('@').unwrap_or((name, "main"));
        let mut parts = path.splitn(3, '/');
        let (Some(owner), Some(repository), Some(file)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(wrong());
        };
        let plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        };
        if ![owner, repository, revision].into_iter().chain(file.split('/')).all(plain) {
            return Err(wrong());
        }
        let sha256 = sha256.map(str::to_ascii_lowercase);
        if sha256.as_deref().is_some_and(|digest| !is_digest(digest)) {
            return Err(Error::invalid("a SHA-256 has 64 hexadecimal digits"));
        }
        Ok(Self {
            repository: format!("{owner}/{repository}"),
            file: file.to_owned(),
            revision: revision.to_owned(),
            sha256,
        })
    }

    /// The name it has once it is here.
    pub fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A model that is here.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PulledModel {
    /// Where the file lies on this machine.
    pub path: PathBuf,
    /// The SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// How large it is.
    pub bytes: u64,
    /// How many of them came over the network just now.
    pub fetched: u64,
}

/// A place that has models.
#[derive(Debug)]
pub struct Hub {
    base: Url,
    token: Option<SecretString>,
    client: reqwest::Client,
}

impl Hub {
    /// The hub at `base`; the usual one where nothing is said. A token is sent to it and to nobody it points to.
    pub fn new(base: Option<&str>, token: Option<SecretString>) -> Result<Self> {
        install_crypto();
        let base: Url = base.unwrap_or(USUAL_HUB).parse().map_err(|_| Error::invalid("the hub's address is none"))?;
        let builder = || {
            reqwest::Client::builder()
                .redirect(redirect::Policy::none())
                .connect_timeout(CONNECT_WITHIN)
                .read_timeout(SILENT)
        };
        // A machine without certificates still reaches a server on loopback.
        let client = builder().build().or_else(|_| builder().tls_certs_only([]).build());
        let client = client.map_err(|error| Error::unavailable("cannot set up the HTTP client").because(error))?;
        Ok(Self { base, token, client })
    }

    /// Fetches a model into `directory`. `progress` hears how much of how much is there.
    pub async fn pull(&self, wanted: &ModelRef, directory: &Path, progress: impl Fn(u64, u64)) -> Result<PulledModel> {
        fsio::create_dirs(directory)?;
        let pinned = match &wanted.sha256 {
            Some(pinned) => pinned.clone(),
            None => self.get(Method::HEAD, wanted, None, 0).await?.declared.ok_or_else(|| {
                Error::refused(format!("the hub does not say the SHA-256 of {}", wanted.file))
                    .hint("say which one it must have with --sha256")
            })?,
        };
        let path = directory.join(wanted.name());
        let bytes = |path: &Path| path.metadata().map(|about| about.len()).unwrap_or_default();
        if path.symlink_metadata().is_ok() {
            let found = sha256(&path)?;
            if found != pinned {
                return Err(Error::conflict(format!("{} is there, with the SHA-256 {found}", path.display()))
                    .hint("it may be in use: move it away first, then pull again"));
            }
            return Ok(PulledModel { bytes: bytes(&path), path, sha256: pinned, fetched: 0 });
        }
        // Named by the digest, so that what came of one file is never gone on with as another.
        let part = directory.join(format!(".{pinned}.part"));
        let (mut fetched, mut in_vain) = (0, 0);
        loop {
            let from = bytes(&part);
            match self.go_on(wanted, &pinned, &part, &progress, &mut fetched).await {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::Unavailable && fetched > 0 => {
                    in_vain = if bytes(&part) > from { 0 } else { in_vain + 1 };
                    if in_vain > RESUMES {
                        return Err(error);
                    }
                    tracing::info!(%error, "the connection broke; it is taken up again");
                }
                Err(error) => return Err(error),
            }
        }
        let found = sha256(&part)?;
        if found != pinned {
            fsio::remove_file(&part)?;
            return Err(Error::corrupt(format!("what came of {} has the SHA-256 {found}, not {pinned}", wanted.file))
                .hint("try again; if it stays so, do not use this hub"));
        }
        fsio::rename_durably(&part, &path)?;
        Ok(PulledModel { bytes: bytes(&path), path, sha256: found, fetched })
    }

    /// Fetches what is missing in `part`, over one connection. `fetched` counts what came, also where it broke.
    async fn go_on(
        &self,
        wanted: &ModelRef,
        pinned: &str,
        part: &Path,
        progress: &impl Fn(u64, u64),
        fetched: &mut u64,
    ) -> Result<()> {
        let from = part.metadata().map_or(0, |about| about.len());
        let found = self.get(Method::GET, wanted, Some(pinned), from).await?;
        take(found.response, part, from, progress, fetched).await
    }

    /// Asks for a file from byte `from` on, or with `HEAD` only for what the hub says of it. Where that is not the
    /// pinned digest, nothing is fetched.
    async fn get(&self, method: Method, wanted: &ModelRef, pinned: Option<&str>, from: u64) -> Result<Found> {
        let base = self.base.as_str().trim_end_matches('/');
        let url = format!("{base}/{}/resolve/{}/{}", wanted.repository, wanted.revision, wanted.file);
        let mut url: Url = url.parse().map_err(|_| Error::invalid("the model's address is none"))?;
        let mut declared = None;
        for _ in 0..=MOST_REDIRECTS {
            // Only a hub on this machine may point to this machine.
            if url.scheme() != "https" && !(is_loopback(&url) && is_loopback(&self.base)) {
                return Err(Error::refused("models are fetched over https alone").hint("check the hub's address"));
            }
            let host = url.host_str().unwrap_or_default().to_owned();
            let mut request = self.client.request(method.clone(), url.clone());
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            if let Some(token) = self.token.as_ref().filter(|_| url.origin() == self.base.origin()) {
                request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose_secret()));
            }
            let response = request.send().await.map_err(|error| {
                Error::unavailable(format!("{host} does not answer: {}", why(error)))
                    .hint("check the network, or copy the file by hand and name its path")
            })?;
            // The digest is the hub's to say, not that of a server that it points to.
            if url.origin() == self.base.origin() {
                declared = declared.or_else(|| digest_in(response.headers()));
            }
            if let (Some(declared), Some(pinned)) = (&declared, pinned)
                && declared != pinned
            {
                return Err(Error::refused(format!("{} has the SHA-256 {declared}, not {pinned}", wanted.file))
                    .hint("the file changed at the hub: check the digest, or name a @REVISION"));
            }
            let status = response.status();
            if status.is_redirection() {
                if method == Method::HEAD && declared.is_some() {
                    return Ok(Found { response, declared });
                }
                let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
                url = to
                    .and_then(|to| url.join(to).ok())
                    .ok_or_else(|| Error::unavailable(format!("{host} points nowhere")))?;
                continue;
            }
            return match status {
                StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                    Ok(Found { response, declared })
                }
                StatusCode::NOT_FOUND => Err(Error::not_found(format!("{host} has no such model"))
                    .hint("check owner, repository, file and revision")),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    Err(Error::refused(format!("{host} does not give this model to anyone"))
                        .hint("accept its licence there, and set HF_TOKEN"))
                }
                other => Err(Error::unavailable(format!("{host} answers {other}")).hint("try again later")),
            };
        }
        Err(Error::unavailable("the hub points from place to place"))
    }
}

/// What a hub answers, and the digest it gives.
struct Found {
    response: Response,
    declared: Option<String>,
}

fn is_loopback(url: &Url) -> bool {
    matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
}

/// The innermost reason: the others only say that there is one.
fn why(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The SHA-256 of a large file, as hubs give it: the tag of what it is linked to.
fn digest_in(headers: &HeaderMap) -> Option<String> {
    ["x-linked-etag", "etag"].into_iter().find_map(|name| {
        let tag = headers.get(name)?.to_str().ok()?.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase();
        is_digest(&tag).then_some(tag)
    })
}

/// Writes what comes behind what is there.
async fn take(
    mut response: Response,
    part: &Path,
    from: u64,
    progress: &impl Fn(u64, u64),
    fetched: &mut u64,
) -> Result<()> {
    let failed = |source| Error::io("write", part, source);
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        // All of it is there; its digest decides.
        return Ok(());
    }
    let goes_on = response.status() == StatusCode::PARTIAL_CONTENT;
    let from = if goes_on { from } else { 0 };
    let all = response.content_length().map_or(0, |rest| rest + from);
    if let Some(parent) = part.parent()
        && all.saturating_sub(from) > fsio::free_bytes(parent)?
    {
        return Err(Error::refused(format!("{all} bytes do not fit on the disk")).hint("free some space first"));
    }
    let mut file =
        std::fs::OpenOptions::new().create(true).truncate(!goes_on).write(true).open(part).map_err(failed)?;
    file.seek(std::io::SeekFrom::Start(from)).map_err(failed)?;
    let mut there = from;
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => {
                file.write_all(&piece).map_err(failed)?;
                there += piece.len() as u64;
                *fetched += piece.len() as u64;
                progress(there, all);
            }
            Ok(None) => break,
            Err(error) => {
                return Err(Error::unavailable(format!("the connection broke: {}", why(error)))
                    .hint("try again: it goes on where it stopped"));
            }
        }
    }
    if there < all {
        return Err(Error::unavailable("the connection ended early").hint("try again: it goes on where it stopped"));
    }
    file.sync_all().map_err(failed)
}

/// The SHA-256 of a file.
fn sha256(path: &Path) -> Result<String> {
    let failed = |source| Error::io("read", path, source);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut piece).map_err(failed)? {
            0 => break,
            count => hash.update(piece.get(..count).unwrap_or_default()),
        }
    }
    Ok(herm_core::ids::hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_an_owner_a_repository_a_file_and_maybe_a_revision() {
        let wanted = ModelRef::parse("HuggingFaceTB/SmolLM2-GGUF/sub/a.gguf@v1.0", None).unwrap();
        assert_eq!(
            (wanted.repository.as_str(), wanted.file.as_str(), wanted.revision.as_str(), wanted.name()),
            ("HuggingFaceTB/SmolLM2-GGUF", "sub/a.gguf", "v1.0", "a.gguf")
        );
        for wrong in ["a/b", "a//c", "../b/c", "a/b/../../c", "a/b/c@../x", "a/b/c d", "", "a/b/.ssh"] {
            assert!(ModelRef::parse(wrong, None).is_err(), "{wrong}");
        }
        assert!(ModelRef::parse("a/b/c", Some("12")).is_err());
    }
}
