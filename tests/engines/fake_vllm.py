#!/usr/bin/env python3
"""A server that speaks vLLM's dialect, for tests: fake_vllm.py --port N [--model DIR] [--vocab N].

Its model's log-probs depend on the loaded weights and the position alone, so that a test knows which weights drew a token:
logprob_of(seed, position), where the seed is made of the model's file. Ids are random, or those that POST /fake/script
names. POST /fake/faults takes a JSON object of faults; each holds until it is set again:

  load          N: the next N loads fail, and leave the weights torn (a seed of their own)
  keep          what stays of the earlier weights after a load that answers 200 and is labeled anew: "all"; "head" or
                "tensor": a part of them, which moves log-probs by a little; "half": half of the numbers; "cast": nothing,
                but the new weights are rounded; "adapter": another adapter is added
  keep_loads    N: the next N loads do so
  load_ms, score_ms   N: time per load, and per scored prompt
  prefix        true: sampled ids use the KV cache of the first weights that saw the prompt, whatever the salt;
                "salted": of those that saw it with the same salt
  pause, resume, label   N: the next N such calls answer 500
  adapter       N: the next N loads of adapters fail
  wrong_adapter N: the next N loads of adapters load another one
  no_adapters   true: there are no routes for adapters
  health        true: /health answers 503
  logprob       a number in place of each log-prob, or "nan", "missing", "short"
  foreign       a label in place of the server's own in weight_versions
  no_spans      true: answers have no weight_versions
  bad_spans     true: they do not cover the answer
  no_ids        true: answers of more than one id are aborted before the first
  cut           N: streams break off after N tokens
  broken        true: events are not JSON
  big           N: an event has N bytes
  outside       true: ids are outside the vocabulary
  slow_ms       N: time per token
  processed     true: log-probs are those after the temperature
  logits        true: alternatives have logits in place of log-probs
  refuse        true: requests get a 400 that repeats their key
"""
import argparse
import hashlib
import http.server
import json
import pathlib
import random
import threading
import time

TORN = 999999937  # the seed of weights of which a part is old


def logprob_of(seed, position):
    """In (-2.1, -0.1], with six decimals; tests/engines/fake_server.h has the same function."""
    return -0.1 - ((seed * 1000003 + position * 7919) % 2000000) / 1e6


# How much of the log-probs is the earlier weights', and what is added.
KEPT = {"all": (1, 0), "head": (0.3, 0), "tensor": (0.02, 0), "half": (0.5, 0), "cast": (0, 0.004), "adapter": (0, -0.05)}


def seed_of(model_dir):
    """The number that the file of a model or an adapter holds, or one made of its bytes."""
    (file,) = pathlib.Path(model_dir).glob("*model.safetensors")
    data = file.read_bytes()
    return int(data) if data.isdigit() else int.from_bytes(hashlib.sha256(data).digest()[:4], "big")


class World:
    def __init__(self, args):
        self.vocab, self.context = args.vocab, args.context
        self.lock = threading.Condition()
        self.seed, self.label = seed_of(args.model) if args.model else 0, "default"
        self.paused, self.faults, self.script = False, {}, []
        self.running, self.count, self.aborted, self.calls = {}, 0, 0, []
        self.overlap = 0  # tokens drawn while the weights were torn
        self.earlier, self.kept = 0, None  # the seed before the last load, and what of it was kept
        self.prefixes = {}  # weights that saw a prompt first
        self.adapters = {}  # the seed of each adapter by its name
        self.uses = {}      # requests that run on each adapter
        self.torn_from = 0  # adapters that were unloaded under a request

    def weights(self, adapter=None):
        """What determines log-probs. Call with the lock."""
        if adapter is not None:
            return self.adapters.get(adapter, TORN), 0, None
        return self.seed, self.earlier, self.kept

    def logprob(self, weights, position):
        seed, earlier, kept = weights
        share, added = KEPT.get(kept, (0, 0))
        new, old = logprob_of(seed, position), logprob_of(earlier, position)
        if added > 0:  # rounding goes both ways
            added *= 1 if position % 2 else -1
        return min(-1e-6, (1 - share) * new + share * old + added)

    def fault(self, name):
        """A fault that holds, or one more of those that are counted."""
        with self.lock:
            value = self.faults.get(name)
            if isinstance(value, bool) or not isinstance(value, int):
                return value
            if name in ("load", "keep_loads", "pause", "resume", "label", "adapter", "wrong_adapter"):
                self.faults[name] = max(0, value - 1)
            return value > 0 and value


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise, each response waits 40 ms for the acknowledgment of its head
    world = None

    def log_message(self, *args):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(raw) if raw else {}

    def do_GET(self):
        world = self.world
        if self.path == "/health":
            self.answer(503 if world.fault("health") else 200, {})
        elif self.path == "/weight_info":
            self.answer(200, {"weight_version": world.label})
        elif self.path == "/v1/models":
            self.answer(200, {"data": [{"id": "m", "max_model_len": world.context}]})
        elif self.path == "/fake/state":
            with world.lock:
                self.answer(200, {"running": len(world.running), "aborted": world.aborted, "seed": world.seed,
                                  "label": world.label, "paused": world.paused, "calls": world.calls,
                                  "overlap": world.overlap, "adapters": world.adapters, "torn_from": world.torn_from})
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        world, path, body = self.world, self.path.split("?")[0], self.body()
        with world.lock:
            if not path.startswith(("/fake", "/inference")):
                world.calls.append(self.path)
        if path == "/inference/v1/generate":
            self.generate(body)
        elif path == "/inference/v1/abort_requests":
            with world.lock:
                for name in body["request_ids"]:
                    if name in world.running:
                        world.running[name] = "abort"
                        world.aborted += 1
                world.lock.notify_all()
            self.answer(200, {})
        elif path == "/pause":
            self.pause()
        elif path == "/collective_rpc":
            self.load(body["kwargs"]["weights_path"])
        elif path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter") and not world.fault("no_adapters"):
            self.adapter(path, body)
        elif path == "/update_weight_version":
            if world.fault("label"):
                return self.answer(500, {"error": "label"})
            world.label = body["new_version"]
            self.answer(200, {"success": True})
        elif path == "/resume":
            if world.fault("resume"):
                return self.answer(500, {"error": "resume"})
            with world.lock:
                world.paused = False
                world.lock.notify_all()
            self.answer(200, {"status": "resumed"})
        elif path == "/fake/faults":
            with world.lock:
                world.faults.update(body)
            self.answer(200, {})
        elif path == "/fake/script":
            world.script = body["ids"]
            self.answer(200, {})
        elif path == "/fake/label":
            world.label = body["label"]
            self.answer(200, {})
        else:
            self.answer(404, {"detail": "Not Found"})

    def pause(self):
        world = self.world
        if world.fault("pause"):
            return self.answer(500, {"error": "pause"})
        with world.lock:
            world.paused = "mode=wait" not in self.path
            if "mode=abort" in self.path:
                for name in world.running:
                    world.running[name] = "abort"
            world.lock.notify_all()
            while "mode=wait" in self.path and world.running:
                world.lock.wait(0.05)
            world.paused = True
        return self.answer(200, {"status": "paused"})

    def load(self, path):
        world = self.world
        if world.fault("load"):
            with world.lock:
                world.seed = TORN
            return self.answer(500, {"error": {"message": "the load failed halfway"}})
        try:
            seed = seed_of(path)
        except OSError as error:
            return self.answer(500, {"error": {"message": str(error)}})
        time.sleep(world.faults.get("load_ms", 0) / 1000)
        kept = world.faults.get("keep") if world.fault("keep_loads") else None
        with world.lock:
            world.earlier = world.seed if world.kept is None else world.earlier
            world.kept, world.seed = kept, seed
        return self.answer(200, {"results": [None]})

    def adapter(self, path, body):
        world, name = self.world, body["lora_name"]
        if path == "/v1/unload_lora_adapter":
            with world.lock:
                world.torn_from += 1 if world.uses.get(name) else 0
                known = world.adapters.pop(name, None)
            return self.answer(200 if known is not None else 404, {})
        if world.fault("adapter"):
            return self.answer(500, {"error": {"message": "the adapter cannot be loaded"}})
        seed = seed_of(body["lora_path"]) + (7 if world.fault("wrong_adapter") else 0)
        with world.lock:
            world.adapters[name] = seed
        return self.answer(200, {})

    def generate(self, body):
        world, params = self.world, body["sampling_params"]
        ids = body["token_ids"]
        if body.get("model") is not None and body["model"] not in world.adapters:
            return self.answer(404, {"error": {"message": "The model does not exist.", "type": "NotFoundError"}})
        if world.fault("refuse"):
            return self.answer(400, {"error": {"message": f"refused {self.headers.get('Authorization')}"}})
        if not body["stream"]:
            return self.score(body)
        with world.lock:
            world.count += 1
            name = f"generate-tokens-{world.count}"
            world.running[name] = "run"
            world.uses[body.get("model")] = world.uses.get(body.get("model"), 0) + 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.stream(name, ids, params, body.get("cache_salt"), body.get("model"))
        except OSError:
            pass  # the client closed the connection
        finally:
            with world.lock:
                world.running.pop(name, None)
                world.uses[body.get("model")] -= 1
                world.lock.notify_all()
        self.close_connection = True
        return None

    def event(self, value):
        text = "not json" if self.world.fault("broken") else json.dumps(value)
        size = self.world.fault("big")
        if size:
            text = "x" * size
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()

    def stream(self, name, prompt, params, salt, adapter):
        world, drawn, spans = self.world, 0, []
        rng = random.Random(name)
        while True:
            with world.lock:
                while world.paused and world.running.get(name) == "run":
                    world.lock.wait(0.1)
                state, weights, label = world.running.get(name), world.weights(adapter), world.label
                if state == "run" and world.seed == TORN:
                    world.overlap += 1
                if world.faults.get("prefix"):
                    key = (tuple(prompt), salt if world.faults["prefix"] == "salted" else None)
                    weights = world.prefixes.setdefault(key, weights)
            if state != "run" or (params["max_tokens"] > 1 and world.fault("no_ids")):
                return self.end_answer(name, "abort", [], [], spans)
            if drawn and drawn == world.fault("cut"):
                return None
            if world.fault("slow_ms"):
                time.sleep(world.faults["slow_ms"] / 1000)
            id = world.script[drawn % len(world.script)] if world.script else rng.randrange(world.vocab)
            if world.fault("outside"):
                id = world.vocab
            content = [self.content(id, weights, len(prompt) + drawn, params)]
            fault = world.fault("logprob")
            if fault == "short":
                content = []
            if not spans or spans[-1]["version"] != label:
                spans.append({"version": label, "start": drawn, "end": drawn})
            drawn += 1
            spans[-1]["end"] = drawn
            finish = "stop" if id in params["stop_token_ids"] else "length" if drawn >= params["max_tokens"] else None
            if finish:
                return self.end_answer(name, finish, [id], content, spans)
            self.event({"request_id": name, "choices": [{"index": 0, "token_ids": [id], "finish_reason": None,
                                                          "logprobs": {"content": content}, "weight_versions": None}]})

    def content(self, id, weights, position, params):
        fault = self.world.fault("logprob")
        value = self.world.logprob(weights, position) if fault in (None, False, "short", "missing") else fault
        if params.get("structured_outputs") and fault in (None, False):
            value /= 2  # masked
        if fault == "nan":
            value = -9999.0  # as vLLM writes it
        entry = {"token_id": id, "logprob": None if fault == "missing" else value, "rank": 1, "top_logprobs": []}
        heat = params["temperature"] if self.world.fault("processed") else 1
        if params.get("logprobs"):
            first = 12.0 if self.world.fault("logits") else -2.0
            entry["top_logprobs"] = [{"token_id": i, "logprob": (first - i) / heat, "rank": i + 1}
                                     for i in range(params["logprobs"])]
        return entry

    def end_answer(self, name, reason, ids, content, spans):
        world = self.world
        spans = [dict(span) for span in spans]
        if world.fault("foreign"):
            for span in spans:
                span["version"] = world.faults["foreign"]
        if world.fault("bad_spans") and spans:
            spans[-1]["end"] -= 1
        with world.lock:
            world.running.pop(name, None)
            world.lock.notify_all()
        self.event({"request_id": name, "choices": [
            {"index": 0, "token_ids": ids, "finish_reason": reason, "logprobs": {"content": content},
             "weight_versions": None if world.fault("no_spans") else spans}]})
        self.wfile.write(b"data: [DONE]\n\n")

    def score(self, body):
        world, ids = self.world, body["token_ids"]
        time.sleep(world.faults.get("score_ms", 0) / 1000)
        with world.lock:
            while world.paused:
                world.lock.wait(0.1)
            weights, label = world.weights(body.get("model")), world.label
        scores = [None] + [{str(id): {"logprob": world.logprob(weights, i), "rank": 1}} for i, id in enumerate(ids) if i > 0]
        params = body["sampling_params"]
        self.answer(200, {"request_id": "s", "prompt_logprobs": scores, "choices": [
            {"index": 0, "token_ids": [0], "finish_reason": "length",
             "logprobs": {"content": [self.content(0, weights, len(ids), params)]},
             "weight_versions": [{"version": label, "start": 0, "end": 1}]}]})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="")
    parser.add_argument("--vocab", type=int, default=24)
    parser.add_argument("--context", type=int, default=4096)
    args = parser.parse_args()
    Handler.world = World(args)
    server = Server(("127.0.0.1", args.port), Handler)
    print(f"Running on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
