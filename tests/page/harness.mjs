// A browser with eyes open: every page it opens remembers what went wrong, what was asked for, and what it weighed.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

export const BASE = (process.env.HERM_PAGE_URL ?? "").replace(/\/+$/, "");
export const KEY = process.env.HERM_PAGE_KEY || null;
export const WORD = "marmalade";

if (!BASE) throw new Error("HERM_PAGE_URL is not set: start `herm serve` and give its address");

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
let browser;

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.HERM_PAGE_BROWSER || "/usr/bin/chromium", args: FLAGS });
});
after(() => browser?.close());

/**
 * Opens a page. `seen` has what the page did: `errors` (console, exceptions, violations of the content security policy),
 * `foreign` (requests to another origin), `weight` (bytes of each file of the page).
 */
export async function open({ scheme = "light", width = 1200, height = 850, key = KEY, hash = null } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height }, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const seen = { errors: [], foreign: [], weight: new Map(), reading: [] };
  page.on("console", (message) => {
    if (message.type() === "error") seen.errors.push(message.text());
  });
  page.on("pageerror", (error) => seen.errors.push(`exception: ${error.message}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol.startsWith("http") && url.origin !== new URL(BASE).origin) seen.foreign.push(request.url());
  });
  page.on("response", (response) => {
    const { pathname } = new URL(response.url());
    if (pathname !== "/" && !pathname.startsWith("/app/")) return;
    seen.reading.push(
      response
        .body()
        .then((body) => seen.weight.set(pathname, body.length))
        .catch(() => {}),
    );
  });
  await page.addInitScript((stored) => {
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`violation: ${event.violatedDirective} ${event.blockedURI}`),
    );
    if (stored) sessionStorage.setItem("herm.key", stored);
  }, key);
  if (hash !== null) await go(page, hash);
  return { page, seen };
}

/** Goes to a view and waits for its heading. */
export async function go(page, hash) {
  await page.goto(`${BASE}/${hash}`);
  await page.locator("h1").first().waitFor();
}

/** A test with a page of its own, which must have been clean when it ends. `allowed` are errors it provokes. */
export function pageTest(name, { allowed = /(?!)/, ...options }, body) {
  test(name, async (t) => {
    const { page, seen } = await open(options);
    try {
      await body(page, t, seen);
      assert.deepEqual(
        seen.errors.filter((error) => !allowed.test(error)),
        [],
        "no console errors and no violations",
      );
      assert.deepEqual(seen.foreign, [], "no request to another origin");
    } finally {
      await page.context().close();
    }
  });
}

/** Answers a path of the API with a changed body: `change(body, url)` gets what the server said. */
export async function rewrite(page, path, change) {
  await page.route(
    (url) => url.pathname === path,
    async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: change(await response.json(), new URL(route.request().url())) });
    },
  );
}

/** Answers a path of the API without asking the server. */
export async function answer(page, path, make) {
  await page.route(
    (url) => url.pathname === path,
    (route) => route.fulfill(make(route.request())),
  );
}

/** Speaks to the server from outside the page. */
export async function api(path) {
  const response = await fetch(`${BASE}/v1/${path}`, { headers: KEY ? { Authorization: `Bearer ${KEY}` } : {} });
  assert.ok(response.ok, `${path} answers ${response.status}`);
  return response.json();
}
