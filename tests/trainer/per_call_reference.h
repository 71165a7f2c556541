// The reference for law 2: every call separately, causal attention as a dense matrix, losses and metrics straight from
// their definitions. Shares only the model's layers with the trainer.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "trainer/metrics.h"
#include "trainer/objectives/objective.h"
#include "trainer/options.h"
#include "tree/forest.h"

namespace ingot::trainer {

class DenseCausal final : public model::AttentionBackend {
 public:
  at::Tensor Attend(int64_t, const model::AttentionInput& input) override {
    const at::Tensor &q = input.q, &k = input.k, &v = input.v;
    const int64_t n = q.size(0), repeat = q.size(1) / k.size(1);
    const at::Tensor keys = k.repeat_interleave(repeat, 1).transpose(0, 1);    // [heads, N, d]
    const at::Tensor values = v.repeat_interleave(repeat, 1).transpose(0, 1);  // [heads, N, d]
    at::Tensor scores = at::matmul(q.transpose(0, 1), keys.transpose(1, 2)) * input.spec.scale;
    if (const double cap = input.spec.soft_cap; cap > 0) scores = (scores / cap).tanh() * cap;
    at::Tensor hidden = at::ones({n, n}, at::kBool).triu(1);
    if (input.spec.window > 0) hidden = hidden | at::ones({n, n}, at::kBool).tril(-input.spec.window);
    scores = scores.masked_fill(hidden, -INFINITY);
    if (!input.sinks.defined()) return at::matmul(at::softmax(scores, -1), values).transpose(0, 1);
    const at::Tensor sinks = input.sinks.view({-1, 1, 1}).expand({q.size(1), n, 1});
    const at::Tensor all = at::softmax(at::cat({scores, sinks}, -1), -1);
    return at::matmul(all.slice(-1, 0, n), values).transpose(0, 1);
  }

  // The gated delta rule by its definition (arXiv 2412.06464), one row after the other.
  at::Tensor Recur(int64_t, const model::RecurrentInput& input) override {
    const kernels::DeltaShape& s = input.spec.shape;
    const kernels::DeltaInput& in = input.tensors;
    const int64_t n = in.x.size(0), keys = s.keys();
    const at::Tensor padded = at::cat({at::zeros({s.kernel - 1, s.channels()}, in.x.options()), in.x});
    at::Tensor u = at::zeros_like(in.x);
    for (int64_t j = 0; j < s.kernel; ++j) u = u + padded.narrow(0, j, n) * in.convolution.select(2, j).squeeze(1);
    u = at::silu(u);
    const auto unit = [&](int64_t from) {
      const at::Tensor x = u.narrow(1, from, keys).reshape({n, s.key_heads, s.key_dim});
      return (x / (x.square().sum(-1, true) + 1e-6).sqrt()).repeat_interleave(s.sharing(), 1);
    };
    const at::Tensor q = unit(0) / std::sqrt(double(s.key_dim)), k = unit(keys);
    const at::Tensor v = u.narrow(1, 2 * keys, s.values()).reshape({n, s.value_heads, s.value_dim});
    const at::Tensor decay = (-in.decay.exp() * at::softplus(in.step + in.step_bias)).exp(),
                     rate = at::sigmoid(in.rate);
    at::Tensor state = at::zeros({s.value_heads, s.key_dim, s.value_dim}, in.x.options());
    std::vector<at::Tensor> out;
    for (int64_t t = 0; t < n; ++t) {
      state = state * decay[t].view({-1, 1, 1});
      const at::Tensor wrong = v[t] - at::einsum("hij,hi->hj", {state, k[t]});
      state = state + at::einsum("hi,hj->hij", {k[t], wrong * rate[t].unsqueeze(1)});
      out.push_back(at::einsum("hij,hi->hj", {state, q[t]}));
    }
    return at::stack(out);
  }
};

struct ReferenceResult {
  double loss = 0;
  double loss_abs_terms = 0;  // sum of the absolute terms the loss adds up
  StepMetrics metrics;
};

// One call's share of the loss: the model's numbers of its loss tokens, with the call run by itself.
struct ScoredCall {
  const tree::CallPath* call = nullptr;
  double advantage = 0;
  std::vector<int64_t> kept;           // offsets of the sampled tokens that bear loss
  at::Tensor lp, recorded, reference;  // [kept]
  at::Tensor entropy;                  // [kept]
  at::Tensor policy;                   // [kept]: 1 = has a policy loss, 0 = masked
};

inline at::Tensor SampledLogSoftmax(const model::Transformer& model, const tree::CallPath& call) {
  const int64_t n = call.size(), first = call.context.size();
  const std::vector<int32_t> all = call.Tokens();
  const std::vector<int64_t> ids(all.begin(), all.end());
  const at::Tensor tokens = at::from_blob(const_cast<int64_t*>(ids.data()), {n}, at::kLong).clone();
  DenseCausal attention;
  const at::Tensor hidden = model.Hidden(tokens, at::arange(n, at::kLong), attention);
  return at::log_softmax(model.Logits(hidden.slice(0, first - 1, n - 1)) / double(call.temperature), -1);
}

inline at::Tensor LabelLogprobs(const at::Tensor& all, const tree::CallPath& call) {
  const std::vector<int64_t> labels(call.sampled.begin(), call.sampled.end());
  const at::Tensor index =
      at::from_blob(const_cast<int64_t*>(labels.data()), {int64_t(labels.size()), 1}, at::kLong).clone();
  return all.gather(1, index).squeeze(1);
}

inline ScoredCall ScoreCall(const model::Transformer& model, const model::Transformer* reference,
                            const tree::CallPath& call, double advantage, const TrainerOptions& options,
                            int64_t version) {
  ScoredCall scored{&call, advantage, {}, {}, {}, {}, {}, {}};
  const int64_t oldest = options.train_segments == "all"               ? 0
                         : options.train_segments == "current_version" ? version
                                                                       : version - options.train_segments_max_age;
  for (size_t t = 0; t < call.versions.size(); ++t) {
    if (call.versions[t] >= oldest) scored.kept.push_back(int64_t(t));
  }
  const at::Tensor kept = at::from_blob(scored.kept.data(), {int64_t(scored.kept.size())}, at::kLong).clone();
  const at::Tensor all = SampledLogSoftmax(model, call);
  scored.lp = LabelLogprobs(all, call).index_select(0, kept);
  scored.entropy = -(all.exp() * all).sum(-1).index_select(0, kept);
  std::vector<double> recorded(call.logprobs.begin(), call.logprobs.end());
  scored.recorded = at::from_blob(recorded.data(), {int64_t(recorded.size())}, at::kDouble)
                        .to(all.scalar_type(), false, true)
                        .index_select(0, kept);
  if (reference != nullptr) {
    scored.reference = LabelLogprobs(SampledLogSoftmax(*reference, call), call).detach().index_select(0, kept);
  }
  return scored;
}

inline double Sum(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum;
}

// Sets ScoredCall::policy by the definition of each mask; its metrics if one is on.
inline void MaskPolicy(std::vector<ScoredCall>& calls, const TrainerOptions& options, StepMetrics& metrics) {
  const OffPolicyMaskOptions& masks = options.off_policy_mask;
  std::map<int32_t, std::vector<double>> gaps;  // current less recorded log-probs of an episode
  for (const ScoredCall& scored : calls) {
    for (int64_t i = 0; i < int64_t(scored.kept.size()); ++i) {
      gaps[scored.call->episode].push_back(scored.lp[i].item<double>() - scored.recorded[i].item<double>());
    }
  }
  const auto outside = [](double ratio, double low, double high) {
    return (low > 0 && ratio < low) || (high > 0 && ratio > high);
  };
  std::vector<double> any, token, sequence, opsm;
  for (ScoredCall& scored : calls) {
    const std::vector<double>& all = gaps[scored.call->episode];
    const double mean = Sum(all) / double(all.size());
    std::vector<double> policy;
    for (int64_t i = 0; i < int64_t(scored.kept.size()); ++i) {
      const double ratio = std::exp(scored.lp[i].item<double>() - scored.recorded[i].item<double>());
      token.push_back(outside(ratio, masks.token_low, masks.token_high));
      sequence.push_back(outside(std::exp(mean), masks.sequence_low, masks.sequence_high));
      opsm.push_back(masks.opsm_delta > 0 && scored.advantage < 0 && -mean > masks.opsm_delta);
      any.push_back(std::max({token.back(), sequence.back(), opsm.back()}));
      policy.push_back(1 - any.back());
    }
    scored.policy = at::from_blob(policy.data(), {int64_t(policy.size())}, at::kDouble)
                        .to(scored.lp.scalar_type(), false, /*copy=*/true);
  }
  const double n = double(any.size());
  if (masks.on()) metrics["offpolicy/masked"] = Sum(any) / n;
  if (masks.of_tokens()) metrics["offpolicy/masked_token"] = Sum(token) / n;
  if (masks.sequence_low > 0 || masks.sequence_high > 0) metrics["offpolicy/masked_sequence"] = Sum(sequence) / n;
  if (masks.opsm_delta > 0) metrics["offpolicy/masked_opsm"] = Sum(opsm) / n;
}

// 1/normaliser of each token, from the definition of each aggregation; by call.
inline std::vector<double> ReferenceWeights(const std::vector<ScoredCall>& calls, const TrainerOptions& options) {
  std::map<int32_t, double> episode_tokens, group_tokens;
  double batch_tokens = 0;
  for (const ScoredCall& scored : calls) {
    batch_tokens += double(scored.kept.size());
    episode_tokens[scored.call->episode] += double(scored.kept.size());
    group_tokens[scored.call->group] += double(scored.kept.size());
  }
  std::vector<double> weights;
  for (const ScoredCall& scored : calls) {
    const double episodes = double(episode_tokens.size()), groups = double(group_tokens.size());
    const std::string& rule = options.loss_aggregation;
    weights.push_back(rule == "token"      ? 1 / batch_tokens
                      : rule == "sequence" ? 1 / (episodes * episode_tokens[scored.call->episode])
                      : rule == "constant" ? 1 / (episodes * double(options.loss_constant_tokens))
                                           : 1 / (groups * group_tokens[scored.call->group]));
  }
  return weights;
}

// The terms of a loss per sequence: gspo, opmd and dpo, straight from their papers, differentiated by autograd.
inline std::vector<at::Tensor> SequenceTerms(const std::vector<ScoredCall>& calls,
                                             const std::vector<Preference>& preferences, const TrainerOptions& options,
                                             StepMetrics& metrics) {
  struct Sequence {
    std::vector<at::Tensor> lp, recorded, reference, credited, policy;
    double advantage = 0;
  };
  std::map<int32_t, Sequence> sequences;
  for (const ScoredCall& scored : calls) {
    Sequence& s = sequences[scored.call->episode];
    s.lp.push_back(scored.lp);
    s.recorded.push_back(scored.recorded);
    if (scored.reference.defined()) s.reference.push_back(scored.reference);
    s.credited.push_back(scored.advantage * scored.lp * scored.policy);
    s.policy.push_back(scored.policy);
    s.advantage = scored.advantage;
  }
  const double count = double(sequences.size());
  std::vector<at::Tensor> terms;
  if (options.objective == "dpo") {
    const auto margin = [&](int32_t e) {
      return (at::cat(sequences.at(e).lp) - at::cat(sequences.at(e).reference)).sum();
    };
    double margins = 0;
    for (const Preference& pair : preferences) {
      const at::Tensor m = options.dpo_beta * (margin(pair.chosen) - margin(pair.rejected));
      terms.push_back(-at::log_sigmoid(m) / double(preferences.size()));
      margins += m.item<double>() / double(preferences.size());
    }
    metrics["dpo/margin_mean"] = margins;
    return terms;
  }
  std::vector<double> ratios, log_ratios;
  for (const auto& [episode, s] : sequences) {
    const at::Tensor policy = at::cat(s.policy);
    const double kept = policy.sum().item<double>();
    if (kept == 0) continue;
    const at::Tensor log_ratio = (at::cat(s.lp) - at::cat(s.recorded)) * policy;  // of the tokens with a policy loss
    if (options.objective == "gspo") {
      const at::Tensor ratio = (log_ratio.sum() / kept).exp();
      const at::Tensor clipped = ratio.clamp(1 - options.eps_clip_low, 1 + options.eps_clip_high);
      const double share = kept / double(policy.size(0));
      terms.push_back(-share * at::minimum(ratio * s.advantage, clipped * s.advantage) / count);
      ratios.push_back(ratio.item<double>());
      metrics["gspo/ratio_mean"] = Sum(ratios) / double(ratios.size());
    } else {
      terms.push_back(-at::cat(s.credited).sum() / count);
      terms.push_back(0.5 * options.opmd_tau * log_ratio.sum().square() / count);
      log_ratios.push_back(log_ratio.sum().item<double>());
      metrics["opmd/log_ratio_mean"] = Sum(log_ratios) / double(log_ratios.size());
    }
  }
  return terms;
}

// The terms of a loss per token, [kept]: cispo, ppo_clip and sapo.
inline at::Tensor TokenTerms(const ScoredCall& scored, double weight, const TrainerOptions& options) {
  const double a = scored.advantage;
  const double low = 1 - options.eps_clip_low, high = 1 + options.eps_clip_high;
  const at::Tensor held = (scored.lp.detach() - scored.recorded).exp();
  if (options.objective == "cispo") return -weight * held.clamp(low, high) * a * scored.lp * scored.policy;
  if (options.objective == "sapo") {
    const double tau = a > 0 ? options.sapo_tau_positive : options.sapo_tau_negative;
    return -weight * a * (4 / tau) * (tau * ((scored.lp - scored.recorded).exp() - 1)).sigmoid() * scored.policy;
  }
  const bool cap = options.importance_cap > 0;
  const at::Tensor ratio = (scored.lp - (cap ? scored.lp.detach() : scored.recorded)).exp();
  at::Tensor surrogate = at::minimum(ratio * a, ratio.clamp(low, high) * a);
  if (options.dual_clip > 0 && a < 0) surrogate = surrogate.clamp_min(options.dual_clip * a);
  return -weight * surrogate * scored.policy * (cap ? held.clamp_max(options.importance_cap) : at::ones_like(held));
}

// The estimate of KL(p || q) at tokens of p; x = log q - log p.
inline at::Tensor KlEstimate(const at::Tensor& x, const std::string& kind) {
  if (kind == "k1") return -x;
  if (kind == "k2") return 0.5 * x.square();
  if (kind == "abs") return x.abs();
  return x.exp() - 1 - x;
}

inline at::Tensor PenaltyTerms(const ScoredCall& scored, double weight, const TrainerOptions& options) {
  at::Tensor terms = at::zeros_like(scored.recorded);
  if (options.kl_coefficient > 0) {
    const at::Tensor x = scored.lp - scored.recorded;
    terms = terms + options.kl_coefficient * weight * KlEstimate(x, options.kl_kind);
  }
  if (options.reference_kl_coefficient > 0) {
    const at::Tensor x = scored.reference - scored.lp;
    terms = terms + options.reference_kl_coefficient * weight * KlEstimate(x, options.kl_kind);
  }
  if (options.entropy_coefficient > 0) terms = terms - options.entropy_coefficient * weight * scored.entropy;
  return terms;
}

// The step's metrics, token by token.
inline StepMetrics ReferenceMetrics(const std::vector<ScoredCall>& calls, const TrainerOptions& options,
                                    int64_t version) {
  std::vector<double> entropy, ratios, low, high, k3, diffs, ages, probe_k3, probe_diffs;
  double unmerged = 0;
  for (const ScoredCall& scored : calls) {
    unmerged += double(scored.call->size());
    for (size_t i = 0; i < scored.kept.size(); ++i) {
      const size_t t = size_t(scored.kept[i]);
      const double gap = scored.lp[int64_t(i)].item<double>() - double(scored.call->logprobs[t]);
      const double ratio = std::exp(gap);
      entropy.push_back(scored.entropy[int64_t(i)].item<double>());
      if (scored.policy[int64_t(i)].item<double>() > 0) {
        ratios.push_back(ratio);
        low.push_back(ratio < 1 - options.eps_clip_low);
        high.push_back(ratio > 1 + options.eps_clip_high);
      }
      k3.push_back(ratio - 1 - gap);
      diffs.push_back(std::abs(gap));
      ages.push_back(double(version - scored.call->versions[t]));
      if (scored.call->versions[t] != version || scored.call->kv_mixed[t]) continue;
      probe_k3.push_back(k3.back());
      probe_diffs.push_back(diffs.back());
    }
  }
  const auto max = [](const std::vector<double>& v) { return v.empty() ? 0 : *std::max_element(v.begin(), v.end()); };
  const double n = double(ages.size()), r = double(ratios.size()), p = std::max(1.0, double(probe_k3.size()));
  StepMetrics metrics = {{"actor/entropy", Sum(entropy) / n},
                         {"offpolicy/k3_kl", Sum(k3) / n},
                         {"offpolicy/logprob_abs_diff_mean", Sum(diffs) / n},
                         {"offpolicy/logprob_abs_diff_max", max(diffs)},
                         {"mismatch/k3_kl", Sum(probe_k3) / p},
                         {"mismatch/logprob_abs_diff_mean", Sum(probe_diffs) / p},
                         {"mismatch/logprob_abs_diff_max", max(probe_diffs)},
                         {"mismatch/probe_tokens", double(probe_k3.size())},
                         {"async/staleness_mean", Sum(ages) / n},
                         {"async/staleness_max", max(ages)},
                         {"batch/loss_tokens", n},
                         {"tree/unmerged_tokens", unmerged}};
  if (options.objective == "cispo") {
    metrics["actor/clipfrac_low"] = Sum(low) / r;
    metrics["actor/clipfrac_high"] = Sum(high) / r;
    metrics["cispo/ratio_mean"] = Sum(ratios) / r;
    metrics["cispo/ratio_max"] = max(ratios);
  }
  if (options.objective == "ppo_clip" && options.importance_cap == 0) metrics["ppo/ratio_mean"] = Sum(ratios) / r;
  return metrics;
}

// Adds gradients to the model's .grad. `advantages` per call; `reference` may be null if the loss needs none.
inline ReferenceResult PerCallReference(const model::Transformer& model, const std::vector<tree::CallPath>& calls,
                                        const std::vector<double>& advantages, const TrainerOptions& options,
                                        int64_t version, const model::Transformer* reference = nullptr,
                                        const std::vector<Preference>& preferences = {}) {
  std::vector<ScoredCall> scored;
  for (size_t c = 0; c < calls.size(); ++c) {
    scored.push_back(ScoreCall(model, reference, calls[c], advantages[c], options, version));
  }
  const std::vector<double> weights = ReferenceWeights(scored, options);
  ReferenceResult result;
  MaskPolicy(scored, options, result.metrics);
  result.metrics.merge(ReferenceMetrics(scored, options, version));
  std::vector<at::Tensor> terms;
  if (options.objective == "cispo" || options.objective == "ppo_clip" || options.objective == "sapo") {
    for (size_t c = 0; c < scored.size(); ++c) terms.push_back(TokenTerms(scored[c], weights[c], options));
  } else {
    terms = SequenceTerms(scored, preferences, options, result.metrics);
  }
  for (size_t c = 0; c < scored.size(); ++c) terms.push_back(PenaltyTerms(scored[c], weights[c], options));
  at::Tensor loss = at::zeros({}, scored[0].recorded.options());
  for (const at::Tensor& term : terms) {
    loss = loss + term.sum();
    result.loss_abs_terms += term.abs().sum().item<double>();
  }
  result.loss = loss.item<double>();
  loss.backward();
  result.metrics["actor/loss"] = result.loss;
  return result;
}

}  // namespace ingot::trainer
