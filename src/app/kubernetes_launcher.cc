#include "app/kubernetes_launcher.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "app/kubernetes.h"

namespace ingot::app {

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
  return absl::StrCat("its pods' logs and ", config_.root, "/", config_.name, "/logs may tell why");
}

// The Job's conditions; while the run is being stopped, its pods.
absl::StatusOr<JobLauncher::State> KubernetesLauncher::Look() {
  if (stopping_) {
    const std::string selector = absl::StrCat("app.kubernetes.io/name=ingot,app.kubernetes.io/instance=", config_.name);
    INGOT_ASSIGN_OR_RETURN(const std::string pods,
                           Kubectl({"get", "pods", "--selector", selector, "--output", "name"}));
    return State{pods.empty() ? "" : "being stopped", pods.empty(), code_};
  }
  // "Complete=True Failed=False", or nothing yet
  INGOT_ASSIGN_OR_RETURN(const std::string conditions,
                         Kubectl({"get", "job", job_, "--ignore-not-found", "--output",
                                  R"(jsonpath={range .status.conditions[*]}{.type}={.status} {end}{.status.ready})"}));
  State state;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(conditions, ' ', absl::SkipEmpty()))) {
    if (word == "Complete=True" || word == "Failed=True") code_ = word == "Complete=True" ? 0 : 1;
    if (int ready = 0; absl::SimpleAtoi(word, &ready)) state.text = ready > 0 ? "running" : "starting";
  }
  if (!code_.has_value()) return state;
  // The other pods serve nobody any more. The Job goes with them: its end is known, and logs are in the run's folder.
  state.text = *code_ == 0 ? "complete" : "failed";
  INGOT_RETURN_IF_ERROR(Stop());
  return state;
}

}  // namespace ingot::app
