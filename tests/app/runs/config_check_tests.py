#!/usr/bin/env python3
"""Tests that `ingot config check` and the start of a run agree: config_check_tests.py BINARY SOURCE_DIR agree. The case `gpus` plans runs
for GPUs that this machine lacks.

Runs every configuration under configs/ with the mutations in a table. If the check rejects one, `ingot train` must reject it with
the same words, before it creates a folder. If the check accepts one, it must start, up to the addresses of its gateway. `agree` starts
every other mutation of configs/smoke.yaml and has one of each other configuration; with --all 1 it starts all and has two.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess

from ingot_runs import check, main, write_secret

# Only for the test: no configuration uses a fixed port, and configs/multi-node.yaml runs as one process.
ALL = {"http.port": 0, "run.if_exists": "replace"}
NUMBER = r"[0-9.]+(e[+-]?[0-9]+)?"  # matches the amount of free memory
OF = {"configs/smoke.yaml": {}, "configs/multi-node.yaml": {"cluster.groups": "[]", "cluster.registry.kind": "local", "cluster.registry.endpoints": "[]"}}


def mutations(ingot):
    """Returns (name, settings, words in the error). None = depends on this machine, but both must agree."""
    folder = pathlib.Path(ingot.folder)
    long = folder / "long.jsonl"
    answer = {"role": "assistant", "content": "x" * 100000}
    long.write_text(json.dumps({"messages": [{"role": "user", "content": "q"}, answer]}) + "\n")
    pairs = folder / "pairs.jsonl"
    pairs.write_text(json.dumps({"prompt": [{"role": "user", "content": "q"}], "chosen": [answer], "rejected": [{**answer, "content": "y"}]}) + "\n")
    empty = folder / "empty.jsonl"
    empty.write_text("")
    judge = "{kind: judge, judge: {url: 'http://127.0.0.1:9/v1', model: m, key_file: /no/such/key, rubrics: [good]}}"
    return [
        ("http.host", {"http.host": "0.0.0.0"}, "gateway.tls"),
        ("plain", {"http.host": "0.0.0.0", "gateway.tls.allow_plaintext": "true"}, ""),
        ("no host", {"http.host": "not a host"}, "not an IP address"),
        ("device", {"device": "cuda"}, None),
        ("run.name", {"run.name": "a/b"}, "run.name"),
        ("run.root", {"run.root": "/proc/nowhere"}, "run.root"),
        ("admin key", {"gateway.admin_key_file": "/no/such/key"}, "admin_key_file"),
        ("token", {"cluster.token_file": "/no/such/token"}, "cluster.token_file"),
        ("gateway's certificate", {"gateway.tls.certificate": "/no/such.pem", "gateway.tls.key": "/no/such.key"}, "/no/such.pem"),
        ("roles' certificate", {"cluster.tls.certificate": "/no/such.pem", "cluster.tls.key": "/no/such.key"}, "/no/such.pem"),
        ("cluster.host", {"cluster.host": "192.0.2.2"}, "cluster.tls.certificate"),
        ("IPv6", {"cluster.host": "'::1'"}, "cluster.host is '::1'"),
        ("curriculum", {"scheduler.sampling.order": "curriculum", "scheduler.sampling.pass_rate_field": "''"}, "scheduler.sampling"),
        ("pass rates", {"scheduler.sampling.order": "curriculum", "scheduler.sampling.pass_rate_field": "solved"}, "solved"),
        ("domains", {"scheduler.sampling.domains": "{nowhere: 1}"}, "nowhere"),
        ("judge's key", {"rewards.terms": f"[{{kind: outcome}}, {judge}]"}, "/no/such/key"),
        ("tasks", {"data.tasks": "/no/such/tasks.jsonl"}, "data.tasks"),
        ("engine's program", {"rollout.engine": "vllm", "rollout.external.command": "[A=b, /no/such/vllm]"}, "rollout.external.command"),
        ("no front", {"rollout.engine": "vllm", "rollout.external.workers": "['http://127.0.0.1:1']"}, "rollout.external.url"),
        ("fleet's adapters", {"rollout.engine": "vllm", "rollout.external.workers": "['http://127.0.0.1:1']",
                              "rollout.external.url": "http://127.0.0.1:2", "trainer.lora.rank": 4}, "rollout.external.workers is set"),
        ("SGLang's drain", {"rollout.engine": "sglang", "rollout.external.swap": "drain"}, "has no pause that lets requests finish"),
        ("engine's numerics", {"rollout.engine": "vllm", "numerics": "exact"}, "rollout.engine is not ingot"),
        ("engine's versions", {"rollout.engine": "vllm", "eval.at_start": "true"}, "eval.at_start"),
        ("engine's experts", {"rollout.engine": "vllm", "rollout.record_routes": "true"}, "another engine's experts"),
        ("engine's store", {"rollout.engine": "vllm", "rollout.kv_store.path": folder / "kv"}, "another engine keeps its own KV"),
        ("store's folder", {"rollout.kv_store.path": "/proc/nowhere"}, "/proc/nowhere"),
        ("store's chunks", {"rollout.kv_store.path": folder / "kv", "rollout.kv_store.chunk_tokens": 7}, "kv_block_tokens"),
        ("prefill without a store", {"rollout.router.prefill_engines": 1}, "kv_store.path"),
        ("memory that nobody reads", {"rollout.kv_store.path": "memory://"}, "router.prefill_engines"),
        ("store's URL", {"rollout.kv_store.path": "s3://kv"}, "a directory or memory://"),
        ("engines that only prefill", {"rollout.kv_store.path": folder / "kv", "rollout.router.prefill_engines": 9}, "cluster.rollout_engines"),
        ("no tasks", {"data.tasks": empty}, "empty.jsonl"),
        ("held-out tasks", {"eval.tasks": "/no/such/tasks.jsonl"}, "eval.tasks"),
        ("long conversation", {"data.sft": long, "sft.max_steps": 1}, "data.sft: "),
        ("long pair", {"data.dpo": pairs, "dpo.epochs": 1}, "data.dpo: "),
        ("model", {"model.path": "/no/such/model"}, "/no/such/model"),
        ("context", {"model.context_length": 4}, "model.context_length"),
        ("memory", {"trainer.memory_limit_mb": 1}, "trainer.micro_batch_tokens"),
        ("cache", {"rollout.kv_cache_tokens": 1 << 30}, "rollout.kv_cache_tokens"),
        ("slices", {"rollout.slice_wait_seconds": 5}, "no call is ever paused"),
        ("engine's episodes", {"rollout.engine": "vllm", "rollout.episode_version": "pinned"}, "another engine keeps no earlier versions"),
        ("engine's slices", {"rollout.engine": "vllm", "rollout.max_tokens_per_turn_slice": 64}, "another engine cannot continue a paused call"),
        ("experts", {"trainer.expert_balance": 0.1}, "trainer.expert_balance"),
        ("work folders", {"agents.work_root": f"{empty}/work"}, "agents.work_root"),
        ("agent", {"agents.recipes": json.dumps([{"name": "a", "command": ["no-such-agent"], "verifier": {"kind": "agent_posted"}}])}, "no-such-agent"),
        ("as it is", {}, ""),
    ]


def argv(ingot, config, command, settings):
    words = [ingot.binary, *command, config]
    for key, value in {"run.root": f"{ingot.folder}/runs", **ALL, **OF.get(config, {}), **settings}.items():
        words += ["--set", f"{key}={value}"]
    return words


def last_line(text):
    lines = [line for line in text.strip().splitlines() if not line.startswith(("warning: ", "note: "))]
    return lines[-1] if lines else ""


def checked(ingot, config, settings):
    """Returns the error of `ingot config check`; "" = accepted."""
    done = subprocess.run(argv(ingot, config, ("config", "check"), settings), cwd=ingot.source, capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else last_line(done.stderr)


def started(ingot, config, settings):
    """Returns the error of `ingot train`; "" = it started its gateway and was then stopped."""
    words = argv(ingot, config, ("train",), settings)
    with subprocess.Popen(words, cwd=ingot.source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        lines = []
        for line in process.stdout:
            if line.startswith("gateway http"):
                process.kill()
                return ""
            lines.append(line)
        code = process.wait()
    return last_line("".join(lines)) or f"exit code {code}"


def judge(ingot, config, name, settings, words, start):
    """Returns the problem; "" = none. `start`: "never", "if rejected", or "always"."""
    error = checked(ingot, config, settings)
    where = f"{config}, {name}"
    if config == "configs/smoke.yaml" and words is not None:
        if bool(words) != bool(error) or words not in error:
            return f"{where}: the check says '{error}'"
    if start == "never" or (not error and start == "if rejected"):
        return ""
    begun = started(ingot, config, settings if error else {**settings, "run.root": f"{ingot.folder}/started"})
    return "" if re.sub(NUMBER, "N", begun) == re.sub(NUMBER, "N", error) else f"{where}: the check says '{error}', and the start '{begun}'"


def check_example_of_guide(ingot):
    """The configuration in docs/guide/engines.md is accepted, with another model and device, and a program for vLLM."""
    page = pathlib.Path(ingot.source, "docs/guide/engines.md").read_text(encoding="utf-8")
    example = page.split("## One node with eight GPUs")[1].split("```yaml\n")[1].split("```")[0]
    check(", vllm, serve" in example and "rollout_engines: 4" in example, f"another example: {example}")
    config = pathlib.Path(ingot.folder, "engines.yaml")
    config.write_text(example.replace(", vllm, serve", ", /usr/bin/true, serve"), encoding="utf-8")
    settings = {"device": "cpu", "model.path": "''", "model.context_length": 16384, "data.tasks": "examples/smoke/train.jsonl"}
    error = checked(ingot, config, settings)
    check(not error, f"the guide's example: {error}")


def case_agree(ingot, all=0):
    """`ingot config check` and the start reject and accept the same configurations."""
    OF["configs/multi-node.yaml"]["cluster.token_file"] = write_secret(ingot, "token")
    check_example_of_guide(ingot)
    few = pathlib.Path(ingot.folder, "few.jsonl")  # fast to read
    with open(pathlib.Path(ingot.source, "examples/smoke/sft.jsonl"), encoding="utf-8") as conversations:
        few.write_text("".join(line for line, _ in zip(conversations, range(20))), encoding="utf-8")
    for config in ("configs/smoke.yaml", "configs/multi-node.yaml"):
        OF[config]["data.sft"] = few
    table, configs = mutations(ingot), sorted(pathlib.Path(ingot.source).glob("configs/**/*.yaml"))
    configs = [path for path in configs if "path: models/" not in path.read_text(encoding="utf-8")]  # models that are not here
    names = [str(path.relative_to(ingot.source)) for path in configs]
    jobs = [("configs/smoke.yaml", *one, "if rejected" if all or number % 2 == 0 else "never") for number, one in enumerate(table[:-1])]
    jobs.append(("configs/smoke.yaml", *table[-1], "always"))  # as it is
    more = 2 if all else 1
    for number, config in enumerate(name for name in names if name != "configs/smoke.yaml"):
        for i in range(more):
            jobs.append((config, *table[(number * 2 + i) % len(table)], "if rejected"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = [fault for fault in pool.map(lambda job: judge(ingot, *job), jobs) if fault]
    check(not faults, "\n".join(faults))
    check(len(names) >= 7 and len(jobs) >= 40, f"{len(jobs)} mutations of {names}")
    left = list(pathlib.Path(ingot.folder, "runs").glob("*/checkpoints"))
    check(not left, f"a rejected run has left {left}")
    print(f"{len(jobs)} configurations are judged alike by the check and the start")


# Qwen3-0.6B and Qwen3-8B with the byte tokenizer.
SHAPES = {
    "configs/1xh100-qwen3-0.6b.yaml": {"hidden_size": 1024, "intermediate_size": 3072, "layers": 28, "heads": 16},
    "configs/8xh100-qwen3-8b.yaml": {"hidden_size": 4096, "intermediate_size": 12288, "layers": 36, "heads": 32},
}


def check_for(ingot, config, gpus, settings):
    """`ingot config check` for GPUs that this machine lacks."""
    shape = {"kv_heads": 8, "head_dim": 128, "context_length": 40960, **SHAPES[config], "path": "''"}
    common = {f"model.{key}": value for key, value in shape.items()}
    if "1xh100" in config:
        common.update({"data.tasks": "examples/smoke/train.jsonl", "eval.tasks": "examples/smoke/eval.jsonl"})
    words = argv(ingot, config, ("config", "check"), {**common, "trainer.dtype": "bf16", **settings})
    programs = pathlib.Path(ingot.folder, "programs")  # a recipe's program, which the check looks for
    programs.mkdir(exist_ok=True)
    (programs / "mini").write_text("#!/bin/sh\n")
    (programs / "mini").chmod(0o755)
    return subprocess.run([*words, "--device", gpus], cwd=ingot.source, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})


def case_gpus(ingot):
    """Configurations are planned for GPUs that this machine lacks, and refused with the numbers and what would fit."""
    one, eight = SHAPES
    for config, gpus, plans in ((one, "h100", ["the trainer and an engine"]),
                                (eight, "8xh100", ["the trainer's rank 0", "another rank of the trainer", "an engine"]),
                                (eight, "4xh200", ["the trainer's rank 0 and an engine", "another rank of the trainer and an engine"])):
        done = check_for(ingot, config, gpus, {})
        found = re.findall(rf"^memory plan for (.*) on {gpus}:$", done.stderr, re.M)
        check(done.returncode == 0 and found == plans, f"{config} on {gpus}: {found}, {done.stderr}")
        check("trainer: masters and moments" in done.stderr and "device: cuda" in done.stdout, done.stderr)
        check(("8 trainer ranks and engines have only 4 GPUs" in done.stderr) == (gpus == "4xh200"), done.stderr)
    alone = {"cluster.trainer_ranks": 1, "cluster.rollout_engines": 1}
    for config, gpus, settings, words in (
            (one, "24", {}, ("a GPU (24 GiB) with the trainer and an engine does not have enough memory", "What fits: ")),
            (eight, "h100", alone, ("a GPU (h100) with", "trainer.lora.rank=16", "cluster.trainer_ranks=", "a GPU for each rank")),
            (eight, "4xh100", {}, ("does not have enough memory for the run",)),
            (eight, "2xh100", {}, ("puts 4 ranks on a machine with 2 GPUs (h100)",)),
            (one, "h1000", {}, ("unknown GPU 'h1000'", "8xh100 stands for eight GPUs")),
            (one, "h100", {"device": "cpu"}, ("--device is h100, but device is cpu",)),
            (one, "h100", {"device": "auto", "numerics": "exact"}, ("but device is cpu",))):  # auto is the CPU with exact numerics
        done = check_for(ingot, config, gpus, settings)
        error = last_line(done.stderr)
        check(done.returncode in (1, 2) and all(word in error for word in words), f"{config} on {gpus}: {error}")
    check_info(ingot)


def check_info(ingot):
    """`ingot model info --device` needs only config.json."""
    folder = pathlib.Path(ingot.folder, "shape")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "tie_word_embeddings": False,
        "hidden_act": "silu", "torch_dtype": "bfloat16"}))

    def info(*words):
        done = ingot.call("model", "info", folder, *words)
        check(done.returncode == 0, f"model info {words}: {done.stderr}")
        return done.stdout

    table = info("--device", "h100")
    check("trainer: masters and moments" in table and "99.313 GB" in table and "does not fit" in table and
          "together they fit with: trainer.lora.rank=16" in table and "or: cluster.trainer_ranks=" in table, table)
    check("fits; the KV cache may have" in info("--device", "h100", "--ranks", 8, "--checkpoint-layers", "--context-length", 8192), "8 ranks")
    adapters = json.loads(info("--device", "80", "--lora-rank", 16, "--checkpoint-layers", "--micro-batch-tokens", 4096,
                               "--context-length", 4096, "--kv-cache-tokens", 32768, "--json"))
    check(adapters["trained_parameters"] == 43646976 and adapters["plan"]["fits"], f"adapters: {adapters}")
    check(adapters["plan"]["total_bytes"] > adapters["trainer_plan"]["total_bytes"], f"adapters: {adapters}")
    check(json.loads(info())["parameters"] == 8190735360, "without a GPU")
    check("unknown GPU" in ingot.call("model", "info", folder, "--device", "gpu").stderr, "an unknown GPU")


if __name__ == "__main__":
    main(case_agree, case_gpus)
