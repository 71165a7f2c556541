// The normalizer of tokenizer.json: rewrites text before it is cut into pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/id_bound.h"

namespace ingot::text {

// Immutable, thread safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Takes and returns valid UTF-8. Sets `keeps_start` to false if the result no longer begins with the replacement of
  // the text's first character: text at the start was dropped, or several characters were replaced together.
  virtual std::string Apply(std::string text, bool& keeps_start) const = 0;
  virtual Shrinkage shrinkage() const { return {}; }
};

struct NormalizerChain {
  std::vector<std::unique_ptr<const Normalizer>> stages;  // in order; a Sequence is flattened
  bool spells_bytes = false;                              // whether a ByteLevel is among them
};

// UNIMPLEMENTED names an unsupported component; INVALID_ARGUMENT names the fault.
absl::StatusOr<NormalizerChain> ReadNormalizer(const base::json::value* json);

std::string RunNormalizers(const NormalizerChain& chain, std::string text, bool* keeps_start = nullptr);

}  // namespace ingot::text
