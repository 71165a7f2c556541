// `ingot bench NAME`: measures on this machine the figures that the project states, one JSON object per line.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "trainer/tree_bench.h"

namespace ingot::app {

struct BenchArgs {
  std::vector<std::string> shapes;  // empty = all
  std::vector<std::string> dtypes;  // bf16, fp32; empty = both
  std::string instruction_set;      // lower set for the kernels to use; empty = the machine's own
  int threads = 0;                  // 0 = torch's default
  int repeat = 5;                   // rounds; every figure is their median
};

// Tree attention next to torch's matrix product and attention; kernels/torch/attention_bench.h describes the lines.
// Returns the exit code: 0, or 2 with a line on `errors` if an argument is unknown.
int BenchAttention(const BenchArgs& args, std::ostream& out, std::ostream& errors);

// The whole training step on trees and without them; trainer/tree_bench.h describes the lines. Returns as
// BenchAttention; 1 if a step failed.
int BenchTree(const trainer::TreeBenchOptions& options, int threads, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
