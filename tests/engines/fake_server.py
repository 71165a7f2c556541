#!/usr/bin/env python3
"""A server that speaks vLLM's or SGLang's dialect, for tests: fake_server.py --dialect D --port N [--model DIR] [--vocab N]
[--known N] [--log FILE].

Its model's log-probs depend on the loaded weights and the position alone, so that a test knows which weights drew a token:
logprob_of(seed, position), where the seed is made of the model's file. Ids are random, or those that POST /fake/script
names: "ids" for all prompts, or "by_prompt" for the ids of a prompt, joined by spaces. Random ids are below --vocab. As the real
servers do, it rejects biases of ids outside its vocabulary, whose size is --known, or that in the model's config.json, or --vocab. With
--log, it writes each label to FILE with the seed of the weights. POST /fake/faults takes a JSON object of faults; each holds until it is
set again:

  load          N: the next N loads fail, and leave the weights torn (a seed of their own)
  keep          what stays of the earlier weights after a load that answers 200 and is labeled anew: "all"; "head" or
                "tensor": a part of them, which moves log-probs by a little; "half": half of the numbers; "cast": nothing,
                but the new weights are rounded; "quantized": the same, to few bits; "adapter": another adapter is added
  names         text: each load fails with this message, and leaves the weights as they were
  keep_loads    N: the next N loads do so, of adapters too, which keep parts of the adapter that was loaded before
  load_ms, score_ms   N: time per load, during which the weights are torn, and per scored prompt
  prefix        true: sampled ids use the KV cache of the first weights that saw the prompt, whatever the salt;
                "salted": of those that saw it with the same salt
  pause, resume, label   N: the next N such calls answer 500
  adapter       N: the next N loads of adapters fail
  wrong_adapter N: the next N loads of adapters load another one
  no_adapters   true: there are no routes for adapters, or adapters are off
  no_routes     true: there are no routes that change weights
  health        true: /health answers 503
  logprob       a number in place of each log-prob, or "nan", "missing", "short"
  foreign       a label in place of the server's own in weight_versions
  no_spans      true: answers have no weight_versions
  bad_spans     true: they do not cover the answer
  no_ids        true: answers of more than one id are aborted before the first
  cut           N: streams break off after N tokens
  end           true: streams end at their next token, as at a stop id
  broken        true: events are not JSON
  big           N: an event has N bytes
  outside       true: ids are outside the vocabulary
  slow_ms       N: time per token
  burst         N: an event has up to N tokens
  processed     whether log-probs are those after the temperature; at first, as the real server's are
  logits        true: alternatives have logits in place of log-probs
  refuse        true: requests get a 400 that repeats their key
  no_bias       "ignored" or "rejected": what happens to biases
  cumulative, overlap   true: SGLang runs without --incremental-streaming-output, or with the overlap scheduler

As vLLM 0.32.0 for CPUs does, it exits when it scores given ids under an adapter while other requests run.

With --front URL URL ..., it is a load balancer instead: each connection goes to the next of these servers that accepts it.
With --spawn, it starts a server for each line of arguments on its standard input, and prints its process id and URL. The
servers end with it.
"""
import argparse
import ctypes
import hashlib
import http.server
import json
import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time

TORN = 999999937  # the seed of weights of which a part is old


def logprob_of(seed, position):
    """In (-2.1, -0.1], with six decimals; tests/engines/fake_server.h has the same function."""
    return -0.1 - ((seed * 1000003 + position * 7919) % 2000000) / 1e6


# How much of the log-probs is the earlier weights', and what is added.
KEPT = {"all": (1, 0), "head": (0.3, 0), "tensor": (0.02, 0), "half": (0.5, 0), "cast": (0, 0.004), "quantized": (0, 0.03),
        "adapter": (0, -0.05)}


def seed_of(model_dir):
    """The number that the file of a model or an adapter holds, or one made of its bytes."""
    (file,) = pathlib.Path(model_dir).glob("*model.safetensors")
    data = file.read_bytes()
    return int(data) if data.isdigit() else int.from_bytes(hashlib.sha256(data).digest()[:4], "big")


def known_in(model_dir):
    """The vocabulary's size of a model folder, 0 if it does not say."""
    config = pathlib.Path(model_dir or "/nowhere", "config.json")
    return json.loads(config.read_text()).get("vocab_size", 0) if config.exists() else 0


class World:
    def __init__(self, args):
        self.vocab, self.context = args.vocab, args.context
        self.known = args.known or known_in(args.model) or args.vocab
        self.lock = threading.Condition()
        self.seed, self.label = seed_of(args.model) if args.model else 0, "default"
        self.paused, self.script, self.scripts = False, [], {}
        self.log = args.log
        self.faults = {"processed": args.dialect == "sglang"} | args.faults
        self.running, self.count, self.aborted, self.calls = {}, 0, 0, []
        self.overlap = 0  # tokens drawn while the weights were torn
        self.earlier, self.kept = 0, None  # the seed before the last load, and what of it was kept
        self.prefixes = {}  # weights that saw a prompt first
        self.adapters = {}  # the weights of each adapter by its name
        self.last_adapter = 0  # the seed of the last one that was loaded as a whole
        self.scoring = 0    # requests that score given ids under an adapter
        self.uses = {}      # requests that run on each adapter
        self.torn_from = 0  # adapters that were unloaded under a request

    def weights(self, adapter=None):
        """What determines log-probs. Call with the lock."""
        if adapter is not None:
            return self.adapters.get(adapter, (TORN, 0, None))
        return self.seed, self.earlier, self.kept

    def logprob(self, weights, position):
        seed, earlier, kept = weights
        share, added = KEPT.get(kept, (0, 0))
        new, old = logprob_of(seed, position), logprob_of(earlier, position)
        if added > 0:  # rounding goes both ways
            added *= 1 if position % 2 else -1
        return min(-1e-6, (1 - share) * new + share * old + added)

    def write_log(self, entry):
        if self.log:
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def fault(self, name):
        """A fault that holds, or one more of those that are counted."""
        with self.lock:
            value = self.faults.get(name)
            if isinstance(value, bool) or not isinstance(value, int):
                return value
            if name in ("load", "keep_loads", "pause", "resume", "label", "adapter", "wrong_adapter"):
                self.faults[name] = max(0, value - 1)
            return value > 0 and value


class Ask:
    """A request, whatever its dialect."""

    def __init__(self, ids, params, most, salt, adapter, tops, stream, scored_from=0):
        self.ids, self.salt, self.adapter, self.tops, self.stream, self.scored_from = ids, salt, adapter, tops, stream, scored_from
        self.most, self.stops, self.heat = most, params.get("stop_token_ids", []), params["temperature"]
        self.masked = any(key in params for key in ("structured_outputs", "structural_tag"))
        self.bias = {int(id): value for id, value in params.get("logit_bias", {}).items()}


class Handler(http.server.BaseHTTPRequestHandler):
    """What both dialects have in common."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise, each response waits 40 ms for the acknowledgment of its head
    world = None
    exits_at_mixed_scores = False

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
        if self.path == "/fake/state":
            with world.lock:
                self.answer(200, {"running": len(world.running), "count": world.count, "aborted": world.aborted, "seed": world.seed,
                                  "label": world.label, "paused": world.paused, "torn": world.seed == TORN, "calls": world.calls,
                                  "overlap": world.overlap, "adapters": world.adapters, "torn_from": world.torn_from})
        elif not self.get(self.path):
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        world, path, body = self.world, self.path.split("?")[0], self.body()
        if path == "/fake/faults":
            with world.lock:
                world.faults.update(body)
        elif path == "/fake/script":
            world.script, world.scripts = body.get("ids", []), body.get("by_prompt", {})
        elif path == "/fake/label":
            world.label = body["label"]
        elif not self.post(path, body):
            return self.answer(404, {"detail": "Not Found"})
        else:
            return None
        return self.answer(200, {})

    def note(self, call):
        with self.world.lock:
            self.world.calls.append(call)

    def abort(self, chosen):
        world = self.world
        with world.lock:
            for name in world.running:
                if chosen(name):
                    world.running[name] = "abort"
                    world.aborted += 1
            world.lock.notify_all()

    def pause(self, aborts=False, waits=False):
        world = self.world
        if world.fault("pause"):
            return self.answer(500, {"error": "pause"})
        with world.lock:
            world.paused = not waits
            if aborts:
                for name in world.running:
                    world.running[name] = "abort"
            world.lock.notify_all()
            while waits and world.running:
                world.lock.wait(0.05)
            world.paused = True
        return self.answer(200, {"status": "paused"})

    def resume(self):
        world = self.world
        if world.fault("resume"):
            return self.answer(500, {"error": "resume"})
        with world.lock:
            world.paused = False
            world.lock.notify_all()
        return self.answer(200, {"status": "resumed"})

    def set_label(self, label):
        if self.world.fault("label"):
            return self.answer(500, {"error": "label"})
        self.world.label = label
        self.world.write_log({"label": label, "seed": self.world.seed})
        return self.answer(200, {"success": True})

    def load(self, path):
        """Returns what went wrong, or an empty string."""
        world = self.world
        if world.fault("load"):
            with world.lock:
                world.seed = TORN
            return "the load failed halfway"
        if world.faults.get("names"):
            return world.faults["names"]
        try:
            seed = seed_of(path)
        except (OSError, ValueError) as error:
            return f"cannot read {path}: {error}"
        with world.lock:
            before, world.seed = world.seed, TORN
        time.sleep(world.faults.get("load_ms", 0) / 1000)
        kept = world.faults.get("keep") if world.fault("keep_loads") else None
        with world.lock:
            world.earlier = before if world.kept is None else world.earlier
            world.kept, world.seed = kept, seed
        return ""

    def load_adapter(self, name, path):
        world = self.world
        if world.fault("adapter"):
            return "the adapter cannot be loaded"
        seed = seed_of(path) + (7 if world.fault("wrong_adapter") else 0)
        kept = world.faults.get("keep") if world.fault("keep_loads") else None
        with world.lock:
            world.adapters[name] = seed, world.last_adapter, kept
            world.last_adapter = seed if kept is None else world.last_adapter
        return ""

    def unload_adapter(self, name):
        world = self.world
        with world.lock:
            world.torn_from += 1 if world.uses.get(name) else 0
            return world.adapters.pop(name, None) is not None

    def generate(self, ask):
        world = self.world
        if ask.adapter is not None and ask.adapter not in world.adapters:
            return self.unknown_adapter(ask)
        if world.fault("refuse"):
            return self.refuse(f"refused {self.headers.get('Authorization')}")
        if ask.bias and world.faults.get("no_bias") == "rejected":
            return self.refuse("logit_bias is not supported")
        if any(id >= world.known for id in ask.bias) and not world.faults.get("no_bias"):
            return self.refuse(f"logit_bias contains an id that is not in the vocabulary of {world.known}")
        if not ask.stream:
            return self.score(ask)
        with world.lock:
            world.count += 1
            name = f"generate-tokens-{os.getpid()}-{world.count}"
            world.running[name] = "run"
            self.check_batch()
            world.uses[ask.adapter] = world.uses.get(ask.adapter, 0) + 1
        self.begin_stream()
        try:
            self.stream(name, ask)
        except OSError:
            pass  # the client closed the connection
        finally:
            with world.lock:
                world.running.pop(name, None)
                world.uses[ask.adapter] -= 1
                world.lock.notify_all()
        self.close_connection = True
        return None

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, value):
        text = "not json" if self.world.fault("broken") else json.dumps(value)
        size = self.world.fault("big")
        if size:
            text = "x" * size
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()

    def stream(self, name, ask):
        world, drawn, spans = self.world, 0, []
        rng = random.Random(name)
        script = world.scripts.get(" ".join(map(str, ask.ids)), world.script)
        held, burst = [], 1  # ids and log-probs of the next event, and how many it gets
        while True:
            with world.lock:
                while world.paused and world.running.get(name) == "run":
                    world.lock.wait(0.1)
                state, weights, label = world.running.get(name), world.weights(ask.adapter), world.label
                if state == "run" and world.seed == TORN:
                    world.overlap += 1
                if world.faults.get("prefix"):
                    key = (tuple(ask.ids), ask.salt if world.faults["prefix"] == "salted" else None)
                    weights = world.prefixes.setdefault(key, weights)
            if state != "run" or (ask.most > 1 and world.fault("no_ids")):
                if held:
                    self.token(name, held, drawn, ask)
                return self.end_answer(name, "abort", [], spans, drawn)
            if drawn and drawn == world.fault("cut"):
                return None
            if world.fault("slow_ms"):
                time.sleep(world.faults["slow_ms"] / 1000)
            id = script[drawn % len(script)] if script else rng.randrange(world.vocab)
            id = next((biased for biased, value in ask.bias.items() if value >= 100 and not world.faults.get("no_bias")), id)
            if world.fault("outside"):
                id = world.known
            held.append((id, self.reported(weights, len(ask.ids) + drawn, ask)))
            if not spans or spans[-1]["version"] != label:
                spans.append({"version": label, "start": drawn, "end": drawn})
            drawn += 1
            spans[-1]["end"] = drawn
            finish = "stop" if id in ask.stops or world.faults.get("end") else "length" if drawn >= ask.most else None
            if finish:
                return self.end_answer(name, finish, held, spans, drawn, ask)
            if len(held) >= burst:
                self.token(name, held, drawn, ask)
                held, burst = [], rng.randint(1, world.fault("burst") or 1)

    def reported(self, weights, position, ask):
        """The log-prob of a drawn token: a number, "nan", "missing", or "short"."""
        fault = self.world.fault("logprob")
        if fault not in (None, False):
            return fault
        value = self.world.logprob(weights, position)
        return value / 2 if ask.masked else value

    def tops(self, ask):
        heat = ask.heat if self.world.fault("processed") else 1
        first = 12.0 if self.world.fault("logits") else -2.0
        return [(i, (first - i) / (heat or 1)) for i in range(ask.tops)]

    def end_answer(self, name, reason, tokens, spans, drawn, ask=None):
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
        self.last(name, reason, tokens, None if world.fault("no_spans") else spans, drawn, ask)
        self.wfile.write(b"data: [DONE]\n\n")

    def check_batch(self):
        """Call with the lock."""
        if self.exits_at_mixed_scores and self.world.scoring and self.world.running:
            os._exit(1)

    def score(self, ask):
        with self.world.lock:
            self.world.scoring += ask.adapter is not None
            self.check_batch()
        try:
            self.score_alone(ask)
        finally:
            with self.world.lock:
                self.world.scoring -= ask.adapter is not None

    def score_alone(self, ask):
        world = self.world
        time.sleep(world.faults.get("score_ms", 0) / 1000)
        with world.lock:
            while world.paused:
                world.lock.wait(0.1)
            weights, label = world.weights(ask.adapter), world.label
        scores = [(id, world.logprob(weights, i)) for i, id in enumerate(ask.ids)]
        self.scored(ask, scores, self.reported(weights, len(ask.ids), ask), [{"version": label, "start": 0, "end": 1}])


class Vllm(Handler):
    exits_at_mixed_scores = True

    def get(self, path):
        world = self.world
        if path == "/health":
            self.answer(503 if world.fault("health") else 200, {})
        elif path == "/weight_info":
            self.answer(200, {"weight_version": world.label})
        elif path == "/v1/models":
            self.answer(200, {"data": [{"id": "m", "max_model_len": world.context}]})
        else:
            return False
        return True

    def post(self, path, body):
        if path == "/inference/v1/generate":
            if self.world.fault("no_scale_out"):
                self.answer(403, {"detail": "Scale-out endpoints are disabled"})
            else:
                params = body["sampling_params"]
                self.generate(Ask(body["token_ids"], params, params["max_tokens"], body.get("cache_salt"), body.get("model"),
                                  params.get("logprobs") or 0, body["stream"]))
        elif path == "/inference/v1/abort_requests":
            self.abort(lambda name: name in body["request_ids"])
            self.answer(200, {})
        elif not self.world.fault("no_routes"):
            self.note(self.path)
            return self.control(path, body)
        else:
            return False
        return True

    def control(self, path, body):
        if path == "/pause":
            self.pause(aborts="mode=abort" in self.path, waits="mode=wait" in self.path)
        elif path == "/collective_rpc":
            wrong = self.load(body["kwargs"]["weights_path"])
            self.answer(500 if wrong else 200, {"error": {"message": wrong}} if wrong else {"results": [None]})
        elif path == "/update_weight_version":
            self.set_label(body["new_version"])
        elif path == "/resume":
            self.resume()
        elif path == "/v1/load_lora_adapter" and not self.world.fault("no_adapters"):
            wrong = self.load_adapter(body["lora_name"], body["lora_path"])
            self.answer(500 if wrong else 200, {"error": {"message": wrong}})
        elif path == "/v1/unload_lora_adapter" and not self.world.fault("no_adapters"):
            self.answer(200 if self.unload_adapter(body["lora_name"]) else 404, {})
        else:
            return False
        return True

    def unknown_adapter(self, ask):
        self.answer(404, {"error": {"message": "The model does not exist.", "type": "NotFoundError"}})

    def refuse(self, message):
        self.answer(400, {"error": {"message": message}})

    def content(self, tokens, ask):
        values = {"nan": -9999.0, "missing": None}  # vLLM writes the number for not a number
        return [{"token_id": id, "logprob": values.get(logprob, logprob), "rank": 1,
                 "top_logprobs": [{"token_id": i, "logprob": top, "rank": i + 1} for i, top in self.tops(ask)]}
                for id, logprob in tokens if logprob != "short"]

    def choice(self, name, ids, finish, content, spans):
        return {"request_id": name, "choices": [{"index": 0, "token_ids": ids, "finish_reason": finish,
                                                 "logprobs": {"content": content}, "weight_versions": spans}]}

    def token(self, name, tokens, drawn, ask):
        self.event(self.choice(name, [id for id, _ in tokens], None, self.content(tokens, ask), None))

    def last(self, name, reason, tokens, spans, drawn, ask):
        self.event(self.choice(name, [id for id, _ in tokens], reason, self.content(tokens, ask), spans))

    def scored(self, ask, scores, logprob, spans):
        listed = [None] + [{str(id): {"logprob": value, "rank": 1}} for id, value in scores[1:]]
        self.answer(200, self.choice("s", [0], "length", self.content([(0, logprob)], ask), spans) | {"prompt_logprobs": listed})


# The keys of sampling_params that Ingot sends; SGLang rejects those that it does not know.
SGLANG_KEYS = {"max_new_tokens", "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty",
               "repetition_penalty", "min_new_tokens", "logit_bias", "stop_token_ids", "ignore_eos", "sampling_seed",
               "structural_tag"}


class Sglang(Handler):
    def get(self, path):
        world = self.world
        if path == "/model_info":
            self.answer(503 if world.fault("health") else 200, {"model_path": "m", "weight_version": world.label})
        elif path == "/server_info":
            self.answer(200, {"max_req_input_len": world.context - 6, "skip_tokenizer_init": True,
                              "incremental_streaming_output": not world.fault("cumulative"),
                              "disable_overlap_schedule": not world.fault("overlap")})
        else:
            return False
        return True

    def post(self, path, body):
        if path == "/generate":
            params = body["sampling_params"]
            unknown = set(params) - SGLANG_KEYS
            if unknown:
                self.answer(400, {"error": f"unknown field `{sorted(unknown)[0]}`"})
            else:
                assert body["return_logprob"] is True
                self.generate(Ask(body["input_ids"], params, params["max_new_tokens"], body.get("extra_key"),
                                  body.get("lora_path"), body.get("top_logprobs_num", 0), body["stream"],
                                  body.get("logprob_start_len", 0)))
        elif path == "/abort_request":
            self.abort(lambda name: body.get("abort_all") or name.startswith(body["rid"]))
            self.answer(200, {})
        elif not self.world.fault("no_routes"):
            self.note(f"{path} {body['mode']}" if "mode" in body else path)
            return self.control(path, body)
        else:
            return False
        return True

    def control(self, path, body):
        world = self.world
        if path == "/pause_generation":
            assert body["mode"] in ("in_place", "retract")
            world.retracted = body["mode"] == "retract"
            self.pause()
        elif path == "/flush_cache":
            held = world.running and not (world.paused and world.retracted)
            self.answer(400 if held else 200, "Flush cache failed.")
        elif path == "/update_weights_from_disk":
            wrong = self.load(body["model_path"]) or ("requests are running" if body["flush_cache"] else "")
            self.answer(400 if wrong else 200, {"success": not wrong, "message": wrong, "num_paused_requests": 0})
        elif path == "/update_weight_version":
            if body["abort_all_requests"]:
                self.abort(lambda name: True)
            self.set_label(body["new_version"])
        elif path == "/continue_generation":
            self.resume()
        elif path == "/load_lora_adapter":
            wrong = ("LoRA is not enabled. Please set `--enable-lora`" if world.fault("no_adapters") else
                     "already loaded" if body["lora_name"] in world.adapters else
                     self.load_adapter(body["lora_name"], body["lora_path"]))
            self.answer(400 if wrong else 200, {"success": not wrong, "error_message": wrong})
        elif path == "/unload_lora_adapter":
            known = self.unload_adapter(body["lora_name"])
            self.answer(200 if known else 400, {"success": known})
        else:
            return False
        return True

    def unknown_adapter(self, ask):
        self.refuse(f"Got LoRA adapter that has never been loaded: {ask.adapter}", stream=ask.stream)

    def refuse(self, message, stream=True):
        error = {"error": {"message": message, "type": "invalid_request_error", "code": 400}}
        if not stream:
            return self.answer(400, error)
        self.begin_stream()
        self.wfile.write(f"data: {json.dumps(error)}\n\ndata: [DONE]\n\n".encode())
        self.close_connection = True
        return None

    def meta(self, name, drawn, entries, ask, **more):
        tops = [[[top, i, None] for i, top in self.tops(ask)] for _ in entries] if ask and ask.tops else []
        return {"id": name, "finish_reason": None, "completion_tokens": drawn, "output_token_logprobs": entries,
                "output_top_logprobs": tops, "weight_version": self.world.label} | more

    def entries(self, tokens):
        return [[None if logprob in ("nan", "missing") else logprob, id, None] for id, logprob in tokens if logprob != "short"]

    def token(self, name, tokens, drawn, ask):
        self.event({"output_ids": [id for id, _ in tokens], "meta_info": self.meta(name, drawn, self.entries(tokens), ask)})

    def last(self, name, reason, tokens, spans, drawn, ask):
        finish = {"type": reason, "message": "Abort in waiting queue"} if reason == "abort" else {"type": reason}
        more = {"finish_reason": finish} | ({} if spans is None else {"weight_versions": spans})
        if not tokens:  # it repeats an id, without its log-prob
            return self.event({"output_ids": [0] * min(drawn, 1), "meta_info": self.meta(name, drawn, [], None, **more)})
        return self.event({"output_ids": [id for id, _ in tokens],
                           "meta_info": self.meta(name, drawn, self.entries(tokens), ask, **more)})

    def scored(self, ask, scores, logprob, spans):
        chosen = scores[ask.scored_from:]
        listed = [[None if i == 0 else value, 0 if id == self.world.vocab - 1 else id, None] for i, (id, value) in enumerate(chosen)]
        meta = self.meta("s", 1, self.entries([(0, logprob)]), ask, finish_reason={"type": "length", "length": 1},
                         weight_versions=spans, input_token_logprobs=listed)
        self.answer(200, {"output_ids": [0], "meta_info": meta})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def serve(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--dialect", choices=("vllm", "sglang"), default="vllm")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="")
    parser.add_argument("--vocab", type=int, default=24)
    parser.add_argument("--known", type=int, default=0)
    parser.add_argument("--log", default="")
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--faults", type=json.loads, default={})
    args = parser.parse_args(words)
    handler = Sglang if args.dialect == "sglang" else Vllm
    handler.world = World(args)
    server = Server(("127.0.0.1", args.port), handler)
    print(f"{os.getpid()} Running on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


def forward(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def balance(urls):
    addresses = [(url.split("/")[2].split(":")[0], int(url.rsplit(":", 1)[1])) for url in urls]
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(f"{os.getpid()} Running on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    turn = 0
    while True:
        client, _ = listener.accept()
        for _ in addresses:
            turn += 1
            try:
                server = socket.create_connection(addresses[turn % len(addresses)])
                break
            except OSError:
                pass  # it is down
        else:
            client.close()
            continue
        for pair in ((client, server), (server, client)):
            threading.Thread(target=forward, args=pair, daemon=True).start()


def start(words):
    if words[:1] == ["--front"]:
        balance(words[1:])
    else:
        serve(words)


def spawn():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parent = os.getpid()
    for line in sys.stdin:
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() == parent:
                start(line.split())
            os._exit(1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--spawn"]:
        spawn()
    else:
        start(sys.argv[1:])
