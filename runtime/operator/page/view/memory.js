// What a brain remembers, by search.

import { at, get } from "../api.js";
import { announce, badge, empty, field, h, loading, replace, title } from "../dom.js";
import { later } from "../later.js";
import { show } from "../trouble.js";
import { count, time } from "../words.js";

export async function memoryView({ place, signal, agent, query, keep, frame }) {
  const found = h("div", {});
  const input = h("input", {
    type: "search",
    value: query.get("q") ?? "",
    placeholder: "words to look for",
    autocomplete: "off",
    on: { input: later(look) },
  });
  let run = 0;

  async function look() {
    const q = input.value.trim();
    const mine = (run += 1);
    keep({ q });
    if (!q) return replace(found, invitation(frame));
    if (!found.querySelector(".hits")) replace(found, loading("the memory"));
    try {
      const answer = await get(at`agents/${agent}/memory/search`, { q, limit: 50 }, signal);
      if (mine !== run || signal.aborted) return;
      replace(found, hitsView(answer, q, frame));
      announce(count(answer.hits?.length ?? 0, "hit"));
    } catch (error) {
      if (mine !== run) return;
      replace(found);
      show(found, error, { signal, again: look });
    }
  }

  place.append(
    h(
      "div",
      { class: "head" },
      title("Memory"),
      h(
        "form",
        {
          class: "tools",
          role: "search",
          on: {
            submit: (event) => {
              event.preventDefault();
              look();
            },
          },
        },
        field("Search the memory", input, { class: "field grow" }),
      ),
    ),
    found,
  );
  await look();
}

function invitation(frame) {
  const counts = frame.brain()?.counts;
  return empty(
    counts
      ? `${count(counts.messages ?? 0, "message")}, ${count(counts.facts ?? 0, "fact")} and ${count(counts.tasks ?? 0, "task")} are remembered.`
      : "Messages, facts and tasks are remembered.",
    "Type some words: what was asked, what was answered, a name that occurred.",
  );
}

function hitsView({ hits = [], degraded }, q, frame) {
  return [
    degraded
      ? h(
          "p",
          { class: "box warn" },
          "The full-text index is damaged or being rebuilt: the rows were read one by one, which finds less.",
        )
      : null,
    hits.length
      ? h("p", { class: "dim" }, count(hits.length, "hit"))
      : empty(
          `Nothing about “${q}”.`,
          "Try fewer or other words. What a task asked and answered is remembered when it is settled.",
        ),
    h(
      "ol",
      { class: "hits" },
      hits.map((hit) =>
        h(
          "li",
          { class: "card" },
          h(
            "div",
            { class: "line" },
            badge(hit.source),
            time(hit.at),
            hit.task
              ? h("a", { class: "small", href: `${frame.home}/live/${encodeURIComponent(hit.task)}` }, `task ${hit.task}`)
              : null,
            h("span", { class: "dim small", title: "Higher is better" }, `score ${Number(hit.score).toFixed(2)}`),
          ),
          h("p", { class: "snippet" }, marked(hit.snippet ?? "", q)),
        ),
      ),
    ),
  ];
}

/** The snippet with the words that were looked for marked, or the beginnings of longer ones. */
function marked(text, q) {
  const stems = q
    .toLowerCase()
    .split(/[^\p{L}\p{N}_]+/u)
    .filter((word) => word.length > 1)
    .map((word) => (word.length > 5 ? word.slice(0, -2) : word));
  if (!stems.length) return text;
  const escaped = stems.map((stem) => stem.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const words = new RegExp(`((?:${escaped.join("|")})[\\p{L}\\p{N}_]*)`, "giu");
  return text.split(words).map((part, index) => (index % 2 ? h("mark", {}, part) : part));
}
