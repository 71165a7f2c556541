#include "app/checks/nodes_check.h"

#include "app/cluster/launchers/kubernetes.h"
#include "app/cluster/launchers/slurm.h"
#include "app/cluster/run_roles.h"

namespace ingot::app {

int NodesOf(const ClusterOptions& cluster) {
  int nodes = 0;
  for (const NodeGroup& group : cluster.groups) nodes += group.nodes;
  return nodes;
}

namespace {

// Returns the host in HOST:PORT or [HOST]:PORT.
std::string HostOfEndpoint(const std::string& endpoint) {
  const std::string host = endpoint.substr(0, endpoint.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

// Returns INVALID_ARGUMENT for an address that is local to each machine. The launcher gives pods their own
// cluster.host.
absl::Status CheckSharedAddresses(const ClusterOptions& cluster) {
  const int nodes = NodesOf(cluster);
  if (nodes < 2) return absl::OkStatus();
  if (cluster.launcher == LauncherKind::kSlurm && IsLoopback(cluster.host)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.host is ", cluster.host, ", which each of the ", nodes,
                     " nodes uses for itself: set cluster.host=auto, which is each machine's host name"));
  }
  for (const std::string& endpoint : cluster.registry.endpoints) {
    if (!IsLoopback(HostOfEndpoint(endpoint))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.registry.endpoints has ", endpoint, ", which each of the ", nodes,
                     " nodes uses for itself: name etcd's members by addresses that all nodes can reach"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSharedToken(const RunConfig& config) {
  if (!config.cluster.token_file.empty() || TrainerAlone(config)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the nodes of a run need a shared token: put it in a file (`openssl rand -hex 32 > FILE; chmod 600 FILE`), copy "
      "the file to every machine, and name it in cluster.token_file");
}

absl::Status CheckNodes(const RunConfig& config) {
  const ClusterOptions& cluster = config.cluster;
  INGOT_RETURN_IF_ERROR(CheckGroups(config));
  if (cluster.launcher == LauncherKind::kKubernetes) {
    INGOT_RETURN_IF_ERROR(RenderKubernetes(config, "").status());
    return CheckSharedAddresses(cluster);
  }
  if (cluster.launcher == LauncherKind::kLocal) {
    return NodesOf(cluster) > 1 ? CheckSharedToken(config) : absl::OkStatus();
  }
  if (cluster.groups.empty()) {
    return absl::InvalidArgumentError(
        "cluster.launcher is slurm, which needs cluster.groups: list which nodes run which roles");
  }
  for (const NodeGroup& group : cluster.groups) INGOT_RETURN_IF_ERROR(SlurmResources(group).status());
  INGOT_RETURN_IF_ERROR(CheckSharedToken(config));
  return CheckSharedAddresses(cluster);
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

std::vector<std::string> NotesOfNodes(const RunConfig& config) {
  const ClusterOptions& cluster = config.cluster;
  std::vector<std::string> notes;
  if (cluster.launcher == LauncherKind::kLocal) {
    if (const absl::Status here = CheckLaunchedHere(config); !here.ok()) notes.emplace_back(here.message());
    if (NodesOf(cluster) > 1 && IsLoopback(cluster.host)) {
      notes.push_back(absl::StrCat("cluster.host is ", cluster.host,
                                   ", so all nodes must be on one machine; for several machines, add --set "
                                   "cluster.host=ADDRESS to each `ingot node`"));
    }
  }
  if (cluster.launcher != LauncherKind::kSlurm) return notes;
  for (const NodeGroup& group : cluster.groups) {
    if (AsksForCpus(group, cluster.slurm)) continue;
    notes.push_back(absl::StrCat("cluster.groups ('", group.name,
                                 "') requests no CPUs from Slurm, so its roles get one CPU unless the partition "
                                 "allocates whole nodes: add resources: {cpu: N}"));
  }
  return notes;
}

}  // namespace ingot::app
