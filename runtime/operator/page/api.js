// Speaking to the API: one place for the key, for problems, and for streams.

import { EventReader } from "./sse.js";

// Relative to this module, so that the page also works behind a prefix of a reverse proxy.
const ROOT = new URL("../v1/", import.meta.url);
const SLOT = "herm.key";

/** An error of the API, or of the way to it. */
export class Problem extends Error {
  constructor({ status = 0, kind = "unreachable", detail, hint = null, requestId = null, retryAfter = null }) {
    super(detail);
    Object.assign(this, { status, kind, detail, hint, requestId, retryAfter });
  }
}

let refused = () => {};

/** Who is told when a key is missing or wrong. */
export function onRefusedKey(listener) {
  refused = listener;
}

// The key lives as long as the tab: not in localStorage, where it would outlive the session, and never in an address.
export const key = {
  get: () => sessionStorage.getItem(SLOT),
  set: (value) => sessionStorage.setItem(SLOT, value),
  forget: () => sessionStorage.removeItem(SLOT),
};

/** An address below /v1 with every value escaped: at`agents/${id}/skills/${slug}`. */
export function at(parts, ...values) {
  return parts.reduce((path, part, index) => path + encodeURIComponent(values[index - 1]) + part);
}

export async function get(path, query, signal) {
  return (await send("GET", path, { query, signal })).json();
}

export async function post(path, body, signal) {
  const text = await (await send("POST", path, { body: body ?? {}, signal })).text();
  return text ? JSON.parse(text) : {};
}

export async function del(path) {
  await send("DELETE", path, {});
}

/**
 * Reads a stream of events until it ends, of a GET, or of a POST where there is a body. EventSource can send neither a
 * body nor the key, so this is fetch.
 */
export async function stream(path, { after, body, headers, signal, event }) {
  const all = { Accept: "text/event-stream", ...headers };
  if (after) all["Last-Event-ID"] = after;
  const response = await send(body === undefined ? "GET" : "POST", path, { body, headers: all, signal });
  // A task whose idempotency key is known is answered as it is, since nothing happens any more.
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    return event({ name: "outcome", id: "", data: await response.json() });
  }
  const reader = new EventReader(event);
  const chunks = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await chunks.read();
      if (done) return;
      reader.feed(value);
    }
  } catch (error) {
    throw whyNot(error, signal);
  }
}

async function send(method, path, { query, body, headers = {}, signal }) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const all = { Accept: "application/json", ...headers };
  if (key.get()) all.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url, {
      method,
      headers: all,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    throw whyNot(error, signal);
  }
  if (response.ok) return response;
  const problem = await read(response);
  if (problem.status === 401) refused(problem);
  throw problem;
}

function whyNot(error, signal) {
  if (signal?.aborted) return error;
  return new Problem({
    detail: "The server did not answer.",
    hint: `Is \`herm serve\` still running? The browser says: ${error.message}`,
  });
}

async function read(response) {
  const retryAfter = response.headers.get("Retry-After");
  const requestId = response.headers.get("X-Request-Id");
  try {
    const body = await response.json();
    return new Problem({ requestId, retryAfter, ...body, status: response.status, detail: body.detail ?? body.title });
  } catch {
    return new Problem({
      status: response.status,
      kind: "unknown",
      detail: `The server answered ${response.status}, not in the form of a problem.`,
      requestId,
      retryAfter,
    });
  }
}
