"""A model client and the poster of signals, for the stand-in agents of this folder: only the standard library."""
import http.client
import json
import os
import urllib.parse

URL = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
EPISODE = os.environ["INGOT_EPISODE_ID"]


def post(path, body):
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(URL.netloc, timeout=600)
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    reply = json.loads(response.read())
    if response.status != 200:
        raise SystemExit(f"{path}: {response.status} {reply}")
    return reply


def ask(messages, model="policy", max_tokens=None):
    body = {"model": model, "messages": messages}
    if max_tokens:
        body["max_tokens"] = max_tokens
    return post(URL.path + "/chat/completions", body)["choices"][0]["message"].get("content") or ""


def report(**fields):
    post(f"/ingot/v1/episodes/{EPISODE}/reward", fields)
