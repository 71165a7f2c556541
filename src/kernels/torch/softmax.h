// The policy of rows of logits: log_softmax(logits / temperature) over the vocabulary in fp32 (fp64 from fp64), its
// entropy, and the gradient by the logits. The one home of what rollout records and of what the trainer compares with
// it: equal rows give bit-equal log-probs, however many there are, and whether they are taken of a whole row or of one
// token. On the CPU the kernels of softmax.h, elsewhere ATen's. Nothing here has a history.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

template <typename T>
struct PolicyRows;

// Tokens of rows of logits.
struct PolicyTokens {
  std::vector<int64_t> row;  // ascending
  std::vector<int64_t> token;
};

// Throws c10::Error where shapes, types or indices do not fit.
class Policy {
 public:
  // logits [M, V] without history: fp32 or fp64 it uses as they lie, others it widens; temperature [M] or a scalar, of
  // any type, anywhere.
  Policy(const at::Tensor& logits, const at::Tensor& temperature);

  // [M] each; the second is logsumexp(logits / temperature).
  const at::Tensor& entropy() const { return entropy_; }
  at::Tensor LogNormalizers() const;

  std::vector<double> LogProbs(const PolicyTokens& tokens) const;

  // [M, V]; in the logits' place with overwrite_logits, which is then the last that may be asked.
  at::Tensor LogSoftmax(bool overwrite_logits = false) const;

  // The gradient by the logits, [M, V], of a loss of tokens' log-probs and rows' entropies, from its derivatives by
  // these: by_logprob[i] of token i, by_entropy [M] or empty for none. Written into `out`, of the logits' type or, from
  // fp32, of bf16, each number rounded once; where it is undefined in the logits' place, and then the last that may be
  // asked.
  at::Tensor Gradient(const PolicyTokens& tokens, std::span<const double> by_logprob,
                      std::span<const double> by_entropy, at::Tensor out) const;

 private:
  template <typename T>
  PolicyRows<T> Rows() const;

  at::Tensor logits_;
  at::Tensor temperature_, top_, log_sum_, entropy_;  // [M], of the logits' type and device
};

}  // namespace ingot::kernels
