// `ingot node`: finds out which node of the run this is, and runs its agent or probes it.
#include "app/commands/run/node.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "app/checks/nodes_check.h"
#include "app/cluster/access/run_secrets.h"
#include "app/cluster/run_roles.h"
#include "app/cluster/status/status_endpoint.h"
#include "app/commands/run/node_agent.h"
#include "app/commands/run/node_takeover.h"
#include "app/run/process.h"
#include "app/run/run_dir.h"

namespace ingot::app {
namespace {

// Variables that contain a node's index within its group, for Ingot itself, Slurm, a Kubernetes Job, SkyPilot, and
// dstack. The first one that is set counts.
constexpr const char* kNumberVariables[] = {"INGOT_NODE", "SLURM_NODEID", "JOB_COMPLETION_INDEX", "SKYPILOT_NODE_RANK",
                                            "DSTACK_NODE_RANK"};

absl::StatusOr<int> NodeNumber(int given) {
  if (given >= 0) return given;
  for (const char* variable : kNumberVariables) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) continue;
    int number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= 0) return number;
    return absl::InvalidArgumentError(
        absl::StrCat(variable, " is '", text, "': it must be a number from 0; or use --node"));
  }
  return 0;
}

// Queries this node's agent. Returns 0 if it answers and, for "ready", all its roles are running.
absl::StatusOr<int> Probe(const NodeArgs& args, const RunConfig& config, int node) {
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
  INGOT_ASSIGN_OR_RETURN(const LaunchedStatus status, AskLauncher(NodeSocket(dir, NodeName(args.group, node))));
  std::printf("%s", status.lines.c_str());
  return args.probe == "alive" || status.all_answer ? 0 : 1;
}

absl::StatusOr<int> NodeOrError(const NodeArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const int node, NodeNumber(args.node));
  INGOT_ASSIGN_OR_RETURN(std::vector<RoleProcess> roles, RolesOfNode(config, args.group, node));
  if (!args.probe.empty()) return Probe(args, config, node);
  INGOT_RETURN_IF_ERROR(CheckGroups(config));
  INGOT_RETURN_IF_ERROR(CheckSharedToken(config));
  return RunNodeAgent(args, loaded, node, std::move(roles));
}

}  // namespace

int RunNode(const NodeArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = NodeOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
