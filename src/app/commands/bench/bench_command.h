// `ingot bench NAME`: measures the project's published figures on this machine. Prints one JSON object per line.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "trainer/tree_bench.h"

namespace ingot::app {

struct BenchArgs {
  std::vector<std::string> shapes;  // empty = all
  std::vector<std::string> dtypes;  // bf16 or fp32; empty = both
  std::string instruction_set;  // limits the kernels to this instruction set; empty = the best one that the machine has
  int threads = 0;              // 0 = torch's default
  int repeat = 5;               // rounds; each figure is their median
};

// Compares tree attention with torch's matrix product and attention. The output lines are described in
// kernels/torch/attention_bench.h. Returns exit code 0, or 2 with a line on `errors` if an argument is unknown.
int BenchAttention(const BenchArgs& args, std::ostream& out, std::ostream& errors);

// Measures a complete training step with and without trees. The output lines are described in trainer/tree_bench.h.
// Returns the same exit codes as BenchAttention, and 1 if a step failed.
int BenchTree(const trainer::TreeBenchOptions& options, int threads, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
