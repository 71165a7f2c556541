// The policy of rows of logits: log_softmax(logits / temperature) over the vocabulary in fp32 (fp64 from fp64), its
// entropy, and the gradient by the logits. All log-probs, rollout's and the trainer's, come from this code.
// Equal rows give bit-equal log-probs, for any number of rows, and for a whole row as for one token. On the CPU it
// runs kernels/softmax.h, elsewhere ATen. No result of Policy has an autograd history.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

template <typename T>
struct PolicyRows;

// cap tanh(z / cap) of logits [M, V], fp32 or fp64 (kernels/softmax.h). Logits without history are overwritten. With
// history, and on other devices, ATen computes it.
at::Tensor SoftCapOp(const at::Tensor& logits, double cap);

// Tokens of some rows of logits.
struct PolicyTokens {
  std::vector<int64_t> row;  // ascending
  std::vector<int64_t> token;
};

// The functions throw c10::Error where shapes, types or indices do not fit.
class Policy {
 public:
  // logits [M, V] without history; fp32 and fp64 are used in place, other types are widened. temperature [M] or a
  // scalar, of any type, on any device. soft_cap: the logits' (SoftCapOp), 0 = none.
  Policy(const at::Tensor& logits, const at::Tensor& temperature, double soft_cap = 0);

  // [M] each; the second is logsumexp(logits / temperature).
  const at::Tensor& entropy() const { return entropy_; }
  at::Tensor LogNormalizers() const;

  std::vector<double> LogProbs(const PolicyTokens& tokens) const;

  // [M, V]. With overwrite_logits it takes the logits' memory, and must be the last call.
  at::Tensor LogSoftmax(bool overwrite_logits = false) const;

  // The same for some rows, [rows.size(), V], in any order.
  at::Tensor LogSoftmaxOf(std::span<const int64_t> rows) const;

  // The gradient by the logits (before the soft cap), [M, V], of a loss of tokens' log-probs and rows' entropies. Its
  // inputs are the loss's derivatives: by_logprob[i] by token i's log-prob, by_entropy [M] by the entropies, empty =
  // none. Written into `out`, of the logits' type or, from fp32, of bf16, each number rounded once. With an undefined
  // `out` it takes the logits' memory, and must be the last call.
  at::Tensor Gradient(const PolicyTokens& tokens, std::span<const double> by_logprob,
                      std::span<const double> by_entropy, at::Tensor out) const;

 private:
  template <typename T>
  PolicyRows<T> Rows() const;

  at::Tensor logits_;
  double soft_cap_;
  at::Tensor temperature_, top_, log_sum_, entropy_;  // [M], of the logits' type and device
};

}  // namespace ingot::kernels
