#include "app/run/cluster_options.h"

#include "base/config.h"

namespace ingot::app {
namespace {

void BindRoles(base::Schema& schema, ClusterOptions& o) {
  schema.Field("host", &o.host,
               "address at which this machine's roles listen and other roles reach them; auto: the machine's name");
  schema.Field(
      "datapool_port", &o.datapool_port,
      "gRPC port of the data pool; process i of it: this + i; 0: free ones, which the other roles learn from the "
      "registry",
      base::Port());
  schema.Field("scheduler_port", &o.scheduler_port, "gRPC port of the scheduler; 0: a free one", base::Port());
  schema.Field("rewards_port", &o.rewards_port,
               "gRPC port of the reward stage, if it is a separate role; 0: a free one", base::Port());
  schema.Field("rewards_role", &o.rewards_role,
               "true: the reward stage is a separate process; false: it runs in the scheduler's");
  schema.Field("gateway_port", &o.gateway_port,
               "gRPC port of the first gateway (HTTP: http.port); gateway i: this + i; 0: free ones", base::Port());
  schema.Field("rollout_port", &o.rollout_port, "gRPC port of the first engine; engine i: this + i; 0: free ones",
               base::Port());
  schema.Field("rollout_engines", &o.rollout_engines, "rollout engines, each a process", base::Positive());
  schema.Field("datapools", &o.datapools,
               "processes that serve the data pool, each to all roles; more than 1 only with datapool.backend "
               "postgres",
               base::InRange(1, 64));
  schema.Field("gateways", &o.gateways,
               "gateways, each a process; any of them answers for all episodes, behind one address",
               base::InRange(1, 64));
  schema.Field("trainer_ranks", &o.trainer_ranks,
               "processes of `ingot launch` that train each batch together, data parallel; 1: one trainer",
               base::InRange(1, 128));
  schema.Field(
      "min_trainer_ranks", &o.min_trainer_ranks,
      "least number of ranks: a rank that dies more than max_restarts times is lost, and the run resumes from the "
      "last checkpoint without it; equal to trainer_ranks: the run fails instead",
      base::Positive());
  schema.Field("trainer_port", &o.trainer_port,
               "port where the trainer's ranks meet, if there are several; 0: "
               "`ingot launch` finds a free one",
               base::Port());
  schema.Field("trainer_host", &o.trainer_host,
               "host where the trainer's ranks meet; empty: rank 0's own, "
               "which the other nodes learn from the registry");
  schema.Field(
      "takeover_s", &o.takeover_s,
      "seconds without a node's agent after which its roles, except engines and trainer, move to the node that "
      "drives the run; 0: they do not",
      base::InRange(0, 86400));
  schema.Field("takeover_engines", &o.takeover_engines,
               "most engines of dead nodes that each node with engines runs in addition to its own, takeover_s after "
               "their nodes died; 0: they stay missing",
               base::InRange(0, 1024));
  schema.Field("rank_deadline_s", &o.rank_deadline_s,
               "seconds without a sign of life (not: without progress) after which a rank of the trainer counts as "
               "dead, and all are started again from the last checkpoint",
               base::Positive());
  schema.Field("trainer_stop_s", &o.trainer_stop_s,
               "seconds for the trainer of a stopped run to end its step and save its weights",
               base::LeftOpen(0, 86400));
  schema.Field("drain_s", &o.drain_s,
               "seconds for an engine that stops to finish its calls; new calls go to other engines at once",
               base::InRange(0, 86400));
  schema.Field(
      "max_restarts", &o.max_restarts,
      "restarts of a crashed role (or rank of the trainer); after an hour of running, earlier ones do not count");
  schema.Field(
      "token_file", &o.token_file,
      "file with the token that every rpc between roles carries, the same on every machine, readable only by its "
      "owner: for roles and commands started by hand; empty: `ingot launch` makes one for each start");
  schema.Field("tls.certificate", &o.tls_certificate,
               "PEM file: rpcs between roles are TLS, with this certificate for cluster.host; empty: plain text");
  schema.Field("tls.key", &o.tls_key, "PEM file of the certificate's private key");
  schema.Field("tls.ca", &o.tls_ca,
               "PEM file that roles verify each other's certificate against; empty: cluster.tls.certificate itself");
  schema.Field("tls.mutual", &o.mutual_tls,
               "true: callers show a certificate too, and roles reject peers without one that cluster.tls.ca signed");
  schema.Field("tls.name", &o.tls_name,
               "name that the certificate of every role carries; empty: each one's cluster.host");
  schema.Field("tls.allow_plaintext", &o.allow_plaintext,
               "allows a cluster.host that other machines reach without TLS: for private networks");
}

// Role addresses are HOST:PORT, and the ranks use IPv4 sockets.
absl::Status CheckHost(const char* key, const std::string& host) {
  if (host.find(':') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      key, " is '", host,
      "', and roles do not listen at IPv6 addresses: give an IPv4 address or a host name, without a port"));
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
  if (etcd && registry.ttl_s < 6) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.registry.ttl_s is ", registry.ttl_s, ": it must be in [6, 3600] with etcd"));
  }
  return absl::OkStatus();
}

}  // namespace

void Bind(base::Schema& schema, RegistryConfig& o) {
  schema.Choice(
      "kind", &o.kind, {"local", "etcd"},
      "where roles find each other: local = the folder RUN/registry, for roles on one machine; etcd = an etcd "
      "v3 cluster, for roles on several");
  schema.Field("endpoints", &o.endpoints, "HOST:PORT of etcd's members");
  schema.Field("user", &o.user, "etcd's user; empty: none");
  schema.Field("password_file", &o.password_file, "file with the user's password");
  schema.Field("ca", &o.ca, "PEM file that etcd's members are verified against; empty: plain text");
  schema.Field("certificate", &o.certificate, "PEM file of a certificate that etcd asks of clients; empty: none");
  schema.Field("key", &o.key, "PEM file of that certificate's key");
  schema.Field("ttl_s", &o.ttl_s, "seconds of silence after which a process's entry goes; etcd: 6 or more",
               base::InRange(2, 3600));
}

void Bind(base::Schema& schema, NodeGroup& o) {
  schema.Field("name", &o.name, "name of the group, for `ingot node --group`");
  schema.Field("nodes", &o.nodes, "number of nodes; more than 1 not for rewards, scheduler and agents",
               base::Positive());
  schema.Field("roles", &o.roles,
               "roles of each node: datapool, rewards (of cluster.rewards_role), scheduler, rollout, gateway, trainer, "
               "agents");
  schema.Field("engines", &o.engines, "rollout engines of each node, if rollout is among the roles", base::Positive());
  schema.Field("slurm", &o.slurm,
               "options of sbatch for these nodes, e.g. --gres=gpu:8; with any the job is heterogeneous");
  schema.Field("resources", &o.resources,
               "of one node, such as {cpu: 8, memory: 64Gi, nvidia.com/gpu: 8}: Kubernetes gives them to its pod, and "
               "Slurm is asked for them");
}

void Bind(base::Schema& schema, KubernetesOptions& o) {
  schema.Field("namespace", &o.name_space, "namespace of the run's objects");
  schema.Field("image", &o.image, "image of Ingot, for every pod");
  schema.Field("volume_claim", &o.volume_claim,
               "PersistentVolumeClaim that all pods may write; it is mounted at run.root");
  schema.Field("token_secret", &o.token_secret, "Secret whose key `token` is the run's token");
  schema.Field("tls_secret", &o.tls_secret,
               "Secret with tls.crt, tls.key and ca.crt for rpcs between roles; empty: none");
  schema.Field("pull_secret", &o.pull_secret, "Secret for the image's registry; empty: none");
  schema.Field("env", &o.env, "variables of every pod that are keys of Secrets, such as {PGPASSWORD: pool/password}");
  schema.Field("queue", &o.queue, "queue of Kueue that admits the run; empty: none");
  schema.Field("jobset", &o.jobset, "true: wrap the trainer's Job in a JobSet");
}

void Bind(base::Schema& schema, ClusterOptions& o) {
  BindRoles(schema, o);
  schema.Section("registry", o.registry);
  schema.Choice("launcher", &o.launcher, {"local", "slurm", "kubernetes"},
                "who starts the run's nodes: local = every role on this machine; slurm = a job of cluster.groups; "
                "kubernetes = pods of cluster.groups");
  schema.List("groups", &o.groups, "groups of nodes that run the same roles; empty: one node runs all");
  schema.Field("slurm", &o.slurm, "options of sbatch for all nodes, e.g. --time=12:00:00");
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
    return absl::InvalidArgumentError("cluster.tls: a certificate needs its key, and a key its certificate");
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
