#!/usr/bin/env python3
"""Runs the marked code blocks of the documentation to check that its commands work: run_docs.py [PAGE ...].

Without pages, runs README.md and every page under docs/ that has a mark. A mark is a comment on the line before a block:

    <!-- run -->                         the block is shell code
    <!-- run: file=agent.py -->          the block is the contents of a file
    <!-- run: background port=8000 -->   the block runs until its page is done; the next one starts when the port answers
    <!-- run: lines=1 -->                only the block's first line
    <!-- run: before='ln -s A B' -->     a command to run before the block, which readers do not see
    <!-- run: seconds=900 -->            a longer time limit for the whole page (default 300)

The blocks of a page run in order, in one bash with `set -e`, in build/docs/PAGE, a copy of the repository. build/release is
on PATH, HOME is empty, and curl fails if a server responds with an error. $MODEL is a small model's folder. Processes
that the blocks started are stopped afterward. Failing blocks are reported by page and line.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent
MARK = re.compile(r"^<!-- run(?:: (.*))? -->$")
PORT = "for _ in $(seq 600); do (exec 3<>/dev/tcp/127.0.0.1/{0}) 2>/dev/null && break; sleep 0.1; done; (exec 3<>/dev/tcp/127.0.0.1/{0})"
PROLOGUE = ["set -eEmo pipefail", "trap 'echo \"@failed $LINENO\"' ERR"]
SECONDS = 300


@dataclasses.dataclass
class Block:
    line: int    # number of its first line
    lines: list  # its contents
    options: dict


def blocks_of(text):
    """Returns the marked blocks of a page. ValueError: a mark has no block or an unknown option."""
    blocks, lines, i = [], text.splitlines(), 0
    while i < len(lines):
        mark = MARK.match(lines[i].strip())
        i += 1
        if mark is None:
            continue
        options = {}
        for word in shlex.split(mark[1] or ""):
            key, _, value = word.partition("=")
            if key not in ("file", "background", "port", "lines", "before", "seconds"):
                raise ValueError(f"line {i}: a mark has no option '{key}'")
            options[key] = value
        if i >= len(lines) or not lines[i].startswith("```"):
            raise ValueError(f"line {i}: no block follows the mark")
        end = next((j for j in range(i + 1, len(lines)) if lines[j].startswith("```")), None)
        if end is None:
            raise ValueError(f"line {i + 1}: the block has no end")
        body = lines[i + 1:end]
        blocks.append(Block(i + 2, body[:int(options.get("lines", len(body)))], options))
        i = end + 1
    return blocks


def script_of(blocks):
    """Returns (the lines of a bash script, the page's line number for each)."""
    script, places = list(PROLOGUE), [0] * len(PROLOGUE)

    def add(text, place):
        script.append(text)
        places.append(place)

    for number, block in enumerate(blocks):
        if "before" in block.options:
            add(block.options["before"], block.line)
        if "file" in block.options:
            add(f"cat > {shlex.quote(block.options['file'])} <<'END_OF_FILE'", block.line)
        background = "background" in block.options
        if background:
            add("{", block.line)
        for offset, line in enumerate(block.lines):
            add(line, block.line + offset)
        if "file" in block.options:
            add("END_OF_FILE", block.line)
        if background:
            add(f"}} > background-{number}.log 2>&1 &", block.line)
        if "port" in block.options:
            add(PORT.format(block.options["port"]), block.line)
    return script, places


def end_session(leader):
    """Ends every process of the session, because the blocks' jobs have their own process groups."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            left = []
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    fields = (entry / "stat").read_text().rsplit(")", 1)[1].split() if entry.name.isdigit() else []
                except OSError:
                    continue
                if fields and int(fields[3]) == leader and fields[0] != "Z":
                    left.append(int(entry.name))
            if not left:
                return
            for process in left:
                try:
                    os.kill(process, sign)
                except ProcessLookupError:
                    pass
            time.sleep(0.2)


def source_files():
    """Returns the repository's files as relative paths. Without git, all files except build outputs."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, capture_output=True, text=True)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name and (SOURCE / name).is_file()]
    files = []
    for top, folders, names in os.walk(SOURCE):
        folders[:] = [one for one in folders if one not in ("build", "runs", ".git", "node_modules") and not one.startswith(".venv")]
        files += [os.path.relpath(os.path.join(top, name), SOURCE) for name in names]
    return files


def prepare(folder):
    """Copies the repository's files and links its build, so that blocks can write anywhere."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "home").mkdir(parents=True)
    (folder / "home/.curlrc").write_text("fail-with-body\n")  # curl fails if the server responds with an error
    for name in source_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(SOURCE / name, folder / name)
    for built in ("build", *(path.name for path in SOURCE.glob(".venv*"))):
        (folder / built).symlink_to(SOURCE / built)


def run_blocks(blocks, folder, env=None):
    """Returns (line of the page, error), or None if all blocks work. The folder must exist."""
    script, places = script_of(blocks)
    log = folder / "output.log"
    env = {**os.environ, "HOME": str(folder / "home"), "PATH": f"{SOURCE}/build/release:{os.environ['PATH']}", **(env or {})}
    seconds = max(float(block.options.get("seconds", SECONDS)) for block in blocks)
    with open(log, "w", encoding="utf-8") as output:
        shell = subprocess.Popen(["bash", "-c", "\n".join(script)], cwd=folder, stdout=output, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, env=env, start_new_session=True)
    try:
        code = shell.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        end_session(shell.pid)
        shell.wait()
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if code == 0:
        return None
    if code is None:
        return blocks[0].line, "\n".join([f"the page's blocks took more than {seconds:g} s", *said[-15:]])
    at = [int(line.split()[1]) for line in said if re.fullmatch(r"@failed \d+", line)]
    line = places[min(at[0], len(places)) - 1] if at else blocks[0].line
    return line, "\n".join([f"exit code {code}", *[text for text in said if not text.startswith("@failed")][-15:]])


def make_model(folder):
    """Trains a tiny, useless model for pages that need one, and returns its folder."""
    prepare(folder)
    done = subprocess.run([SOURCE / "build/release/ingot", "train", "configs/smoke.yaml", "data.tasks=", "sft.max_steps=2", "eval.tasks=",
                           "goal.first_steps=0", "goal.last_steps=0", "run.name=model"], cwd=folder, capture_output=True, text=True, timeout=300)
    found = sorted(folder.glob("runs/model/checkpoints/step-*"))
    if done.returncode != 0 or not found:
        raise SystemExit(f"run_docs: the model for the pages was not trained: {done.stderr[-1500:]}")
    return found[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="pages, as paths in the repository")
    named = [SOURCE / page for page in parser.parse_args().pages]
    pages, failed, count, model = named or [SOURCE / "README.md", *sorted(SOURCE.glob("docs/**/*.md"))], [], 0, None
    for page in pages:
        place = page.relative_to(SOURCE)
        text = page.read_text(encoding="utf-8")
        try:
            blocks = blocks_of(text)
        except ValueError as wrong:
            failed.append(f"{place}: {wrong}")
            continue
        if not blocks:
            continue
        if model is None and "$MODEL" in text:
            model = make_model(SOURCE / "build/docs/model")
        folder = SOURCE / "build/docs" / str(place).replace("/", "-").removesuffix(".md")
        prepare(folder)
        began = time.monotonic()
        wrong = run_blocks(blocks, folder, {"MODEL": str(model)})
        count += len(blocks)
        print(f"{place}: {len(blocks)} blocks, {time.monotonic() - began:.0f} s", flush=True)
        if wrong is not None:
            failed.append(f"{place}:{wrong[0]}: {wrong[1]}")
    for text in failed:
        print(f"FAILED: {text}", file=sys.stderr)
    print(f"run_docs: {count} blocks" + (f", {len(failed)} pages fail" if failed else ""))
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
