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
  // REQUIRES and gives valid UTF-8.
  virtual std::string Apply(std::string text) const = 0;
};

struct NormalizerChain {
  std::vector<std::unique_ptr<const Normalizer>> stages;  // Sequence flattened
  bool spells_bytes = false;                              // there is a ByteLevel among them
};

// UNIMPLEMENTED names the component, INVALID_ARGUMENT the fault.
absl::StatusOr<NormalizerChain> ReadNormalizer(const base::json::value* json);

std::string RunNormalizers(const NormalizerChain& chain, std::string text);

}  // namespace ingot::text
