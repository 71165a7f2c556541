"""Asks the model one question and prints its whole answer."""
import json
import os
import sys
import urllib.request

with open(sys.argv[1], encoding="utf-8") as file:
    task = json.load(file)
body = {"messages": [{"role": "system", "content": task["system"]}, {"role": "user", "content": task["prompt"]}]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
with urllib.request.urlopen(request) as response:
    sys.stdout.write(json.load(response)["choices"][0]["message"]["content"] or "")
