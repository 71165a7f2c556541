#!/usr/bin/env python3
"""Constrained answers through a real vLLM: vllm_grammars.py BINARY SOURCE_DIR VLLM [CALLS].

Launches a run with `rollout.engine: vllm` and a tiny random model with a tokenizer, which the environment of VLLM makes. Its
agents make CALLS calls (200) with a JSON schema, a regular expression, a choice, or a tool that must be called, and check what
they get. A random model writes nothing valid by itself. They also send a schema that the server's grammars do not apply, which
must get a 400 that names it, and a free call, because the run does not train on calls that a grammar changed. Prints a line per
kind of constraint.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from vllm_runs import environment

KINDS = ("schema", "regex", "choice", "required", "named")
GROUP_SIZE, GROUPS_PER_STEP = 4, 2

# Runs in the environment of vLLM, which has these packages.
MAKE_MODEL = """
import json, pathlib, sys
import tokenizers, torch
from safetensors.torch import save_file
folder = pathlib.Path(sys.argv[1])
alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
words = {letter: i for i, letter in enumerate(sorted(alphabet))}
bpe = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=words, merges=[]))
bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = tokenizers.decoders.ByteLevel()
bpe.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
bpe.save(str(folder / "tokenizer.json"))
end = bpe.token_to_id("<|im_end|>")
(folder / "tokenizer_config.json").write_text(json.dumps({
    "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}))
hidden, inner, layers, heads, kv, size, vocab = 64, 128, 2, 2, 2, 32, 272
(folder / "config.json").write_text(json.dumps({
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": vocab, "hidden_size": hidden,
    "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
    "head_dim": size, "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "attention_bias": False, "torch_dtype": "float32", "eos_token_id": end}))
torch.manual_seed(1)
weights = {"model.embed_tokens.weight": torch.randn(vocab, hidden) * 0.05, "lm_head.weight": torch.randn(vocab, hidden) * 0.05,
           "model.norm.weight": torch.ones(hidden)}
for i in range(layers):
    at = f"model.layers.{i}."
    for name, shape in {"self_attn.q_proj": (heads * size, hidden), "self_attn.k_proj": (kv * size, hidden),
                        "self_attn.v_proj": (kv * size, hidden), "self_attn.o_proj": (hidden, heads * size),
                        "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}.items():
        weights[f"{at}{name}.weight"] = torch.randn(shape) * 0.05
    for name, width in {"input_layernorm": hidden, "post_attention_layernorm": hidden, "self_attn.q_norm": size,
                        "self_attn.k_norm": size}.items():
        weights[f"{at}{name}.weight"] = torch.ones(width)
save_file(weights, str(folder / "model.safetensors"))
"""

AGENT = '''
import json, os, re, sys, urllib.error, urllib.request
SCHEMA = {"type": "object", "properties": {"op": {"enum": ["add", "sub"]}, "a": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["op", "a"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("count", "weigh")]
FIELDS = {
    "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "sum", "strict": True, "schema": SCHEMA}}},
    "regex": {"guided_regex": "[ab]{3}-[0-9]{2}"},
    "choice": {"guided_choice": ["left", "right"]},
    "required": {"tools": TOOLS, "tool_choice": "required"},
    "named": {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "weigh"}}},
    "free": {"max_tokens": 8},
    "refused": {"response_format": {"type": "json_schema", "json_schema": {"name": "sum", "schema": {"type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}}}}},
}


def fits(value):
    return set(value) == {"op", "a"} and value["op"] in ("add", "sub") and type(value["a"]) is int and 0 <= value["a"] <= 99


def good(kind, message):
    text = message.get("content") or ""
    if kind == "schema":
        return fits(json.loads(text))
    if kind == "regex":
        return re.fullmatch("[ab]{3}-[0-9]{2}", text) is not None
    if kind == "choice":
        return text in ("left", "right")
    calls = [call["function"] for call in message["tool_calls"]]
    names = {"weigh"} if kind == "named" else {"count", "weigh"}
    return bool(calls) and all(call["name"] in names and fits(json.loads(call["arguments"])) for call in calls)


def ask(kind):
    body = {"model": "policy", "max_tokens": 200, "messages": [{"role": "user", "content": "go"}], **FIELDS[kind]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), {
        "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
    try:
        choice = json.load(urllib.request.urlopen(request, timeout=300))["choices"][0]
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()[:300]}"
    if choice["finish_reason"] == "length":
        return "cut"
    try:
        return "good" if good(kind, choice["message"]) else f"bad {choice['message']}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"bad {error} {choice['message']}"


ask("free")
kind = json.load(open("task.json"))["kind"]
with open("RESULTS", "a", encoding="utf-8") as file:
    file.write(json.dumps([kind, ask(kind)]) + "\\n")
    file.write(json.dumps(["refused", ask("refused")]) + "\\n")
print(os.urandom(1)[0] % 2)
'''


def write_run(folder, vllm, steps):
    tasks = [{"task_id": kind, "prompt": "go", "kind": kind} for kind in KINDS]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    (folder / "agent.py").write_text(AGENT.replace("RESULTS", str(folder / "results.jsonl")))
    words = ["VLLM_SERVER_DEV_MODE=1", vllm, "serve", "${model}", "--host", "127.0.0.1", "--port", "${port}", "--enable-scale-out",
             "${tokenizer}", "--max-model-len", "${context}", "--dtype", "${dtype}", "--max-num-seqs", "${max_running}",
             "--enforce-eager"]
    # JSON is YAML.
    (folder / "run.yaml").write_text(json.dumps({
        "run": {"name": "grammars", "root": str(folder)}, "data": {"tasks": str(folder / "tasks.jsonl")},
        "model": {"path": str(folder / "model"), "chat_format": "hermes"}, "device": "cpu",
        "scheduler": {"total_steps": steps, "groups_per_step": GROUPS_PER_STEP, "group_size": GROUP_SIZE, "drop_zero_variance": False},
        "trainer": {"learning_rate": 1e-5}, "http": {"port": 0}, "sandbox": {"isolation": "process"},
        "rollout": {"engine": "vllm", "context_length": 1024, "kv_cache_tokens": 8192, "max_running": 16,
                    "external": {"command": words, "exchange": str(folder / "exchange")}},
        "agents": {"concurrency": 8, "recipes": [{
            "name": "asks", "command": ["/usr/bin/python3", "-I", str(folder / "agent.py")], "timeout_s": 600,
            "files": {"task.json": '{"kind": ${json:task.kind}}'}, "verifier": {"kind": "numeric", "expected": "1"}}]}}))


def report(results, calls):
    """Prints what each constraint got, and returns whether all is right."""
    ends = collections.defaultdict(list)
    for kind, end in results:
        ends[kind].append(end)
    fine = True
    for kind in KINDS:
        good, cut = ends[kind].count("good"), ends[kind].count("cut")
        wrong = [end for end in ends[kind] if end not in ("good", "cut")]
        fine = fine and good > 0 and not wrong
        print(f"{kind:9} {good} valid, {cut} cut by max_tokens, {len(wrong)} wrong", *wrong[:2])
    refused = [end for end in ends["refused"] if end.startswith("400") and "uniqueItems" in end]
    print(f"refused   {len(refused)} of {len(ends['refused'])} with a 400 that names uniqueItems", *ends["refused"][:1])
    valid = sum(ends[kind].count("good") for kind in KINDS)
    fine = fine and len(refused) == len(ends["refused"]) and valid >= calls
    print("ok" if fine else "FAILED", f"{valid} valid calls of at least {calls}")
    return fine


def main():
    binary, source, vllm = map(os.path.abspath, sys.argv[1:4])
    calls = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    steps = -(-calls * 5 // (4 * GROUP_SIZE * GROUPS_PER_STEP))  # a fifth of the answers may be cut
    with tempfile.TemporaryDirectory(dir=os.environ.get("FOLDER")) as name:
        folder = pathlib.Path(name)
        (folder / "model").mkdir()
        python = pathlib.Path(vllm).parent / "python"
        subprocess.run([python, "-c", MAKE_MODEL, folder / "model"], check=True, timeout=600)
        write_run(folder, vllm, steps)
        run = subprocess.run([binary, "launch", folder / "run.yaml"], cwd=source, env=environment(vllm), timeout=5000)
        results = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        if run.returncode != 0:
            print((folder / "grammars/logs/rollout-0-server.log").read_text(errors="replace")[-3000:])
        return 0 if report(results, calls) and run.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
