// Checking the last receipts of a brain as a chain, in this browser.

import { at, get } from "../api.js";
import { checkEnvelope, linkFaults, whyNotHere } from "../verify.js";
import { count } from "../words.js";
import { verdict } from "./proof.js";

// A few at a time, so that a rate limit is not used up by one press.
const AT_ONCE = 4;

/** Reads the last `many` receipts and checks each and how it follows. `pasted` is the key to trust, if the reader has one. */
export async function checkChain({ agent, signal }, many, pasted) {
  const cannot = await whyNotHere();
  if (cannot) return verdict(null, cannot);
  const { last } = await get(at`agents/${agent}/receipts`, { limit: 1 }, signal);
  if (!last) return verdict(null, "There is no receipt to check.");
  const first = Math.max(1, last - many + 1);
  // One more than asked, if there is one: what the first of them follows must be known.
  const from = Math.max(1, first - 1);
  const numbers = Array.from({ length: last - from + 1 }, (_, index) => from + index);
  const answers = await inTurn(numbers, (number) =>
    get(at`agents/${agent}/receipts/${number}`, {}, signal).catch((error) => {
      if (error.status === 404) return null;
      throw error;
    }),
  );
  const trusted = pasted || answers.find(Boolean)?.key;
  const found = { first, last, trusted, pasted, faults: [], missing: [], links: 0 };
  let before = null;
  for (const [index, number] of numbers.entries()) {
    const checked = answers[index] && (await checkEnvelope(answers[index].envelope, trusted));
    const fault = (why) => found.faults.push(`Receipt ${number}: ${why}.`);
    if (!checked) found.missing.push(number);
    else if (!checked.holds) fault(checked.why);
    else if (checked.statement.predicate.brain !== agent) fault(`it is of brain ${checked.statement.predicate.brain}`);
    const readable = checked?.statement?.predicate ? checked : null;
    if (readable && number >= first && (number === 1 || before)) {
      found.links += 1;
      linkFaults(number === 1 ? null : before, readable).forEach(fault);
    }
    before = readable;
  }
  return said(found);
}

function said({ first, last, trusted, pasted, faults, missing, links }) {
  const span = first === last ? `Receipt ${last}` : `Receipts ${first} to ${last}`;
  if (faults.length) return verdict(false, `${span}: the chain does not hold.`, { findings: faults });
  const unproven = [
    pasted ? null : "That this is the operator's key: this server named it. Compare it with one that you got another way.",
    first > 1 ? `Anything about receipts before ${first - 1}: they were not read.` : null,
    "That the chain was not cut at its end: that takes a checkpoint that you kept.",
    "That the brain has this content, that the model said this, when it was, or that an answer is right.",
  ];
  const follows =
    "names the SHA-256 of the payload before it, carries the next number and a greater version, and begins at the bundle hash where the one before ended";
  if (missing.length) {
    const some = `${missing.slice(0, 10).join(", ")}${missing.length > 10 ? ", …" : ""}`;
    return verdict(null, `${span}: not all of them could be read. What could be checked holds.`, {
      proven: [
        `The holder of ${trusted} signed each of those that could be read, and none of them was changed since.`,
        links ? `Where the one before could be read too (${count(links, "link")}), each ${follows}.` : null,
      ],
      unproven: [
        `Anything about ${count(missing.length, "receipt")} (${some}) and the links to them: they are not there, or not for this key.`,
        ...unproven,
      ],
    });
  }
  return verdict(true, `${span}: every signature and every link holds.`, {
    proven: [
      `The holder of ${trusted} signed each of them, and none was changed since.`,
      `Each ${follows}: between them nothing was added or left out.`,
      first === 1 ? "The chain begins with receipt 1, which names none before it." : null,
    ],
    unproven,
  });
}

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
