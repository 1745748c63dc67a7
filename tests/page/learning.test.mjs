// The learning tab on a real server whose brain 7 has learned four skills: one that helps, one that hurts, one that is not
// decided, and one that nothing is known of.
//
//   HERM_PAGE_URL, HERM_PAGE_BROWSER, HERM_PAGE_SHOTS as for page.test.mjs

import assert from "node:assert/strict";
import { join } from "node:path";
import { go, pageTest, rewrite } from "./harness.mjs";

const SHOTS = process.env.HERM_PAGE_SHOTS;
const LEARNING = "#/agents/7/learning";

/** The rows as they are read: skill, state, both arms, gain, cost. */
async function rows(page) {
  await page.locator("tbody tr").first().waitFor();
  const all = await page.locator("tbody tr").all();
  const text = (row, cell) => row.locator("th, td").nth(cell).innerText();
  return Promise.all(
    all.map(async (row) => {
      const name = await row.getByRole("link").innerText();
      const cells = await Promise.all([1, 2, 3, 4, 5].map((cell) => text(row, cell)));
      return [name, ...cells.map((cell) => cell.replace(/\s+/g, " ").trim())];
    }),
  );
}

for (const scheme of ["light", "dark"]) {
  pageTest(`every state stands with both arms and its gain, ${scheme}`, { scheme, hash: LEARNING }, async (page) => {
    assert.deepEqual(await rows(page), [
      ["attic", "harmful", "0.00 of 6", "1.00 of 6", "−1.00 (−1.00 to −0.45)", "+0.0002 $"],
      ["cellar", "proven", "1.00 of 7", "0.00 of 7", "+1.00 (+0.50 to +1.00)", "+0.0002 $"],
      ["garage", "trial", "0.50 of 3", "0.25 of 3", "+0.25 (−0.37 to +0.68)", "+0.0002 $"],
      ["shed", "trial", "– of 0", "– of 0", "–", "–"],
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

for (const scheme of ["light", "dark"]) {
  const hash = "#/agents/7/skills/cellar";
  pageTest(`a skill shows its trial: arms, curve, examples, ${scheme}`, { scheme, hash }, async (page) => {
    const card = page.getByRole("region", { name: "What it brings" });
    await card.getByText("+1.00 (+0.50 to +1.00)").waitFor();
    const arms = card.getByRole("table", { name: "Both arms of the trial" });
    const cells = async (name) => (await arms.getByRole("row", { name }).innerText()).split(/\s*\t\s*/).slice(1);
    assert.deepEqual(await cells("With it"), ["7", "7", "1.00", "0.65 to 1.00", "0.0", "2.0", "0.0003 $"]);
    assert.deepEqual((await cells("Without")).slice(0, 3), ["7", "7", "0.00"]);
    const curve = card.getByRole("img", { name: "Mean outcome over the tasks of its trial" });
    await curve.waitFor();
    assert.equal(await curve.locator("path.line").count(), 2, "a line for each arm");
    await card.getByRole("paragraph").filter({ hasText: "After 14 tasks: 1.00 with it, 0.00 without." }).waitFor();
    await card.getByText("The numbers as a table").click();
    const numbers = card.getByRole("table", { name: "Mean outcome over the tasks of its trial" });
    await numbers.locator("tbody tr").first().waitFor();
    assert.equal(await numbers.locator("tbody tr").count(), 14);
    await card.getByText("1 worked example").waitFor();
    await card.getByText("Where is the lamp?").waitFor();
    assert.equal(await card.getByRole("button").count(), 0, "its trial is over");
    await page.getByText("7 good").waitFor();
    if (SHOTS) await page.screenshot({ path: join(SHOTS, `learned-skill-${scheme}.png`), fullPage: true });
  });
}

const ALL_SKILLS = "#/agents/7/skills?state=all";
pageTest("calls that went well are not called success, and outcomes stand beside them", { hash: ALL_SKILLS }, async (page) => {
  const list = page.getByRole("table", { name: "Skills" });
  await list.locator("tbody tr").first().waitFor();
  assert.deepEqual(await list.locator("thead th").allInnerTexts(), [
    "Skill",
    "State",
    "Uses",
    "Last use",
    "Outcomes of tasks",
    "Calls that went well",
    "Created by",
  ]);
  const outcomes = (name) => list.getByRole("row", { name }).locator("td").nth(3).innerText();
  const said = await Promise.all(["attic", "cellar", "garage", "shed"].map(outcomes));
  assert.deepEqual(said, ["6 bad", "7 good", "3 scored", "–"]);
});

pageTest("who may not operate ends no trial", {}, async (page) => {
  await rewrite(page, "/v1/key", (key) => ({ ...key, keyless: false, operations: ["read"] }));
  await go(page, LEARNING);
  assert.equal((await rows(page)).length, 4);
  assert.equal(await page.locator("tbody").getByRole("button").count(), 0);
  await go(page, "#/agents/7/skills/garage");
  await page.getByRole("region", { name: "What it brings" }).getByText("+0.25").waitFor();
  assert.equal(await page.getByRole("button", { name: "Keep garage" }).count(), 0);
});

// From here on the brain is changed.

pageTest("a trial is ended on the learning tab, after a question", { hash: LEARNING }, async (page) => {
  await page.getByRole("button", { name: "Keep garage" }).click();
  await page.getByRole("dialog").getByText("Keep garage?").waitFor();
  if (SHOTS) await page.screenshot({ path: join(SHOTS, "learned-keep.png"), fullPage: true });
  await page.keyboard.press("Escape");
  assert.equal((await rows(page))[2][1], "trial", "escape is no");
  await page.getByRole("button", { name: "Keep garage" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Keep" }).click();
  await page.locator(".box.good").getByText("garage is kept: every task that it fits sees it.").waitFor();
  await page.getByText("1 on trial, 2 proven, 1 harmful").waitFor();
  assert.equal((await rows(page))[2][1], "proven");
  assert.equal(await page.getByRole("button", { name: "Keep garage" }).count(), 0);
});

pageTest("a skill on trial is archived on its own page", { hash: "#/agents/7/skills/shed" }, async (page) => {
  await page.getByRole("button", { name: "Archive shed" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Archive" }).click();
  await page.locator(".box.good").getByText("shed is archived.").waitFor();
  const card = page.getByRole("region", { name: "What it brings" });
  await card.getByText("harmful").waitFor();
  await card.getByText("archived by a person").waitFor();
  assert.equal(await card.getByRole("button", { name: "Archive shed" }).count(), 0);
});
