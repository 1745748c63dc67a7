// Watching one task: its events as they come, again after a broken connection, and what came of it.

import { at, del, get, stream } from "../api.js";
import { button, h, replace } from "../dom.js";
import { show } from "../trouble.js";
import { eventLog } from "./events.js";
import { feedbackView } from "./feedback.js";
import { outcomeView, sentence } from "./outcome.js";

const TRIES = 5;

/**
 * Draws a task into `place` and follows it to its end. Either `task` names one that there is, or `begin(listener, signal)`
 * makes one and streams its events. `named` is called when its name is known, `finished` if its end was seen.
 */
export async function watchTask({ place, task, begin, signal, frame, named, finished }) {
  const state = h("p", { class: "state", role: "status" }, "Waiting for the first event…");
  const notes = h("div", {});
  const answer = h("div", {});
  const name = h("code", {}, task ?? "…");
  const log = eventLog(frame, (words) => {
    if (!ended) state.textContent = words;
  });
  const cancel = button("Cancel", stop, { class: "danger", hidden: true });
  let ended = null;
  let after = null;
  replace(
    place,
    h(
      "section",
      { class: "card task", "aria-label": "Task" },
      h("div", { class: "row between" }, h("h2", {}, "Task ", name), cancel),
      state,
      notes,
      log.element,
      answer,
    ),
  );

  async function stop() {
    cancel.disabled = true;
    try {
      await del(at`tasks/${task}`);
      state.textContent = "Asked to stop; it ends after what it is doing now.";
    } catch (error) {
      cancel.disabled = false;
      show(notes, error, { signal });
    }
  }

  function know(id) {
    if (!id || task === id) return;
    task = id;
    name.textContent = id;
    named?.(id);
  }

  function hear(event) {
    after = event.id || after;
    know(event.data.task);
    if (event.name === "outcome") return finish(event.data.state ? event.data : { task, state: "done", outcome: event.data });
    if (event.name === "problem") return finish({ task, state: "failed", problem: event.data.problem ?? event.data });
    cancel.hidden = ended !== null || !task;
    log.add(event);
  }

  function finish(final) {
    const first = ended === null;
    ended = final;
    cancel.hidden = true;
    state.textContent = sentence(final);
    replace(answer, outcomeView(final, frame), feedbackView(final, signal));
    return first;
  }

  let wasOver = false;
  try {
    if (!begin) {
      const now = await get(at`tasks/${task}`, {}, signal);
      wasOver = ["done", "cancelled", "failed"].includes(now.state);
      if (wasOver) finish(now);
      else cancel.hidden = false;
    }
    await follow();
  } catch (error) {
    if (!signal.aborted && !ended) state.textContent = task ? "This task cannot be followed." : "The task was not taken.";
    // Of a task that is over the events may be gone; what came of it is there.
    if (!wasOver) show(notes, error, { signal });
  }
  if (signal.aborted || !ended) return;
  if (log.turns() === 0 && ended.outcome?.calls?.length) log.retell(ended.outcome.calls);
  if (!wasOver) finished();

  async function follow() {
    for (let attempt = 1; attempt <= TRIES; attempt += 1) {
      try {
        if (begin && !task) await begin(hear, signal);
        else await stream(at`tasks/${task}/events`, { after, signal, event: hear });
      } catch (error) {
        // An answer is an answer; and a task without a name cannot be found again.
        if (signal.aborted || error.status || !task) throw error;
        state.textContent = `The connection broke. Trying again (${attempt} of ${TRIES})…`;
      }
      if (ended || signal.aborted) return;
      await pause(300 * 2 ** attempt, signal);
    }
    // The streams ended without an end: the task itself knows.
    const last = await get(at`tasks/${task}`, {}, signal);
    if (last.outcome || last.problem || last.finishedAt || last.state === "cancelled") finish(last);
    else state.textContent = "Its events cannot be read any more. It may still run: open it again in a moment.";
  }
}

function pause(wait, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, wait);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
