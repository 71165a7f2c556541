#!/usr/bin/env python3
"""Asks the model once and prints the last letter of its answer, so that an evaluation does not depend on its style."""
import json
import os
import sys
import urllib.request

with open(sys.argv[1], encoding="utf-8") as file:
    task = json.load(file)
body = json.dumps({"messages": [{"role": "user", "content": task["prompt"]}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {
    "Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
with urllib.request.urlopen(request, timeout=60) as answer:
    print((json.load(answer)["choices"][0]["message"].get("content") or "").strip()[-1:])
