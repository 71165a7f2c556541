#!/usr/bin/env python3
"""Writes the golden adapter of the tests: an adapter of testdata/qwen3 by `peft`, with its logits and gradients.

    python tests/model/make_lora_golden.py tests/model/testdata

Needs torch, transformers and peft (written with peft 0.21). testdata/lora holds adapter_config.json as peft leaves it, adapter.json
(name -> [shape, numbers times 1024]) and golden.json: token ids, logits, and the gradients of the mean negative log-likelihood.
"""
import json
import pathlib
import sys

import peft
import safetensors
import torch
import transformers

root = pathlib.Path(sys.argv[1])
out = root / "lora"
torch.manual_seed(3)
base = transformers.AutoModelForCausalLM.from_pretrained(root / "qwen3", dtype=torch.float32)
config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"], task_type="CAUSAL_LM")
model = peft.get_peft_model(base, config).eval()
with torch.no_grad():
    for name, p in model.named_parameters():
        if "lora_" in name:
            p.copy_((torch.randn_like(p) * 0.2 * 1024).round() / 1024)
model.save_pretrained(out)
ids = torch.randint(0, base.config.vocab_size, (1, 14))
result = model(input_ids=ids)
loss = torch.nn.functional.cross_entropy(result.logits[0, :-1], ids[0, 1:])
loss.backward()


def own(name):
    return name.removeprefix("base_model.model.").replace(".default", "")


gradients = {own(name): [list(p.grad.shape), [float(f"{x:.8g}") for x in p.grad.flatten().tolist()]]
             for name, p in model.named_parameters() if p.grad is not None}
golden = dict(token_ids=ids[0].tolist(), loss=loss.item(),
              logits=[[round(x, 7) for x in row] for row in result.logits[0].tolist()], gradients=gradients)
(out / "golden.json").write_text(json.dumps(golden) + "\n")
with safetensors.safe_open(out / "adapter_model.safetensors", "pt") as file:
    weights = {key: [list(file.get_tensor(key).shape), (file.get_tensor(key) * 1024).round().int().flatten().tolist()]
               for key in sorted(file.keys())}
(out / "adapter.json").write_text(json.dumps(weights, separators=(",", ":")).replace('],"', '],\n"') + "\n")
for name in ("adapter_model.safetensors", "README.md"):
    (out / name).unlink(missing_ok=True)
settings = json.loads((out / "adapter_config.json").read_text())
settings["base_model_name_or_path"] = "qwen3"
(out / "adapter_config.json").write_text(json.dumps(settings, indent=1) + "\n")
