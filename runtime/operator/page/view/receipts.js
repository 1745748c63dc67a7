// The receipts of a brain, and checking the chain of the last of them.

import { at, get, post } from "../api.js";
import { badge, button, empty, field, h, loading, replace, table, th, title } from "../dom.js";
import { pager } from "../pager.js";
import { show } from "../trouble.js";
import { checkEnvelope, linkFaults, whyNotHere } from "../verify.js";
import { count, hash, time } from "../words.js";
import { keyInput, verdict } from "./proof.js";

const AT_ONCE = 4;
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

async function checkChain({ agent, signal }, many, pasted) {
  const cannot = await whyNotHere();
  if (cannot) return verdict(null, cannot);
  const { last } = await get(at`agents/${agent}/receipts`, { limit: 1 }, signal);
  if (!last) return verdict(null, "There is no receipt to check.");
  const first = Math.max(1, last - many + 1);
  // One more than asked, if there is one: what the first of them follows must be known.
  const numbers = Array.from({ length: last - Math.max(1, first - 1) + 1 }, (_, index) => last - index).reverse();
  const answers = await inTurn(numbers, (number) =>
    get(at`agents/${agent}/receipts/${number}`, {}, signal).catch((error) => {
      if (error.status === 404) return null;
      throw error;
    }),
  );
  const trusted = pasted || answers.find(Boolean)?.key;
  const faults = [];
  const missing = [];
  let before = null;
  for (const [index, number] of numbers.entries()) {
    if (answers[index] === null) {
      missing.push(number);
      before = null;
      continue;
    }
    const checked = await checkEnvelope(answers[index].envelope, trusted);
    if (!checked.holds) faults.push(`Receipt ${number}: ${checked.why}.`);
    else if (checked.statement.predicate.brain !== agent)
      faults.push(`Receipt ${number}: it is of brain ${checked.statement.predicate.brain}.`);
    if (!checked.statement) {
      before = null;
      continue;
    }
    if (number >= first && (number === 1 || before))
      faults.push(...linkFaults(number === 1 ? null : before, checked).map((fault) => `Receipt ${number}: ${fault}.`));
    before = checked;
  }
  return chainVerdict({ first, last, faults, missing, trusted, pasted });
}

function chainVerdict({ first, last, faults, missing, trusted, pasted }) {
  const span = first === last ? `Receipt ${last}` : `Receipts ${first} to ${last}`;
  if (faults.length) return verdict(false, `${span}: the chain does not hold.`, { findings: faults });
  const gaps = missing.length
    ? `${count(missing.length, "receipt")} not visible to this key (${missing.slice(0, 10).join(", ")}${missing.length > 10 ? ", …" : ""}): nothing is known of them and of the links to them.`
    : null;
  return verdict(true, `${span}: every signature and every link that could be checked holds.`, {
    proven: [
      `The holder of ${trusted} signed each of them, and none was changed since.`,
      "Each names the SHA-256 of the payload before it, carries the next number and a greater version, and begins at the bundle hash where the one before ended: between them nothing was added or left out.",
      first === 1 ? "The chain begins with receipt 1, which names none before it." : null,
    ],
    unproven: [
      gaps,
      pasted ? null : "That this is the operator's key: this server named it. Compare it with one that you got another way.",
      first > 1 ? `Anything about receipts before ${Math.max(1, first - 1)}: they were not read.` : null,
      "That the chain was not cut at its end: that takes a checkpoint that you kept.",
      "That the brain has this content, that the model said this, when it was, or that an answer is right.",
    ],
  });
}

/** A few at a time, so that a rate limit is not used up by one press. */
async function inTurn(items, work) {
  const results = new Array(items.length);
  let next = 0;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < items.length) {
        const index = next++;
        results[index] = await work(items[index]);
      }
    }),
  );
  return results;
}

async function askServer({ agent, signal }) {
  const answer = await post(at`agents/${agent}/verify`, {}, signal);
  // A finding is a line of the tape and what is wrong there.
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
