#!/usr/bin/env python3
"""clang's thread-safety analysis over the project's sources that its own preset leaves out: those with torch and gRPC.

    thread_safety.py RELEASE_BUILD COVERED_BUILD JOBS [PATH_PART ...]

RELEASE_BUILD and COVERED_BUILD hold a compile_commands.json each. Every source of the first that the second has not is
parsed by clang with the flags of the first; nothing is compiled. With PATH_PARTs, only sources whose path has one.
"""
import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys

release, covered, jobs, parts = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
root = pathlib.Path(__file__).resolve().parent.parent


# OpenMP's header, which clang here has none of.
omp = subprocess.run(["c++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()


def sources(build):
    commands = json.loads((build / "compile_commands.json").read_text())
    return {c["file"]: c for c in commands
            if c["file"].endswith(".cc") and pathlib.Path(c["file"]).is_relative_to(root / "src")}


def flags(command):
    """What says how to read a file: definitions, include paths, the standard. Not gcc's warnings and precompiled headers."""
    words, kept = shlex.split(command["command"]), []
    for i, word in enumerate(words):
        if word.startswith(("-D", "-I", "-std=", "-m", "-f")) and not word.startswith("-fPIC"):
            kept.append(word)
        elif word in ("-isystem", "-iquote"):
            kept += words[i:i + 2]
    return kept


def analyse(entry):
    file, command = entry
    done = subprocess.run(
        ["clang++-19", "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety", "-idirafter", omp,
         *flags(command), file], cwd=command["directory"], capture_output=True, text=True)
    return file, done.returncode, done.stdout + done.stderr


left = set(sources(covered))
todo = sorted((file, command) for file, command in sources(release).items() if file not in left)
if parts:
    todo = [entry for entry in todo if any(part in entry[0] for part in parts)]
failed = 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for file, status, said in pool.map(analyse, todo):
        if status != 0:
            failed += 1
            print(f"{file}:\n{said}", flush=True)
print(f"thread safety: {len(todo)} further files, {failed} with findings")
sys.exit(1 if failed else 0)
