// The shell: which address shows which view, the operator's strip, and the key. Addresses are behind a #, since the
// server knows no other path than / for the page.

import { get, key, onRefusedKey } from "./api.js";
import { announce, button, h, replace, title } from "./dom.js";
import { statusStrip } from "./status.js";
import { show, trouble } from "./trouble.js";
import { agentsView } from "./view/agents.js";
import { brainFrame } from "./view/brain.js";
import { learningView } from "./view/learning.js";
import { liveView } from "./view/live.js";
import { memoryView } from "./view/memory.js";
import { proposalsView } from "./view/proposals.js";
import { receiptView } from "./view/receipt.js";
import { receiptsView } from "./view/receipts.js";
import { skillView } from "./view/skill.js";
import { skillsView } from "./view/skills.js";
import { timelineView } from "./view/timeline.js";

const main = document.getElementById("main");
const strip = statusStrip(document.getElementById("status"), () => {
  strip.refresh();
  go();
});
let leaving = new AbortController();
let first = true;

/** The view of a brain for what follows `agents/ID/`: its tab, and the function that fills it. */
function ofBrain([tab = "timeline", item]) {
  switch (tab) {
    case "timeline":
      return { tab, name: "Timeline", view: timelineView };
    case "skills":
      return item ? { tab, name: item, view: skillView } : { tab, name: "Skills", view: skillsView };
    case "learning":
      return { tab, name: "Learning", view: learningView };
    case "memory":
      return { tab, name: "Memory", view: memoryView };
    case "receipts":
      return item ? { tab, name: `Receipt ${item}`, view: receiptView } : { tab, name: "Receipts", view: receiptsView };
    case "proposals":
      return { tab, name: "Proposals", view: proposalsView };
    case "live":
      return { tab, name: "Live", view: liveView };
    default:
      return null;
  }
}

async function go() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const [path, search = ""] = location.hash.slice(1).split("?", 2);
  const steps = path.split("/").filter(Boolean).map(decode);
  const place = h("div", { class: "view" });
  const context = {
    signal,
    place,
    item: steps[3] ?? null,
    agent: steps[1] ?? null,
    query: new URLSearchParams(search),
    // Filters are kept in the address without a step in the browser's history.
    keep(values) {
      const kept = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
      history.replaceState(null, "", `#${path}${kept.size ? `?${kept}` : ""}`);
    },
  };
  let view = null;
  if (steps.length === 0 || (steps[0] === "agents" && steps.length === 1)) {
    document.title = "Agents · herm";
    replace(main, place);
    view = agentsView;
  } else if (steps[0] === "agents") {
    const found = ofBrain(steps.slice(2));
    if (found) {
      document.title = `${found.name} · agent ${context.agent} · herm`;
      context.name = found.name;
      context.frame = brainFrame(main, context, found.tab);
      view = found.view;
    }
  }
  if (!view)
    replace(main, title("Nothing here"), h("p", {}, "This address shows nothing. ", h("a", { href: "#/agents" }, "All agents")));
  try {
    const drawn = view?.(context);
    arrive();
    await drawn;
  } catch (error) {
    show(place, error, { signal, again: go });
  }
}

function decode(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

// Every view makes its heading before it waits for anything, so that the focus has where to go.
function arrive() {
  if (!first) {
    scrollTo(0, 0);
    main.querySelector("h1")?.focus({ preventScroll: true });
  }
  first = false;
}

/** Asks for a key. It stays in this tab's session and is sent as a header, never in an address. */
function askForKey(problem) {
  if (document.getElementById("key")) return;
  leaving.abort();
  const input = h("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    placeholder: "herm_…",
  });
  const form = h(
    "form",
    {
      class: "card narrow",
      on: {
        async submit(event) {
          event.preventDefault();
          key.set(input.value.trim());
          replace(main);
          try {
            await get("key");
            announce("The key was taken.");
            strip.refresh();
            go();
          } catch (error) {
            if (error.status !== 401) replace(main, title("Key"), trouble(error, go));
          }
        },
      },
    },
    title("This server asks for a key"),
    h(
      "p",
      {},
      "Paste one that ",
      h("code", {}, "herm keys create"),
      " printed. It is kept until this tab is closed, in this tab alone.",
    ),
    h("label", { for: "key" }, "Key"),
    input,
    h(
      "div",
      { class: "row" },
      h("button", { class: "primary" }, "Use this key"),
      key.get()
        ? button("Forget the key", () => {
            key.forget();
            location.reload();
          })
        : null,
    ),
  );
  replace(main, key.get() ? trouble(problem) : null, form);
  document.title = "Key · herm";
  input.focus();
}

onRefusedKey(askForKey);
addEventListener("hashchange", go);
// What nobody caught is shown all the same: nothing fails silently.
addEventListener("unhandledrejection", (event) => show(main, event.reason ?? new Error("Something in this page failed.")));
addEventListener("error", (event) => show(main, event.error ?? new Error(event.message)));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

strip.refresh();
go();
