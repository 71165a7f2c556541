#include "sandbox/substrate.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/log.h"
#include "sandbox/local_substrate.h"

namespace ingot::sandbox {
namespace {

constexpr Rung kRungs[] = {Rung::kProcess, Rung::kLandlock, Rung::kNamespaces, Rung::kFull};

// "none" is the weakest rung: nothing is required beyond it.
absl::StatusOr<Rung> RequiredRung(const std::string& name) {
  if (name == "none") return Rung::kProcess;
  for (const Rung rung : kRungs) {
    if (rung != Rung::kProcess && base::View(RungName(rung)) == name) return rung;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("sandbox.require is '", name, "': none, landlock, namespaces or full"));
}

}  // namespace

std::string_view RungName(Rung rung) {
  switch (rung) {
    case Rung::kProcess:
      return "process";
    case Rung::kLandlock:
      return "landlock";
    case Rung::kNamespaces:
      return "namespaces";
    case Rung::kFull:
      return "full";
  }
  return "process";
}

std::string Grant::Describe() const {
  std::vector<std::string> parts;
  if (own_uid) parts.push_back(absl::StrCat("a uid per room (from ", first_uid, ")"));
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
  std::string text = absl::StrCat("rung ", base::View(RungName(rung)), ": ", absl::StrJoin(parts, ", "));
  if (!refused.empty()) absl::StrAppend(&text, "; not granted: ", absl::StrJoin(refused, "; "));
  return text;
}

std::string Grant::Json() const {
  return base::PrintJson({{"rung", std::string(RungName(rung))},
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
  INGOT_RETURN_IF_ERROR(RequiredRung(require).status());
  if (agent_uid != "auto" && agent_uid != "own" && agent_uid != "shared") {
    return absl::InvalidArgumentError(absl::StrCat("sandbox.agent_uid is '", agent_uid, "': auto, own or shared"));
  }
  if (rung != "auto" && rung != "process") INGOT_RETURN_IF_ERROR(RequiredRung(rung).status());
  if (network != "none" && network != "host") {
    return absl::InvalidArgumentError(absl::StrCat("sandbox.network is '", network, "': none or host"));
  }
  if (pool < -1 || pool > 4096) {
    return absl::InvalidArgumentError(absl::StrCat("sandbox.pool is ", pool, ": -1 to 4096"));
  }
  if (totals.memory_bytes < 0 || totals.processes < 0 || totals.cpus < 0 || disk.bytes < 0 || disk.files < 0) {
    return absl::InvalidArgumentError("a limit of sandbox is below 0: 0 is no limit");
  }
  if (uid_base < 1 || uid_base > 2'147'000'000) {
    return absl::InvalidArgumentError(absl::StrCat("sandbox.uid_base is ", uid_base, ": 1 to 2147000000"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Substrate>> MakeSubstrate(const SubstrateOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_ASSIGN_OR_RETURN(const Rung required, RequiredRung(options.require));
  SubstrateOptions wanted = options;
  const auto strongest = RequiredRung(options.rung == "process" ? "none" : options.rung);
  if (strongest.ok() && *strongest < required) wanted.rung = options.require;
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<LocalSubstrate> substrate, LocalSubstrate::Make(wanted));
  const Grant& grant = substrate->grant();
  if (grant.rung < required || (options.require != "none" && grant.is_open())) {
    return absl::FailedPreconditionError(
        absl::StrCat("sandbox.require is ", options.require, ", and agents would get less: ", grant.Describe(),
                     ". For agents that you trust so far set sandbox.require: none (docs/guide/sandbox.md)"));
  }
  return substrate;
}

}  // namespace ingot::sandbox
