// What stands inside a line of Markdown: code, emphasis, links. Every repetition has a bound, so that
// no text, however it is made, takes longer than its length allows.

import { h } from "./dom.js";

const DEEPEST = 6;
const TOKEN = new RegExp(
  [
    "\\\\([\\\\`*_{}\\[\\]()#+.!<>|~-])", // 1: escaped
    "(?<!`)(`{1,8})(?!`)(.{1,4000}?)(?<!`)\\2(?!`)", // 2, 3: code
    '!?\\[((?:[^\\[\\]\\\\]|\\\\.){0,500})\\]\\(\\s*<?([^()\\s<>]{0,2000})>?(?:\\s+"[^"]{0,500}")?\\s*\\)', // 4, 5: link
    "<((?:https?://|mailto:)[^\\s<>]{1,2000})>", // 6: address in angles
    "(?<![\\w/])(https?://[^\\s<>()\"']{1,2000}[^\\s<>()\"'.,;:!?])", // 7: bare address
    "\\*\\*(?=\\S)([^*]{1,2000}?(?:\\*[^*]{1,500}\\*[^*]{0,2000}?)?)\\*\\*", // 8: strong
    "(?<!\\w)__(?=\\S)([^_]{1,2000}?)__(?!\\w)", // 9: strong
    "\\*(?=[^\\s*])([^*]{1,2000}?)\\*", // 10: emphasis
    "(?<!\\w)_(?=\\S)([^_]{1,2000}?)_(?!\\w)", // 11: emphasis
    "~~(?=\\S)([^~]{1,2000}?)~~", // 12: struck
  ].join("|"),
  "gs",
);

/** Nodes for a piece of text. */
export function inline(text, depth = 0) {
  if (depth > DEEPEST) return [text];
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(TOKEN)) {
    nodes.push(text.slice(from, match.index), token(match, depth + 1));
    from = match.index + match[0].length;
  }
  nodes.push(text.slice(from));
  return nodes;
}

function token(match, depth) {
  const [all, escaped, , code, label, target, angled, bare, strong, strong2, em, em2, struck] = match;
  if (escaped !== undefined) return escaped;
  if (code !== undefined) return h("code", {}, code.trim() || code);
  if (target !== undefined) return link(all.startsWith("!") ? [`image: ${label}`] : inline(label, depth), target);
  if (angled !== undefined) return link([angled], angled);
  if (bare !== undefined) return link([bare], bare);
  if ((strong ?? strong2) !== undefined) return h("strong", {}, inline(strong ?? strong2, depth));
  if ((em ?? em2) !== undefined) return h("em", {}, inline(em ?? em2, depth));
  return h("s", {}, inline(struck, depth));
}

/** A link where it may be one, else its words and where it would have gone, as text. */
function link(words, target) {
  const href = safe(target);
  if (href) return h("a", { href, rel: "noopener noreferrer", target: "_blank" }, words);
  return h("span", { class: "unlinked" }, words, " ", h("span", { class: "dim" }, `(${target})`));
}

/** The address, if its scheme is one of three; a relative one has no base here and is none. */
export function safe(target) {
  try {
    const url = new URL(target);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
