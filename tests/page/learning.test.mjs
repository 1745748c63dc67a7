// The learning tab on a real server whose brain 7 has learned four skills: one that helps, one that hurts, one that is not
// decided, and one that nothing is known of.
//
//   HERM_PAGE_URL, HERM_PAGE_BROWSER, HERM_PAGE_SHOTS as for page.test.mjs

import assert from "node:assert/strict";
import { join } from "node:path";
import { go, pageTest } from "./harness.mjs";

const SHOTS = process.env.HERM_PAGE_SHOTS;
const LEARNING = "#/agents/7/learning";

/** The rows as they are read: skill, state, both arms, gain. */
async function rows(page) {
  await page.locator("tbody tr").first().waitFor();
  const all = await page.locator("tbody tr").all();
  const text = (row, cell) => row.locator("th, td").nth(cell).innerText();
  return Promise.all(
    all.map(async (row) => {
      const name = await row.getByRole("link").innerText();
      const cells = await Promise.all([1, 2, 3, 4].map((cell) => text(row, cell)));
      return [name, ...cells.map((cell) => cell.replace(/\s+/g, " ").trim())];
    }),
  );
}

for (const scheme of ["light", "dark"]) {
  pageTest(`every state stands with both arms and its gain, ${scheme}`, { scheme, hash: LEARNING }, async (page) => {
    assert.deepEqual(await rows(page), [
      ["attic", "harmful", "0.00 of 6", "1.00 of 6", "−1.00 (−1.00 to −0.45)"],
      ["cellar", "proven", "1.00 of 7", "0.00 of 7", "+1.00 (+0.50 to +1.00)"],
      ["garage", "trial", "0.50 of 3", "0.25 of 3", "+0.25 (−0.37 to +0.68)"],
      ["shed", "trial", "– of 0", "– of 0", "–"],
    ]);
    await page.getByText("2 on trial, 1 proven, 1 harmful").waitFor();
    await page.getByText("What is proven gains +1.00 (+0.50 to +1.00) a task that it fits, 44 % of all").waitFor();
    await page.getByText("What harmful skills cost on trial: 6.0 good answers.").waitFor();
    const reason = page.locator("tbody tr").first().locator(".dim").first();
    assert.match(await reason.innerText(), /^mean outcome 0\.00 in 6 tasks with it and 1\.00 in 6 without/);
    if (SHOTS) await page.screenshot({ path: join(SHOTS, `learned-${scheme}.png`), fullPage: true });
  });
}

pageTest("one state is chosen, stands in the address, and leads to its skill", { hash: LEARNING }, async (page) => {
  await page.getByLabel("State").selectOption({ label: "proven" });
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  assert.equal((await rows(page))[0][0], "cellar");
  assert.match(page.url(), /state=proven/);
  await page.reload();
  assert.deepEqual((await rows(page)).length, 1, "the address says it");
  await page.getByLabel("State").selectOption({ label: "unproven" });
  await page.getByText("Nothing learned stands there.").waitFor();
  await go(page, LEARNING);
  await page.getByRole("link", { name: "cellar" }).click();
  await page.getByRole("heading", { name: "cellar" }).first().waitFor();
});

pageTest("on a narrow screen the table scrolls and the page does not", { width: 400, hash: LEARNING }, async (page) => {
  const [attic] = await rows(page);
  assert.equal(attic[1], "harmful");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
  assert.equal(wide, false, "the page does not scroll sideways");
  if (SHOTS) await page.screenshot({ path: join(SHOTS, "learned-narrow.png"), fullPage: true });
});
