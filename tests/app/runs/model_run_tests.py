#!/usr/bin/env python3
"""Models that people train, through the ingot binary: model_run_tests.py BINARY SOURCE_DIR lora|experts.

Exits with 0 if every check holds. Trains an adapter by RL over a frozen base, takes it out as a PEFT folder, folds it in, and serves two adapters beside their base.
"""
import array
import base64
import http.client
import json
import math
import pathlib
import random
import shutil
import threading

from ingot_runs import SHORT, check, main, serving, write_asking_config
from stored_trees import StoredTree

ADAPTER = "adapter_model.safetensors"


def model(ingot, *argv, code=0):
    done = ingot.call("model", *argv, timeout=120)
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
        "run.name": "lora", "scheduler.total_steps": 2, "model.path": base, "sft.max_steps": 10, "trainer.lora.rank": 4,
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
    rejected = merged.with_name("refused-folder")
    check("another base" in model(ingot, "merge", "--model", str(base), "--adapter", str(adapter_of_another(adapter)), str(rejected), code=2),
          "an adapter of another base was taken")
    exported = merged.with_name("exported")
    model(ingot, "export", "--model", str(trained), str(exported))
    names = [sorted(path.name for path in folder.iterdir()) for folder in (merged, exported)]
    check(names[0] == names[1] and {"ingot.json", "tokenizer.json"} <= set(names[0]), f"an export lacks its text: {names}")
    for command in (("export", "--model", str(base)), ("merge", "--model", str(trained))):
        check("already contains a model" in model(ingot, *command, str(exported), code=2), f"{command[0]} wrote over a model")
    check_mean(ingot, base, trained, merged)
    check("outside the vocabulary" in model(ingot, "logits", "--model", str(base), "--ids", "1,999999", code=2), "ids")


def check_logits_types(ingot, base):
    """--dtype: bf16 rounds, fp32 is the folder's own; another word is refused by name."""
    def of(*more):
        return model(ingot, "logits", "--model", str(base), "--ids", "1,2,3,70", *more)["logits"][0]
    plain, wide, narrow = of(), of("--dtype", "fp32"), of("--dtype", "bf16")
    check(wide == plain, "--dtype fp32 changes a folder in fp32")
    gap, scale = max(abs(a - b) for a, b in zip(plain, narrow)), max(map(abs, plain))
    check(0 < gap < 0.1 * scale, f"--dtype bf16 differs by {gap} of {scale}")
    mixed = pathlib.Path(ingot.folder) / "mixed"
    write_narrow_norms(base, mixed)
    done = ingot.call("model", "logits", "--model", str(mixed), "--ids", "1,2,3,70", timeout=120)
    check(done.returncode == 0 and len(json.loads(done.stdout)["logits"][0]) == len(plain), done.stderr)
    check("are converted to Float" in done.stderr, done.stderr)
    error = model(ingot, "logits", "--model", str(base), "--ids", "1", "--dtype", "fp8", code=2)
    check("--dtype fp8: it must be fp32, bf16, or model" in error, error)


def write_narrow_norms(source, out):
    """A copy of a folder in fp32 whose norms are bf16."""
    shutil.copytree(source, out, ignore=shutil.ignore_patterns("state.json"))
    header, values = tensors(source / "model.safetensors")
    body = b""
    for name, numbers in values.items():
        data = numbers.tobytes()
        if "norm" in name:
            data = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
            header[name]["dtype"] = "BF16"
        header[name]["data_offsets"] = [len(body), len(body) + len(data)]
        body += data
    text = json.dumps(header).encode()
    (out / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)


def check_mean(ingot, base, trained, merged):
    """merge --with: the mean of two models, number by number; models of two shapes are refused by the tensor."""
    mean = pathlib.Path(ingot.folder) / "mean"
    model(ingot, "merge", "--model", str(trained), "--with", str(base), str(mean))
    one, two, both = (tensors(folder / "model.safetensors")[1] for folder in (merged, base, mean))
    check(sorted(both) == sorted(two), "the mean has other tensors")
    for name, values in both.items():
        halves = array.array("f", [(a + b) / 2 for a, b in zip(one[name], two[name])])
        check(max(abs(a - b) for a, b in zip(values, halves)) <= 1e-7 * max(1, max(map(abs, values))), f"{name} is no mean")
    check((mean / "tokenizer.json").exists() == (trained / "tokenizer.json").exists(), "the mean's tokenizer")
    other = pathlib.Path(ingot.folder) / "other"
    write_experts(base, other)
    out = str(mean.with_name("no-mean"))
    error = model(ingot, "merge", "--model", str(base), "--with", str(other), out, code=2)
    check("is not the same model as" in error and "tensor model.layers.0.mlp." in error, error)
    turned = pathlib.Path(ingot.folder) / "turned"
    shutil.copytree(base, turned, ignore=shutil.ignore_patterns("state.json"))  # it would tell that the copy was changed
    config = json.loads((turned / "config.json").read_text())
    (turned / "config.json").write_text(json.dumps(dict(config, rms_norm_eps=0.01, eos_token_id=3)))
    error = model(ingot, "merge", "--model", str(base), "--with", str(turned), out, code=2)
    check("'rms_norm_eps' is 1e-06 in the first and 0.01 in the second" in error, error)


def check_init(ingot, base, adapter):
    """trainer.lora.init FOLDER: a run begins with a PEFT folder's factors, rank and targets."""
    settings = {"run.name": "init", "model.path": base, "trainer.lora.rank": 4, "trainer.lora.init": adapter,
                "scheduler.total_steps": 1, "sft.max_steps": 0, "trainer.learning_rate": 1e-9, "trainer.warmup_steps": 0,
                "scheduler.drop_zero_variance": "false"}
    code, output = ingot.run("train", dict(SHORT, **settings))
    check(code == 0, output)
    begun = tensors(checkpoint_of(ingot, "init") / "model.safetensors")[1]
    given = {name.removeprefix("base_model.model."): values for name, values in tensors(adapter / ADAPTER)[1].items()}
    check(sorted(given) == sorted(name for name in begun if "lora_" in name), "the run has other factors")
    for name, values in given.items():
        check(max(abs(a - b) for a, b in zip(values, begun[name])) < 1e-6, f"{name} is not the folder's")
    code, output = ingot.run("train", dict(SHORT, **dict(settings, **{
        "run.name": "init-refused", "trainer.lora.init": adapter_of_another(adapter)})))
    check(code == 2 and "another base" in output, output)
    for key, value, found in (("rank", 2, "4"), ("alpha", 16, "8"), ("alpha", 32, "8"), ("targets", "[q_proj]", "[down_proj, ")):
        code, output = ingot.run("train", dict(SHORT, **dict(settings, **{"run.name": "init-differs", f"trainer.lora.{key}": value})))
        check(code == 2 and f"trainer.lora.{key} is {value}" in output and f"has {found}" in output, output)


def check_bench(ingot, base):
    done = ingot.call("bench", "rollout", "--model", base, "--streams", "1,3", "--new-tokens", "8", "--prompt-tokens", "40",
                      "--repeat", "1")
    check(done.returncode == 0, done.stderr)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    check([(f["figure"], f["streams"]) for f in figures] == [("prefill", 1), ("decode", 1), ("decode", 3)], figures)
    check(all(f["tokens_per_second"] > 0 for f in figures), figures)


def adapter_of_another(adapter):
    """A copy whose factors have one row or column less."""
    out = adapter.with_name("another")
    if out.exists():
        return out
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
    words = [base, "--model", "plain", "--adapter", f"first={adapter}", "--adapter", f"second={strong}"]
    with serving(ingot, *words) as line:
        address = line.split("http://")[1].split("/")[0]

        def ask(name):
            connection = http.client.HTTPConnection(address, timeout=60)
            body = {"model": name, "prompt": "item kt " * 20, "max_tokens": 12, "temperature": 0, "logprobs": 1,
                    "ignore_eos": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Authorization": "Bearer any", "Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            check("choices" in answer, answer)
            return answer["choices"][0]["logprobs"]["token_logprobs"]

        names = ["plain", "first", "second"]
        alone = {name: ask(name) for name in names}
        check(all(len(answer) >= 8 for answer in alone.values()), alone)
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


def write_tensors(path, shapes, values):
    header, begin = {}, 0
    for name in sorted(values):
        header[name] = {"dtype": "F32", "shape": shapes[name], "data_offsets": [begin, begin + 4 * len(values[name])]}
        begin += 4 * len(values[name])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(values[name].tobytes() for name in sorted(values)))


def write_experts(base, out, experts=4):
    """A qwen3_moe folder whose experts are slices of a dense folder's feed-forward parts."""
    out.mkdir()
    for file in base.iterdir():
        if file.is_file() and not file.name.startswith(("model", "optimizer", "state", "config")):
            (out / file.name).write_bytes(file.read_bytes())
    config = json.loads((base / "config.json").read_text())
    hidden, width = config["hidden_size"], config["intermediate_size"] // experts
    config.update(model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], num_experts=experts, num_experts_per_tok=2,
                  moe_intermediate_size=width, norm_topk_prob=True)
    (out / "config.json").write_text(json.dumps(config))
    header, dense = tensors(base / "model.safetensors")
    values = {name: array for name, array in dense.items() if ".mlp." not in name}
    shapes = {name: header[name]["shape"] for name in values}
    draw = random.Random(5)
    for layer in range(config["num_hidden_layers"]):
        mlp = f"model.layers.{layer}.mlp."
        values[mlp + "gate.weight"] = array.array("f", [draw.gauss(0, 0.3) for _ in range(experts * hidden)])
        shapes[mlp + "gate.weight"] = [experts, hidden]
        for e in range(experts):
            for name in ("gate_proj", "up_proj"):
                own = f"{mlp}experts.{e}.{name}.weight"
                values[own] = dense[f"{mlp}{name}.weight"][e * width * hidden:(e + 1) * width * hidden]
                shapes[own] = [width, hidden]
            down, own = dense[mlp + "down_proj.weight"], f"{mlp}experts.{e}.down_proj.weight"
            values[own] = array.array("f", [2 * down[row * width * experts + e * width + i]
                                            for row in range(hidden) for i in range(width)])
            shapes[own] = [hidden, width]
    write_tensors(out / "model.safetensors", shapes, values)


def case_experts(ingot):
    """RL on a mixture of experts: rollout and trainer agree to the bit, and loads are reported."""
    code, output = ingot.run("train", dict(SHORT, **{"run.name": "base", "scheduler.total_steps": 1}))
    check(code == 0, output)
    folder = pathlib.Path(ingot.folder) / "experts-model"
    write_experts(checkpoint_of(ingot, "base"), folder)
    check(model(ingot, "info", "--model", str(folder))["experts"] == 4, "info")
    settings = dict(SHORT, **{
        "run.name": "experts", "scheduler.total_steps": 2, "model.path": folder, "numerics": "exact", "sft.max_steps": 10,
        "trainer.expert_balance": 0.01, "scheduler.max_drops_per_batch": 8, "rollout.record_routes": "true",
        "trainer.replay_routes": "true", "trainer.checkpoint_every": 1, "trainer.keep_checkpoints": 3,
        "scheduler.max_staleness": 0})  # an older version's router may have chosen others
    code, output = ingot.run("train", settings)
    check(code == 0, output)
    rows = [row for row in ingot.metrics("experts") if "mismatch/probe_tokens" in row]
    check(len(rows) == 2 and all(row["mismatch/logprob_abs_diff_max"] == 0 for row in rows), f"mismatch: {rows}")
    check(all(row["experts/load_max"] >= 1 >= row["experts/load_min"] and row["experts/balance_loss"] > 0 and
              0 < row["experts/router_entropy"] < 1.4 for row in rows), f"loads: {rows}")
    check_routes(rows)
    first, last = tensors(folder / "model.safetensors")[1], tensors(checkpoint_of(ingot, "experts") / "model.safetensors")[1]
    check(sorted(first) == sorted(last), "the checkpoint has other tensors")
    still = [name for name in first if first[name] == last[name]]
    check(not any("gate.weight" in name for name in still), f"routers were not trained: {still}")
    check_replay(ingot, settings)


def check_routes(rows):
    check(all(row["mismatch/routes_compared"] > 100 and row["mismatch/routes_differ"] == 0 and
              row["mismatch/routes_conflicts"] == 0 for row in rows), f"routes: {rows}")


def check_replay(ingot, settings):
    """The last step again, from the journal and the checkpoint before it, without the replay of routes: equal to the bit."""
    replayed = checkpoint_of(ingot, "experts")
    weights = (replayed / "model.safetensors").read_bytes()
    shutil.rmtree(replayed)
    before = checkpoint_of(ingot, "experts")
    check(before != replayed and (before / "model.safetensors").read_bytes() != weights, f"{before} {replayed}")
    code, output = ingot.run("train", dict(settings, **{"trainer.replay_routes": "false"}), ["--resume"])
    check(code == 0 and checkpoint_of(ingot, "experts") == replayed, output)
    check((replayed / "model.safetensors").read_bytes() == weights, "without replay the step is another one")
    check_routes([row for row in ingot.metrics("experts") if "mismatch/routes_compared" in row])
    dense = dict(settings, **{"run.name": "dense", "model.path": checkpoint_of(ingot, "base")})
    code, output = ingot.run("train", dense)
    check(code == 2 and "trainer.expert_balance is set, but the model (qwen3) has no experts" in output, output)


def log_softmax(logits, of):
    greatest = max(logits)
    return logits[of] - greatest - math.log(sum(math.exp(one - greatest) for one in logits))


def check_calls(ingot, run, folder, other):
    """The calls of an evaluation were sampled by the model in `folder` and not by the one in `other`."""
    trees = [StoredTree(line) for line in ingot.inspect(run, "--json").splitlines()]
    calls = [(tree, call) for tree in trees for call in tree.calls]
    check(len(calls) == 4 and all(tree.ids(call["sampledKeys"]) for tree, call in calls), f"{run} has {len(calls)} calls")
    farthest = 0
    for tree, call in calls:
        path, first = tree.path(call), len(tree.context(call))
        words = ("--ids", ",".join(map(str, path)), "--all")
        own, others = (model(ingot, "logits", "--model", str(one), *words)["logits"] for one in (folder, other))
        recorded = [number for key in call["sampledKeys"] for number in tree.segments[base64.b64decode(key).hex()]["logprobs"]]
        check(len(recorded) == len(path) - first, f"{run}: {len(recorded)} log-probs")
        for i, logprob in enumerate(recorded):
            gap = abs(log_softmax(own[first - 1 + i], path[first + i]) - logprob)
            check(gap < 1e-3, f"{run}: token {i} of {call['callId']} is {gap} away from the model of {folder}")
            farthest = max(farthest, abs(log_softmax(others[first - 1 + i], path[first + i]) - logprob))
    check(farthest > 1e-2, f"{run}: its tokens are as likely by {other}: {farthest}")


def check_eval(ingot, base, trained, merged):
    """With an adapter run's configuration, `ingot eval` uses a folder's adapters, and none for a base."""
    before, folder = ingot.config, write_asking_config(ingot, agent_seconds=0)
    (folder / "eval.jsonl").write_text("{\"task_id\": \"a\"}\n{\"task_id\": \"b\"}\n")
    settings = {"run.name": "judged", "eval.tasks": folder / "eval.jsonl", "eval.avg_n": 2, "model.path": base, "trainer.lora.rank": 4,
                "trainer.lora.alpha": 8}
    for checkpoint, other in ((base, trained), (trained, base), (merged, base)):
        code, output = ingot.run(("eval", checkpoint), settings, timeout=120)
        check(code == 0 and "avg@2, 4 episodes, 0 failed" in output, f"eval {checkpoint}: {code}: {output}")
        check_calls(ingot, f"judged-eval/{checkpoint.name}", checkpoint, other)
    code, output = ingot.run(("eval", trained), {**settings, "trainer.lora.rank": 2, "run.name": "other-rank"}, timeout=120)
    check(code == 0, f"the configuration's own rank matters to eval: {output}")
    ingot.config = before


def case_lora(ingot):
    base, trained = train(ingot)
    adapter = pathlib.Path(ingot.folder) / "adapter"
    check_folders(ingot, base, trained, adapter)
    check_eval(ingot, base, trained, adapter.with_name("merged"))
    check_logits_types(ingot, base)
    check_init(ingot, base, adapter)
    check_serving(ingot, base, adapter)
    check_bench(ingot, base)
    rejected = ingot.run("train", dict(SHORT, **{"run.name": "refused", "model.path": base, "trainer.lora.rank": 4,
                                                "trainer.lora.targets": "[q_proj, nothing]"}))
    check(rejected[0] == 2 and "nothing" in rejected[1], rejected)


if __name__ == "__main__":
    main(case_lora, case_experts)
