"""Asks the model one question and prints its answer on one line."""
import json
import os
import sys
import urllib.request

INSTRUCTION = "Solve the problem step by step. End with a line of the form `Answer: NUMBER`."

with open(sys.argv[1], encoding="utf-8") as file:
    prompt = json.load(file)["prompt"]
body = {"model": "policy", "messages": [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": prompt}]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
with urllib.request.urlopen(request) as response:
    content = json.load(response)["choices"][0]["message"]["content"] or ""
print(json.dumps(content))
