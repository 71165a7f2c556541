// A version in the exchange folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engines/verification/weight_reference.h"
#include "weights/snapshot.h"

namespace ingot::engines {

struct WrittenVersion {
  std::shared_ptr<const weights::Snapshot> snapshot;  // null = none
  std::string dir, label;
  std::vector<PromptScores> scores;  // scores that the server must report; empty = it is not verified by them
  double write_ms = 0;
};

}  // namespace ingot::engines
