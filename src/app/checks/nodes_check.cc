#include "app/checks/nodes_check.h"

#include "app/cluster/launchers/kubernetes.h"
#include "app/cluster/run_roles.h"

namespace ingot::app {

int NodesOf(const ClusterOptions& cluster) {
  int nodes = 0;
  for (const NodeGroup& group : cluster.groups) nodes += group.nodes;
  return nodes;
}

absl::Status CheckSharedToken(const RunConfig& config) {
  if (!config.cluster.token_file.empty() || TrainerAlone(config)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the nodes of a run share its token: name a file with it in cluster.token_file (`openssl rand -hex 32 > FILE; "
      "chmod 600 FILE`), the same on every machine");
}

absl::Status CheckNodes(const RunConfig& config) {
  const ClusterOptions& cluster = config.cluster;
  INGOT_RETURN_IF_ERROR(CheckGroups(config));
  if (cluster.launcher == LauncherKind::kKubernetes) return RenderKubernetes(config, "").status();
  const bool slurm = cluster.launcher == LauncherKind::kSlurm;
  if (slurm && cluster.groups.empty()) {
    return absl::InvalidArgumentError("cluster.launcher is slurm: cluster.groups must say which nodes run which roles");
  }
  return slurm || NodesOf(cluster) > 1 ? CheckSharedToken(config) : absl::OkStatus();
}

absl::Status CheckLaunchedHere(const RunConfig& config) {
  const int nodes = NodesOf(config.cluster);
  if (nodes < 2) return absl::OkStatus();
  std::string groups;
  for (const NodeGroup& group : config.cluster.groups) {
    absl::StrAppend(&groups, groups.empty() ? "" : ", ", group.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cluster.groups names ", nodes,
                   " nodes, but cluster.launcher is local: start each on its machine with `ingot "
                   "node FILE --group NAME --node N` (groups ",
                   groups,
                   "), set cluster.launcher to slurm or kubernetes, or run all "
                   "roles here with --set cluster.groups=[]"));
}

}  // namespace ingot::app
