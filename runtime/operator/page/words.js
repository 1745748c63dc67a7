// How values are written: times, counts, hashes, JSON. One place, so that a hash looks the same everywhere.

import { announce, h, s } from "./dom.js";

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const thisYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const otherYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

/** A moment in the reader's zone; the exact one is in `datetime` and in the title. */
export function time(value) {
  if (!value) return h("span", { class: "dim" }, "never");
  const moment = new Date(value);
  if (Number.isNaN(moment.getTime())) return h("span", {}, String(value));
  const short = moment.getFullYear() === new Date().getFullYear() ? thisYear : otherYear;
  return h("time", { datetime: moment.toISOString(), title: full.format(moment) }, short.format(moment));
}

export function count(number, one, many = `${one}s`) {
  return `${grouped(number)} ${number === 1 ? one : many}`;
}

export function grouped(number) {
  return typeof number === "number" ? number.toLocaleString() : "–";
}

export function millis(value) {
  if (typeof value !== "number") return "";
  if (value < 1000) return `${value} ms`;
  return value < 60_000
    ? `${(value / 1000).toFixed(1)} s`
    : `${Math.floor(value / 60_000)} min ${Math.round((value % 60_000) / 1000)} s`;
}

export function seconds(value) {
  if (value < 60) return `${value} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min`;
  return value < 86_400 ? `${Math.floor(value / 3600)} h` : `${Math.floor(value / 86_400)} d`;
}

export function percent(rate) {
  return rate === null || rate === undefined ? "–" : `${Math.round(rate * 100)} %`;
}

/** Begin and end of a did:key, the beginning of anything else. */
export function shorten(value) {
  const text = String(value);
  if (text.startsWith("did:key:")) return `${text.slice(8, 14)}…${text.slice(-6)}`;
  return text.length > 12 ? text.slice(0, 10) : text;
}

/** A digest or key, short: the whole of it is the title, and a press copies it. */
export function hash(value, what = "hash") {
  if (!value) return h("span", { class: "dim" }, "–");
  return h(
    "button",
    {
      type: "button",
      class: "hash",
      title: value,
      "aria-label": `Copy ${what} ${shorten(value)}`,
      on: { click: () => copy(value, what) },
    },
    sigil(value),
    h("span", {}, shorten(value)),
  );
}

/** Bars drawn from the digits of a hash: two that differ are told apart at a glance. Decoration, so it has no name. */
export function sigil(value) {
  const hex = String(value)
    .toLowerCase()
    .replace(/[^0-9a-f]/g, "")
    .padEnd(12, "0");
  const hue = Math.round((Number.parseInt(hex.slice(0, 2), 16) * 360) / 256);
  return s(
    "svg",
    { class: "sigil", width: 24, height: 12, viewBox: "0 0 24 12", "aria-hidden": "true", focusable: "false" },
    [...hex.slice(0, 8)].map((digit, index) => {
      const tall = 2 + (Number.parseInt(digit, 16) * 10) / 15;
      return s("rect", { x: index * 3, y: 12 - tall, width: 2, height: tall, fill: `hsl(${(hue + index * 9) % 360} 42% 52%)` });
    }),
  );
}

/** To the clipboard; where the browser keeps it from pages without TLS, through a selection. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    if (!copied) return announce(`This browser does not let the page copy the ${what}.`);
  }
  flash(`Copied the ${what}.`);
}

function flash(text) {
  const note = h("div", { class: "flash", "aria-hidden": "true" }, text);
  document.body.append(note);
  setTimeout(() => note.remove(), 1600);
  announce(text);
}

/** What JSON is written as, with its keys, strings and numbers marked; any other text as it is. */
export function jsonView(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const view = h("pre", { class: "json", tabindex: "0" });
  const token = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  // Past this size the colours cost more than they give.
  if (text.length > 200_000) return (view.append(text), view);
  let from = 0;
  for (const match of text.matchAll(token)) {
    view.append(text.slice(from, match.index));
    const kind = match[2] ? "key" : match[1] ? "string" : "literal";
    view.append(h("span", { class: kind }, match[1] ?? match[0]), match[2] ?? "");
    from = match.index + match[0].length;
  }
  view.append(text.slice(from));
  return view;
}

/** An answer, a reply, arguments: pretty where the text is JSON, else the text. */
export function textOrJson(text) {
  if (typeof text !== "string") return jsonView(text);
  try {
    const value = JSON.parse(text);
    if (value !== null && typeof value === "object") return jsonView(value);
  } catch {
    /* Not JSON: the text stands for itself. */
  }
  return h("pre", { class: "plain", tabindex: "0" }, text);
}
