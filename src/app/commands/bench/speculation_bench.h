// `ingot bench speculation`: measures the gain from speculative decoding, and its cost when drafts are never accepted.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ingot::app {

struct SpeculationBenchArgs {
  std::string dir;  // model folder or checkpoint; empty = random weights of 32.0M parameters
  std::vector<int> batches = {1, 2, 4, 8, 16, 32, 64};
  int prompt_tokens = 128;
  int new_tokens = 96;             // per request
  int turns = 8;                   // pairs of rounds per figure, at least 2
  double alike_temperature = 0.6;  // temperature for repetitive text
  int threads = 1;                 // 0 = all cores
};

// Compares an engine without speculation with one that uses the drafters `given` and `history`. Both rounds in a pair
// run the same requests, in alternating order, and their ids must be equal. Speeds are sampled tokens per CPU second of
// the process, because other programs on the machine distort wall time. Prints one line per figure:
//
//   workload      "group": members 2 to 8 of groups, one at a time. "replay": a recorded call with its ids as
//                 draft_ids. "alike": batches of groups. "unlike": batches of text that does not repeat (temperature 3).
//   batch, pairs  concurrent requests, and the number of ratios
//   off           tokens per CPU second without speculation, median
//   ratio, least, most, lower  speed with / without speculation: median, extremes, and lower end of the one-sided 95 %
//                 confidence interval of the geometric mean (t)
//   accepted, tokens_per_pass  share of the verified drafts, and ids per request and pass
//
// Returns the exit code: 0, 1 if a request failed or an id differs, or 2 for an invalid argument.
int BenchSpeculation(const SpeculationBenchArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
