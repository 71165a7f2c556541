// Stores the weights of versions pinned by gateway.models in the run's folder before they are first served. A resumed
// run needs them because it is past those versions and its restarted engines no longer have them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "app/run/run_dir.h"
#include "base/status.h"
#include "gateway/options.h"
#include "model/config.h"
#include "weights/publisher.h"

namespace ingot::app {

class PinnedVersions {
 public:
  // REQUIRES: both arguments outlive this object.
  PinnedVersions(const gateway::GatewayOptions& options, const RunDir& dir) : options_(options), dir_(dir) {}

  bool Pins(int64_t version) const { return gateway::PinsVersion(options_, version); }

  // Saves a pinned version durably. Does nothing for versions that no model pins.
  absl::Status Save(const model::ModelConfig& shape, const std::shared_ptr<const weights::Snapshot>& snapshot) const;

  // Passes the pinned versions older than `version`, where the run continues, to the publisher, which sends them to its
  // engines. Reads the saved weights, or else a checkpoint. Returns NOT_FOUND, naming the model, if neither has the
  // version, and DATA_LOSS if the weights differ from those that were served.
  absl::Status Restore(int64_t version, weights::Publisher& publisher) const;

 private:
  std::string Folder(int64_t version) const;
  std::string ChecksumFile(int64_t version) const;  // written last

  const gateway::GatewayOptions& options_;
  const RunDir& dir_;
};

}  // namespace ingot::app
