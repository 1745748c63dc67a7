//! One response body, read as JSON or as events, whichever came.
//!
//! Endpoints answer a request for a stream with a plain body and the other way round, so what was
//! asked for does not decide: the first bytes do, then the content type. A [`Dialect`] knows what the
//! pieces mean and writes them into a [`Draft`]; this file knows when a body is whole, broken, too
//! long, or no reply at all.

use std::time::Duration;

use serde_json::Value;

use super::classify::{Fault, class_of, retry_after};
use super::sse::{Event, Parser};
use super::{BackendError, Completion, ErrorClass, FinishReason, Tokens, backend_error};
use herm_http::Incoming;

/// The most bytes of a stream, reasoning and padding included.
const STREAM: usize = 256 * 1024 * 1024;
/// The most bytes that are held at once, however large a reply may be.
const HELD: usize = 64 * 1024 * 1024;
/// Room for what stands around the text of a reply.
const AROUND: usize = 1024 * 1024;
/// How long the end of a stream may take after the model has finished.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// What the pieces of a wire format mean.
pub(super) trait Dialect {
    /// Takes a whole body.
    fn whole(body: &Value, draft: &mut Draft) -> Result<(), BackendError>;
    /// Takes one event of a stream.
    fn event(body: &Value, draft: &mut Draft) -> Result<(), BackendError>;
}

/// A reply as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    refusal: String,
    room: usize,
    is_full: bool,
    has_reasoning: bool,
    /// The stream has said its last word.
    pub(super) is_done: bool,
    /// Why it ended, once it has.
    pub(super) finish: Option<FinishReason>,
    /// The model, as it names itself.
    pub(super) model: Option<String>,
    /// Tokens, where they are told.
    pub(super) tokens: Option<Tokens>,
}

impl Draft {
    /// A draft with room for so many bytes of text.
    pub(super) fn new(room: usize) -> Self {
        Self { room, ..Self::default() }
    }

    /// Adds text, as much as there is room for.
    pub(super) fn say(&mut self, text: &str) {
        if self.is_full {
            return;
        }
        let fits = text.floor_char_boundary(self.room - self.text.len());
        self.text.push_str(&text[..fits]);
        self.is_full |= fits < text.len();
    }

    /// Notes that the model thought aloud. What it thought is not part of its reply.
    pub(super) fn reasoned(&mut self, text: &str) {
        self.has_reasoning |= !text.is_empty();
    }

    /// Adds to the model's own words of refusal.
    pub(super) fn refuse(&mut self, text: &str) {
        const ENOUGH: usize = 1024;
        let room = ENOUGH.saturating_sub(self.refusal.len());
        self.refusal.push_str(&text[..text.floor_char_boundary(room)]);
    }

    fn into_completion(self, model: &str) -> Result<Completion, BackendError> {
        if !self.refusal.is_empty() {
            return Err(policy(&format!("the model refuses: {}", self.refusal)));
        }
        let finish = if self.is_full { FinishReason::Length } else { self.finish.unwrap_or(FinishReason::Other) };
        if self.text.trim().is_empty() && !self.is_full {
            return Err(bad_reply(match (self.has_reasoning, finish) {
                (true, FinishReason::Length) => "the model used all its output tokens for reasoning and wrote no reply",
                (true, _) => "the model wrote its reasoning but no reply",
                (false, _) => "the model's reply has no text",
            }));
        }
        let model = self.model.filter(|name| !name.is_empty()).unwrap_or_else(|| model.to_owned());
        Ok(Completion { text: self.text, finish, model, tokens: self.tokens, attestation: None })
    }
}

/// An endpoint's policy refuses the content.
pub(super) fn policy(message: &str) -> BackendError {
    BackendError::new(ErrorClass::ContentPolicy, message)
}

/// What came back is not a reply.
pub(super) fn bad_reply(message: &str) -> BackendError {
    BackendError::new(ErrorClass::BadReply, message)
}

/// What a body looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Json,
    Events,
    Html,
    Text,
}

/// Tells the shape of a body by its beginning. Nothing while there is too little of it.
fn shape_of(head: &[u8], content_type: &str, is_whole: bool) -> Option<Shape> {
    const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];
    match head.first() {
        Some(b'{' | b'[') => return Some(Shape::Json),
        Some(b'<') => return Some(Shape::Html),
        Some(b':') => return Some(Shape::Events),
        _ => {}
    }
    if FIELDS.iter().any(|field| head.strip_prefix(*field).and_then(<[u8]>::first) == Some(&b':')) {
        return Some(Shape::Events);
    }
    let may_become_field = FIELDS.iter().any(|field| field.starts_with(head) || head == *field);
    if may_become_field && !is_whole {
        return None;
    }
    Some(match content_type {
        kind if kind.starts_with("text/event-stream") => Shape::Events,
        kind if kind.starts_with("text/html") => Shape::Html,
        kind if kind.contains("json") => Shape::Json,
        _ => Shape::Text,
    })
}

/// Reads the whole of a good response. `model` is whom the reply is from where it does not say.
pub(super) async fn read<D: Dialect>(
    mut incoming: Incoming,
    room: usize,
    model: &str,
) -> Result<Completion, BackendError> {
    let held = room.saturating_mul(6).saturating_add(AROUND).min(HELD);
    let (head, shape) = head(&mut incoming).await?;
    let place = incoming.place().to_owned();
    let excerpt = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]).into_owned();
    let mut draft = Draft::new(room);
    match shape {
        Shape::Html => {
            Err(bad_reply(&format!("{place} answered with an HTML page, not with a reply: check the base URL")))
        }
        Shape::Text => Err(bad_reply(&format!("{place} answered with text, not with a reply: {}", excerpt(&head)))),
        Shape::Json => {
            let body = rest(&mut incoming, head, held).await?;
            let value: Value = serde_json::from_slice(&body).map_err(|error| match error.is_eof() {
                true => broken(&place),
                false => bad_reply(&format!("{place} answered with broken JSON: {}", excerpt(&body))),
            })?;
            if let Some(fault) = Fault::in_reply(&value) {
                return Err(failed(&incoming, &fault));
            }
            D::whole(&value, &mut draft)?;
            draft.into_completion(model)
        }
        Shape::Events => {
            stream::<D>(&mut incoming, &head, held, &mut draft).await?;
            if draft.is_done {
                incoming.drain().await;
            }
            draft.into_completion(model)
        }
    }
}

/// The first bytes that tell the shape, without the white space and the byte order mark before them.
async fn head(incoming: &mut Incoming) -> Result<(Vec<u8>, Shape), BackendError> {
    let content_type = incoming.header("content-type").unwrap_or_default().trim().to_lowercase();
    let mut head = Vec::new();
    let mut read = 0;
    loop {
        let chunk = incoming.chunk().await.map_err(backend_error)?;
        let is_whole = chunk.is_none();
        if let Some(chunk) = chunk {
            head.extend_from_slice(chunk.as_ref());
            read += chunk.as_ref().len();
        }
        let bare = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&head).trim_ascii_start();
        head = bare.to_vec();
        if head.is_empty() && (is_whole || read > STREAM) {
            return Err(bad_reply(&format!("{} answered with an empty body", incoming.place())));
        }
        if let Some(shape) = (!head.is_empty()).then(|| shape_of(&head, &content_type, is_whole)).flatten() {
            return Ok((head, shape));
        }
    }
}

/// `body` and what follows it, up to `cap` bytes.
async fn rest(incoming: &mut Incoming, mut body: Vec<u8>, cap: usize) -> Result<Vec<u8>, BackendError> {
    while let Some(chunk) = incoming.chunk().await.map_err(backend_error)? {
        if body.len() + chunk.as_ref().len() > cap {
            return Err(bad_reply(&format!("{} answered with more than {cap} bytes", incoming.place())));
        }
        body.extend_from_slice(chunk.as_ref());
    }
    Ok(body)
}

/// Reads events until the reply is whole or full.
async fn stream<D: Dialect>(
    incoming: &mut Incoming,
    head: &[u8],
    cap: usize,
    draft: &mut Draft,
) -> Result<(), BackendError> {
    let mut parser = Parser::new(cap);
    let mut events = Vec::new();
    let mut read = head.len();
    let too_long = |place: &str| bad_reply(&format!("{place} sent an event of more than {cap} bytes"));
    parser.feed(head, &mut events).map_err(|_| too_long(incoming.place()))?;
    loop {
        for event in events.drain(..) {
            take::<D>(&event, incoming, draft)?;
            if draft.is_done || draft.is_full {
                return Ok(());
            }
        }
        if read > STREAM {
            return Err(bad_reply(&format!("{} sent more than {STREAM} bytes without an end", incoming.place())));
        }
        let has_finished = draft.finish.is_some();
        let patience = if has_finished { AFTER_FINISH.min(incoming.idle()) } else { incoming.idle() };
        match incoming.chunk_within(patience).await {
            Ok(Some(chunk)) => {
                read += chunk.as_ref().len();
                parser.feed(chunk.as_ref(), &mut events).map_err(|_| too_long(incoming.place()))?;
            }
            // The text is whole: only the count of tokens may be missing.
            Ok(None) | Err(_) if has_finished => return Ok(()),
            Ok(None) => break,
            Err(error) => return Err(backend_error(error)),
        }
    }
    // A last event that cannot be read was cut off with the connection.
    if let Some(event) = parser.finish().filter(|event| event.is_done() || is_json(&event.data)) {
        take::<D>(&event, incoming, draft)?;
    }
    match draft.is_done || draft.is_full || draft.finish.is_some() {
        true => Ok(()),
        false => Err(broken(incoming.place())),
    }
}

fn take<D: Dialect>(event: &Event, incoming: &Incoming, draft: &mut Draft) -> Result<(), BackendError> {
    if event.is_done() {
        draft.is_done = true;
        return Ok(());
    }
    if event.data.trim().is_empty() {
        return Ok(());
    }
    let value: Value = match serde_json::from_str(&event.data) {
        Ok(value) => value,
        Err(_) if event.name == "error" => return Err(failed(incoming, &Fault::from_text(&event.data))),
        Err(_) => {
            let said = &event.data[..event.data.floor_char_boundary(2048)];
            return Err(bad_reply(&format!("{} sent an event that is not JSON: {said}", incoming.place())));
        }
    };
    match Fault::in_reply(&value) {
        Some(fault) => Err(failed(incoming, &fault)),
        None if event.name == "error" => Err(failed(incoming, &Fault::from_error(&value))),
        None => D::event(&value, draft),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// An error that came inside a good response.
fn failed(incoming: &Incoming, fault: &Fault) -> BackendError {
    BackendError {
        class: class_of(200, fault),
        message: format!("{} failed while answering: {}", incoming.place(), fault.message),
        retry_after: retry_after(|name| incoming.header(name)),
    }
}

fn broken(place: &str) -> BackendError {
    BackendError::new(ErrorClass::Network, format!("{place} closed the connection in the middle of the reply"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_shape_and_the_content_type_helps_where_they_do_not() {
        let table: &[(&str, &str, bool, Option<Shape>)] = &[
            ("{", "text/event-stream", false, Some(Shape::Json)),
            ("[", "", false, Some(Shape::Json)),
            ("<!doctype", "application/json", false, Some(Shape::Html)),
            (": hello", "application/json", false, Some(Shape::Events)),
            ("data:", "application/json", false, Some(Shape::Events)),
            ("event: x", "", false, Some(Shape::Events)),
            ("dat", "", false, None),
            ("data", "", false, None),
            ("dat", "", true, Some(Shape::Text)),
            ("date", "text/plain", false, Some(Shape::Text)),
            ("Bad", "text/html; charset=utf-8", false, Some(Shape::Html)),
            ("hello", "application/json", false, Some(Shape::Json)),
            ("custom: x", "text/event-stream", false, Some(Shape::Events)),
        ];
        for (head, kind, is_whole, shape) in table {
            assert_eq!(shape_of(head.as_bytes(), kind, *is_whole), *shape, "{head} {kind}");
        }
    }

    #[test]
    fn a_draft_is_cut_at_a_character_and_takes_nothing_after_the_cut() {
        let table =
            [(0, "", true), (1, "a", true), (2, "a", true), (3, "aé", true), (5, "aébc", true), (6, "aébcd", false)];
        for (room, text, is_full) in table {
            let mut draft = Draft::new(room);
            draft.say("aé");
            draft.say("bcd");
            assert_eq!((draft.text.as_str(), draft.is_full), (text, is_full), "{room}");
        }
    }
}
