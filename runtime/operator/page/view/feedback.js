// How good the answer of a task was: what is said of it so far, and two buttons to say it.

import { at, post } from "../api.js";
import { announce, badge, button, field, h, replace } from "../dom.js";
import { trouble } from "../trouble.js";
import { time } from "../words.js";

const SAYS = {
  schema: "the form of the answer",
  verifier: "the checks of the role",
  feedback: "feedback",
  label: "the operator",
};

/** The outcome of a settled task, and a way to correct it. Nothing where the task was not settled. */
export function feedbackView({ task, outcome }, signal) {
  if (!task || !outcome?.outcome || !outcome.version) return null;
  const place = h("div", { class: "feedback" });
  draw(place, task, outcome.outcome, signal);
  return place;
}

function draw(place, task, { value, sources }, signal) {
  const note = h("input", { type: "text", maxlength: "500", autocomplete: "off" });
  const said = h("div", {});
  const say = (word) =>
    button(word === "good" ? "Good" : "Bad", () => send(word), { class: "small", "aria-pressed": String(value === word) });
  const buttons = [say("good"), say("bad")];

  async function send(word) {
    for (const one of buttons) one.disabled = true;
    try {
      const answer = await post(at`tasks/${task}/feedback`, { value: word, note: note.value.trim() || null }, signal);
      draw(place, task, answer.outcome, signal);
      announce(answer.settled ? `Kept: ${word}.` : "That was said before.");
    } catch (error) {
      for (const one of buttons) one.disabled = false;
      if (!signal?.aborted) replace(said, trouble(error));
    }
  }

  replace(
    place,
    h("h3", {}, "How good was it? ", rating(value)),
    sources.length ? h("ul", { class: "sources" }, sources.map(source)) : null,
    h("div", { class: "row" }, buttons, field("Why (optional)", note)),
    said,
  );
}

/** A value as a word in a pill. */
export function rating(value) {
  if (value === "unknown" || value === null || value === undefined) return badge("not known yet", "");
  if (typeof value === "number") return badge(`score ${value}`, value >= 0.5 ? "good" : "bad");
  return badge(value, value);
}

function source({ source: by, value, note, at: when }) {
  return h("li", {}, rating(value), ` says ${SAYS[by] ?? by}`, note ? `: ${note}` : "", ", ", time(when));
}
