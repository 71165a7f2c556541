// The cluster.* keys (addresses, registry, nodes and launchers) and their checks.
#include <utility>

#include "app/run/role_schemas.h"

namespace ingot::app {
namespace {

void BindRoles(base::Schema& schema, ClusterOptions& cluster) {
  schema.Field("cluster.host", &cluster.host,
               "address at which this machine's roles listen and other roles reach them; auto: the machine's name");
  schema.Field(
      "cluster.datapool_port", &cluster.datapool_port,
      "gRPC port of the data pool; process i of it: this + i; 0: free ones, which the other roles learn from the "
      "registry");
  schema.Field("cluster.scheduler_port", &cluster.scheduler_port, "gRPC port of the scheduler; 0: a free one");
  schema.Field("cluster.rewards_port", &cluster.rewards_port,
               "gRPC port of the reward stage, if it is a separate role; 0: a free one");
  schema.Field("cluster.rewards_role", &cluster.rewards_role,
               "true: the reward stage is a separate process; false: it runs in the scheduler's");
  schema.Field("cluster.gateway_port", &cluster.gateway_port,
               "gRPC port of the first gateway (HTTP: http.port); gateway i: this + i; 0: free ones");
  schema.Field("cluster.rollout_port", &cluster.rollout_port,
               "gRPC port of the first engine; engine i: this + i; 0: free ones");
  schema.Field("cluster.rollout_engines", &cluster.rollout_engines, "rollout engines, each a process");
  schema.Field("cluster.datapools", &cluster.datapools,
               "processes that serve the data pool, each to all roles; more than 1 only with datapool.backend "
               "postgres");
  schema.Field("cluster.gateways", &cluster.gateways,
               "gateways, each a process; any of them answers for all episodes, behind one address");
  schema.Field("cluster.trainer_ranks", &cluster.trainer_ranks,
               "processes of `ingot launch` that train each batch together, data parallel; 1: one trainer");
  schema.Field(
      "cluster.min_trainer_ranks", &cluster.min_trainer_ranks,
      "least number of ranks: a rank that dies more than max_restarts times is lost, and the run resumes from the "
      "last checkpoint without it; equal to trainer_ranks: the run fails instead");
  schema.Field("cluster.trainer_port", &cluster.trainer_port,
               "port where the trainer's ranks meet, if there are several; 0: "
               "`ingot launch` finds a free one");
  schema.Field("cluster.trainer_host", &cluster.trainer_host,
               "host where the trainer's ranks meet; empty: rank 0's own, "
               "which the other nodes learn from the registry");
  schema.Field(
      "cluster.takeover_s", &cluster.takeover_s,
      "seconds without a node's agent after which its roles, except engines and trainer, move to the node that "
      "drives the run; 0: they do not");
  schema.Field("cluster.takeover_engines", &cluster.takeover_engines,
               "most engines of dead nodes that each node with engines runs in addition to its own, takeover_s after "
               "their nodes died; 0: they stay missing");
  schema.Field("cluster.rank_deadline_s", &cluster.rank_deadline_s,
               "seconds without a sign of life (not: without progress) after which a rank of the trainer counts as "
               "dead, and all are started again from the last checkpoint");
  schema.Field("cluster.trainer_stop_s", &cluster.trainer_stop_s,
               "seconds for the trainer of a stopped run to end its step and save its weights");
  schema.Field("cluster.drain_s", &cluster.drain_s,
               "seconds for an engine that stops to finish its calls; new calls go to other engines at once");
  schema.Field(
      "cluster.max_restarts", &cluster.max_restarts,
      "restarts of a crashed role (or rank of the trainer); after an hour of running, earlier ones do not count");
  schema.Field(
      "cluster.token_file", &cluster.token_file,
      "file with the token that every rpc between roles carries, the same on every machine, readable only by its "
      "owner: for roles and commands started by hand; empty: `ingot launch` makes one for each start");
  schema.Field("cluster.tls.certificate", &cluster.tls_certificate,
               "PEM file: rpcs between roles are TLS, with this certificate for cluster.host; empty: plain text");
  schema.Field("cluster.tls.key", &cluster.tls_key, "PEM file of the certificate's private key");
  schema.Field("cluster.tls.ca", &cluster.tls_ca,
               "PEM file that roles verify each other's certificate against; empty: cluster.tls.certificate itself");
  schema.Field("cluster.tls.mutual", &cluster.mutual_tls,
               "true: callers show a certificate too, and roles reject peers without one that cluster.tls.ca signed");
  schema.Field("cluster.tls.name", &cluster.tls_name,
               "name that the certificate of every role carries; empty: each one's cluster.host");
  schema.Field("cluster.tls.allow_plaintext", &cluster.allow_plaintext,
               "allows a cluster.host that other machines reach without TLS: for private networks");
}

void BindNodes(base::Schema& schema, ClusterOptions& cluster) {
  schema.Choice("cluster.launcher", &cluster.launcher, {"local", "slurm", "kubernetes"},
                "who starts the run's nodes: local = every role on this machine; slurm = a job of cluster.groups; "
                "kubernetes = pods of cluster.groups");
  schema.List<NodeGroup>(
      "cluster.groups", &cluster.groups,
      [](base::Schema& element, NodeGroup& group) {
        element.Field("name", &group.name, "name of the group, for `ingot node --group`");
        element.Field("nodes", &group.nodes, "number of nodes; more than 1 not for rewards, scheduler and agents");
        element.Field(
            "roles", &group.roles,
            "roles of each node: datapool, rewards (of cluster.rewards_role), scheduler, rollout, gateway, trainer, "
            "agents");
        element.Field("engines", &group.engines, "rollout engines of each node, if rollout is among the roles");
        element.Field("slurm", &group.slurm,
                      "options of sbatch for these nodes, e.g. --gres=gpu:8; with any the job is heterogeneous");
        element.Field(
            "resources", &group.resources,
            "of one node's pod, as Kubernetes counts them, such as {cpu: 8, memory: 64Gi, nvidia.com/gpu: 8}");
      },
      "groups of nodes that run the same roles; empty: one node runs all");
  schema.Field("cluster.slurm", &cluster.slurm, "options of sbatch for all nodes, e.g. --time=12:00:00");
}

void BindKubernetes(base::Schema& schema, KubernetesOptions& options) {
  const auto field = [&schema](const std::string& name, auto* value, const std::string& doc) {
    schema.Field("cluster.kubernetes." + name, value, doc);
  };
  field("namespace", &options.name_space, "namespace of the run's objects");
  field("image", &options.image, "image of Ingot, for every pod");
  field("volume_claim", &options.volume_claim,
        "PersistentVolumeClaim that all pods may write; it is mounted at run.root");
  field("token_secret", &options.token_secret, "Secret whose key `token` is the run's token");
  field("tls_secret", &options.tls_secret,
        "Secret with tls.crt, tls.key and ca.crt for rpcs between roles; empty: none");
  field("pull_secret", &options.pull_secret, "Secret for the image's registry; empty: none");
  field("env", &options.env, "variables of every pod that are keys of Secrets, such as {PGPASSWORD: pool/password}");
  field("queue", &options.queue, "queue of Kueue that admits the run; empty: none");
  field("jobset", &options.jobset, "true: wrap the trainer's Job in a JobSet");
}

void BindRegistry(base::Schema& schema, RegistryConfig& registry) {
  schema.Choice(
      "cluster.registry.kind", &registry.kind, {"local", "etcd"},
      "where roles find each other: local = the folder RUN/registry, for roles on one machine; etcd = an etcd "
      "v3 cluster, for roles on several");
  schema.Field("cluster.registry.endpoints", &registry.endpoints, "HOST:PORT of etcd's members");
  schema.Field("cluster.registry.user", &registry.user, "etcd's user; empty: none");
  schema.Field("cluster.registry.password_file", &registry.password_file, "file with the user's password");
  schema.Field("cluster.registry.ca", &registry.ca,
               "PEM file that etcd's members are verified against; empty: plain text");
  schema.Field("cluster.registry.certificate", &registry.certificate,
               "PEM file of a certificate that etcd asks of clients; empty: none");
  schema.Field("cluster.registry.key", &registry.key, "PEM file of that certificate's key");
  schema.Field("cluster.registry.ttl_s", &registry.ttl_s,
               "seconds of silence after which a process's entry goes; etcd: 6 or more");
}

absl::Status CheckRegistry(const RegistryConfig& registry) {
  const bool etcd = registry.kind == RegistryKind::kEtcd;
  if (etcd && registry.endpoints.empty()) {
    return absl::InvalidArgumentError(
        "cluster.registry.kind is etcd: cluster.registry.endpoints must name its members");
  }
  if (!etcd && !(registry.endpoints.empty() && registry.user.empty() && registry.ca.empty())) {
    return absl::InvalidArgumentError(
        "cluster.registry.endpoints, user and ca are for cluster.registry.kind=etcd, and it is local");
  }
  if (registry.user.empty() != registry.password_file.empty()) {
    return absl::InvalidArgumentError("cluster.registry: user and password_file go together");
  }
  const double least = etcd ? 6 : 2;
  if (registry.ttl_s >= least && registry.ttl_s <= 3600) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cluster.registry.ttl_s is ", registry.ttl_s, ": it must be in [", least, ", 3600]"));
}

}  // namespace

void BindCluster(base::Schema& schema, ClusterOptions& cluster) {
  BindRoles(schema, cluster);
  BindRegistry(schema, cluster.registry);
  BindNodes(schema, cluster);
  BindKubernetes(schema, cluster.kubernetes);
}

absl::Status CheckCluster(const ClusterOptions& cluster) {
  if (cluster.rollout_engines < 1) return absl::InvalidArgumentError("cluster.rollout_engines must be at least 1");
  if (cluster.gateways < 1 || cluster.gateways > 64) {
    return absl::InvalidArgumentError("cluster.gateways must be in [1, 64]");
  }
  if (cluster.datapools < 1 || cluster.datapools > 64) {
    return absl::InvalidArgumentError("cluster.datapools must be in [1, 64]");
  }
  if (cluster.trainer_ranks < 1 || cluster.trainer_ranks > 128) {
    return absl::InvalidArgumentError("cluster.trainer_ranks must be in [1, 128]");
  }
  if (cluster.min_trainer_ranks < 1 || cluster.min_trainer_ranks > cluster.trainer_ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.min_trainer_ranks must be in [1, ", cluster.trainer_ranks, "], cluster.trainer_ranks"));
  }
  if (!(cluster.trainer_stop_s > 0) || cluster.trainer_stop_s > 86400) {
    return absl::InvalidArgumentError("cluster.trainer_stop_s must be above 0 and at most 86400");
  }
  if (!(cluster.drain_s >= 0) || cluster.drain_s > 86400) {
    return absl::InvalidArgumentError("cluster.drain_s must be in [0, 86400]");
  }
  if (cluster.tls_certificate.empty() != cluster.tls_key.empty()) {
    return absl::InvalidArgumentError("cluster.tls: a certificate needs its key, and a key its certificate");
  }
  if (cluster.tls_certificate.empty() && !cluster.tls_ca.empty()) {
    return absl::InvalidArgumentError(
        "cluster.tls.ca has no effect without cluster.tls.certificate and cluster.tls.key");
  }
  if (cluster.tls_certificate.empty() && (cluster.mutual_tls || !cluster.tls_name.empty())) {
    return absl::InvalidArgumentError(
        "cluster.tls.mutual and cluster.tls.name have no effect without cluster.tls.certificate and cluster.tls.key");
  }
  if (!(cluster.takeover_s >= 0) || cluster.takeover_s > 86400) {
    return absl::InvalidArgumentError("cluster.takeover_s must be in [0, 86400]");
  }
  if (cluster.takeover_engines < 0 || cluster.takeover_engines > 1024) {
    return absl::InvalidArgumentError("cluster.takeover_engines must be in [0, 1024]");
  }
  if (cluster.takeover_engines > 0 && cluster.takeover_s == 0) {
    return absl::InvalidArgumentError("cluster.takeover_engines has no effect without cluster.takeover_s");
  }
  if (cluster.rank_deadline_s < 1) return absl::InvalidArgumentError("cluster.rank_deadline_s must be at least 1");
  for (const auto& [key, port] : {std::pair("datapool_port", cluster.datapool_port),
                                  {"scheduler_port", cluster.scheduler_port},
                                  {"rewards_port", cluster.rewards_port},
                                  {"gateway_port", cluster.gateway_port},
                                  {"rollout_port", cluster.rollout_port},
                                  {"trainer_port", cluster.trainer_port}}) {
    if (port >= 0 && port <= 65535) continue;
    return absl::InvalidArgumentError(absl::StrCat("cluster.", key, " is ", port, ": it must be in [0, 65535]"));
  }
  return CheckRegistry(cluster.registry);
}

}  // namespace ingot::app
