// The inner loops of the CPU kernels other than attention (attention_inner.h). They are compiled once per instruction
// set (inner_*.cc) and chosen at run time.
//
// They work on tiles in a thread's scratch; their callers (linear.cc, layers.cc) are compiled for the baseline. Each
// element of a result is one fixed chain of operations, for any number of rows in the call.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kAlignCols = 32;  // a row of dot's result has space for a multiple of it

// The numbers of a row of logits from which its log-probs follow (softmax.h).
template <typename T>
struct PolicyRow {
  T temperature, top, log_sum;
};

template <typename T>
struct Kernels {
  const char* name;

  // Calls to dot with more rows or columns are not faster. Multiples of kAlignCols.
  int64_t rows, cols;
  // s[r * lds + j] = (accumulate ? s : 0) + dot(a + r * lda, b[j], depth). Writes columns up to cols rounded up to
  // kAlignCols at most; the columns past `cols` hold garbage.
  void (*dot)(const T* a, int64_t lda, int64_t rows, const T* const* b, int64_t cols, int64_t depth, T* s, int64_t lds,
              bool accumulate);

  // out = x / sqrt(mean(x^2) + eps) * weight; returns 1 / sqrt(...).
  T (*rms_norm)(T* out, const T* x, const T* weight, T eps, int64_t n);
  // Writes grad_x and adds to grad_weight. `inverse` is the result of rms_norm.
  void (*rms_norm_backward)(T* grad_x, T* grad_weight, const T* grad, const T* x, const T* weight, T inverse,
                            int64_t n);
  // Half-rotation of one head: (x1, x2) -> (x1 c - x2 s, x2 c + x1 s), n = head_dim / 2. out may be x. sign -1 inverts
  // it.
  void (*rotate)(T* out, const T* x, const T* cos, const T* sin, T sign, int64_t n);
  // out = silu(gate) * up
  void (*swiglu)(T* out, const T* gate, const T* up, int64_t n);
  void (*swiglu_backward)(T* grad_gate, T* grad_up, const T* grad, const T* gate, const T* up, int64_t n);

  // x = cap tanh(factor x), to a few units in the last place. An element's bits depend only on that element.
  void (*soft_cap)(T* x, T factor, T cap, int64_t n);

  // softmax.h, over a row or a part of one, with top = max z and d = (z - top) / temperature.
  // The sums of exp(d) and of d exp(d).
  void (*softmax_sums)(const T* z, T temperature, int64_t n, T* top, T* sum, T* weighted);
  // out = log p = d - log_sum; out may be z.
  void (*log_softmax)(T* out, const T* z, const PolicyRow<T>& row, int64_t n);
  // out = p (of_p + of_plogp log p); out may be z.
  void (*policy_backward)(T* out, const T* z, const PolicyRow<T>& row, T of_p, T of_plogp, int64_t n);
};

// bf16: sums and functions are fp32, rounded where they are stored. Its gradients are fp32's, of the numbers that
// `widen` gives (layers.cc).
template <>
struct Kernels<BFloat16> {
  const char* name;
  int64_t rows, cols;
  // As above; s is not rounded.
  void (*dot)(const BFloat16* a, int64_t lda, int64_t rows, const BFloat16* const* b, int64_t cols, int64_t depth,
              float* s, int64_t lds, bool accumulate);
  float (*rms_norm)(BFloat16* out, const BFloat16* x, const BFloat16* weight, float eps, int64_t n);
  void (*rotate)(BFloat16* out, const BFloat16* x, const BFloat16* cos, const BFloat16* sin, float sign, int64_t n);
  void (*swiglu)(BFloat16* out, const BFloat16* gate, const BFloat16* up, int64_t n);
  void (*narrow)(BFloat16* out, const float* x, int64_t n);
  void (*widen)(float* out, const BFloat16* x, int64_t n);
};

// Null = the compiler could not build it or the machine cannot run it. Amx and Avx512Bf16 support only bf16.
template <typename T>
const Kernels<T>* Amx();
template <typename T>
const Kernels<T>* Avx512Bf16();
template <typename T>
const Kernels<T>* Avx512();
template <typename T>
const Kernels<T>* Avx2();
template <typename T>
const Kernels<T>* Portable();

// Whether this process may use tile registers. If not, the tables of amx must not be called.
bool MayUseTiles();

// The table of the instruction set in force (attention.h: InstructionSet).
template <typename T>
const Kernels<T>& Get();

}  // namespace ingot::kernels::inner
