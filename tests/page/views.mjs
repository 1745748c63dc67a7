// What each view shows of a brain that has worked.

import assert from "node:assert/strict";
import { answer, api, go, pageTest, WORD } from "./harness.mjs";

const CONTRACT = `// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;
// ${WORD}: a jar that pays before it counts.
contract Jar {
    mapping(address => uint256) public owed;
    function fill() external payable { owed[msg.sender] += msg.value; }
    function empty() external {
        (bool ok, ) = msg.sender.call{value: owed[msg.sender]}("");
        require(ok);
        owed[msg.sender] = 0;
    }
    function close() external { require(tx.origin == address(this)); selfdestruct(payable(msg.sender)); }
}`;

pageTest("a task runs live: turns with their calls, and the answer", { hash: "#/agents/1/live" }, async (page) => {
  await page.getByLabel("Task", { exact: true }).fill(CONTRACT);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page
    .locator(".state")
    .filter({ hasText: /^Done: / })
    .waitFor({ timeout: 90_000 });
  assert.ok((await page.locator(".turns .turn").count()) >= 1, "there are turns");
  assert.ok((await page.locator(".turns .tool").count()) >= 1, "with calls of tools");
  assert.equal(await page.getByText("running…").count(), 0, "every call has its result");
  assert.equal(await page.getByRole("heading", { name: "Answer" }).count(), 1);
  assert.ok((await page.locator(".task pre.json, .task pre.plain").last().textContent()).length > 2, "the answer is there");
  assert.match(page.url(), /#\/agents\/1\/live\/.+/, "the task has an address");
  assert.equal(await page.getByRole("button", { name: "Cancel" }).count(), 0, "nothing is left to cancel");
  assert.ok(
    (await page.getByRole("table", { name: "Recent tasks" }).getByRole("row").count()) >= 2,
    "and it is among the recent ones",
  );
});

pageTest("a finished task is called good, then bad, and says by whom", {}, async (page) => {
  const { tasks } = await api("tasks?agent=1&limit=1");
  const { task } = tasks[0];
  await go(page, `#/agents/1/live/${task}`);
  const feedback = page.locator(".feedback");
  await feedback.getByRole("button", { name: "Good" }).click();
  await feedback.locator('button[aria-pressed="true"]').filter({ hasText: "Good" }).waitFor();
  await feedback.getByLabel("Why (optional)").fill("<b>it misses</b> the second flaw");
  await feedback.getByRole("button", { name: "Bad" }).click();
  await feedback.locator('button[aria-pressed="true"]').filter({ hasText: "Bad" }).waitFor();
  const said = feedback.getByRole("listitem").filter({ hasText: "says the operator" });
  assert.match(await said.textContent(), /^bad says the operator: <b>it misses<\/b> the second flaw, /);
  const now = await api(`tasks/${task}`);
  assert.equal(now.value, "bad");
  assert.equal(now.outcome.outcome.sources[0].source, "label");
});

pageTest("a task is cancelled, and followed over a broken connection", { hash: "#/agents/1/live" }, async (page) => {
  const events = 'id: 1\nevent: started\ndata: {"event":"started","task":"t-1","brain":"1","version":1,"backend":"reflex"}\n\n';
  let cancelled = false;
  // The connection breaks right after the start: the page goes on behind what it has heard.
  await answer(page, "/v1/agents/1/tasks", () => ({ contentType: "text/event-stream", body: events }));
  await answer(page, "/v1/tasks/t-1", (request) => {
    if (request.method() === "DELETE") cancelled = true;
    return {
      status: request.method() === "DELETE" ? 202 : 200,
      json: { task: "t-1", agent: "1", state: cancelled ? "cancelled" : "running" },
    };
  });
  const asked = [];
  await answer(page, "/v1/tasks/t-1/events", (request) => {
    asked.push(request.headers()["last-event-id"]);
    return { contentType: "text/event-stream", body: ": still here\n\n" };
  });
  await page.getByLabel("Task", { exact: true }).fill("wait");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".state").filter({ hasText: "Cancelled." }).waitFor({ timeout: 30_000 });
  assert.ok(cancelled, "the server was told");
  assert.ok(asked.length >= 1 && asked.every((id) => id === "1"), "each try went on behind the last event");
});

pageTest("the list of agents shows agent 1 and can be searched", { hash: "#/agents" }, async (page) => {
  const table = page.getByRole("table", { name: "Agents" });
  const link = table.locator('a[href="#/agents/1"]');
  await link.waitFor();
  await page.getByLabel("Search agents").fill("nothing is called like this");
  await page.getByText("No agent matches").waitFor();
  await page.getByLabel("Search agents").fill("");
  await link.click();
  await page.getByRole("heading", { level: 1, name: "Timeline" }).waitFor();
  assert.match(page.url(), /#\/agents\/1$/);
});

pageTest("the strip says who the server is", { hash: "#/agents" }, async (page) => {
  const { version, keyless } = await api("operator/status");
  const strip = page.getByRole("group", { name: "Operator status" });
  await strip.getByText(`v${version}`).waitFor();
  assert.match(await strip.textContent(), /\d+ brains?/);
  assert.equal((await strip.textContent()).includes("no key configured: loopback only"), keyless);
});

pageTest("the timeline shows steps, their files and a difference", { hash: "#/agents/1" }, async (page) => {
  const { steps } = await api("agents/1/history?limit=25");
  await page.locator(".step").first().waitFor();
  assert.equal(await page.locator(".step").count(), steps.length);
  assert.equal(await page.locator(".step .version").first().textContent(), `v${steps[0].version}`);
  assert.ok(
    await page
      .locator(".step")
      .first()
      .getByRole("link", { name: `receipt ${steps[0].receipt}` })
      .count(),
    "a step links to its receipt",
  );
  const moved = steps.findIndex((step) => step.files.length > 0 && step.version > 1);
  const step = page.locator(".step").nth(Math.max(0, moved));
  await step.getByText(/^Difference from version/).click();
  if (moved < 0) await step.getByText("No file differs.").waitFor();
  else await step.locator(".file").first().waitFor();
});

pageTest("the charts have names, descriptions and tables", { hash: "#/agents/1" }, async (page) => {
  for (const name of ["Skills over versions", "Error rate over versions", "Calls and errors by day"]) {
    const figure = page.locator("figure").filter({ hasText: name });
    await figure.getByRole("img", { name }).waitFor();
    assert.ok((await figure.locator("svg desc").textContent()).length > 10);
    await figure.getByText("The numbers as a table").click();
    await figure.getByRole("table", { name }).waitFor();
  }
});

pageTest("the error rate of each version is the one of its tool calls", { hash: "#/agents/1" }, async (page) => {
  const { versions } = await api("agents/1/charts");
  const called = versions.filter((version) => version.calls > 0);
  assert.ok(called.length >= 3, "tasks that called tools");
  const figure = page.locator("figure").filter({ hasText: "Error rate over versions" });
  await figure.locator("svg rect").first().waitFor();
  assert.equal(await figure.locator("svg rect").count(), called.length);
  await figure.getByText("The numbers as a table").click();
  const rows = figure.getByRole("table").locator("tbody tr");
  await rows.first().waitFor();
  const shown = await rows.evaluateAll((found) => found.map((row) => [...row.children].map((cell) => cell.textContent)));
  const expected = called.map(({ version, calls, errors }) => [
    String(version),
    String(calls),
    String(errors),
    `${Math.round((1000 * errors) / calls) / 10} %`,
  ]);
  assert.deepEqual(shown, expected);
});

pageTest("many versions share the bars of the error rate", {}, async (page) => {
  const versions = Array.from({ length: 500 }, (_, index) => ({ version: index + 2, calls: 4, errors: index % 4 ? 0 : 1 }));
  await answer(page, "/v1/agents/1/charts", () => ({ json: { points: [], versions, days: [] } }));
  await go(page, "#/agents/1");
  const figure = page.locator("figure").filter({ hasText: "Error rate over versions" });
  await figure.getByRole("paragraph").getByText("2,000 calls of tools from version 2 to 501; 6.3 % of them failed.").waitFor();
  const bars = await figure.locator("svg rect").count();
  assert.ok(bars > 20 && bars <= 60, `${bars} bars`);
  await figure.getByText("The numbers as a table").click();
  await figure.getByRole("table").locator("tbody tr").first().waitFor();
  assert.equal(await figure.getByRole("table").locator("tbody tr").count(), 500);
});

pageTest("the skills are listed, filtered and sorted", { hash: "#/agents/1/skills" }, async (page) => {
  const { skills } = await api("agents/1/skills?limit=100");
  const rows = page.getByRole("table", { name: "Skills" }).locator("tbody tr");
  await rows.first().waitFor();
  assert.equal(await rows.count(), skills.length);
  await page.getByLabel("Filter").fill(skills[0].slug);
  await page.waitForURL(/q=/);
  await page.waitForFunction((most) => document.querySelectorAll("tbody tr").length < most || most === 1, skills.length);
  assert.equal(await rows.first().getByRole("link").textContent(), skills[0].slug);
  await page.getByLabel("Filter").fill("no skill has these words zzzz");
  await page.getByText("No skill fits.").waitFor();
  await page.getByLabel("Filter").fill("");
  await page.getByLabel("Sort by").selectOption("uses");
  await page.locator('th[aria-sort="descending"]').filter({ hasText: "Uses" }).waitFor();
});

pageTest("a skill shows its text, its front matter and its versions", {}, async (page) => {
  const { skills } = await api("agents/1/skills?limit=1&sort=name");
  const { slug } = skills[0];
  const skill = await api(`agents/1/skills/${slug}`);
  await go(page, `#/agents/1/skills/${slug}`);
  await page.getByRole("heading", { level: 1, name: slug }).waitFor();
  await page.locator(".prose").waitFor();
  const heading = /^# (.*)$/m.exec(skill.text)?.[1];
  if (heading) await page.locator(".prose").getByRole("heading", { name: heading }).waitFor();
  assert.ok(await page.getByRole("table", { name: "Front matter" }).getByText("name", { exact: true }).count());
  assert.equal(await page.locator(".versions > li").count(), skill.versions.length);
  await page.locator(".versions summary").first().click();
  await page.locator(".versions .diff, .versions p.dim").first().waitFor();
  await page.getByRole("button", { name: "Source" }).click();
  assert.equal(await page.locator("pre.plain").textContent(), skill.text);
});

pageTest("memory search finds what was asked", { hash: "#/agents/1/memory" }, async (page) => {
  await page.getByLabel("Search the memory").fill(WORD);
  await page.locator(".hits li").first().waitFor();
  assert.match((await page.locator(".hits mark").first().textContent()).toLowerCase(), new RegExp(`^${WORD.slice(0, 6)}`));
  await page.getByLabel("Search the memory").fill("zzyzx qwrtp");
  await page.getByText("Nothing about").waitFor();
});

pageTest("without proposals the page says what would make some", { hash: "#/agents/1/proposals" }, async (page) => {
  await answer(page, "/v1/agents/1/proposals", () => ({ json: { proposals: [] } }));
  await page.reload();
  await page.getByText("Nothing waits for you.").waitFor();
});

pageTest("a proposal is accepted only after a question", {}, async (page) => {
  const proposal = {
    id: "ab".repeat(16),
    kind: "change",
    skill: "reentrancy-check",
    status: "pending",
    why: "scan failed 4 times",
    createdAt: "2026-11-17T05:00:00Z",
    evidence: ["evidence:1"],
    diff: "@@ -1,1 +1,1 @@\n-old line\n+new line",
  };
  let decided = 0;
  await answer(page, "/v1/agents/1/proposals", () => ({ json: { proposals: decided ? [] : [proposal] } }));
  await answer(page, `/v1/agents/1/proposals/${proposal.id}/accept`, () => {
    decided += 1;
    return { json: { id: proposal.id, status: "accepted", done: true, settled: { reason: "applied", settled: { version: 9 } } } };
  });
  await go(page, "#/agents/1/proposals");
  await page.getByText("scan failed 4 times").waitFor();
  await page.getByRole("button", { name: "Accept change of reentrancy-check" }).click();
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(decided, 0, "escape is no");
  await page.getByRole("button", { name: "Accept change of reentrancy-check" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Accept" }).click();
  await page.locator("main .box").getByText("The proposal is accepted. applied. The brain is at version 9.").waitFor();
  assert.equal(decided, 1);
});
