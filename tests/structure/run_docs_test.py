#!/usr/bin/env python3
"""Tests scripts/run_docs.py on valid and faulty pages: which blocks it runs, and which line it reports."""
import importlib.util
import pathlib
import sys
import tempfile
import textwrap
import time

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("run_docs", SOURCE / "scripts/run_docs.py")
run_docs = importlib.util.module_from_spec(spec)
sys.modules["run_docs"] = run_docs
spec.loader.exec_module(run_docs)


def check(condition, message):
    if not condition:
        raise SystemExit(f"FAILED: {message}")


def run(page):
    """Returns the error that run_docs reports for a page, and the output of the blocks."""
    with tempfile.TemporaryDirectory(prefix="run-docs-") as name:
        folder = pathlib.Path(name)
        (folder / "home").mkdir()
        wrong = run_docs.run_blocks(run_docs.blocks_of(textwrap.dedent(page)), folder)
        return wrong, (folder / "output.log").read_text(encoding="utf-8")


wrong, said = run("""
    <!-- run: file=agent.py -->
    ```python
    print("$HOME", 1 + 1)
    ```
    ```
    echo unmarked
    ```
    <!-- run: before='word=seen' -->
    ```sh
    python3 agent.py
    kept=yes
    ```
    <!-- run: lines=1 -->
    ```
    echo $word $kept
    exit 1
    ```
    """)
check(wrong is None and said == "$HOME 2\nseen yes\n", f"{wrong}: {said}")

for block in ("false", "true && false", "ls /no/such/file | cat", "for i in 1; do\nfalse\ndone"):
    wrong, said = run(f"<!-- run -->\n```\necho begun\n```\n\n<!-- run -->\n```\necho two\n{block}\n```\n")
    check(wrong is not None and wrong[0] in (9, 10) and "two" in wrong[1], f"{block}: {wrong}: {said}")

began = time.monotonic()
wrong, said = run("<!-- run: seconds=1 -->\n```\nsleep 100 &\nsleep 50\n```\n")
check(wrong is not None and "more than 1 s" in wrong[1] and time.monotonic() - began < 20, f"{wrong}")

server = "import socket; s = socket.create_server(('127.0.0.1', 0)); open('port', 'w').write(str(s.getsockname()[1])); s.accept()[0].sendall(b'hello'); input()"
wrong, said = run(f"<!-- run: background -->\n```\npython3 -c \"{server}\"\n```\n<!-- run -->\n```\n"
                  "until [ -s port ]; do :; done\nexec 3<>/dev/tcp/127.0.0.1/$(cat port)\nhead -c 5 <&3\n```\n")
check(wrong is None and said == "hello", f"{wrong}: {said}")

for page, words in (("<!-- run -->\n\ntext\n", "no block"), ("<!-- run: fiel=a -->\n```\n```\n", "'fiel'"), ("<!-- run -->\n```\necho\n", "no end")):
    try:
        run_docs.blocks_of(page)
        check(False, f"{page} is taken")
    except ValueError as fault:
        check(words in str(fault), f"{page}: {fault}")
print("run_docs: passed")
