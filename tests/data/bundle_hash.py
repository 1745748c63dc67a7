#!/usr/bin/env python3
"""Computes the bundle hash of a brain from the rules in docs/reference/bundle.md and nothing else.

usage: bundle_hash.py BRAIN             prints every part and the root; exit 0 if they equal the lock, else 1
       bundle_hash.py --vectors FILE    checks the test vectors of a file; exit 0 if all hold, else 1

Needs the package `blake3`. Nobody may write to the brain meanwhile.
"""

import json
import sqlite3
import sys
import tempfile
from pathlib import Path

from blake3 import blake3

TOP_FILES = {
    "system.md": "system",
    "manifest.json": "system",
    "tuning.json": "system",
    "MEMORY.md": "layer1",
    "USER.md": "layer1",
}
FOLDERS = {"tools": "system", "users": "layer1", "skills": "skills", "patterns": "patterns"}
ROW_PARTS = {"usage": ["skill_usage"], "memory": ["facts", "messages", "subscribers", "task_log"]}
COLUMNS = {
    "skill_usage": "id, slug, created_by, created_at, state, pinned, use_count, view_count, patch_count,"
    " last_used_at, last_viewed_at, last_patched_at, archived_at",
    "facts": "id, scope, key, value, task, at",
    "messages": "id, task, scope, role, content, at",
    "subscribers": "id, digest",
    "task_log": "id, task, scope, outcome, summary, at",
}


def node(kind, *pieces):
    """A digest under the context of its kind."""
    return blake3(b"".join(pieces), derive_key_context=f"herm bundle v1 {kind}").digest()


def number(value):
    return value.to_bytes(8, "little", signed=True)


def text(value):
    """A text with its length in bytes in front."""
    raw = value.encode() if isinstance(value, str) else value
    return number(len(raw)) + raw


def cell(value):
    if value is None:
        return b"\x00"
    return b"\x01" + number(value) if isinstance(value, int) else b"\x02" + text(value)


def part_of(path):
    """The part a file belongs to, or None."""
    first, *rest = path.split("/")
    if path == "skills/.usage.json" or path.startswith("skills/.usage.json/") or (first == "skills" and {".git", ".github", ".hub"} & set(rest)):
        return None
    return (FOLDERS if rest else TOP_FILES).get(first)


def bundle(files, rows):
    """Every digest of a bundle: `files` maps paths to bytes, `rows` tables to rows, the id first."""
    out = {kind: {} for kind in ["content", "leaves", "buckets", "chunks", "groups", "tables", "parts"]}
    for part in ["system", "layer1", "skills", "patterns"]:
        buckets = {}
        for path in sorted((path for path in files if part_of(path) == part), key=str.encode):
            out["content"][path] = blake3(files[path]).digest()
            out["leaves"][path] = node("file", text(path), out["content"][path])
            buckets.setdefault(blake3(path.encode()).digest()[0], []).append(out["leaves"][path])
        buckets = {n: node("bucket", *leaves) for n, leaves in sorted(buckets.items())}
        out["buckets"].update({f"{part}/{n:02x}": digest for n, digest in buckets.items()})
        out["parts"][part] = node("part", text(part), *(bytes([n]) + digest for n, digest in buckets.items()))
    for part, tables in ROW_PARTS.items():
        for table in tables:
            chunks, groups = {}, {}
            for row in sorted(rows.get(table, []), key=lambda row: row[0]):
                chunks.setdefault(row[0] // 256, []).extend(map(cell, row))
            for n, cells in chunks.items():
                digest = out["chunks"][f"{table}/{n}"] = node("chunk", text(table), number(n), *cells)
                groups.setdefault(n // 256, []).append(number(n) + digest)
            groups = {n: node("group", text(table), number(n), *below) for n, below in groups.items()}
            out["groups"].update({f"{table}/{n}": digest for n, digest in groups.items()})
            out["tables"][table] = node("table", text(table), *(number(n) + digest for n, digest in groups.items()))
        out["parts"][part] = node("tables", text(part), *(text(table) + out["tables"][table] for table in tables))
    root = node("root", *(text(part) + digest for part, digest in out["parts"].items()))
    return {"root": root.hex(), **{kind: {key: d.hex() for key, d in found.items()} for kind, found in out.items()}}


def read_brain(brain):
    """The files and the rows of a brain on disk; the database is read from a copy."""
    files = {place.relative_to(brain).as_posix(): place for place in Path(brain).rglob("*") if place.is_file()}
    with tempfile.TemporaryDirectory() as copy:
        for place in Path(brain).glob("memory.db*"):
            Path(copy, place.name).write_bytes(place.read_bytes())
        database = sqlite3.connect(Path(copy, "memory.db"))
        database.text_factory = bytes
        rows = {table: list(database.execute(f"SELECT {names} FROM {table}")) for table, names in COLUMNS.items()}
        database.close()
    return {path: place.read_bytes() for path, place in files.items() if part_of(path)}, rows


def main(arguments):
    if arguments[0] == "--vectors":
        pairs = []
        for case in json.loads(Path(arguments[1]).read_text(encoding="utf-8")):
            files = {path: content.encode() for path, content in case["files"].items()}
            pairs.append((case["name"], bundle(files, case["rows"]), case["expect"]))
    else:
        lock = json.loads(Path(arguments[0], "bundle.lock.json").read_text(encoding="utf-8"))
        found = bundle(*read_brain(arguments[0]))
        pairs = [(part, digest, lock["parts"][part]) for part, digest in found["parts"].items()]
        pairs.append(("root", found["root"], lock["bundleHash"]))
    for name, found, expected in pairs:
        print(found if isinstance(found, str) else found["root"], name, "ok" if found == expected else "DIFFERS")
    return 0 if all(found == expected for _, found, expected in pairs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
