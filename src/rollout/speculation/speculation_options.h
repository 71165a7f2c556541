// Defines the options for speculative decoding. Bind declares each key with its meaning and bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::rollout {

struct SpeculationOptions {
  std::vector<std::string> drafters = {"given", "mtp"};  // "given", "history", and "mtp", preferred first; empty = off
  int32_t max_drafts = 8;
  int32_t mtp_drafts = 3;
  double sharpness = 1.25;
  double min_gain = 0.05;
  int64_t history_tokens = int64_t{1} << 22;
  int32_t min_match = 3;
  int32_t max_match = 8;

  // Returns INVALID_ARGUMENT, with the key, its value, and the allowed values.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, SpeculationOptions& options);

}  // namespace ingot::rollout
