//! One model that reads and writes: the only room that knows how tokens, network and grammar work together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use llguidance::Matcher;

use crate::Message;
use crate::error::{ModelError, ModelErrorKind, Result};
use crate::file::ModelFile;
use crate::grammar::{Grammars, ReplyBounds};
use crate::network::{KvCache, Network};
use crate::template::Template;
use crate::vocabulary::Vocabulary;

/// Tokens that are read at once; between two runs the caller may change its mind.
const AT_ONCE: usize = 64;
/// How often a reply that was said before is written anew.
const ANEW: usize = 6;
/// Tokens that must be left for a reply.
const LEAST_ROOM: usize = 16;

/// A model in memory.
#[derive(Debug)]
pub struct Generator {
    vocabulary: Arc<Vocabulary>,
    template: Template,
    grammars: Grammars,
    network: Network,
    bounds: ReplyBounds,
    /// Conversations as far as they were read, the latest last.
    pasts: Vec<KvCache>,
    /// The memory they may take together.
    past_bytes: usize,
    /// Tokens a conversation may have.
    context: usize,
}

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct GenerationRequest<'q> {
    /// The conversation so far, the newest message last.
    pub messages: &'q [Message<'q>],
    /// Which replies are legal, as a JSON Schema; `true` allows anything.
    pub legal: &'q serde_json::Value,
    /// The most tokens of the reply.
    pub most_tokens: usize,
    /// The most bytes of the reply.
    pub most_bytes: usize,
    /// Whether what the model said before in this conversation is not to be said again, word for word.
    pub fresh: bool,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model was done.
    Stop,
    /// A limit was reached.
    Length,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedReply {
    /// What the model said, as far as it got.
    pub text: String,
    /// Whether the model was done, or a limit cut the reply off.
    pub finish: Finish,
    /// What it cost: tokens, and the time for finding the legal ones.
    pub effort: GenerationStats,
    /// Why it was not held to its schema, where it was not.
    pub free: Option<String>,
}

/// What a reply took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GenerationStats {
    /// Tokens of the question.
    pub asked: usize,
    /// Of them: read by the network just now.
    pub read: usize,
    /// Tokens of the reply.
    pub written: usize,
    /// Of them: the only legal ones, so that the network was not asked.
    pub forced: usize,
    /// How often it was worked out which tokens are legal.
    pub masks: usize,
    /// How long that took in all.
    pub masking: Duration,
}

impl Generator {
    /// Loads the model of a file: on the threads of the pool it is called in. Conversations that were read stay within
    /// `past_bytes`; one may have `context` tokens.
    pub fn load(file: &ModelFile, bounds: ReplyBounds, past_bytes: usize, context: usize) -> Result<Self> {
        let vocabulary = Arc::new(Vocabulary::read(file)?);
        let template = Template::read(file, &vocabulary)?;
        let (network, grammars) = rayon::join(|| Network::load(file), || Grammars::new(&vocabulary));
        Ok(Self {
            template,
            grammars: grammars?,
            network: network?,
            vocabulary,
            bounds,
            pasts: Vec::new(),
            past_bytes,
            context,
        })
    }

    /// Answers, unless `given_up` says that nobody waits any more.
    pub fn answer(&mut self, question: &GenerationRequest<'_>, given_up: &AtomicBool) -> Result<GeneratedReply> {
        let tokens = self.template.tokens(question.messages, &self.vocabulary)?;
        if tokens.is_empty() {
            return Err(ModelError::invalid("the model's chat template makes nothing of this conversation"));
        }
        let room = self.context.saturating_sub(tokens.len());
        if room < LEAST_ROOM {
            let message = format!("{} tokens do not fit the model's {}", tokens.len(), self.context);
            return Err(ModelError::new(ModelErrorKind::TooLong, message));
        }
        let most = room.min(question.most_tokens);
        // Digits and signs are a token each: a text that may fill all tokens would be cut, and a cut reply is of no use.
        let bounds = ReplyBounds { chars: self.bounds.chars.min((most / 2).max(LEAST_ROOM) as u64), ..self.bounds };
        let (mut matcher, free) = match self.grammars.matcher(question.legal, bounds) {
            Ok(matcher) => (matcher, None),
            Err(error) => (None, Some(error.message().to_owned())),
        };
        let past = self.recall(&tokens);
        let fresh = tokens.get(past.tokens().len()..).unwrap_or_default();
        let mut effort = GenerationStats { asked: tokens.len(), read: fresh.len(), ..GenerationStats::default() };
        let mut writing = Writing {
            network: &self.network,
            vocabulary: &self.vocabulary,
            past,
            given_up,
            last: Vec::new(),
            reply: Vec::new(),
            text: Vec::new(),
            choices: Vec::new(),
        };
        let limits = (most, question.most_bytes);
        let said: Vec<&str> = question
            .messages
            .iter()
            .filter(|(role, _)| question.fresh && *role == "assistant")
            .map(|(_, said)| *said)
            .collect();
        let written =
            writing.read(fresh).and_then(|()| writing.write_fresh(matcher.as_mut(), &said, limits, &mut effort));
        effort.written = writing.reply.len();
        let text = String::from_utf8_lossy(&writing.text).into_owned();
        // Also after a cancel: what was read is read.
        let past = writing.past;
        self.keep(past);
        Ok(GeneratedReply { text, finish: written?, effort, free })
    }

    /// The conversation that has most of `tokens` already.
    fn recall(&mut self, tokens: &[u32]) -> KvCache {
        let common = |past: &KvCache| past.tokens().iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let best = self.pasts.iter().enumerate().map(|(at, past)| (common(past), at)).max();
        let Some((shared, at)) = best.filter(|(shared, _)| *shared > 0) else {
            return KvCache::new(self.network.shape());
        };
        // The last token is always read: its scores say what comes next.
        let shared = shared.min(tokens.len() - 1);
        let kept = self.pasts.get(at).map_or(0, |past| past.tokens().len());
        // One that goes on is carried on; one that forks leaves its other branch where it is, if there is room for both.
        let bytes = |past: &KvCache| past.bytes();
        let all: usize = self.pasts.iter().map(bytes).sum();
        let fits = self.pasts.get(at).is_some_and(|past| all + bytes(past) <= self.past_bytes);
        let mut past = match self.pasts.get(at) {
            Some(past) if fits && kept - shared >= AT_ONCE => past.clone(),
            _ => self.pasts.remove(at),
        };
        past.truncate(shared);
        past
    }

    /// Keeps a conversation, and forgets the oldest where there are too many.
    fn keep(&mut self, past: KvCache) {
        self.pasts.push(past);
        let mut bytes: usize = self.pasts.iter().map(KvCache::bytes).sum();
        while bytes > self.past_bytes && self.pasts.len() > 1 {
            bytes -= self.pasts.remove(0).bytes();
        }
    }
}

/// A reply in the making.
struct Writing<'s> {
    network: &'s Network,
    vocabulary: &'s Vocabulary,
    past: KvCache,
    given_up: &'s AtomicBool,
    /// What the network made of the last token.
    last: Vec<f32>,
    reply: Vec<u32>,
    text: Vec<u8>,
    /// Where the model could have gone on another way.
    choices: Vec<Choice>,
}

/// A place in a reply where there was more than one way to go on.
#[derive(Debug, Clone, Copy)]
struct Choice {
    /// How many tokens stand before it.
    at: usize,
    /// The way that was not taken.
    other: u32,
    /// How much worse it was.
    by: f32,
}

impl Writing<'_> {
    fn read(&mut self, tokens: &[u32]) -> Result<()> {
        for piece in tokens.chunks(AT_ONCE) {
            if self.given_up.load(Ordering::Relaxed) {
                return Err(ModelError::new(ModelErrorKind::GivenUp, "nobody waits for this reply any more"));
            }
            self.last = self.network.read(piece, &mut self.past);
        }
        Ok(())
    }

    fn say(&mut self, token: u32) {
        self.reply.push(token);
        self.text.extend_from_slice(self.vocabulary.text_of(token));
    }

    /// Writes a reply that was not said before in this conversation: a small model that repeats itself word for word gets
    /// nowhere. Where it does, it goes back to where it was least sure and takes the other way.
    fn write_fresh(
        &mut self,
        mut matcher: Option<&mut Matcher>,
        said: &[&str],
        limits: (usize, usize),
        effort: &mut GenerationStats,
    ) -> Result<Finish> {
        let asked = self.past.tokens().len();
        let mut finish = self.write(matcher.as_deref_mut(), limits.0, limits.1, effort)?;
        if !said.iter().any(|said| said.as_bytes() == self.text) {
            return Ok(finish);
        }
        let first = self.reply.clone();
        let mut choices = std::mem::take(&mut self.choices);
        choices.sort_by(|a, b| a.by.total_cmp(&b.by).then(a.at.cmp(&b.at)));
        for choice in choices.iter().take(ANEW) {
            let kept: Vec<u32> = first.iter().take(choice.at).copied().collect();
            self.start_again(asked, &kept, choice.other, matcher.as_deref_mut())?;
            finish = self.write(matcher.as_deref_mut(), limits.0, limits.1, effort)?;
            if !said.iter().any(|said| said.as_bytes() == self.text) {
                return Ok(finish);
            }
        }
        Ok(finish)
    }

    /// Back to the first `kept` tokens of the reply, and on with another one.
    fn start_again(&mut self, asked: usize, kept: &[u32], other: u32, matcher: Option<&mut Matcher>) -> Result<()> {
        let tokens: Vec<u32> = kept.iter().copied().chain([other]).collect();
        if let Some(matcher) = matcher {
            matcher.reset().map_err(|error| stuck(&error))?;
            matcher.consume_tokens(&tokens).map_err(|error| stuck(&error))?;
        }
        self.reply.clear();
        self.text.clear();
        self.choices.clear();
        tokens.iter().for_each(|token| self.say(*token));
        self.past.truncate(asked + kept.len());
        self.read(&[other])
    }

    /// Writes until the model is done, or a limit is reached.
    fn write(
        &mut self,
        mut matcher: Option<&mut Matcher>,
        most_tokens: usize,
        most_bytes: usize,
        effort: &mut GenerationStats,
    ) -> Result<Finish> {
        while self.reply.len() < most_tokens && self.text.len() < most_bytes {
            let mut next = Vec::new();
            if let Some(matcher) = matcher.as_deref_mut() {
                next = matcher.compute_ff_tokens();
                effort.forced += next.len();
            }
            if next.is_empty() {
                let scores = self.network.score(&self.last);
                if !scores.iter().all(|score| score.is_finite()) {
                    return Err(stuck(&"its scores are no numbers"));
                }
                let found = match matcher.as_deref_mut() {
                    Some(matcher) => {
                        let started = Instant::now();
                        let mask = matcher.compute_mask_or_eos().map_err(|error| stuck(&error))?;
                        effort.masks += 1;
                        effort.masking += started.elapsed();
                        best(&scores, |token| mask.is_allowed(token))
                    }
                    None => best(&scores, |token| {
                        !self.vocabulary.is_control(token) || self.vocabulary.ends().contains(&token)
                    }),
                };
                let [(token, score), (other, less)] = found.ok_or_else(|| stuck(&"no token is legal"))?;
                if !self.vocabulary.ends().contains(&other) && less > f32::NEG_INFINITY {
                    self.choices.push(Choice { at: self.reply.len(), other, by: score - less });
                }
                next.push(token);
            }
            if next.iter().any(|token| self.vocabulary.ends().contains(token)) {
                return Ok(Finish::Stop);
            }
            if let Some(matcher) = matcher.as_deref_mut() {
                matcher.consume_tokens(&next).map_err(|error| stuck(&error))?;
            }
            next.iter().for_each(|token| self.say(*token));
            if matcher.as_deref().is_some_and(Matcher::is_stopped) {
                return Ok(Finish::Stop);
            }
            self.read(&next)?;
        }
        Ok(Finish::Length)
    }
}

fn stuck(why: &dyn std::fmt::Display) -> ModelError {
    // The grammar adds pages about its state.
    let why = why.to_string();
    ModelError::internal(format!("the model cannot go on: {}", why.lines().next().unwrap_or_default()))
}

/// The token with the best score among those that are allowed, and the next best: the first of them, where several have
/// the same. Where there is no other, it is as far away as can be.
fn best(scores: &[f32], allowed: impl Fn(u32) -> bool) -> Option<[(u32, f32); 2]> {
    let none = (u32::MAX, f32::NEG_INFINITY);
    let mut found = [none; 2];
    for (token, score) in (0u32..).zip(scores.iter().copied()) {
        if score > found[1].1 && allowed(token) {
            found = if score > found[0].1 { [(token, score), found[0]] } else { [found[0], (token, score)] };
        }
    }
    (found[0] != none).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_best_and_the_next_best_are_found_among_the_allowed() {
        let scores = [0.5, 2.0, 2.0, 9.0, -1.0];
        assert_eq!(best(&scores, |token| token != 3), Some([(1, 2.0), (2, 2.0)]));
        assert_eq!(best(&scores, |token| token == 4), Some([(4, -1.0), (u32::MAX, f32::NEG_INFINITY)]));
        assert_eq!(best(&scores, |_| false), None);
    }
}
