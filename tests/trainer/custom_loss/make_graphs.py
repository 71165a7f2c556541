#!/usr/bin/env python3
"""Writes the traces of examples/losses next to this file: make_graphs.py, with an interpreter that has torch."""
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parents[2]


def main():
    operations = re.findall(r'"(aten::[\w.]+)"', (SOURCE / "src/trainer/custom_loss/operations.cc").read_text())
    for example in sorted((SOURCE / "examples/losses").glob("*.py")):
        words = [sys.executable, SOURCE / "src/app/run/trace_loss.py", example, "loss", json.dumps(operations)]
        answer = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        if "error" in answer:
            sys.exit(answer["error"])
        (HERE / f"{example.stem}.json").write_text(json.dumps(answer["graph"], indent=1) + "\n")


main()
