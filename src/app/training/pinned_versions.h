// The weights of the versions that gateway.models pins, in the run's folder, from before they are first served. A
// resumed run has passed those versions, and engines that start with it do not hold them.
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
  // Both must outlive it.
  PinnedVersions(const gateway::GatewayOptions& options, const RunDir& dir) : options_(options), dir_(dir) {}

  bool Pins(int64_t version) const { return gateway::PinsVersion(options_, version); }

  // Saves a pinned version; durable when it returns. Does nothing for a version that no model pins.
  absl::Status Save(const model::ModelConfig& shape, const std::shared_ptr<const weights::Snapshot>& snapshot) const;

  // Gives the pinned versions before `version`, at which the run continues, to the publisher for its engines: from the
  // saved weights, or else from a checkpoint. NOT_FOUND names a model whose version is in neither. DATA_LOSS: the
  // weights are not the weights that were served.
  absl::Status Restore(int64_t version, weights::Publisher& publisher) const;

 private:
  std::string Folder(int64_t version) const;
  std::string ChecksumFile(int64_t version) const;  // written last

  const gateway::GatewayOptions& options_;
  const RunDir& dir_;
};

}  // namespace ingot::app
