#!/usr/bin/env python3
"""Three adapters at once in a real vLLM and in `ingot serve --adapter`: vllm_adapters.py BINARY SOURCE_DIR VLLM.

Trains a small base model and three versions of an adapter with Ingot's own engine, and writes the versions as PEFT folders. Both
servers then answer greedily from the three versions at the same time. Both must give the same ids, and log-probs that differ by
less than 1e-5. Prints one line per version. The base model is not asked: beside requests to adapters, vLLM 0.32.0 for CPUs
answers for it with log-probs that are wrong by up to 1. A run asks for no base model, because each of its versions is an adapter.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from vllm_runs import environment

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "app/runs"))
from ingot_runs import Ingot, check, serving  # noqa: E402

MOST_DIFFERENCE = 1e-5
VERSIONS, PROMPTS, NEW = 3, 8, 40
START_S = 1800
SETTINGS = {"sft.max_steps": 60, "scheduler.groups_per_step": 2, "scheduler.group_size": 4, "scheduler.max_drops_per_batch": 8,
            "goal.first_steps": 0, "goal.last_steps": 0, "eval.tasks": "", "http.port": 0, "trainer.checkpoint_every": 1,
            "trainer.keep_checkpoints": VERSIONS}
# Steps that are large enough for versions that differ.
LORA = {"trainer.lora.rank": 8, "trainer.learning_rate": 0.01, "trainer.warmup_steps": 0, "trainer.reference_kl_coefficient": 0,
        "trainer.max_step_kl": 0, "trainer.max_step_kl_position": 0}


def checkpoints(ingot, name):
    return sorted(pathlib.Path(f"{ingot.folder}/{name}/checkpoints").glob("step-*"))


def train(ingot):
    """The folder of the base model, and those of the adapters by name."""
    code, output = ingot.run("train", {**SETTINGS, "run.name": "base", "scheduler.total_steps": 1})
    check(code == 0, output)
    base = pathlib.Path(ingot.folder) / "base-model"  # vLLM would also read a checkpoint's optimizer
    done = ingot.call("model", "export", "--model", checkpoints(ingot, "base")[-1], base, timeout=120)
    check(done.returncode == 0, done.stderr)
    code, output = ingot.run("train", {**SETTINGS, **LORA, "run.name": "lora", "scheduler.total_steps": VERSIONS, "model.path": base,
                                       "sft.max_steps": 0})
    check(code == 0, output)
    adapters = {}
    for checkpoint in checkpoints(ingot, "lora"):
        out = pathlib.Path(ingot.folder) / f"adapter-{len(adapters) + 1}"
        done = ingot.call("model", "adapter", "--model", checkpoint, "--base", "base", out, timeout=120)
        check(done.returncode == 0, done.stderr)
        adapters[out.name] = out
    check(len(adapters) == VERSIONS, f"adapters: {sorted(adapters)}")
    return base, adapters


def post(address, path, body):
    connection = http.client.HTTPConnection(address, timeout=300)
    connection.request("POST", path, json.dumps(body), {"Authorization": "Bearer any", "Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read().decode()
    check(response.status == 200, f"{path}: {response.status} {text[:500]}")
    return text


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def kill_group(server):
    """A server has processes of its own, and one that still starts outlives a request to end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


@contextlib.contextmanager
def serve_vllm(vllm, base, adapters, log):
    """The address of a server with the adapters."""
    address = f"127.0.0.1:{free_port()}"
    words = [vllm, "serve", base, "--served-model-name", "base", "--host", "127.0.0.1", "--port", address.split(":")[1],
             "--enable-scale-out", "--skip-tokenizer-init", "--dtype", "float32", "--max-model-len", "512", "--max-num-seqs", "40",
             "--enforce-eager", "--enable-lora", "--max-lora-rank", "8", "--max-loras", str(VERSIONS)]
    more = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
    with open(log, "w", encoding="utf-8") as output:
        server = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=environment(vllm) | more,
                                  start_new_session=True)
    try:
        end = time.time() + START_S
        while not healthy(address):
            check(server.poll() is None and time.time() < end, f"vLLM does not start: {log.read_text(errors='replace')[-3000:]}")
            time.sleep(1)
        for name, folder in adapters.items():
            post(address, "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        yield address
    finally:
        kill_group(server)


def healthy(address):
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def ask_vllm(address, model, prompt):
    body = {"model": model, "token_ids": prompt, "stream": False,
            "sampling_params": {"temperature": 0, "max_tokens": NEW, "logprobs": 0, "ignore_eos": True, "detokenize": False}}
    choice = json.loads(post(address, "/inference/v1/generate", body))["choices"][0]
    return choice["token_ids"], [entry["logprob"] for entry in choice["logprobs"]["content"]]


def ask_ingot(address, model, prompt):
    body = {"model": model, "prompt": prompt, "temperature": 0, "max_tokens": NEW, "logprobs": 0, "ignore_eos": True,
            "return_token_ids": True}
    choice = json.loads(post(address, "/v1/completions", body))["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"]


def answers(ask, address, models, prompts):
    """The answers by model, asked at once and in turn."""
    with concurrent.futures.ThreadPoolExecutor(len(models) * len(prompts)) as pool:
        asked = [(model, pool.submit(ask, address, model, prompt)) for prompt in prompts for model in models]
        found = {model: [] for model in models}
        for model, answer in asked:
            found[model].append(answer.result())
    return found


def compare(ours, theirs):
    """Prints a line per model, and returns whether all is right."""
    good = True
    for model, mine in ours.items():
        differences = [abs(a - b) for (_, x), (_, y) in zip(mine, theirs[model]) for a, b in zip(x, y)]
        same = sum(x == y for (x, _), (y, _) in zip(mine, theirs[model]))
        complete = len(differences) == PROMPTS * NEW and same == PROMPTS
        good = good and complete and max(differences) < MOST_DIFFERENCE
        print(f"{model:10} {same} of {PROMPTS} answers have the same ids; {len(differences)} log-probs, mean "
              f"{statistics.mean(p for _, logprobs in mine for p in logprobs):.2f}: mean difference "
              f"{statistics.mean(differences):.2e}, max {max(differences):.2e}", flush=True)
    different = len({str(answer) for answer in ours.values()}) == len(ours)
    print("ok" if good and different else "FAILED", "" if different else "two versions give the same answers")
    return good and different


def main():
    binary, source, vllm = map(os.path.abspath, sys.argv[1:4])
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as folder:
        ingot = Ingot(binary, source, folder)
        base, adapters = train(ingot)
        draw = random.Random(1)
        # The byte-level model's printable ids.
        prompts = [[draw.randrange(32, 127) for _ in range(10 + 5 * i)] for i in range(PROMPTS)]
        words = [base, "--model", "base"]
        for name, path in adapters.items():
            words += ["--adapter", f"{name}={path}"]
        models = list(adapters)
        with serving(ingot, *words) as line:
            ours = answers(ask_ingot, line.split("http://")[1].split("/")[0], models, prompts)
        with serve_vllm(vllm, base, adapters, pathlib.Path(folder) / "server.log") as address:
            theirs = answers(ask_vllm, address, models, prompts)
        return 0 if compare(ours, theirs) else 1


if __name__ == "__main__":
    sys.exit(main())
