#!/usr/bin/env python3
"""Runs clang-tidy over the project's own sources of a build folder: tidy.py BUILD_DIR JOBS."""
import concurrent.futures
import json
import pathlib
import subprocess
import sys

build, jobs = pathlib.Path(sys.argv[1]), int(sys.argv[2])
root = pathlib.Path(__file__).resolve().parent.parent
commands = json.loads((build / "compile_commands.json").read_text())
sources = sorted({c["file"] for c in commands if pathlib.Path(c["file"]).is_relative_to(root / "src")})


def tidy(source):
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(build), source], capture_output=True, text=True)
    return source, done.returncode, done.stdout


failed = 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for source, code, output in pool.map(tidy, sources):
        if code != 0 or "warning:" in output:
            failed += 1
            print(output)
print(f"clang-tidy: {len(sources)} files, {failed} with findings")
sys.exit(1 if failed else 0)
