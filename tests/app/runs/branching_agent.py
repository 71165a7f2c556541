"""The agent of branching_tests.py: a few calls, its messages in HOME before each, from where a fork goes on.
Prints a bit of all that was said. For one task in four a single call is enough, so that no fork is reached."""
import http.client
import json
import os
import pathlib
import urllib.parse
import zlib

url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
session = pathlib.Path(os.environ["HOME"], "session.json")
messages = json.loads(session.read_text()) if session.exists() else []
if ("INGOT_FORK" in os.environ) != (len(messages) == 4):
    raise SystemExit(f"fork {os.environ.get('INGOT_FORK')} with {len(messages)} messages")
turns = 1 if zlib.crc32(os.environ["INGOT_TASK_ID"].encode()) % 4 == 0 else 4
for turn in range(len(messages) // 2, turns):
    messages.append({"role": "user", "content": f"{os.environ['INGOT_TASK_ID']} {turn}"})
    body = json.dumps({"model": "policy", "messages": messages, "max_tokens": 6})
    connection = http.client.HTTPConnection(url.netloc, timeout=60)
    connection.request("POST", url.path + "/chat/completions", body, headers)
    response = connection.getresponse()
    reply = json.loads(response.read())
    if response.status != 200:
        raise SystemExit(f"turn {turn}: {response.status} {reply}")
    messages.append({"role": "assistant", "content": reply["choices"][0]["message"]["content"] or ""})
    session.write_text(json.dumps(messages))
print(zlib.crc32(json.dumps(messages).encode()) % 2)
