// Benchmarks tree attention and the bf16 linear layer. Times the operators on named shapes and compares them with
// torch's best matrix product, attention, and linear layer. The runs are interleaved, so that other load on the machine
// affects all of them equally.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ingot::kernels {

struct AttentionBenchOptions {
  int64_t heads = 4, kv_heads = 2, head_dim = 128;
  int repeat = 5;                   // rounds; every figure is a median over them
  std::vector<std::string> shapes;  // names from AttentionBenchShapes(); empty = all
  std::vector<std::string> dtypes;  // "bf16" or "fp32"; empty = both
  // limits the kernels to this set until the process exits; empty = the machine's best
  std::string instruction_set;
};

// Returns the names of the shapes:
//   causal-8k, causal-16k            one causal stream
//   group-8                          8 answers of 512 below a prompt of 4K
//   group-16                         16 answers of 1K below a prompt of 1K
//   dialogue-20                      20 turns, each without the thinking of the previous turns
//   decode-16x2k                     16 sequences, one query each, 2K paged keys
//   linear-1, linear-16, linear-2048 this many rows through a layer of 4K by 4K
std::vector<std::string> AttentionBenchShapes();

// Calls emit with one JSON object per figure:
//   {"bench":"attention","shape":...,"pass":"forward"|"backward"|"sdpa-forward"|"decode"|"linear"|"torch-linear"|
//    "gemm","dtype":...,
//    "threads","instruction_set","ms" (median),"ms_min","ms_max","gflops","cpu_ms",
//    "of_gemm" (rate relative to torch's fastest matrix product in the same run and dtype), "of_gemm_cpu" (the same
//    ratio in CPU time, which is less affected by other processes), "tiles" (unmasked tiles of 64 keys and 64 query
//    rows),"us_per_tile"}
// gflops counts only visible pairs: 4 * head_dim per pair and head in the forward pass, and 10 * head_dim in the
// backward pass. Rates are for at::get_num_threads() threads. Throws c10::Error for an unknown shape or dtype, or an
// instruction set that the machine does not support.
void RunAttentionBench(const AttentionBenchOptions& options, const std::function<void(const std::string&)>& emit);

}  // namespace ingot::kernels
