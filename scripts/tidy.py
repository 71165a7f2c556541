#!/usr/bin/env python3
"""Runs clang-tidy on the project's own sources in a build folder: tidy.py BUILD_DIR JOBS [PATH_PART ...].

With PATH_PARTs, checks only sources whose path contains one. Omits findings outside the project, such as the analyzer's
in a Boost header.
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

build, jobs, parts = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
root = pathlib.Path(__file__).resolve().parent.parent
commands = json.loads((build / "compile_commands.json").read_text())
sources = sorted({c["file"] for c in commands if pathlib.Path(c["file"]).is_relative_to(root / "src")})
if parts:
    sources = [s for s in sources if any(part in s for part in parts)]
finding_starts = re.compile(r"^(/\S+?):\d+:\d+: (?:warning|error): ")


def own_findings(output):
    kept, keeping = [], False
    for line in output.splitlines():
        start = finding_starts.match(line)
        if start:
            keeping = pathlib.Path(start[1]).is_relative_to(root)
        if keeping:
            kept.append(line)
    return "\n".join(kept)


def tidy(source):
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(build), source], capture_output=True, text=True)
    findings = own_findings(done.stdout)
    if done.returncode != 0 and not findings:  # it did not run, or could not parse something
        findings = done.stdout + done.stderr
    return findings


failed = 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for findings in pool.map(tidy, sources):
        if findings:
            failed += 1
            print(findings, flush=True)
print(f"clang-tidy: {len(sources)} files, {failed} with findings")
sys.exit(1 if failed else 0)
