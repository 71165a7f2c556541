#include "app/cluster/launchers/kubernetes.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "app/cluster/run_roles.h"

namespace ingot::app {
namespace {

namespace json = base::json;
using json::array;
using json::object;

constexpr char kGatewayLabel[] = "ingot/gateway";  // set on pods with a gateway
constexpr char kConfig[] = "/etc/ingot/run.yaml", kSecrets[] = "/run/ingot";

bool Has(const NodeGroup& group, std::string_view role) {
  return std::find(group.roles.begin(), group.roles.end(), role) != group.roles.end();
}

// Returns whether the group has a single pod without any state. A pod's name counts as state, and one of several
// gateways has a numbered name.
bool KeepsNothing(const NodeGroup& group) {
  return group.nodes == 1 && std::all_of(group.roles.begin(), group.roles.end(),
                                         [](const std::string& role) { return role == "gateway" || role == "agents"; });
}

// Returns whether `name` is a DNS label, as Kubernetes requires for object and pod names.
bool IsLabel(const std::string& name, size_t most) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= most && letter(name.front()) && letter(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || c == '-'; });
}

// Returns whether agents reach the gateways through one of the run's Services, because there are several gateways or
// the gateway is in another pod.
bool NeedsService(const RunConfig& config) {
  return (config.cluster.gateways > 1 || AgentsApart(config)) && config.gateway.public_url.empty();
}

absl::Status Check(const RunConfig& config) {
  const ClusterOptions& cluster = config.cluster;
  const KubernetesOptions& options = cluster.kubernetes;
  const auto reject = [](const auto&... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (!IsLabel(config.name, 30)) {
    return reject(
        "run.name '", config.name,
        "' becomes part of the names of Kubernetes objects: use up to 30 of a-z, 0-9, and '-', such as my-run-1");
  }
  if (cluster.groups.empty())
    return reject("cluster.launcher is kubernetes: cluster.groups must list which pods run which roles");
  if (cluster.registry.kind != RegistryKind::kEtcd) {
    return reject(
        "cluster.launcher is kubernetes: pods find each other in etcd; set cluster.registry.kind=etcd and endpoints");
  }
  if (options.image.empty())
    return reject("cluster.kubernetes.image is empty: name a container image of Ingot (docker/)");
  if (options.volume_claim.empty()) {
    return reject(
        "cluster.kubernetes.volume_claim is empty: name a PersistentVolumeClaim (ReadWriteMany) for run.root");
  }
  if (options.token_secret.empty()) {
    return reject(
        "cluster.kubernetes.token_secret is empty: create a Secret (`kubectl create secret generic NAME "
        "--from-literal=token=$(openssl rand -hex 32)`) and name it");
  }
  if (options.tls_secret.empty() && !cluster.allow_plaintext) {
    return reject(
        "pods communicate over the cluster's network: name a Secret with tls.crt, tls.key, and ca.crt in "
        "cluster.kubernetes.tls_secret, or set cluster.tls.allow_plaintext if that network is private");
  }
  if (config.root.empty() || config.root.front() != '/') {
    return reject("run.root '", config.root, "' must be an absolute path: the volume is mounted there");
  }
  for (const auto& [variable, source] : options.env) {
    if (std::count(source.begin(), source.end(), '/') == 1) continue;
    return reject("cluster.kubernetes.env: ", variable, " is '", source, "': SECRET/KEY is expected");
  }
  if (NeedsService(config)) {
    const bool one = cluster.gateways == 1;
    if (config.http.port == 0 || IsLoopback(config.http.host)) {
      return reject(
          one ? "cluster.groups has agents and gateway in different pods"
              : absl::StrCat("cluster.gateways is ", cluster.gateways),
          ": a Service is in front of ", one ? "the gateway" : "them",
          ", and needs http.port and http.host=0.0.0.0; or set gateway.public_url to your own address for agents");
    }
    if (config.http.tls_certificate.empty() && !config.http.allow_plaintext) {
      return reject(
          "agents reach the gateway over the cluster's network: set gateway.tls.certificate and key, or set "
          "gateway.tls.allow_plaintext if that network is private");
    }
  }
  for (const NodeGroup& group : cluster.groups) {
    if (!IsLabel(group.name, 20)) {
      return reject("cluster.groups ('", group.name,
                    "'): its name becomes part of pods' names: use up to 20 of a-z, 0-9, and '-'");
    }
    for (const char* resource : {"cpu", "memory"}) {
      if (group.resources.contains(resource)) continue;
      return reject("cluster.groups ('", group.name, "'): resources must specify how much ", resource,
                    " a pod needs, such as {cpu: 4, memory: 16Gi}");
    }
  }
  return CheckGroups(config);
}

class Renderer {
 public:
  Renderer(const RunConfig& config, const std::string& text)
      : config_(config), cluster_(config.cluster), options_(config.cluster.kubernetes), text_(text) {}

  std::vector<object> Render() const {
    std::vector<object> objects = {ConfigMap(), Headless()};
    if (NeedsService(config_)) objects.push_back(LoadBalancer());
    for (const NodeGroup& group : cluster_.groups) {
      if (Has(group, "trainer") || Has(group, "datapool")) objects.push_back(Budget(group));
    }
    for (const NodeGroup& group : cluster_.groups) objects.push_back(Workload(group));
    return objects;
  }

 private:
  std::string Name() const { return "ingot-" + config_.name; }
  std::string Name(const NodeGroup& group) const { return absl::StrCat(Name(), "-", group.name); }

  object Labels() const { return {{"app.kubernetes.io/name", "ingot"}, {"app.kubernetes.io/instance", config_.name}}; }
  object Labels(const NodeGroup& group) const {
    object labels = Labels();
    labels["app.kubernetes.io/component"] = group.name;
    return labels;
  }

  object Metadata(const std::string& name, object labels) const {
    return {{"name", name}, {"namespace", options_.name_space}, {"labels", std::move(labels)}};
  }
  // Labels for an object whose pods are admitted by Kueue.
  object Queued(const NodeGroup& group) const {
    object labels = Labels(group);
    if (!options_.queue.empty()) labels["kueue.x-k8s.io/queue-name"] = options_.queue;
    return Metadata(Name(group), std::move(labels));
  }

  object ConfigMap() const {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", Metadata(Name(), Labels())},
            {"data", object{{"run.yaml", text_}}}};
  }

  // Pods have DNS names before they are ready, so they can start in any order.
  object Headless() const {
    return {{"apiVersion", "v1"},
            {"kind", "Service"},
            {"metadata", Metadata(Name(), Labels())},
            {"spec", object{{"clusterIP", "None"}, {"publishNotReadyAddresses", true}, {"selector", Labels()}}}};
  }

  // The address for agents. If there are several gateways, one that is not ready gets no connections, because any other
  // can serve all episodes. A single gateway gets connections as soon as it listens, because its runner opens episodes
  // before a probe finds it ready.
  object LoadBalancer() const {
    object labels = Labels();
    labels[kGatewayLabel] = "true";
    array ports = {object{{"name", "http"}, {"port", config_.http.port}, {"targetPort", config_.http.port}}};
    return {{"apiVersion", "v1"},
            {"kind", "Service"},
            {"metadata", Metadata(Name() + "-lb", Labels())},
            {"spec", object{{"publishNotReadyAddresses", cluster_.gateways == 1},
                            {"selector", std::move(labels)},
                            {"ports", std::move(ports)}}}};
  }
  std::string LoadBalancerUrl() const {
    return absl::StrCat(config_.http.tls_certificate.empty() ? "http" : "https", "://", Name(), "-lb.",
                        options_.name_space, ":", config_.http.port);
  }

  // If there are several pool processes, one at a time may be evicted, because the others can serve its requests.
  object Budget(const NodeGroup& group) const {
    const bool pools =
        std::all_of(group.roles.begin(), group.roles.end(), [](const auto& role) { return role == "datapool"; });
    return {{"apiVersion", "policy/v1"},
            {"kind", "PodDisruptionBudget"},
            {"metadata", Metadata(Name(group), Labels(group))},
            {"spec", object{{"maxUnavailable", pools && group.nodes > 1 ? 1 : 0},
                            {"selector", object{{"matchLabels", Labels(group)}}}}}};
  }

  object Workload(const NodeGroup& group) const {
    if (Has(group, "trainer")) return options_.jobset ? JobSet(group) : Job(group);
    return KeepsNothing(group) ? Deployment(group) : StatefulSet(group);
  }

  object Job(const NodeGroup& group) const {
    return {{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", Queued(group)}, {"spec", JobSpec(group)}};
  }

  // An error in the configuration or the run would recur, so it ends the Job. An evicted pod does not count.
  object JobSpec(const NodeGroup& group) const {
    array rules;
    rules.push_back(
        object{{"action", "FailJob"}, {"onExitCodes", object{{"operator", "In"}, {"values", array{1, 2}}}}});
    rules.push_back(object{{"action", "Ignore"},
                           {"onPodConditions", array{object{{"type", "DisruptionTarget"}, {"status", "True"}}}}});
    return {{"completionMode", "Indexed"},
            {"completions", group.nodes},
            {"parallelism", group.nodes},
            {"backoffLimit", 1000},
            {"podFailurePolicy", object{{"rules", std::move(rules)}}},
            {"template", Template(group, "Never", "batch.kubernetes.io/job-completion-index")}};
  }

  // The JobSet restarts nothing, because the Job restarts its pods.
  object JobSet(const NodeGroup& group) const {
    array jobs;
    jobs.push_back(object{{"name", group.name}, {"replicas", 1}, {"template", object{{"spec", JobSpec(group)}}}});
    return {{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
            {"kind", "JobSet"},
            {"metadata", Queued(group)},
            {"spec", object{{"failurePolicy", object{{"maxRestarts", 0}}}, {"replicatedJobs", std::move(jobs)}}}};
  }

  object StatefulSet(const NodeGroup& group) const {
    return {{"apiVersion", "apps/v1"},
            {"kind", "StatefulSet"},
            {"metadata", Queued(group)},
            {"spec", object{{"serviceName", Name()},
                            {"podManagementPolicy", "Parallel"},
                            {"replicas", group.nodes},
                            {"selector", object{{"matchLabels", Labels(group)}}},
                            {"template", Template(group, "Always", "apps.kubernetes.io/pod-index")}}}};
  }

  // Only one pod at a time may run the group's roles, so the old pod stops before the new one starts.
  object Deployment(const NodeGroup& group) const {
    return {{"apiVersion", "apps/v1"},
            {"kind", "Deployment"},
            {"metadata", Queued(group)},
            {"spec", object{{"replicas", 1},
                            {"strategy", object{{"type", "Recreate"}}},
                            {"selector", object{{"matchLabels", Labels(group)}}},
                            {"template", Template(group, "Always", "")}}}};
  }

  // `index` is the label with a pod's index; empty = its index is 0.
  object Template(const NodeGroup& group, const char* restart, const std::string& index) const {
    object labels = Labels(group);
    if (!options_.queue.empty()) labels["kueue.x-k8s.io/queue-name"] = options_.queue;
    if (NeedsService(config_) && Has(group, "gateway")) labels[kGatewayLabel] = "true";
    object spec = {{"restartPolicy", restart},
                   {"subdomain", Name()},
                   {"automountServiceAccountToken", false},
                   {"terminationGracePeriodSeconds", Grace(group)},
                   {"securityContext", object{{"runAsNonRoot", true},
                                              {"runAsUser", 1000},
                                              {"runAsGroup", 1000},
                                              {"fsGroup", 1000},
                                              {"seccompProfile", object{{"type", "RuntimeDefault"}}}}},
                   {"initContainers", array{SecretsContainer()}},
                   {"containers", array{Container(group, index)}},
                   {"volumes", Volumes()}};
    if (!options_.pull_secret.empty()) spec["imagePullSecrets"] = array{object{{"name", options_.pull_secret}}};
    return {{"metadata", object{{"labels", std::move(labels)}}}, {"spec", std::move(spec)}};
  }

  // Returns the time for all waves of roles to stop (run_roles.cc), with some margin.
  int64_t Grace(const NodeGroup& group) const {
    const double agents = Has(group, "agents") ? config_.agents.stop_timeout_s + 15 : 0;
    const double trainer = Has(group, "trainer") ? cluster_.trainer_stop_s : 0;
    return static_cast<int64_t>(std::ceil(std::max(agents, trainer))) + 60;
  }

  static object Restricted() {
    return {{"allowPrivilegeEscalation", false}, {"capabilities", object{{"drop", array{"ALL"}}}}};
  }

  // Secrets are mounted readable by the pod's group, but Ingot requires owner-only files. This copies them to memory.
  object SecretsContainer() const {
    const std::string copy =
        absl::StrCat("umask 077 && for f in /mnt/*/*; do cat \"$f\" > ", kSecrets, "/$(basename \"$f\"); done");
    array mounts = {object{{"name", "secrets"}, {"mountPath", kSecrets}},
                    object{{"name", "token"}, {"mountPath", "/mnt/token"}, {"readOnly", true}}};
    if (!options_.tls_secret.empty()) {
      mounts.push_back(object{{"name", "tls"}, {"mountPath", "/mnt/tls"}, {"readOnly", true}});
    }
    const object small = {{"cpu", "100m"}, {"memory", "64Mi"}};
    return {{"name", "secrets"},
            {"image", options_.image},
            {"command", array{"/bin/sh", "-c", json::string(copy)}},
            {"resources", object{{"requests", small}, {"limits", small}}},
            {"securityContext", Restricted()},
            {"volumeMounts", std::move(mounts)}};
  }

  object Container(const NodeGroup& group, const std::string& index) const {
    // Kubernetes restarts a pod on another node, so roles do not move.
    array args = {"node",
                  kConfig,
                  "--group",
                  json::string(group.name),
                  "--resume",
                  "--set",
                  "cluster.takeover_s=0",
                  "--set",
                  "cluster.host=$(POD_IP)",
                  "--set",
                  json::string(absl::StrCat("cluster.token_file=", kSecrets, "/token"))};
    if (!options_.tls_secret.empty()) {
      for (const auto& [key, file] : {std::pair("certificate", "tls.crt"), {"key", "tls.key"}, {"ca", "ca.crt"}}) {
        args.push_back("--set");
        args.push_back(json::string(absl::StrCat("cluster.tls.", key, "=", kSecrets, "/", file)));
      }
    }
    if (NeedsService(config_)) {
      args.push_back("--set");
      args.push_back(json::string("gateway.public_url=" + LoadBalancerUrl()));
    }
    object resources;
    for (const auto& [resource, amount] : group.resources) resources[resource] = amount;
    array mounts = {object{{"name", "config"}, {"mountPath", "/etc/ingot"}, {"readOnly", true}},
                    object{{"name", "secrets"}, {"mountPath", kSecrets}, {"readOnly", true}},
                    object{{"name", "runs"}, {"mountPath", config_.root}},
                    object{{"name", "shm"}, {"mountPath", "/dev/shm"}}};
    return {{"name", "ingot"},
            {"image", options_.image},
            {"args", std::move(args)},
            {"env", Env(index)},
            {"resources", object{{"requests", resources}, {"limits", resources}}},
            {"securityContext", Restricted()},
            {"startupProbe", Probe(group, "alive", 5, 120)},
            {"livenessProbe", Probe(group, "alive", 10, 6)},
            {"readinessProbe", Probe(group, "ready", 10, 1)},
            {"volumeMounts", std::move(mounts)}};
  }

  array Env(const std::string& index) const {
    const auto field = [](const char* variable, const std::string& path) {
      return object{{"name", variable}, {"valueFrom", object{{"fieldRef", object{{"fieldPath", path}}}}}};
    };
    array env = {field("POD_IP", "status.podIP")};
    if (!index.empty()) env.push_back(field("INGOT_NODE", absl::StrCat("metadata.labels['", index, "']")));
    for (const auto& [variable, source] : options_.env) {
      const size_t slash = source.find('/');
      env.push_back(object{{"name", variable},
                           {"valueFrom", object{{"secretKeyRef", object{{"name", source.substr(0, slash)},
                                                                        {"key", source.substr(slash + 1)}}}}}});
    }
    return env;
  }

  // Queries this node's agent. alive = it answers, ready = all its roles are running.
  object Probe(const NodeGroup& group, const char* what, int period_s, int failures) const {
    return {{"exec", object{{"command",
                             array{"ingot", "node", kConfig, "--group", json::string(group.name), "--probe", what}}}},
            {"periodSeconds", period_s},
            {"timeoutSeconds", 10},
            {"failureThreshold", failures}};
  }

  array Volumes() const {
    array volumes = {object{{"name", "config"}, {"configMap", object{{"name", Name()}}}},
                     object{{"name", "runs"}, {"persistentVolumeClaim", object{{"claimName", options_.volume_claim}}}},
                     object{{"name", "secrets"}, {"emptyDir", object{{"medium", "Memory"}, {"sizeLimit", "1Mi"}}}},
                     object{{"name", "shm"}, {"emptyDir", object{{"medium", "Memory"}}}},
                     object{{"name", "token"},
                            {"secret", object{{"secretName", options_.token_secret},
                                              {"items", array{object{{"key", "token"}, {"path", "token"}}}}}}}};
    if (!options_.tls_secret.empty()) {
      volumes.push_back(object{{"name", "tls"}, {"secret", object{{"secretName", options_.tls_secret}}}});
    }
    return volumes;
  }

  const RunConfig& config_;
  const ClusterOptions& cluster_;
  const KubernetesOptions& options_;
  const std::string& text_;
};

// Quotes strings so that YAML does not read them as numbers, dates, or booleans.
void Emit(const json::value& value, YAML::Emitter& out) {
  switch (value.kind()) {
    case json::kind::object:
      out << YAML::BeginMap;
      for (const auto& [key, field] : value.get_object()) {
        out << YAML::Key << std::string(key) << YAML::Value;
        Emit(field, out);
      }
      out << YAML::EndMap;
      return;
    case json::kind::array:
      out << YAML::BeginSeq;
      for (const json::value& element : value.get_array()) Emit(element, out);
      out << YAML::EndSeq;
      return;
    case json::kind::string: {
      const std::string text(value.get_string());
      const bool lines = text.find('\n') != std::string::npos;
      out << (lines ? YAML::Literal : YAML::DoubleQuoted) << text;
      return;
    }
    case json::kind::bool_:
      out << value.get_bool();
      return;
    default:
      out << value.to_number<int64_t>();
  }
}

}  // namespace

absl::StatusOr<std::vector<json::object>> RenderKubernetes(const RunConfig& config, const std::string& text) {
  INGOT_RETURN_IF_ERROR(Check(config));
  return Renderer(config, text).Render();
}

std::string PrintYaml(const std::vector<json::object>& objects) {
  std::string text;
  for (const json::object& one : objects) {
    YAML::Emitter out;
    Emit(one, out);
    absl::StrAppend(&text, "---\n", out.c_str(), "\n");
  }
  return text;
}

std::string DecidingJob(const RunConfig& config) {
  const std::vector<NodeGroup>& groups = config.cluster.groups;
  const auto deciding =
      std::find_if(groups.begin(), groups.end(), [](const auto& group) { return Has(group, "trainer"); });
  const std::string name = absl::StrCat("ingot-", config.name, "-", deciding->name);
  return config.cluster.kubernetes.jobset ? absl::StrCat(name, "-", deciding->name, "-0") : name;
}

}  // namespace ingot::app
