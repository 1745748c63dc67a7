// The receipts of a brain, and checking the chain of the last of them.

import { at, get, post } from "../api.js";
import { badge, button, empty, field, h, loading, replace, table, th, title } from "../dom.js";
import { pager } from "../pager.js";
import { show } from "../trouble.js";
import { hash, time } from "../words.js";
import { checkChain } from "./chain.js";
import { keyInput, verdict } from "./proof.js";

const MOST = 200;

export async function receiptsView(context) {
  const { place, signal, agent, frame } = context;
  const body = h("tbody");
  const list = pager({
    list: {
      body,
      frame: table(
        "Receipts",
        [
          "Receipt",
          "Kind",
          "Version",
          "Status",
          th("Model", { class: "wide" }),
          th("When", { class: "wide" }),
          th("Hash after", { class: "wide" }),
        ],
        body,
      ),
    },
    noun: "receipt",
    signal,
    async fetch(before) {
      const answer = await get(at`agents/${agent}/receipts`, { before, limit: 50 }, signal);
      return { items: answer.receipts, next: answer.next, total: answer.last };
    },
    row: (receipt) => row(receipt, frame.home),
    none: () => empty("No receipts yet.", "Every settled step gets one. Steps made without a signing key have none."),
  });
  place.append(
    h(
      "div",
      { class: "head" },
      title("Receipts"),
      h("p", { class: "dim" }, "Each step is signed, and each receipt names the one before it."),
    ),
    chainPanel(context),
    list.element,
  );
  await list.start();
}

function row(receipt, home) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: `${home}/receipts/${receipt.seq}` }, `Receipt ${receipt.seq}`)),
    h("td", {}, badge(receipt.kind, `kind-${receipt.kind}`)),
    h("td", { class: "num" }, receipt.version),
    h("td", {}, receipt.status ? badge(receipt.status, `outcome-${receipt.status}`) : h("span", { class: "dim" }, "–")),
    h("td", { class: "wide" }, receipt.model ?? h("span", { class: "dim" }, "–")),
    h("td", { class: "wide" }, time(receipt.at)),
    h("td", { class: "wide" }, hash(receipt.after, "bundle hash after the step")),
  );
}

function chainPanel(context) {
  const result = h("div", {});
  const many = h("input", { type: "number", min: "1", max: MOST, value: "20", inputmode: "numeric" });
  const trusted = keyInput();
  const busy = (work) => async (event) => {
    event.target.disabled = true;
    replace(result, loading("receipts"));
    try {
      replace(result, await work());
    } catch (error) {
      replace(result);
      show(result, error, { signal: context.signal });
    } finally {
      event.target.disabled = false;
    }
  };
  return h(
    "details",
    { class: "card" },
    h("summary", {}, "Verify the chain"),
    h(
      "div",
      { class: "tools" },
      field("Receipts, from the last back", many),
      field("Public key you trust", trusted, { class: "field grow" }),
    ),
    h(
      "div",
      { class: "row" },
      button(
        "Verify in this browser",
        busy(() => checkChain(context, Math.min(MOST, Math.max(1, Number(many.value) || 1)), trusted.value.trim())),
        { class: "primary" },
      ),
      button(
        "Let the server check everything",
        busy(() => askServer(context)),
      ),
    ),
    result,
  );
}

async function askServer({ agent, signal }) {
  const answer = await post(at`agents/${agent}/verify`, {}, signal);
  // A finding is a line of the log and what is wrong there.
  const line = (each) =>
    typeof each === "string" ? each : `${each.line ? `line ${each.line}: ` : ""}${each.what ?? JSON.stringify(each)}`;
  const lines = (list) => (list ?? []).map(line);
  return verdict(
    Boolean(answer.sound),
    answer.sound
      ? "The server finds the brain sound. That is its own word about itself."
      : "The server finds that something does not hold.",
    { findings: lines(answer.findings), proven: lines(answer.proven), unproven: lines(answer.notProven) },
  );
}
