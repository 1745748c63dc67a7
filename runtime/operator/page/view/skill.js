// One skill: what it says, how it does, and how it came to be.

import { at, get } from "../api.js";
import { badge, button, empty, facts, h, loading, replace, title } from "../dom.js";
import { diffView } from "../diff.js";
import { readingView } from "../reading.js";
import { show } from "../trouble.js";
import { count, grouped, hash, time } from "../words.js";
import { outcomes, rate, standing } from "./skills.js";
import { ends, operates, trialView } from "./trial.js";

export async function skillView({ place, signal, agent, item: slug, frame }) {
  const head = title(slug);
  const content = h("div", {}, loading("the skill"));
  place.append(h("p", { class: "crumbs" }, h("a", { href: `${frame.home}/skills` }, "All skills")), head, content);
  let skill;
  try {
    skill = await get(at`agents/${agent}/skills/${slug}`, {}, signal);
  } catch (error) {
    replace(content);
    throw error;
  }
  if (signal.aborted) return;
  const { frontMatter = [] } = skill.reading ?? {};
  const trial = h("div", {});
  replace(
    content,
    frontMatter.some(({ name }) => name === "description") ? null : h("p", { class: "lead" }, skill.description),
    h(
      "div",
      { class: "columns" },
      h("div", {}, text(skill.text ?? "", skill.reading ?? {})),
      h("aside", { class: "side", "aria-label": "About this skill" }, figures(skill), files(skill)),
    ),
    trial,
    versions(skill, agent, signal),
  );
  // Of what a person or a seed wrote nothing was learned.
  if (skill.trial || skill.createdBy === "agent") await learned(trial, slug, agent, signal, frame);
}

/** Fills `place` with what is known of the skill's trial. */
async function learned(place, slug, agent, signal, frame) {
  const said = h("div", {});
  async function read() {
    try {
      const [skill, operator] = await Promise.all([get(at`agents/${agent}/learning/${slug}`, {}, signal), operates(signal)]);
      if (signal.aborted) return;
      replace(place, said, trialView(skill, operator ? ends(skill, { agent, signal, said, after }) : null));
    } catch (error) {
      show(place, error, { signal, again: read });
    }
  }
  function after() {
    frame.refresh();
    return read();
  }
  await read();
}

function figures(skill) {
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Figures"),
    facts([
      ["State", standing(skill)],
      ["Created by", skill.createdBy],
      ["Created", skill.createdBy === "seed" ? "with the brain" : time(skill.createdAt)],
      ["Category", skill.category],
      ["Uses", grouped(skill.uses)],
      ["Views", grouped(skill.views)],
      ["Patches", grouped(skill.patches)],
      ["Last use", time(skill.lastUsedAt)],
      ["Outcomes of tasks", outcomes(skill)],
      ["Calls that went well", rate(skill)],
      [
        "Calls",
        typeof skill.events === "number" ? `${grouped(skill.events)}, ${count(skill.errors ?? 0, "error")} (30 days)` : null,
      ],
      ["File", h("code", {}, skill.path)],
      ["Digest", hash(skill.digest, "digest of the main file")],
    ]),
  );
}

/** The text, rendered or as it is; the source is never more than a press away. */
function text(source, reading) {
  const { frontMatter = [], blocks = [] } = reading;
  const rendered = h(
    "div",
    {},
    frontMatter.length
      ? h(
          "table",
          { class: "front" },
          h("caption", { class: "hidden" }, "Front matter"),
          h(
            "tbody",
            {},
            frontMatter.map(({ name, value }) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))),
          ),
        )
      : null,
    blocks.length ? readingView(reading) : empty("This skill has no body.", null),
  );
  const raw = h("pre", { class: "plain", tabindex: "0", hidden: true }, source);
  const toggle = button(
    "Source",
    () => {
      raw.hidden = !raw.hidden;
      rendered.hidden = !raw.hidden;
      toggle.setAttribute("aria-pressed", String(!raw.hidden));
    },
    { "aria-pressed": "false", class: "small" },
  );
  return h(
    "section",
    { class: "card text", "aria-label": "Text of the skill" },
    h("div", { class: "row end" }, toggle),
    rendered,
    raw,
  );
}

function files({ files: list = [] }) {
  if (!list.length) return null;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Files"),
    h(
      "ul",
      { class: "files" },
      list.map(({ path, bytes }) =>
        h("li", {}, h("code", {}, path), h("span", { class: "dim small" }, ` ${count(bytes, "byte")}`)),
      ),
    ),
  );
}

function versions(skill, agent, signal) {
  const list = skill.versions ?? [];
  // A version without a digest is one in which the file left its place; it has no text to compare with.
  const before = (index) => list.slice(index + 1).find((each) => each.digest) ?? null;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Versions"),
    list.length
      ? h(
          "ol",
          { class: "versions", reversed: true },
          list.map((version, index) => versionView(version, before(index), skill, agent, signal)),
        )
      : empty("No history is kept of this skill.", null),
  );
}

function versionView(version, before, skill, agent, signal) {
  const head = h(
    "div",
    { class: "line" },
    h("strong", { class: "version" }, `v${version.version}`),
    badge(version.what ?? version.kind, `fate-${version.what}`),
    time(version.at),
    h("span", { class: "dim small" }, `${version.kind}, step ${version.step}`),
    version.digest ? hash(version.digest, "digest") : null,
  );
  if (!version.digest)
    return h(
      "li",
      {},
      head,
      h("p", { class: "dim small" }, "The file left its place: the skill was archived, moved or removed."),
    );
  const inside = h("div", {});
  let asked = false;
  const read = async () => {
    replace(inside, loading("the difference"));
    try {
      // Version 0 had no text: what differs from it is the whole first one.
      const { diff: difference } = await get(
        at`agents/${agent}/skills/${skill.slug}/versions/${version.version}`,
        { from: before?.version ?? 0 },
        signal,
      );
      replace(
        inside,
        difference
          ? diffView(difference, `${skill.slug}, version ${version.version}`)
          : h("p", { class: "dim small" }, "The main file has the same text: the skill moved, or came back."),
      );
    } catch (error) {
      replace(inside);
      show(inside, error, { signal, again: read });
    }
  };
  return h(
    "li",
    {},
    head,
    h(
      "details",
      {
        on: {
          toggle(event) {
            if (event.target.open && !asked) {
              asked = true;
              read();
            }
          },
        },
      },
      h("summary", {}, before ? `Difference from v${before.version}` : "The first text"),
      inside,
    ),
  );
}
