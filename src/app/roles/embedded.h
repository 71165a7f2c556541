// All roles in one process, for `ingot train` and `ingot eval`. Owns the roles, and the order in which they start and
// stop.
//
//   pool <- scheduler <- gateway <- agents        trainer -> publisher -> engine
//
// Not thread safe; one thread calls its methods.
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
  // Opens the pool, recovers the scheduler at a checkpoint, starts engine and gateway, and serves the metrics. Agents
  // start with StartAgents. The configuration and the metrics must outlive it.
  static absl::StatusOr<std::unique_ptr<EmbeddedRun>> Start(const RunConfig& config, const RunDir& dir,
                                                            const ModelSetup& model,
                                                            const scheduler::ResumePoint& resume,
                                                            base::Metrics& metrics);
  ~EmbeddedRun();  // Stop()

  // Does nothing without recipes.
  absl::Status StartAgents();
  // The roles for the run's page, for the trainer and for evaluations, which must end before them.
  const RoleClients& clients() const;
  weights::Publisher& publisher();
  // For RunTraining; on_first_version starts the agents.
  TrainerParts PartsOfTrainer();
  // Stops metrics, agents, gateway, scheduler, engine and pool, in this order.
  void Stop();

  const std::string& url() const;
  // Of metrics.port; "none" = there is no such port.
  std::string metrics_url() const;

 private:
  struct Parts;
  explicit EmbeddedRun(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ingot::app
