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

worst = 0.0
checked = 0
for folder in sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.is_dir()):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    loaded = model.state_dict()
    with safetensors.safe_open(folder / "model.safetensors", "pt") as file:
        same = [key for key in file.keys() if key in loaded and loaded[key].shape == file.get_tensor(key).shape]
        different = [key for key in same if not torch.equal(loaded[key], file.get_tensor(key))]
    assert same and not different, different
    ours = json.loads((folder / "logits.json").read_text())
    ids = torch.tensor([ours["token_ids"]])
    with torch.no_grad():
        theirs = model.eval()(input_ids=ids).logits[0]
    difference = (theirs - torch.tensor(ours["logits"]).view_as(theirs)).abs().max().item()
    print(f"{folder.name}: {type(model).__name__}, logits up to {theirs.abs().max():.2f}, "
          f"largest difference {difference:.2e}")
    worst = max(worst, difference)
    checked += 1
sys.exit(checked == 0 or worst > 1e-5)
