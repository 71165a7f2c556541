// Runs all roles in one process for `ingot train` and `ingot eval`. Owns the roles and starts and stops them in order.
//
//   pool <- scheduler <- gateway <- agents        trainer -> publisher -> engine
//
// Not thread safe. Call all methods on one thread.
#pragma once

#include <memory>
#include <string>

#include "app/cluster/role_clients.h"
#include "app/models/model_setup.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/training/training.h"
#include "base/metrics.h"
#include "base/status.h"
#include "scheduler/resume_point.h"
#include "weights/publisher.h"

namespace ingot::app {

class EmbeddedRun {
 public:
  // Opens the pool, recovers the scheduler from a checkpoint, starts the engine and gateway, and serves the metrics.
  // StartAgents starts the agents later. REQUIRES: the configuration and the metrics outlive the result.
  static absl::StatusOr<std::unique_ptr<EmbeddedRun>> Start(const RunConfig& config, const RunDir& dir,
                                                            const ModelSetup& model,
                                                            const scheduler::ResumePoint& resume,
                                                            base::Metrics& metrics);
  ~EmbeddedRun();  // calls Stop()

  // Does nothing if there are no recipes.
  absl::Status StartAgents();
  // Returns clients for the roles, for use by the run's page, the trainer, and evaluations. These must stop before this
  // object.
  const RoleClients& clients() const;
  weights::Publisher& publisher();
  // Returns the parts for RunTraining. on_first_version starts the agents.
  TrainerParts PartsOfTrainer();
  // Stops the metrics, agents, gateway, scheduler, engine, and pool, in that order.
  void Stop();

  const std::string& url() const;
  // URL at metrics.port, or "none" if no port is set.
  std::string metrics_url() const;

 private:
  struct Parts;
  explicit EmbeddedRun(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ingot::app
