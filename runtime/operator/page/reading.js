// The text of a skill as the server reads it: a tree of nodes, made into elements. Nothing is parsed here. A skill is text
// that an agent wrote, perhaps after reading something hostile: so there is no HTML at all, every text becomes a text
// node, and a link goes nowhere but to http, https and mail.

import { count } from "./words.js";
import { h } from "./dom.js";

const TAGS = {
  paragraph: "p",
  quote: "blockquote",
  item: "li",
  code: "code",
  strong: "strong",
  emphasis: "em",
};
const MAKERS = {
  heading,
  list,
  table,
  codeBlock,
  html: (node) => codeBlock({ ...node, language: "html" }),
  rule: () => h("hr"),
  break: () => h("br"),
  text: (node) => node.text,
  command: (node) => h("code", { class: "command", title: "An inline command" }, node.text),
  link: (node) => link(nodes(node.children), node.to),
  image: (node) => link(["image: ", nodes(node.children)], node.to),
};

/** The body of a skill, and a word on the commands in it. */
export function readingView({ blocks = [], cut = false, commands = [] }) {
  return [
    commandsView(commands),
    h("div", { class: "prose" }, nodes(blocks)),
    cut ? h("p", { class: "dim" }, "Only the beginning is shown; the source has all.") : null,
  ];
}

/** The inline commands of a text, as the runtime reads them. */
export function commandsView(commands = []) {
  if (!commands.length) return null;
  return h(
    "details",
    { class: "box warn commands", open: commands.length <= 5 },
    h("summary", {}, `This text has ${count(commands.length, "inline command")}`),
    h("p", { class: "small" }, "They run when the skill is loaded, if the operator allows it and neither a model nor a stranger wrote the skill."),
    h(
      "ol",
      {},
      commands.map((command) => h("li", {}, h("code", { class: "command" }, command))),
    ),
  );
}

function nodes(children = []) {
  return children.map((node) => {
    const make = Object.hasOwn(MAKERS, node.kind) ? MAKERS[node.kind] : null;
    if (make) return make(node);
    return h(Object.hasOwn(TAGS, node.kind) ? TAGS[node.kind] : "span", {}, node.text ?? null, nodes(node.children));
  });
}

// The page has an h1 of its own: headings of a text begin one below it.
function heading({ level, children }) {
  return h(`h${Math.min(6, (Number(level) || 1) + 1)}`, {}, nodes(children));
}

function list({ start = null, children }) {
  const first = Number(start);
  if (start === null) return h("ul", {}, nodes(children));
  return h("ol", { start: Number.isInteger(first) && first !== 1 ? first : null }, nodes(children));
}

function table({ children: [head, ...rows] }) {
  const cells = (row, tag, props) => h("tr", {}, row.children?.map((cell) => h(tag, props, nodes(cell.children))) ?? null);
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": "Table in the text", tabindex: "0" },
    h(
      "table",
      {},
      h("thead", {}, cells(head, "th", { scope: "col" })),
      h(
        "tbody",
        {},
        rows.map((row) => cells(row, "td")),
      ),
    ),
  );
}

function codeBlock({ text, language }) {
  return h("pre", { tabindex: "0", "data-language": language || null }, h("code", {}, (text ?? "").replace(/\n$/, "")));
}

/** A link where it may be one, else its words and where it would have gone, as text. */
function link(words, target) {
  const href = safe(target);
  if (href) return h("a", { href, rel: "noopener noreferrer", target: "_blank" }, words);
  return h("span", { class: "unlinked" }, words, " ", h("span", { class: "dim" }, `(${target})`));
}

/** The address, if its scheme is one of three; a relative one has no base here and is none. */
function safe(target) {
  try {
    const url = new URL(target);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
