#!/usr/bin/env python3
"""Runs Clang's thread-safety analysis on the project's sources with a build's flags. Compiles nothing.

    thread_safety.py BUILD JOBS plain|all [PATH_PART ...]

BUILD contains a compile_commands.json. Sources that do not include base/mutex.h have nothing to analyze and are
skipped. `plain` also skips the sources that need torch or gRPC, which take most of the time. With PATH_PARTs, analyzes
only sources whose path contains one.

Sources that BUILD compiles together (INGOT_UNITY) are analyzed together, with Clang's own version of the precompiled
header that BUILD uses, because most of the time goes into headers.
"""
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

build, jobs, scope, parts = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
if scope not in ("plain", "all"):
    sys.exit(f"thread_safety: '{scope}' is neither plain nor all")
root = pathlib.Path(__file__).resolve().parent.parent


# OpenMP's header comes from GCC: this clang does not have one.
omp = subprocess.run(["c++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()


def groups():
    """Pairs of a command of the build and the files that it compiles, of those that are to be analyzed."""
    found, seen = {}, {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        unity = "/Unity/" in command["file"]
        files = re.findall(r'^#include "(.+)"', pathlib.Path(command["file"]).read_text(), re.M) if unity else [command["file"]]
        files = [file for file in files if wanted(file, command) and reaches_a_lock(pathlib.Path(file), seen)]
        if files:
            found[command["file"]] = (command, files)
    return [found[name] for name in sorted(found)]


def wanted(file, command):
    if not file.endswith(".cc") or not pathlib.Path(file).is_relative_to(root / "src"):
        return False
    if scope == "plain" and ("torch_include" in command["command"] or needs_grpc(file)):
        return False
    return not parts or any(part in file for part in parts)


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


def clang(command, *words, **more):
    """Runs Clang with a command's flags."""
    return subprocess.run(["clang++-19", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety", "-idirafter", omp,
                           *flags(command), *words], cwd=command["directory"], capture_output=True, text=True, **more)


def header_of(command):
    """The precompiled header of a command; None = it has none."""
    return next(iter(re.findall(r"-include (\S+/cmake_pch\.hxx)", command["command"])), None)


def precompile(entry):
    header, command, to = entry
    done = clang(command, "-x", "c++-header", header, "-o", to)
    if done.returncode != 0:
        sys.exit(f"thread_safety: {header}:\n{done.stdout}{done.stderr}")


def analyse(entry):
    command, files = entry
    header = precompiled.get(header_of(command))
    done = clang(command, *(["-include-pch", header] if header else []), "-fsyntax-only", "-x", "c++", "-",
                 input="".join(f'#include "{file}"\n' for file in files))
    return files, done.returncode, done.stdout + done.stderr


todo = groups()
if not todo:
    sys.exit(f"thread_safety: no source of {scope} in {build}")
failed = 0
with concurrent.futures.ThreadPoolExecutor(jobs) as pool, tempfile.TemporaryDirectory() as folder:
    users = {header_of(command): command for command, _ in todo if header_of(command)}
    precompiled = {header: f"{folder}/{i}.pch" for i, header in enumerate(users)}
    list(pool.map(precompile, [(header, users[header], to) for header, to in precompiled.items()]))
    for files, status, said in pool.map(analyse, todo):
        if status != 0:
            failed += 1
            print("\n".join(files) + f":\n{said}", flush=True)
print(f"thread safety: {sum(len(files) for _, files in todo)} files in {len(todo)} groups, {failed} with findings")
sys.exit(1 if failed else 0)
