#include "sandbox/substrate.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/log.h"
#include "sandbox/local_substrate.h"

namespace ingot::sandbox {
namespace {

constexpr IsolationLevel kIsolationLevels[] = {IsolationLevel::kProcess, IsolationLevel::kLandlock,
                                               IsolationLevel::kNamespaces, IsolationLevel::kFull};

// "none" is the weakest isolation level: nothing is required beyond it.
absl::StatusOr<IsolationLevel> RequiredIsolationLevel(const std::string& name) {
  if (name == "none") return IsolationLevel::kProcess;
  for (const IsolationLevel isolation : kIsolationLevels) {
    if (isolation != IsolationLevel::kProcess && base::View(IsolationLevelName(isolation)) == name) return isolation;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("sandbox.require is '", name, "': none, landlock, namespaces or full"));
}

}  // namespace

std::string_view IsolationLevelName(IsolationLevel isolation) {
  switch (isolation) {
    case IsolationLevel::kProcess:
      return "process";
    case IsolationLevel::kLandlock:
      return "landlock";
    case IsolationLevel::kNamespaces:
      return "namespaces";
    case IsolationLevel::kFull:
      return "full";
  }
  return "process";
}

std::string ProbeResult::Describe() const {
  std::vector<std::string> parts;
  if (own_uid) parts.push_back(absl::StrCat("a uid per sandbox (from ", first_uid, ")"));
  if (!own_uid) parts.push_back(absl::StrCat("agents share uid ", geteuid(), " with ingot"));
  if (user_namespace) parts.push_back("a user namespace");
  if (pid_namespace) parts.push_back(mount_namespace ? "PID and mount namespaces" : "a PID namespace");
  if (private_proc) parts.push_back("a private /proc");
  if (root_folder) parts.push_back("a root folder");
  if (own_network) parts.push_back("no network but the gateway");
  if (seccomp) parts.push_back("a filter of system calls");
  if (landlock > 0) parts.push_back(absl::StrCat("Landlock ", landlock));
  if (groups > 0) parts.push_back(absl::StrCat("totals by control groups of version ", groups));
  if (!pid_namespace) parts.push_back("orphans end with their command");
  std::string text =
      absl::StrCat("isolation level ", base::View(IsolationLevelName(isolation)), ": ", absl::StrJoin(parts, ", "));
  if (!rejected.empty()) absl::StrAppend(&text, "; not granted: ", absl::StrJoin(rejected, "; "));
  return text;
}

std::string ProbeResult::Json() const {
  return base::PrintJson({{"isolation", std::string(IsolationLevelName(isolation))},
                          {"own_uid", own_uid},
                          {"user_namespace", user_namespace},
                          {"pid_namespace", pid_namespace},
                          {"mount_namespace", mount_namespace},
                          {"private_proc", private_proc},
                          {"root_folder", root_folder},
                          {"own_network", own_network},
                          {"seccomp", seccomp},
                          {"landlock", landlock},
                          {"groups", groups},
                          {"freezer", freezer}});
}

absl::Status SubstrateOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(RequiredIsolationLevel(require).status());
  if (agent_uid != "auto" && agent_uid != "own" && agent_uid != "shared") {
    return absl::InvalidArgumentError(absl::StrCat("sandbox.agent_uid is '", agent_uid, "': auto, own or shared"));
  }
  if (isolation != "auto" && isolation != "process") INGOT_RETURN_IF_ERROR(RequiredIsolationLevel(isolation).status());
  if (network != "none" && network != "host") {
    return absl::InvalidArgumentError(absl::StrCat("sandbox.network is '", network, "': none or host"));
  }
  if (pool < -1 || pool > 4096) {
    return absl::InvalidArgumentError(absl::StrCat("sandbox.pool is ", pool, ": -1 to 4096"));
  }
  if (totals.memory_bytes < 0 || totals.processes < 0 || totals.cpus < 0 || disk.bytes < 0 || disk.files < 0) {
    return absl::InvalidArgumentError("a sandbox limit is negative: use 0 for no limit");
  }
  if (uid_base < 1 || uid_base > 2'147'000'000) {
    return absl::InvalidArgumentError(absl::StrCat("sandbox.uid_base is ", uid_base, ": 1 to 2147000000"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Substrate>> MakeSubstrate(const SubstrateOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_ASSIGN_OR_RETURN(const IsolationLevel required, RequiredIsolationLevel(options.require));
  SubstrateOptions wanted = options;
  const auto strongest = RequiredIsolationLevel(options.isolation == "process" ? "none" : options.isolation);
  if (strongest.ok() && *strongest < required) wanted.isolation = options.require;
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<LocalSubstrate> substrate, LocalSubstrate::Make(wanted));
  const ProbeResult& probe_result = substrate->probe_result();
  if (probe_result.isolation < required || (options.require != "none" && probe_result.is_open())) {
    return absl::FailedPreconditionError(
        absl::StrCat("sandbox.require is ", options.require, ", and agents would get less: ", probe_result.Describe(),
                     ". For agents that you trust so far set sandbox.require: none (docs/guide/sandbox.md)"));
  }
  return substrate;
}

}  // namespace ingot::sandbox
