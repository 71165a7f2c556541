// A Recipe holds a recipe's options, parsed templates, and verifier, so that all mistakes are found before the first
// episode. Immutable and thread safe.
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

  // Returns INVALID_ARGUMENT if a template is invalid. The error names the template and the unknown variable, and lists
  // the known variables.
  static absl::StatusOr<std::shared_ptr<const Recipe>> Make(const RecipeOptions& options);

  // Returns the agent's limits with a time limit of `seconds`.
  sandbox::Limits LimitsFor(double seconds) const;
};

// Returns the recipes' programs with the arguments that are the same in every episode. `cwd` is the directory where
// ingot was started. REQUIRES: the recipes are valid.
std::vector<sandbox::Program> ProgramsOf(const std::vector<RecipeOptions>& recipes, const std::string& cwd);

// Returns the names that a recipe's templates may use.
const std::vector<std::string>& RecipeVariables();

// The absolute paths that an episode's templates use, as seen by its commands.
struct EpisodePlaces {
  std::string work, home, tmp;
  std::string cwd;       // the directory where ingot was started
  std::string base_url;  // the gateway's URL
};

// Returns the variables for an episode's templates. `task`, the payload, is a JSON object that must outlive the result.
sandbox::Variables VariablesOf(const v1::EpisodeOpenResponse& episode, std::string_view task,
                               const EpisodePlaces& places);

// An episode's MCP servers and services, and ${mcp} as JSON. `text` must outlive the variables that refer to it.
struct EpisodeMcp {
  std::vector<StartedMcpServer> servers, services;
  std::string text;
};

// Returns INVALID_ARGUMENT if a template uses a field that the task lacks. The error names the server.
absl::StatusOr<EpisodeMcp> McpOf(const Recipe& recipe, const sandbox::Variables& variables);

// Returns the environment for an episode's commands, or INVALID_ARGUMENT if a template uses a field that the task
// lacks. The error names the variable.
absl::StatusOr<std::map<std::string, std::string>> EnvironmentOf(const Recipe& recipe,
                                                                 const v1::EpisodeOpenResponse& episode,
                                                                 const EpisodePlaces& places,
                                                                 const sandbox::Variables& variables);

absl::StatusOr<std::vector<std::string>> RenderCommand(const CommandTemplate& command,
                                                       const sandbox::Variables& variables);

}  // namespace ingot::agents
