// Detects calls whose output repeats itself, so they can be ended. There are two criteria:
//
//   certainty   `certain_tokens` consecutive tokens with a probability above `certain_above` (MiniMax-M1, arXiv
//               2506.13585, section 3.2: 3,000 tokens above 0.99)
//   a period    the last tokens consist of one phrase of at most `max_period` tokens that occurs `periods` times, with
//               at least `min_repeated` tokens in total (ours)
//
// A byte-level model is certain about most bytes in a word, so repetition detection is off for such models.
#pragma once

#include <cstdint>
#include <limits>
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
  int32_t min_repeated = 0;  // excludes short runs of one token, such as a horizontal line

  absl::Status Validate() const;
  // Returns true if calls to a model with this vocabulary size should be watched.
  bool Watches(int64_t vocab_size) const;
};

void Bind(base::Schema& schema, HaltOptions& options);

// Watches one call.
class RepetitionWatch {
 public:
  explicit RepetitionWatch(const HaltOptions& options);

  // The log-prob to pass for an id that another engine sampled. It does not count as certain.
  static constexpr float kUnknownLogprob = -std::numeric_limits<float>::infinity();

  // `sampled` has the call's ids so far, and `logprob` belongs to the last one. Returns true if the call repeats
  // itself.
  bool Push(std::span<const int32_t> sampled, float logprob);

 private:
  int32_t certain_tokens_, periods_, min_repeated_;
  float certain_logprob_;
  int32_t certain_ = 0;         // consecutive certain tokens
  std::vector<int32_t> equal_;  // [p - 1] = number of consecutive ids that equal the id p positions earlier
};

}  // namespace ingot::rollout
