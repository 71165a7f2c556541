#!/usr/bin/env python3
"""Lists the tests that a run of ctest skipped: skipped.py LastTest.log

GoogleTest prints "file:line: Skipped", the reason, and "[  SKIPPED ] Suite.Name"; tests of other kinds print a line
"SKIPPED name: reason".
"""
import re
import sys

reason, skipped = "", {}
lines = open(sys.argv[1], encoding="utf-8", errors="replace").read().splitlines()
for i, line in enumerate(lines):
    if re.search(r": Skipped$", line) and i + 1 < len(lines):
        reason = lines[i + 1].strip()
    elif found := re.match(r"\[  SKIPPED \] ([\w/]+\.[\w/]+) \(", line):
        skipped[found[1]], reason = reason, ""
    elif found := re.match(r"SKIPPED ([^:]+): (.*)", line):
        skipped[found[1]] = found[2]
print(f"skipped tests: {len(skipped)}")
for name, why in sorted(skipped.items()):
    print(f"  {name}: {why or 'no reason given'}")
