// Arguments for the CUDA kernels of the policy (policy.cuh): plain values and device pointers, and the grids. Matrices
// are dense and row-major. T is float or double.
#pragma once

#include <cstdint>

#include "kernels/cuda/row_sizes.h"

namespace ingot::kernels::cuda {

inline constexpr int kPolicyThreads = 256;
inline constexpr int kPolicyHeld = 8;  // vectors of a row that a thread keeps in registers

// The numbers of a row that a block reads.
template <typename T>
inline constexpr int64_t kPolicyPart = int64_t{kPolicyThreads} * kPolicyHeld * kVector<T>;

// A row's values from which its log-probs are computed (kernels/softmax.h).
template <typename T>
struct PolicyValues {
  const T* logits;  // [rows, vocab]
  int64_t rows, vocab;
  const T* temperature;  // [rows]
  T *top, *log_sum;      // [rows]; the kernels of sums write them, and the others read them

  INGOT_HOST_DEVICE int64_t parts() const { return Ceil(vocab, kPolicyPart<T>); }
};

// The sums over a part of a row of exp(d) and d exp(d), where d = (z - top) / temperature.
template <typename T>
struct PolicySums {
  T top, sum, weighted;
};

template <typename T>
struct PolicySumArgs {
  PolicyValues<T> policy;
  T* entropy;            // [rows]
  PolicySums<T>* parts;  // [rows, policy.parts()]
};

template <typename T>
struct LogPolicyArgs {
  PolicyValues<T> policy;
  const int64_t* rows;  // [count]; null = all, in order
  int64_t count;
  T* out;  // [count, vocab]; the logits, if `rows` is null
};

// out[i] = log p of a token of a row.
template <typename T>
struct TokenPolicyArgs {
  PolicyValues<T> policy;
  int64_t count;
  const int64_t *row, *token;  // [count]
  T* out;                      // [count]

  int64_t blocks() const { return Ceil(count, kPolicyThreads); }
};

// The gradient with respect to the logits: see PolicyGradient in kernels/softmax.h.
template <typename T, typename Out>
struct PolicyGradientArgs {
  PolicyValues<T> policy;
  const T *of_p, *of_plogp;  // [rows]
  const int64_t* first;      // [rows + 1]
  const int64_t* token;
  const T* addend;
  T inverse_cap;  // 0 = no soft cap
  Out* out;       // [rows, vocab]; the logits, if it has their type
};

}  // namespace ingot::kernels::cuda
