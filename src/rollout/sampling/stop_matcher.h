// Finds the first stop string in a request's output, token by token, even if it spans several tokens. Compares bytes,
// so tokens that end inside a UTF-8 character need no special handling. Special tokens count as their text. Keeps only
// the last bytes of the output. Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace ingot::rollout {

class StopMatcher {
 public:
  // `last_prompt_id` is context for decoding the first sampled token, and its text is not matched. REQUIRES: stop
  // strings are not empty, and `tokenizer` is not null if there are any.
  StopMatcher(std::shared_ptr<const text::Tokenizer> tokenizer, std::vector<std::string> stops, int32_t last_prompt_id);

  // Returns the index of the stop string that this token completes; -1 = none. If it completes several, returns the one
  // that ends first or, in case of a tie, the longest one.
  int Push(int32_t id);

  // Same as Push, but without matching. Later matches cannot include text from the tokens so far.
  void Skip(int32_t id);

  const std::string& stop(int index) const { return stops_[index]; }

 private:
  std::string NewText(int32_t id) const;

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const std::vector<std::string> stops_;
  size_t longest_ = 0;
  int32_t previous_;
  std::string tail_;  // the last longest_ - 1 bytes
};

}  // namespace ingot::rollout
