#include "app/agents_substrate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "agents/recipe.h"
#include "base/log.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

std::string CurrentFolder() {
  std::error_code error;
  return fs::current_path(error).string();
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path : whole.string();
}

// `inner` is `outer` or lies in it. Both are absolute.
bool IsWithin(const std::string& inner, const std::string& outer) {
  const fs::path relative = fs::path(inner).lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

// The folder of all runs, so that agents see no other run either; the run's own where the other one holds more.
absl::StatusOr<std::string> HiddenFolder(const RunConfig& config, const RunDir& dir,
                                         const std::vector<sandbox::Program>& programs) {
  const std::string runs = Absolute(config.root), run = Absolute(dir.path());
  std::vector<std::string> seen = {Absolute(config.agents.work_root), Absolute(CurrentFolder())};
  if (IsWithin(seen[0], run)) {
    return absl::InvalidArgumentError(absl::StrCat("agents.work_root ", seen[0], " lies in the run's folder ", run,
                                                   ", which agents do not see: name another folder"));
  }
  for (const sandbox::Program& program : programs) {
    for (const std::string& argument : program.argv) {
      if (argument.starts_with('/')) seen.push_back(Absolute(argument));
    }
  }
  const bool holds_more = std::any_of(seen.begin(), seen.end(), [&](const auto& path) { return IsWithin(path, runs); });
  return holds_more ? run : runs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<sandbox::Substrate>> MakeAgentsSubstrate(const RunConfig& config, const RunDir& dir) {
  sandbox::SubstrateOptions options = config.sandbox;
  options.work_root = config.agents.work_root;
  options.programs = agents::ProgramsOf(config.agents.recipes, CurrentFolder());
  INGOT_ASSIGN_OR_RETURN(std::string folder, HiddenFolder(config, dir, options.programs));
  options.hidden.push_back(std::move(folder));
  for (const std::string& file :
       {config.tasks, config.eval.tasks, config.sft_data, config.dpo_data, config.gateway.admin_key_file,
        config.http.tls_key, config.cluster.token_file, config.cluster.tls_key}) {
    if (!file.empty()) options.hidden.push_back(Absolute(file));
  }
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<sandbox::Substrate> substrate, sandbox::MakeSubstrate(options));
  const sandbox::Grant& grant = substrate->grant();
  if (grant.own_uid && !grant.mount_namespace && chmod(dir.path().c_str(), 0700) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot close ", dir.path(), " to the agents' uids: ", std::strerror(errno)));
  }
  std::printf("agents: %s\n", grant.Describe().c_str());
  INGOT_LOG(info, "agents: {}", grant.Describe());
  if (grant.is_open()) {
    INGOT_LOG(
        warn,
        "agents can read, signal and change what this user can, the run included. Run only agents that you trust, "
        "or start ingot as root or where user namespaces are allowed (docs/sandbox.md)");
  } else if (geteuid() == 0 && !grant.own_uid) {
    INGOT_LOG(warn, "agents are root: they can change files of this machine (docs/sandbox.md)");
  }
  return substrate;
}

void ReportGrant(const sandbox::Grant& grant, base::Metrics& metrics) {
  const auto flag = [](bool granted) { return std::string(granted ? "yes" : "no"); };
  metrics
      .GetGauge("agents/sandbox", "1, labelled with the rung and with the parts of it that this machine grants",
                {{"rung", std::string(sandbox::RungName(grant.rung))},
                 {"own_uid", flag(grant.own_uid)},
                 {"user_namespace", flag(grant.user_namespace)},
                 {"pid_namespace", flag(grant.pid_namespace)},
                 {"mount_namespace", flag(grant.mount_namespace)}})
      .Set(1);
}

}  // namespace ingot::app
