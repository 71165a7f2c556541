// Computes the policy of rows of logits on the CPU: log-softmax at a temperature, its entropy, and the gradient with
// respect to the logits. Uses raw pointers to fp32 or fp64, without torch.
//
// With d = (z - top) / t for a row's logits z,
//
//   log p_i = d_i - log_sum.
//
// At low temperatures, z / t is large, and subtracting such numbers loses precision, so the logits are subtracted
// first. Between a training step's two passes, the logits are the only array that is as wide as the vocabulary. exp is
// computed twice, because storing it in memory and reading it back would cost more.
//
// Invariant (tested bit for bit): a row's results depend only on that row, not on the number of rows or the threads.
// log p is the same whether it is computed for the whole row (rollout) or for one token (the trainer).
//
// Matrices are dense and row-major. If a logit is not finite, its row's entropy is NaN. Unless the logit is -infinity,
// the row's log-probs are also NaN. Blocks until done. Thread safe.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

// Computes z = cap tanh(z / cap) in place: the soft cap from Gemma 2 (arXiv 2408.00118, section 2).
template <typename T>
void SoftCapLogits(T* logits, int64_t count, double cap, const ParallelFor& parallel);

template <typename T>
struct PolicyRows {
  const T* logits = nullptr;  // [rows, vocab]
  int64_t rows = 0;
  int64_t vocab = 0;
  const T* temperature = nullptr;  // [rows]
  // [rows] each. Written by SumPolicy and read by the other functions.
  T* top = nullptr;      // the largest z
  T* log_sum = nullptr;  // log sum_i exp(d_i)
  T* entropy = nullptr;  // -sum_i p_i log p_i
  double soft_cap = 0;   // > 0 = the logits are capped, and the gradient is with respect to the uncapped ones
};

template <typename T>
void SumPolicy(const PolicyRows<T>& policy, const ParallelFor& parallel);

// out [rows, vocab] = log p. out may alias logits.
template <typename T>
void LogPolicy(const PolicyRows<T>& policy, T* out, const ParallelFor& parallel);

// The gradient with respect to a row's logits: p_i (of_p + of_plogp log p_i), plus an addend for individual tokens.
// With a soft cap, everything is multiplied by 1 - (z / cap)^2.
template <typename T>
struct PolicyGradient {
  const T* of_p = nullptr;      // [rows]
  const T* of_plogp = nullptr;  // [rows]; null = zero
  // Row r has the tokens and addends at [first[r], first[r + 1]), which are added in order.
  const int64_t* first = nullptr;  // [rows + 1]
  const int64_t* token = nullptr;  // in [0, vocab)
  const T* addend = nullptr;
};
// out [rows, vocab]. If its type is narrower than T, each number is rounded once. If its type is T, out may alias
// logits.
template <typename T, typename Out>
void PolicyBackward(const PolicyRows<T>& policy, const PolicyGradient<T>& gradient, Out* out,
                    const ParallelFor& parallel);

}  // namespace ingot::kernels
