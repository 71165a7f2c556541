// The yardstick: every call by itself, causal attention as a dense matrix, losses and metrics straight from their
// definitions. Shares nothing with the trainer but the model's layers.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "tree/forest.h"

namespace ingot::trainer {

class DenseCausal final : public model::AttentionBackend {
 public:
  at::Tensor Attend(int64_t, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) override {
    const int64_t n = q.size(0), repeat = q.size(1) / k.size(1);
    const at::Tensor keys = k.repeat_interleave(repeat, 1).transpose(0, 1);    // [heads, N, d]
    const at::Tensor values = v.repeat_interleave(repeat, 1).transpose(0, 1);  // [heads, N, d]
    at::Tensor scores = at::matmul(q.transpose(0, 1), keys.transpose(1, 2)) / std::sqrt(double(q.size(2)));
    const at::Tensor hidden = at::ones({n, n}, at::kBool).triu(1);
    scores = scores.masked_fill(hidden, -INFINITY);
    return at::matmul(at::softmax(scores, -1), values).transpose(0, 1);
  }
};

struct ReferenceResult {
  double loss = 0;
  double loss_abs_terms = 0;  // sum of the absolute terms the loss adds up
  StepMetrics metrics;
};

// Adds gradients to the model's .grad. `advantages` per call.
inline ReferenceResult PerCallReference(const model::Transformer& model, const std::vector<tree::FlatCall>& calls,
                                        const std::vector<double>& advantages, const TrainerOptions& options,
                                        int64_t version) {
  // 1/normaliser of a token, from the definition of each aggregation.
  std::map<int32_t, double> episode_tokens, group_tokens;
  double batch_tokens = 0, unmerged = 0;
  for (const auto& call : calls) {
    const double n = double(call.tokens.size()) - call.context_tokens;
    batch_tokens += n;
    unmerged += double(call.tokens.size());
    episode_tokens[call.episode] += n;
    group_tokens[call.group] += n;
  }
  ReferenceResult result;
  double entropy = 0, ratio_sum = 0, ratio_max = 0, low = 0, high = 0, k3 = 0, diff = 0, diff_max = 0;
  double probe_k3 = 0, probe_diff = 0, probe_max = 0, probe = 0, age = 0, age_max = 0;
  for (size_t c = 0; c < calls.size(); ++c) {
    const tree::FlatCall& call = calls[c];
    const int64_t n = int64_t(call.tokens.size()), first = call.context_tokens;
    std::vector<int64_t> ids(call.tokens.begin(), call.tokens.end());
    const at::Tensor tokens = at::from_blob(ids.data(), {n}, at::kLong).clone();
    DenseCausal attention;
    const at::Tensor hidden = model.Hidden(tokens, at::arange(n, at::kLong), attention);
    const at::Tensor logits = model.Logits(hidden.slice(0, first - 1, n - 1));
    const at::Tensor lp_all = at::log_softmax(logits / double(call.temperature), -1);
    const at::Tensor lp = lp_all.gather(1, tokens.slice(0, first, n).unsqueeze(1)).squeeze(1);
    const double weight = options.loss_aggregation == "token" ? 1 / batch_tokens
                          : options.loss_aggregation == "sequence"
                              ? 1 / (double(episode_tokens.size()) * episode_tokens[call.episode])
                              : 1 / (double(group_tokens.size()) * group_tokens[call.group]);
    at::Tensor loss = at::zeros({}, lp.options().requires_grad(false));
    for (int64_t t = 0; t < n - first; ++t) {
      const double now = lp[t].item<double>(), recorded = call.logprobs[size_t(t)];
      const double ratio = std::exp(now - recorded);
      const double clipped = std::min(std::max(ratio, 1 - options.eps_clip_low), 1 + options.eps_clip_high);
      const at::Tensor distribution = lp_all[t];
      const at::Tensor h = -(distribution.exp() * distribution).sum();
      at::Tensor term = -weight * clipped * advantages[c] * lp[t];
      if (options.kl_coefficient > 0) {
        term = term + options.kl_coefficient * weight * ((lp[t] - recorded).exp() - 1 - (lp[t] - recorded));
      }
      if (options.entropy_coefficient > 0) term = term - options.entropy_coefficient * weight * h;
      loss = loss + term;
      result.loss_abs_terms += std::abs(term.item<double>());
      entropy += h.item<double>();
      ratio_sum += ratio;
      ratio_max = std::max(ratio_max, ratio);
      low += ratio < 1 - options.eps_clip_low;
      high += ratio > 1 + options.eps_clip_high;
      k3 += ratio - 1 - (now - recorded);
      diff += std::abs(now - recorded);
      diff_max = std::max(diff_max, std::abs(now - recorded));
      age += double(version - call.versions[size_t(t)]);
      age_max = std::max(age_max, double(version - call.versions[size_t(t)]));
      if (call.versions[size_t(t)] == version && !call.kv_mixed[size_t(t)]) {
        ++probe;
        probe_k3 += ratio - 1 - (now - recorded);
        probe_diff += std::abs(now - recorded);
        probe_max = std::max(probe_max, std::abs(now - recorded));
      }
    }
    result.loss += loss.item<double>();
    loss.backward();
  }
  const double t = batch_tokens, p = std::max(1.0, probe);
  result.metrics = {{"actor/entropy", entropy / t},
                    {"actor/clipfrac_low", low / t},
                    {"actor/clipfrac_high", high / t},
                    {"cispo/ratio_mean", ratio_sum / t},
                    {"cispo/ratio_max", ratio_max},
                    {"offpolicy/k3_kl", k3 / t},
                    {"offpolicy/logprob_abs_diff_mean", diff / t},
                    {"offpolicy/logprob_abs_diff_max", diff_max},
                    {"mismatch/k3_kl", probe_k3 / p},
                    {"mismatch/logprob_abs_diff_mean", probe_diff / p},
                    {"mismatch/logprob_abs_diff_max", probe_max},
                    {"mismatch/probe_tokens", probe},
                    {"async/staleness_mean", age / t},
                    {"async/staleness_max", age_max},
                    {"batch/loss_tokens", t},
                    {"tree/unmerged_tokens", unmerged}};
  result.metrics["actor/loss"] = result.loss;
  return result;
}

}  // namespace ingot::trainer
