// The policy of a row of logits, on the CPU: log-softmax at a temperature, its entropy, and the gradient by the logits.
// Raw pointers, fp32 or fp64, no torch.
//
// With d = (z - top) / t of a row's logits z,
//
//   log p_i = d_i - log_sum.
//
// At low temperatures z / t is large, and differences of such numbers are coarse; differences of logits are not.
// Between the two passes of a training step the logits are the only array as wide as the vocabulary. exp is computed
// twice, which costs less than a write to memory and a read.
//
// Invariant (tests hold it bit for bit): a row's numbers depend only on that row, not on the number of rows or the
// threads. log p is the same whether it is taken of the whole row (rollout) or of one token (the trainer).
//
// Matrices are dense and row-major. A number that is not finite makes its row's entropy not-a-number. Unless it is
// -infinity, it also makes the row's log-probs not-a-number. Blocks until done; thread safe.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

// z = cap tanh(z / cap) in place: the soft cap of Gemma 2 (arXiv 2408.00118, section 2).
template <typename T>
void SoftCapLogits(T* logits, int64_t count, double cap, const ParallelFor& parallel);

template <typename T>
struct PolicyRows {
  const T* logits = nullptr;  // [rows, vocab]
  int64_t rows = 0;
  int64_t vocab = 0;
  const T* temperature = nullptr;  // [rows]
  // [rows] each. SumPolicy writes them; the other functions read them.
  T* top = nullptr;      // the largest z
  T* log_sum = nullptr;  // log sum_i exp(d_i)
  T* entropy = nullptr;  // -sum_i p_i log p_i
  double soft_cap = 0;   // > 0: the logits are capped; PolicyBackward then gives the gradient by the uncapped ones
};

template <typename T>
void SumPolicy(const PolicyRows<T>& policy, const ParallelFor& parallel);

// out [rows, vocab] = log p. out may be the logits' memory.
template <typename T>
void LogPolicy(const PolicyRows<T>& policy, T* out, const ParallelFor& parallel);

// The gradient by a row's logits: p_i (of_p + of_plogp log p_i), plus an addend for single tokens; with a soft cap all
// of it times 1 - (z / cap)^2.
template <typename T>
struct PolicyGradient {
  const T* of_p = nullptr;      // [rows]
  const T* of_plogp = nullptr;  // [rows]; null = zero
  // Row r has the tokens and addends at [first[r], first[r + 1]), added in that order.
  const int64_t* first = nullptr;  // [rows + 1]
  const int64_t* token = nullptr;  // in [0, vocab)
  const T* addend = nullptr;
};
// out [rows, vocab]. A type narrower than T is rounded once; of type T, out may be the logits' memory.
template <typename T, typename Out>
void PolicyBackward(const PolicyRows<T>& policy, const PolicyGradient<T>& gradient, Out* out,
                    const ParallelFor& parallel);

}  // namespace ingot::kernels
