// That everyone can use the page: by keyboard, by name, on a small screen, in the dark, with very many skills.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { answer, api, go, open, pageTest, WORD } from "./harness.mjs";

const SHOTS = process.env.HERM_PAGE_SHOTS || null;
const HEAVIEST = 300 * 1024;

/** Every view, with what makes it worth looking at. */
async function views() {
  const { skills } = await api("agents/1/skills?limit=1&sort=uses");
  const { last } = await api("agents/1/receipts?limit=1");
  const { tasks } = await api("tasks?agent=1&limit=1");
  const verify = async (page) => {
    await page.getByRole("button", { name: "Verify in this browser" }).click();
    await page.locator(".verdict").waitFor();
  };
  return [
    ["agents", "#/agents", (page) => page.locator("tbody tr").first().waitFor()],
    [
      "timeline",
      "#/agents/1",
      async (page) => {
        await page.locator(".step summary").filter({ hasText: "Difference" }).first().click();
        await page.locator(".differences .file, .differences .empty").first().waitFor();
      },
    ],
    ["skills", "#/agents/1/skills", (page) => page.locator("tbody tr").first().waitFor()],
    [
      "skill",
      `#/agents/1/skills/${skills[0].slug}`,
      async (page) => {
        await page.locator(".versions summary").first().click();
        await page.locator(".versions .diff, .versions p.dim").first().waitFor();
      },
    ],
    ["memory", `#/agents/1/memory?q=${WORD}`, (page) => page.locator(".hits li").first().waitFor()],
    [
      "receipts",
      "#/agents/1/receipts",
      async (page) => {
        await page.getByText("Verify the chain").click();
        await verify(page);
      },
    ],
    ["receipt", `#/agents/1/receipts/${last}`, verify],
    ["proposals", "#/agents/1/proposals", (page) => page.locator(".empty, .proposal").first().waitFor()],
    ["live", `#/agents/1/live/${tasks[0].task}`, (page) => page.getByRole("heading", { name: "Answer" }).waitFor()],
  ];
}

pageTest("by keyboard alone: to the skills, and into one", { hash: "#/agents" }, async (page) => {
  const reach = async (what, most = 80) => {
    for (let press = 0; press < most; press += 1) {
      await page.keyboard.press("Tab");
      if (await page.evaluate((selector) => document.activeElement.matches(selector), what)) return;
    }
    assert.fail(`Tab does not reach ${what}`);
  };
  await page.locator('a[href="#/agents/1"]').waitFor();
  await page.keyboard.press("Tab");
  assert.equal(
    await page.evaluate(() => document.activeElement.textContent),
    "Skip to content",
    "the first stop is the skip link",
  );
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await reach('a[href="#/agents/1"]');
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.matches("h1"), null, { timeout: 5_000 });
  await page.locator(".tabs").waitFor();
  for (
    let press = 0;
    press < 40 && !(await page.evaluate(() => document.activeElement.matches('.tabs a[href$="/skills"]')));
    press += 1
  )
    await page.keyboard.press("Shift+Tab");
  assert.notEqual(
    await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle),
    "none",
    "the focus is visible",
  );
  await page.keyboard.press("Enter");
  await page.locator("tbody tr").first().waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skills", "the focus is at the heading");
  assert.equal(await page.locator('.tabs a[aria-current="page"]').textContent(), "Skills");
  await reach("tbody th a");
  const slug = await page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: slug }).waitFor();
});

const CONTROLS = new Set([
  "button",
  "link",
  "textbox",
  "searchbox",
  "combobox",
  "checkbox",
  "spinbutton",
  "radio",
  "DisclosureTriangle",
  "menuitem",
  "tab",
  "switch",
  "slider",
]);

pageTest("every control has a name, and every view one heading of the first rank", {}, async (page) => {
  const session = await page.context().newCDPSession(page);
  for (const [name, hash, ready] of await views()) {
    await go(page, hash);
    await ready(page);
    const { nodes } = await session.send("Accessibility.getFullAXTree");
    const controls = nodes.filter((node) => !node.ignored && CONTROLS.has(node.role?.value));
    assert.ok(controls.length > 3, `${name} has controls`);
    assert.deepEqual(
      controls.filter((node) => !node.name?.value?.trim()).map((node) => node.role.value),
      [],
      `${name}: all have names`,
    );
    assert.equal(await page.locator("h1").count(), 1, name);
    assert.deepEqual(
      await page.evaluate(() =>
        [...document.querySelectorAll("[id]")].map((each) => each.id).filter((id, index, all) => all.indexOf(id) !== index),
      ),
      [],
      `${name}: ids are unique`,
    );
    assert.equal(
      await page.locator("thead th:not([scope]), tbody th:not([scope])").count(),
      0,
      `${name}: heads of tables have a scope`,
    );
  }
});

pageTest("the whole page weighs little and comes from one place", {}, async (page, t, seen) => {
  for (const [, hash, ready] of await views()) {
    await go(page, hash);
    await ready(page);
  }
  await Promise.all(seen.reading);
  const total = [...seen.weight.values()].reduce((sum, bytes) => sum + bytes, 0);
  t.diagnostic(`${seen.weight.size} files, ${total} bytes`);
  assert.ok(seen.weight.size > 5 && total > 0);
  assert.ok(total <= HEAVIEST, `${total} bytes are more than ${HEAVIEST}`);
});

pageTest("5,000 skills: the first hundred at once, the others on request", { hash: "#/agents/1/memory" }, async (page, t) => {
  const all = Array.from({ length: 5_000 }, (_, index) => ({
    slug: `skill-${String(index).padStart(4, "0")}`,
    name: `skill-${index}`,
    description: "A skill among many others, with a description of the usual length that says when to use it and what for.",
    category: null,
    state: index % 7 ? "active" : "stale",
    pinned: false,
    createdBy: "agent",
    createdAt: "2026-11-01T00:00:00Z",
    uses: index % 90,
    views: 1,
    patches: 0,
    lastUsedAt: "2026-11-16T00:00:00Z",
    events: 50,
    errors: index % 5,
    successRate: 1 - (index % 5) / 50,
  }));
  await answer(page, "/v1/agents/1/skills", (request) => {
    const asked = new URL(request.url()).searchParams;
    const [from, limit] = [Number(asked.get("cursor") ?? 0), Number(asked.get("limit") ?? 100)];
    const found = all.filter((skill) => skill.slug.includes(asked.get("q") ?? ""));
    return {
      json: {
        skills: found.slice(from, from + limit),
        next: from + limit < found.length ? String(from + limit) : null,
        total: found.length,
      },
    };
  });
  const painted = () =>
    page.evaluate(
      () =>
        new Promise((resolve) => {
          const look = () =>
            document.querySelectorAll("tbody tr").length >= 100
              ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now())))
              : requestAnimationFrame(look);
          look();
        }),
    );
  const start = await page.evaluate(() => {
    location.hash = "#/agents/1/skills";
    return performance.now();
  });
  t.diagnostic(`from another tab to 100 painted rows of 5,000: ${Math.round((await painted()) - start)} ms`);
  await page.reload();
  t.diagnostic(`from an empty page to 100 painted rows of 5,000: ${Math.round(await painted())} ms`);
  assert.equal(await page.locator("tbody tr").count(), 100);
  await page.getByText("100 of 5,000 skills").waitFor();
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByText("200 of 5,000 skills").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Show more", "the focus stays where it was");
  await page.getByLabel("Filter").fill("skill-4321");
  await page.getByText("1 of 1 skill").waitFor();
});

for (const width of [360, 768]) {
  pageTest(`at ${width} pixels nothing is cut off`, { width }, async (page) => {
    for (const [name, hash, ready] of await views()) {
      await go(page, hash);
      await ready(page);
      assert.ok(
        await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
        `${name} does not scroll sideways`,
      );
    }
  });
}

for (const scheme of ["light", "dark"]) {
  test(`every view in ${scheme}`, async () => {
    const { page, seen } = await open({ scheme });
    if (SHOTS) mkdirSync(SHOTS, { recursive: true });
    for (const [name, hash, ready] of await views()) {
      await go(page, hash);
      await ready(page);
      const [paper, ink] = await page.evaluate(() =>
        ["backgroundColor", "color"].map((what) =>
          getComputedStyle(document.body)
            [what].match(/\d+/g)
            .slice(0, 3)
            .reduce((sum, part) => sum + Number(part), 0),
        ),
      );
      assert.equal(paper > ink, scheme === "light", `${name} is ${scheme}`);
      if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}-${scheme}.png`), fullPage: true });
    }
    assert.deepEqual(seen.errors, []);
    await page.context().close();
  });
}
