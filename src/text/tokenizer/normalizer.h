// Implements the normalizer in tokenizer.json, which rewrites text before it is cut into pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/id_bound.h"

namespace ingot::text {

// Immutable and thread safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Takes and returns valid UTF-8. Sets `keeps_start` to false if the result no longer begins with the first
  // character's replacement, because text at the start was dropped or several characters were replaced together.
  virtual std::string Apply(std::string text, bool& keeps_start) const = 0;
  virtual Shrinkage shrinkage() const { return {}; }
};

struct NormalizerChain {
  std::vector<std::unique_ptr<const Normalizer>> stages;  // in order, with Sequences flattened
  bool spells_bytes = false;                              // true = one of them is a ByteLevel
};

// Returns UNIMPLEMENTED, naming an unsupported component, or INVALID_ARGUMENT, with the problem.
absl::StatusOr<NormalizerChain> ReadNormalizer(const base::json::value* json);

std::string RunNormalizers(const NormalizerChain& chain, std::string text, bool* keeps_start = nullptr);

}  // namespace ingot::text
