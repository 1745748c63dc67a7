// Errors where they can be seen and heard. Every view ends here when something did not work.

import { button, h } from "./dom.js";

/** A box with what happened and what to do; `again`, where given, is offered as a button. */
export function trouble(error, again) {
  const lines = [h("p", {}, h("strong", {}, error.detail ?? error.message ?? String(error)))];
  if (error.hint) lines.push(h("p", {}, spoken(error.hint)));
  if (error.retryAfter) lines.push(h("p", {}, `The server asks to wait ${error.retryAfter} seconds.`));
  const small = [error.kind, error.status || null, error.requestId ? `request ${error.requestId}` : null].filter(Boolean);
  if (small.length) lines.push(h("p", { class: "dim small" }, small.join(" · ")));
  const box = h("div", { class: "box bad", role: "alert" }, lines);
  if (again)
    box.append(
      button("Try again", () => {
        box.remove();
        again();
      }),
    );
  return box;
}

/** A sentence with `commands` in it, as hints have them. */
export function spoken(text) {
  return String(text)
    .split("`")
    .map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

/** Shows an error in a place, unless the reader has left or the same words stand there already. */
export function show(place, error, { signal, again } = {}) {
  if (signal?.aborted || error?.name === "AbortError") return;
  const words = error.detail ?? error.message;
  const said = [...document.querySelectorAll("main .box.bad strong")].some((strong) => strong.textContent === words);
  if (!said) place.prepend(trouble(error, again));
}
