#include "dataset/harbor.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/numbers.h"
#include "base/json.h"

namespace ingot::dataset {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Variables with "${NAME:-default}" get the default: rooms have nothing of the machine's environment. INVALID_ARGUMENT names
// a variable without one.
absl::StatusOr<base::json::object> Variables(const toml::table& task, const std::string& section) {
  base::json::object variables;
  const toml::table* const table = task[section]["env"].as_table();
  if (table == nullptr) return variables;
  for (const auto& [name, node] : *table) {
    std::string text = node.value_or(std::string());
    for (size_t at; (at = text.find("${")) != std::string::npos;) {
      const size_t end = text.find('}', at);
      const size_t fallback = text.find(":-", at);
      if (end == std::string::npos || fallback == std::string::npos || fallback > end) {
        return absl::InvalidArgumentError(
            absl::StrCat("it asks for a variable of this machine (", section, ".env.", std::string(name.str()), ")"));
      }
      // What stands in the place of a variable is no template.
      const std::string before = text.substr(0, at), inside = text.substr(fallback + 2, end - fallback - 2);
      if (inside.find("${") != std::string::npos)
        return absl::InvalidArgumentError(absl::StrCat(section, ".env has a variable inside another one"));
      text = before + inside + text.substr(end + 1);
    }
    variables[std::string(name.str())] = text;
  }
  return variables;
}

// Why rooms cannot give what the task's network policies ask for; "" = they ask for none.
std::string NetworkRefusal(const toml::table& task) {
  for (const char* const section : {"environment", "agent", "verifier"}) {
    const std::string mode = task[section]["network_mode"].value_or(std::string());
    const bool allows = mode.empty() && task[section]["allow_internet"].value_or(false);
    if (mode == "public" || mode == "allowlist" || allows)
      return absl::StrCat("it asks for a network beyond the gateway (", section, ".network_mode)");
  }
  return "";
}

// "" or why rooms cannot give it.
std::string Refusal(const fs::path& folder, const toml::table& task) {
  const toml::node_view environment = task["environment"];
  std::error_code error;
  for (const char* const file : {"docker-compose.yaml", "docker-compose.yml", "compose.yaml"}) {
    if (fs::exists(folder / "environment" / file, error)) return "it asks for several containers (compose)";
  }
  if (fs::is_directory(folder / "steps", error)) return "it has several steps";
  const char* const mode = task["verifier"]["environment"].is_table() ? "separate" : "shared";
  if (task["verifier"]["environment_mode"].value_or(std::string(mode)) == "separate") {
    return "its tests want an environment of their own (verifier.environment)";
  }
  for (const char* const key : {"gpus", "tpus"}) {
    if (environment[key].value_or(int64_t{0}) > 0) return absl::StrCat("it asks for environment.", key);
  }
  if (environment["tpu"].is_table()) return "it asks for environment.tpu";
  if (environment["os"].value_or(std::string("linux")) == "windows") return "it asks for Windows";
  if (const auto* const servers = environment["mcp_servers"].as_array(); servers != nullptr && !servers->empty()) {
    return "it asks for MCP servers (environment.mcp_servers)";
  }
  if (const auto* const collect = task["verifier"]["collect"].as_array(); collect != nullptr && !collect->empty()) {
    return "it asks for commands between agent and tests (verifier.collect)";
  }
  return NetworkRefusal(task);
}

// Fields that are not honoured though the task runs, with what is done instead.
std::vector<std::string> NotesOf(const toml::table& task) {
  std::vector<std::string> notes;
  for (const char* const section : {"agent", "verifier"}) {
    const toml::node_view user = task[section]["user"];
    const std::string name = user.value_or(std::string());
    const bool is_root = !user || name == "root" || name == "0" || user.value_or(int64_t{-1}) == 0;
    if (!is_root) {
      notes.push_back(absl::StrCat(section, ".user: commands run as the room's only user, which they see as root"));
    }
  }
  if (task["environment"]["build_timeout_sec"])
    notes.push_back("environment.build_timeout_sec: a build may take half an hour");
  if (task["environment"]["skills_dir"])
    notes.push_back("environment.skills_dir: agents get their configuration from the recipe alone");
  if (const auto* const list = task["artifacts"].as_array(); list != nullptr && !list->empty())
    notes.push_back("artifacts: files of a room are not kept");
  return notes;
}

// "2G", "512M" or "4096K", as older tasks have it; 0 = anything else.
double LegacyMegabytes(std::string text) {
  const char unit = text.empty() ? ' ' : text.back();
  double number = 0;
  if (!text.empty()) text.pop_back();
  if (!absl::SimpleAtod(text, &number)) return 0;
  return unit == 'G' || unit == 'g'   ? number * 1024
         : unit == 'M' || unit == 'm' ? number
         : unit == 'K' || unit == 'k' ? number / 1024
                                      : 0;
}

// Adds the numbers that the task names.
void AddLimits(const toml::table& task, base::json::object& payload) {
  const auto add = [&](const char* name, const toml::node_view<const toml::node> node) {
    if (const auto number = node.value<double>(); number.has_value()) payload[name] = *number;
  };
  add("agent_timeout_s", task["agent"]["timeout_sec"]);
  add("verifier_timeout_s", task["verifier"]["timeout_sec"]);
  const toml::node_view environment = task["environment"];
  add("cpus", environment["cpus"]);
  for (const char* const kind : {"memory", "storage"}) {
    const std::string name = absl::StrCat(kind, "_mb");
    add(name.c_str(), environment[name]);
    const double legacy = LegacyMegabytes(environment[kind].value_or(std::string()));
    if (legacy > 0) payload.emplace(name, legacy);
  }
  const toml::node_view check = environment["healthcheck"];
  if (!check.is_table()) return;
  base::json::object health{{"command", check["command"].value_or(std::string())}};
  for (const char* const name : {"interval", "timeout", "start_period", "start_interval"}) {
    if (const auto seconds = check[absl::StrCat(name, "_sec")].value<double>())
      health[absl::StrCat(name, "_s")] = *seconds;
  }
  if (const auto retries = check["retries"].value<int64_t>()) health["retries"] = *retries;
  payload["healthcheck"] = std::move(health);
}

absl::StatusOr<v1::Task> ReadTask(const fs::path& folder, const toml::table& task) {
  const auto instruction = ReadText(folder / "instruction.md");
  if (!instruction.has_value()) return absl::InvalidArgumentError("it has no instruction.md");
  std::error_code error;
  if (!fs::exists(folder / "tests" / "test.sh", error)) return absl::InvalidArgumentError("it has no tests/test.sh");
  const toml::node_view environment = task["environment"];
  std::string image;
  if (const auto name = environment["docker_image"].value<std::string>(); name.has_value() && !name->empty()) {
    image = "docker://" + *name;
  } else if (fs::exists(folder / "environment" / "Dockerfile", error)) {
    image = "dockerfile:" + (folder / "environment").string();
  } else {
    return absl::InvalidArgumentError("it has neither environment.docker_image nor environment/Dockerfile");
  }
  if (const std::string refusal = Refusal(folder, task); !refusal.empty()) return absl::InvalidArgumentError(refusal);
  base::json::object payload{{"instruction", *instruction},
                             {"task_dir", folder.string()},
                             {"tests_dir", (folder / "tests").string()},
                             {"image", image}};
  AddLimits(task, payload);
  for (const auto& [section, name] :
       {std::pair("environment", "env"), {"verifier", "verifier_env"}, {"solution", "solution_env"}}) {
    INGOT_ASSIGN_OR_RETURN(base::json::object variables, Variables(task, section));
    if (!variables.empty()) payload[name] = std::move(variables);
  }
  if (const std::string workdir = environment["workdir"].value_or(std::string()); !workdir.empty()) {
    if (!workdir.starts_with('/')) return absl::InvalidArgumentError("environment.workdir is no absolute path");
    payload["workdir"] = workdir;
  }
  v1::Task made;
  made.set_task_id(folder.filename().string());
  made.set_domain(task["metadata"]["category"].value_or(std::string()));
  made.set_payload_json(base::PrintJson(payload));
  return made;
}

void Add(const fs::path& folder, HarborFolder& read) {
  const std::string name = folder.filename().string();
  try {
    const toml::table table = toml::parse_file((folder / "task.toml").string());
    auto task = ReadTask(folder, table);
    if (task.ok()) {
      for (std::string& note : NotesOf(table)) read.notes.push_back({name, std::move(note)});
      read.tasks.push_back(*std::move(task));
    } else {
      read.refused.push_back({name, std::string(task.status().message())});
    }
  } catch (const toml::parse_error& error) {
    read.refused.push_back({name, absl::StrCat("task.toml, line ", static_cast<int>(error.source().begin.line), ": ",
                                               std::string(error.description()))});
  }
}

}  // namespace

bool IsHarborFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

absl::StatusOr<HarborFolder> ReadHarborFolder(const std::string& path) {
  std::error_code error;
  const fs::path root = fs::canonical(path, error);
  if (error) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", error.message()));
  HarborFolder read;
  if (fs::exists(root / "task.toml", error)) {
    Add(root, read);
    return read;
  }
  std::vector<fs::path> folders;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (fs::exists(it->path() / "task.toml")) folders.push_back(it->path());
  }
  if (folders.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no folder in it has a task.toml, as Harbor's tasks do"));
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) Add(folder, read);
  return read;
}

}  // namespace ingot::dataset
