// A question before something that changes a brain.

import { button, h } from "./dom.js";

/** Asks in a dialog; true only if the reader said yes. Escape is no. */
export function ask({ question, text, yes, tone }) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      { "aria-labelledby": "ask-title", "aria-describedby": "ask-text" },
      h("h2", { id: "ask-title" }, question),
      h("p", { id: "ask-text" }, text),
      h(
        "div",
        { class: "row end" },
        button("Cancel", () => dialog.close("no"), { autofocus: true }),
        button(yes, () => dialog.close("yes"), { class: tone ?? "primary" }),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
