#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/commands/command_line/command.h"
#include "app/commands/run/episodes.h"
#include "app/commands/run/launch.h"
#include "app/commands/run/node.h"
#include "app/commands/run/status.h"
#include "app/commands/run/train.h"
#include "app/roles/run_role.h"
#include "app/run/process.h"
#include "app/run/run_args.h"

namespace ingot::app {
namespace {

void AddResume(CLI::App& parser, RunArgs& args) {
  parser.add_flag("--resume", args.resume, "continue the run from its last checkpoint and journal");
}

Command::Run DeclareTrain(CLI::App& parser) {
  const auto args = std::make_shared<RunArgs>();
  AddRunArgs(parser, *args);
  AddResume(parser, *args);
  return [args] { return Train(*args); };
}

Command::Run DeclareLaunch(CLI::App& parser) {
  const auto args = std::make_shared<LaunchArgs>();
  AddRunArgs(parser, args->run);
  AddResume(parser, args->run);
  parser.add_flag("--dry-run", args->dry_run, "print what would start, and exit");
  return [args] { return Launch(*args); };
}

Command::Run DeclareNode(CLI::App& parser) {
  const auto args = std::make_shared<NodeArgs>();
  AddRunArgs(parser, args->run);
  AddResume(parser, args->run);
  parser.add_option("--group", args->group, "group in cluster.groups whose roles this node runs")->required();
  parser.add_option("--node", args->node, "this node's index in its group, from 0; default: from the launcher, or 0")
      ->check(CLI::NonNegativeNumber);
  parser
      .add_option("--probe", args->probe,
                  "only query the node's agent: alive = it responds; ready = all its roles are running")
      ->check(CLI::IsMember({"alive", "ready"}));
  return [args] { return RunNode(*args); };
}

Command::Run DeclareEpisodesList(CLI::App& parser) {
  const auto args = std::make_shared<EpisodesArgs>();
  parser.add_option("run_dir", args->run_dir, "runs/NAME")->required();
  parser.add_flag("--json", args->json, "one JSON object");
  return [args] { return ListEpisodes(*args); };
}

Command::Run DeclareEpisodesEnd(CLI::App& parser) {
  const auto args = std::make_shared<EpisodesArgs>();
  parser.add_option("run_dir", args->run_dir, "runs/NAME")->required();
  const auto ids = parser.add_option("episodes", args->ids, "ids of episodes, as `ingot episodes list` prints them");
  parser.add_flag("--all", args->all, "every episode that has made no call")->excludes(ids);
  parser.add_option("--key-file", args->key_file,
                    "file with the admin key; default: the file in gateway.admin_key_file");
  return [args] { return EndEpisodes(*args); };
}

void AddTokenFd(CLI::App& parser, RunArgs& args) {
  parser
      .add_option("--token-fd", args.token_fd,
                  "file descriptor to read the run's token from, instead of cluster.token_file")
      ->check(CLI::NonNegativeNumber);
}

Command::Run DeclareStatus(CLI::App& parser) {
  const auto args = std::make_shared<StatusArgs>();
  AddRunArgs(parser, args->run);
  AddTokenFd(parser, args->run);
  parser.add_flag("--json", args->json, "print one JSON array, including the roles' process ids");
  return [args] { return ShowStatus(*args); };
}

Command::Run DeclareRole(CLI::App& parser) {
  struct Args {
    RunArgs run;
    int index = 0;
    pid_t parent = 0;
  };
  const auto args = std::make_shared<Args>();
  const std::string role = parser.get_name();
  AddRunArgs(parser, args->run);
  AddTokenFd(parser, args->run);
  parser.add_flag("--resume", args->run.resume, "continue the run");
  parser.add_option("--engine", args->index, "index of this rollout engine, from 0");
  if (role == "datapool") parser.add_option("--datapool", args->index, "index of this data pool process, from 0");
  if (role == "gateway") parser.add_option("--gateway", args->index, "index of this gateway, from 0");
  if (role == "trainer") {
    parser.add_option("--rank", args->index, "this trainer rank, from 0");
    parser
        .add_option("--device-place", args->run.device_place,
                    "use this device of the machine, from 0, instead of the rank's; after the last one, start over")
        ->check(CLI::NonNegativeNumber);
  }
  parser.add_option("--child", args->parent, "exit when the supervisor, process PARENT, exits")->type_name("PARENT");
  return [args, role] {
    if (args->parent != 0) DieWithParent(args->parent);
    return RunRole(role, args->run, args->index, args->parent != 0);
  };
}

Command RoleCommand(const std::string& role) {
  return {.name = role,
          .summary = "run the " + role + " role of a run as this process",
          .declare = DeclareRole,
          .computes = role == "rollout" || role == "trainer",
          .holds_keys = true,
          .logs = true};
}

}  // namespace

std::vector<Command> RunCommands() {
  return {
      {.name = "train",
       .summary = "run all roles in this process: data pool, scheduler, engine, gateway, agents, trainer",
       .declare = DeclareTrain,
       .computes = true,
       .holds_keys = true,
       .logs = true},
      {.name = "launch",
       .summary = "run every role as a supervised process on this machine, or submit the run to Slurm or Kubernetes",
       .declare = DeclareLaunch,
       .holds_keys = true,
       .logs = true},
      {.name = "node",
       .summary = "run the roles of one node of a run that uses several machines",
       .declare = DeclareNode,
       .holds_keys = true,
       .logs = true},
      RoleCommand("datapool"),
      RoleCommand("rewards"),
      RoleCommand("scheduler"),
      RoleCommand("rollout"),
      RoleCommand("gateway"),
      RoleCommand("trainer"),
      RoleCommand("agents"),
      {.name = "status",
       .summary = "print the state of a launched run's roles",
       .declare = DeclareStatus,
       .holds_keys = true},
      {.name = "episodes",
       .summary = "manage a run's open episodes whose clients have made no call",
       .group = {{.name = "list", .summary = "list them, oldest first", .declare = DeclareEpisodesList},
                 {.name = "end",
                  .summary = "end some or all of them, so that their samples are retried",
                  .declare = DeclareEpisodesEnd,
                  .holds_keys = true}}},
  };
}

}  // namespace ingot::app
