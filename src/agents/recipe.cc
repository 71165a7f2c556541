#include "agents/recipe.h"

namespace ingot::agents {
namespace {

using sandbox::Template;

absl::StatusOr<CommandTemplate> ParseCommand(const std::vector<std::string>& argv, const std::string& name) {
  if (argv.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is empty: it needs at least a program to run"));
  }
  CommandTemplate parsed;
  for (const std::string& argument : argv) {
    auto text = Template::Parse(argument, RecipeVariables());
    if (!text.ok()) return base::Annotate(text.status(), name);
    parsed.push_back(std::move(*text));
  }
  return parsed;
}

absl::StatusOr<std::map<std::string, Template>> ParseMap(const std::map<std::string, std::string>& texts,
                                                         const std::string& name) {
  std::map<std::string, Template> parsed;
  for (const auto& [key, text] : texts) {
    auto value = Template::Parse(text, RecipeVariables());
    if (!value.ok()) return base::Annotate(value.status(), absl::StrCat(name, ".", key));
    parsed.emplace(key, std::move(*value));
  }
  return parsed;
}

absl::StatusOr<std::vector<CommandTemplate>> ParseSteps(const std::vector<StepOptions>& steps,
                                                        const std::string& name) {
  std::vector<CommandTemplate> parsed;
  for (size_t i = 0; i < steps.size(); ++i) {
    INGOT_ASSIGN_OR_RETURN(CommandTemplate command, ParseCommand(steps[i].command, absl::StrCat(name, "[", i, "]")));
    parsed.push_back(std::move(command));
  }
  return parsed;
}

std::vector<std::string> OfEpisode(std::vector<std::string> further) {
  std::vector<std::string> names = {"base_url", "api_key",    "task", "task.", "task_id",
                                    "workdir",  "episode_id", "home", "cwd"};
  names.insert(names.end(), further.begin(), further.end());
  return names;
}

std::string PurposeName(v1::EpisodePurpose purpose) {
  return purpose == v1::PURPOSE_EVAL ? "eval" : purpose == v1::PURPOSE_SERVE ? "serve" : "train";
}

}  // namespace

std::vector<sandbox::Program> ProgramsOf(const std::vector<RecipeOptions>& recipes, const std::string& cwd) {
  const sandbox::Variables fixed{.text = {{"cwd", cwd}}, .json = {}};
  std::vector<sandbox::Program> programs;
  for (const RecipeOptions& recipe : recipes) {
    if (!recipe.image.empty()) continue;  // its programs are in the image
    const std::string path = sandbox::SearchPath(sandbox::InheritedEnvironment(recipe.inherit_env));
    const auto add = [&](const std::string& key, const std::vector<std::string>& argv) {
      sandbox::Program program{absl::StrCat("agents.recipes '", recipe.name, "' ", key), {}, path};
      for (const std::string& argument : argv) {
        const auto text = Template::Parse(argument, RecipeVariables());
        const auto rendered = text.ok() ? text->Render(fixed) : text.status();
        program.argv.push_back(rendered.ok() ? *rendered : "");  // differs between episodes
      }
      programs.push_back(std::move(program));
    };
    add("command", recipe.command);
    for (const McpServerOptions& server : recipe.mcp) {
      if (!server.command.empty()) add(absl::StrCat("mcp '", server.name, "'"), server.command);
    }
    for (const ServiceOptions& service : recipe.services)
      add(absl::StrCat("services '", service.name, "'"), service.command);
    for (const StepOptions& step : recipe.setup) add("setup", step.command);
    for (const StepOptions& step : recipe.cleanup) add("cleanup", step.command);
    const reward::VerifierOptions& verifier = recipe.verifier;
    if (verifier.kind == "command") add(reward::ProgramKey(verifier), verifier.command);
    if (verifier.kind == "code") add(reward::ProgramKey(verifier), verifier.code.command);
    if (verifier.kind == "python") {
      const std::string& named = verifier.python.interpreter;
      add(reward::ProgramKey(verifier), {named.empty() ? reward::UserPython() : named});
    }
    if (verifier.kind == "math") add(reward::ProgramKey(verifier), {verifier.math.python});
  }
  return programs;
}

const std::vector<std::string>& RecipeVariables() {
  static const auto* const names = new std::vector<std::string>(OfEpisode({"mcp."}));
  return *names;
}

absl::StatusOr<std::shared_ptr<const Recipe>> Recipe::Make(const RecipeOptions& options) {
  auto recipe = std::make_shared<Recipe>();
  recipe->options = options;
  INGOT_ASSIGN_OR_RETURN(recipe->command, ParseCommand(options.command, "command"));
  auto image = Template::Parse(options.image, RecipeVariables());
  if (!image.ok()) return base::Annotate(image.status(), "image");
  recipe->image = *std::move(image);
  INGOT_ASSIGN_OR_RETURN(recipe->env, ParseMap(options.env, "env"));
  INGOT_ASSIGN_OR_RETURN(recipe->files, ParseMap(options.files, "files"));
  INGOT_ASSIGN_OR_RETURN(recipe->mcp, ParseMcpServers(options.mcp, OfEpisode({})));
  INGOT_ASSIGN_OR_RETURN(recipe->services, ParseServices(options.services, OfEpisode({})));
  INGOT_ASSIGN_OR_RETURN(recipe->setup, ParseSteps(options.setup, "setup"));
  INGOT_ASSIGN_OR_RETURN(recipe->cleanup, ParseSteps(options.cleanup, "cleanup"));
  INGOT_ASSIGN_OR_RETURN(recipe->verifier, reward::Verifier::Make(options.verifier));
  recipe->agent_limits.output_bytes = options.max_output_bytes;
  recipe->agent_limits.memory_bytes = options.memory_limit_bytes;
  recipe->agent_limits.open_files = options.max_open_files;
  recipe->agent_limits.cpu_seconds = options.cpu_limit_s;
  recipe->agent_limits.file_bytes = options.max_file_bytes;
  recipe->agent_limits = recipe->LimitsFor(options.timeout_s);
  INGOT_RETURN_IF_ERROR(recipe->agent_limits.Validate());
  return recipe;
}

sandbox::Limits Recipe::LimitsFor(double seconds) const {
  sandbox::Limits limits = agent_limits;
  limits.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  return limits;
}

sandbox::Variables VariablesOf(const v1::EpisodeOpenResponse& episode, std::string_view task,
                               const EpisodePlaces& places) {
  return {.text = {{"base_url", places.base_url},
                   {"api_key", episode.api_key()},
                   {"task_id", episode.task().task_id()},
                   {"episode_id", episode.episode_id()},
                   {"workdir", places.work},
                   {"home", places.home},
                   {"cwd", places.cwd}},
          .json = {{"task", base::JsonText(task)}}};
}

absl::StatusOr<EpisodeMcp> McpOf(const Recipe& recipe, const sandbox::Variables& variables) {
  EpisodeMcp mcp;
  INGOT_ASSIGN_OR_RETURN(mcp.servers, RenderMcpServers(recipe.mcp, variables));
  INGOT_ASSIGN_OR_RETURN(mcp.services, RenderMcpServers(recipe.services, variables));
  mcp.text = base::PrintJson(McpConfigurations(mcp.servers));
  return mcp;
}

absl::StatusOr<std::map<std::string, std::string>> EnvironmentOf(const Recipe& recipe,
                                                                 const v1::EpisodeOpenResponse& episode,
                                                                 const EpisodePlaces& places,
                                                                 const sandbox::Variables& variables) {
  std::map<std::string, std::string> env = sandbox::InheritedEnvironment(recipe.options.inherit_env);
  env["HOME"] = places.home;
  env["TMPDIR"] = places.tmp;
  env["OPENAI_BASE_URL"] = places.base_url;
  env["OPENAI_API_KEY"] = episode.api_key();
  env["INGOT_EPISODE_ID"] = episode.episode_id();
  env["INGOT_TASK_ID"] = episode.task().task_id();
  env["INGOT_PURPOSE"] = PurposeName(episode.purpose());
  for (const auto& [name, text] : recipe.env) {
    auto value = text.Render(variables);
    if (!value.ok()) return base::Annotate(value.status(), absl::StrCat("env.", name));
    env[name] = *std::move(value);
  }
  return env;
}

absl::StatusOr<std::vector<std::string>> RenderCommand(const CommandTemplate& command,
                                                       const sandbox::Variables& variables) {
  std::vector<std::string> argv;
  for (const Template& argument : command) {
    INGOT_ASSIGN_OR_RETURN(std::string text, argument.Render(variables));
    argv.push_back(std::move(text));
  }
  return argv;
}

}  // namespace ingot::agents
