// Computes tree attention on the CPU from raw pointers, in bf16 (with fp32 sums), fp32, or fp64. Does not use torch.
//
// A call processes a ragged batch of sequences. A sequence is a range of queries over its keys. The packed index
// numbers a sequence's keys from 0. Its queries have the packed indices [q_offset, q_offset + q_count).
//
//   keys      0 1 2 3 4 5 6 7 8 9        key_count 10
//   queries               6 7 8 9        q_offset 6, q_count 4 (decode: q_count 1, training: q_offset 0)
//
// Query i sees key j if and only if j <= i < visible_end[j] (if visible_end is null: j <= i) and, with a window,
// positions[i] - positions[j] < window. visible_end describes causal attention, packed documents, and trees. A position
// is a depth in the tree, so a window counts ancestors. Keys are contiguous or in pages listed by a block table. A sink
// is a logit per head that is included in the softmax but has no value.
//
// The algorithm is an online softmax over tiles of kKeyTile keys. It never stores a matrix of queries x keys. A tile of
// queries [q0, q1) and keys [k0, k1) is
//   skipped   if k0 >= q1 or max(visible_end) <= q0,
//   unmasked  if k1 - 1 <= q0 and min(visible_end) >= q1,
//   masked    otherwise.
// A window adds similar tests on position bounds. Skipped tiles cost almost nothing, because tile_index.h skips whole
// ranges of them.
//
// Invariant (tested bit for bit): a query's output and log-sum-exp depend only on its own row, its packed index, and
// its keys with their visible_end and positions. They do not depend on other sequences in the batch, other queries, the
// page size, the placement of the keys (contiguous, in pages, in runs), or the threads. Tiles start at multiples of
// kKeyTile in the packed index, each row adds its tiles in ascending order, and a masked key does not change any bit.
// It does depend on the instruction set chosen at run time.
//
// bf16: some machines multiply bf16 pairs (AMX, AVX512-BF16). On those, probabilities and their gradients are rounded
// to bf16 before they are multiplied, and denormal bf16 numbers count as zero. Other machines convert the inputs to
// fp32.
//
// Thread safe. Blocks until done. A call uses one scratch buffer per thread. REQUIRES (checked by the torch operator,
// not here): buffers are large enough for the shapes, heads is a multiple of kv_heads, page ids are valid, and keys and
// values are finite where a query in the same tile could see them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

inline constexpr int64_t kKeyTile = 64;  // keys per tile, for both contiguous and paged keys

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; query head h uses kv head h / (heads / kv_heads)
  int64_t head_dim = 0;  // any size; multiples of 16 are fastest
  double scale = 1.0;    // multiplies the scores; usually 1/sqrt(head_dim)
  int64_t window = 0;    // a query sees keys less than `window` positions before it; 0 = all keys
  double soft_cap = 0;   // a score s becomes cap tanh(s / cap) before the mask (Gemma 2, arXiv 2408.00118); 0 = no cap
};

// A run of consecutive keys in a sequence, stored in consecutive rows of k and v. It ends at the next run's first
// key.
struct KeyRun {
  int32_t key = 0;  // packed index of the first key
  int32_t row = 0;  // row of the first key in k and v
};

struct AttentionSequence {
  int64_t q_begin = 0;    // row of the first query in q, out, and lse
  int64_t q_count = 0;    // number of queries; may be 0
  int64_t key_count = 0;  // number of keys, including the queries' own; at least q_offset + q_count
  int64_t q_offset = 0;   // packed index of the first query
  int64_t key_begin = 0;  // row of key 0 in k and v; used only without a block table
  // Entry p is the page with keys [p * page_size, (p+1) * page_size), for p in [0, ceil(key_count / page_size)). Null =
  // contiguous keys.
  const int32_t* block_table = nullptr;
  const int32_t* visible_end = nullptr;  // [key_count]; null = plain causal
  const int32_t* positions = nullptr;    // [key_count] depths, used only with a window; null = the packed index
  // Runs of keys in ascending order, starting at key 0. They replace key_begin and cannot be combined with a block
  // table. With runs, a path through a packed tree can be a separate sequence without copying its keys. Null = one run.
  const KeyRun* key_runs = nullptr;
  int64_t key_run_count = 0;
};

// Row r of head h of q is at q + r * q_row_stride + h * head_dim, and similarly for k and v, so a slice of a fused
// projection does not need a copy. A stride of 0 means dense (heads * head_dim, kv_heads * head_dim).
template <typename T>
struct AttentionForwardArgs {
  using Acc = Accumulator<T>;
  const T* q = nullptr;  // [rows, heads, head_dim]
  const T* k = nullptr;  // [keys, kv_heads, head_dim]; with block tables [num_pages, page_size, kv_heads, head_dim]
  const T* v = nullptr;  // same as k
  const Acc* sinks = nullptr;  // [heads] unscaled logits; null = no sinks
  T* out = nullptr;            // [rows, heads, head_dim], dense; zeros for a query that sees no key
  Acc* lse =
      // [rows, heads] log-sum-exp of the scaled scores and the sink (-inf if there are none); null = not needed
      nullptr;
  int64_t page_size = 0;  // keys per page; used only with block tables
  int64_t q_row_stride = 0;
  int64_t k_row_stride = 0;
  int64_t v_row_stride = 0;
};

// Defined for BFloat16, float, and double. Reads only the queries, keys, and values of the sequences. Writes only the
// rows of their queries.
template <typename T>
void AttentionForward(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                      const AttentionForwardArgs<T>& args, const ParallelFor& parallel);

// Arguments for the gradients of one sequence with contiguous keys. Its queries have the packed indices [q_offset,
// q_offset + rows). All arrays are dense, with the shapes used in the forward pass. Deterministic and independent of
// the threads. Recomputes the probabilities from lse. Uses scratch memory as large as the three gradients in fp32
// (fp64).
template <typename T>
struct AttentionBackwardArgs {
  using Acc = Accumulator<T>;
  int64_t rows = 0;
  int64_t keys = 0;  // at least q_offset + rows
  int64_t q_offset = 0;
  const int32_t* visible_end = nullptr;  // [keys]; null = plain causal
  const int32_t* positions = nullptr;    // [keys]; null = the packed index
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const Acc* sinks = nullptr;
  const T* out = nullptr;
  const Acc* lse = nullptr;
  const T* grad_out = nullptr;
  T* grad_q = nullptr;  // overwritten, as are the next two
  T* grad_k = nullptr;
  T* grad_v = nullptr;
  Acc* grad_sinks = nullptr;  // [heads], overwritten; null = not needed
  // [keys, kv_heads, head_dim]. If not null, the gradients of keys and values are added here without rounding, and
  // grad_k and grad_v are null. This accumulates the gradient of a prefix whose branches run backward one after
  // another.
  Acc* grad_k_sum = nullptr;
  Acc* grad_v_sum = nullptr;
};

template <typename T>
void AttentionBackward(const AttentionShape& shape, const AttentionBackwardArgs<T>& args, const ParallelFor& parallel);

// InstructionSet returns the set in use on this machine: "amx", "avx512bf16", "avx512", "avx2", or "portable". The
// first two differ from "avx512" only for bf16. "amx" also requires permission from the operating system, which the
// process requests once. Environment variables have no effect. Tests and benchmarks may select a lower set before the
// first call and while no call is running, but never a higher one. LimitInstructionSet returns the set that is now in
// use.
const char* InstructionSet();
const char* LimitInstructionSet(const char* name);

}  // namespace ingot::kernels
