// What came of a task.

import { badge, button, facts, h } from "../dom.js";
import { trouble } from "../trouble.js";
import { copy, count, hash, textOrJson } from "../words.js";

/** What is to be done to a skill. */
const WISHES = { created: "create", changed: "change", archived: "archive" };

/** In a sentence. */
export function sentence({ state, outcome, problem }) {
  if (state === "cancelled") return outcome?.turns ? `Cancelled after ${count(outcome.turns, "turn")}.` : "Cancelled.";
  if (outcome) return `Done: ${outcome.status} after ${count(outcome.turns ?? 0, "turn")} (${outcome.stop}).`;
  return `Failed: ${problem?.detail ?? "it came to no outcome"}.`;
}

/** In full. */
export function outcomeView({ state, outcome, problem }, frame) {
  if (!outcome) return problem ? trouble(problem) : h("p", { class: "box warn" }, `This task is ${state}: there is no outcome.`);
  const skill = (slug) => h("a", { href: `${frame.home}/skills/${encodeURIComponent(slug)}` }, slug);
  return [
    h(
      "div",
      { class: "row between" },
      h("h3", {}, "Answer"),
      outcome.answer ? button("Copy the answer", () => copy(outcome.answer, "answer"), { class: "small" }) : null,
    ),
    outcome.answer ? textOrJson(outcome.answer) : h("p", { class: "box warn" }, outcome.message ?? "There is no answer."),
    outcome.answer && outcome.message ? h("p", {}, outcome.message) : null,
    [...(outcome.warnings ?? []), outcome.unpushed].filter(Boolean).map((warning) => h("p", { class: "box warn" }, warning)),
    facts([
      [
        "Outcome",
        [
          badge(outcome.status, `outcome-${outcome.status}`),
          ` ${outcome.stop}, ${outcome.billable ? "billable" : "not billable"}`,
        ],
      ],
      ["By", [outcome.backend, outcome.model].filter(Boolean).join(", ")],
      ["Version", outcome.version ?? "not settled"],
      ["Hash", outcome.bundleHash ? hash(outcome.bundleHash, "bundle hash") : null],
      [
        "Receipt",
        outcome.receiptSeq
          ? h("a", { href: `${frame.home}/receipts/${outcome.receiptSeq}` }, `Receipt ${outcome.receiptSeq}`)
          : "none",
      ],
      ["Skills read", outcome.skillsLoaded?.length ? h("span", { class: "chips" }, outcome.skillsLoaded.map(skill)) : "none"],
      [
        "Skills changed",
        outcome.skillsChanged?.length
          ? h(
              "span",
              { class: "chips" },
              outcome.skillsChanged.map(({ slug, change }) => h("span", {}, skill(slug), ` ${change}`)),
            )
          : "none",
      ],
      ...(outcome.skillsProposed?.length
        ? [
            [
              "Waits for review",
              h(
                "span",
                { class: "chips" },
                outcome.skillsProposed.map(({ slug, change }) => h("span", {}, skill(slug), ` ${WISHES[change] ?? change}`)),
              ),
            ],
          ]
        : []),
    ]),
  ];
}
