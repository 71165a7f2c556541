#include "sandbox/substrate.h"

#include <unistd.h>

#include <optional>

#include "absl/strings/str_join.h"
#include "base/config.h"
#include "base/json.h"
#include "base/log.h"
#include "sandbox/local_substrate.h"

namespace ingot::sandbox {
namespace {

constexpr IsolationLevel kIsolationLevels[] = {IsolationLevel::kProcess, IsolationLevel::kLandlock,
                                               IsolationLevel::kNamespaces, IsolationLevel::kFull};

// Returns the level of a `require` or `isolation` value; nullopt = auto.
std::optional<IsolationLevel> LevelOf(const std::string& name) {
  if (name == "any" || name == "none") return IsolationLevel::kProcess;
  for (const IsolationLevel isolation : kIsolationLevels) {
    if (base::View(IsolationLevelName(isolation)) == name) return isolation;
  }
  return std::nullopt;
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
  if (seccomp) parts.push_back("a system call filter");
  if (landlock > 0) parts.push_back(absl::StrCat("Landlock ", landlock));
  if (groups > 0) parts.push_back(absl::StrCat("totals from control groups version ", groups));
  if (!pid_namespace) parts.push_back("orphaned processes end with their command");
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

void Bind(base::Schema& schema, SubstrateOptions& o) {
  schema.Choice(
      "require", &o.require, {"any", "none", "landlock", "namespaces", "full"},
      "minimum isolation level of agents; a run that would get less does not start; none: any level is enough, even "
      "for verifiers that run the model's programs; any: any level is enough except for such verifiers");
  schema.Renamed("rung", "isolation");
  schema.Choice(
      "isolation", &o.isolation, {"auto", "process", "landlock", "namespaces", "full"},
      "strongest isolation level to try, which sandbox.require can raise; auto: the strongest that the machine allows");
  schema.Choice("network", &o.network, {"none", "host"},
                "none: with namespaces, a sandbox can reach only the gateway; host: it has the machine's network");
  schema.Field(
      "visible", &o.visible,
      "paths that agents can see, in addition to the system's programs, the recipes' programs, and the start folder");
  schema.Field("memory_bytes", &o.totals.memory_bytes,
               "total memory of an episode; at isolation levels below full it is measured twice a second; 0: no limit",
               base::NotNegative());
  schema.Field("processes", &o.totals.processes, "maximum number of an episode's processes and threads; 0: no limit",
               base::NotNegative());
  schema.Field("cpus", &o.totals.cpus, "isolation level full: CPU cores that an episode can use; 0: no limit",
               base::NotNegative());
  schema.Field("disk_bytes", &o.disk.bytes, "disk space of an episode, measured about once a second; 0: no limit",
               base::NotNegative());
  schema.Field("files", &o.disk.files, "maximum number of an episode's files and folders; 0: no limit",
               base::NotNegative());
  schema.Field("pool", &o.pool,
               "number of sandboxes opened in advance; -1: a quarter of agents.concurrency, at least 2",
               base::InRange(-1, 4096));
  schema.Choice("agent_uid", &o.agent_uid, {"auto", "own", "shared"},
                "own: a separate uid for each running episode, or the run does not start; shared: agents have ingot's "
                "uid and capabilities; auto: own if the machine allows it and such uids can run every recipe's "
                "program, otherwise ingot's uid without capabilities");
  schema.Field("uid_base", &o.uid_base,
               "first uid for episodes, which also use the next 65,535, for all runs on the machine",
               base::InRange(1, 2'147'000'000));
}

absl::Status SubstrateOptions::Validate() const { return base::CheckBounds(*this); }

absl::StatusOr<std::unique_ptr<Substrate>> MakeSubstrate(const SubstrateOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  const IsolationLevel required = *LevelOf(options.require);
  SubstrateOptions wanted = options;
  if (LevelOf(options.isolation).value_or(IsolationLevel::kFull) < required) wanted.isolation = options.require;
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<LocalSubstrate> substrate, LocalSubstrate::Make(wanted));
  const ProbeResult& probe_result = substrate->probe_result();
  if (probe_result.isolation < required || (required > IsolationLevel::kProcess && probe_result.is_open())) {
    return absl::FailedPreconditionError(
        absl::StrCat("sandbox.require is ", options.require, ", but agents would get less: ", probe_result.Describe(),
                     ". If you trust the agents that much, set sandbox.require: none (docs/guide/sandbox.md)"));
  }
  return substrate;
}

}  // namespace ingot::sandbox
