#include "app/roles/agents_substrate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "agents/recipe.h"
#include "app/roles/hidden_paths.h"
#include "base/log.h"
#include "dataset/harbor.h"
#include "reward/terms/python_score.h"
#include "sandbox/reach.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

std::string CurrentFolder() {
  std::error_code error;
  return fs::current_path(error).string();
}

// Returns whether `inner` equals `outer` or is inside it. Both must be absolute.
bool IsWithin(const std::string& inner, const std::string& outer) {
  const fs::path relative = fs::path(inner).lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

// Returns the folder with all runs, so that agents cannot see other runs either. If that folder contains files that
// agents need, returns only the run's own folder. `images` is the image store; empty = none.
absl::StatusOr<std::string> HiddenFolder(const RunConfig& config, const RunDir& dir,
                                         const std::vector<sandbox::Program>& programs, const std::string& images) {
  const std::string runs = AbsolutePath(config.root), run = AbsolutePath(dir.path());
  std::vector<std::string> seen = {AbsolutePath(config.agents.work_root), AbsolutePath(CurrentFolder())};
  if (!images.empty()) seen.push_back(images);
  for (const auto& [key, folder] : {std::pair("agents.work_root", seen[0]), {"agents.image_store", images}}) {
    if (folder.empty() || !IsWithin(folder, run)) continue;
    return absl::InvalidArgumentError(absl::StrCat(key, " ", folder, " is in the run's folder ", run,
                                                   ", which is hidden from agents: name another folder"));
  }
  for (const sandbox::Program& program : programs) {
    for (const std::string& argument : program.argv) {
      if (argument.starts_with('/')) seen.push_back(AbsolutePath(argument));
    }
  }
  const bool holds_more = std::any_of(seen.begin(), seen.end(), [&](const auto& path) { return IsWithin(path, runs); });
  return holds_more ? run : runs;
}

// Warns on the terminal about run paths that agents can read.
void WarnOfReadable(const sandbox::ProbeResult& probe_result, const std::vector<std::string>& hidden) {
  const std::vector<std::string> readable = ReadableByAgents(probe_result, hidden);
  if (readable.empty()) return;
  INGOT_LOG(warn, "agents can read these of the run's paths, because this machine allows no mount namespaces: {}{}",
            absl::StrJoin(readable, ", "), probe_result.own_uid ? "; chmod o-rwx closes them to the agents' uids" : "");
}

// A verifier that runs the model's programs needs more isolation than a process, unless the configuration overrides
// this.
absl::Status CheckModelCode(const RunConfig& config, const sandbox::ProbeResult& probe_result) {
  if (probe_result.isolation > sandbox::IsolationLevel::kProcess || config.sandbox.require != "any")
    return absl::OkStatus();
  for (const agents::RecipeOptions& recipe : config.agents.recipes) {
    if (!recipe.verifier.runs_model_code()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "agents.recipes '", recipe.name, "': the verifier ", recipe.verifier.kind,
        " runs programs that the model wrote, but this machine's strongest isolation level is ",
        probe_result.Describe(), "; to accept that, set `sandbox: {require: none}` (docs/guide/sandbox.md)"));
  }
  return absl::OkStatus();
}

// Images and Harbor tasks need files at specific paths.
absl::Status CheckPlaces(const RunConfig& config, const sandbox::ProbeResult& probe_result) {
  if (probe_result.root_folder) return absl::OkStatus();
  for (const agents::RecipeOptions& recipe : config.agents.recipes) {
    const char* const key = !recipe.image.empty()              ? "its image"
                            : !recipe.work_at.empty()          ? "its work_at"
                            : recipe.verifier.kind == "harbor" ? "its verifier harbor"
                                                               : nullptr;
    if (key == nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("agents.recipes '", recipe.name, "': ", key,
                     " needs the isolation level namespaces, but this machine's strongest level is ",
                     probe_result.Describe(), " (docs/guide/sandbox.md)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<sandbox::Substrate>> MakeAgentsSubstrate(const RunConfig& config, const RunDir& dir) {
  sandbox::SubstrateOptions options = config.sandbox;
  options.work_root = config.agents.work_root;
  options.programs = agents::ProgramsOf(config.agents.recipes, CurrentFolder());
  if (options.pool < 0) options.pool = std::max(2, config.agents.concurrency / 4);
  if (const std::string here = AbsolutePath(CurrentFolder()); !sandbox::IsTooWide(here))
    options.visible.push_back(here);
  for (const agents::RecipeOptions& recipe : config.agents.recipes) {
    if (!recipe.image.empty()) options.images = AbsolutePath(agents::ImageStoreOf(config.agents));
  }
  INGOT_ASSIGN_OR_RETURN(const std::string folder, HiddenFolder(config, dir, options.programs, options.images));
  options.hidden = FilesOfRun(config);
  options.hidden.push_back(folder);
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Substrate> substrate, sandbox::MakeSubstrate(options));
  const sandbox::ProbeResult& probe_result = substrate->probe_result();
  INGOT_RETURN_IF_ERROR(CheckPlaces(config, probe_result));
  INGOT_RETURN_IF_ERROR(CheckModelCode(config, probe_result));
  if (probe_result.own_uid && !probe_result.mount_namespace && chmod(dir.path().c_str(), 0700) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot close ", dir.path(), " to the agents' uids: ", std::strerror(errno)));
  }
  std::fprintf(stderr, "agents: %s\n", probe_result.Describe().c_str());
  INGOT_LOG(info, "agents: {}", probe_result.Describe());
  if (probe_result.is_open()) {
    INGOT_LOG(warn,
              "agents can read, signal, and change everything that this user can, including the run. Run only agents "
              "that you trust, or start ingot as root or where user namespaces are allowed (docs/guide/sandbox.md)");
  } else if (geteuid() == 0 && !probe_result.own_uid) {
    INGOT_LOG(warn, "agents are root and can change this machine's files (docs/guide/sandbox.md)");
  }
  if (probe_result.isolation != sandbox::IsolationLevel::kFull && options.totals.memory_bytes > 0) {
    INGOT_LOG(info,
              "below the isolation level full, an episode's memory is measured only twice per second: an episode that "
              "grows faster may exhaust the machine's memory, and the kernel then kills agents first. A recipe's "
              "memory_limit_bytes limits each process (docs/guide/sandbox.md)");
  }
  WarnOfReadable(probe_result, options.hidden);
  if (folder != AbsolutePath(config.root)) {
    INGOT_LOG(warn, "agents can read other runs' files in {}, because it contains their programs or work folders",
              AbsolutePath(config.root));
  }
  return substrate;
}

absl::StatusOr<std::shared_ptr<sandbox::Substrate>> MakeRewardSubstrate(const RunConfig& config) {
  sandbox::SubstrateOptions options = config.sandbox;
  options.work_root = absl::StrCat(config.agents.work_root, "/rewards");
  options.pool = 0;
  options.hidden = FilesOfRun(config);
  for (const reward::TermOptions& term : config.rewards.terms) {
    if (term.kind != "python") continue;
    const std::string& named = term.Of<reward::PythonScoreOptions>().interpreter;
    options.programs.push_back({.name = absl::StrCat("rewards.terms (", term.Name(), ") python.interpreter"),
                                .argv = {named.empty() ? reward::UserPython() : named},
                                .path = ""});
  }
  return sandbox::MakeSubstrate(options);
}

agents::RunnerOptions RunnerOptionsOf(const RunConfig& config) {
  agents::RunnerOptions options = config.agents;
  std::vector<std::string> paths = config.task_files();
  for (const auto& [name, files] : config.eval.Files()) paths.insert(paths.end(), files.begin(), files.end());
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(options.image_folders), dataset::IsHarborFolder);
  return options;
}

void ReportProbeResult(const sandbox::ProbeResult& probe_result, base::Metrics& metrics) {
  const auto flag = [](bool probed) { return std::string(probed ? "yes" : "no"); };
  metrics
      .GetGauge("agents/sandbox", "1, labeled with the isolation level and the parts of it that this machine allows",
                {{"isolation", std::string(sandbox::IsolationLevelName(probe_result.isolation))},
                 {"own_uid", flag(probe_result.own_uid)},
                 {"user_namespace", flag(probe_result.user_namespace)},
                 {"pid_namespace", flag(probe_result.pid_namespace)},
                 {"mount_namespace", flag(probe_result.mount_namespace)},
                 {"own_network", flag(probe_result.own_network)},
                 {"seccomp", flag(probe_result.seccomp)},
                 {"groups", absl::StrCat(probe_result.groups)}})
      .Set(1);
}

}  // namespace ingot::app
