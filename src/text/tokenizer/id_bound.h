// Computes a lower bound on the number of ids in a string without encoding it. So a string that is far too long for a
// model's context can be rejected with a single pass over its bytes.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"

namespace ingot::text {

inline constexpr size_t kAnyNumberOfIds = std::numeric_limits<size_t>::max();

// Returns the OUT_OF_RANGE error for a string with at least `least` ids, which is more than the caller allows.
absl::Status TooManyIds(size_t least);
// Returns the number in such an error, or nullopt for any other error.
std::optional<size_t> LeastIdsOf(const absl::Status& status);

// The amount of text that one tokenization step may drop or merge into one byte of its result.
struct Shrinkage {
  size_t bytes = 1;           // maximum input bytes per result byte
  size_t ascii = 1;           // maximum input ASCII characters per result byte
  bool drops_spaces = false;  // any amount of whitespace may be dropped
  bool drops_text = false;    // any text may be dropped
};
// Combines steps that run one after another.
Shrinkage Joined(std::span<const Shrinkage> steps);

class IdBound {
 public:
  IdBound() = default;  // no bound: LeastIds is 0
  // `longest` is the length of the longest token in bytes, after the steps that `shrinkage` describes; 0 = no limit.
  IdBound(size_t longest, const Shrinkage& shrinkage);

  // REQUIRES: valid UTF-8.
  size_t LeastIds(std::string_view text) const;

 private:
  size_t longest_ = 0;
  Shrinkage shrinkage_;
};

}  // namespace ingot::text
