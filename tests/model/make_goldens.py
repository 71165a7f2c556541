#!/usr/bin/env python3
"""Writes the golden models of the tests: tiny random models by `transformers`, with their logits.

    python tests/model/make_goldens.py tests/model/testdata

Needs torch, transformers and safetensors (any recent version; written with torch 2.11, transformers 5.23). One folder per family:
config.json and model.safetensors as save_pretrained leaves them, golden.json with token ids and fp32 logits.
"""
import json
import pathlib
import sys

import torch
import transformers

COMMON = dict(vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=4096, rms_norm_eps=1e-5)
CASES = {
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, dict(head_dim=8, rope_theta=1e6)),
    "qwen3_bias": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM,
                   dict(head_dim=8, attention_bias=True, tie_word_embeddings=True)),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, dict(tie_word_embeddings=True)),
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, dict(head_dim=6, attention_bias=True)),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM, dict(sliding_window=None)),
    "llama_llama3": (transformers.LlamaConfig, transformers.LlamaForCausalLM,
                     dict(head_dim=16, rope_parameters=dict(rope_type="llama3", rope_theta=5e5, factor=8.0,
                                                            low_freq_factor=1.0, high_freq_factor=4.0,
                                                            original_max_position_embeddings=512))),
    "qwen2_yarn": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM,
                   dict(hidden_size=32, num_attention_heads=2, num_key_value_heads=1,
                        rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=4.0,
                                             original_max_position_embeddings=1024))),
    "qwen3_yarn_scaled": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM,
                          dict(head_dim=16, rope_parameters=dict(
                              rope_type="yarn", rope_theta=1e4, factor=2.0, beta_fast=16.0, beta_slow=2.0, mscale=0.7,
                              mscale_all_dim=1.2, truncate=False, original_max_position_embeddings=2048))),
    "mistral_linear": (transformers.MistralConfig, transformers.MistralForCausalLM,
                       dict(sliding_window=None, head_dim=8,
                            rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=2.5))),
}


def main(folder):
    torch.manual_seed(0)
    for name, (config_class, model_class, extra) in CASES.items():
        model = model_class(config_class(**{**COMMON, **extra})).eval()
        with torch.no_grad():
            for key, p in model.named_parameters():  # norms and biases too, so that a dropped one shows
                p.add_(torch.randn_like(p) * (0.2 if p.dim() == 1 else 0.1))
        out = pathlib.Path(folder) / name
        model.save_pretrained(out)
        (out / "generation_config.json").unlink(missing_ok=True)
        ids = torch.randint(0, COMMON["vocab_size"], (20,))
        positions = torch.cat([torch.arange(12), torch.arange(3000, 3008)])  # far positions too
        with torch.no_grad():
            # One full causal mask, whatever the positions say.
            mask = torch.ones(20, 20).tril().log()[None, None]
            logits = model(input_ids=ids[None], position_ids=positions[None], attention_mask=mask).logits[0]
        golden = dict(token_ids=ids.tolist(), positions=positions.tolist(),
                      logits=[[round(x, 7) for x in row] for row in logits[[0, 1, 11, 12, 19]].tolist()],
                      rows=[0, 1, 11, 12, 19])
        (out / "golden.json").write_text(json.dumps(golden) + "\n")
        print(name, sum(f.stat().st_size for f in out.iterdir()), "bytes")


main(sys.argv[1])
