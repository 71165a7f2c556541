// A run as Kubernetes objects, for `kubectl apply`. Ingot defines no kinds and needs no rights in the cluster.
//
//   ConfigMap    ingot-RUN          the run's configuration
//   Service      ingot-RUN          headless: stable names for the pods
//   Service      ingot-RUN-lb    the address for agents: of several gateways, or of one in a group without the agents
//   per group of cluster.groups, each pod an agent of its node (`ingot node`):
//     Job          the group with the trainer: its end is the run's end. With `jobset` it is wrapped in a JobSet
//     StatefulSet  a group with engines, the pool or the scheduler: one pod per node, numbered
//     Deployment   a group with only gateway or agents: nothing is kept
//   PodDisruptionBudget             no pod of the trainer or the pool is evicted for node maintenance during the run
//
// Secrets are named, never written: token and certificate are mounted, env variables refer to keys. Roles find each
// other in etcd, by their pods' addresses.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// The objects, in the order to create them. `config`: the text of the effective configuration.
// INVALID_ARGUMENT: the configuration cannot run on Kubernetes; names the key, and says what to do.
absl::StatusOr<std::vector<base::json::object>> RenderKubernetes(const RunConfig& config, const std::string& text);

// YAML documents, as kubectl reads them.
std::string PrintYaml(const std::vector<base::json::object>& objects);

// The name of the Job whose end is the run's end. REQUIRES: RenderKubernetes accepts the configuration.
std::string DecidingJob(const RunConfig& config);

}  // namespace ingot::app
