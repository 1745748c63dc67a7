// What stands above every view of a brain: who it is, where it is, and the ways to look at it.

import { at, get } from "../api.js";
import { facts, h, replace } from "../dom.js";
import { show } from "../trouble.js";
import { count, hash, time } from "../words.js";
import { now } from "./agents.js";

const TABS = [
  ["timeline", "Timeline"],
  ["skills", "Skills"],
  ["learning", "Learning"],
  ["memory", "Memory"],
  ["receipts", "Receipts"],
  ["proposals", "Proposals"],
  ["live", "Live"],
];

// The last that was heard of each brain: going from tab to tab the head stays where it is and does not flicker.
const heard = new Map();

/** Draws the frame into `main`; the view goes into `context.place`. `refresh` reads the brain again. */
export function brainFrame(main, context, tab) {
  const { agent, signal, place } = context;
  const home = `#/agents/${encodeURIComponent(agent)}`;
  const head = h("div", { class: "brain" });
  const nav = h(
    "nav",
    { class: "tabs", "aria-label": `Agent ${agent}` },
    TABS.map(([name, text]) =>
      h("a", { href: name === "timeline" ? home : `${home}/${name}`, "aria-current": name === tab ? "page" : null }, text),
    ),
  );
  replace(main, h("p", { class: "crumbs" }, h("a", { href: "#/agents" }, "All agents")), head, nav, place);
  draw(head, agent, heard.get(agent));

  async function refresh() {
    try {
      const brain = await get(at`agents/${agent}`, {}, signal);
      heard.set(agent, brain);
      if (signal.aborted) return;
      document.title = `${context.name} · ${brain.name || `agent ${agent}`} · herm`;
      draw(head, agent, brain);
    } catch (error) {
      show(place, error, { signal, again: refresh });
    }
  }

  refresh();
  return { refresh, home, brain: () => heard.get(agent) ?? null };
}

function draw(head, agent, brain) {
  const open = head.querySelector("details")?.open;
  replace(
    head,
    h("p", { class: "name" }, h("span", { class: "number" }, agent), " ", brain?.name ?? "", " ", brain ? now(brain) : null),
    h("p", { class: "dim" }, brain?.summary ?? "\u00a0"),
    h("ul", { class: "figures", "aria-label": "Figures" }, brain ? figures(brain) : h("li", {}, "\u00a0")),
    brain ? about(brain, open) : null,
    brain?.problems?.length ? problems(brain.problems) : null,
  );
}

function figures({ version, bundleHash, lastUpdated, counts = {} }) {
  return [
    h("li", {}, h("strong", {}, `version ${version}`)),
    h("li", {}, hash(bundleHash, "bundle hash")),
    h("li", {}, "settled ", time(lastUpdated)),
    h(
      "li",
      {},
      count(counts.skills ?? 0, "skill"),
      counts.archived ? h("span", { class: "dim" }, ` + ${counts.archived} archived`) : null,
    ),
    h("li", {}, count(counts.tasks ?? 0, "task")),
    h("li", {}, count(counts.messages ?? 0, "message")),
    h("li", {}, count(counts.facts ?? 0, "fact")),
    h("li", {}, count(counts.patterns ?? 0, "pattern")),
  ];
}

function about(brain, open) {
  return h(
    "details",
    { class: "about", open: Boolean(open) },
    h("summary", {}, "About this brain"),
    facts([
      ["Signed by", brain.signingKey ? hash(brain.signingKey, "public key") : null],
      ["Parent", brain.parent ? hash(brain.parent, "parent") : null],
      ["Origin", words(brain.origin)],
      [
        "Tools",
        brain.tools?.length
          ? h(
              "span",
              { class: "chips" },
              brain.tools.map((tool) => h("code", {}, words(tool))),
            )
          : "none",
      ],
      [
        "Parts",
        h(
          "span",
          { class: "chips" },
          Object.entries(brain.parts ?? {}).map(([part, digest]) => h("span", {}, `${part} `, hash(digest, `digest of ${part}`))),
        ),
      ],
    ]),
  );
}

/** A value whose shape the API leaves open. */
export function words(value) {
  if (value === null || value === undefined) return null;
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .filter(([, inner]) => inner !== null)
    .map(([name, inner]) => `${name} ${words(inner)}`)
    .join(", ");
}

function problems(list) {
  return h(
    "details",
    { class: "problems" },
    h("summary", {}, `${count(list.length, "file")} of this brain could not be loaded`),
    h(
      "ul",
      {},
      list.map(({ path, reason }) => h("li", {}, h("code", {}, path), ": ", reason)),
    ),
  );
}
