// A packed stream with every optional input of attention, and its forward and backward pass.
#pragma once

#include <gtest/gtest.h>

#include "kernels/attention/attention_reference.h"

namespace ingot::kernels::testing {

template <typename T>
struct Stream {
  using Acc = Accumulator<T>;
  AttentionShape shape;
  int64_t rows;
  std::vector<int32_t> visible_end, positions;
  std::vector<T> q, k, v, grad_out;
  std::vector<Acc> sinks;  // empty: none

  Stream(std::mt19937_64& rng, AttentionShape s, int64_t n, double branch, double root)
      : shape(s),
        rows(n),
        visible_end(RandomForest(rng, n, branch, root)),
        positions(Depths(visible_end)),
        q(RandomVector<T>(rng, n * s.heads * s.head_dim)),
        k(RandomVector<T>(rng, n * s.kv_heads * s.head_dim)),
        v(RandomVector<T>(rng, n * s.kv_heads * s.head_dim)),
        grad_out(RandomVector<T>(rng, n * s.heads * s.head_dim)) {}

  const int32_t* Ends() const { return visible_end.empty() ? nullptr : visible_end.data(); }
  const int32_t* Positions() const { return positions.empty() ? nullptr : positions.data(); }
  const Acc* Sinks() const { return sinks.empty() ? nullptr : sinks.data(); }
};

template <typename T>
struct Result {
  using Acc = Accumulator<T>;
  std::vector<T> out, grad_q, grad_k, grad_v;
  std::vector<Acc> lse, grad_sinks;
  bool operator==(const Result&) const = default;
};

template <typename T>
Result<T> Compute(const Stream<T>& s, const ParallelFor& parallel) {
  const T seven = Narrow<T>(7);
  Result<T> r;
  r.out.assign(s.q.size(), seven);
  r.grad_q.assign(s.q.size(), seven);
  r.grad_k.assign(s.k.size(), seven);
  r.grad_v.assign(s.k.size(), seven);
  r.lse.assign(s.rows * s.shape.heads, 7);
  r.grad_sinks.assign(s.sinks.size(), 7);
  AttentionSequence sequence;
  sequence.q_count = sequence.key_count = s.rows;
  sequence.visible_end = s.Ends();
  sequence.positions = s.Positions();
  AttentionForwardArgs<T> forward;
  forward.q = s.q.data();
  forward.k = s.k.data();
  forward.v = s.v.data();
  forward.sinks = s.Sinks();
  forward.out = r.out.data();
  forward.lse = r.lse.data();
  AttentionForward<T>(s.shape, {&sequence, 1}, forward, parallel);
  AttentionBackwardArgs<T> backward;
  backward.rows = backward.keys = s.rows;
  backward.visible_end = s.Ends();
  backward.positions = s.Positions();
  backward.q = s.q.data();
  backward.k = s.k.data();
  backward.v = s.v.data();
  backward.sinks = s.Sinks();
  backward.out = r.out.data();
  backward.lse = r.lse.data();
  backward.grad_out = s.grad_out.data();
  backward.grad_q = r.grad_q.data();
  backward.grad_k = r.grad_k.data();
  backward.grad_v = r.grad_v.data();
  backward.grad_sinks = s.sinks.empty() ? nullptr : r.grad_sinks.data();
  AttentionBackward<T>(s.shape, backward, parallel);
  return r;
}

// The allowed distance of a result from fp64, norm over norm.
struct Tolerance {
  double out, lse, grad;
};
template <typename T>
constexpr Tolerance kTolerance{1e-13, 1e-13, 1e-12};
// Sums of up to 10^3 terms, each rounded to 2^-24. A gradient is a difference of larger terms.
template <>
inline constexpr Tolerance kTolerance<float>{3e-6, 3e-6, 1e-5};
// Probabilities, their gradients and the results are rounded to 2^-9; scores and sums are not. delta is computed from
// the rounded output.
template <>
inline constexpr Tolerance kTolerance<BFloat16>{4e-3, 3e-6, 1.2e-2};

template <typename T>
void ExpectClose(const Stream<T>& s, const Result<T>& r, const Tolerance& tolerance = kTolerance<T>) {
  std::vector<int32_t> ends = s.visible_end;
  if (ends.empty()) ends.assign(s.rows, static_cast<int32_t>(s.rows));
  const ReferenceResult want = GatheredPaths<T>({s.shape, ends, 0, s.sinks, s.q, s.k, s.v, s.grad_out});
  EXPECT_LT(RelativeError(r.out, want.out), tolerance.out);
  EXPECT_LT(RelativeError(r.lse, want.lse), tolerance.lse);
  EXPECT_LT(RelativeError(r.grad_q, want.grad_q), tolerance.grad);
  EXPECT_LT(RelativeError(r.grad_k, want.grad_k), tolerance.grad);
  EXPECT_LT(RelativeError(r.grad_v, want.grad_v), tolerance.grad);
  EXPECT_LT(RelativeError(r.grad_sinks, want.grad_sinks), tolerance.grad);
}

}  // namespace ingot::kernels::testing
