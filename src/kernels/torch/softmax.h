// Computes the policy of rows of logits: log_softmax(logits / temperature) over the vocabulary in fp32 (fp64 for fp64),
// its entropy, and the gradient with respect to the logits. Both rollout and the trainer compute all log-probs with
// this code. Equal rows give bit-identical log-probs, no matter how many rows there are, and whether a whole row or one
// token is computed. Uses kernels/softmax.h on the CPU, and on CUDA kernels/cuda/policy_launch.h if libingot_cuda.so is
// loaded. On other devices, ATen computes the policy. Policy's results have no autograd history.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ingot::kernels {

template <typename T>
struct PolicyRows;

// Returns cap tanh(z / cap) for logits [M, V], fp32 or fp64 (kernels/softmax.h). Overwrites logits without autograd
// history. With history, and on other devices, ATen computes the result.
at::Tensor SoftCapOp(const at::Tensor& logits, double cap);

// Tokens in some rows of logits.
struct PolicyTokens {
  std::vector<int64_t> row;  // ascending
  std::vector<int64_t> token;
};

// The functions throw c10::Error if shapes, types, or indices do not match.
class Policy {
 public:
  // logits are [M, V] without autograd history. fp32 and fp64 are used in place, and other types are converted.
  // temperature is [M] or a scalar, of any type, on any device. soft_cap is the cap that was applied to the logits
  // (SoftCapOp); 0 = none.
  Policy(const at::Tensor& logits, const at::Tensor& temperature, double soft_cap = 0);

  // [M] each. The second is logsumexp(logits / temperature).
  const at::Tensor& entropy() const { return entropy_; }
  at::Tensor LogNormalizers() const;

  std::vector<double> LogProbs(const PolicyTokens& tokens) const;

  // [M, V]. With overwrite_logits, it uses the logits' memory and must be the last call.
  at::Tensor LogSoftmax(bool overwrite_logits = false) const;

  // Same as LogSoftmax, but for some rows, in any order: [rows.size(), V].
  at::Tensor LogSoftmaxOf(std::span<const int64_t> rows) const;

  // Returns the gradient with respect to the logits (before the soft cap), [M, V], of a loss that depends on tokens'
  // log-probs and rows' entropies. The arguments are the loss's derivatives: by_logprob[i] for token i's log-prob, and
  // by_entropy [M] for the entropies; empty = none. The result is written to `out`, which has the logits' type or, for
  // fp32 logits, may be bf16; each number is rounded once. If `out` is undefined, it uses the logits' memory and must
  // be the last call.
  at::Tensor Gradient(const PolicyTokens& tokens, std::span<const double> by_logprob,
                      std::span<const double> by_entropy, at::Tensor out) const;

 private:
  template <typename T>
  PolicyRows<T> Rows() const;
  void LogSoftmaxOnDevice(const std::optional<at::Tensor>& rows, const at::Tensor& out) const;

  at::Tensor logits_;
  double soft_cap_;
  at::Tensor temperature_, top_, log_sum_, entropy_;  // [M], with the logits' type and device
};

}  // namespace ingot::kernels
