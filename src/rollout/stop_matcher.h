// Finds the first stop string in the text of a request as it is sampled, token by token, also where it spans several
// tokens. Matching is on bytes, so that a token that ends inside a UTF-8 character is no special case. Special tokens
// count with their text. Single-threaded; holds the last bytes only, never the whole text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace ingot::rollout {

class StopMatcher {
 public:
  // `last_prompt_id` is context for decoding the first sampled token; its text is not matched. REQUIRES: no stop string
  // is empty; `tokenizer` is not null unless there are none.
  StopMatcher(std::shared_ptr<const text::Tokenizer> tokenizer, std::vector<std::string> stops, int32_t last_prompt_id);

  // The index of the stop string that the text up to and including this token completes, or -1. If the token completes
  // several, the one that ends first, then the longest.
  int Push(int32_t id);

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
