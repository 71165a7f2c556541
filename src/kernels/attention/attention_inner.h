// Inner loops for CPU attention. They are compiled once per instruction set (attention_avx512.cc and others) and
// selected at run time.
//
// The loops work on packed tiles in a thread's scratch memory. A packed tile consists of words as large as the
// accumulator. A word is one number, or two adjacent bf16 numbers if the machine multiplies pairs (`pack` 2). One
// matrix product routine then suffices for all of attention. A is broadcast, and B runs along the
// vectors:
//
//   scores  s  = q k^T     A q rows            B k columns     sum over words of head_dim
//   output  o += p v       A p rows            B v pairs       sum over pairs of keys
//   grad_v    += p^T do    A p pairs           B do pairs      sum over pairs of query rows
//   grad_k    += ds^T q    A ds pairs          B q pairs
//   grad_q    += ds k      A ds rows           B k pairs
//
//   rows    [count][words of head_dim]         as in memory, padded with zeros
//   columns [words of head_dim][kKeys]         transposed
//   pairs   [ceil(count / pack)][width]        word (i, d) has entries d of rows pack*i ... pack*i + pack-1
//
// A machine may process `step` words along a sum's index at once (AMX: 16). The words of head_dim and the rows of pairs
// are then padded with zeros to a multiple of `step` (PackedWords).
//
// Each result is computed by one chain of operations in ascending index order, no matter how many rows a call has. A
// zero word does not change any bit of a sum.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kKeys = 64;   // columns of a score tile, and the distance between its rows
inline constexpr int64_t kLanes = 16;  // partial sums per softmax row, for any vector width
inline constexpr int64_t kAlign = 16;  // the width of B is a multiple of this

// The product computed by `gemm`, for n < width, which is a multiple of kAlign:
//
//   c[r * ldc + n] = (add ? c[r * ldc + n] * (row_scale ? row_scale[r] : 1) : 0)
//                  + sum over k < depth of a[r * row_step + k * k_step] * b[k * ldb + n]
//
// b is read up to a whole step of k, and must be zero beyond depth. With k_step 1, a is read equally far and must be
// finite there. With row_step 1, a is not read beyond depth, but rows up to a multiple of kAlign must be readable.
template <typename Acc>
struct Gemm {
  Acc* c;
  int64_t ldc;
  const Acc* row_scale;
  bool add;
  int64_t rows, width, depth;
  const Acc* a;
  int64_t row_step, k_step;
  const Acc* b;
  int64_t ldb;
};

// Determines which keys in a tile each query in a block sees.
struct TileMask {
  int64_t group;  // row r belongs to query first_query + r / group
  int64_t first_query, first_key;
  int64_t keys;                    // number of keys; columns at or after this index are hidden
  const int32_t* visible_end;      // by column; null = keys have no end
  int64_t window;                  // 0 = none; otherwise, a query sees key j only if j's position > its own - window
  double hidden;                   // value of a hidden score: infinity with the opposite sign of the scale
  const int32_t* key_positions;    // by column; null = the packed index
  const int32_t* query_positions;  // by query in the tile
};

inline constexpr int64_t kFew = 8;  // with at most this many query rows, a key tile is read in place

// An unpacked key tile for few query rows.
template <typename T>
struct FewRows {
  int64_t count;         // query rows, 1 to kFew
  int64_t depth;         // head_dim
  const T* const* rows;  // the tile's keys or values
  int64_t keys;
  const T* const* next;  // rows of the following tiles, for prefetching
  int64_t next_keys;     // 0 = none
};

// A block of query rows with one packed key tile, for machines that compute scores and output in one step in the
// forward pass.
template <typename Acc>
struct BlockTile {
  const Acc *q, *keys, *values;  // packed
  int64_t rows;                  // rows in the block
  Acc *out, *max, *lanes;        // the block's sums of values, and its softmax state
  bool masked;
  const int32_t* queries;    // packed index by row; used only with a mask
  const int32_t* positions;  // by row; used only with a mask that has a window over positions
  TileMask mask;             // the group and queries in it are not used
};

// The forward pass over blocks of `rows` query rows. The machine determines the format of the scratch memory, which has
// the same size as the other formats, for whole blocks. A row's results are bit-identical to those of few_scores,
// softmax, and few_output.
template <typename T>
struct BlockForward {
  using Acc = Accumulator<T>;
  int64_t rows;  // rows per block
  void (*pack_queries)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_keys)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_values)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  // Sets out and lanes to the state before the first key. `max` already contains the sinks' logits in base 2, or
  // -infinity.
  void (*begin)(const BlockTile<Acc>& block, int64_t depth);
  // Processes tiles. A block's tiles must be in summation order; tiles of different blocks may be interleaved.
  void (*run)(const BlockTile<Acc>* tiles, int64_t count, int64_t depth, Acc scale2);
  // Writes row r to to[r] and the sum over its lanes to sums[r].
  void (*finish)(const BlockTile<Acc>& block, int64_t depth, T* const* to, Acc* sums);
};

// A block of query rows in the formats needed for its gradients, and its mask for a key tile. Rows after the last one
// are zero, with an lse2 of infinity.
template <typename Acc>
struct BlockPair {
  const Acc *q, *grad_out, *q_pairs, *grad_out_pairs;  // packed
  const Acc *lse2, *delta;                             // by row
  Acc* grad_q;                                         // for the block
  bool masked;
  const int32_t* queries;    // packed index by row
  const int32_t* positions;  // by row; used only with a window over positions
  TileMask mask;             // its group and queries are not used
};
template <typename Acc>
struct KeyBlock {
  const Acc *keys, *values, *key_pairs;  // packed
  Acc *grad_k, *grad_v;                  // for the tile
};

// The backward pass over blocks. Gradients are sums in a machine-specific format until they are stored.
template <typename T>
struct BlockBackward {
  using Acc = Accumulator<T>;
  int64_t rows;  // rows per block
  void (*pack_queries)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_pairs)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_keys)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_key_pairs)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  // Adds to the gradients of the key tile and of the blocks. Sums are in block order.
  void (*run)(const KeyBlock<Acc>& keys, const BlockPair<Acc>* blocks, int64_t count, int64_t depth, Acc scale2);
  void (*store_grad_q)(const Acc* grad_q, int64_t depth, Acc factor, T* const* to, int64_t count);
  // not rounded; length rounded up to kAlign
  void (*grad_key_row)(const Acc* tile, int64_t key, int64_t depth, Acc* row);
};

template <typename T>
struct AttentionKernels {
  using Acc = Accumulator<T>;

  const char* name;
  int64_t pack;  // numbers per word
  int64_t step;  // words along a sum's index that are processed at once

  // Each thread calls these before and after the functions below (class KernelScope). Null = not needed.
  void (*enter)();
  void (*leave)();

  void (*pack_rows)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_columns)(Acc* to, const T* const* rows, int64_t count, int64_t depth);  // columns >= count are zero
  void (*pack_pairs)(Acc* to, int64_t width, const T* const* rows, int64_t count, int64_t depth);
  void (*gemm)(const Gemm<Acc>& g);

  // Compute the scores and the output with the same results as gemm (rows `width` apart), but from an unpacked tile.
  void (*few_scores)(const FewRows<T>& keys, Acc* s, const Acc* q);
  void (*few_output)(const FewRows<T>& values, Acc* acc, int64_t width, const Acc* rescale, const Acc* p);

  // Sets hidden entries of s [rows][kKeys] to mask.hidden.
  void (*mask)(Acc* s, int64_t rows, const TileMask& mask);

  // Processes one tile of an online softmax in base 2, with x = s * scale2. Replaces s with the words of 2^(x - new
  // max), with rows kKeys apart. Updates max [rows] and lanes [rows][kLanes]. Sets rescale[r] to the factor for the
  // row's previous output.
  void (*softmax)(Acc* s, int64_t rows, Acc scale2, Acc* max, Acc* lanes, Acc* rescale);

  // p = 2^(s * scale2 - lse2[r]), ds = p * (dp - delta[r]). Replaces s with the pairs of p, and dp with the pairs of
  // ds, each [ceil(rows / pack)][kKeys]. ds_rows [rows][kKeys / pack] is written only if pack > 1; otherwise, dp
  // contains ds. With inverse_cap > 0, s was capped, and ds is multiplied by the cap's slope, 1 - (s * inverse_cap)^2.
  void (*softmax_backward)(Acc* s, Acc* dp, Acc* ds_rows, int64_t rows, Acc scale2, Acc inverse_cap, const Acc* lse2,
                           const Acc* delta);

  void (*store)(T* to, const Acc* from, Acc factor, int64_t n);  // to[i] = from[i] * factor
  Acc (*row_dot)(const T* a, const T* b, int64_t n);

  // Null = the machine does not combine steps. If set, they are used for all calls except those with few rows or capped
  // scores, which use pack_columns, pack_pairs, gemm, and softmax_backward.
  const BlockForward<T>* blocks = nullptr;
  const BlockBackward<T>* backward_blocks = nullptr;
};

// Returns the number of words that a packed tile needs for `numbers` numbers along a sum's index.
template <typename T>
int64_t PackedWords(const AttentionKernels<T>& kernels, int64_t numbers) {
  const int64_t step = kernels.pack * kernels.step;
  return (numbers + step - 1) / step * kernels.step;
}

// While a KernelScope exists, its thread may call the table's functions and must not use tile registers in any other
// way.
template <typename T>
class KernelScope {
 public:
  explicit KernelScope(const AttentionKernels<T>& kernels) : leave_(kernels.leave) {
    if (kernels.enter != nullptr) kernels.enter();
  }
  ~KernelScope() {
    if (leave_ != nullptr) leave_();
  }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  void (*const leave_)();
};

// Return null if the compiler could not build the table. Amx and Avx512Bf16 support only bf16.
template <typename T>
const AttentionKernels<T>* AttentionAmx();
template <typename T>
const AttentionKernels<T>* AttentionAvx512Bf16();
template <typename T>
const AttentionKernels<T>* AttentionAvx512();
template <typename T>
const AttentionKernels<T>* AttentionAvx2();
template <typename T>
const AttentionKernels<T>* AttentionPortable();

// Returns the table for the instruction set in use (InstructionSet in attention.h). Defined for float, double, and
// BFloat16.
template <typename T>
const AttentionKernels<T>& GetAttention();

}  // namespace ingot::kernels::inner
