// What the agent has learned: where each skill stands, both arms of its trial, and what everything proven is worth.

import { at, get } from "../api.js";
import { badge, empty, field, h, replace, select, table, th, title } from "../dom.js";
import { pager } from "../pager.js";
import { count, grouped, time } from "../words.js";

const STATES = [
  ["", "all"],
  ["trial", "on trial"],
  ["proven", "proven"],
  ["unproven", "unproven"],
  ["harmful", "harmful"],
  ["untried", "not on trial yet"],
];
const TONES = { proven: "good", trial: "warn", harmful: "bad" };
const HEADS = ["Skill", "State", "With it", "Without", "Gain, 95 %"];

export async function learningView({ place, signal, agent, query, keep, frame }) {
  const asked = { state: query.get("state") ?? "" };
  const worth = h("div", {});
  const body = h("tbody");
  const heads = [...HEADS.map((text) => th(text)), th("Last task", { class: "wide" })];
  const list = pager({
    list: { body, frame: table("What was learned", heads, body) },
    noun: "learned skill",
    signal,
    async fetch(cursor) {
      const answer = await get(at`agents/${agent}/learning`, { ...asked, cursor, limit: 100 }, signal);
      if (!signal.aborted) replace(worth, summary(answer));
      return { items: answer.skills, next: answer.next, total: answer.total };
    },
    row: (skill) => row(skill, frame.home),
    none: () =>
      asked.state
        ? empty("Nothing learned stands there.", "Look at all states.")
        : empty(
            "Nothing learned yet.",
            "An agent keeps an example of a task whose outcome is good, and writes a skill after a hard one. Each is on trial first.",
          ),
  });
  const begin = () => {
    keep(asked);
    return list.start();
  };
  const states = select(STATES, asked.state, (value) => {
    asked.state = value;
    begin();
  });
  const head = h("div", { class: "head" }, title("Learning"), h("div", { class: "tools" }, field("State", states)));
  place.append(head, worth, list.element);
  await begin();
}

function summary({ counts = {}, gain = {} }) {
  const standing = STATES.filter(([state]) => counts[state]).map(([state, words]) => `${grouped(counts[state])} ${words}`);
  if (!standing.length) return [];
  const lines = [h("p", {}, standing.join(", "))];
  if (gain.proven) {
    const fitting = Math.round((gain.fitting ?? 0) * 100);
    lines.push(
      h(
        "p",
        {},
        "What is proven gains ",
        h("strong", {}, interval(gain.proven)),
        ` a task that it fits, ${fitting} % of all; over all tasks ${interval(gain.overall)}.`,
      ),
    );
  }
  if (gain.price > 0) {
    lines.push(h("p", { class: "dim" }, `What harmful skills cost on trial: ${gain.price.toFixed(1)} good answers.`));
  }
  return lines;
}

/** `+0.60 (+0.31 to +0.78)`. */
function interval(gain) {
  return gain ? `${signed(gain.value)} (${signed(gain.low)} to ${signed(gain.high)})` : "–";
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

function row(skill, home) {
  const state = skill.state ?? "not on trial yet";
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row", class: "main" },
      h("a", { href: `${home}/skills/${encodeURIComponent(skill.skill)}` }, skill.skill),
      skill.reason ? h("div", { class: "dim clip" }, skill.reason) : null,
    ),
    h("td", { class: "wraps" }, badge(state, TONES[state]), skill.pinned ? badge("pinned") : null),
    h("td", { class: "num" }, arm(skill.shown)),
    h("td", { class: "num" }, arm(skill.heldBack)),
    h("td", { class: "num" }, interval(skill.gain)),
    h("td", { class: "wide" }, time(skill.last)),
  );
}

/** The mean outcome, and of how many tasks. */
function arm({ mean, known, tasks }) {
  const unknown = tasks > known ? `${count(tasks, "task")}, of ${grouped(tasks - known)} the outcome is unknown` : count(tasks, "task");
  const shown = mean === null || mean === undefined ? "–" : mean.toFixed(2);
  return h("span", { title: unknown }, shown, h("span", { class: "dim" }, ` of ${grouped(known)}`));
}
