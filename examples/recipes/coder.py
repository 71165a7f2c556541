#!/usr/bin/env python3
"""A stand-in for a coding agent: one call, whose answer is the program; it goes to answer.txt for the verifier `code`."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from client import ask  # noqa: E402

with open(sys.argv[1], encoding="utf-8") as file:
    task = json.load(file)
program = ask([{"role": "user", "content": task["question"]}])
with open("answer.txt", "w", encoding="utf-8") as file:
    file.write(program)
