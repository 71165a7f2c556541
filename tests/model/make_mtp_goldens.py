#!/usr/bin/env python3
"""Adds prediction layers (multi-token prediction) to golden models: random tensors under the published names, and the logits of
two depths by transformers' MtpModel in fp64.

    python tests/model/make_mtp_goldens.py tests/model/testdata [NAME...]

Needs what make_goldens.py needs (written with transformers 5.24). Each folder gets mtp.json, the tensors, and mtp_golden.json.
"""
import json
import pathlib
import sys

import make_goldens
import torch
from transformers.modeling_layers import MtpModel


LAYERS = 2
OF_HEAD = {"enorm": "enorm", "hnorm": "hnorm", "eh_proj": "eh_proj", "post_norm": "shared_head.norm"}
OF_QWEN = {"enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "eh_proj": "fc", "post_norm": "norm"}


def stack_of(model, name):
    """Random prediction layers. Qwen3-Next's share their norms and projection."""
    config = model.config
    config.num_mtp_layers = LAYERS
    config._experts_implementation = "eager"  # the others do not compute in fp64
    if name == "qwen3_next":
        config.mtp_layer_types = ["full_attention"] * LAYERS
    layers = model.model.layers
    if name == "qwen3_next":  # MtpModel takes its classes from the last layer, which here has no attention
        model.model.layers = torch.nn.ModuleList(sorted(layers, key=lambda layer: hasattr(layer, "self_attn")))
    stack = MtpModel(model, LAYERS).eval()
    model.model.layers = layers
    own = [(key, t) for key, t in [*stack.layers.named_parameters(), *stack.layers.named_buffers()]]
    with torch.no_grad():
        for key, t in own:
            t.copy_(torch.randn_like(t) * (0.2 if t.dim() == 1 else 0.1) + (0.0 if t.dim() > 1 or name == "qwen3_next" else 1.0))
            t.copy_((t * 1024).round() / 1024)
        if name == "qwen3_next":
            for layer in stack.layers[1:]:
                for part in OF_QWEN:
                    getattr(layer, part).weight.copy_(getattr(stack.layers[0], part).weight)
    return stack


def split_experts(key, tensor):
    """The checkpoint's tensors of one of transformers' tensors, whose experts are fused."""
    if key.endswith("experts.gate_up_proj"):
        for e, both in enumerate(tensor):
            gate, up = both.chunk(2)
            yield key.replace("gate_up_proj", f"{e}.gate_proj.weight"), gate
            yield key.replace("gate_up_proj", f"{e}.up_proj.weight"), up
    elif key.endswith("experts.down_proj"):
        for e, down in enumerate(tensor):
            yield key.replace("down_proj", f"{e}.down_proj.weight"), down
    else:
        yield key, tensor


def named(stack, name, first):
    tensors = {}
    for i, layer in enumerate(stack.layers):
        qwen = name == "qwen3_next"
        prefix = f"mtp.layers.{i}." if qwen else f"model.layers.{first + i}."
        for part, published in (OF_QWEN if qwen else OF_HEAD).items():
            tensors[("mtp." if qwen else prefix) + published + ".weight"] = getattr(layer, part).weight
        block = [*layer.mtp_block.named_parameters(), *layer.mtp_block.named_buffers()]
        for key, tensor in block:
            for split, part in split_experts(key, tensor):
                tensors[prefix + split] = part
    return tensors


def main(folder, names):
    for name in names or ["deepseek_v3", "glm4_moe", "qwen3_next"]:
        out = pathlib.Path(folder) / name
        model = make_goldens.load(out).double()
        torch.manual_seed(sum(map(ord, name)) + 1)
        stack = stack_of(model, name).double()
        weights = {key: [list(t.shape), (t * 1024).round().int().flatten().tolist()]
                   for key, t in sorted(named(stack, name, model.config.num_hidden_layers).items())}
        (out / "mtp.json").write_text(json.dumps(weights, separators=(",", ":")).replace('],"', '],\n"') + "\n")
        ids = torch.randint(0, make_goldens.COMMON["vocab_size"], (1, 14))
        depths = []
        with torch.no_grad():
            hidden = model.model(input_ids=ids).last_hidden_state
            for depth in range(LAYERS):
                # Row j reads token j and the earlier layer's row j - 1.
                positions = torch.arange(depth + 1, 14)[None]
                hidden = stack.forward_layer(depth, hidden[:, :-1], positions, None, input_ids=ids[:, depth + 1:])
                logits = model.lm_head(hidden)[0]
                depths.append([[round(x, 9) for x in row] for row in logits[[0, 1, 5, -1]].tolist()])
        golden = dict(token_ids=ids[0].tolist(), rows=[0, 1, 5, -1], depths=depths)
        (out / "mtp_golden.json").write_text(json.dumps(golden) + "\n")
        print(name, (out / "mtp.json").stat().st_size, "bytes, largest logit", logits.abs().max().item())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
