// A lower bound for the number of ids of a text, computed from lengths without encoding the text. It rejects a text
// that is far too long for a model's context at the cost of one look at each byte.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"

namespace ingot::text {

inline constexpr size_t kAnyNumberOfIds = std::numeric_limits<size_t>::max();

// OUT_OF_RANGE: a text has at least `least` ids, more than its caller allows.
absl::Status TooManyIds(size_t least);
// The number in such an error; nullopt: a different error.
std::optional<size_t> LeastIdsOf(const absl::Status& status);

// The text that one step of tokenizing may drop or join into one byte of its result.
struct Shrinkage {
  size_t bytes = 1;           // most bytes of the text for one of the result
  size_t ascii = 1;           // most ASCII characters of the text for one byte of the result
  bool drops_spaces = false;  // any amount of white space may vanish
  bool drops_text = false;    // any text may vanish
};
// All steps, one after another.
Shrinkage Joined(std::span<const Shrinkage> steps);

class IdBound {
 public:
  IdBound() = default;  // no bound: LeastIds is 0
  // `longest`: bytes of the longest token, after the steps that `shrinkage` describes; 0 = no token has a limit.
  IdBound(size_t longest, const Shrinkage& shrinkage);

  // REQUIRES: valid UTF-8.
  size_t LeastIds(std::string_view text) const;

 private:
  size_t longest_ = 0;
  Shrinkage shrinkage_;
};

}  // namespace ingot::text
