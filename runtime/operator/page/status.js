// The strip at the top: who the server is, how busy it is, and what this tab may do.

import { get, key } from "./api.js";
import { badge, button, h, replace } from "./dom.js";
import { count, seconds } from "./words.js";

const EVERY = 10_000;

/** Fills `place` now and again; `forgotten` is called when the reader gave the key back. */
export function statusStrip(place, forgotten) {
  let timer = 0;

  async function refresh() {
    clearTimeout(timer);
    try {
      const who = await get("key");
      // Asked only by those who may: a key that cannot operate would get a refusal every ten seconds.
      const operates = who.keyless || who.operations?.includes("operate");
      draw(who, operates ? await get("operator/status") : null);
    } catch (error) {
      replace(
        place,
        error.status === 401
          ? badge("no key yet", "warn")
          : badge(error.status ? error.detail : "the server does not answer", "bad"),
      );
    }
    timer = setTimeout(() => (document.hidden ? again() : refresh()), EVERY);
  }

  // A tab that nobody looks at asks nothing.
  function again() {
    document.addEventListener("visibilitychange", refresh, { once: true });
  }

  function draw(who, status) {
    replace(
      place,
      status
        ? [
            h("span", { title: `up for ${seconds(status.uptimeSecs ?? 0)}` }, `v${status.version}`),
            h("span", {}, count(status.brains, "brain")),
            h("span", { class: status.queue?.running ? "lively" : null }, `${status.queue?.running ?? 0} running`),
            h("span", {}, `${status.queue?.waiting ?? 0} waiting`),
            status.snapshots?.failed ? badge(`${count(status.snapshots.failed, "snapshot")} failed`, "bad") : null,
          ]
        : null,
      who.keyless ? badge("no key configured: loopback only", "warn") : h("span", {}, `key ${who.name ?? ""}`),
      key.get()
        ? button(
            "Forget key",
            () => {
              key.forget();
              forgotten();
            },
            { class: "small" },
          )
        : null,
    );
  }

  return { refresh };
}
