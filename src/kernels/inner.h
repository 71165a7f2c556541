// The inner loops of the CPU kernels, compiled once per instruction set (inner_*.cc) and chosen at run time.
//
// They work on tiles that lie in a thread's scratch; what calls them (attention.cc, linear.cc, ...) is compiled for the
// baseline. Each result element is one fixed chain of operations whatever the number of rows in the call.
#pragma once

#include <cstdint>

namespace ingot::kernels::inner {

inline constexpr int64_t kTile = 64;  // columns of a score tile; its rows are kTile apart

template <typename T>
struct Kernels {
  const char* name;

  // s[r * lds + j] = (accumulate ? s : 0) + dot(a + r * lda, b[j], depth). Writes columns up to cols rounded up to 4;
  // those past `cols` hold garbage.
  void (*dot)(const T* a, int64_t lda, int64_t rows, const T* const* b, int64_t cols, int64_t depth, T* s, int64_t lds,
              bool accumulate);

  // c[r * ldc + d] = c * (row_scale ? row_scale[r] : 1) + sum over k of a[r * row_step + k * k_step] * b[k][d].
  void (*accumulate)(T* c, int64_t ldc, const T* row_scale, int64_t rows, int64_t width, const T* a, int64_t row_step,
                     int64_t k_step, const T* const* b, int64_t depth);

  // Online softmax over one tile: s becomes exp(s - new max); max and sum are updated, rescale[r] is what the row's
  // accumulator must be multiplied by. A masked entry is -infinity. Rows of kTile columns.
  void (*softmax)(T* s, int64_t rows, T* max, T* sum, T* rescale);

  // s becomes exp(s - lse[r]) (0 in rows that saw nothing), ds becomes s * (ds - delta[r]).
  void (*softmax_backward)(T* s, T* ds, int64_t rows, const T* lse, const T* delta);

  // Sets what a query may not see to -infinity: row r is query first_query + r / group, column j is key first_key + j.
  // Columns in [cols, kTile) as well. visible_end may be null and is indexed by column.
  void (*mask)(T* s, int64_t rows, int64_t group, int64_t first_query, int64_t first_key, int64_t cols,
               const int32_t* visible_end);

  T (*row_dot)(const T* a, const T* b, int64_t n);
  // to[i] = from[i] * factor.
  void (*scaled_copy)(T* to, const T* from, T factor, int64_t n);

  // out = x / sqrt(mean(x^2) + eps) * weight; returns 1 / sqrt(...).
  T (*rms_norm)(T* out, const T* x, const T* weight, T eps, int64_t n);
  // grad_x is written, grad_weight added to; `inverse` is what rms_norm returned.
  void (*rms_norm_backward)(T* grad_x, T* grad_weight, const T* grad, const T* x, const T* weight, T inverse,
                            int64_t n);
  // Half-rotation of one head: (x1, x2) -> (x1 c - x2 s, x2 c + x1 s), n = head_dim / 2; out may be x. sign -1 is the
  // inverse.
  void (*rotate)(T* out, const T* x, const T* cos, const T* sin, T sign, int64_t n);
  // out = silu(gate) * up
  void (*swiglu)(T* out, const T* gate, const T* up, int64_t n);
  void (*swiglu_backward)(T* grad_gate, T* grad_up, const T* grad, const T* gate, const T* up, int64_t n);
};

// Null where the compiler could not build it or the machine cannot run it.
template <typename T>
const Kernels<T>* Avx512();
template <typename T>
const Kernels<T>* Avx2();
template <typename T>
const Kernels<T>* Portable();

// What is in force (attention.h: InstructionSet).
template <typename T>
const Kernels<T>& Get();

}  // namespace ingot::kernels::inner
