#!/usr/bin/env python3
"""Ingot's own engine compared with vLLM, on the CPU: tokens per second of the same model and the same requests.

    python3 benchmarks/vllm_peer.py build/release/ingot --vllm build/peers-vllm/bin/vllm --model DIR
        [--streams 1 4 16 64] [--prompt 64] [--new 64] [--rounds 3] [--threads 2]

DIR is a Hugging Face folder with bf16 weights. Both programs serve it over HTTP (/v1/completions, token ids in, temperature
1, the log-prob of each sampled token out), and every round sends both the same requests:

    prefill        4 requests with prompts of 512 ids, one new token each: prompt tokens per second
    N streams      N requests at once, each with its own prompt: new tokens per second
    a group of 16  16 requests at once with one prompt of 512 ids: new tokens per second

Rounds alternate, and one of each is not counted. Prints the median with the least and the greatest rate.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time

LONG = 512  # ids of a long prompt


class Server:
    """A server that runs until close(); `argv` has {port} in it."""

    def __init__(self, name, argv, environment, health):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.name = name
        argv = [word.replace("{port}", str(self.port)) for word in argv]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        end = time.time() + 600
        while not self.healthy(health):
            if self.process.poll() is not None or time.time() > end:
                sys.exit(f"{name} did not come up")
            time.sleep(0.5)

    def healthy(self, path):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except OSError:
            return False

    def sample(self, request):
        """New tokens of one answer, each with its log-prob."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        connection.request("POST", "/v1/completions", json.dumps(request), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            sys.exit(f"{self.name} answered {response.status}: {answer}")
        tokens = answer["usage"]["completion_tokens"]
        # Ingot leaves out the end-of-sequence id, which has no text.
        if len(answer["choices"][0]["logprobs"]["token_logprobs"]) < tokens - 1:
            sys.exit(f"{self.name} returned {tokens} tokens, but not all of their log-probs")
        return tokens

    def rate(self, requests, per_request=None):
        """New tokens per second of requests sent at once; with `per_request`, that many tokens count for each."""
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            tokens = sum(pool.map(self.sample, requests))
        return (tokens if per_request is None else per_request * len(requests)) / (time.perf_counter() - begin)

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def requests_of(prompts, new):
    return [{"model": "peer", "prompt": prompt, "max_tokens": new, "temperature": 1, "logprobs": 1} for prompt in prompts]


def compare(servers, name, rounds, make, per_request=None):
    rates = {server.name: [] for server in servers}
    for turn in range(rounds + 1):
        requests = make()
        for server in servers if turn % 2 else servers[::-1]:
            rate = server.rate(requests, per_request)
            if turn > 0:
                rates[server.name].append(rate)
    texts = [f"{n} {statistics.median(r):.1f} ({min(r):.1f} to {max(r):.1f})" for n, r in rates.items()]
    first, second = (statistics.median(rates[server.name]) for server in servers)
    print(f"{name:>14}: {', '.join(texts)}, ratio {first / second:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--vllm", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    vocabulary = json.load(open(f"{options.model}/config.json", encoding="utf-8"))["vocab_size"]
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), VLLM_TARGET_DEVICE="cpu", VLLM_CPU_KVCACHE_SPACE="2",
                       VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1")
    environment["PATH"] = f"{os.path.dirname(os.path.abspath(options.vllm))}:{environment['PATH']}"
    print(f"{options.model}: prompts of {options.prompt}, {options.new} new, {options.threads} threads; tokens/s, median (least to greatest)")
    servers = []
    try:
        servers.append(Server("ingot", [options.binary, "serve", options.model, "--port", "{port}", "--any-model-name"],
                              environment, "/healthz"))
        servers.append(Server("vllm", [options.vllm, "serve", options.model, "--port", "{port}", "--served-model-name", "peer",
                                       "--max-model-len", "2048", "--max-num-seqs", "64", "--dtype", "bfloat16"],
                              environment, "/health"))
        draw = random.Random(1)

        def prompt(ids):
            return [draw.randrange(1000, min(vocabulary, 40000)) for _ in range(ids)]

        compare(servers, "prefill", options.rounds, lambda: requests_of([prompt(LONG) for _ in range(4)], 1), LONG)
        for streams in options.streams:
            compare(servers, f"{streams} streams", options.rounds,
                    lambda n=streams: requests_of([prompt(options.prompt) for _ in range(n)], options.new))
        compare(servers, "a group of 16", options.rounds, lambda: requests_of([prompt(LONG)] * 16, options.new))
    finally:
        for server in servers:
            server.close()


if __name__ == "__main__":
    main()
