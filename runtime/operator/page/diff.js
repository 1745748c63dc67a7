// Differences, shown from the unified form that the server writes. What differs is for the server to say.

import { button, h } from "./dom.js";

const SHOWN = 1_500;

/** A unified difference as nodes: signs stay in the text, so that colour is not the only sign. */
export function diffView(text, name) {
  const lines = numbered(text);
  const pre = h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": `Difference of ${name}` });
  const draw = (from, to) => pre.append(...lines.slice(from, to).map((line, index) => lineView(line, lines, from + index)));
  draw(0, SHOWN);
  if (lines.length > SHOWN) {
    const more = button(`Show the other ${lines.length - SHOWN} lines`, () => {
      more.remove();
      draw(SHOWN);
    });
    return h("div", {}, pre, more);
  }
  return pre;
}

function numbered(text) {
  let [old, fresh, inside] = [0, 0, false];
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => {
      const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
      if (hunk) {
        [old, fresh, inside] = [Number(hunk[1]), Number(hunk[2]), true];
        return { kind: "hunk", line };
      }
      if (!inside || line.startsWith("\\")) return { kind: "meta", line };
      if (line.startsWith("+")) return { kind: "add", line, number: fresh++ };
      if (line.startsWith("-")) return { kind: "del", line, number: old++ };
      old += 1;
      return { kind: "same", line, number: fresh++ };
    });
}

function lineView({ kind, line, number }, lines, at) {
  const partner = kind === "del" ? lone(lines, at, at + 1, "add") : kind === "add" ? lone(lines, at, at - 1, "del") : null;
  return h("span", { class: kind, "data-n": number ?? "" }, partner === null ? line : marked(line, partner), "\n");
}

/** The other side of a line that was changed alone: there, what differs inside the line is marked. */
function lone(lines, at, other, kind) {
  const [first, last] = [Math.min(at, other), Math.max(at, other)];
  if (lines[other]?.kind !== kind) return null;
  if (lines[first - 1]?.kind === lines[first].kind || lines[last + 1]?.kind === lines[last].kind) return null;
  return lines[other].line;
}

function marked(line, other) {
  let head = 1;
  while (head < line.length && line[head] === other[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(line.length, other.length) - head && line.at(-1 - tail) === other.at(-1 - tail)) tail += 1;
  // Whole words are marked, not the letters that two words happen to share.
  const letter = (at) => /\w/.test(line[at] ?? "") || /\w/.test(other[at - line.length + other.length] ?? "");
  while (head > 1 && /\w/.test(line[head - 1]) && /\w/.test((line[head] ?? "") + (other[head] ?? ""))) head -= 1;
  while (tail > 0 && /\w/.test(line[line.length - tail]) && letter(line.length - tail - 1)) tail -= 1;
  const middle = line.slice(head, line.length - tail);
  // Hardly anything in common: marking the whole line would say nothing.
  if (middle === "" || head + tail < line.length / 4) return line;
  return [line.slice(0, head), h("mark", {}, middle), line.slice(line.length - tail)];
}
