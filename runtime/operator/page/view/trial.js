// What is said of the trial of a learned skill: its state, its arms, its gain, its cost, and the buttons that end it.

import { at, get, post } from "../api.js";
import { ask } from "../confirm.js";
import { announce, badge, button, empty, facts, h, s, table } from "../dom.js";
import { trouble } from "../trouble.js";
import { count, grouped, time } from "../words.js";
import { chart, EDGE, label, scale, TALL } from "./charts.js";

const TONES = { proven: "good", trial: "warn", harmful: "bad" };
const NONE = "–";

/** `+0.60 (+0.31 to +0.78)`. */
export function interval(gain) {
  return gain ? `${signed(gain.value)} (${signed(gain.low)} to ${signed(gain.high)})` : NONE;
}

function signed(value) {
  return `${sign(value)}${Math.abs(value).toFixed(2)}`;
}

function sign(value) {
  return value < 0 ? "−" : "+";
}

/** What a task costs more with a skill, in dollars; less, where negative. */
export function cost(microUsd) {
  return typeof microUsd === "number" ? `${sign(microUsd)}${(Math.abs(microUsd) / 1e6).toFixed(4)} $` : NONE;
}

/** Where a skill stands. */
export function stands(skill) {
  const state = skill.state ?? "not on trial yet";
  // What is harmful is archived; of another state it is worth a word.
  const archived = skill.archived && state !== "harmful" ? badge("archived") : null;
  return [badge(state, TONES[state]), archived, skill.pinned ? badge("pinned") : null];
}

/** The mean outcome, and of how many tasks. */
export function arm({ mean, known, tasks }) {
  const all = count(tasks, "task");
  const words = tasks > known ? `${all}, of ${grouped(tasks - known)} the outcome is unknown` : all;
  return h("span", { title: words }, figure(mean), h("span", { class: "dim" }, ` of ${grouped(known)}`));
}

function figure(mean) {
  return mean === null || mean === undefined ? NONE : mean.toFixed(2);
}

/** Whether the reader of the page may operate. */
export async function operates(signal) {
  const who = await get("key", {}, signal);
  return Boolean(who.keyless || who.operations?.includes("operate"));
}

const ENDS = [
  {
    as: "proven",
    word: "Keep",
    text: "The skill counts as proven: every task that it fits sees it. The trial ends.",
    done: "is kept: every task that it fits sees it.",
    tone: "primary",
  },
  {
    as: "unproven",
    word: "Stop",
    text: "The trial ends as unproven: the skill stays in the index of skills and is put before no task.",
    done: "is on trial no more: it stays in the index and is put before no task.",
    tone: "primary",
  },
  {
    as: "archived",
    word: "Archive",
    text: "The skill is archived in one step with its own receipt. It does not come back by itself.",
    done: "is archived.",
    tone: "danger",
  },
];

/** Buttons that end the trial of a skill; nothing where it is on none. `said` shows what became of it, `after` draws anew. */
export function ends(skill, { agent, signal, said, after }) {
  if (skill.state !== "trial" || skill.archived) return null;
  const end = async ({ as, word, text, done, tone }) => {
    if (!(await ask({ question: `${word} ${skill.skill}?`, text, yes: word, tone }))) return;
    try {
      await post(at`agents/${agent}/learning/${skill.skill}/stop`, { as }, signal);
      const sentence = `${skill.skill} ${done}`;
      said.replaceChildren(h("p", { class: "box good" }, sentence));
      announce(sentence);
      await after();
    } catch (error) {
      if (!signal.aborted) said.replaceChildren(trouble(error));
    }
  };
  return h(
    "div",
    { class: "row ends" },
    ENDS.map((how) => button(how.word, () => end(how), { class: "small", "aria-label": `${how.word} ${skill.skill}` })),
  );
}

/** Everything that is known of the trial of one skill. `buttons` end it, where the reader may. */
export function trialView(skill, buttons) {
  return h(
    "section",
    { class: "card brings", "aria-label": "What it brings" },
    h("div", { class: "line" }, h("h2", {}, "What it brings"), stands(skill), buttons),
    skill.reason ? h("p", {}, skill.reason) : null,
    facts([
      ["Gain, 95 %", h("strong", {}, interval(skill.gain))],
      ["Cost a task", cost(skill.extraMicroUsd)],
      ["In rehearsals", skill.rehearsals ? `${interval(skill.rehearsedGain)} in ${grouped(skill.rehearsals)}` : null],
      ["On trial since", skill.since ? time(skill.since) : null],
      ["Decided", skill.decided ? time(skill.decided) : null],
      ["Looked at next", skill.nextLook ? `after ${count(skill.nextLook, "task")} with a known outcome` : null],
    ]),
    arms(skill),
    curve(skill.curve ?? []),
    examples(skill.examples ?? []),
    tasks(skill.tasks ?? []),
  );
}

function arms({ shown, heldBack }) {
  const row = (name, { tasks, known, mean, interval: range, errors, turns, microUsd }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      [
        grouped(tasks),
        grouped(known),
        figure(mean),
        range ? `${range[0].toFixed(2)} to ${range[1].toFixed(2)}` : NONE,
        errors.toFixed(1),
        turns.toFixed(1),
        `${(microUsd / 1e6).toFixed(4)} $`,
      ].map((text) => h("td", { class: "num" }, text)),
    );
  const heads = ["Arm", "Tasks", "Outcome known", "Mean outcome", "95 %", "Failed calls", "Turns", "Cost"];
  return table("Both arms of the trial", heads, h("tbody", {}, row("With it", shown), row("Without", heldBack)));
}

/** The mean outcome so far of each arm, after each task of it whose outcome is known. */
export function means(points) {
  const arms = { shown: [], held_back: [] };
  const sums = { shown: 0, held_back: 0 };
  points.forEach(({ arm: of, score }, index) => {
    if (typeof score !== "number") return;
    sums[of] += score;
    arms[of].push({ task: index + 1, mean: sums[of] / (arms[of].length + 1), known: arms[of].length + 1 });
  });
  return arms;
}

function curve(points) {
  const { shown, held_back: held } = means(points);
  if (!shown.length && !held.length) return null;
  const name = "Mean outcome over the tasks of its trial";
  const last = (line) => (line.length ? line.at(-1).mean.toFixed(2) : NONE);
  const figureOf = chart({
    name,
    desc: `After ${count(points.length, "task")}: ${last(shown)} with it, ${last(held)} without.`,
    keys: [
      ["with it", "a"],
      ["without", "b"],
    ],
    draw(width) {
      const y = scale(1);
      const x = (task) =>
        EDGE.left + (points.length === 1 ? 0.5 : (task - 1) / (points.length - 1)) * (width - EDGE.left - EDGE.right);
      const path = (line) => line.map(({ task, mean }, index) => `${index ? "L" : "M"}${x(task)} ${y(mean)}`).join("");
      const drawn = (line, tone) => {
        if (!line.length) return null;
        const { task, mean } = line.at(-1);
        return [
          s("path", { class: `line ${tone}`, d: path(line) }),
          s("circle", { class: `dot ${tone}`, cx: x(task), cy: y(mean), r: 3 }),
        ];
      };
      return [
        [0, 0.5, 1].map((value) => [
          s("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
          label(EDGE.left - 6, y(value) + 3.5, String(value), "end"),
        ]),
        drawn(held, "b"),
        drawn(shown, "a"),
        label(EDGE.left, TALL - 4, "task 1", "start"),
        points.length > 1 ? label(width - EDGE.right, TALL - 4, `task ${points.length}`, "end") : null,
      ];
    },
    rows: () =>
      table(
        name,
        ["Task", "Arm", "Mean so far", "Of tasks"],
        h(
          "tbody",
          {},
          [...shown.map((point) => ["with it", point]), ...held.map((point) => ["without", point])]
            .sort(([, a], [, b]) => a.task - b.task)
            .map(([word, { task, mean, known }]) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, task),
                h("td", {}, word),
                h("td", { class: "num" }, mean.toFixed(2)),
                h("td", { class: "num" }, known),
              ),
            ),
        ),
      ),
  });
  return h("div", { class: "charts" }, figureOf);
}

function examples(list) {
  if (!list.length) return null;
  return h(
    "details",
    { open: list.length <= 5 },
    h("summary", {}, count(list.length, "worked example")),
    h(
      "ul",
      { class: "evidence" },
      list.map(({ task, question, tools }) =>
        h("li", {}, question, " ", h("span", { class: "dim small" }, `${tools.join(", ")} · task `, h("code", {}, task))),
      ),
    ),
  );
}

function tasks(list) {
  if (!list.length) return empty("No task of its trial can be shown.", null);
  return h(
    "details",
    {},
    h("summary", {}, `The last ${count(list.length, "task")} of its trial`),
    table(
      "Tasks of its trial",
      ["Task", "Began", "Arm", "Outcome"],
      h(
        "tbody",
        {},
        list.map(({ task, at: began, arm: of, score, rehearsed }) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, h("code", {}, task)),
            h("td", {}, time(began)),
            h("td", {}, `${rehearsed ? "rehearsed, " : ""}${of === "shown" ? "with it" : "without"}`),
            h("td", { class: "num" }, typeof score === "number" ? score.toFixed(2) : "unknown"),
          ),
        ),
      ),
    ),
  );
}
