//! What later feedback teaches: a task that turns out good leaves its example, one that turns out bad takes it back.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Harness, Inner};
use crate::brain::{SettledStep, Step, StepKind};
use crate::error::{Error, Result};
use crate::ids::{BrainId, TaskId};
use crate::layout;
use crate::memory::TaskOutcome;
use crate::session::exemplar::file::RoomRule;
use crate::session::exemplar::{self, keep};
use crate::session::reply::Edition;
use crate::session::{GOOD_SCORE, Transcript, role_text};
use crate::task::TaskStatus;
use crate::tool::{SessionEnv, WorkingCopy, with_working_copy};

impl Harness {
    /// Learns from an outcome that came after its task, as a step of its own. `None` where there is nothing to learn: what
    /// one subscriber said is not an example for others, and a transcript that is not kept any more has none.
    pub(super) async fn learn_from(
        &self,
        id: &BrainId,
        task: &TaskId,
        outcome: &TaskOutcome,
    ) -> Result<Option<SettledStep>> {
        let inner = &self.inner;
        let Some(score) = outcome.value.score().filter(|_| inner.learning.learns && inner.learning.examples) else {
            return Ok(None);
        };
        let (place, wanting) = inner.open(id).await?;
        let at = inner.opening.clock.now();
        let env = SessionEnv { surroundings: Arc::clone(&inner.surroundings), ..SessionEnv::default() };
        let desk = Arc::new(Mutex::new(WorkingCopy::new(place, at).in_session(env)));
        let (task, shares) = (task.clone(), inner.sharing);
        let settled = with_working_copy(&desk, move |desk| learn(desk, &task, score, shares)).await;
        inner.let_go(desk, wanting, matches!(settled, Ok(Some(_))), id);
        settled
    }
}

impl Inner {
    /// Gives the brain's place back; what moved is pushed later.
    fn let_go(self: &Arc<Self>, desk: Arc<Mutex<WorkingCopy>>, wanting: super::Waiter, moved: bool, id: &BrainId) {
        if let Ok(desk) = Arc::try_unwrap(desk) {
            let place = desk.into_inner().unwrap_or_else(PoisonError::into_inner).into_place();
            if let Some(brain) = place.as_ref() {
                wanting.weigh(brain.memory_bytes());
            }
            if moved {
                self.push_later(id);
            }
        }
    }
}

fn learn(desk: &mut WorkingCopy, task: &TaskId, score: f64, shares: bool) -> Result<Option<SettledStep>> {
    let summary = match score >= GOOD_SCORE {
        true => {
            let kept = desk.brain()?.settled_task(task)?;
            let Some((status, Some(content))) = kept else { return Ok(None) };
            // By the rules of now: this is a step of its own.
            let transcript = Transcript { guarded: true, reading: Edition::default(), ..Transcript::parse(&content)? };
            if status != TaskStatus::Converged {
                return Ok(None);
            }
            if transcript.subscriber.is_some() && !(shares && transcript.sharing) {
                return Ok(None);
            }
            let role = desk.read(&layout::rel(layout::SYSTEM)?)?.unwrap_or_default();
            let Some(example) = exemplar::harvest(&transcript, &role_text(&role)?) else {
                return Ok(None);
            };
            match keep::keep(desk, example, RoomRule::of(transcript.reading))? {
                Some(skill) => format!("an example of task {task} is in skill {skill}"),
                None => return Ok(None),
            }
        }
        false => match keep::drop_of(desk, task)? {
            Some(skill) => format!("the example of task {task} is out of skill {skill}"),
            None => return Ok(None),
        },
    };
    let (brain, draft) = desk.step()?;
    let step = Step { kind: StepKind::Learn, summary: &summary, report: None, transcript: None };
    let settled = brain.settle_step(draft, &step)?;
    if settled.moved { Ok(Some(settled)) } else { Err(Error::internal("an example changed nothing")) }
}
