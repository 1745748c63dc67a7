// Giving an agent a task, watching it work, and the tasks it had.

import { at, get, stream } from "../api.js";
import { badge, empty, field, h, table, th, title } from "../dom.js";
import { pager } from "../pager.js";
import { millis, time } from "../words.js";
import { watchTask } from "./task.js";

export async function liveView(context) {
  const { place, signal, agent, item, frame } = context;
  const stage = h("div", {});
  const recent = recentTasks(context);
  const input = h("textarea", {
    rows: "6",
    required: true,
    spellcheck: "false",
    placeholder: "What is to be done. The whole text goes to the agent as its task.",
  });
  const turns = h("input", { type: "number", min: "1", inputmode: "numeric", placeholder: "as set" });
  const dry = h("input", { type: "checkbox" });
  const run = h("button", { class: "primary" }, "Run");
  let watching = new AbortController();
  signal.addEventListener("abort", () => watching.abort());

  async function watch(what) {
    watching.abort();
    watching = new AbortController();
    await watchTask({
      ...what,
      place: stage,
      signal: watching.signal,
      frame,
      finished() {
        recent.start();
        frame.refresh();
      },
    });
  }

  // Its events come with the answer to this very request: a quick task may be over before a second one could ask.
  async function start(event) {
    event.preventDefault();
    run.disabled = true;
    const body = {
      input: input.value,
      limits: turns.value ? { turns: Number(turns.value) } : undefined,
      dryRun: dry.checked,
      onDisconnect: "continue",
    };
    const headers = { "Idempotency-Key": once() };
    await watch({
      begin: (hear, ending) => stream(at`agents/${agent}/tasks`, { body, headers, signal: ending, event: hear }),
      named(task) {
        history.replaceState(null, "", `${frame.home}/live/${encodeURIComponent(task)}`);
        recent.start();
      },
    });
    run.disabled = false;
  }

  const form = h(
    "form",
    { class: "card", on: { submit: start } },
    field("Task", input, { class: "field" }),
    h(
      "div",
      { class: "row" },
      run,
      field("Turns at most", turns, { class: "field inline" }),
      h("label", { class: "field inline" }, dry, h("span", {}, "Dry run: nothing is settled")),
    ),
  );
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  place.append(
    h(
      "div",
      { class: "head" },
      title("Live"),
      h("p", { class: "dim" }, "A task goes on when this page is left. Ctrl+Enter runs it."),
    ),
    form,
    stage,
    h("section", {}, h("h2", {}, "Recent tasks"), recent.element),
  );
  await Promise.all([recent.start(), item ? watch({ task: item }) : null]);
}

/** A name for this press of the button, so that the same one is never run or billed twice. */
function once() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function recentTasks({ agent, signal, frame }) {
  const body = h("tbody");
  return pager({
    list: { body, frame: table("Recent tasks", ["Task", "State", "Outcome", th("Took", { class: "wide" }), "When"], body) },
    noun: "task",
    signal,
    async fetch(cursor) {
      const answer = await get("tasks", { agent, cursor, limit: 10 }, signal);
      return { items: answer.tasks, next: answer.next };
    },
    row: (task) => row(task, frame.home),
    none: () => empty("No tasks yet.", "Write one above and press Run."),
  });
}

function row({ task, state, status, createdAt, startedAt, finishedAt, problem }, home) {
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      h(
        "a",
        { href: `${home}/live/${encodeURIComponent(task)}` },
        h("code", { title: task }, task.length > 18 ? `${task.slice(0, 16)}…` : task),
      ),
    ),
    h("td", {}, badge(state, `task-${state}`)),
    h(
      "td",
      {},
      status
        ? badge(status, `outcome-${status}`)
        : problem
          ? h("span", { class: "wrong" }, problem.detail ?? problem.kind)
          : h("span", { class: "dim" }, "–"),
    ),
    h("td", { class: "num wide" }, startedAt && finishedAt ? millis(new Date(finishedAt) - new Date(startedAt)) : "–"),
    h("td", {}, time(createdAt)),
  );
}
