"""Episodes that a script plays itself over the gateway, and a run that waits for them."""
import http.client
import json
import time

import page_tests
from ingot_runs import check

LONG_TOKENS = 200_000
# A model that reads 200,000 tokens in seconds, and a run that waits for episodes from outside.
OUTSIDE = {
    "agents.recipes": "[]", "data.sft": "", "sft.max_steps": 0, "scheduler.group_size": 1, "trainer.advantage_baseline": "none",
    "trainer.advantage_normalization": "none", "model.hidden_size": 16, "model.intermediate_size": 16, "model.layers": 1, "model.heads": 1,
    "model.kv_heads": 1, "model.head_dim": 16, "model.context_length": 262144, "rollout.kv_cache_tokens": 262144, "gateway.max_new_tokens": 256,
}


class Episode:
    """An episode that this process plays over the gateway."""

    def __init__(self, gateway, note):
        self.url = page_tests.Page(gateway).url
        for _ in range(600):
            status, opened = self.post("/ingot/v1/episodes", {"metadata": {"note": note}}, "")
            if status in (200, 201):
                break
            time.sleep(0.2)
        check(status in (200, 201), f"no episode was opened: {opened}")
        self.key, self.id, self.group = opened["api_key"], opened["episode_id"], opened.get("group_id", 0)
        self.calls = 0

    def post(self, path, body, key=None):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=120)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json",
                                                            "Authorization": f"Bearer {self.key if key is None else key}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")

    def call(self, messages, tokens):
        status, said = self.post("/v1/chat/completions", {"model": "policy", "max_tokens": tokens, "messages": messages})
        check(status == 200, f"a call failed: {said}")
        self.calls += 1
        return said

    def end(self, detail):
        for route, body in (("reward", {"reward": 0.5}), ("end", {"status": "finished", "detail": detail})):
            status, said = self.post(f"/ingot/v1/episodes/{self.id}/{route}", body)
            check(status == 200, f"{route} of an episode: {said}")


def long_episode(gateway):
    """An episode of more than 200,000 tokens, in calls that each add a tool's output to the conversation."""
    episode = Episode(gateway, "long")
    messages, tokens = [{"role": "system", "content": "You are an agent."}], 0
    while tokens < LONG_TOKENS:
        output = "".join(f"line {line} of the output of a tool, as long as such lines are\n" for line in range(100))
        messages.append({"role": "user", "content": f"turn {episode.calls}: {output}"})
        said = episode.call(messages, 200)
        tokens = said["usage"]["total_tokens"]
        messages.append(said["choices"][0]["message"])
    episode.end("")
    return {"id": episode.id, "calls": episode.calls, "tokens": tokens}
