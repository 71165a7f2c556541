#!/usr/bin/env python3
"""Runs Clang's thread-safety analysis on the project's sources with a build's flags. Compiles nothing.

    thread_safety.py BUILD JOBS plain|all [PATH_PART ...]

BUILD contains a compile_commands.json. Sources that do not include base/mutex.h have nothing to analyze and are
skipped. `plain` also skips the sources that need torch or gRPC, which take most of the time. With PATH_PARTs, analyzes
only sources whose path contains one.
"""
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys

build, jobs, scope, parts = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
if scope not in ("plain", "all"):
    sys.exit(f"thread_safety: '{scope}' is neither plain nor all")
root = pathlib.Path(__file__).resolve().parent.parent


# OpenMP's header comes from GCC: this clang does not have one.
omp = subprocess.run(["c++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()


def commands_of_files():
    """The commands of a build, with one per source where it compiles several together (INGOT_UNITY)."""
    for command in json.loads((build / "compile_commands.json").read_text()):
        if "/Unity/" not in command["file"]:
            yield command
            continue
        for file in re.findall(r'^#include "(.+)"', pathlib.Path(command["file"]).read_text(), re.M):
            yield command | {"file": file}


def sources():
    commands = list(commands_of_files())
    found = {c["file"]: c for c in commands
             if c["file"].endswith(".cc") and pathlib.Path(c["file"]).is_relative_to(root / "src")}
    if scope == "plain":
        found = {file: c for file, c in found.items() if "torch_include" not in c["command"] and not needs_grpc(file)}
    seen = {}
    return {file: c for file, c in found.items()
            if (not parts or any(part in file for part in parts)) and reaches_a_lock(pathlib.Path(file), seen)}


def reaches_a_lock(file, seen):
    """Whether the file includes base/mutex.h, itself or through headers of the project. No other file has annotations."""
    if file in seen:
        return seen[file]
    seen[file] = False  # for a circle of includes
    for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read_text(errors="replace"), re.M):
        header = root / "src" / name
        if name == "base/mutex.h" or (header.exists() and reaches_a_lock(header, seen)):
            seen[file] = True
            break
    return seen[file]


def needs_grpc(file):
    return re.search(r"(^|_|/)(service|grpc\w*|\w+_grpc)\.cc$", file) is not None


def flags(command):
    """The definitions, include paths and standard of a command, without GCC's warnings and precompiled headers."""
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


todo = sorted(sources().items())
if not todo:
    sys.exit(f"thread_safety: no source of {scope} in {build}")
failed = 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    for file, status, said in pool.map(analyse, todo):
        if status != 0:
            failed += 1
            print(f"{file}:\n{said}", flush=True)
print(f"thread safety: {len(todo)} files, {failed} with findings")
sys.exit(1 if failed else 0)
