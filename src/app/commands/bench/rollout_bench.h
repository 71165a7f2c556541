// `ingot bench rollout`: measures how fast the engine runs a model. Prints one JSON object per figure.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace ingot::app {

struct RolloutBenchArgs {
  std::string dir;                        // model folder or checkpoint
  std::vector<int> streams = {1, 4, 16};  // numbers of concurrent requests; one decoding figure each
  int prompt_tokens = 512;                // prompt length for the prefill figure
  int new_tokens = 64;                    // tokens that each stream decodes; at least 2
  int repeat = 3;                         // rounds; each figure is their median
  int threads = 0;                        // 0 = all cores
};

// Prints one line per figure: {"figure": "prefill" or "decode", "streams", "prompt_tokens" or "new_tokens",
// "tokens_per_second", "threads", "parameters", "dtype"}. Prompts are random ids that share no prefixes. Returns the
// exit code.
int BenchRollout(const RolloutBenchArgs& args, std::ostream& out, std::ostream& errors);

}  // namespace ingot::app
