// Holds the engines that receive the trainer's weights and the publisher that sends them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/cluster/run_registry.h"
#include "app/roles/role.h"
#include "app/training/weight_transports.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "weights/publisher.h"
#include "weights/stores/version_writer.h"

namespace ingot::app {

// Thread safe.
class TrainedEngines {
 public:
  // REQUIRES: the arguments outlive it.
  TrainedEngines(const RoleContext& context, base::Executor& timers);

  // `name` is the engine's role name.
  absl::Status Add(const std::string& name);
  weights::Publisher& publisher() { return publisher_; }
  absl::StatusOr<std::shared_ptr<weights::VersionWriter>> RankWriter() {
    base::MutexLock lock(mu_);
    return transports_.RankWriter();
  }

 private:
  RunRegistry& registry_;
  base::Executor& timers_;
  weights::Publisher publisher_;
  base::Mutex mu_;
  WeightTransports transports_ ABSL_GUARDED_BY(mu_);
  std::vector<base::Timer> connecting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::app
