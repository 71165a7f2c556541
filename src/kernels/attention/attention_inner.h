// The inner loops of CPU attention. They are compiled once per instruction set (attention_avx512.cc and others) and
// chosen at run time.
//
// The loops work on packed tiles in a thread's scratch. A packed tile consists of words of the accumulator's size. A
// word is one number, or two adjacent bf16 if the machine multiplies pairs (`pack` 2). One matrix product then
// serves all of attention. With A the side that is broadcast and B the side that lies along the vectors:
//
//   scores  s  = q k^T     A q rows            B k columns     sum over words of head_dim
//   output  o += p v       A p rows            B v pairs       sum over pairs of keys
//   grad_v    += p^T do    A p pairs           B do pairs      sum over pairs of query rows
//   grad_k    += ds^T q    A ds pairs          B q pairs
//   grad_q    += ds k      A ds rows           B k pairs
//
//   rows    [count][words of head_dim]         as in memory, ends filled up with zero
//   columns [words of head_dim][kKeys]         transposed
//   pairs   [ceil(count / pack)][width]        word (i, d) holds entries d of rows pack*i ... pack*i + pack-1
//
// A machine may take `step` words of a sum's index at once (AMX: 16). Zeros then fill the words of head_dim and the
// rows of pairs up to a multiple of it (PackedWords).
//
// Each result is one chain of operations in ascending order of the sum's index, for any number of rows in the
// call. A zero word changes no bit of a sum.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kKeys = 64;   // columns of a score tile; its rows are as far apart
inline constexpr int64_t kLanes = 16;  // partial sums that a row of softmax keeps, for any vector width
inline constexpr int64_t kAlign = 16;  // widths of B are multiples of it

// The product of `gemm`, for n < width, a multiple of kAlign:
//
//   c[r * ldc + n] = (add ? c[r * ldc + n] * (row_scale ? row_scale[r] : 1) : 0)
//                  + sum over k < depth of a[r * row_step + k * k_step] * b[k * ldb + n]
//
// b is read up to a whole step of k, and is zero beyond depth. With k_step 1, a is read as far, and is finite there.
// With row_step 1, a is not read beyond depth, but can be read for rows up to a multiple of kAlign.
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

// Says which keys of a tile each query of a block sees.
struct TileMask {
  int64_t group;  // row r is query first_query + r / group
  int64_t first_query, first_key;
  int64_t keys;                    // columns from here on are hidden
  const int32_t* visible_end;      // by column; null = no key ends
  int64_t window;                  // 0 = none; else a query sees key j if j's position > the query's - window
  double hidden;                   // the value of a hidden score: infinity against the sign of the scale
  const int32_t* key_positions;    // by column; null = the packed index
  const int32_t* query_positions;  // by query of the tile
};

inline constexpr int64_t kFew = 8;  // a key tile met by at most so many rows is read where it lies

// An unpacked key tile that few query rows meet.
template <typename T>
struct FewRows {
  int64_t count;         // query rows, 1 to kFew
  int64_t depth;         // head_dim
  const T* const* rows;  // keys or values of the tile
  int64_t keys;
  const T* const* next;  // rows of the following tiles, for prefetching
  int64_t next_keys;     // 0 = none
};

// A block of query rows against one packed key tile, for machines that take both steps of the forward pass, scores and
// output, as one.
template <typename Acc>
struct BlockTile {
  const Acc *q, *keys, *values;  // packed
  int64_t rows;                  // of the block
  Acc *out, *max, *lanes;        // of the block: sums of the values, state of its softmax
  bool masked;
  const int32_t* queries;    // packed index by row; with a mask
  const int32_t* positions;  // by row; with a mask of a window over positions
  TileMask mask;             // its group and queries are unused
};

// The forward pass over blocks of `rows` query rows. The machine chooses the form of the scratch; its size equals the
// other forms' size, for whole blocks. A row gets the same bits as from few_scores, softmax and few_output.
template <typename T>
struct BlockForward {
  using Acc = Accumulator<T>;
  int64_t rows;  // of a block
  void (*pack_queries)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_keys)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_values)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  // Sets out and lanes to the state before the first key. `max` holds the sinks' logits in base 2, or -infinity.
  void (*begin)(const BlockTile<Acc>& block, int64_t depth);
  // Runs the tiles of one block in the order of their sums; tiles of other blocks may lie between them.
  void (*run)(const BlockTile<Acc>* tiles, int64_t count, int64_t depth, Acc scale2);
  // Writes row r to to[r], and its sum over the lanes to sums[r].
  void (*finish)(const BlockTile<Acc>& block, int64_t depth, T* const* to, Acc* sums);
};

// A block of query rows in the forms that its gradients need, and its mask of a key tile. Rows past the last are zero,
// and their lse2 is infinity.
template <typename Acc>
struct BlockPair {
  const Acc *q, *grad_out, *q_pairs, *grad_out_pairs;  // packed
  const Acc *lse2, *delta;                             // by row
  Acc* grad_q;                                         // of the block
  bool masked;
  const int32_t* queries;    // packed index by row
  const int32_t* positions;  // by row; with a window over positions
  TileMask mask;             // its group and queries are unused
};
template <typename Acc>
struct KeyBlock {
  const Acc *keys, *values, *key_pairs;  // packed
  Acc *grad_k, *grad_v;                  // of the tile
};

// The backward pass likewise. Gradients are sums in the machine's own form until they are stored.
template <typename T>
struct BlockBackward {
  using Acc = Accumulator<T>;
  int64_t rows;  // of a block
  void (*pack_queries)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_pairs)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_keys)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_key_pairs)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  // Adds to the gradients of the key tile and of the blocks. The order of the blocks is the order of the sums.
  void (*run)(const KeyBlock<Acc>& keys, const BlockPair<Acc>* blocks, int64_t count, int64_t depth, Acc scale2);
  void (*store_grad_q)(const Acc* grad_q, int64_t depth, Acc factor, T* const* to, int64_t count);
  void (*grad_key_row)(const Acc* tile, int64_t key, int64_t depth, Acc* row);  // unrounded, rounded up to kAlign
};

template <typename T>
struct AttentionKernels {
  using Acc = Accumulator<T>;

  const char* name;
  int64_t pack;  // numbers per word
  int64_t step;  // words of a sum's index taken at once

  // They bracket the calls of a thread to the functions below (class Entered). Null = nothing to do.
  void (*enter)();
  void (*leave)();

  void (*pack_rows)(Acc* to, const T* const* rows, int64_t count, int64_t depth);
  void (*pack_columns)(Acc* to, const T* const* rows, int64_t count, int64_t depth);  // columns from count on are zero
  void (*pack_pairs)(Acc* to, int64_t width, const T* const* rows, int64_t count, int64_t depth);
  void (*gemm)(const Gemm<Acc>& g);

  // The same results as gemm for the scores and for the output (rows `width` apart), from a tile that lies unpacked in
  // memory.
  void (*few_scores)(const FewRows<T>& keys, Acc* s, const Acc* q);
  void (*few_output)(const FewRows<T>& values, Acc* acc, int64_t width, const Acc* rescale, const Acc* p);

  // Sets the hidden entries of s [rows][kKeys] to mask.hidden.
  void (*mask)(Acc* s, int64_t rows, const TileMask& mask);

  // One tile of an online softmax in base 2, with x = s * scale2. s becomes the words of 2^(x - new max), rows kKeys
  // apart. max [rows] and lanes [rows][kLanes] are updated. rescale[r] is the factor for the row's output so far.
  void (*softmax)(Acc* s, int64_t rows, Acc scale2, Acc* max, Acc* lanes, Acc* rescale);

  // p = 2^(s * scale2 - lse2[r]), ds = p * (dp - delta[r]). s becomes the pairs of p, and dp the pairs of ds, each
  // [ceil(rows / pack)][kKeys]. ds_rows [rows][kKeys / pack] is written only if pack > 1; otherwise ds lies in dp.
  // With inverse_cap > 0, s was capped: ds is multiplied by the slope of the cap, 1 - (s * inverse_cap)^2.
  void (*softmax_backward)(Acc* s, Acc* dp, Acc* ds_rows, int64_t rows, Acc scale2, Acc inverse_cap, const Acc* lse2,
                           const Acc* delta);

  void (*store)(T* to, const Acc* from, Acc factor, int64_t n);  // to[i] = from[i] * factor
  Acc (*row_dot)(const T* a, const T* b, int64_t n);

  // Null = the machine does not take steps as one. Where set, they serve all calls but few rows and capped scores, for
  // which pack_columns, pack_pairs, gemm and softmax_backward remain.
  const BlockForward<T>* blocks = nullptr;
  const BlockBackward<T>* backward_blocks = nullptr;
};

// Words of a packed tile that hold `numbers` numbers, along a sum's index.
template <typename T>
int64_t PackedWords(const AttentionKernels<T>& kernels, int64_t numbers) {
  const int64_t step = kernels.pack * kernels.step;
  return (numbers + step - 1) / step * kernels.step;
}

// During its life the thread may call the table's functions, and must not use tile registers otherwise.
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

// Null = the compiler could not build it. Amx and Avx512Bf16 support only bf16.
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

// The table of the instruction set in force (attention.h: InstructionSet). Defined for float, double and BFloat16.
template <typename T>
const AttentionKernels<T>& GetAttention();

}  // namespace ingot::kernels::inner
