// What the page may be trusted with: receipts, keys and errors.

import assert from "node:assert/strict";
import { answer, api, BASE, go, KEY, pageTest, rewrite } from "./harness.mjs";

const verify = (page) => page.getByRole("button", { name: "Verify in this browser" }).click();

function flipped(envelope) {
  const payload = Buffer.from(envelope.payload, "base64");
  // A digit of the time: the statement stays readable and says something else.
  const at = payload.indexOf('"at":"') + 8;
  payload[at] ^= 1;
  return { ...envelope, payload: payload.toString("base64") };
}

pageTest("a receipt verifies in the browser", {}, async (page) => {
  const { last } = await api("agents/1/receipts?limit=1");
  await go(page, `#/agents/1/receipts/${last}`);
  await verify(page);
  await page
    .locator(".verdict")
    .getByText("The signature holds: this statement was signed with this key and has not been changed.")
    .waitFor();
  await page.getByText(/^The holder of did:key:z6Mk\w+ signed exactly these [\d,.]+ bytes/).waitFor();
  await page.getByRole("heading", { name: "Not proven" }).waitFor();
  if (last > 1) await page.getByText(`It follows receipt ${last - 1}`).waitFor();
});

pageTest("a receipt that was tampered with does not", {}, async (page) => {
  const { last } = await api("agents/1/receipts?limit=1");
  await rewrite(page, `/v1/agents/1/receipts/${last}`, (body) => ({ ...body, envelope: flipped(body.envelope) }));
  await go(page, `#/agents/1/receipts/${last}`);
  await verify(page);
  await page.getByRole("alert").getByText("This receipt does not verify: do not rely on it.").waitFor();
  await page.getByText("the signature is not one of this key over these bytes").waitFor();
});

pageTest("a receipt of another key than the one the reader trusts does not", {}, async (page) => {
  await go(page, "#/agents/1/receipts/1");
  await page.getByLabel("Public key you trust").fill("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK");
  await verify(page);
  await page.getByText("it names another key than the one to trust").waitFor();
});

pageTest("the chain verifies, and not if one receipt is another's", {}, async (page) => {
  const { last } = await api("agents/1/receipts?limit=1");
  await go(page, "#/agents/1/receipts");
  await page.getByText("Verify the chain").click();
  await verify(page);
  await page
    .locator(".verdict")
    .getByText(/^Receipts? .*: every signature and every link holds\.$/)
    .waitFor();
  assert.ok(last >= 2, "brain 1 has receipts");
  const first = await api("agents/1/receipts/1");
  await rewrite(page, `/v1/agents/1/receipts/${last}`, () => first);
  await verify(page);
  await page.getByRole("alert").getByText("the chain does not hold").waitFor();
  await page.getByText("its previous digest is not the SHA-256 of the payload before").first().waitFor();
});

pageTest("a chain with a receipt that cannot be read is not called whole", { allowed: /404/ }, async (page) => {
  const { last } = await api("agents/1/receipts?limit=1");
  const gone = {
    type: "urn:herm:problem:not_found",
    title: "not found",
    status: 404,
    kind: "not_found",
    detail: "there is no such receipt",
  };
  await answer(page, `/v1/agents/1/receipts/${last - 1}`, () => ({
    status: 404,
    contentType: "application/problem+json",
    json: gone,
  }));
  await go(page, "#/agents/1/receipts");
  await page.getByText("Verify the chain").click();
  await verify(page);
  const verdict = page.locator(".verdict.warn");
  await verdict.getByText("not all of them could be read. What could be checked holds.").waitFor();
  await verdict.getByText(`Anything about 1 receipt (${last - 1}) and the links to them`).waitFor();
});

pageTest("an error is shown with its detail and its hint, and is announced", { allowed: /404/ }, async (page) => {
  await go(page, "#/agents/987654321");
  const alert = page.getByRole("alert");
  await alert.first().waitFor();
  assert.equal(await alert.count(), 1, "said once");
  const response = await fetch(`${BASE}/v1/agents/987654321`, { headers: KEY ? { Authorization: `Bearer ${KEY}` } : {} });
  const problem = await response.json();
  const said = await alert.textContent();
  assert.ok(said.includes(problem.detail), "the detail");
  if (problem.hint) assert.ok(said.includes(problem.hint.replaceAll("`", "")), "the hint");
});

pageTest("a server that is gone is said, and trying again works", { allowed: /ERR_FAILED|Failed to load/ }, async (page) => {
  let gone = true;
  await page.route(
    (url) => url.pathname === "/v1/agents/1/skills",
    (route) => (gone ? route.abort() : route.continue()),
  );
  await go(page, "#/agents/1/skills");
  await page.getByRole("alert").getByText("The server did not answer.").waitFor();
  gone = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await page.locator("tbody tr").first().waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
});

pageTest(
  "a server that asks for a key gets it as a header, and it stays in the tab's session",
  { key: null, allowed: /401/ },
  async (page) => {
    const pasted = KEY ?? "herm_pasted";
    // Where the server has no keys, one is asked for here in its place.
    if (!KEY) {
      await page.route(
        (url) => url.pathname.startsWith("/v1/"),
        (route) => {
          const { authorization, ...headers } = route.request().headers();
          if (authorization === `Bearer ${pasted}`) return route.continue({ headers });
          return route.fulfill({
            status: 401,
            contentType: "application/problem+json",
            json: {
              type: "urn:herm:problem:unauthenticated",
              title: "unauthenticated",
              status: 401,
              kind: "unauthenticated",
              detail: "this needs a key",
              hint: "make one with `herm keys create`",
            },
          });
        },
      );
    }
    await go(page, "#/agents/1/skills");
    await page.getByRole("heading", { name: "This server asks for a key" }).waitFor();
    await page.getByLabel("Key", { exact: true }).fill("herm_wrong");
    await page.getByRole("button", { name: "Use this key" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Key", { exact: true }).fill(pasted);
    await page.keyboard.press("Enter");
    await page.locator("tbody tr").first().waitFor();
    const kept = await page.evaluate(() => ({
      local: localStorage.length,
      session: sessionStorage.getItem("herm.key"),
      address: location.href,
      cookies: document.cookie,
    }));
    assert.deepEqual(
      { ...kept, address: kept.address.includes(pasted) },
      { local: 0, session: pasted, address: false, cookies: "" },
    );
    await page.getByRole("button", { name: "Forget key" }).click();
    await page.getByRole("heading", { name: "This server asks for a key" }).waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  },
);
