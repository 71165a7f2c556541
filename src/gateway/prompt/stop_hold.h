// One stop string in a text that comes in pieces: where it stands, or how much of the text's end may be its beginning
// and must be held back. One look at each byte (Knuth, Morris, Pratt). Not thread safe.
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

  // How much of the text is neither in the stop string nor behind it, nor may come to be.
  size_t clear() const { return seen_ - matched_; }
  bool found() const { return matched_ == stop_.size(); }

 private:
  const std::string stop_;
  std::vector<size_t> border_;  // of each beginning of stop_: its longest proper beginning that it ends with
  size_t matched_ = 0;          // bytes of stop_ that the text ends with; all of them once it was found
  size_t seen_ = 0;             // bytes, up to the end of the first that was found
};

}  // namespace ingot::gateway
