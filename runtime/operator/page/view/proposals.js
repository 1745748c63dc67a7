// What the evolver would like to change, for a person to decide.

import { at, get, post } from "../api.js";
import { ask } from "../confirm.js";
import { announce, badge, button, empty, field, h, loading, replace, select, title } from "../dom.js";
import { diffView } from "../diff.js";
import { commandsView } from "../reading.js";
import { show, trouble } from "../trouble.js";
import { count, shorten, time } from "../words.js";
import { words } from "./brain.js";

const STATUSES = [
  ["pending", "pending"],
  ["accepted", "accepted"],
  ["rejected", "rejected"],
  ["all", "all"],
];
const ACCEPTING = {
  change: "The skill is changed in one step with its own receipt. It can be taken back.",
  rollback: "The change is taken back in one step with its own receipt.",
};

export async function proposalsView({ place, signal, agent, query, keep, frame }) {
  let status = query.get("status") ?? "pending";
  const found = h("div", {});
  const said = h("div", {});

  async function read() {
    replace(found, loading("the proposals"));
    try {
      const { proposals = [] } = await get(at`agents/${agent}/proposals`, { status }, signal);
      if (!signal.aborted)
        replace(found, proposals.length ? proposals.map((proposal) => card(proposal, frame, decide)) : none(status));
    } catch (error) {
      replace(found);
      show(found, error, { signal, again: read });
    }
  }

  async function decide(proposal, verb) {
    const accepting = verb === "accept";
    const yes = await ask({
      question: accepting ? `Accept this ${proposal.kind}?` : `Reject this ${proposal.kind}?`,
      text: accepting
        ? (ACCEPTING[proposal.kind] ?? "It is noted that a person will do it. Nothing of the brain is changed.")
        : "Nothing is changed, and it is not proposed again.",
      yes: accepting ? "Accept" : "Reject",
      tone: accepting ? "primary" : "danger",
    });
    if (!yes) return;
    try {
      const answer = await post(at`agents/${agent}/proposals/${proposal.id}/${verb}`, {}, signal);
      const done = decided(answer);
      replace(said, h("p", { class: answer.done === false ? "box warn" : "box good" }, done));
      announce(done);
      frame.refresh();
      await read();
    } catch (error) {
      if (!signal.aborted) replace(said, trouble(error));
    }
  }

  place.append(
    h(
      "div",
      { class: "head" },
      title("Proposals"),
      h(
        "div",
        { class: "tools" },
        field(
          "Status",
          select(STATUSES, status, (value) => {
            status = value;
            keep({ status: value === "pending" ? "" : value });
            read();
          }),
        ),
      ),
    ),
    said,
    found,
  );
  await read();
}

/** What became of a proposal. Why something could not be done stands in what was done. */
function decided({ status, done, settled }) {
  const told =
    settled && typeof settled === "object" && !settled.reason
      ? (Object.values(settled).find((each) => each?.reason) ?? settled)
      : settled;
  const version = told?.settled?.version ?? told?.version;
  return [
    done === false ? "It could not be done, and stays as it was." : `The proposal is ${status}.`,
    told?.reason ? `${told.reason}${told.detail ? `: ${told.detail}` : ""}.` : null,
    version ? `The brain is at version ${version}.` : null,
  ]
    .filter(Boolean)
    .join(" ");
}

function none(status) {
  return status === "pending"
    ? empty(
        "Nothing waits for you.",
        "The evolver proposes notes for skills that are used, once there is enough evidence of how their tasks went.",
      )
    : empty(status === "all" ? "Nothing was ever proposed." : `Nothing was ${status}.`, null);
}

function card(proposal, frame, decide) {
  const name = `${proposal.kind}${proposal.skill ? ` of ${proposal.skill}` : ""}`;
  return h(
    "article",
    { class: "card proposal", "aria-label": name },
    h(
      "div",
      { class: "line" },
      h(
        "h2",
        {},
        badge(proposal.kind),
        " ",
        proposal.skill
          ? h("a", { href: `${frame.home}/skills/${encodeURIComponent(proposal.skill)}` }, proposal.skill)
          : "no skill",
      ),
      proposal.status === "pending" ? null : badge(proposal.status),
      time(proposal.createdAt),
      h("code", { class: "dim small", title: proposal.id }, shorten(proposal.id)),
    ),
    proposal.title ? h("p", {}, h("strong", {}, proposal.title)) : null,
    proposal.why ? h("p", {}, proposal.why) : null,
    proposal.stands === false
      ? h("p", { class: "box warn" }, "The skill was changed since this was thought of: accepting it will be refused.")
      : null,
    evidence(proposal.evidence ?? []),
    commandsView(proposal.commands),
    proposal.diff
      ? diffView(proposal.diff, name)
      : h("p", { class: "dim small" }, "There is no text to compare: accepting it changes no file by itself."),
    proposal.status === "pending" || !proposal.status
      ? h(
          "div",
          { class: "row" },
          button("Accept", () => decide(proposal, "accept"), { class: "primary", "aria-label": `Accept ${name}` }),
          button("Reject", () => decide(proposal, "reject"), { "aria-label": `Reject ${name}` }),
        )
      : null,
  );
}

function evidence(list) {
  if (!list.length) return null;
  return h(
    "details",
    { open: list.length <= 5 },
    h("summary", {}, `Rests on ${count(list.length, "piece")} of evidence`),
    h(
      "ul",
      { class: "evidence" },
      list.map((each) => h("li", {}, words(each))),
    ),
  );
}
