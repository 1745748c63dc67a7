// Small charts, three of a brain and the frame for others, drawn as SVG at the width there is, each with its numbers as a table beneath.

import { at, get } from "../api.js";
import { h, loading, replace, s, table } from "../dom.js";
import { show } from "../trouble.js";
import { count, grouped, time } from "../words.js";

/** The height of a chart. */
export const TALL = 132;
/** The room around what is drawn. */
export const EDGE = { left: 34, right: 10, top: 10, bottom: 20 };

export async function chartsView(place, agent, signal) {
  replace(place, loading("the charts"));
  try {
    const { points = [], versions = [], days = [] } = await get(at`agents/${agent}/charts`, {}, signal);
    if (signal.aborted) return;
    replace(place, skillsChart(points), errorsChart(versions), daysChart(days));
  } catch (error) {
    replace(place);
    show(place, error, { signal });
  }
}

function skillsChart(points) {
  const last = points.at(-1);
  const desc = last
    ? `From version ${points[0].version} to ${last.version}: ${count(points[0].skills, "skill")} then, ${grouped(last.skills)} and ${grouped(last.archived)} archived now.`
    : "No versions yet.";
  return chart({
    name: "Skills over versions",
    desc,
    keys: [
      ["skills", "a"],
      ["archived", "b"],
    ],
    draw(width) {
      if (!last) return [];
      const most = nice(Math.max(...points.map((point) => Math.max(point.skills, point.archived))));
      const [low, high] = [points[0].version, last.version];
      const x = (version) => EDGE.left + (high === low ? 0.5 : (version - low) / (high - low)) * (width - EDGE.left - EDGE.right);
      const y = scale(most);
      // A version holds until the next one: the line goes in steps, not in slopes.
      const path = (name) =>
        points
          .map((point, index) =>
            index === 0 ? `M${x(point.version)} ${y(point[name])}` : `H${x(point.version)}V${y(point[name])}`,
          )
          .join("");
      return [
        axis(width, most, y),
        s("path", { class: "area", d: `${path("skills")}V${y(0)}H${x(low)}Z` }),
        s("path", { class: "line a", d: path("skills") }),
        s("path", { class: "line b", d: path("archived") }),
        s("circle", { class: "dot a", cx: x(high), cy: y(last.skills), r: 3 }),
        s("circle", { class: "dot b", cx: x(high), cy: y(last.archived), r: 3 }),
        label(x(low), TALL - 4, `v${low}`, high === low ? "middle" : "start"),
        high === low ? null : label(x(high), TALL - 4, `v${high}`, "end"),
      ];
    },
    rows: () =>
      table(
        "Skills over versions",
        ["Version", "When", "Skills", "Archived"],
        h(
          "tbody",
          {},
          points.map((point) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, point.version),
              h("td", {}, time(point.at)),
              h("td", { class: "num" }, point.skills),
              h("td", { class: "num" }, point.archived),
            ),
          ),
        ),
      ),
  });
}

/** How many versions share a point of the chart, so that a line of single tasks can be read. */
function together(versions, most = 60) {
  const size = Math.ceil(versions.length / most);
  const groups = [];
  for (let first = 0; first < versions.length; first += size) {
    const group = versions.slice(first, first + size);
    const sum = (name) => group.reduce((total, version) => total + version[name], 0);
    groups.push({ from: group[0].version, to: group.at(-1).version, calls: sum("calls"), errors: sum("errors") });
  }
  return groups;
}

function percent({ calls, errors }) {
  return calls ? (100 * errors) / calls : 0;
}

function errorsChart(versions) {
  const name = "Error rate over versions";
  const called = versions.filter((version) => version.calls > 0);
  const groups = together(called);
  const all = called.reduce(
    (sum, version) => ({ calls: sum.calls + version.calls, errors: sum.errors + version.errors }),
    { calls: 0, errors: 0 },
  );
  const shown = (value) => `${Math.round(value * 10) / 10} %`;
  const words = (group) => (group.from === group.to ? `v${group.from}` : `v${group.from} to v${group.to}`);
  return chart({
    name,
    desc: groups.length
      ? `${count(all.calls, "call")} of tools from version ${groups[0].from} to ${groups.at(-1).to}; ${shown(percent(all))} of them failed.`
      : "No tool was called yet.",
    keys: [["failed calls, %", "e"]],
    draw(width) {
      if (!groups.length) return [];
      const most = Math.min(100, nice(Math.max(10, ...groups.map(percent))));
      const [low, high] = [groups[0].from, groups.at(-1).to];
      const x = (version) => EDGE.left + (high === low ? 0.5 : (version - low) / (high - low)) * (width - EDGE.left - EDGE.right);
      const y = scale(most);
      const wide = Math.max(2, Math.min(26, (width - EDGE.left - EDGE.right) / Math.max(groups.length, 7) - 3));
      return [
        axis(width, most, y),
        groups.map((group) => {
          const left = Math.min(Math.max(x((group.from + group.to) / 2) - wide / 2, EDGE.left), width - EDGE.right - wide);
          const title = s("title", {}, `${words(group)}: ${count(group.errors, "error")} in ${count(group.calls, "call")}`);
          // A version without errors is seen as well: it has a foot.
          const tall = Math.max(1, y(0) - y(percent(group)));
          return s("g", {}, title, s("rect", { class: "bar e", x: left, y: y(0) - tall, width: wide, height: tall, rx: 1 }));
        }),
        label(x(low), TALL - 4, `v${low}`, high === low ? "middle" : "start"),
        high === low ? null : label(x(high), TALL - 4, `v${high}`, "end"),
      ];
    },
    rows: () =>
      table(
        name,
        ["Version", "Calls", "Errors", "Rate"],
        h(
          "tbody",
          {},
          called.map((version) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, version.version),
              h("td", { class: "num" }, version.calls),
              h("td", { class: "num" }, version.errors),
              h("td", { class: "num" }, shown(percent(version))),
            ),
          ),
        ),
      ),
  });
}

function daysChart(days) {
  const calls = days.reduce((sum, day) => sum + day.events, 0);
  const errors = days.reduce((sum, day) => sum + day.errors, 0);
  return chart({
    name: "Calls and errors by day",
    desc: days.length
      ? `${count(calls, "call")} of tools on ${count(days.length, "day")}, ${count(errors, "error")}.`
      : "No tool was called yet.",
    keys: [
      ["calls", "c"],
      ["errors", "e"],
    ],
    draw(width) {
      if (!days.length) return [];
      const most = nice(Math.max(...days.map((day) => day.events)));
      const y = scale(most);
      const slot = (width - EDGE.left - EDGE.right) / Math.max(days.length, 7);
      const wide = Math.max(2, Math.min(26, slot - 3));
      const middle = (index) => EDGE.left + slot * (index + 0.5);
      return [
        axis(width, most, y),
        days.map((day, index) =>
          s(
            "g",
            {},
            s("title", {}, `${day.day}: ${count(day.events, "call")}, ${count(day.errors, "error")}`),
            s("rect", {
              class: "bar c",
              x: middle(index) - wide / 2,
              y: y(day.events),
              width: wide,
              height: y(0) - y(day.events),
              rx: 1.5,
            }),
            s("rect", {
              class: "bar e",
              x: middle(index) - wide / 2,
              y: y(day.errors),
              width: wide,
              height: y(0) - y(day.errors),
              rx: 1.5,
            }),
          ),
        ),
        label(Math.max(EDGE.left, middle(0) - wide / 2), TALL - 4, days[0].day.slice(5), "start"),
        slot * (days.length - 1) > 90
          ? label(middle(days.length - 1) + wide / 2, TALL - 4, days.at(-1).day.slice(5), "end")
          : null,
      ];
    },
    rows: () =>
      table(
        "Calls and errors by day",
        ["Day", "Calls", "Errors"],
        h(
          "tbody",
          {},
          days.map((day) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, day.day),
              h("td", { class: "num" }, day.events),
              h("td", { class: "num" }, day.errors),
            ),
          ),
        ),
      ),
  });
}

let numbered = 0;

/** A chart with its name, keys and numbers; `draw` gets the width and returns what is in the picture. */
export function chart({ name, desc, keys, draw, rows }) {
  numbered += 1;
  const ids = [`chart-${numbered}-title`, `chart-${numbered}-desc`];
  const picture = s("svg", { class: "chart", role: "img", "aria-labelledby": ids.join(" "), height: TALL });
  const holder = h("div", { class: "canvas" }, picture);
  let drawnAt = 0;
  const paint = () => {
    const width = Math.floor(holder.clientWidth);
    if (!width || width === drawnAt) return;
    drawnAt = width;
    picture.setAttribute("width", width);
    picture.setAttribute("viewBox", `0 0 ${width} ${TALL}`);
    replace(picture, s("title", { id: ids[0] }, name), s("desc", { id: ids[1] }, desc), draw(width));
  };
  new ResizeObserver(paint).observe(holder);
  const numbers = h(
    "details",
    {
      class: "small",
      on: {
        toggle(event) {
          if (event.target.open && !numbers.querySelector("table")) numbers.append(rows());
        },
      },
    },
    h("summary", {}, "The numbers as a table"),
  );
  return h(
    "figure",
    { class: "card" },
    h(
      "figcaption",
      {},
      h("strong", {}, name),
      h(
        "span",
        { class: "keys" },
        keys.map(([word, tone]) => h("span", { class: `key ${tone}` }, word)),
      ),
    ),
    holder,
    h("p", { class: "dim small" }, desc),
    numbers,
  );
}

/** Where a value stands, of at most `most`. */
export function scale(most) {
  return (value) => EDGE.top + (1 - value / most) * (TALL - EDGE.top - EDGE.bottom);
}

function axis(width, most, y) {
  return [0, most / 2, most].map((value) => [
    s("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
    Number.isInteger(value) ? label(EDGE.left - 6, y(value) + 3.5, grouped(value), "end") : null,
  ]);
}

export function label(x, y, text, anchor) {
  return s("text", { x, y, "text-anchor": anchor }, text);
}

/** The next round number: 1, 2, 4, 5, 10, 20 … */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 4, 5, 10].map((step) => step * power).find((step) => step >= value) ?? 1;
}
