// Reading text/event-stream by hand. Only what herm sends: `event`, `id`, `data`, comments, any line end.

export class EventReader {
  #rest = "";
  #name = "";
  #id = "";
  #data = [];
  #tell;

  /** `tell({ name, id, data })` is called for each event. */
  constructor(tell) {
    this.#tell = tell;
  }

  feed(text) {
    this.#rest += text;
    // A \r at the very end may be the first half of \r\n: it waits for the next chunk.
    const lines = this.#rest.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line);
  }

  #line(line) {
    if (line === "") return this.#dispatch();
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#name = value;
    else if (name === "id") this.#id = value;
    else if (name === "data") this.#data.push(value);
  }

  #dispatch() {
    const [name, data] = [this.#name, this.#data.join("\n")];
    this.#name = "";
    this.#data = [];
    if (data === "") return;
    let parsed;
    try {
      parsed = JSON.parse(data);
    } catch {
      parsed = { text: data };
    }
    this.#tell({ name: name || parsed.event || "message", id: this.#id, data: parsed });
  }
}
