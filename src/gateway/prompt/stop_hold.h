// Searches for one stop string in text that arrives in pieces. Holds back the end of the text while it may be a prefix
// of the stop string. Examines each byte once (Knuth-Morris-Pratt). Not thread safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::gateway {

class StopHold {
 public:
  // REQUIRES: `stop` is not empty.
  explicit StopHold(std::string stop) : stop_(std::move(stop)), border_(stop_.size() + 1, 0) {
    for (size_t i = 1, k = 0; i < stop_.size(); ++i) {
      while (k > 0 && stop_[i] != stop_[k]) k = border_[k];
      if (stop_[i] == stop_[k]) ++k;
      border_[i + 1] = k;
    }
  }

  void Push(std::string_view text) {
    for (const char c : text) {
      if (found()) return;
      while (matched_ > 0 && stop_[matched_] != c) matched_ = border_[matched_];
      if (stop_[matched_] == c) ++matched_;
      ++seen_;
    }
  }

  // Returns the number of bytes that are certain to precede the stop string.
  size_t clear() const { return seen_ - matched_; }
  // Returns the number of bytes up to the end of the stop string if it was found, or else the total.
  size_t seen() const { return seen_; }
  bool found() const { return matched_ == stop_.size(); }

 private:
  const std::string stop_;
  // For each prefix of stop_, the length of its longest proper prefix that is also a suffix.
  std::vector<size_t> border_;
  size_t matched_ = 0;  // length of the prefix of stop_ at the end of the text; stop_.size() = found
  size_t seen_ = 0;     // bytes pushed, up to the end of the stop string
};

}  // namespace ingot::gateway
