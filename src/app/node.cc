// `ingot node`: the agent of one node of a run. It starts the roles that cluster.groups gives to this node, and restarts
// them.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "app/commands.h"
#include "app/process.h"
#include "app/role_addresses.h"
#include "app/run_dir.h"
#include "app/run_registry.h"
#include "app/run_roles.h"
#include "app/run_secrets.h"
#include "app/supervisor.h"
#include "base/log.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

// The number of this node within its group: Slurm's, unless the command line has one.
absl::StatusOr<int> NodeNumber(int given) {
  if (given >= 0) return given;
  const char* const slurm = std::getenv("SLURM_NODEID");
  int number = 0;
  if (slurm == nullptr) return number;
  if (absl::SimpleAtoi(slurm, &number)) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("SLURM_NODEID is '", slurm, "': a number is expected; or give --node"));
}

bool Drives(const std::vector<RoleProcess>& roles) {
  for (const RoleProcess& role : roles) {
    if (role.role == "trainer") return true;
  }
  return false;
}

absl::StatusOr<int> NodeOrError(const NodeArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const int node, NodeNumber(args.node));
  INGOT_ASSIGN_OR_RETURN(const std::vector<RoleProcess> roles, RolesOfNode(config, args.group, node));
  if (config.cluster.token_file.empty() && !TrainerAlone(config)) {
    return absl::InvalidArgumentError(
        "the nodes of a run share its token: name a file with it in cluster.token_file (`openssl rand -hex 32 > FILE; "
        "chmod 600 FILE`, the same on every machine)");
  }
  const bool drives = Drives(roles);
  INGOT_ASSIGN_OR_RETURN(RunSecrets secrets, MakeRunSecrets(config));
  INGOT_ASSIGN_OR_RETURN(const RpcAccess access, AccessOf(config.cluster, secrets.token));
  // The node that drives the run holds its folder. The others find it there, or make its subfolders.
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, drives ? RunDir::Open(config.root, config.name,
                                                                 args.run.resume ? IfExists::kResume : config.if_exists)
                                                  : RunDir::Attach(config.root, config.name));
  const std::string name = absl::StrCat(args.group, "-", node);
  base::InitLogging("node " + name, config.log_level, absl::StrCat(dir.logs(), "/node-", name, ".log"));
  std::unique_ptr<RunRegistry> registry;
  if (!TrainerAlone(config)) {
    INGOT_ASSIGN_OR_RETURN(registry, RunRegistry::Open(config, dir.path(), access));
    if (drives) INGOT_RETURN_IF_ERROR(registry->ClaimRun());
  }
  if (drives) INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));

  RoleSpecs::Parts parts;
  parts.folder = dir.path();
  // The run's copy: the user's file may have changed by the time that a role is restarted.
  parts.config = drives ? dir.path() + "/config.yaml" : args.run.config;
  parts.existed = drives && dir.existed();
  INGOT_ASSIGN_OR_RETURN(parts.binary, OwnBinary());
  if (!drives) parts.settings = args.run.overrides;
  parts.secrets = std::move(secrets);
  if (drives && config.cluster.trainer_ranks > 1) {
    INGOT_ASSIGN_OR_RETURN(parts.meeting_port,
                           FindPort("cluster.trainer_port", OwnHost(config.cluster), config.cluster.trainer_port));
  }
  const RoleSpecs specs(config, std::move(parts));
  SupervisorOptions options;
  options.max_restarts = config.cluster.max_restarts;
  options.min_members = config.cluster.min_trainer_ranks;
  Supervisor supervisor(options);
  for (const RoleProcess& role : roles) INGOT_RETURN_IF_ERROR(supervisor.Start(specs.Spec(role)));
  std::printf("[%s %s] %d processes; logs %s\n", config.name.c_str(), name.c_str(), static_cast<int>(roles.size()),
              dir.logs().c_str());
  const absl::StatusOr<int> code =
      supervisor.Run([] { return StopFlag().load(); },
                     [&](const std::string& line) {
                       INGOT_LOG(info, "{}", line);
                       std::printf("[%s %s] %s\n", config.name.c_str(), name.c_str(), base::Printable(line).c_str());
                     });
  // A node that does not drive the run ends when it is told to.
  return !drives && absl::IsCancelled(code.status()) ? absl::StatusOr<int>(0) : code;
}

}  // namespace

int RunNode(const NodeArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = NodeOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
