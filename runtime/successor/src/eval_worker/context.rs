//! Generated sessions that are too long for their conversation, with facts planted in them. The same seed gives the
//! same sessions on both sides.

use crate::backend::FinishReason;
use crate::memory::EvidenceStatus;
use crate::session::context;
use crate::session::machine::{Machine, Next, SessionRules};
use crate::tool::ToolReport;
use crate::tuning::Tuning;

/// How many things a session asks about.
const ASKED: usize = 6;
const PEOPLE: [&str; 24] = [
    "Meridian",
    "Okafor",
    "Lindqvist",
    "Tanaka",
    "Whitcombe",
    "Abreu",
    "Novak",
    "Castellan",
    "Haverford",
    "Ibsen",
    "Juarez",
    "Kowalski",
    "Larkspur",
    "Mbeki",
    "Northgate",
    "Orlova",
    "Pemberton",
    "Quintero",
    "Rosenthal",
    "Salazar",
    "Thorne",
    "Underhill",
    "Vasquez",
    "Yamamoto",
];
const THINGS: [&str; 12] = [
    "invoice",
    "shipment",
    "contract",
    "licence",
    "warranty",
    "deposit",
    "subscription",
    "claim",
    "permit",
    "transfer",
    "booking",
    "audit",
];
const STATES: [&str; 8] = ["open", "paid", "overdue", "refunded", "disputed", "closed", "pending", "waived"];
const FILLER: [&str; 8] = [
    "the record was checked against the ledger of the previous quarter without remarks",
    "a copy of the correspondence is kept with the department that handled the matter",
    "no further steps were taken because the counterparty did not respond in time",
    "the figures in this section were rounded and do not replace the signed statement",
    "see the annex for the terms that applied when the entry was made",
    "the entry was moved here from the old system and keeps its former number",
    "the clerk noted that the originals can be inspected on request",
    "this paragraph repeats what the summary says and adds nothing to it",
];

/// A small generator of numbers, always the same for a seed.
#[derive(Debug, Clone)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next number (splitmix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % (end.max(1) as u64)) as usize
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices.get(self.below(choices.len())).copied().unwrap_or_default()
    }
}

/// A session: what is asked, what the tools return, and what an answer would need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Generated {
    pub(crate) input: String,
    pub(crate) results: Vec<String>,
    pub(crate) facts: Vec<String>,
}

/// Session `number` of a seed.
pub(crate) fn generate(seed: u64, number: u32, results: u8, result_bytes: usize) -> Generated {
    let mut numbers = Numbers::new(seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number)));
    // Six different people; the lines about all others are noise of the very same shape.
    let mut order: Vec<&str> = PEOPLE.to_vec();
    for at in (1..order.len()).rev() {
        order.swap(at, numbers.below(at + 1));
    }
    let (asked, others) = order.split_at(ASKED);
    let line = |numbers: &mut Numbers, who: &str| {
        let (thing, state) = (numbers.one_of(&THINGS), numbers.one_of(&STATES));
        let (number, euros, cents) = (1_000 + numbers.below(9_000), numbers.below(9_000), numbers.below(100));
        format!("{thing} {number} of {who}: {state}, {euros}.{cents:02} EUR")
    };
    let facts: Vec<String> = asked.iter().map(|who| line(&mut numbers, who)).collect();
    let mut texts: Vec<Vec<String>> = Vec::new();
    for part in 0..results {
        let mut lines = vec![format!("part {} of the archive", part + 1)];
        let mut size = 0;
        while size < result_bytes {
            let next = match numbers.below(5) {
                0 => {
                    let who = numbers.one_of(others);
                    line(&mut numbers, who)
                }
                1 => format!("{}: {}", 1 + numbers.below(400), numbers.one_of(&FILLER)),
                _ => numbers.one_of(&FILLER).to_owned(),
            };
            size += next.len() + 1;
            lines.push(next);
        }
        texts.push(lines);
    }
    for fact in &facts {
        let part = numbers.below(texts.len());
        if let Some(lines) = texts.get_mut(part) {
            let at = 1 + numbers.below(lines.len());
            lines.insert(at.min(lines.len()), fact.clone());
        }
    }
    let input = format!(
        "Read the archive part by part. Then say for each of {} what is on record, with its number, its state and the amount.",
        asked.join(", ")
    );
    Generated { input, results: texts.into_iter().map(|lines| lines.join("\n")).collect(), facts }
}

/// What is left of a session that ran through the machine with a brain's tuning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Left {
    pub(crate) turns: u32,
    pub(crate) context_bytes: u64,
    pub(crate) kept_facts: f64,
}

/// Runs a session through the pure machine: the conversation before the last reply is what the model would answer from.
pub(crate) fn run(session: &Generated, tuning: &Tuning, context_bytes: usize) -> Left {
    let rules = SessionRules {
        tools: vec!["read".to_owned()],
        context_bytes,
        compressor: tuning.compressor.unwrap_or_default(),
        shrunk_bytes: tuning.shrunk_bytes.unwrap_or(context::SHRUNK_BYTES),
        replies: tuning.replies.unwrap_or_default(),
        ..SessionRules::default()
    };
    let mut machine = Machine::new(rules, "You answer from the archive.".into(), session.input.as_str().into());
    let mut sent = 0_u64;
    let mut kept = 0;
    let mut results = session.results.iter();
    let mut part = 0;
    loop {
        match machine.next() {
            Next::Ask(question) => {
                sent += question.messages.iter().map(|message| message.content.len() as u64).sum::<u64>();
                if results.len() > 0 {
                    part += 1;
                    machine.hear(&format!("{{\"tool\":\"read\",\"args\":{{\"part\":{part}}}}}"), FinishReason::Stop);
                } else {
                    let read =
                        |fact: &&String| question.messages.iter().any(|said| said.content.contains(fact.as_str()));
                    kept = session.facts.iter().filter(read).count();
                    machine.hear("{\"answer\":\"as read\"}", FinishReason::Stop);
                }
            }
            Next::Call(_) => {
                let text = results.next().cloned().unwrap_or_default();
                machine.take(&ToolReport::new(EvidenceStatus::Ok, text, "read"));
            }
            Next::Done(_) => break,
        }
    }
    Left {
        turns: u32::from(machine.turns()),
        context_bytes: sent,
        kept_facts: kept as f64 / session.facts.len().max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::Compressor;

    #[test]
    fn a_seed_gives_the_same_session_and_another_number_another() {
        assert_eq!(generate(1, 3, 7, 4_000), generate(1, 3, 7, 4_000));
        assert_ne!(generate(1, 3, 7, 4_000), generate(1, 4, 7, 4_000));
        assert_ne!(generate(1, 3, 7, 4_000), generate(2, 3, 7, 4_000));
    }

    #[test]
    fn everything_is_kept_where_it_fits_and_less_where_it_does_not() {
        for compressor in [Compressor::OldestFirst, Compressor::Salient] {
            let tuning = Tuning { compressor: Some(compressor), ..Tuning::default() };
            let session = generate(1, 0, 7, 6_000);
            let roomy = run(&session, &tuning, 1 << 20);
            assert_eq!((roomy.turns, roomy.kept_facts), (8, 1.0), "{compressor:?}");
            let tight = run(&session, &tuning, 12_000);
            assert!(tight.context_bytes < roomy.context_bytes, "{compressor:?}");
        }
    }

    #[test]
    fn the_salient_compressor_keeps_more_facts_over_many_sessions() {
        let kept = |compressor| -> f64 {
            let tuning = Tuning { compressor: Some(compressor), ..Tuning::default() };
            (0..50).map(|number| run(&generate(9, number, 7, 8_000), &tuning, 20_000).kept_facts).sum::<f64>() / 50.0
        };
        let (oldest, salient) = (kept(Compressor::OldestFirst), kept(Compressor::Salient));
        assert!(salient > oldest + 0.2, "{salient} against {oldest}");
    }
}
