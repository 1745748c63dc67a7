// What the agent has learned: where each skill stands, both arms of its trial, and what everything proven is worth.

import { at, get } from "../api.js";
import { empty, field, h, replace, select, table, th, title } from "../dom.js";
import { pager } from "../pager.js";
import { grouped, time } from "../words.js";
import { arm, cost, ends, interval, operates, stands } from "./trial.js";

const STATES = [
  ["", "all"],
  ["trial", "on trial"],
  ["proven", "proven"],
  ["unproven", "unproven"],
  ["harmful", "harmful"],
  ["untried", "not on trial yet"],
];
const HEADS = ["Skill", "State", "With it", "Without", "Gain, 95 %", "Cost a task"];

export async function learningView({ place, signal, agent, query, keep, frame }) {
  const asked = { state: query.get("state") ?? "" };
  const worth = h("div", {});
  const said = h("div", {});
  let operator = false;
  const body = h("tbody");
  const heads = [...HEADS.map((text) => th(text)), th("Last task", { class: "wide" })];
  const list = pager({
    list: { body, frame: table("What was learned", heads, body) },
    noun: "learned skill",
    signal,
    async fetch(cursor) {
      let answer;
      [answer, operator] = await Promise.all([
        get(at`agents/${agent}/learning`, { ...asked, cursor, limit: 100 }, signal),
        operates(signal),
      ]);
      if (!signal.aborted) replace(worth, summary(answer));
      return { items: answer.skills, next: answer.next, total: answer.total };
    },
    row: (skill) => row(skill, frame.home, operator ? ends(skill, { agent, signal, said, after }) : null),
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
  const after = () => {
    frame.refresh();
    return begin();
  };
  const states = select(STATES, asked.state, (value) => {
    asked.state = value;
    begin();
  });
  const head = h("div", { class: "head" }, title("Learning"), h("div", { class: "tools" }, field("State", states)));
  place.append(head, said, worth, list.element);
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

function row(skill, home, buttons) {
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row", class: "main" },
      h("a", { href: `${home}/skills/${encodeURIComponent(skill.skill)}` }, skill.skill),
      skill.reason ? h("div", { class: "dim clip" }, skill.reason) : null,
      buttons,
    ),
    h("td", { class: "wraps" }, stands(skill)),
    h("td", { class: "num" }, arm(skill.shown)),
    h("td", { class: "num" }, arm(skill.heldBack)),
    h("td", { class: "num" }, interval(skill.gain)),
    h("td", { class: "num" }, cost(skill.extraMicroUsd)),
    h("td", { class: "wide" }, time(skill.last)),
  );
}
