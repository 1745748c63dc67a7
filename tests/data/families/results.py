#!/usr/bin/env python3
"""Writes docs/operate/learning-results.md from the tables of `herm learn bench`, or with --check compares it.

Each directory below docs/operate/learning has the table.json and the curves.svg of one model:

    herm learn bench --backend local --model FILE --tasks 20 --out DIR
    cp DIR/table.json DIR/curves.svg docs/operate/learning/NAME/
    tests/data/families/results.py

A table may lack families and arms. Nothing on the page is written by hand.
"""

import argparse
import json
import pathlib
import sys

TITLES = {
    "none": "no learning",
    "curated": "curated skill",
    "examples": "examples",
    "examples-trials": "examples with trials",
    "plans": "examples with plans",
    "self-written": "self-written skills",
    "trials": "everything, with trials",
    "random": "a random example",
}
SIGNIFICANT = 0.05

HEAD = """# What learning brings, measured

For: readers who want to see what an agent in herm gains by learning, with which model, and how sure that is.

```markdown
| of | arm | held out | 95 % | against no learning | p |
|---|---|---:|---:|---:|---:|
| attic | curated skill | 8/8 | 68–100 % | +8 −0 | 0.0078 |
```

This is a row of a made-up family: with the skill that a person wrote, the model solved all 8 held-out tasks of `attic`,
and without learning none of them. If the skill changed nothing, so large a difference would have a probability of 0.0078.

`tests/data/families/results.py` writes this page from the tables in `docs/operate/learning`; nobody edits it.
[Measuring what learning brings](learning-bench.md) explains the arms, the families and the tests. Each arm answers the
learning tasks with learning on; then learning is frozen, and it answers the held-out tasks, on which it is compared.
Intervals are Wilson's at 95 %. p is of the exact McNemar test on the same tasks. ↑ and ↓ mark p < 0.05 against no
learning.
"""


def plain(text):
    return "".join(" " if c in "|<>`*[]" or ord(c) < 32 else c for c in text).strip()


def chance(p):
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def share(count):
    return f"{count['solved']}/{count['tasks']}"


def percent(interval):
    return "–".join(str(int(100 * bound + 0.5)) for bound in interval) + " %"


def paired(counts):
    return f"+{counts['better']} −{counts['worse']} | {chance(counts['p'])}" if counts else "– | –"


def mark(row):
    counts = row["againstNone"]
    if not counts or counts["p"] >= SIGNIFICANT:
        return ""
    return " ↑" if counts["better"] > counts["worse"] else " ↓"


def title(group):
    return f"**{plain(group['title'])}** ({group['families']} families)" if group["pooled"] else plain(group["title"])


def row_of(group, arm):
    return next((row for row in group["rows"] if row["arm"] == arm), None)


def lengths(table, half):
    counts = {len(solved[half]) for family in table["families"] for solved in family["solved"]}
    return " to ".join(str(count) for count in sorted({min(counts), max(counts)})) if counts else "no"


def section(name, table, has_curves):
    groups = table["table"]
    arms = [arm for arm in TITLES if any(row_of(group, arm) for group in groups)]
    told = "are told which of their answers were good" if table["labels"] else "are told nothing about their answers"
    count = len(table["families"])
    families = "1 family" if count == 1 else f"{count} families"
    yield f"\n## {plain(table['model'])}\n\n"
    yield f"Backend `{plain(table['backend'])}`; {families}, {lengths(table, 'learn')} tasks to learn from and "
    yield f"{lengths(table, 'heldOut')} held out in each. Arms that learn {told}. "
    yield f"[The table](learning/{name}/table.json) has every task.\n"
    if has_curves:
        yield f"\n![How many tasks were solved so far, by arm and family](learning/{name}/curves.svg)\n"
    yield "\nHeld-out tasks solved:\n\n| family | tasks |"
    yield "".join(f" {TITLES[arm]} |" for arm in arms) + "\n|---|---:|" + "---:|" * len(arms) + "\n"
    for group in groups:
        tasks = group["rows"][0]["heldOut"]["tasks"] if group["rows"] else 0
        yield f"| {title(group)} | {tasks} |"
        for row in (row_of(group, arm) for arm in arms):
            yield f" {row['heldOut']['solved']}{mark(row)} |" if row else " – |"
        yield "\n"
    pooled = [group for group in groups if group["pooled"]] or groups
    yield "\n| of | arm | held out | 95 % | against no learning | p |\n|---|---|---:|---:|---:|---:|\n"
    for group in pooled:
        for arm in arms:
            row = row_of(group, arm)
            if row:
                held_out = row["heldOut"]
                yield f"| {title(group)} | {TITLES[arm]} | {share(held_out)} | {percent(held_out['interval'])} | "
                yield f"{paired(row['againstNone'])} |\n"
    compared = [(group, one) for group in pooled for one in group.get("compared", [])]
    if compared:
        yield "\n| of | arm | against | only the arm, only the other | p |\n|---|---|---|---:|---:|\n"
    for group, one in compared:
        yield f"| {title(group)} | {TITLES[one['arm']]} | {TITLES[one['against']]} | {paired(one)} |\n"
    worse = [f"{plain(group['title'])} ({TITLES[row['arm']]})" for group in groups for row in group["rows"] if "↓" in mark(row)]
    yield "\n" + (f"Significantly below no learning: {', '.join(worse)}." if worse else
                  "No arm of any family is significantly below no learning.") + "\n"
    given = [f"{plain(family['name'])} {family['demonstrations']}" for family in table["families"]
             if family.get("demonstrations")]
    if given:
        yield f"\nDemonstrations given to the arms that learn: {', '.join(given)}.\n"


def page(data):
    yield HEAD
    tables = sorted(data.glob("*/table.json"))
    if not tables:
        yield "\nNo table is there yet.\n"
    for path in tables:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table.get("schema") != "herm/learning-table@1":
            sys.exit(f"{path} is not a table of `herm learn bench`")
        yield from section(path.parent.name, table, (path.parent / "curves.svg").exists())


def main():
    docs = pathlib.Path(__file__).resolve().parents[3] / "docs" / "operate"
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments.add_argument("--data", type=pathlib.Path, default=docs / "learning", help="a directory for each model")
    arguments.add_argument("--page", type=pathlib.Path, default=docs / "learning-results.md")
    given = arguments.parse_args()
    made = "".join(page(given.data))
    if not given.check:
        given.page.write_text(made, encoding="utf-8")
    elif not given.page.exists() or given.page.read_text(encoding="utf-8") != made:
        sys.exit(f"{given.page} is not what this program makes of {given.data}: run it without --check")


if __name__ == "__main__":
    main()
