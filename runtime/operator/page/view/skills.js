// The skills of a brain. The server filters, sorts and pages; the page holds what was asked for and no more.

import { at, get } from "../api.js";
import { badge, empty, field, h, select, table, th, title } from "../dom.js";
import { later } from "../later.js";
import { pager } from "../pager.js";
import { grouped, percent, time } from "../words.js";

const STATES = [
  ["", "active and stale"],
  ["active", "active"],
  ["stale", "stale"],
  ["archived", "archived"],
  ["all", "all"],
];
const SORTS = [
  ["name", "name"],
  ["uses", "most used"],
  ["lastUsed", "last used"],
  ["errors", "most errors"],
];
const COLUMNS = [
  ["name", "Skill", "ascending"],
  [null, "State"],
  ["uses", "Uses", "descending"],
  ["lastUsed", "Last use", "descending", "wide"],
  [null, "Outcomes of tasks"],
  ["errors", "Calls that went well", "descending", "wide"],
  [null, "Created by", null, "wide"],
];

export async function skillsView({ place, signal, agent, query, keep, frame }) {
  const asked = { q: query.get("q") ?? "", state: query.get("state") ?? "", sort: query.get("sort") ?? "name" };
  const heads = COLUMNS.map(([, text, , tone]) => th(text, { class: tone }));
  const body = h("tbody");
  const list = pager({
    list: { body, frame: table("Skills", heads, body) },
    noun: "skill",
    signal,
    async fetch(cursor) {
      const answer = await get(at`agents/${agent}/skills`, { ...asked, cursor, limit: 100 }, signal);
      return { items: answer.skills, next: answer.next, total: answer.total };
    },
    row: (skill) => row(skill, frame.home),
    none: () =>
      asked.q || asked.state
        ? empty("No skill fits.", "Clear the filter, or look at all states.")
        : empty(
            "No skills yet: they appear after a hard task.",
            "An agent writes one when a task took many turns or went wrong on the way. Give it a task under Live.",
          ),
  });
  const begin = () => {
    keep({ ...asked, sort: asked.sort === "name" ? "" : asked.sort });
    heads.forEach((head, index) => {
      const [sort, , direction] = COLUMNS[index];
      if (sort === asked.sort) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    });
    return list.start();
  };
  const filter = h("input", {
    type: "search",
    value: asked.q,
    placeholder: "name or words",
    autocomplete: "off",
    on: {
      input: later(() => {
        asked.q = filter.value.trim();
        begin();
      }),
    },
  });
  place.append(
    h(
      "div",
      { class: "head" },
      title("Skills"),
      h(
        "div",
        { class: "tools" },
        field("Filter", filter),
        field(
          "State",
          select(STATES, asked.state, (value) => {
            asked.state = value;
            begin();
          }),
        ),
        field(
          "Sort by",
          select(SORTS, asked.sort, (value) => {
            asked.sort = value;
            begin();
          }),
        ),
      ),
    ),
    list.element,
  );
  await begin();
}

function row(skill, home) {
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row", class: "main" },
      h("a", { href: `${home}/skills/${encodeURIComponent(skill.slug)}` }, skill.slug),
      skill.category ? h("span", { class: "dim small" }, ` ${skill.category}`) : null,
      skill.description ? h("div", { class: "dim clip" }, skill.description) : null,
    ),
    h("td", { class: "wraps" }, standing(skill)),
    h("td", { class: "num" }, grouped(skill.uses)),
    h("td", { class: "wide" }, time(skill.lastUsedAt)),
    h("td", { class: "num" }, outcomes(skill)),
    h("td", { class: "num wide" }, rate(skill)),
    h("td", { class: "wide" }, skill.createdBy ?? "–"),
  );
}

/** Its state, and whether it is pinned. */
export function standing({ state, pinned }) {
  return [badge(state, `state-${state}`), pinned ? badge("pinned") : null];
}

/** How good the answers of tasks with the skill were: `3 good, 1 bad, 2 unknown`. */
export function outcomes({ outcomes: of = {} }) {
  const parts = ["good", "bad", "scored", "unknown"].filter((word) => of[word]).map((word) => `${grouped(of[word])} ${word}`);
  if (!parts.length) return h("span", { class: "dim", title: "No task had this skill" }, "–");
  const mean = typeof of.mean === "number" ? `The mean outcome of those that are known is ${of.mean.toFixed(2)}` : null;
  return h("span", { title: mean }, parts.join(", "));
}

/** The part of tool calls that did not fail, and as a bar for the eye. It says nothing of how good answers were. */
export function rate({ successRate, events, errors }) {
  if (successRate === null || successRate === undefined)
    return h("span", { class: "dim", title: "No tool calls in the last 30 days" }, "–");
  const meter = h("span", { class: "meter", "aria-hidden": "true" }, h("span"));
  meter.firstChild.style.width = `${Math.round(successRate * 100)}%`;
  return h(
    "span",
    { class: "rate", title: `${grouped(errors)} errors in ${grouped(events)} tool calls of the last 30 days` },
    percent(successRate),
    meter,
  );
}
