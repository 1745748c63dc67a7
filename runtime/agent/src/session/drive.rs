//! The only part of a session that waits: it asks the model, calls the tools, and keeps the record.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::legal::{self, LegalReplies};
use super::machine::{Legal, Machine, Next, ReplyEffect, Stop, ToolCall, TurnRequest};
use super::retry;
use super::transcript::Turn;
use crate::backend::{
    Advice, BackendError, Chain, ChainResponse, Completion, CompletionRequest, ErrorClass, Price, Purpose, Tokens,
    ToolRecord, ToolRole,
};
use crate::ids::Random;
use crate::memory::EvidenceStatus;
use crate::session::exemplar::Plan;
use crate::task::{StopReason, TaskEvent, TaskLimits, TaskUsage};
use crate::tool::{ToolContext, ToolReport, ToolSpec, Toolbox, dispatch, traced};

/// The first tries and the last word vary a little; tool calls should not.
const TEMPERATURE: f32 = 0.1;
/// How often a conversation that is too long is shortened before giving up.
const SHRINKS: u32 = 3;
/// Where an endpoint does not count: bytes a token, on the low side.
const BYTES_A_TOKEN: u64 = 3;

/// Who runs a call: the tools themselves, or a record of what they returned.
#[async_trait]
pub trait ToolExecutor: Send + Sync {
    /// What came of a call.
    async fn call(&self, call: &ToolCall, cx: &ToolContext, until: Instant) -> ToolReport;
}

/// Runs the tools of a toolbox, within the time and size that their cards allow.
#[derive(Debug, Clone)]
pub struct LiveTools(pub Toolbox);

#[async_trait]
impl ToolExecutor for LiveTools {
    async fn call(&self, call: &ToolCall, cx: &ToolContext, until: Instant) -> ToolReport {
        match self.0.get(&call.tool) {
            Some(tool) => {
                let mut report = dispatch(tool, call.args.clone(), cx, until).await;
                if let Some(news) = cx.news().await {
                    report.text.push_str(&format!("\n{news}"));
                }
                report
            }
            None => ToolReport::refused("There is no such tool.", "there is no such tool"),
        }
    }
}

/// Lets a caller end a task early.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    asked: std::sync::atomic::AtomicBool,
    notify: tokio::sync::Notify,
}

impl CancelToken {
    /// Not asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for it. The task ends as cancelled, with a receipt.
    pub fn cancel(&self) {
        self.0.asked.store(true, std::sync::atomic::Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Whether it was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Waits until it is asked for.
    pub async fn wait_cancelled(&self) {
        loop {
            let notified = self.0.notify.notified();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }
}

/// Asked once a task has its final answer, before anything of it is kept: whether the answer may be kept and handed
/// out. Where it may not, the task leaves what a failed one leaves.
#[async_trait]
pub trait AnswerRelease: Send + Sync + std::fmt::Debug {
    /// Lets the answer go; or says why not, in a sentence for the log of tasks.
    async fn release(&self, answer: &str) -> Result<(), String>;
}

/// The channel that takes the events of a task; a closed one does not end the task.
pub type EventSender = tokio::sync::mpsc::UnboundedSender<TaskEvent>;

/// What a session needs beside its machine.
pub struct Session<'s> {
    /// The backends that are asked, in order.
    pub chain: &'s Chain,
    /// What runs the calls: the tools, or in a replay the record of what they returned.
    pub caller: &'s dyn ToolExecutor,
    /// The context that each call of a tool gets.
    pub cx: &'s ToolContext,
    /// The tools the task may use.
    pub tools: &'s [&'s ToolSpec],
    /// The schema of the final answer, where the role declares one.
    pub answer: Option<&'s Value>,
    /// Whether the model had to be shown how to call and to answer.
    pub examples: bool,
    /// The calls of the example that is shown, where a backend can be held to them.
    pub plan: Option<&'s Plan>,
    /// Whether the model is held to all of the plan; otherwise only to where arguments come from.
    pub follows_plan: bool,
    /// What the task may use up.
    pub limits: &'s TaskLimits,
    /// When it has to be done.
    pub until: Instant,
    /// Lets the caller end the task early.
    pub cancel: &'s CancelToken,
    /// The channel that events are sent to; none where nobody listens.
    pub events: Option<&'s EventSender>,
    /// The source of chance for the waits between retries.
    pub random: &'s dyn Random,
    /// The legal replies as schemas, put together when first asked for.
    pub legal: [OnceLock<Arc<Value>>; 3],
}

/// What was said and done.
#[derive(Debug, Default)]
pub struct SessionLog {
    /// The replies, each with the call that it led to and what the tool returned.
    pub turns: Vec<Turn>,
    /// What it used up.
    pub usage: TaskUsage,
    /// The model that spoke last.
    pub model: Option<String>,
    /// The backend that spoke last.
    pub backend: String,
    /// What the endpoint gave as proof of where it ran.
    pub attestation: Option<String>,
}

/// Why there is no reply.
enum NoReply {
    Backend(BackendError),
    Stop(StopReason, String),
}

impl Session<'_> {
    /// Sends an event, where somebody listens.
    pub fn emit(&self, event: impl FnOnce() -> TaskEvent) {
        if let Some(events) = self.events {
            // Nobody listens any more: the task goes on all the same.
            let _ = events.send(event());
        }
    }

    /// Runs the machine to its end.
    pub async fn drive(&self, machine: &mut Machine) -> SessionLog {
        let mut driven = SessionLog {
            turns: Vec::new(),
            usage: TaskUsage::default(),
            model: None,
            backend: self.chain.backends.first().map(|backend| backend.name().to_owned()).unwrap_or_default(),
            attestation: None,
        };
        // A turn is a reply and the call that it asks for.
        let mut span = Span::none();
        loop {
            match machine.next() {
                Next::Done(_) => return driven,
                Next::Ask(question) => {
                    let turn = u32::from(question.turn);
                    span = tracing::info_span!("turn", herm.turn = turn);
                    self.emit(|| TaskEvent::TurnStarted { turn, of: u32::from(self.limits.turns) });
                    let started = Instant::now();
                    match self.reply(machine, question, &mut driven).instrument(span.clone()).await {
                        Ok(completion) => {
                            let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                            self.heard(machine, completion, millis, &mut driven);
                        }
                        Err(NoReply::Backend(error)) if Instant::now() >= self.until => {
                            machine.end(StopReason::Deadline, format!("the time was up: {}", error.message));
                        }
                        Err(NoReply::Backend(error)) => machine.end(StopReason::Backend, error.to_string()),
                        Err(NoReply::Stop(reason, message)) => machine.end(reason, message),
                    }
                }
                Next::Call(call) => {
                    let call = call.clone();
                    if let Err((reason, message)) = self.call(machine, call, &mut driven).instrument(span.clone()).await
                    {
                        machine.end(reason, message);
                    }
                }
            }
        }
    }

    fn heard(&self, machine: &mut Machine, completion: Completion, millis: u64, driven: &mut SessionLog) {
        let turn = u32::from(machine.turns()) + 1;
        self.emit(|| TaskEvent::Reply { turn, text: completion.text.as_str().into(), millis });
        let heard = machine.hear(&completion.text, completion.finish);
        driven.turns.push(Turn { reply: completion, call: None, report: None });
        match heard {
            ReplyEffect::Nudged(text) => self.emit(|| TaskEvent::Nudge { turn, text }),
            ReplyEffect::Refused { tool, text } => self.emit(|| TaskEvent::ToolResult {
                turn,
                tool,
                status: EvidenceStatus::Refused,
                summary: text.to_string(),
                millis: 0,
            }),
            ReplyEffect::Call | ReplyEffect::Done | ReplyEffect::Ignored => {}
        }
    }

    async fn call(
        &self,
        machine: &mut Machine,
        call: ToolCall,
        driven: &mut SessionLog,
    ) -> Result<(), (StopReason, String)> {
        let turn = u32::from(machine.turns());
        self.cx.enter_turn(turn);
        self.emit(|| TaskEvent::ToolCall { turn, tool: call.tool.clone(), args: Value::Object(call.args.clone()) });
        let report = tokio::select! {
            biased;
            () = self.cancel.wait_cancelled() => return Err(cancelled()),
            report = self.caller.call(&call, self.cx, self.until) => report,
        };
        self.emit(|| TaskEvent::ToolResult {
            turn,
            tool: call.tool.clone(),
            status: report.status,
            summary: report.summary.clone(),
            millis: report.millis,
        });
        machine.take(&report);
        if let Some(turn) = driven.turns.last_mut() {
            turn.call = Some(call);
            turn.report = Some(report);
        }
        if Instant::now() >= self.until {
            return Err((StopReason::Deadline, "the time was up".to_owned()));
        }
        Ok(())
    }

    /// One reply, with a shorter conversation where the endpoint wants one.
    async fn reply(
        &self,
        machine: &mut Machine,
        question: TurnRequest,
        driven: &mut SessionLog,
    ) -> Result<Completion, NoReply> {
        let TurnRequest { mut messages, legal, calls, .. } = question;
        let legal = self.legal(machine, legal);
        let tools = ToolRecord { roles: self.roles(), calls };
        for shrunk in 0..=SHRINKS {
            let ask = CompletionRequest {
                messages,
                purpose: Purpose::Turn,
                tools: tools.clone(),
                reply_schema: Arc::clone(&legal),
                max_output_tokens: self.limits.reply_tokens,
                max_output_bytes: self.limits.reply_bytes,
                temperature: TEMPERATURE,
            };
            match self.ask(&ask, driven).await {
                Err(NoReply::Backend(error)) if error.class.advice() == Advice::Shrink && shrunk < SHRINKS => {
                    let bytes: usize = ask.messages.iter().map(|message| message.content.len()).sum();
                    machine.limit_context(bytes / 2);
                    match machine.next() {
                        Next::Ask(question) => messages = question.messages,
                        _ => return Err(NoReply::Backend(error)),
                    }
                }
                other => return other,
            }
        }
        Err(NoReply::Backend(BackendError::new(ErrorClass::ContextOverflow, "the conversation cannot be made shorter")))
    }

    /// The tools of the task that say what they are for.
    pub(super) fn roles(&self) -> Vec<ToolRole> {
        self.tools.iter().filter_map(|card| card.role()).collect()
    }

    /// The tools with what their arguments may be held to; none where there is no plan and the model needs no examples
    /// that it could copy from.
    fn held(&self, machine: &Machine) -> Option<Vec<ToolSpec>> {
        let (question, results) = (&self.cx.task().input, machine.results());
        let of_cards;
        let plan = match self.plan {
            Some(plan) => plan,
            None if !self.examples => return None,
            None => {
                of_cards = Plan::of_cards(self.tools);
                &of_cards
            }
        };
        let holds = |card: &ToolSpec| retry::holds(&card.schema, &legal::args_of(machine.failed(), card));
        Some(plan.hold(self.tools, question, &results, holds))
    }

    /// The legal replies as a schema, put together once a session where nothing happened that changes them, and only where
    /// it is of use.
    fn legal(&self, machine: &Machine, legal: Legal) -> Arc<Value> {
        if !self.chain.backends.iter().any(|backend| backend.capabilities().constrains_replies) {
            return Arc::new(Value::Bool(true));
        }
        // A plan holds until a call goes wrong.
        let goes_well = machine.calls().iter().all(|call| call.status == EvidenceStatus::Ok);
        let legal = match self.plan.filter(|_| self.follows_plan && goes_well && legal != Legal::Final) {
            Some(plan) => {
                match plan.legal(machine.calls().len(), self.tools, &self.cx.task().input, &machine.results()) {
                    Some(step) => return Arc::new(serde_json::json!({ "anyOf": [step] })),
                    None if legal == Legal::CallOrFinal => Legal::Final,
                    None => legal,
                }
            }
            None => legal,
        };
        let held = self.held(machine).filter(|_| legal != Legal::Final);
        let begin = LegalReplies::new(legal, self.tools, self.answer, self.examples);
        if held.is_some() || legal != Legal::Final && !machine.failed().is_empty() {
            let replies = LegalReplies { held: held.as_deref(), failed: machine.failed(), ..begin };
            return Arc::new(replies.schema());
        }
        let cell = match legal {
            Legal::Call => &self.legal[0],
            Legal::CallOrFinal => &self.legal[1],
            Legal::Final => &self.legal[2],
        };
        Arc::clone(cell.get_or_init(|| Arc::new(begin.schema())))
    }

    /// Asks once, within budget, deadline and the caller's patience, and counts what it took.
    pub(super) async fn ask_counted(
        &self,
        ask: &CompletionRequest,
        driven: &mut SessionLog,
    ) -> Result<Completion, String> {
        self.ask(ask, driven).await.map_err(|why| match why {
            NoReply::Backend(error) => error.to_string(),
            NoReply::Stop(_, message) => message,
        })
    }

    async fn ask(&self, ask: &CompletionRequest, driven: &mut SessionLog) -> Result<Completion, NoReply> {
        self.afford(ask, driven)?;
        let retries = std::sync::atomic::AtomicU32::new(0);
        let jitter = || self.random.fraction();
        let heard = |attempt: &crate::backend::Attempt<'_>| {
            retries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let wait = attempt.wait;
            tracing::info!(backend = attempt.backend, class = attempt.class.name(), ?wait, "no answer");
            self.emit(|| TaskEvent::Retry {
                backend: attempt.backend.to_owned(),
                class: attempt.class.name().to_owned(),
                wait_millis: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            });
        };
        let answered = tokio::select! {
            biased;
            () = self.cancel.wait_cancelled() => { let (reason, message) = cancelled(); return Err(NoReply::Stop(reason, message)) }
            answered = self.chain.ask(ask, self.until, &jitter, &heard) => answered,
        };
        driven.usage.retries += retries.load(std::sync::atomic::Ordering::Relaxed);
        let ChainResponse { completion, backend, span, .. } = answered.map_err(NoReply::Backend)?;
        if self.cx.traces_content() {
            span.record("gen_ai.output.messages", traced(&completion.text));
        }
        count(&mut driven.usage, ask, &completion, backend.capabilities().price);
        driven.model = Some(completion.model.clone());
        driven.backend = backend.name().to_owned();
        driven.attestation = completion.attestation.clone().or(driven.attestation.take());
        Ok(completion)
    }

    /// Whether the next reply fits the budgets, at worst.
    fn afford(&self, ask: &CompletionRequest, driven: &SessionLog) -> Result<(), NoReply> {
        let worst = Tokens { input: estimate(ask), output: u64::from(ask.max_output_tokens), cached: 0 };
        let over = |what: String| Err(NoReply::Stop(StopReason::Budget, what));
        if let Some(budget) = self.limits.total_tokens {
            let spent = driven.usage.total_tokens();
            if spent.saturating_add(worst.input) >= budget {
                return over(format!("the budget of {budget} tokens does not allow another reply ({spent} are used)"));
            }
        }
        if let Some(budget) = self.limits.micro_usd {
            for backend in &self.chain.backends {
                let Some(price) = backend.capabilities().price else {
                    return over(format!("a money budget cannot be held: {} has no known price", backend.name()));
                };
                let spent = driven.usage.micro_usd.unwrap_or(0);
                if spent.saturating_add(price.of(worst)) > budget {
                    return over(format!(
                        "the budget of {budget} millionths of a dollar does not allow another reply ({spent} are used)"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn cancelled() -> (StopReason, String) {
    (StopReason::Cancelled, "the caller cancelled the task".to_owned())
}

fn estimate(ask: &CompletionRequest) -> u64 {
    ask.messages.iter().map(|message| message.content.len() as u64).sum::<u64>() / BYTES_A_TOKEN
}

fn count(usage: &mut TaskUsage, ask: &CompletionRequest, completion: &Completion, price: Option<Price>) {
    usage.replies += 1;
    // What the endpoint does not count is estimated, so that a budget holds all the same.
    let (total, tokens) = match completion.tokens {
        Some(tokens) => (usage.tokens.get_or_insert_default(), tokens),
        None => {
            let output = completion.text.len() as u64 / BYTES_A_TOKEN;
            (usage.estimated.get_or_insert_default(), Tokens { input: estimate(ask), output, cached: 0 })
        }
    };
    // Endpoints say what they like.
    total.input = total.input.saturating_add(tokens.input);
    total.output = total.output.saturating_add(tokens.output);
    total.cached = total.cached.saturating_add(tokens.cached);
    if let Some(price) = price {
        let spent = usage.micro_usd.get_or_insert_default();
        *spent = spent.saturating_add(price.of(tokens));
    }
}

/// How a machine ended, once it has.
pub fn stop_of(machine: &Machine) -> Stop {
    match machine.next() {
        Next::Done(stop) => stop.clone(),
        Next::Ask(_) | Next::Call(_) => Stop {
            reason: StopReason::Internal,
            answer: None,
            message: Some("the session was left before its end".to_owned()),
        },
    }
}
