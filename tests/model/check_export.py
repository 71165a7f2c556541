#!/usr/bin/env python3
"""Holds models written by SaveModelDir against `transformers`: they load with equal tensors, and give equal logits.

    make test-torch

Needs torch and transformers. Prints the largest difference per model; fails above 1e-5, and where there is no model.
"""
import json
import pathlib
import sys

import safetensors
import torch
import transformers



def unfused(state):
    """A state dict with one tensor per expert: `transformers` 5 holds all experts of a layer in one, gate above up. A family
    whose files are fused too (gpt_oss) has biases beside them and stays."""
    out = {}
    for name, tensor in state.items():
        module, _, last = name.rpartition(".")
        fused = module.endswith(".experts") and tensor.dim() == 3 and f"{module}.down_proj_bias" not in state
        if not fused:
            out[name] = tensor
            continue
        for e in range(tensor.shape[0]):
            if last == "gate_up_proj":
                out[f"{module}.{e}.gate_proj.weight"], out[f"{module}.{e}.up_proj.weight"] = tensor[e].chunk(2)
            else:
                out[f"{module}.{e}.{last}.weight"] = tensor[e]
    return out


def theirs_of(name):
    """The name in `transformers` of a tensor of a file: MiniMax-M2's are renamed as they are loaded."""
    for old, new in ((".block_sparse_moe.", ".mlp."), (".w1.", ".gate_proj."), (".w3.", ".up_proj."), (".w2.", ".down_proj.")):
        name = name.replace(old, new)
    return name


def compare(file, loaded):
    """The number of tensors, all of which are equal, in both directions."""
    wanted = {theirs_of(key): file.get_tensor(key) for key in file.keys()}
    found = unfused(loaded)
    tied = {"lm_head.weight"} - set(wanted)
    assert set(wanted) == set(found) - tied, f"names differ: {sorted(set(wanted) ^ (set(found) - tied))}"
    different = [key for key in wanted if wanted[key].shape != found[key].shape or not torch.equal(wanted[key], found[key])]
    assert not different, f"tensors differ: {different}"
    return len(wanted)


worst = 0.0
checked = 0
for folder in sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.is_dir()):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    with safetensors.safe_open(folder / "model.safetensors", "pt") as file:
        count = compare(file, model.state_dict())
    ours = json.loads((folder / "logits.json").read_text())
    ids = torch.tensor([ours["token_ids"]])
    with torch.no_grad():
        theirs = model.eval()(input_ids=ids).logits[0]
    difference = (theirs - torch.tensor(ours["logits"]).view_as(theirs)).abs().max().item()
    print(f"{folder.name}: {type(model).__name__}, {count} tensors equal, logits up to {theirs.abs().max():.2f}, "
          f"largest difference {difference:.2e}")
    worst = max(worst, difference)
    checked += 1
sys.exit(checked == 0 or worst > 1e-5)
