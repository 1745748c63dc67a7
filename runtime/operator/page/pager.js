// A list that comes in pages: the first at once, the others when they are asked for. The page never holds more rows
// than the reader wanted to see, so 5,000 skills paint as fast as 100.

import { announce, button, h, replace } from "./dom.js";
import { count, grouped } from "./words.js";
import { show } from "./trouble.js";

/**
 * `list` is { body, frame }: where rows go, and what is hidden while there are none. `fetch(cursor)` gives { items, next,
 * total }, `row(item, index, items)` a node, `none()` what stands there if there is nothing. Returns { element, start }: `start` begins anew, and an answer that comes too late is dropped.
 */
export function pager({ list, fetch, row, none, noun, signal }) {
  const foot = h("div", { class: "pager" });
  const trouble = h("div", {});
  const frame = list.frame ?? list.body;
  const element = h("div", {}, trouble, frame, foot);
  let run = 0;
  let shown = 0;

  async function page(cursor, mine) {
    foot.setAttribute("aria-busy", "true");
    let answer;
    try {
      answer = await fetch(cursor);
    } catch (error) {
      if (mine === run) show(trouble, error, { signal, again: () => page(cursor, mine) });
      return;
    } finally {
      foot.removeAttribute("aria-busy");
    }
    if (mine !== run || signal.aborted) return;
    const { items, next, total } = answer;
    const rows = items.map((item, index) => row(item, index, items));
    if (cursor === null) list.body.replaceChildren();
    list.body.append(...rows);
    shown += rows.length;
    frame.hidden = shown === 0;
    const isAll = next === null || next === undefined;
    if (shown === 0 && isAll) return replace(foot, none());
    const more = isAll ? null : button("Show more", () => page(next, mine));
    const had = cursor !== null && foot.contains(document.activeElement);
    replace(
      foot,
      h("span", { class: "dim" }, typeof total === "number" ? `${grouped(shown)} of ${count(total, noun)}` : count(shown, noun)),
      more,
    );
    if (cursor === null) return;
    announce(`${count(rows.length, `more ${noun}`)} shown.`);
    // The pressed button is gone; the focus goes on with its successor, or with the first new row.
    if (had) (more ?? rows[0]?.querySelector("a, button"))?.focus();
  }

  return {
    element,
    start() {
      run += 1;
      shown = 0;
      trouble.replaceChildren();
      return page(null, run);
    },
  };
}
