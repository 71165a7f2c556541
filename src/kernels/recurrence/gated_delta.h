// Computes Gated DeltaNet (arXiv 2412.06464) on the CPU from raw pointers, along a tree of rows: a short causal
// convolution, then the delta-rule recurrence. Does not use torch.
//
//   u_t = silu(sum over j < kernel of weight[kernel - 1 - j] * x of the j-th ancestor)  per channel: q | k | v
//   S_t = a_t S + k_t (b_t (v_t - (a_t S)^T k_t))^T,  S the state of row t's parent     per head, [key_dim, value_dim]
//   o_t = S_t^T q_t
//
// where q and k are normalized to unit length (q is then divided by sqrt(key_dim)), b_t = sigmoid(rate), and a_t =
// exp(-exp(decay) softplus(step + step_bias)).
//
// Each row's parent is an earlier row in the call, a given state, or nothing. So the branches of a fork start with the
// state after their common row, and a sequence continues where an earlier call stopped.
//
//   rows      0 1 2 3 4 5           parents   -  0 1 1 3  state 7
//             a b c                 row 3 starts with the state of row 1; row 5 continues a given state
//               `-- d e
//                       f
//
// Invariant (tested bit for bit): a row's result depends only on its ancestors' inputs. It does not depend on other
// rows, on where one call stops and the next one continues, on the threads, or on the instruction set. Each sum is
// computed in a fixed order.
//
// The state is fp32 (fp64 for doubles). bf16 inputs are converted to fp32, and results are rounded when stored.
//
// Thread safe. Blocks until done. REQUIRES (checked by the torch functions, not here): buffers are large enough for the
// shapes, and rows are in DFS pre-order (PlanRows).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

struct DeltaShape {
  int64_t key_heads = 0;
  int64_t value_heads = 0;  // a multiple of key_heads; value head h uses key head h / (value_heads / key_heads)
  int64_t key_dim = 0, value_dim = 0;
  int64_t kernel = 0;  // rows that the convolution sees, including the current one; at least 1

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }           // q | k | v
  int64_t state() const { return value_heads * key_dim * value_dim; }  // elements in a state
  int64_t past() const { return (kernel - 1) * channels(); }   // input elements stored with a state, oldest row first
  int64_t sharing() const { return value_heads / key_heads; }  // value heads per key head
  bool operator==(const DeltaShape&) const = default;
};

inline constexpr int32_t kNoParent = std::numeric_limits<int32_t>::min();  // the row starts with a zero state
constexpr int32_t FromState(int32_t slot) { return ~slot; }                // encodes given state `slot` as a parent

// Specifies that the state after `row` is written to slot `slot`.
struct KeptState {
  int32_t row = 0, slot = 0;
};

// Plans the lifetimes of a call's states. If a row has a child that is not the next row, its state is held until its
// last child has started. These lifetimes are nested, so few states are held at once.
struct RowPlan {
  std::vector<int32_t> parents;  // one per row
  std::vector<int32_t> held;     // by row: where its state is held for later children; -1 = not held
  int32_t places = 0;            // number of places used by `held`
  int64_t rows() const { return static_cast<int64_t>(parents.size()); }
  bool follows(int64_t row) const { return row > 0 && parents[static_cast<size_t>(row)] == row - 1; }
};
// Returns nullopt if a parent does not precede its row or the rows are not in DFS pre-order. `given` is the number of
// given states.
std::optional<RowPlan> PlanRows(std::vector<int32_t> parents, int64_t given);

template <typename T>
struct ConvolveArgs {
  using Acc = Accumulator<T>;
  const T* x = nullptr;       // [rows, channels]
  const T* weight = nullptr;  // [channels, kernel], oldest row first
  const T* past = nullptr;    // inputs of the given states [slots, kernel - 1, channels]
  std::span<const KeptState> kept;
};
// u is [rows, channels]. kept_past has the shape of `past` and receives the kept rows' inputs after all of `past` has
// been read.
template <typename T>
void Convolve(const DeltaShape& shape, const RowPlan& plan, const ConvolveArgs<T>& args, Accumulator<T>* u,
              T* kept_past, const ParallelFor& parallel);
// Overwrites grad_x [rows, channels] and grad_weight [channels, kernel]. Adds to grad_past (shape of `past`; null = not
// needed). by_past is the gradient with respect to the kept rows' inputs, by slot; null = none.
template <typename T>
void ConvolveBackward(const DeltaShape& shape, const RowPlan& plan, const ConvolveArgs<T>& args,
                      const Accumulator<T>* grad_u, const Accumulator<T>* by_past, Accumulator<T>* grad_x,
                      Accumulator<T>* grad_weight, Accumulator<T>* grad_past, const ParallelFor& parallel);

// fp32 or fp64.
template <typename T>
struct DeltaArgs {
  const T* u = nullptr;             // [rows, channels]
  const T* step = nullptr;          // [rows, value_heads]
  const T* rate = nullptr;          // [rows, value_heads]
  const T* decay = nullptr;         // [value_heads]
  const T* step_bias = nullptr;     // [value_heads]
  const T* states = nullptr;        // given states [slots, value_heads, key_dim, value_dim]
  std::span<const KeptState> kept;  // ascending by row
};
// out is [rows, value_heads, value_dim]. kept_states has the shape of `states` and may be the same memory, because a
// slot may be read by the first row of a sequence and written by a later one.
template <typename T>
void DeltaForward(const DeltaShape& shape, const RowPlan& plan, const DeltaArgs<T>& args, T* out, T* kept_states,
                  const ParallelFor& parallel);

template <typename T>
struct DeltaGradients {
  T* u = nullptr;  // overwritten, like all others except `states`
  T* step = nullptr;
  T* rate = nullptr;
  T* decay = nullptr;
  T* step_bias = nullptr;
  T* states = nullptr;  // added to; null = not needed
};
// Runs the forward pass again and keeps every kDeltaChunk-th state. by_kept is the gradient with respect to the kept
// states, by slot; null = none.
template <typename T>
void DeltaBackward(const DeltaShape& shape, const RowPlan& plan, const DeltaArgs<T>& args, const T* grad_out,
                   const T* by_kept, const DeltaGradients<T>& grads, const ParallelFor& parallel);
inline constexpr int64_t kDeltaChunk = 32;

}  // namespace ingot::kernels
