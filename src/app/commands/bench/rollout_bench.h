// `ingot bench rollout`: the rates at which the engine runs a model folder, one JSON object per figure.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace ingot::app {

struct RolloutBenchArgs {
  std::string dir;                        // model folder or checkpoint
  std::vector<int> streams = {1, 4, 16};  // requests at once; each gives a decoding figure
  int prompt_tokens = 512;                // of the prefill figure
  int new_tokens = 64;                    // that each stream decodes, >= 2
  int repeat = 3;                         // rounds; every figure is their median
  int threads = 0;                        // 0 = all cores
};

// A line per figure: {"figure": "prefill" or "decode", "streams", "prompt_tokens" or "new_tokens", "tokens_per_second",
// "threads", "parameters", "dtype"}. Prompts are random ids, and no two share a prefix. Returns the exit code.
int BenchRollout(const RolloutBenchArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
