// The inspector on a real server whose brain 5 has 5,000 skills. Says how long the first hundred rows take to be painted;
// what is too long is for the bench to say.
//
//   HERM_PAGE_URL, HERM_PAGE_BROWSER as for page.test.mjs

import assert from "node:assert/strict";
import { api, pageTest } from "./harness.mjs";

const ROWS = 100;

/** Milliseconds from the beginning of the page until its first rows are on the screen. */
function painted(page) {
  return page.evaluate(
    (rows) =>
      new Promise((resolve) => {
        const look = () =>
          document.querySelectorAll("tbody tr").length >= rows
            ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now())))
            : requestAnimationFrame(look);
        look();
      }),
    ROWS,
  );
}

pageTest("5,000 skills of a real brain are painted from an empty page", { hash: "#/agents/5/skills" }, async (page, t, seen) => {
  const { total } = await api("agents/5/skills?limit=1");
  assert.equal(total, 5_000);
  const first = await painted(page);
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    await page.reload();
    times.push(await painted(page));
  }
  times.sort((a, b) => a - b);
  t.diagnostic(`painted: ${Math.round(first)} ms the first time, ${Math.round(times[2])} ms the median of 5`);
  assert.equal(await page.locator("tbody tr").count(), ROWS);
  await page.getByText("100 of 5,000 skills").waitFor();
  await Promise.all(seen.reading);
  const bytes = [...seen.weight.values()].reduce((sum, size) => sum + size, 0);
  t.diagnostic(`weight: ${bytes} bytes`);
  assert.ok(bytes > 0 && bytes <= 300 * 1024, `${bytes} bytes`);
});
