"""Reads a plain export by docs/reference/snapshot.md alone, the table of columns included, and checks every digest.

python3 tests/data/read_snapshot.py FILE (needs the packages blake3 and zstandard)
"""
import json
import pathlib
import re
import struct
import sys

import zstandard
from blake3 import blake3


def digest(content):
    return blake3(content).digest().hex()


def objects(content):
    first, rest = content.split(b"\n", 1)
    schema, brain = first.decode().split(" ")
    assert schema == "herm/export@1"
    found = {}
    while rest:
        line, rest = rest.split(b"\n", 1)
        entry = json.loads(line)
        name = entry["name"].removeprefix(f"brains/{brain}/")
        found[name], rest = rest[: entry["bytes"]], rest[entry["bytes"] :]
    return found


def opened(content):
    assert content[:5] == b"HSN1\0", "not a plain object"
    return zstandard.ZstdDecompressor().decompressobj().decompress(content[5:])


def cells(rows):
    while rows:
        if rows[0] == 0:
            yield None
            rows = rows[1:]
        elif rows[0] == 1:
            yield struct.unpack("<q", rows[1:9])[0]
            rows = rows[9:]
        else:
            end = 9 + struct.unpack("<Q", rows[1:9])[0]
            yield rows[9:end].decode() if rows[0] == 2 else rows[9:end]
            rows = rows[end:]


page = (pathlib.Path(__file__).parent / "../../docs/reference/snapshot.md").read_text()
columns = {}
for table, listed in re.findall(r"^\| `(\w+)` \| (\*\*.*?) \|$", page, re.M):
    columns[table] = [column.split() for column in listed.split(": ")[0].split(", ")]
types = {"i": int, "t": str, "b": bytes}

store = objects(pathlib.Path(sys.argv[1]).read_bytes())
line, of_line, _ = store["head/" + "1".zfill(20)].split(b"\n")
assert digest(line) == of_line.decode()
head = json.loads(line)
manifest = opened(store[head["object"]])
assert digest(manifest) == head["manifest"]
line, rims = manifest.split(b"\n", 1)
manifest = json.loads(line)
count = 0
for table in manifest["tables"]:
    name, rows = table["name"], b""
    for level, references in reversed(list(enumerate(table["levels"]))):
        for below in range(level, -1, -1):
            parts = []
            for reference in references:
                chunk = opened(store["chunk/" + "0" * 20 + "/" + reference])
                assert digest(chunk) == reference and chunk[0] == below
                assert chunk[2 : 2 + chunk[1]].decode() == name
                parts.append(chunk[2 + chunk[1] :])
            joined = b"".join(parts)
            references = [joined[at : at + 32].hex() for at in range(0, len(joined), 32)]
        rows += joined if table["levels"][level] else b""
    rows, rims = rows + rims[: table["rim"]], rims[table["rim"] :]
    found = list(cells(rows))
    assert len(rows) == table["bytes"] and len(found) == len(columns[name]) * table["rows"], name
    for at, cell in enumerate(found):
        column, kind = columns[name][at % len(columns[name])]
        assert isinstance(cell, types[kind[0]]) or (cell is None and kind.endswith("?")), (name, column, cell)
    count += table["rows"]
assert not rims
print(f"brain {head['brain']}, version {head['version']}: {count} rows of {len(manifest['tables'])} tables")
