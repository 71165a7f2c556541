#!/usr/bin/env python3
"""Writes the golden models of the tests: tiny random models by `transformers`, with their logits.

    python tests/model/make_goldens.py tests/model/testdata [NAME...]
    python tests/model/make_goldens.py tests/model/testdata --calls [NAME...]     # calls.json of folders that are there

Needs torch, transformers and safetensors (any recent version; written with torch 2.11, transformers 5.23). One folder per family:
config.json as save_pretrained leaves it, weights.json (or model.safetensors), golden.json with token ids and fp32 logits,
calls.json with branching calls and the fp32 log-probs of their sampled ids.
"""
import json
import pathlib
import sys
import tempfile

import safetensors
import safetensors.torch
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
    "llama_mlp_bias": (transformers.LlamaConfig, transformers.LlamaForCausalLM, dict(mlp_bias=True)),
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
    "mistral_window": (transformers.MistralConfig, transformers.MistralForCausalLM, dict(sliding_window=5, head_dim=8)),
    "llama_dynamic": (transformers.LlamaConfig, transformers.LlamaForCausalLM,
                      dict(rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, factor=2.0))),
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM,
               dict(num_hidden_layers=3, head_dim=8, sliding_window=5, query_pre_attn_scalar=16,
                    layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "gemma3_cap": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM,
                   dict(head_dim=8, sliding_window=5, query_pre_attn_scalar=16, final_logit_softcapping=0.9,
                        layer_types=["sliding_attention", "full_attention"])),
    "gemma2": (transformers.Gemma2Config, transformers.Gemma2ForCausalLM,
               dict(head_dim=8, sliding_window=5, query_pre_attn_scalar=16, attn_logit_softcapping=0.2,
                    final_logit_softcapping=0.9, attn_implementation="eager")),  # other implementations drop the cap
    "qwen3_moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM,
                  dict(head_dim=8, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, norm_topk_prob=True)),
    "qwen3_moe_mixed": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM,
                        dict(num_hidden_layers=4, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12,
                             decoder_sparse_step=2, mlp_only_layers=[1])),  # only the last layer has experts
    "glm4_moe": (transformers.Glm4MoeConfig, transformers.Glm4MoeForCausalLM,
                 dict(head_dim=8, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, n_group=2,
                      topk_group=1, first_k_dense_replace=1, routed_scaling_factor=1.5, use_qk_norm=True)),
    "minimax_m2": (transformers.MiniMaxM2Config, transformers.MiniMaxM2ForCausalLM,
                   dict(head_dim=8, num_local_experts=6, num_experts_per_tok=2, bos_token_id=1, eos_token_id=2,
                        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5))),
    "deepseek_v3": (transformers.DeepseekV3Config, transformers.DeepseekV3ForCausalLM,
                    dict(num_key_value_heads=4, q_lora_rank=8, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4,
                         v_head_dim=5, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=12, n_group=2,
                         topk_group=1, first_k_dense_replace=1,
                         rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=4.0, mscale=1.0, mscale_all_dim=1.0,
                                              original_max_position_embeddings=1024))),
    "qwen3_next": (transformers.Qwen3NextConfig, transformers.Qwen3NextForCausalLM,
                   dict(num_hidden_layers=3, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
                        linear_key_head_dim=6, linear_value_head_dim=5, linear_conv_kernel_dim=4, num_experts=4,
                        num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=12,
                        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5),
                        layer_types=["linear_attention", "full_attention", "linear_attention"])),
    "qwen3_next_mixed": (transformers.Qwen3NextConfig, transformers.Qwen3NextForCausalLM,
                         dict(num_hidden_layers=3, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
                              linear_key_head_dim=6, linear_value_head_dim=5, linear_conv_kernel_dim=4, num_experts=4,
                              num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=12,
                              rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5),
                              layer_types=["linear_attention", "full_attention", "linear_attention"],
                              mlp_only_layers=[0, 1])),
    "gpt_oss": (transformers.GptOssConfig, transformers.GptOssForCausalLM,
                dict(head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
                     layer_types=["sliding_attention", "full_attention"],
                     rope_parameters=dict(rope_type="yarn", rope_theta=1.5e5, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                                          truncate=False, original_max_position_embeddings=1024))),
}


def write_text(out):
    """Replaces model.safetensors by weights.json: name -> [shape, numbers times 1024]. Text, for the repository."""
    with safetensors.safe_open(out / "model.safetensors", "pt") as file:
        weights = {key: [list(file.get_tensor(key).shape), (file.get_tensor(key) * 1024).round().int().flatten().tolist()]
                   for key in sorted(file.keys())}
    (out / "weights.json").write_text(json.dumps(weights, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    (out / "model.safetensors").unlink()


def load(folder):
    """The model of a golden's folder."""
    with tempfile.TemporaryDirectory() as copy:
        (pathlib.Path(copy) / "config.json").write_text((folder / "config.json").read_text())
        if (folder / "weights.json").exists():
            weights = {key: torch.tensor(numbers, dtype=torch.float32).view(shape) / 1024
                       for key, (shape, numbers) in json.loads((folder / "weights.json").read_text()).items()}
            safetensors.torch.save_file(weights, pathlib.Path(copy) / "model.safetensors", {"format": "pt"})
        else:
            (pathlib.Path(copy) / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            copy, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.eval()


def write_calls(folder, names):
    """Four calls of one episode: one goes on for longer than a window and a tile, one is another sample of its context, one
    follows a part of what it sampled, one leaves its prompt early."""
    for name in names or CASES:
        model = load(pathlib.Path(folder) / name)
        torch.manual_seed(sum(map(ord, name)))
        draw = lambda n: torch.randint(0, COMMON["vocab_size"], (n,)).tolist()  # noqa: E731
        prompt = draw(9)
        first = (prompt, draw(31))
        calls = [first, (prompt, draw(8)), (prompt + first[1][:7] + draw(3), draw(20)), (prompt[:5] + draw(6), draw(9))]
        rows = []
        for context, sampled in calls:
            ids = torch.tensor([context + sampled])
            with torch.no_grad():
                logprobs = model(input_ids=ids).logits[0].double().log_softmax(-1)
            rows.append(dict(context=context, sampled=sampled,
                             logprobs=[round(logprobs[len(context) - 1 + i, id].item(), 7) for i, id in enumerate(sampled)]))
        (pathlib.Path(folder) / name / "calls.json").write_text(json.dumps(rows).replace("}, {", "},\n{") + "\n")
        print(name, "calls")


def main(folder, names):
    for name, (config_class, model_class, extra) in CASES.items():
        if names and name not in names:
            continue
        torch.manual_seed(0 if not names else sum(map(ord, name)))
        model = model_class(config_class(**{**COMMON, **extra})).eval()
        with torch.no_grad():
            for key, p in model.named_parameters():  # norms and biases too, so that a dropped one shows
                p.add_(torch.randn_like(p) * (0.2 if p.dim() == 1 else 0.1))
                if key.endswith("A_log"):
                    p.sub_(4)  # so slow a decay that early rows are seen to the end
            for key, b in model.named_buffers():
                if key.endswith("e_score_correction_bias"):
                    b.add_(torch.randn_like(b) * 0.1)
            for tensor in [*model.parameters(), *(b for k, b in model.named_buffers() if k.endswith("correction_bias"))]:
                tensor.copy_((tensor * 1024).round() / 1024)  # whole numbers of 1/1024 in the text
        out = pathlib.Path(folder) / name
        model.save_pretrained(out)
        write_text(out)
        (out / "generation_config.json").unlink(missing_ok=True)
        ids = torch.randint(0, COMMON["vocab_size"], (20,))
        windowed = getattr(model.config, "sliding_window", None) is not None or name.startswith("qwen3_next")
        positions = torch.cat([torch.arange(12), torch.arange(3000, 3008)])  # far positions too
        if windowed:
            positions = torch.arange(20)
        with torch.no_grad():
            # One full causal mask, whatever the positions say; with windows or recurrences the model makes its masks.
            mask = None if windowed else torch.ones(20, 20).tril().log()[None, None]
            logits = model(input_ids=ids[None], position_ids=positions[None], attention_mask=mask).logits[0]
        golden = dict(token_ids=ids.tolist(), positions=positions.tolist(),
                      logits=[[round(x, 7) for x in row] for row in logits[[0, 1, 11, 12, 19]].tolist()],
                      rows=[0, 1, 11, 12, 19])
        (out / "golden.json").write_text(json.dumps(golden) + "\n")
        print(name, sum(f.stat().st_size for f in out.iterdir()), "bytes")


if __name__ == "__main__":
    if sys.argv[2:3] == ["--calls"]:
        write_calls(sys.argv[1], sys.argv[3:])
    else:
        main(sys.argv[1], sys.argv[2:])
