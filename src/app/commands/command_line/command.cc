#include "app/commands/command_line/command.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iterator>

#include "absl/strings/numbers.h"
#include "app/run/run_args.h"

namespace ingot::app {
namespace {

// Returns the error for a word that is not KEY=VALUE; empty = it is.
std::string KeyAndValue(const std::string& word) {
  return word.find('=') == std::string::npos ? "'" + word + "' is an unexpected argument: KEY=VALUE is expected" : "";
}

}  // namespace

std::vector<Command> Commands() {
  std::vector<Command> commands;
  for (const auto& part : {RunCommands, ModelFolderCommands, RecordCommands, DataCommands, SandboxCommands,
                           BenchCommands, SetupCommands}) {
    std::vector<Command> next = part();
    commands.insert(commands.end(), std::make_move_iterator(next.begin()), std::make_move_iterator(next.end()));
  }
  return commands;
}

const CLI::Validator& AtLeastOne() {
  static const auto& check = *new CLI::Validator(
      [](std::string& word) {
        int64_t number = 0;
        if (absl::SimpleAtoi(word, &number) && number >= 1) return std::string();
        return "'" + word + "' is not a whole number of at least 1";
      },
      ">= 1");
  return check;
}

CLI::Option* AddSet(CLI::App& parser, std::vector<std::string>& overrides, const std::string& example) {
  return parser.add_option("--set", overrides, "override one key: --set " + example + " (repeatable)")
      ->allow_extra_args(false)
      ->check(KeyAndValue);
}

void AddOverrides(CLI::App& parser, std::vector<std::string>& overrides, const std::string& example) {
  AddSet(parser, overrides, example);
  // Parsed after --set, which consumes its words first.
  parser
      .add_option_function<std::vector<std::string>>(
          "overrides",
          [&overrides](const std::vector<std::string>& words) {
            overrides.insert(overrides.end(), words.begin(), words.end());
          },
          "override keys: " + example)
      ->check(KeyAndValue);
}

CLI::Option* AddRunArgs(CLI::App& parser, RunArgs& args) {
  CLI::Option* const config = parser.add_option("config", args.config, "the run's YAML file")->required();
  AddOverrides(parser, args.overrides, "trainer.learning_rate=1e-3");
  return config;
}

void AddThreads(CLI::App& parser, int& threads, const std::string& meaning) {
  parser.add_option("--threads", threads, meaning)->check(CLI::Range(0, 4096))->capture_default_str();
}

void AddSites(CLI::App& parser, std::vector<std::string>& hosts, std::vector<std::string>& origins) {
  parser
      .add_option("--allow-host", hosts,
                  "additional host name to accept at a loopback address, such as a proxy's; *: all (repeatable)")
      ->allow_extra_args(false);
  parser
      .add_option("--allow-origin", origins,
                  "origin whose web pages may send requests, such as http://localhost:3000; *: all (repeatable)")
      ->allow_extra_args(false);
}

}  // namespace ingot::app
