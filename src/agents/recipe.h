// A Recipe is a recipe's options with their templates parsed and their verifier made, so that every mistake is found
// before the first episode. Immutable, thread safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agents/mcp/mcp_servers.h"
#include "agents/options.h"
#include "base/status.h"
#include "proto/gateway.pb.h"
#include "reward/verifier.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"
#include "sandbox/template.h"

namespace ingot::agents {

using CommandTemplate = std::vector<sandbox::Template>;

struct Recipe {
  RecipeOptions options;
  CommandTemplate command;
  sandbox::Template image;
  std::map<std::string, sandbox::Template> env;
  std::map<std::string, sandbox::Template> files;
  std::vector<McpServer> mcp;
  std::vector<McpServer> services;
  std::vector<CommandTemplate> setup;
  std::vector<CommandTemplate> cleanup;
  std::unique_ptr<const reward::Verifier> verifier;
  sandbox::Limits agent_limits;

  // INVALID_ARGUMENT names the template, its unknown variable, and the known ones.
  static absl::StatusOr<std::shared_ptr<const Recipe>> Make(const RecipeOptions& options);

  // The agent's limits with a time limit of `seconds`.
  sandbox::Limits LimitsFor(double seconds) const;
};

// The programs of `recipes`, with the arguments that are the same in every episode. `cwd`: the folder where ingot was
// started. REQUIRES: the recipes are valid.
std::vector<sandbox::Program> ProgramsOf(const std::vector<RecipeOptions>& recipes, const std::string& cwd);

// The names that a recipe's templates may use.
const std::vector<std::string>& RecipeVariables();

// The places that an episode's templates name, as its commands see them. Absolute paths.
struct EpisodePlaces {
  std::string work, home, tmp;
  std::string cwd;       // the folder in which ingot was started
  std::string base_url;  // of the gateway
};

// The variables of an episode's templates. `task`: its payload, a JSON object, which outlives them.
sandbox::Variables VariablesOf(const v1::EpisodeOpenResponse& episode, std::string_view task,
                               const EpisodePlaces& places);

// The episode's MCP servers and services, and ${mcp} as JSON. `text` outlives the variables that it is added to.
struct EpisodeMcp {
  std::vector<StartedMcpServer> servers, services;
  std::string text;
};

// INVALID_ARGUMENT names the server whose template names a field that the task lacks.
absl::StatusOr<EpisodeMcp> McpOf(const Recipe& recipe, const sandbox::Variables& variables);

// The environment of an episode's commands. INVALID_ARGUMENT names the variable whose template names a field that the
// task lacks.
absl::StatusOr<std::map<std::string, std::string>> EnvironmentOf(const Recipe& recipe,
                                                                 const v1::EpisodeOpenResponse& episode,
                                                                 const EpisodePlaces& places,
                                                                 const sandbox::Variables& variables);

absl::StatusOr<std::vector<std::string>> RenderCommand(const CommandTemplate& command,
                                                       const sandbox::Variables& variables);

}  // namespace ingot::agents
