// Configures a run's roles, how they find each other, and what starts the run's nodes. The Bind functions declare each
// key with its meaning, bounds, and choices.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::base {
class Schema;
}

namespace ingot::app {

// The registry where the roles find each other (src/registry).
enum class RegistryKind { kLocal, kEtcd };
struct RegistryConfig {
  RegistryKind kind = RegistryKind::kLocal;
  std::vector<std::string> endpoints;
  std::string user, password_file;
  std::string ca, certificate, key;
  double ttl_s = 10;
};

// A group of nodes that run the same roles.
struct NodeGroup {
  std::string name;
  int32_t nodes = 1;
  std::vector<std::string> roles;
  int32_t engines = 1;
  std::vector<std::string> slurm;
  std::map<std::string, std::string> resources = {};
};

// Configures the run's Kubernetes objects (app/cluster/launchers/kubernetes.h).
struct KubernetesOptions {
  std::string name_space = "default";
  std::string image;
  std::string volume_claim;
  std::string token_secret;
  std::string tls_secret;
  std::string pull_secret;
  std::map<std::string, std::string> env;  // VARIABLE: SECRET/KEY
  std::string queue;
  bool jobset = false;
};

// Whether the trainer and the engines compute at the same time, or take turns on one device (rollout/parking.h).
enum class Placement { kSplit, kShared };

// The system that starts the nodes.
enum class LauncherKind { kLocal, kSlurm, kKubernetes };

struct ClusterOptions {
  std::string host = "127.0.0.1";
  // Ports for the roles' gRPC services.
  int32_t datapool_port = 0;
  int32_t scheduler_port = 0;
  int32_t gateway_port = 0;
  int32_t rollout_port = 0;
  int32_t rewards_port = 0;
  int32_t rollout_engines = 1;
  int32_t gateways = 1;
  bool rewards_role = false;
  int32_t trainer_ranks = 1;
  int32_t min_trainer_ranks = 1;
  std::string trainer_host;
  int32_t trainer_port = 0;
  double trainer_stop_s = 600;
  int64_t rank_deadline_s = 30;
  double takeover_s = 30;
  int32_t takeover_engines = 0;
  int32_t datapools = 1;
  double drain_s = 30;
  Placement placement = Placement::kSplit;
  double park_timeout_s = 60;
  int32_t max_restarts = 3;
  std::string token_file;
  std::string tls_certificate, tls_key;
  std::string tls_ca;
  bool mutual_tls = false;
  std::string tls_name;
  bool allow_plaintext = false;
  RegistryConfig registry;
  LauncherKind launcher = LauncherKind::kLocal;
  std::vector<NodeGroup> groups;
  std::vector<std::string> slurm;
  KubernetesOptions kubernetes;

  // Returns INVALID_ARGUMENT if keys conflict.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, RegistryConfig& options);
void Bind(base::Schema& schema, NodeGroup& options);
void Bind(base::Schema& schema, KubernetesOptions& options);
void Bind(base::Schema& schema, ClusterOptions& options);

}  // namespace ingot::app
