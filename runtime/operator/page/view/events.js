// The events of a task, turn by turn.

import { badge, h } from "../dom.js";
import { hash, jsonView, millis, textOrJson } from "../words.js";
import { words } from "./brain.js";

const SHORT = 90;

/** A list that grows by `add(event)`; `say` gets one sentence for each event worth hearing. */
export function eventLog(frame, say) {
  const element = h("ol", { class: "turns", "aria-label": "Turns" });
  const open = new Map();
  let turns = 0;
  let where = null;

  function line(...children) {
    if (!where) {
      where = h("ol", { class: "calls" });
      element.append(h("li", { class: "aside" }, where));
    }
    const item = h("li", {}, ...children);
    where.append(item);
    return item;
  }

  // What belongs to no turn stands between them.
  function aside(...children) {
    where = null;
    element.append(h("li", { class: "aside" }, ...children));
  }

  const heard = {
    queued: () => say("Queued: other tasks of this brain come first."),
    started({ version, backend }) {
      say(`Started on version ${version}.`);
      aside(h("span", { class: "dim" }, `Started on version ${version}, with ${backend}.`));
    },
    turn_started({ turn, of }) {
      turns += 1;
      where = h("ol", { class: "calls" });
      element.append(
        h("li", { class: "turn" }, h("h3", {}, `Turn ${turn}`, of ? h("span", { class: "dim" }, ` of ${of}`) : null), where),
      );
      say(`Turn ${turn} of ${of}…`);
    },
    reply({ text, millis: took }) {
      line(h("details", {}, h("summary", {}, "Reply ", h("span", { class: "dim small" }, millis(took))), textOrJson(text ?? "")));
    },
    retry(data) {
      const wait = data.waitMillis ?? data.wait_millis;
      line(
        badge("retry", "warn"),
        ` ${data.backend ?? ""}: ${data.class ?? ""}`,
        typeof wait === "number" ? `, again in ${millis(wait)}` : ", not tried again",
      );
    },
    nudge({ text }) {
      line(badge("nudge", "warn"), ` ${text ?? ""}`);
    },
    tool_call({ turn, tool, args }) {
      const item = line(h("code", { class: "tool" }, tool), argsView(args), h("span", { class: "result dim" }, " running…"));
      open.set(`${turn} ${tool}`, [...(open.get(`${turn} ${tool}`) ?? []), item]);
      say(`Turn ${turn}: ${tool}…`);
    },
    tool_result({ turn, tool, status, summary, millis: took }) {
      const item =
        open.get(`${turn} ${tool}`)?.shift() ?? line(h("code", { class: "tool" }, tool), h("span", { class: "result" }));
      item
        .querySelector(".result")
        .replaceWith(
          h(
            "span",
            { class: "result" },
            badge(status, `call-${status}`),
            h("span", { class: "dim small" }, ` ${millis(took)}`),
            summary ? h("span", { class: "summary" }, summary) : null,
          ),
        );
      say(`Turn ${turn}: ${tool} ${status}.`);
    },
    skill_written({ slug, change }) {
      aside(
        badge("skill", "good"),
        " ",
        h("a", { href: `${frame.home}/skills/${encodeURIComponent(slug)}` }, slug),
        ` ${change}`,
      );
      say(`Skill ${slug} ${change}.`);
    },
    settled({ version, after, millis: took }) {
      aside(
        badge("settled", "good"),
        ` version ${version} `,
        hash(after, "bundle hash"),
        h("span", { class: "dim small" }, ` ${millis(took)}`),
      );
      say(`Settled as version ${version}.`);
    },
  };

  return {
    element,
    turns: () => turns,
    /** The calls as the outcome tells them, where the events are gone: no arguments and no replies. */
    retell(calls) {
      element.replaceChildren(
        h("li", { class: "aside dim" }, "The events of a task are kept while it runs. These are its calls, from its outcome."),
      );
      calls.forEach((call, index) => {
        if (call.turn !== calls[index - 1]?.turn) heard.turn_started(call);
        heard.tool_result(call);
      });
    },
    add({ name, data }) {
      if (Object.hasOwn(heard, name)) return heard[name](data);
      // A newer server may say more than this page knows.
      const { event, ...rest } = data;
      aside(badge(event ?? name), ` ${words(rest) ?? ""}`);
    },
  };
}

function argsView(args) {
  if (args === null || args === undefined) return null;
  const flat = typeof args === "string" ? args : JSON.stringify(args);
  if (flat === "{}") return null;
  if (flat.length <= SHORT) return h("code", { class: "args" }, flat);
  return h("details", { class: "args" }, h("summary", {}, `${flat.slice(0, SHORT)}…`), jsonView(args));
}
