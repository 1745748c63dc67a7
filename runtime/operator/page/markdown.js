// Markdown as nodes. A skill is text that an agent wrote, perhaps after reading something hostile: so there is no HTML
// here at all. Tags in the text stay text, and a link goes nowhere but to http, https and mail.

import { h } from "./dom.js";
import { inline } from "./inline.js";

// Beyond these a text is an attack on the reader's patience; what is left is shown as it is.
const DEEPEST = 8;
const LONGEST = 200_000;

/** The body of a skill. */
export function markdown(text) {
  const shown = text.slice(0, LONGEST);
  const view = h("div", { class: "prose" }, blocks(shown.replace(/\r\n?/g, "\n").split("\n"), 0));
  if (text.length > LONGEST)
    view.append(h("p", { class: "dim" }, `The first ${LONGEST.toLocaleString()} characters are shown; the source has all.`));
  return view;
}

const FENCE = /^ {0,3}(```+|~~~+)\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: {1,4}|$)/;
const DIVIDER = /^\|?( *:?-+:? *\|)* *:?-+:? *\|?$/;

// What a line begins, in this order; a paragraph is what begins nothing.
const KINDS = [
  [(line) => line.trim() === "", (lines, at) => [null, at + 1]],
  [(line) => FENCE.test(line), fenced],
  [(line) => HEADING.test(line), heading],
  [(line) => RULE.test(line), (lines, at) => [h("hr"), at + 1]],
  [(line) => QUOTE.test(line), quote],
  [(line) => ITEM.test(line), list],
  [(line) => line.startsWith("    "), indented],
  [(line, next) => line.includes("|") && divides(next), grid],
  [() => true, paragraph],
];

function blocks(lines, depth) {
  if (depth > DEEPEST) return [h("p", {}, lines.join("\n"))];
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const [, make] = KINDS.find(([begins]) => begins(lines[at], lines[at + 1]));
    const [node, next] = make(lines, at, depth);
    if (node) nodes.push(node);
    at = next;
  }
  return nodes;
}

function fenced(lines, start) {
  const [, fence, info] = FENCE.exec(lines[start]);
  const closes = (line) => line.startsWith(fence) && line.replaceAll(fence[0], "") === "";
  let end = start + 1;
  while (end < lines.length && !closes(lines[end].trim())) end += 1;
  return [code(lines.slice(start + 1, end), info.trim()), end + 1];
}

function indented(lines, start) {
  let end = start;
  while (end < lines.length && (lines[end].startsWith("    ") || lines[end].trim() === "")) end += 1;
  while (lines[end - 1].trim() === "") end -= 1;
  return [code(lines.slice(start, end).map((line) => line.slice(4))), end];
}

function code(lines, language) {
  return h("pre", { tabindex: "0", "data-language": language || null }, h("code", {}, lines.join("\n")));
}

// The page has an h1 of its own: headings of a text begin one below it.
function heading(lines, at) {
  const [, marks, text] = HEADING.exec(lines[at]);
  return [h(`h${Math.min(6, marks.length + 1)}`, {}, inline(text.trim().replace(/\s#+$/, ""))), at + 1];
}

function quote(lines, start, depth) {
  let end = start;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  return [
    h(
      "blockquote",
      {},
      blocks(
        lines.slice(start, end).map((line) => line.replace(QUOTE, "")),
        depth + 1,
      ),
    ),
    end,
  ];
}

function list(lines, start, depth) {
  const ordered = /\d/.test(ITEM.exec(lines[start])[2]);
  const items = [];
  let at = start;
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    if (!match || RULE.test(lines[at]) || /\d/.test(match[2]) !== ordered) break;
    const width = match[0].length;
    const own = [lines[at].slice(width)];
    at += 1;
    // What is indented belongs to the item; so does a blank line that something indented follows, and a lazy line.
    while (at < lines.length) {
      const line = lines[at];
      const blank = line.trim() === "";
      const inside = line.length - line.trimStart().length >= Math.min(width, 2) && !blank;
      const lazy = !blank && !begins(line) && lines[at - 1].trim() !== "";
      const gap = blank && (lines[at + 1] ?? "").search(/\S/) >= Math.min(width, 2);
      if (!inside && !lazy && !gap) break;
      own.push(inside ? line.slice(Math.min(width, line.search(/\S/))) : line);
      at += 1;
    }
    items.push(own);
    if (at < lines.length && lines[at].trim() === "" && ITEM.test(lines[at + 1] ?? "")) at += 1;
  }
  const first = Number.parseInt(ITEM.exec(lines[start])[2], 10);
  return [
    h(
      ordered ? "ol" : "ul",
      { start: ordered && first !== 1 ? first : null },
      items.map((own) => h("li", {}, tight(blocks(own, depth + 1)))),
    ),
    at,
  ];
}

/** An item that is one paragraph is shown without its margins. */
function tight(nodes) {
  const [first, ...others] = nodes;
  const plain = first?.tagName === "P" && others.every((node) => node.tagName === "UL" || node.tagName === "OL");
  return plain ? [...first.childNodes, ...others] : nodes;
}

function divides(line = "") {
  return line.includes("-") && line.length < 1_000 && DIVIDER.test(line.trim());
}

function begins(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function grid(lines, start) {
  const cells = (line) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll("\\|", "|"));
  const head = cells(lines[start]);
  let end = start + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim() !== "") end += 1;
  return [
    h(
      "div",
      { class: "scroll", role: "region", "aria-label": "Table in the text", tabindex: "0" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            head.map((cell) => h("th", { scope: "col" }, inline(cell))),
          ),
        ),
        h(
          "tbody",
          {},
          lines.slice(start + 2, end).map((line) => {
            const row = cells(line);
            return h(
              "tr",
              {},
              head.map((_, index) => h("td", {}, inline(row[index] ?? ""))),
            );
          }),
        ),
      ),
    ),
    end,
  ];
}

function paragraph(lines, start) {
  let end = start + 1;
  while (end < lines.length && lines[end].trim() !== "" && !begins(lines[end])) end += 1;
  return [
    h(
      "p",
      {},
      inline(
        lines
          .slice(start, end)
          .map((line) => line.trim())
          .join("\n"),
      ),
    ),
    end,
  ];
}
