// Building nodes. Whatever comes from the API becomes a text node or an attribute value here; nothing in this page
// ever parses HTML, so hostile content has no way to become markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("p", { class: "dim", on: { click } }, "text", node, [more])`. Null and false are left out. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  put(element, children);
  return element;
}

function put(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Takes what is in an element out and puts these in. */
export function replace(element, ...children) {
  element.replaceChildren();
  put(element, children);
  return element;
}

/** Says something to those who do not see the page. */
export function announce(text) {
  const region = document.getElementById("announce");
  // The same sentence twice is not announced unless the region was empty in between.
  region.textContent = "";
  setTimeout(() => {
    region.textContent = text;
  }, 30);
}

/** A heading that the router moves the focus to. */
export function title(...children) {
  return h("h1", { tabindex: "-1" }, ...children);
}

export function button(label, click, props) {
  return h("button", { type: "button", ...props, on: { click } }, label);
}

/** A control with its visible label. */
export function field(label, control, props) {
  return h("label", { class: "field", ...props }, h("span", {}, label), control);
}

export function select(options, chosen, change, props) {
  return h(
    "select",
    { ...props, on: { change: (event) => change(event.target.value) } },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
}

/** What stands where there is nothing yet: what it is, and what to do next. */
export function empty(what, next) {
  return h("div", { class: "empty" }, h("p", {}, what), next ? h("p", { class: "dim" }, next) : null);
}

export function loading(what) {
  return h("p", { class: "dim loading" }, `Reading ${what}…`);
}

/** A word in a pill; its colour comes from the class, its meaning from the word. */
export function badge(word, tone) {
  return h("span", { class: `badge ${tone ?? ""}` }, word);
}

/** Term and value, in two columns. Values that are null are left out. */
export function facts(rows) {
  return h(
    "dl",
    { class: "facts" },
    rows
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))),
  );
}

/** A table that scrolls sideways by itself where the window is narrow, by keyboard too. */
export function table(caption, columns, body) {
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column) => (column instanceof Node ? column : th(column))),
        ),
      ),
      body,
    ),
  );
}

export function th(text, props) {
  return h("th", { scope: "col", ...props }, text);
}
