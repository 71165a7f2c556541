#include "dataset/harbor.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

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
  if (environment["os"].value_or(std::string("linux")) == "windows") return "it asks for Windows";
  const std::string network = environment["network_mode"].value_or(std::string());
  const bool allows = environment["allow_internet"].value_or(false);
  if (network == "public" || network == "allowlist" || (network.empty() && allows)) {
    return "it asks for a network beyond the gateway (environment.network_mode)";
  }
  if (const auto* const servers = environment["mcp_servers"].as_array(); servers != nullptr && !servers->empty()) {
    return "it asks for MCP servers (environment.mcp_servers)";
  }
  return "";
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
  v1::Task made;
  made.set_task_id(folder.filename().string());
  made.set_domain(task["metadata"]["category"].value_or(std::string()));
  made.set_payload_json(base::PrintJson({{"instruction", *instruction},
                                         {"task_dir", folder.string()},
                                         {"tests_dir", (folder / "tests").string()},
                                         {"image", image},
                                         {"agent_timeout_s", task["agent"]["timeout_sec"].value_or(600.0)},
                                         {"verifier_timeout_s", task["verifier"]["timeout_sec"].value_or(600.0)},
                                         {"cpus", environment["cpus"].value_or(1.0)},
                                         {"memory_mb", environment["memory_mb"].value_or(int64_t{2048})},
                                         {"storage_mb", environment["storage_mb"].value_or(int64_t{10240})}}));
  return made;
}

void Add(const fs::path& folder, HarborFolder& read) {
  const std::string name = folder.filename().string();
  try {
    const toml::table table = toml::parse_file((folder / "task.toml").string());
    auto task = ReadTask(folder, table);
    if (task.ok()) {
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
