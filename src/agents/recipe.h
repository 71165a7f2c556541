// A recipe with its templates parsed and its verifier made: everything of it that can be wrong is found here, before
// the first episode. Immutable, thread safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agents/options.h"
#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/process.h"
#include "sandbox/template.h"

namespace ingot::agents {

using CommandTemplate = std::vector<sandbox::Template>;

struct Recipe {
  RecipeOptions options;
  CommandTemplate command;
  std::map<std::string, sandbox::Template> env;
  std::map<std::string, sandbox::Template> files;
  std::vector<CommandTemplate> setup;
  std::vector<CommandTemplate> cleanup;
  std::unique_ptr<const reward::Verifier> verifier;
  sandbox::Limits agent_limits;

  // INVALID_ARGUMENT names the template, the variable in it that is unknown, and the known ones.
  static absl::StatusOr<std::shared_ptr<const Recipe>> Make(const RecipeOptions& options);

  // `seconds` instead of the agent's own time limit, its other limits kept.
  sandbox::Limits LimitsFor(double seconds) const;
};

// The names a recipe's templates may use.
const std::vector<std::string>& RecipeVariables();

absl::StatusOr<std::vector<std::string>> RenderCommand(const CommandTemplate& command,
                                                       const sandbox::Variables& variables);

}  // namespace ingot::agents
