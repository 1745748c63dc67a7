// The front matter of a skill, for looking at. Reading is lenient: what is not understood is shown as it is written.
// The runtime has the real parser; this one decides nothing.

/** Splits a skill's text into [[key, value]…] and its body. */
export function split(text) {
  const clean = text.replace(/^\uFEFF/, "");
  const match = /^\s*---[ \t]*\r?\n([\s\S]*?)\r?\n[ \t]*(?:---|\.\.\.)[ \t]*(?:\r?\n|$)/.exec(clean);
  if (!match) return { entries: [], body: clean };
  return { entries: entries(match[1].split(/\r?\n/)), body: clean.slice(match[0].length) };
}

function entries(lines) {
  const found = [];
  for (const line of lines) {
    const match = /^([A-Za-z_][\w.-]*)\s*:\s*(.*)$/.exec(line);
    if (match) found.push({ key: match[1], value: match[2], below: [] });
    else if (found.length) found.at(-1).below.push(line);
    else if (line.trim()) found.push({ key: "", value: line, below: [] });
  }
  return found.flatMap(({ key, value, below }) => {
    const nested = below.filter((line) => line.trim());
    if (!nested.length) return [[key, unquote(value)]];
    const pairs = nested.map((line) => /^\s+([\w.-]+)\s*:\s+(.+)$/.exec(line));
    if (value === "" && pairs.every(Boolean)) return pairs.map(([, name, inner]) => [`${key}.${name}`, unquote(inner)]);
    const head = /^[>|][+-]?$/.test(value) ? [] : [value];
    return [[key, [...head, ...below.map((line) => line.trim())].join("\n").trim()]];
  });
}

function unquote(value) {
  const match = /^(["'])(.*)\1$/.exec(value.trim());
  return match ? match[2] : value.trim();
}
