// Differences: made from two texts, and shown from the unified form that the API and `diff -u` write.

import { button, h } from "./dom.js";

const AROUND = 3;
const SHOWN = 1_500;

/** A unified difference of two texts; "" where there is none. */
export function unified(before, after) {
  const [a, b] = [toLines(before), toLines(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const middle = walk(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const edits = [
    ...a.slice(0, head).map((text) => [" ", text]),
    ...middle,
    ...a.slice(a.length - tail).map((text) => [" ", text]),
  ];
  return hunks(edits);
}

// A text that ends without a line end differs from one that ends with it: the last line says so, as `diff` does.
function toLines(text) {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  else lines.push(`${lines.pop()}\n\\ No newline at end of file`);
  return lines;
}

// Longest common subsequence by table. Texts of skills are short; where the table would be too large, all of the one
// goes and all of the other comes, which is true as well.
function walk(a, b) {
  if (a.length * b.length > 4_000_000) return [...a.map((text) => ["-", text]), ...b.map((text) => ["+", text])];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i * width + j] =
        a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const edits = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      edits.push([" ", a[i]]);
      i += 1;
      j += 1;
    } else if (i < a.length && (j === b.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      edits.push(["-", a[i]]);
      i += 1;
    } else {
      edits.push(["+", b[j]]);
      j += 1;
    }
  }
  return edits;
}

function hunks(edits) {
  const near = new Uint8Array(edits.length);
  edits.forEach(([sign], index) => {
    if (sign !== " ") near.fill(1, Math.max(0, index - AROUND), index + AROUND + 1);
  });
  const out = [];
  let [old, fresh, at] = [1, 1, 0];
  while (at < edits.length) {
    if (!near[at]) {
      old += 1;
      fresh += 1;
      at += 1;
      continue;
    }
    let end = at;
    while (end < edits.length && near[end]) end += 1;
    const part = edits.slice(at, end);
    const gone = part.filter(([sign]) => sign !== "+").length;
    const come = part.filter(([sign]) => sign !== "-").length;
    out.push(
      `@@ -${gone ? old : old - 1},${gone} +${come ? fresh : fresh - 1},${come} @@`,
      ...part.map(([sign, text]) => sign + text),
    );
    old += gone;
    fresh += come;
    at = end;
  }
  return out.join("\n");
}

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
