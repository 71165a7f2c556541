#!/usr/bin/env python3
"""Adapters through the ingot binary: lora_run_tests.py BINARY SOURCE_DIR lora. Exits with 0 if every check holds.

Trains an adapter by RL over a frozen base, takes it out as a PEFT folder, folds it in, and serves two adapters beside their base.
"""
import array
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

from run_tests import SHORT, Ingot, check

ADAPTER = "adapter_model.safetensors"


def model(ingot, *argv, code=0):
    done = subprocess.run([ingot.binary, "model", *argv], cwd=ingot.source, capture_output=True, text=True, timeout=120)
    check(done.returncode == code, f"ingot model {' '.join(argv)}: {done.returncode} {done.stderr}")
    return json.loads(done.stdout) if code == 0 else done.stderr


def tensors(path):
    """(header, floats by name) of a safetensors file of fp32."""
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    values = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values[name] = array.array("f", data[8 + size + begin:8 + size + end])
    return header, values


def write_adapter(source, out, factor):
    """A copy of a PEFT folder with every B times `factor`."""
    out.mkdir()
    (out / "adapter_config.json").write_bytes((source / "adapter_config.json").read_bytes())
    header, values = tensors(source / ADAPTER)
    body = b"".join(array.array("f", [x * factor for x in values[name]] if "lora_B" in name else values[name]).tobytes()
                    for name in sorted(values, key=lambda name: header[name]["data_offsets"][0]))
    text = json.dumps(header).encode()
    (out / ADAPTER).write_bytes(len(text).to_bytes(8, "little") + text + body)


def checkpoint_of(ingot, name):
    return sorted(pathlib.Path(f"{ingot.folder}/{name}/checkpoints").glob("step-*"))[-1]


def train(ingot):
    code, output = ingot.run("train", dict(SHORT, **{"run.name": "base", "scheduler.total_steps": 1}))
    check(code == 0, output)
    base = checkpoint_of(ingot, "base")
    code, output = ingot.run("train", dict(SHORT, **{
        "run.name": "lora", "scheduler.total_steps": 2, "model.path": base, "data.sft": "", "trainer.lora.rank": 4,
        "trainer.lora.alpha": 8, "trainer.learning_rate": 0.02, "trainer.warmup_steps": 0, "numerics": "exact",
        "trainer.reference_kl_coefficient": 0, "trainer.max_step_kl": 0, "trainer.max_step_kl_position": 0}))
    check(code == 0, output)
    rows = [row for row in ingot.metrics("lora") if "mismatch/probe_tokens" in row]
    check(len(rows) == 2 and all(row["mismatch/logprob_abs_diff_max"] == 0 for row in rows), f"mismatch: {rows}")
    return base, checkpoint_of(ingot, "lora")


def check_folders(ingot, base, trained, adapter):
    frozen, moved = tensors(base / "model.safetensors")[1], tensors(trained / "model.safetensors")[1]
    check(all(moved[name] == frozen[name] for name in frozen), "the base has changed")
    factors = [name for name in moved if name not in frozen]
    check(factors and any(any(moved[name]) for name in factors if "lora_B" in name), "no adapter was trained")
    info = model(ingot, "info", "--model", str(trained))
    check(info["trained_parameters"] == sum(len(moved[name]) for name in factors), f"info: {info}")
    merged = pathlib.Path(ingot.folder) / "merged"
    model(ingot, "merge", "--model", str(trained), str(merged))
    model(ingot, "adapter", "--model", str(trained), "--base", "base", str(adapter))
    ids = "1,2,3,70,71,72"
    first = model(ingot, "logits", "--model", str(trained), "--ids", ids, "--all")["logits"]
    with_adapter = model(ingot, "logits", "--model", str(base), "--adapter", str(adapter), "--ids", ids, "--all")["logits"]
    folded = model(ingot, "logits", "--model", str(merged), "--ids", ids, "--all")["logits"]
    plain = model(ingot, "logits", "--model", str(base), "--ids", ids)["logits"]
    check(first == with_adapter, "an adapter beside its base is not the checkpoint's model")
    gap = max(abs(a - b) for x, y in zip(first, folded) for a, b in zip(x, y))
    check(gap < 1e-4, f"the folded model differs by {gap}")
    check(plain[0] != first[-1], "the adapter does nothing")
    check("another base" in model(ingot, "merge", "--model", str(base), "--adapter", str(adapter_of_another(adapter)), str(merged), code=2),
          "an adapter of another base was taken")
    check("outside the vocabulary" in model(ingot, "logits", "--model", str(base), "--ids", "1,999999", code=2), "ids")


def check_bench(ingot, base):
    done = subprocess.run([ingot.binary, "bench", "rollout", "--model", str(base), "--streams", "1,3", "--new-tokens", "8",
                           "--prompt-tokens", "40", "--repeat", "1"], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, done.stderr)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    check([(f["figure"], f["streams"]) for f in figures] == [("prefill", 1), ("decode", 1), ("decode", 3)], figures)
    check(all(f["tokens_per_second"] > 0 for f in figures), figures)


def adapter_of_another(adapter):
    """A copy whose factors have one row or column less."""
    out = adapter.with_name("another")
    out.mkdir()
    (out / "adapter_config.json").write_bytes((adapter / "adapter_config.json").read_bytes())
    header, values = tensors(adapter / ADAPTER)
    begin, body = 0, b""
    for name in sorted(values):
        rows, columns = header[name]["shape"]
        shape = [rows, columns - 1] if "lora_A" in name else [rows - 1, columns]
        size = 4 * shape[0] * shape[1]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, begin + size]}
        body += bytes(size)
        begin += size
    text = json.dumps(header).encode()
    (out / ADAPTER).write_bytes(len(text).to_bytes(8, "little") + text + body)
    return out


def check_serving(ingot, base, adapter):
    strong = adapter.with_name("strong")
    write_adapter(adapter, strong, -6.0)
    server = subprocess.Popen([ingot.binary, "serve", str(base), "--port", "0", "--model", "plain", "--adapter",
                               f"first={adapter}", "--adapter", f"second={strong}"], cwd=ingot.source,
                              stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split("http://")[1].split("/")[0]

        def ask(name):
            connection = http.client.HTTPConnection(address, timeout=60)
            body = {"model": name, "messages": [{"role": "user", "content": "item kt " * 20}], "max_tokens": 12,
                    "temperature": 0, "logprobs": True}
            connection.request("POST", "/v1/chat/completions", json.dumps(body),
                               {"Authorization": "Bearer any", "Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            check("choices" in answer, answer)
            return [entry["logprob"] for entry in answer["choices"][0]["logprobs"]["content"]]

        names = ["plain", "first", "second"]
        alone = {name: ask(name) for name in names}
        check(len({str(alone[name]) for name in names}) == 3, f"the adapters are not told apart: {alone}")
        together = {}
        threads = [threading.Thread(target=lambda name=name, i=i: together.__setitem__((name, i), ask(name)))
                   for i in range(4) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(len(together) == 12 and all(alone[name] == answer for (name, _), answer in together.items()),
              f"beside the others an adapter answers otherwise: {alone} {together}")
    finally:
        server.terminate()
        check(server.wait(timeout=30) == 0, "serve did not end in order")


def case_lora(ingot):
    base, trained = train(ingot)
    adapter = pathlib.Path(ingot.folder) / "adapter"
    check_folders(ingot, base, trained, adapter)
    check_serving(ingot, base, adapter)
    check_bench(ingot, base)
    refused = ingot.run("train", dict(SHORT, **{"run.name": "refused", "model.path": base, "trainer.lora.rank": 4,
                                                "trainer.lora.targets": "[q_proj, nothing]"}))
    check(refused[0] == 2 and "nothing" in refused[1], refused)


def main():
    with tempfile.TemporaryDirectory(prefix="ingot-test-") as folder:
        globals()[f"case_{sys.argv[3]}"](Ingot(sys.argv[1], sys.argv[2], folder))
    print(f"{sys.argv[3]}: passed")


if __name__ == "__main__":
    main()
