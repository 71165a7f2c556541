// StopMatcher finds the first stop string in a request's text, token by token, even across tokens. It matches bytes, so
// a token that ends inside a UTF-8 character needs no special case. Special tokens count as their text.
// Single-threaded. Holds only the last bytes of the text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace ingot::rollout {

class StopMatcher {
 public:
  // `last_prompt_id` is context for decoding the first sampled token; its text is not matched. REQUIRES: no stop string
  // is empty; `tokenizer` is not null if there are stop strings.
  StopMatcher(std::shared_ptr<const text::Tokenizer> tokenizer, std::vector<std::string> stops, int32_t last_prompt_id);

  // The index of the stop string that the text up to and including this token completes; -1 = none. If the token
  // completes several, the first to end wins, then the longest.
  int Push(int32_t id);

  // The same without a match: no stop string contains text of the tokens so far.
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
