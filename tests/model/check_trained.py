#!/usr/bin/env python3
"""Trained checkpoints of models with experts in `transformers` and `peft`: check_trained.py BINARY SOURCE_DIR.

    make test-torch

Trains a tiny gpt-oss and a tiny qwen3_moe with adapters on its experts, a step each. The exported gpt-oss must load with the checkpoint's tensors and give
its logits; the adapter's PEFT folder over its base must give the checkpoint's logits. Needs torch, transformers and peft.
"""
import pathlib
import re
import sys
import tempfile

import peft
import safetensors.torch
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "app/runs"))
from model_run_tests import checkpoint_of, model, write_experts  # noqa: E402
from ingot_runs import SHORT, Ingot, check  # noqa: E402

IDS = [1, 2, 3, 70, 71, 72, 5, 90, 33, 34, 35, 9]
TINY = dict(hidden_size=64, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            num_local_experts=4, num_experts_per_tok=2, sliding_window=32, max_position_embeddings=512, tie_word_embeddings=False,
            rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, original_max_position_embeddings=128, beta_fast=32.0,
                                 beta_slow=1.0, truncate=False))


def train(ingot, name, **settings):
    code, output = ingot.run("train", {**SHORT, "run.name": name, "scheduler.total_steps": 1, **settings})
    check(code == 0, output)
    return checkpoint_of(ingot, name)


def ours(ingot, folder):
    return torch.tensor(model(ingot, "logits", "--model", str(folder), "--ids", ",".join(map(str, IDS)), "--all")["logits"])


def theirs(loaded):
    with torch.no_grad():
        return loaded.eval()(input_ids=torch.tensor([IDS])).logits[0].float()


def gap(ingot, folder, loaded, what):
    a, b = ours(ingot, folder), theirs(loaded)
    difference = (a - b).abs().max().item()
    print(f"{what}: logits up to {b.abs().max():.2f}, largest difference {difference:.2e}", flush=True)
    check(difference < 1e-4, f"{what} differs by {difference}")
    return a


def load(folder):
    loaded, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    check(not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info)
    return loaded


def fused(checkpoint):
    """The tensors of a checkpoint with one tensor per expert, under the names and shapes of `transformers`."""
    out, experts = {}, {}
    for name, tensor in checkpoint.items():
        match = re.fullmatch(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.(weight|bias)", name)
        if match:
            experts.setdefault(match[1], {})[int(match[2]), match[3], match[4]] = tensor.T if match[4] == "weight" else tensor
        else:
            out[name] = tensor
    for prefix, parts in experts.items():
        count = 1 + max(e for e, _, _ in parts)
        for kind, end in (("weight", ""), ("bias", "_bias")):
            out[f"{prefix}.down_proj{end}"] = torch.stack([parts[e, "down", kind] for e in range(count)])
            pairs = [torch.stack([parts[e, "gate", kind], parts[e, "up", kind]], -1).flatten(-2) for e in range(count)]
            out[f"{prefix}.gate_up_proj{end}"] = torch.stack(pairs)
    return out


def check_gpt_oss(ingot, base):
    folder = pathlib.Path(ingot.folder) / "gpt-oss"
    torch.manual_seed(4)
    vocabulary = transformers.AutoConfig.from_pretrained(base).vocab_size
    transformers.GptOssForCausalLM(transformers.GptOssConfig(vocab_size=vocabulary, **TINY)).save_pretrained(folder)
    for file in base.iterdir():
        if file.is_file() and not file.name.startswith(("model", "optimizer", "state", "config")):
            (folder / file.name).write_bytes(file.read_bytes())
    trained = train(ingot, "gpt-oss-run", **{"model.path": folder, "sft.max_steps": 10, "scheduler.max_drops_per_batch": 8,
                                             "scheduler.drop_zero_variance": "false"})
    exported = pathlib.Path(ingot.folder) / "gpt-oss-exported"
    model(ingot, "export", "--model", str(trained), str(exported))
    loaded = load(exported)
    wanted, found = fused(safetensors.torch.load_file(trained / "model.safetensors")), loaded.state_dict()
    check(sorted(wanted) == sorted(found), set(wanted) ^ set(found))
    different = [name for name in wanted if not torch.equal(wanted[name], found[name])]
    check(not different, f"other tensors in transformers: {different}")
    before = safetensors.torch.load_file(folder / "model.safetensors")
    check(any(not torch.equal(before[name], found[name]) for name in before if "experts" in name), "no expert was trained")
    print(f"gpt_oss: {len(wanted)} tensors of the trained checkpoint are equal in {type(loaded).__name__}")
    gap(ingot, trained, loaded, "gpt_oss")


def check_expert_adapters(ingot, base):
    folder, adapter = pathlib.Path(ingot.folder) / "experts", pathlib.Path(ingot.folder) / "adapter"
    write_experts(base, folder)
    targets = "[q_proj, experts.gate_proj, experts.up_proj, experts.down_proj]"
    trained = train(ingot, "experts-lora", **{
        "model.path": folder, "sft.max_steps": 10, "trainer.lora.rank": 4, "trainer.lora.alpha": 8, "trainer.lora.targets": targets,
        "trainer.learning_rate": 0.02, "trainer.warmup_steps": 0, "scheduler.max_drops_per_batch": 8,
        "scheduler.drop_zero_variance": "false", "trainer.reference_kl_coefficient": 0, "trainer.max_step_kl": 0,
        "trainer.max_step_kl_position": 0})
    model(ingot, "adapter", "--model", str(trained), "--base", str(folder), str(adapter))
    plain = ours(ingot, folder)
    merged = gap(ingot, trained, peft.PeftModel.from_pretrained(load(folder), adapter), "qwen3_moe with adapters on experts")
    check((merged - plain).abs().max() > 1e-2, "the adapter does nothing")


def main():
    with tempfile.TemporaryDirectory(prefix="ingot-test-") as folder:
        ingot = Ingot(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), folder)
        base = train(ingot, "base")
        check_gpt_oss(ingot, base)
        check_expert_adapters(ingot, base)
    print("passed")


if __name__ == "__main__":
    main()
