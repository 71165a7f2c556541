// The weights of the versions that gateway.models pins, kept in the run's folder from before they are first served: a
// resumed run has passed them, and engines that are started with it hold nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "app/run_dir.h"
#include "base/status.h"
#include "gateway/options.h"
#include "model/config.h"
#include "weights/publisher.h"

namespace ingot::app {

class PinnedVersions {
 public:
  // Both outlive it.
  PinnedVersions(const gateway::GatewayOptions& options, const RunDir& dir) : options_(options), dir_(dir) {}

  bool Pins(int64_t version) const { return gateway::PinsVersion(options_, version); }

  // Durable when it returns; nothing to do for a version that no model pins.
  absl::Status Keep(const model::ModelConfig& shape, const std::shared_ptr<const weights::Snapshot>& snapshot) const;

  // Hands the pinned versions before `version`, at which the run goes on, to the publisher for its engines: those that
  // were kept, or else a checkpoint's. NOT_FOUND names a model whose version the run has passed and nobody has;
  // DATA_LOSS: its weights are not those that were served.
  absl::Status Restore(int64_t version, weights::Publisher& publisher) const;

 private:
  std::string Folder(int64_t version) const;
  std::string ChecksumFile(int64_t version) const;  // written last

  const gateway::GatewayOptions& options_;
  const RunDir& dir_;
};

}  // namespace ingot::app
