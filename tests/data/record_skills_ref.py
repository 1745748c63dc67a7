#!/usr/bin/env python3
"""Records what the public validator (skills-ref 0.1.1) says about every case of skills_ref.json.

usage: record_skills_ref.py AGENTSKILLS            rewrite the recorded verdicts
       record_skills_ref.py --check AGENTSKILLS    exit 1 if a recorded verdict differs from the live one

AGENTSKILLS is the path of the `agentskills` executable that `pip install skills-ref==0.1.1` installs.
"""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = Path(__file__).with_name("skills_ref.json")


def file_of(case):
    """The bytes of a case; `fill` stands for the `@@` in a long one."""
    if "content_base64" in case:
        return base64.b64decode(case["content_base64"])
    fill = case.get("fill", {"text": "@@", "times": 1})
    return case["content"].replace("@@", fill["text"] * fill["times"]).encode("utf-8")


def is_valid(agentskills, case):
    """Writes one case into a directory of its own and asks the validator about it."""
    with tempfile.TemporaryDirectory() as root:
        directory = Path(root, case["dir"])
        directory.mkdir()
        directory.joinpath(case["file_name"]).write_bytes(file_of(case))
        # A crash counts as a refusal: the exit status is all that a caller sees.
        run = subprocess.run([agentskills, "validate", str(directory)], capture_output=True, check=False)
    return run.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agentskills", help="path of the agentskills executable")
    parser.add_argument("--check", action="store_true", help="compare instead of rewriting")
    options = parser.parse_args()
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    changed = []
    for case in cases:
        verdict = is_valid(options.agentskills, case)
        if case["skills_ref_valid"] != verdict:
            changed.append(f"{case['case']}: recorded {case['skills_ref_valid']}, live {verdict}")
            case["skills_ref_valid"] = verdict
    for line in changed:
        print(line)
    print(f"{len(cases)} cases, {len(changed)} verdicts differ from the record")
    if options.check:
        return 1 if changed else 0
    CASES.write_text(json.dumps(cases, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
