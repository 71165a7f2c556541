#include "app/commands/command_line/command.h"

#include <CLI/CLI.hpp>
#include <iterator>

#include "app/run/run_args.h"

namespace ingot::app {

std::vector<Command> Commands() {
  std::vector<Command> commands;
  for (const auto& part : {RunCommands, ModelFolderCommands, RecordCommands, DataCommands, SandboxCommands,
                           BenchCommands, SetupCommands}) {
    std::vector<Command> next = part();
    commands.insert(commands.end(), std::make_move_iterator(next.begin()), std::make_move_iterator(next.end()));
  }
  return commands;
}

CLI::Option* AddRunArgs(CLI::App& parser, RunArgs& args) {
  const auto check = [](const std::string& word) {
    return word.find('=') == std::string::npos ? "'" + word + "' is an extra argument: KEY=VALUE is expected" : "";
  };
  CLI::Option* const config = parser.add_option("config", args.config, "the run's YAML file")->required();
  parser.add_option("--set", args.overrides, "override one key: --set trainer.learning_rate=1e-3 (repeatable)")
      ->allow_extra_args(false)
      ->check(check);
  // Parsed after --set, whose words it keeps.
  parser
      .add_option_function<std::vector<std::string>>(
          "overrides",
          [&args](const std::vector<std::string>& words) {
            args.overrides.insert(args.overrides.end(), words.begin(), words.end());
          },
          "override keys: trainer.learning_rate=1e-3 run.seed=2")
      ->check(check);
  return config;
}

void AddThreads(CLI::App& parser, int& threads, const std::string& meaning) {
  parser.add_option("--threads", threads, meaning)->check(CLI::Range(0, 4096))->capture_default_str();
}

void AddSites(CLI::App& parser, std::vector<std::string>& hosts, std::vector<std::string>& origins) {
  parser
      .add_option("--allow-host", hosts,
                  "host name that is also accepted at a loopback address, such as a proxy's; *: all (repeatable)")
      ->allow_extra_args(false);
  parser
      .add_option("--allow-origin", origins,
                  "origin whose web pages may send requests, such as http://localhost:3000; *: all (repeatable)")
      ->allow_extra_args(false);
}

}  // namespace ingot::app
