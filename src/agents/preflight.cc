#include "agents/preflight.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "agents/recipe.h"
#include "agents/recipe_mix.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/task_domain.h"
#include "sandbox/spawn.h"
#include "sandbox/trees/workdir.h"

namespace ingot::agents {
namespace {

namespace fs = std::filesystem;
using sandbox::Template;
using sandbox::WorkDir;

std::string CurrentFolder() {
  std::error_code error;
  return fs::current_path(error).string();
}

// Returns a fake episode that was not opened by a gateway.
v1::EpisodeOpenResponse EpisodeOf(const v1::Task& task) {
  v1::EpisodeOpenResponse episode;
  episode.set_episode_id("preflight");
  episode.set_api_key("preflight");
  *episode.mutable_task() = task;
  return episode;
}

std::string PayloadOf(const v1::Task& task) { return task.payload_json().empty() ? "{}" : task.payload_json(); }

// A recipe's template and its key.
struct NamedTemplate {
  std::string key;
  const Template* text;
};

// Returns the templates that are rendered for every episode, except the verifier's.
std::vector<NamedTemplate> TemplatesOf(const Recipe& recipe) {
  std::vector<NamedTemplate> all;
  for (const auto& [name, text] : recipe.env) all.push_back({absl::StrCat("env.", name), &text});
  for (const auto& [path, text] : recipe.files) all.push_back({absl::StrCat("files.", path), &text});
  const auto add = [&all](const std::string& key, const CommandTemplate& command) {
    for (const Template& argument : command) all.push_back({key, &argument});
  };
  for (size_t i = 0; i < recipe.setup.size(); ++i) add(absl::StrCat("setup[", i, "]"), recipe.setup[i]);
  add("command", recipe.command);
  for (size_t i = 0; i < recipe.cleanup.size(); ++i) add(absl::StrCat("cleanup[", i, "]"), recipe.cleanup[i]);
  return all;
}

reward::VerifierInput VerifierInputOf(std::string_view payload, const EpisodePlaces& places) {
  reward::VerifierInput input;
  input.task = payload;
  input.workdir = places.work;
  input.home = input.own_home = places.home;
  input.own_tmp = places.tmp;
  input.episode_id = "preflight";
  input.cwd = places.cwd;
  return input;
}

// Finds the fields that a recipe needs but a task lacks. OK = the task has everything that the recipe's templates use.
class FieldCheck {
 public:
  FieldCheck(const Recipe& recipe, EpisodePlaces places) : recipe_(recipe), places_(std::move(places)) {
    for (const NamedTemplate& named : TemplatesOf(recipe)) {
      if (named.text->Uses("task")) templates_.push_back(named);
    }
  }

  absl::Status Of(const v1::Task& task) const {
    const std::string payload = PayloadOf(task);
    const auto parsed = base::ParseJson(payload);
    if (!parsed.ok()) return base::Annotate(parsed.status(), "the task's payload");
    if (!parsed->is_object()) return absl::InvalidArgumentError("the task's payload is not a JSON object");
    sandbox::Variables variables = VariablesOf(EpisodeOf(task), payload, places_);
    INGOT_ASSIGN_OR_RETURN(const EpisodeMcp mcp, McpOf(recipe_, variables));
    variables.json.emplace("mcp", base::JsonText(mcp.text));
    for (const auto& [key, text] : templates_) {
      INGOT_RETURN_IF_ERROR(base::Annotate(text->Render(variables).status(), key));
    }
    return recipe_.verifier->Preflight(VerifierInputOf(payload, places_)).status();
  }

 private:
  const Recipe& recipe_;
  const EpisodePlaces places_;
  std::vector<NamedTemplate> templates_;
};

// Returns the tasks in a set that the recipe may run.
std::vector<const v1::Task*> TasksOf(const RunnerOptions& options, const RecipeOptions& recipe, const TaskSet& set) {
  std::map<std::string, bool> takes;  // by domain
  std::vector<const v1::Task*> tasks;
  for (const v1::Task& task : set.tasks) {
    const auto [domain, fresh] = takes.try_emplace(task.domain(), false);
    if (fresh) domain->second = TakesDomain(options.recipes, recipe, task.domain());
    if (domain->second) tasks.push_back(&task);
  }
  return tasks;
}

absl::Status CheckDomains(const RunnerOptions& options, const TaskSet& set) {
  std::set<std::string> seen;
  for (const v1::Task& task : set.tasks) {
    if (!seen.insert(task.domain()).second) continue;
    const auto takes = [&](const RecipeOptions& each) { return TakesDomain(options.recipes, each, task.domain()); };
    if (std::any_of(options.recipes.begin(), options.recipes.end(), takes)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(set.name, ": no recipe is for the domain '", base::DomainOf(task.domain()), "' of task '",
                     task.task_id(), "': add it to a recipe's `domains`, or leave one recipe's `domains` empty"));
  }
  return absl::OkStatus();
}

absl::Status CheckFields(const Recipe& recipe, const EpisodePlaces& places, const std::string& name,
                         const std::vector<const v1::Task*>& tasks) {
  const FieldCheck check(recipe, places);
  absl::Status first;
  std::string task_id;
  size_t faulty = 0;
  for (const v1::Task* const task : tasks) {
    absl::Status fault = check.Of(*task);
    if (fault.ok()) continue;
    if (faulty++ > 0) continue;
    first = std::move(fault);
    task_id = task->task_id();
  }
  if (faulty == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", first.message(), " (task '", task_id, "'; ", faulty, " of ", tasks.size(), " tasks)"));
}

bool IsInside(const std::string& path, const std::string& folder) {
  return path.starts_with(folder + "/") || path == folder;
}

// Looks for a recipe's programs, in the order an episode runs them.
class Programs {
 public:
  Programs(const WorkDir& folder, bool has_setup) : folder_(folder), has_setup_(has_setup) {}

  // `later` is true if other commands run before this one and may create its program.
  absl::Status LookFor(const std::string& key, const sandbox::Command& command, bool later) {
    absl::Status missing = sandbox::FindProgram(command).status();
    if (missing.ok()) missing = FindScript(command);
    if (missing.ok()) return missing;
    missing = base::Annotate(missing, key);
    if (!later) return missing;
    if (MayBeMade(command)) return absl::OkStatus();  // in the episode's own folder, which is created for it
    if (!has_setup_) return missing;
    warnings_.push_back(absl::StrCat(missing.message(), ", unless an earlier command in the recipe creates it"));
    return absl::OkStatus();
  }

  std::vector<std::string> TakeWarnings() { return std::move(warnings_); }

 private:
  // Finds an interpreter's script: the first argument that is not an option, if it looks like a script name.
  static absl::Status FindScript(const sandbox::Command& command) {
    static constexpr std::array kInterpreters = {"python", "node", "bash", "sh", "ruby", "perl", "deno", "bun"};
    static constexpr std::array kEndings = {".py", ".js", ".mjs", ".ts", ".sh", ".rb", ".pl"};
    const std::string name = fs::path(command.argv[0]).filename();
    const auto begins = [&name](std::string_view with) { return name.starts_with(with); };
    if (std::none_of(kInterpreters.begin(), kInterpreters.end(), begins)) return absl::OkStatus();
    for (size_t i = 1; i < command.argv.size(); ++i) {
      const std::string& word = command.argv[i];
      if (word == "-c" || word == "-m" || word == "-e" || word == "--eval") return absl::OkStatus();
      if (word.starts_with("-")) continue;
      const auto ends = [&word](std::string_view with) { return word.ends_with(with); };
      if (std::none_of(kEndings.begin(), kEndings.end(), ends)) return absl::OkStatus();
      std::error_code none;
      const fs::path path = fs::path(command.working_dir) / word;  // an absolute word is unchanged
      if (fs::exists(path, none)) return absl::OkStatus();
      return absl::NotFoundError(absl::StrCat("cannot find '", word, "' for ", command.argv[0], " to run",
                                              word.front() == '/' ? "" : "; relative paths begin in ${workdir}"));
    }
    return absl::OkStatus();
  }

  // Returns true if the command's program may be in the episode's folder, given its path, PATH, or arguments.
  bool MayBeMade(const sandbox::Command& command) const {
    const auto inside = [this](const std::string& path) { return IsInside(path, folder_.path()); };
    for (const std::string& word : command.argv) {
      if (inside(word)) return true;
    }
    const std::string& program = command.argv[0];
    if (program.empty()) return false;
    if (program.front() != '/' && program.find('/') != std::string::npos) return true;
    const std::string script = command.argv.size() > 1 ? command.argv[1] : "";
    if (!script.empty() && script.front() != '/' && script.front() != '-') return true;
    const auto path = command.env.find("PATH");
    return program.find('/') == std::string::npos && path != command.env.end() &&
           path->second.find(folder_.path()) != std::string::npos;
  }

  const WorkDir& folder_;
  const bool has_setup_;
  std::vector<std::string> warnings_;
};

// Creates one episode's folder and files, renders its commands, and looks for their programs.
absl::StatusOr<std::vector<std::string>> PreflightEpisode(const Recipe& recipe, const WorkDir& folder,
                                                          const EpisodePlaces& places, const v1::Task& task) {
  const v1::EpisodeOpenResponse episode = EpisodeOf(task);
  const std::string payload = PayloadOf(task);
  sandbox::Variables variables = VariablesOf(episode, payload, places);
  INGOT_ASSIGN_OR_RETURN(const EpisodeMcp mcp, McpOf(recipe, variables));
  variables.json.emplace("mcp", base::JsonText(mcp.text));
  INGOT_ASSIGN_OR_RETURN(const auto env, EnvironmentOf(recipe, episode, places, variables));
  for (const auto& [path, text] : recipe.files) {
    INGOT_ASSIGN_OR_RETURN(const std::string content, text.Render(variables));
    INGOT_RETURN_IF_ERROR(base::Annotate(folder.WriteFile(path, content), "files"));
  }
  Programs programs(folder, !recipe.setup.empty());
  const auto look = [&](const std::string& key, const CommandTemplate& command, bool later) -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(auto argv, RenderCommand(command, variables));
    if (!recipe.options.image.empty()) return absl::OkStatus();  // the image's programs are not checked
    return programs.LookFor(key, {.argv = std::move(argv), .env = env, .working_dir = places.work, .stdin_text = ""},
                            later);
  };
  for (size_t i = 0; i < recipe.setup.size(); ++i) {
    INGOT_RETURN_IF_ERROR(look(absl::StrCat("setup[", i, "]"), recipe.setup[i], i > 0));
  }
  for (const auto& [list, servers] : {std::pair("mcp '", &mcp.servers), {"services '", &mcp.services}}) {
    for (const StartedMcpServer& server : *servers) {
      if (!recipe.options.image.empty() || server.argv.empty()) continue;
      INGOT_RETURN_IF_ERROR(programs.LookFor(
          absl::StrCat(list, server.name, "'"),
          {.argv = server.argv, .env = env, .working_dir = places.work, .stdin_text = ""}, !recipe.setup.empty()));
    }
  }
  INGOT_RETURN_IF_ERROR(look("command", recipe.command, !recipe.setup.empty()));
  INGOT_ASSIGN_OR_RETURN(const sandbox::Command verifier, recipe.verifier->Preflight(VerifierInputOf(payload, places)));
  if (!verifier.argv.empty()) {
    const absl::Status found = programs.LookFor(reward::ProgramKey(recipe.options.verifier), verifier, true);
    if (!found.ok()) {
      return absl::Status(found.code(), absl::StrCat(found.message(), reward::ProgramAdvice(recipe.options.verifier)));
    }
  }
  for (size_t i = 0; i < recipe.cleanup.size(); ++i) {
    INGOT_RETURN_IF_ERROR(look(absl::StrCat("cleanup[", i, "]"), recipe.cleanup[i], true));
  }
  return programs.TakeWarnings();
}

// Warns about a file system that does not allow running programs.
void WarnOfNoExec(const RunnerOptions& options, std::vector<std::string>& warnings) {
  struct statvfs info;
  if (statvfs(options.work_root.c_str(), &info) != 0 || (info.f_flag & ST_NOEXEC) == 0) return;
  warnings.push_back(absl::StrCat("agents.work_root is ", options.work_root,
                                  ", on a file system that does not allow programs (noexec), so agents cannot execute "
                                  "files in their work folder; choose another folder if they need to"));
}

absl::StatusOr<WorkDir> MakeFolder(const RunnerOptions& options) {
  const auto named = [&](const absl::Status& status) {
    return base::Annotate(status, absl::StrCat("agents.work_root is ", options.work_root));
  };
  absl::StatusOr<WorkDir> folder = WorkDir::Create(options.work_root);
  if (!folder.ok()) return named(folder.status());
  if (const absl::Status written = folder->WriteFile("preflight", "a file"); !written.ok()) return named(written);
  return folder;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> Preflight(const RunnerOptions& options, std::span<const TaskSet> sets) {
  std::vector<std::string> warnings;
  if (options.recipes.empty()) return warnings;
  INGOT_RETURN_IF_ERROR(MakeFolder(options).status());
  for (const TaskSet& set : sets) INGOT_RETURN_IF_ERROR(CheckDomains(options, set));
  for (const RecipeOptions& recipe_options : options.recipes) {
    const auto run = [&]() -> absl::Status {
      INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const Recipe> recipe, Recipe::Make(recipe_options));
      INGOT_ASSIGN_OR_RETURN(const WorkDir folder, MakeFolder(options));
      const EpisodePlaces places = {.work = folder.work(),
                                    .home = folder.home(),
                                    .tmp = folder.tmp(),
                                    .cwd = CurrentFolder(),
                                    .base_url = "http://127.0.0.1:0/s/preflight/v1"};
      const v1::Task* first = nullptr;
      for (const TaskSet& set : sets) {
        const auto tasks = TasksOf(options, recipe_options, set);
        INGOT_RETURN_IF_ERROR(CheckFields(*recipe, places, set.name, tasks));
        if (first == nullptr && !tasks.empty()) first = tasks.front();
      }
      if (first == nullptr) return absl::OkStatus();
      INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> own, PreflightEpisode(*recipe, folder, places, *first));
      for (const std::string& warning : own)
        warnings.push_back(absl::StrCat("recipe '", recipe_options.name, "': ", warning));
      return absl::OkStatus();
    };
    INGOT_RETURN_IF_ERROR(base::Annotate(run(), absl::StrCat("recipe '", recipe_options.name, "'")));
  }
  WarnOfNoExec(options, warnings);
  return warnings;
}

std::string ShownText(const RecipeOptions& recipe, const v1::Task& task) {
  const std::string payload = PayloadOf(task);
  if (!base::ParseJson(payload).ok()) return "";
  std::string longest;
  const auto add = [&](const std::string& text) {
    for (const auto& [name, value] : base::JsonText(payload).fields()) {
      if (!value.is_string() || text.find(absl::StrCat("task.", name, "}")) == std::string::npos) continue;
      if (std::string shown = value.string(); shown.size() > longest.size()) longest = std::move(shown);
    }
  };
  for (const std::string& argument : recipe.command) add(argument);
  for (const auto& [name, text] : recipe.env) add(text);
  for (const auto& [path, text] : recipe.files) add(text);
  return longest;
}

}  // namespace ingot::agents
