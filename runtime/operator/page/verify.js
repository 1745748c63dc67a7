// Checking receipts here, with the browser's own cryptography: the server that shows a receipt is not asked whether it
// holds. The rules are those of docs/reference/receipt.md. Herm's own verifier is stricter in one point: it also refuses
// keys and signatures with points of small order, which a browser may let pass.

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE = "https://in-toto.io/Statement/v1";
const RECEIPT_TYPE = "urn:herm:receipt:1";

/** Why this browser cannot check signatures, in a sentence; null if it can. */
export async function whyNotHere() {
  if (!globalThis.crypto?.subtle)
    return "This browser offers cryptography only to pages over https or from this machine, so nothing was checked here.";
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32).fill(9), "Ed25519", false, ["verify"]);
    return null;
  } catch (error) {
    // A key that is no point is refused by those who know the algorithm; others do not know its name.
    return error.name === "NotSupportedError"
      ? "This browser has no Ed25519 in its WebCrypto, so the signature was not checked here."
      : null;
  }
}

/** The 32 bytes of a key that is written as did:key. */
export function publicKey(did) {
  if (typeof did !== "string" || !did.startsWith("did:key:z")) throw new Error("the key is not written as did:key:z…");
  let number = 0n;
  for (const letter of did.slice("did:key:z".length)) {
    const digit = ALPHABET.indexOf(letter);
    if (digit < 0) throw new Error(`the key has a character that Base58 does not have: ${letter}`);
    number = number * 58n + BigInt(digit);
  }
  const hex = number.toString(16).padStart(68, "0");
  if (hex.length !== 68 || !hex.startsWith("ed01")) throw new Error("the key is not an Ed25519 key (0xed01 and 32 bytes)");
  return Uint8Array.from(hex.slice(4).match(/../g), (byte) => Number.parseInt(byte, 16));
}

/** Strict Base64: what atob would forgive is refused. */
export function bytes(base64) {
  if (typeof base64 !== "string" || base64.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(base64))
    throw new Error("it is not Base64");
  const binary = atob(base64);
  if (btoa(binary) !== base64) throw new Error("it is not Base64 in its one form");
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

/** What is signed: the pre-authentication encoding of DSSE. */
export function preAuthentication(type, payload) {
  const encoder = new TextEncoder();
  const typed = encoder.encode(type);
  const head = encoder.encode(`DSSEv1 ${typed.length} ${type} ${payload.length} `);
  const all = new Uint8Array(head.length + payload.length);
  all.set(head);
  all.set(payload, head.length);
  return all;
}

export async function sha256(data) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The statement inside an envelope, read from the bytes that are signed and from nothing else. */
export function statementOf(envelope) {
  const payload = bytes(envelope?.payload);
  return { payload, statement: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload)) };
}

export function subject(statement, name, algorithm) {
  return statement?.subject?.find((each) => each?.name === name)?.digest?.[algorithm] ?? null;
}

/** Checks one envelope against a trusted key. Gives { holds, why, statement, payload, digest }. */
export async function checkEnvelope(envelope, trusted) {
  const no = (why, more) => ({ holds: false, why, ...more });
  if (envelope?.payloadType !== PAYLOAD_TYPE) return no("its payloadType is not that of a receipt");
  const signature = envelope.signatures?.[0];
  if (envelope.signatures?.length !== 1) return no(`it has ${envelope.signatures?.length ?? 0} signatures; a receipt has one`);
  let payload;
  let sig;
  try {
    payload = bytes(envelope.payload);
  } catch (error) {
    return no(`its payload cannot be read: ${error.message}`);
  }
  try {
    sig = bytes(signature.sig);
  } catch (error) {
    return no(`its signature cannot be read: ${error.message}`);
  }
  let statement = null;
  try {
    ({ statement } = statementOf(envelope));
  } catch {
    /* Said below, after the signature. */
  }
  const seen = { payload, statement, digest: await sha256(payload) };
  if (signature.keyid !== trusted) return no(`it names another key than the one to trust: ${signature.keyid}`, seen);
  let key;
  try {
    key = await crypto.subtle.importKey("raw", publicKey(trusted), "Ed25519", false, ["verify"]);
  } catch (error) {
    return no(`the key cannot be used: ${error.message || error.name}`, seen);
  }
  const good =
    sig.length === 64 && (await crypto.subtle.verify("Ed25519", key, sig, preAuthentication(envelope.payloadType, payload)));
  if (!good) return no("the signature is not one of this key over these bytes: either was changed after signing", seen);
  if (statement?._type !== STATEMENT_TYPE || statement?.predicateType !== RECEIPT_TYPE || !statement.predicate)
    return no("the signed payload is not a receipt's statement", seen);
  return { holds: true, why: null, ...seen };
}

/** What does not fit between a receipt and the one before it: [] if it follows. `before` is null for the first. */
export function linkFaults(before, receipt) {
  const faults = [];
  const [is, was] = [receipt.statement.predicate, before?.statement.predicate ?? null];
  if (is.seq !== (was?.seq ?? 0) + 1) faults.push(`its number is ${is.seq}, but ${(was?.seq ?? 0) + 1} is due`);
  if ((is.previous?.sha256 ?? null) !== (before?.digest ?? null))
    faults.push("its previous digest is not the SHA-256 of the payload before");
  if (
    subject(receipt.statement, "bundle/before", "blake3") !==
    (before ? subject(before.statement, "bundle/after", "blake3") : null)
  )
    faults.push("it does not begin at the bundle hash where the one before ended");
  if (was && is.brain !== was.brain) faults.push("it is of another brain");
  if (!(is.version > (was?.version ?? 0))) faults.push("its version is not greater than the one before");
  if (!subject(receipt.statement, "bundle/after", "blake3")) faults.push("it does not say where the brain is after the step");
  return faults;
}
