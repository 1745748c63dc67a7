// How the result of a check is said: what is proven, what is not, and what was found.

import { announce, h } from "../dom.js";
import { spoken } from "../trouble.js";

// A key that the reader got from elsewhere is asked for once, and not again in this tab's life.
let pasted = "";

/** Where the reader can put the key to trust. Empty: the one that the server names. */
export function keyInput() {
  return h("input", {
    type: "text",
    value: pasted,
    placeholder: "did:key:z6Mk… (empty: the one this server names)",
    spellcheck: "false",
    autocomplete: "off",
    on: {
      input: (event) => {
        pasted = event.target.value.trim();
      },
    },
  });
}

/** `holds` is true, false, or null where nothing could be checked. */
export function verdict(holds, sentence, { findings = [], proven = [], unproven = [] } = {}) {
  const tone = holds === null ? "warn" : holds ? "good" : "bad";
  if (holds !== false) announce(sentence);
  return h(
    "div",
    { class: `box ${tone} verdict`, role: holds === false ? "alert" : null },
    h(
      "p",
      {},
      h("span", { "aria-hidden": "true", class: "mark" }, holds === null ? "?" : holds ? "✓" : "✗"),
      h("strong", {}, sentence),
    ),
    part("Found", findings),
    part("Proven", proven),
    part("Not proven", unproven),
  );
}

function part(name, lines) {
  const said = lines.filter(Boolean);
  return said.length
    ? [
        h("h3", {}, name),
        h(
          "ul",
          {},
          said.map((line) => h("li", {}, spoken(line))),
        ),
      ]
    : null;
}
