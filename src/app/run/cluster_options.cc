#include "app/run/cluster_options.h"

#include "base/config.h"

namespace ingot::app {
namespace {

void BindRoles(base::Schema& schema, ClusterOptions& o) {
  schema.Field("host", &o.host,
               "address where this machine's roles listen, and where other roles connect to them; auto: the machine's "
               "host name");
  schema.Field("datapool_port", &o.datapool_port,
               "gRPC port of the data pool's first process; process i uses port + i; 0: any free port, which other "
               "roles find in the registry",
               base::Port());
  schema.Field("scheduler_port", &o.scheduler_port, "gRPC port of the scheduler; 0: any free port", base::Port());
  schema.Field("rewards_port", &o.rewards_port,
               "gRPC port of the reward stage, if it is a separate role; 0: any free port", base::Port());
  schema.Field("rewards_role", &o.rewards_role,
               "true: the reward stage is a separate process; false: it runs in the scheduler's process");
  schema.Field("gateway_port", &o.gateway_port,
               "gRPC port of the first gateway (its HTTP port is http.port); gateway i uses port + i; 0: any free port",
               base::Port());
  schema.Field("rollout_port", &o.rollout_port,
               "gRPC port of the first engine; engine i uses port + i; 0: any free port", base::Port());
  schema.Field("rollout_engines", &o.rollout_engines, "number of rollout engines; each is a process", base::Positive());
  schema.Field("datapools", &o.datapools,
               "number of processes that serve the data pool; each serves all roles; more than 1 needs "
               "datapool.backend postgres",
               base::InRange(1, 64));
  schema.Field("gateways", &o.gateways,
               "number of gateways; each is a process and can serve any episode; all share one address",
               base::InRange(1, 64));
  schema.Field("trainer_ranks", &o.trainer_ranks,
               "number of trainer processes that train each batch together (data parallel), with `ingot launch`",
               base::InRange(1, 128));
  schema.Field("min_trainer_ranks", &o.min_trainer_ranks,
               "minimum number of ranks to continue with: the run drops a rank that dies more than max_restarts times "
               "and resumes from the last checkpoint; equal to trainer_ranks: the run fails instead",
               base::Positive());
  schema.Field("trainer_port", &o.trainer_port,
               "port where the trainer's ranks connect to each other; 0: `ingot launch` chooses a free port",
               base::Port());
  schema.Field("trainer_host", &o.trainer_host,
               "host where the trainer's ranks connect to each other; empty: rank 0's host, which other nodes find in "
               "the registry");
  schema.Field("takeover_s", &o.takeover_s,
               "seconds after a node's agent disappears until its roles, except engines and trainer, move to the node "
               "that drives the run; 0: they never move",
               base::InRange(0, 86400));
  schema.Field("takeover_engines", &o.takeover_engines,
               "maximum number of engines that each node with engines takes over from dead nodes, takeover_s after "
               "they died; 0: engines are not taken over",
               base::InRange(0, 1024));
  schema.Field("rank_deadline_s", &o.rank_deadline_s,
               "seconds without a heartbeat after which a trainer rank counts as dead, and all ranks restart from the "
               "last checkpoint; slow steps do not count",
               base::Positive());
  schema.Field("trainer_stop_s", &o.trainer_stop_s,
               "seconds that a stopped trainer gets to finish its step and save its weights", base::LeftOpen(0, 86400));
  schema.Field("drain_s", &o.drain_s,
               "seconds that a stopping engine gets to finish its calls; new calls go to other engines immediately",
               base::InRange(0, 86400));
  schema.Choice("placement", &o.placement, {"split", "shared"},
                "split: trainer and engines compute at the same time; shared: they take turns: during a step, engines "
                "are parked, which frees their KV caches, and calls wait");
  schema.Field("park_timeout_s", &o.park_timeout_s,
               "seconds that an engine gets to finish its forward pass before a step, with placement shared",
               base::LeftOpen(0, 86400));
  schema.Field("max_restarts", &o.max_restarts,
               "maximum number of restarts of a crashed role or trainer rank; resets after it has run for an hour");
  schema.Field("token_file", &o.token_file,
               "file with the token that authenticates RPCs between roles, for roles and commands that you start "
               "yourself; must be the same on every machine and readable only by its owner; empty: `ingot launch` "
               "creates a token for each start");
  schema.Field("tls.certificate", &o.tls_certificate,
               "PEM file with the certificate for cluster.host, for TLS between roles; empty: no TLS");
  schema.Field("tls.key", &o.tls_key, "PEM file of the certificate's private key");
  schema.Field("tls.ca", &o.tls_ca,
               "PEM file with the certificate authorities that sign the roles' certificates; empty: "
               "cluster.tls.certificate itself");
  schema.Field("tls.mutual", &o.mutual_tls, "true: callers must also present a certificate that cluster.tls.ca signed");
  schema.Field("tls.name", &o.tls_name, "host name in every role's certificate; empty: the role's cluster.host");
  schema.Field(
      "tls.allow_plaintext", &o.allow_plaintext,
      "allow roles to listen without TLS at an address that other machines can reach; only for private networks");
}

// Role addresses are HOST:PORT, and the ranks use IPv4 sockets.
absl::Status CheckHost(const char* key, const std::string& host) {
  if (host.find(':') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      key, " is '", host,
      "', but roles cannot listen at IPv6 addresses: set it to an IPv4 address or a host name, without a port"));
}

absl::Status CheckRegistry(const RegistryConfig& registry) {
  const bool etcd = registry.kind == RegistryKind::kEtcd;
  if (etcd && registry.endpoints.empty()) {
    return absl::InvalidArgumentError(
        "cluster.registry.kind is etcd: cluster.registry.endpoints must name its members");
  }
  if (!etcd && !(registry.endpoints.empty() && registry.user.empty() && registry.ca.empty())) {
    return absl::InvalidArgumentError(
        "cluster.registry.endpoints, user, and ca need cluster.registry.kind etcd, but it is local: remove them, or "
        "set the kind to etcd");
  }
  if (registry.user.empty() != registry.password_file.empty()) {
    return absl::InvalidArgumentError("cluster.registry: set both user and password_file, or neither");
  }
  if (etcd && registry.ttl_s < 6) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.registry.ttl_s is ", registry.ttl_s, ": it must be in [6, 3600] with etcd"));
  }
  return absl::OkStatus();
}

}  // namespace

void Bind(base::Schema& schema, RegistryConfig& o) {
  schema.Choice("kind", &o.kind, {"local", "etcd"},
                "where roles find each other: local = the folder RUN/registry, for roles on one machine; etcd = an "
                "etcd v3 cluster, for several machines");
  schema.Field("endpoints", &o.endpoints, "HOST:PORT of etcd's members");
  schema.Field("user", &o.user, "etcd's user; empty: none");
  schema.Field("password_file", &o.password_file, "file with the user's password");
  schema.Field("ca", &o.ca, "PEM file with the certificate authority of etcd's members; empty: no TLS");
  schema.Field("certificate", &o.certificate, "PEM file with a client certificate for etcd; empty: none");
  schema.Field("key", &o.key, "PEM file of that certificate's key");
  schema.Field("ttl_s", &o.ttl_s,
               "seconds without a heartbeat after which a process's entry expires; at least 6 with etcd",
               base::InRange(2, 3600));
}

void Bind(base::Schema& schema, NodeGroup& o) {
  schema.Field("name", &o.name, "name of the group, for `ingot node --group`");
  schema.Field("nodes", &o.nodes, "number of nodes; must be 1 for a group with rewards, scheduler, or agents",
               base::Positive());
  schema.Field("roles", &o.roles,
               "roles of each node: datapool, rewards (with cluster.rewards_role), scheduler, rollout, gateway, "
               "trainer, agents");
  schema.Field("engines", &o.engines, "rollout engines of each node, if rollout is among the roles", base::Positive());
  schema.Field("slurm", &o.slurm,
               "sbatch options for these nodes, such as --gres=gpu:8; any option makes the job heterogeneous");
  schema.Field("resources", &o.resources,
               "resources of each node, such as {cpu: 8, memory: 64Gi, nvidia.com/gpu: 8}: requested for its pod on "
               "Kubernetes, or from Slurm");
}

void Bind(base::Schema& schema, KubernetesOptions& o) {
  schema.Field("namespace", &o.name_space, "namespace of the run's objects");
  schema.Field("image", &o.image, "Ingot's container image, for every pod");
  schema.Field("volume_claim", &o.volume_claim,
               "PersistentVolumeClaim that all pods can write to (ReadWriteMany), mounted at run.root");
  schema.Field("token_secret", &o.token_secret, "Secret whose key `token` is the run's token");
  schema.Field("tls_secret", &o.tls_secret,
               "Secret with tls.crt, tls.key, and ca.crt for TLS between roles; empty: no TLS");
  schema.Field("pull_secret", &o.pull_secret, "image pull Secret; empty: none");
  schema.Field("env", &o.env, "environment variables of every pod, from Secrets, such as {PGPASSWORD: pool/password}");
  schema.Field("queue", &o.queue, "Kueue queue that admits the run; empty: none");
  schema.Field("jobset", &o.jobset, "true: wrap the trainer's Job in a JobSet");
}

void Bind(base::Schema& schema, ClusterOptions& o) {
  BindRoles(schema, o);
  schema.Section("registry", o.registry);
  schema.Choice("launcher", &o.launcher, {"local", "slurm", "kubernetes"},
                "what starts the run's nodes: local = every role on this machine; slurm = a job with the nodes in "
                "cluster.groups; kubernetes = pods for the nodes in cluster.groups");
  schema.List("groups", &o.groups, "groups of nodes that run the same roles; empty: one node runs all");
  schema.Field("slurm", &o.slurm, "sbatch options for all nodes, such as --time=12:00:00");
  schema.Section("kubernetes", o.kubernetes);
}

absl::Status ClusterOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(*this), "cluster"));
  INGOT_RETURN_IF_ERROR(CheckHost("cluster.host", host));
  INGOT_RETURN_IF_ERROR(CheckHost("cluster.trainer_host", trainer_host));
  if (min_trainer_ranks > trainer_ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.min_trainer_ranks must be in [1, ", trainer_ranks, "], cluster.trainer_ranks"));
  }
  if (tls_certificate.empty() != tls_key.empty()) {
    return absl::InvalidArgumentError("cluster.tls: set both certificate and key, or neither");
  }
  if (tls_certificate.empty() && !tls_ca.empty()) {
    return absl::InvalidArgumentError(
        "cluster.tls.ca has no effect without cluster.tls.certificate and cluster.tls.key");
  }
  if (tls_certificate.empty() && (mutual_tls || !tls_name.empty())) {
    return absl::InvalidArgumentError(
        "cluster.tls.mutual and cluster.tls.name have no effect without cluster.tls.certificate and cluster.tls.key");
  }
  if (takeover_engines > 0 && takeover_s == 0) {
    return absl::InvalidArgumentError("cluster.takeover_engines has no effect without cluster.takeover_s");
  }
  return CheckRegistry(registry);
}

}  // namespace ingot::app
