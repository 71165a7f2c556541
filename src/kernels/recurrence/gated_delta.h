// Gated DeltaNet (arXiv 2412.06464) on the CPU over raw pointers, along a tree of rows: a short causal convolution and
// the delta rule's recurrence. Knows no torch.
//
//   u_t = silu(sum over j < kernel of weight[kernel - 1 - j] * x of the j-th ancestor)      per channel: q | k | v
//   S_t = a_t S + k_t (b_t (v_t - (a_t S)^T k_t))^T,  S the state of row t's parent         per head, [key_dim, value_dim]
//   o_t = S_t^T q_t
//
// with q and k of length one (q then divided by sqrt(key_dim)), b_t = sigmoid(rate), and
// a_t = exp(-exp(decay) softplus(step + step_bias)).
//
// Each row names its parent: an earlier row of the call, a given state, or nothing. So a fork's branches begin with the
// state of the row that they share, and a sequence continues where an earlier call stopped.
//
//   rows      0 1 2 3 4 5           parents   -  0 1 1 3  state 7
//             a b c                 row 3 begins with the state of row 1; row 5 continues a given state
//               `-- d e
//                       f
//
// Invariant (tests hold it bit for bit): a row's result depends only on its ancestors' inputs. It does not depend on
// other rows, on where a call stops and the next one continues, on the threads or on the instruction set. Each sum is
// one chain in a fixed order.
//
// The state is fp32 (fp64 for doubles). bf16 inputs are widened; results are rounded where they are stored.
//
// Thread safe. Blocks until done. REQUIRES (checked by the torch functions, not here): pointers cover the shapes, and
// rows are in DFS pre-order (PlanRows).
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
  int64_t value_heads = 0;  // a multiple of key_heads: value head h reads key head h / (value_heads / key_heads)
  int64_t key_dim = 0, value_dim = 0;
  int64_t kernel = 0;  // rows that the convolution sees, its own included; at least 1

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }           // q | k | v
  int64_t state() const { return value_heads * key_dim * value_dim; }  // numbers of a state
  int64_t past() const { return (kernel - 1) * channels(); }           // inputs that go with it, oldest first
  int64_t sharing() const { return value_heads / key_heads; }          // value heads of a key head
  bool operator==(const DeltaShape&) const = default;
};

inline constexpr int32_t kNoParent = std::numeric_limits<int32_t>::min();  // the row begins with a state of zeros
constexpr int32_t FromState(int32_t slot) { return ~slot; }                // a parent: slot `slot` of the given states

// The state after `row` is written to slot `slot`.
struct KeptState {
  int32_t row = 0, slot = 0;
};

// The order in which a call's states live. A row whose child is not the next row holds its state until its last child
// has begun; such rows nest, so few are held at once.
struct RowPlan {
  std::vector<int32_t> parents;  // one per row
  std::vector<int32_t> held;     // per row: where its state waits for later children; -1 = it does not wait
  int32_t places = 0;            // number of places that `held` names
  int64_t rows() const { return static_cast<int64_t>(parents.size()); }
  bool follows(int64_t row) const { return row > 0 && parents[static_cast<size_t>(row)] == row - 1; }
};
// nullopt: a parent does not come before its row, or rows are not in DFS pre-order. `given`: the number of states.
std::optional<RowPlan> PlanRows(std::vector<int32_t> parents, int64_t given);

template <typename T>
struct ConvolveArgs {
  using Acc = Accumulator<T>;
  const T* x = nullptr;       // [rows, channels]
  const T* weight = nullptr;  // [channels, kernel], the oldest row first
  const T* past = nullptr;    // of the given states [slots, kernel - 1, channels]
  std::span<const KeptState> kept;
};
// u [rows, channels]; kept_past: as `past`, written for the kept rows after all of `past` was read.
template <typename T>
void Convolve(const DeltaShape& shape, const RowPlan& plan, const ConvolveArgs<T>& args, Accumulator<T>* u,
              T* kept_past, const ParallelFor& parallel);
// Overwrites grad_x [rows, channels] and grad_weight [channels, kernel]; adds to grad_past (as `past`, null = not
// needed). by_past: gradient by the kept rows' inputs, by slot; null = none.
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
  const T* states = nullptr;        // given [slots, value_heads, key_dim, value_dim]
  std::span<const KeptState> kept;  // by row, ascending
};
// out [rows, value_heads, value_dim]; kept_states: as `states`, may be the same memory: a slot may be read by the first
// row of a sequence and written by a later one.
template <typename T>
void DeltaForward(const DeltaShape& shape, const RowPlan& plan, const DeltaArgs<T>& args, T* out, T* kept_states,
                  const ParallelFor& parallel);

template <typename T>
struct DeltaGradients {
  T* u = nullptr;  // overwritten, as all but the last
  T* step = nullptr;
  T* rate = nullptr;
  T* decay = nullptr;
  T* step_bias = nullptr;
  T* states = nullptr;  // added to; null = not needed
};
// Runs the forward pass again, holding every kDeltaChunk-th state; by_kept: gradient by the kept states, by slot; null
// = none.
template <typename T>
void DeltaBackward(const DeltaShape& shape, const RowPlan& plan, const DeltaArgs<T>& args, const T* grad_out,
                   const T* by_kept, const DeltaGradients<T>& grads, const ParallelFor& parallel);
inline constexpr int64_t kDeltaChunk = 32;

}  // namespace ingot::kernels
