#include "app/cluster/launchers/kubernetes_launcher.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "app/cluster/launchers/kubernetes.h"
#include "base/json.h"

namespace ingot::app {
namespace {

namespace json = base::json;

const json::array& ArrayAt(const json::value& value, std::string_view key) {
  static const json::array none;
  const json::value* const found = base::Find(value, key);
  return found != nullptr && found->is_array() ? found->get_array() : none;
}

std::string TextAt(const json::value& value, std::string_view key) {
  const json::value* const found = base::Find(value, key);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

// Returns a string such as "Unschedulable: 0/3 nodes are available" from an object with `reason` and `message`.
std::string ReasonAt(const json::value& value) {
  const std::string message = TextAt(value, "message");
  return absl::StrCat(TextAt(value, "reason"), message.empty() ? "" : ": ", message);
}

// Returns why a pod is not running; empty = it is running or has ended.
std::string WaitOfPod(const json::value& pod) {
  const json::value* const status = base::Find(pod, "status");
  if (status == nullptr) return "";
  for (const json::value& condition : ArrayAt(*status, "conditions")) {
    if (TextAt(condition, "type") == "PodScheduled" && TextAt(condition, "status") == "False")
      return ReasonAt(condition);
  }
  // An init container blocks the others, which only report that they are waiting for it.
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const json::value& container : ArrayAt(*status, list)) {
      const json::value* const state = base::Find(container, "state");
      const json::value* const waiting = state == nullptr ? nullptr : base::Find(*state, "waiting");
      if (waiting != nullptr) return ReasonAt(*waiting);
    }
  }
  return "";
}

// Returns "pods a, b: Unschedulable: 0/3 nodes are available; pod c: ImagePullBackOff: ..."; empty = all are running.
// `pods` is a list from Kubernetes.
std::string WaitsOfPods(const json::value& pods) {
  std::vector<std::pair<std::string, std::vector<std::string>>> waits;  // causes with their pods, in list order
  for (const json::value& pod : ArrayAt(pods, "items")) {
    const std::string cause = WaitOfPod(pod);
    if (cause.empty()) continue;
    auto wait = std::find_if(waits.begin(), waits.end(), [&](const auto& one) { return one.first == cause; });
    if (wait == waits.end()) {
      waits.emplace_back(cause, std::vector<std::string>());
      wait = std::prev(waits.end());
    }
    const json::value* const metadata = base::Find(pod, "metadata");
    wait->second.push_back(metadata == nullptr ? "" : TextAt(*metadata, "name"));
  }
  std::string text;
  for (const auto& [cause, names] : waits) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", names.size() > 1 ? "pods " : "pod ", absl::StrJoin(names, ", "),
                    ": ", cause);
  }
  return text;
}

}  // namespace

KubernetesLauncher::KubernetesLauncher(const RunConfig& config, std::string text, std::string file, JobOptions options)
    : JobLauncher(std::move(options)),
      config_(config),
      text_(std::move(text)),
      file_(std::move(file)),
      job_(DecidingJob(config)) {}

absl::StatusOr<std::string> KubernetesLauncher::Plan() const {
  INGOT_ASSIGN_OR_RETURN(const auto objects, RenderKubernetes(config_, text_));
  return PrintYaml(objects);
}

absl::StatusOr<std::string> KubernetesLauncher::Kubectl(std::vector<std::string> argv) const {
  argv.insert(argv.begin(), {"kubectl", "--namespace", config_.cluster.kubernetes.name_space});
  return Run(argv);
}

absl::Status KubernetesLauncher::Start() {
  const absl::Status applied = Kubectl({"apply", "--filename", file_}).status();
  if (!applied.ok()) (void)Stop();
  return applied;
}

absl::Status KubernetesLauncher::Stop() {
  stopping_ = true;
  return Kubectl({"delete", "--filename", file_, "--ignore-not-found", "--wait=false"}).status();
}

std::string KubernetesLauncher::Advice() const {
  return absl::StrCat("its pods' logs and ", config_.root, "/", config_.name, "/logs may show the cause");
}

std::string KubernetesLauncher::Selector() const {
  return absl::StrCat("app.kubernetes.io/name=ingot,app.kubernetes.io/instance=", config_.name);
}

absl::StatusOr<std::string> KubernetesLauncher::Present() {
  INGOT_ASSIGN_OR_RETURN(const std::string names,
                         Kubectl({"get", "configmaps,jobs,pods", "--selector", Selector(), "--output", "name"}));
  if (names.empty()) return std::string();
  INGOT_ASSIGN_OR_RETURN(const State state, PollJob());
  const std::string& space = config_.cluster.kubernetes.name_space;
  return absl::StrCat(Describe(), " is ", state.text, ", and the namespace ", space, " holds ",
                      absl::StrJoin(absl::StrSplit(names, '\n', absl::SkipEmpty()), ", "), "; `kubectl --namespace ",
                      space, " delete --filename ", file_, "` ends it");
}

absl::StatusOr<JobLauncher::State> KubernetesLauncher::PollJob() {
  // such as "Complete=True Failed=False 1", or initially empty
  INGOT_ASSIGN_OR_RETURN(const std::string conditions,
                         Kubectl({"get", "job", job_, "--ignore-not-found", "--output",
                                  R"(jsonpath={range .status.conditions[*]}{.type}={.status} {end}{.status.ready})"}));
  State state{"starting", false, std::nullopt};
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(conditions, ' ', absl::SkipEmpty()))) {
    if (word == "Complete=True" || word == "Failed=True") code_ = word == "Complete=True" ? 0 : 1;
    if (word == "Suspended=True") state.text = "suspended until its queue admits it";
    if (int ready = 0; absl::SimpleAtoi(word, &ready) && ready > 0) state.text = "running";
  }
  if (code_.has_value()) return State{*code_ == 0 ? "complete" : "failed", false, code_};
  INGOT_ASSIGN_OR_RETURN(const std::string listed,
                         Kubectl({"get", "pods", "--selector", Selector(), "--output", "json"}));
  INGOT_ASSIGN_OR_RETURN(const json::value pods, base::ParseJson(listed));
  if (const std::string waits = WaitsOfPods(pods); !waits.empty()) absl::StrAppend(&state.text, " (", waits, ")");
  return state;
}

// Looks at the Job and its pods, or only at the pods while the run is being stopped.
absl::StatusOr<JobLauncher::State> KubernetesLauncher::Poll() {
  if (stopping_) {
    INGOT_ASSIGN_OR_RETURN(const std::string pods,
                           Kubectl({"get", "pods", "--selector", Selector(), "--output", "name"}));
    return State{pods.empty() ? "" : "being stopped", pods.empty(), code_};
  }
  INGOT_ASSIGN_OR_RETURN(State state, PollJob());
  // The other pods have no more clients. The Job is deleted with them. Its result is known, and the logs are in the
  // run's folder.
  if (code_.has_value()) INGOT_RETURN_IF_ERROR(Stop());
  return state;
}

}  // namespace ingot::app
