#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/commands/command_line/command.h"
#include "app/commands/command_line/completion.h"
#include "app/commands/run/init.h"
#include "app/commands/run/train.h"
#include "app/run/process.h"
#include "app/run/run_args.h"
#include "app/run/run_config.h"

namespace ingot::app {
namespace {

Command::Run DeclareConfigCheck(CLI::App& parser) {
  const auto args = std::make_shared<RunArgs>();
  const auto gpus = std::make_shared<std::string>();
  AddRunArgs(parser, *args);
  parser
      .add_option("--device", *gpus,
                  "check for a machine with these GPUs, such as h100, 8xh100, or 24 for 24 GiB; default: this machine")
      ->type_name("GPU");
  return [args, gpus] { return ConfigCheck(*args, *gpus); };
}

Command::Run DeclareExplain(CLI::App& parser) {
  const auto key = std::make_shared<std::string>();
  parser.add_option("key", *key, "a key or section");
  return [key] { return ConfigExplain(*key); };
}

Command::Run DeclareConfigSchema(CLI::App&) {
  return [] { return ConfigSchema(); };
}

Command::Run DeclareInit(CLI::App& parser) {
  const auto folder = std::make_shared<std::string>();
  const auto reward = std::make_shared<std::string>("exact");
  parser.add_option("folder", *folder, "folder to create")->required();
  parser.add_option("--reward", *reward, "what decides the reward: an exact answer, or a function in rewards.py")
      ->check(CLI::IsMember({"exact", "python"}));
  return [folder, reward] { return Init(*folder, *reward == "python" ? InitReward::kPython : InitReward::kExact); };
}

Command::Run DeclareDoctor(CLI::App& parser) {
  const auto args = std::make_shared<RunArgs>();
  AddRunArgs(parser, *args)
      ->required(false)
      ->description("a run's YAML file, to check its ports and folders; default: check the defaults");
  return [args] {
    // A word with '=' is an override of the defaults, not a file.
    if (args->config.find('=') != std::string::npos) {
      args->overrides.insert(args->overrides.begin(), std::exchange(args->config, ""));
    }
    return Doctor(*args);
  };
}

Command::Run DeclareCompletion(CLI::App& parser) {
  return [shell = parser.get_name()] {
    const absl::StatusOr<std::string> script = CompletionScript(shell);
    if (!script.ok()) return Fail(script.status());
    std::printf("%s", script->c_str());
    return 0;
  };
}

Command::Run DeclareCompletionWords(CLI::App& parser) {
  parser.prefix_command();  // passes the words through unchanged
  CLI::App* const self = &parser;
  return [self] {
    CLI::App* root = self;
    while (root->get_parent() != nullptr) root = root->get_parent();
    RunConfig config;
    for (const std::string& word : Completions(*root, self->remaining(), BindSchema(config).Keys())) {
      std::printf("%s\n", word.c_str());
    }
    return 0;
  };
}

}  // namespace

std::vector<Command> SetupCommands() {
  return {
      {"config",
       "check a configuration, or explain its keys",
       nullptr,
       {{"check", "load a run's YAML file, and print the effective configuration or an error", DeclareConfigCheck},
        {"explain", "print every key with its type, default, and meaning", DeclareExplain},
        {"schema", "print a JSON Schema of all keys, for editors", DeclareConfigSchema}}},
      {"init", "create a folder with a small run that is ready to train", DeclareInit},
      {"doctor", "check what this machine supports, and print what to fix", DeclareDoctor},
      {"completion",
       "print a completion script for a shell",
       nullptr,
       {{"bash", "source <(ingot completion bash)", DeclareCompletion},
        {"zsh", "source <(ingot completion zsh)", DeclareCompletion},
        {"fish", "ingot completion fish | source", DeclareCompletion},
        {"words", "print the words that may come next, for these scripts", DeclareCompletionWords}}},
  };
}

}  // namespace ingot::app
