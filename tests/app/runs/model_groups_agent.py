"""The agent of serving_tests.py's case model_groups: asks models whose weights follow training, are pinned to a version or
live at another server, goes on from another model's turn, and posts its own rewards before it ends."""
import http.client
import json
import os
import urllib.parse
import zlib

url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
episode = os.environ["INGOT_EPISODE_ID"]
connection = http.client.HTTPConnection(url.netloc, timeout=60)


def post(path, body):
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def ask(model, messages, missing=False):
    """The assistant's message; None for a version that training has not reached yet, where `missing` allows it."""
    status, reply = post(url.path + "/chat/completions", {"model": model, "messages": messages, "max_tokens": 6})
    if missing and status == 409 and reply["error"]["code"] == "version_not_held":
        return None
    if status != 200:
        raise SystemExit(f"{model}: {status} {reply}")
    return reply["choices"][0]["message"]


status, reply = post("/ingot/v1/episodes", {"scaffold": "an episode of its own, to reward as it likes"})
if status != 403:  # its key is the key of one episode
    raise SystemExit(f"an agent opened an episode: {status} {reply}")
question = [{"role": "user", "content": "which?"}]
policy = ask("policy", question)
judge = ask("judge", question)
ask("start", question)
ask("later", question, missing=True)
# Continues from the other server's answer: it is context, and the policy's own tokens are trained.
ask("any other name", [*question, judge, {"role": "user", "content": "why?"}])
draw = zlib.crc32(episode.encode())
rewards = "/ingot/v1/episodes/" + episode + "/reward"
for body in ({"reward": draw % 2}, {"turn": 0, "reward": (draw >> 1) % 4 / 4}, {"turn": 1, "reward": 0.5}):
    for _ in range(2):  # posted twice, it counts once
        status, reply = post(rewards, body)
        if status != 200:
            raise SystemExit(f"reward: {status} {reply}")
print(policy["content"])
