// One receipt: its statement, its place in the chain, and its signature checked here.

import { at, get } from "../api.js";
import { badge, button, facts, field, h, loading, replace, title } from "../dom.js";
import { show } from "../trouble.js";
import { checkEnvelope, linkFaults, statementOf, subject, whyNotHere } from "../verify.js";
import { copy, count, hash, jsonView, time } from "../words.js";
import { keyInput, verdict } from "./proof.js";

export async function receiptView(context) {
  const { place, signal, agent, item: number, frame } = context;
  const content = h("div", {}, loading("the receipt"));
  place.append(
    h("p", { class: "crumbs" }, h("a", { href: `${frame.home}/receipts` }, "All receipts")),
    title(`Receipt ${number}`),
    content,
  );
  let receipt;
  try {
    receipt = await get(at`agents/${agent}/receipts/${number}`, {}, signal);
  } catch (error) {
    replace(content);
    throw error;
  }
  if (signal.aborted) return;
  // What is shown is what is signed: the payload, not the copy of it that the server decoded.
  let statement = null;
  let unreadable = null;
  try {
    ({ statement } = statementOf(receipt.envelope));
  } catch (error) {
    unreadable = error.message;
  }
  replace(
    content,
    unreadable
      ? h(
          "div",
          { class: "box bad", role: "alert" },
          h("strong", {}, "The payload of this receipt is not a statement."),
          h("p", {}, unreadable),
        )
      : null,
    verifyPanel(context, receipt),
    statement ? overview(statement, frame) : null,
    h(
      "section",
      { class: "card" },
      h(
        "div",
        { class: "row between" },
        h("h2", {}, "Statement"),
        button("Copy the envelope", () => copy(JSON.stringify(receipt.envelope), "envelope"), { class: "small" }),
      ),
      h("p", { class: "dim small" }, "Decoded in this browser from the payload of the envelope."),
      statement ? jsonView(statement) : jsonView(receipt.envelope ?? null),
    ),
  );
}

function overview(statement, frame) {
  const predicate = statement.predicate ?? {};
  const task = predicate.task;
  const last = frame.brain()?.version;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "In short"),
    facts([
      ["Kind", badge(predicate.kind, `kind-${predicate.kind}`)],
      ["Version", predicate.version],
      ["At", time(predicate.at)],
      [
        "Hash before",
        subject(statement, "bundle/before", "blake3")
          ? hash(subject(statement, "bundle/before", "blake3"), "bundle hash before")
          : "none: the brain was made",
      ],
      ["Hash after", hash(subject(statement, "bundle/after", "blake3"), "bundle hash after")],
      ["Moved", predicate.moved?.length ? `${predicate.moved.join(", ")} (${count(predicate.files ?? 0, "file")})` : "nothing"],
      [
        "Outcome",
        task
          ? [
              badge(task.status, `outcome-${task.status}`),
              ` ${task.stop}, ${count(task.turns ?? 0, "turn")}, ${task.billable ? "billable" : "not billable"}`,
            ]
          : null,
      ],
      ["Model", task ? (task.model ?? "nobody answered") : null],
      [
        "Follows",
        predicate.previous
          ? [
              h("a", { href: `${frame.home}/receipts/${predicate.seq - 1}` }, `Receipt ${predicate.seq - 1}`),
              " ",
              hash(predicate.previous.sha256, "SHA-256 of the payload before"),
            ]
          : "nothing: it is the first",
      ],
      [
        "Followed by",
        last > predicate.version
          ? h("a", { href: `${frame.home}/receipts/${predicate.seq + 1}` }, `Receipt ${predicate.seq + 1}`)
          : null,
      ],
    ]),
  );
}

function verifyPanel(context, receipt) {
  const result = h("div", {});
  const trusted = keyInput();
  const press = button(
    "Verify in this browser",
    async () => {
      press.disabled = true;
      try {
        replace(result, await verify(context, receipt, trusted.value.trim()));
      } catch (error) {
        replace(result);
        show(result, error, { signal: context.signal });
      } finally {
        press.disabled = false;
      }
    },
    { class: "primary" },
  );
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Signature"),
    h(
      "div",
      { class: "tools" },
      h("div", { class: "field" }, h("span", {}, "Key this server names"), hash(receipt.key, "public key")),
      field("Public key you trust", trusted, { class: "field grow" }),
    ),
    h("div", { class: "row" }, press),
    result,
  );
}

async function verify({ agent, item, signal }, receipt, pasted) {
  const cannot = await whyNotHere();
  if (cannot) return verdict(null, cannot);
  const trusted = pasted || receipt.key;
  const checked = await checkEnvelope(receipt.envelope, trusted);
  if (!checked.holds) {
    return verdict(false, "This receipt does not verify: do not rely on it.", {
      findings: [`Of the envelope: ${checked.why}.`, `The key that was used: ${trusted}`],
    });
  }
  const { predicate } = checked.statement;
  const faults = [];
  if (String(predicate.seq) !== item) faults.push(`What was signed is receipt ${predicate.seq}, not ${item}.`);
  if (predicate.brain !== agent) faults.push(`What was signed is of brain ${predicate.brain}, not ${agent}.`);
  if (receipt.statement && !same(receipt.statement, checked.statement))
    faults.push("The statement that the server shows beside the envelope is not the one that was signed.");
  const link = await follows({ agent, signal }, checked, trusted);
  faults.push(...link.faults);
  if (faults.length) return verdict(false, "The signature holds, but the receipt is not in its place.", { findings: faults });
  return verdict(true, "The signature holds: this statement was signed with this key and has not been changed.", {
    proven: [
      `The holder of ${trusted} signed exactly these ${checked.payload.length.toLocaleString()} bytes (Ed25519 over their DSSE encoding). Their SHA-256 is ${checked.digest}.`,
      link.proven,
    ],
    unproven: [
      pasted ? null : "That this is the operator's key: this server named it. Compare it with one that you got another way.",
      link.unproven,
      "That the brain has this content. `herm receipts verify` computes it again from files and rows.",
      "That the model said this, or that the answer is right. Model and usage are the operator's word.",
      "When: the time is the operator's clock. And that there is no other chain signed with this key.",
    ],
  });
}

/** The link to the receipt before, as far as it can be seen. */
async function follows({ agent, signal }, checked, trusted) {
  const number = checked.statement.predicate.seq - 1;
  if (number === 0)
    return { faults: linkFaults(null, checked), proven: "It is the first of its chain and names none before it." };
  let before;
  try {
    before = await get(at`agents/${agent}/receipts/${number}`, {}, signal);
  } catch (error) {
    return {
      faults: [],
      unproven: `That it follows receipt ${number}: that one could not be read (${error.detail ?? error.message})`,
    };
  }
  const earlier = await checkEnvelope(before.envelope, trusted);
  if (!earlier.holds) return { faults: [`Receipt ${number}, which it follows: ${earlier.why}.`] };
  return {
    faults: linkFaults(earlier, checked).map((fault) => `Against receipt ${number}: ${fault}.`),
    proven: `It follows receipt ${number}: it names the SHA-256 of that payload, and begins at the bundle hash where that one ended.`,
  };
}

function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || Array.isArray(a) !== Array.isArray(b))
    return false;
  const [left, right] = [Object.keys(a), Object.keys(b)];
  return left.length === right.length && left.every((name) => same(a[name], b[name]));
}
