// The GPUs of a machine by their names, so that a run can be planned on a machine without them.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::app {

struct GpuMachine {
  std::string card;        // such as "h100", or "24 GiB"
  int64_t card_bytes = 0;  // memory of one GPU that processes can use
  int count = 0;           // number of GPUs; 0 = one for each process that computes
};

// Reads "CARD" or "NxCARD", such as "h100", "8xh100", or "24" for a GPU with 24 GiB. Returns INVALID_ARGUMENT, with the
// known cards, for other text.
absl::StatusOr<GpuMachine> ParseGpus(const std::string& text);

}  // namespace ingot::app
