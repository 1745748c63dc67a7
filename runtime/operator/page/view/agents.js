// All agents of this server.

import { get } from "../api.js";
import { badge, empty, field, h, table, th, title } from "../dom.js";
import { pager } from "../pager.js";
import { hash, time } from "../words.js";
import { later } from "../later.js";

export async function agentsView({ place, signal, query, keep }) {
  let q = query.get("q") ?? "";
  const body = h("tbody");
  const list = pager({
    list: {
      body,
      frame: table("Agents", ["Agent", "Version", th("Hash", { class: "wide" }), th("Updated", { class: "wide" }), "Now"], body),
    },
    noun: "agent",
    signal,
    async fetch(cursor) {
      const answer = await get("agents", { q, cursor, limit: 50 }, signal);
      return { items: answer.agents, next: answer.next, total: answer.total };
    },
    row,
    none: () =>
      q
        ? empty(`No agent matches “${q}”.`, "Search looks at numbers and names.")
        : empty("No agents here yet.", h("span", {}, "Make one on the command line: ", h("code", {}, "herm init 1"), ".")),
  });
  const search = h("input", {
    type: "search",
    value: q,
    placeholder: "number or name",
    autocomplete: "off",
    on: {
      input: later(() => {
        q = search.value.trim();
        keep({ q });
        list.start();
      }),
    },
  });
  place.append(
    h("div", { class: "head" }, title("Agents"), h("div", { class: "tools" }, field("Search agents", search))),
    list.element,
  );
  await list.start();
}

function row(agent) {
  const home = `#/agents/${encodeURIComponent(agent.id)}`;
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row", class: "main" },
      h("a", { href: home }, h("span", { class: "number" }, agent.id), " ", agent.name || "unnamed"),
      agent.summary ? h("div", { class: "dim clip" }, agent.summary) : null,
      agent.error ? h("div", { class: "wrong" }, agent.error) : null,
    ),
    h("td", { class: "num" }, agent.version ?? "–"),
    h("td", { class: "wide" }, hash(agent.bundleHash, "bundle hash")),
    h("td", { class: "wide" }, time(agent.lastUpdated)),
    h("td", {}, now(agent)),
  );
}

/** Running, waiting and paused, in words. */
export function now({ running, waiting, paused }) {
  const words = [
    paused ? badge("paused", "warn") : null,
    running ? badge(running === true ? "running" : `${running} running`, "good") : null,
    waiting ? badge(`${Number(waiting)} waiting`) : null,
  ].filter(Boolean);
  return words.length ? words : h("span", { class: "dim" }, "idle");
}
