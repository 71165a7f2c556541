// Ends calls that repeat themselves. Two signs count:
//
//   certainty   `certain_tokens` tokens in a row, each with a probability above `certain_above` (MiniMax-M1,
//               arXiv 2506.13585, section 3.2: 3,000 tokens above 0.99)
//   a period    the last tokens are one phrase of at most `max_period` tokens, `periods` times over, and together at least
//               `min_repeated` tokens (ours)
//
// A byte-level model is certain of most bytes of a word, so the watch is off for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::rollout {

// Bind declares each key with its meaning and bounds.
struct HaltOptions {
  std::string repetition = "off";
  int32_t certain_tokens = 3000;
  double certain_above = 0.99;
  int32_t max_period = 64;
  int32_t periods = 16;
  int32_t min_repeated = 0;  // keeps short runs of one token, such as a ruled line, from counting

  absl::Status Validate() const;
  // Whether to watch the calls of a model with this many ids.
  bool Watches(int64_t vocab_size) const;
};

void Bind(base::Schema& schema, HaltOptions& options);

// The watch of one call.
class RepetitionWatch {
 public:
  explicit RepetitionWatch(const HaltOptions& options);

  // `sampled`: the call's ids so far, the newest last; `logprob`: of the newest. True = the call repeats itself.
  bool Push(std::span<const int32_t> sampled, float logprob);

 private:
  int32_t certain_tokens_, periods_, min_repeated_;
  float certain_logprob_;
  int32_t certain_ = 0;         // tokens in a row
  std::vector<int32_t> equal_;  // [p - 1]: ids in a row that equal the id p places before
};

}  // namespace ingot::rollout
