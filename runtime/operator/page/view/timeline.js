// Every step of a brain, newest first: what it was, what moved, and how it differs from the version before.

import { at, get } from "../api.js";
import { badge, empty, h, loading, replace, title } from "../dom.js";
import { diffView } from "../diff.js";
import { pager } from "../pager.js";
import { show } from "../trouble.js";
import { count, hash, time } from "../words.js";
import { chartsView } from "./charts.js";

const PARTS = [
  ["skills", "skills"],
  ["layer1", "Layer 1"],
  ["system", "system"],
  ["patterns", "patterns"],
  ["other", "other"],
];
const MANY = 6;

export async function timelineView(context) {
  const { place, signal, agent } = context;
  const charts = h("div", { class: "charts" });
  const body = h("ol", { class: "timeline" });
  const list = pager({
    list: { body },
    noun: "step",
    signal,
    async fetch(before) {
      const answer = await get(at`agents/${agent}/history`, { before, limit: 25 }, signal);
      return { items: answer.steps, next: answer.next };
    },
    row: (step, index, steps) => stepView(step, steps[index + 1]?.version ?? step.version - 1, context),
    none: () => empty("No steps yet.", "A brain takes its first step when it is made. Give it a task under Live."),
  });
  place.append(
    h("div", { class: "head" }, title("Timeline"), h("p", { class: "dim" }, "One entry for each settled step of this brain.")),
    charts,
    list.element,
  );
  await Promise.all([chartsView(charts, agent, signal), list.start()]);
}

function stepView(step, versionBefore, { agent, signal, frame }) {
  const what = step.summary || (step.kind === "task" ? "A task of someone else: its words are not shown to this key." : "–");
  return h(
    "li",
    { class: `step ${step.kind}` },
    h(
      "div",
      { class: "line" },
      h("strong", { class: "version" }, `v${step.version}`),
      badge(step.kind, `kind-${step.kind}`),
      time(step.at),
      hash(step.after, "bundle hash after the step"),
      step.receipt
        ? h(
            "a",
            { class: "small", href: `${frame.home}/receipts/${receiptNumber(step.receipt)}` },
            `receipt ${receiptNumber(step.receipt)}`,
          )
        : h("span", { class: "dim small" }, "no receipt"),
    ),
    h("p", { class: "what" }, what),
    step.summary === null ? null : moved(step.files ?? [], frame),
    // The first version has none before it to be compared with.
    step.version > 1 ? differences(agent, versionBefore, step.version, signal) : null,
  );
}

// The contract leaves open whether this is a number or the entry itself.
function receiptNumber(receipt) {
  return typeof receipt === "object" ? receipt.seq : receipt;
}

/** The files that moved, by the part of the bundle they belong to. */
function moved(files, frame) {
  if (!files.length) return h("p", { class: "dim small" }, "No file moved: only what it remembers and counts.");
  const groups = Map.groupBy ? Map.groupBy(files, ({ path }) => partOf(path)) : grouped(files);
  return h(
    "ul",
    { class: "moved" },
    PARTS.filter(([part]) => groups.has(part)).map(([part, name]) => {
      const own = groups.get(part);
      const list = h(
        "ul",
        { class: "files" },
        own.map((file) => fileView(file, frame)),
      );
      return h(
        "li",
        {},
        own.length > MANY
          ? h("details", {}, h("summary", {}, h("span", { class: "part" }, name), ` ${count(own.length, "file")}`), list)
          : [h("span", { class: "part" }, name), list],
      );
    }),
  );
}

function grouped(files) {
  const groups = new Map();
  for (const file of files) groups.set(partOf(file.path), [...(groups.get(partOf(file.path)) ?? []), file]);
  return groups;
}

function partOf(path) {
  if (path.startsWith("skills/")) return "skills";
  if (path.startsWith("patterns/")) return "patterns";
  if (path === "MEMORY.md" || path === "USER.md" || path.startsWith("users/")) return "layer1";
  return path === "system.md" || path === "manifest.json" ? "system" : "other";
}

function fileView({ path, before, after }, frame) {
  const [sign, word] = !before ? ["+", "added"] : !after ? ["−", "removed"] : ["~", "changed"];
  const slug = after ? slugOf(path) : null;
  return h(
    "li",
    {},
    h("span", { class: `sign ${word}`, "aria-hidden": "true" }, sign),
    h("span", { class: "hidden" }, `${word}: `),
    slug ? h("a", { href: `${frame.home}/skills/${slug}` }, h("code", {}, path)) : h("code", {}, path),
  );
}

/** The skill whose main file this is, where it still has that place. */
function slugOf(path) {
  const match = /^skills\/(?!\.)(?:[^/]+\/)*?(?:([a-z0-9-]+)\/SKILL|([a-z0-9-]+))\.md$/.exec(path);
  return match?.[1] ?? match?.[2] ?? null;
}

function differences(agent, from, to, signal) {
  const inside = h("div", {});
  let asked = false;
  const read = async () => {
    replace(inside, loading("the difference"));
    try {
      replace(inside, differenceView(await get(at`agents/${agent}/diff`, { from, to }, signal)));
    } catch (error) {
      replace(inside);
      show(inside, error, { signal, again: read });
    }
  };
  return h(
    "details",
    {
      class: "differences",
      on: {
        toggle(event) {
          if (event.target.open && !asked) {
            asked = true;
            read();
          }
        },
      },
    },
    h("summary", {}, `Difference from version ${from}`),
    inside,
  );
}

function differenceView({ files = [], skills = [] }) {
  if (!files.length && !skills.length)
    return empty("No file differs.", "Rows of the memory moved; they are part of the hash, and are not compared line by line.");
  return [
    skills.length
      ? h(
          "ul",
          { class: "standings" },
          skills.map(({ slug, before, after }) => h("li", {}, h("code", {}, slug), ` ${standing(before)} → ${standing(after)}`)),
        )
      : null,
    files.map((file) =>
      h(
        "section",
        { class: "file" },
        h(
          "h3",
          {},
          badge(file.what, `fate-${file.what}`),
          " ",
          h("code", {}, file.path),
          file.from && file.from !== file.path ? h("span", { class: "dim" }, ` from ${file.from}`) : null,
        ),
        file.diff
          ? diffView(file.diff, file.path)
          : h(
              "p",
              { class: "dim small" },
              file.lost
                ? "Its content is no longer kept."
                : file.binary
                  ? "Not text: there are no lines to compare."
                  : "It moved; its content is the same.",
            ),
      ),
    ),
  ];
}

/** Where a skill stands: a word, or its state and whether it is pinned. */
function standing(value) {
  if (value === null || value === undefined) return "not there";
  return typeof value === "object" ? `${value.state}${value.pinned ? ", pinned" : ""}` : String(value);
}
