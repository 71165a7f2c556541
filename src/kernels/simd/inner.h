// Inner loops for CPU kernels other than attention (attention_inner.h). They are compiled once per instruction set
// (inner_*.cc) and selected at run time.
//
// They work on tiles in a thread's scratch memory. Their callers (linear.cc, layers.cc) are compiled for the baseline.
// Each element of a result is computed by one fixed chain of operations, no matter how many rows a call has.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kAlignCols = 32;  // a result row of `dot` has space for a multiple of this

// The values from which a row's log-probs are computed (softmax.h).
template <typename T>
struct PolicyRow {
  T temperature, top, log_sum;
};

template <typename T>
struct Kernels {
  const char* name;

  // Larger calls of `dot` than this are not faster. Multiples of kAlignCols.
  int64_t rows, cols;
  // s[r * lds + j] = (accumulate ? s : 0) + dot(a + r * lda, b[j], depth). May write columns up to `cols` rounded up to
  // kAlignCols; columns after `cols` are garbage.
  void (*dot)(const T* a, int64_t lda, int64_t rows, const T* const* b, int64_t cols, int64_t depth, T* s, int64_t lds,
              bool accumulate);

  // out = x / sqrt(mean(x^2) + eps) * weight. Returns 1 / sqrt(...).
  T (*rms_norm)(T* out, const T* x, const T* weight, T eps, int64_t n);
  // Writes grad_x and adds to grad_weight. `inverse` is the result of rms_norm.
  void (*rms_norm_backward)(T* grad_x, T* grad_weight, const T* grad, const T* x, const T* weight, T inverse,
                            int64_t n);
  // Half-rotates one head: (x1, x2) -> (x1 c - x2 s, x2 c + x1 s), n = head_dim / 2. out may equal x. sign -1 inverts
  // it.
  void (*rotate)(T* out, const T* x, const T* cos, const T* sin, T sign, int64_t n);
  // out = silu(gate) * up
  void (*swiglu)(T* out, const T* gate, const T* up, int64_t n);
  void (*swiglu_backward)(T* grad_gate, T* grad_up, const T* grad, const T* gate, const T* up, int64_t n);

  // x = cap tanh(factor x), with an error of a few units in the last place. An element's bits depend only on that
  // element.
  void (*soft_cap)(T* x, T factor, T cap, int64_t n);

  // See softmax.h. Processes a row or part of one, with top = max z and d = (z - top) / temperature. Computes the sums
  // of exp(d) and of d exp(d).
  void (*softmax_sums)(const T* z, T temperature, int64_t n, T* top, T* sum, T* weighted);
  // out = log p = d - log_sum. out may equal z.
  void (*log_softmax)(T* out, const T* z, const PolicyRow<T>& row, int64_t n);
  // out = p (of_p + of_plogp log p). out may equal z.
  void (*policy_backward)(T* out, const T* z, const PolicyRow<T>& row, T of_p, T of_plogp, int64_t n);
};

// bf16: sums and functions are computed in fp32 and rounded when stored. Gradients are computed in fp32 from the output
// of `widen` (layers.cc).
template <>
struct Kernels<BFloat16> {
  const char* name;
  int64_t rows, cols;
  // Same as above, but s is not rounded.
  void (*dot)(const BFloat16* a, int64_t lda, int64_t rows, const BFloat16* const* b, int64_t cols, int64_t depth,
              float* s, int64_t lds, bool accumulate);
  float (*rms_norm)(BFloat16* out, const BFloat16* x, const BFloat16* weight, float eps, int64_t n);
  void (*rotate)(BFloat16* out, const BFloat16* x, const BFloat16* cos, const BFloat16* sin, float sign, int64_t n);
  void (*swiglu)(BFloat16* out, const BFloat16* gate, const BFloat16* up, int64_t n);
  void (*narrow)(BFloat16* out, const float* x, int64_t n);
  void (*widen)(float* out, const BFloat16* x, int64_t n);
};

// Return null if the compiler could not build the table or the machine cannot run it. Amx and Avx512Bf16 support only
// bf16.
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

// Returns whether this process may use tile registers. If not, the amx tables must not be used.
bool MayUseTiles();

// Returns the table for the instruction set in use (InstructionSet in attention.h).
template <typename T>
const Kernels<T>& Get();

}  // namespace ingot::kernels::inner
