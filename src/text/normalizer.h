// Rewrites text before it is cut: the normalizer of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::text {

// Immutable, thread safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // REQUIRES and gives valid UTF-8. `keeps_start` becomes false if the result does not begin with what the text's first
  // character has become, because something there was dropped or several characters replaced.
  virtual std::string Apply(std::string text, bool& keeps_start) const = 0;
};

struct NormalizerChain {
  std::vector<std::unique_ptr<const Normalizer>> stages;  // Sequence flattened
  bool spells_bytes = false;                              // there is a ByteLevel among them
};

// UNIMPLEMENTED names the component, INVALID_ARGUMENT the fault.
absl::StatusOr<NormalizerChain> ReadNormalizer(const base::json::value* json);

std::string RunNormalizers(const NormalizerChain& chain, std::string text, bool* keeps_start = nullptr);

}  // namespace ingot::text
