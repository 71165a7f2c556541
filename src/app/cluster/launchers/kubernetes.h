// Renders a run as Kubernetes objects for `kubectl apply`. Ingot defines no custom resources, and its pods need no
// cluster permissions.
//
//   ConfigMap    ingot-RUN          the run's configuration
//   Service      ingot-RUN          headless; gives the pods stable names
//   Service      ingot-RUN-lb       the agents' address if there are several gateways, or one in a group without agents
//   per group in cluster.groups, where each pod runs a node agent (`ingot node`):
//     Job          the group with the trainer; the run ends with it. `jobset` wraps it in a JobSet
//     StatefulSet  a group with engines, the pool, or the scheduler: one numbered pod per node
//     Deployment   a group with only a gateway or agents, which are stateless
//   PodDisruptionBudget             prevents eviction of trainer and pool pods for node maintenance
//
// The objects never contain secrets. The token and the certificate are mounted, and environment variables refer to
// secret keys. Roles register their pods' addresses in etcd and find each other there.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// Returns the objects in creation order. `text` is the effective configuration. Returns INVALID_ARGUMENT, with the key
// and a fix, if the configuration cannot run on Kubernetes.
absl::StatusOr<std::vector<base::json::object>> RenderKubernetes(const RunConfig& config, const std::string& text);

// Returns YAML documents that kubectl can read.
std::string PrintYaml(const std::vector<base::json::object>& objects);

// Returns the name of the Job that ends the run. REQUIRES: RenderKubernetes accepts the configuration.
std::string DecidingJob(const RunConfig& config);

}  // namespace ingot::app
