// Tree attention on the CPU over raw pointers, in bf16 (with sums in fp32), fp32 or fp64. Knows no torch.
//
// A call takes a ragged batch of sequences. A sequence is a run of queries over its keys. The packed index counts the
// keys of one sequence from 0; its queries are the packed indices [q_offset, q_offset + q_count).
//
//   keys      0 1 2 3 4 5 6 7 8 9        key_count 10
//   queries               6 7 8 9        q_offset 6, q_count 4 (decode: q_count 1, training: q_offset 0)
//
// Query i sees key j exactly when j <= i < visible_end[j] (visible_end null: j <= i) and, with a window, when
// positions[i] - positions[j] < window. visible_end expresses causal attention, packed documents and trees. A position
// is a depth in the tree, so a window counts ancestors. Keys lie contiguously, or in pages that a block table names. A
// sink is a logit per head that takes part in the softmax and has no value.
//
// The algorithm is an online softmax over tiles of kKeyTile keys. It never holds a matrix of queries x keys. A tile of
// queries [q0, q1) and keys [k0, k1) is
//   skipped   if k0 >= q1 or max(visible_end) <= q0,
//   unmasked  if k1 - 1 <= q0 and min(visible_end) >= q1,
//   masked    otherwise.
// A window adds equal tests on bounds of the positions. Skipped tiles cost nothing: tile_index.h passes whole runs of
// them.
//
// Invariant (tests hold it bit for bit): a query's output and log-sum-exp depend only on its own row, its packed index,
// and its keys with their visible_end and positions. They do not depend on other sequences of the batch, other queries,
// the page size, the place of the keys (contiguous, in pages, in runs) or the threads. Tiles start at multiples of
// kKeyTile of the packed index, a row adds them up in ascending order, and a masked key changes no bit. The result does
// depend on the instruction set chosen at run time.
//
// bf16: some machines multiply pairs of bf16 (AMX, AVX512-BF16). There, probabilities and their gradients are rounded
// to bf16 before they are multiplied, and denormal bf16 numbers count as zero. Other machines widen the inputs to fp32.
//
// Thread safe. Blocks until done. A call holds one scratch buffer per thread. REQUIRES (checked by the torch operator,
// not here): pointers cover the shapes; heads is a multiple of kv_heads; page ids are valid; keys and values are finite
// where a query of the same tile could see them.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

inline constexpr int64_t kKeyTile = 64;  // keys per tile, in contiguous and in paged form

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads: query head h reads kv head h / (heads / kv_heads)
  int64_t head_dim = 0;  // any; multiples of 16 are fastest
  double scale = 1.0;    // of the scores, usually 1/sqrt(head_dim)
  int64_t window = 0;    // a query sees keys less than `window` positions above it; 0 = all
  double soft_cap = 0;   // a score s becomes cap tanh(s / cap), before the mask (Gemma 2, arXiv 2408.00118); 0 = none
};

// A run of consecutive keys of a sequence that lie in consecutive rows of k and v. It ends at the next run's first key.
struct KeyRun {
  int32_t key = 0;  // packed index of the first
  int32_t row = 0;  // its row in k and v
};

struct AttentionSequence {
  int64_t q_begin = 0;    // row of the first query in q, out and lse
  int64_t q_count = 0;    // queries; 0 is allowed
  int64_t key_count = 0;  // keys, including the keys of the queries; at least q_offset + q_count
  int64_t q_offset = 0;   // packed index of the first query
  int64_t key_begin = 0;  // row of key 0 in k and v; only without a block table
  // The page of keys [p * page_size, (p+1) * page_size) for p in [0, ceil(key_count / page_size)). Null = contiguous.
  const int32_t* block_table = nullptr;
  const int32_t* visible_end = nullptr;  // [key_count]; null = plain causal
  const int32_t* positions = nullptr;    // [key_count] depth, read only with a window; null = the packed index
  // The runs of the keys in ascending order, the first at key 0. They replace key_begin and exclude a block table. With
  // them a path through a packed tree is a separate sequence, over keys that stay in their place in the tree. Null =
  // one run.
  const KeyRun* key_runs = nullptr;
  int64_t key_run_count = 0;
};

// Row r of head h of q is at q + r * q_row_stride + h * head_dim; k and v likewise. So a slice of a fused projection
// needs no copy. A stride of 0 means dense (heads * head_dim, kv_heads * head_dim).
template <typename T>
struct AttentionForwardArgs {
  using Acc = Accumulator<T>;
  const T* q = nullptr;  // [rows, heads, head_dim]
  const T* k = nullptr;  // [keys, kv_heads, head_dim]; with block tables [num_pages, page_size, kv_heads, head_dim]
  const T* v = nullptr;  // as k
  const Acc* sinks = nullptr;  // [heads] logits, not scaled; null = no sinks
  T* out = nullptr;            // [rows, heads, head_dim], dense; a query that sees no key gets zeros
  Acc* lse =
      nullptr;  // [rows, heads] log-sum-exp of the scaled scores and the sink (-inf of nothing); null = not wanted
  int64_t page_size = 0;  // keys per page; only with block tables
  int64_t q_row_stride = 0;
  int64_t k_row_stride = 0;
  int64_t v_row_stride = 0;
};

// Defined for BFloat16, float and double. Reads only the queries, keys and values of the sequences. Writes only the
// rows of their queries.
template <typename T>
void AttentionForward(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                      const AttentionForwardArgs<T>& args, const ParallelFor& parallel);

// Gradients of one sequence of contiguous keys. Its queries are the packed indices [q_offset, q_offset + rows). All
// arrays are dense and have the forward's shapes. Deterministic, independent of the threads. Recomputes the
// probabilities from lse. Takes scratch of the size of the three gradients in fp32 (fp64).
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
  T* grad_q = nullptr;  // overwritten, like the next two
  T* grad_k = nullptr;
  T* grad_v = nullptr;
  Acc* grad_sinks = nullptr;  // [heads], overwritten; null = not wanted
  // [keys, kv_heads, head_dim]. If not null, these receive the gradients of keys and values, added without rounding;
  // grad_k and grad_v are then null. So a prefix whose branches are trained one after the other collects its gradient
  // here.
  Acc* grad_k_sum = nullptr;
  Acc* grad_v_sum = nullptr;
};

template <typename T>
void AttentionBackward(const AttentionShape& shape, const AttentionBackwardArgs<T>& args, const ParallelFor& parallel);

// The instruction set in force on this machine: "amx", "avx512bf16", "avx512", "avx2" or "portable". The first two
// differ from avx512 only in bf16. "amx" also needs the operating system's permission; the process asks for it once.
// No environment variable is read. Tests and benchmarks may lower the set before the first call, never raise it, and
// not while a call runs. LimitInstructionSet returns the set now in force.
const char* InstructionSet();
const char* LimitInstructionSet(const char* name);

}  // namespace ingot::kernels
