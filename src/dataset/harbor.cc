#include "dataset/harbor.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "dataset/harbor_toml.h"
#include "text/unicode.h"

namespace ingot::dataset {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestText = 16 << 20;  // of instruction.md and task.toml, bytes

// UNAVAILABLE: a folder above it is closed, or the like. Files that are not there are no error.
absl::StatusOr<bool> Exists(const fs::path& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot read ", path.string(), ": ", error.message()));
  return exists;
}

absl::StatusOr<std::string> ReadInstruction(const fs::path& folder) {
  auto text = base::ReadFile((folder / "instruction.md").string(), kLargestText);
  if (absl::IsNotFound(text.status())) return absl::InvalidArgumentError("it has no instruction.md");
  INGOT_RETURN_IF_ERROR(text.status());
  if (!text::IsValidUtf8(*text)) return absl::InvalidArgumentError("its instruction.md is not UTF-8");
  if (absl::StripAsciiWhitespace(*text).empty()) return absl::InvalidArgumentError("its instruction.md is empty");
  return text;
}

absl::StatusOr<std::string> ImageOf(const fs::path& folder, const std::string& docker_image) {
  if (!docker_image.empty()) return "docker://" + docker_image;
  INGOT_ASSIGN_OR_RETURN(const bool builds, Exists(folder / "environment" / "Dockerfile"));
  if (builds) return "dockerfile:" + (folder / "environment").string();
  return absl::InvalidArgumentError("it has neither environment.docker_image nor environment/Dockerfile");
}

// INVALID_ARGUMENT: its files ask for what rooms cannot give.
absl::Status CheckFiles(const fs::path& folder) {
  for (const char* const file : {"docker-compose.yaml", "docker-compose.yml", "compose.yaml"}) {
    INGOT_ASSIGN_OR_RETURN(const bool composes, Exists(folder / "environment" / file));
    if (composes) return absl::InvalidArgumentError("it asks for several containers (compose)");
  }
  INGOT_ASSIGN_OR_RETURN(const bool has_steps, Exists(folder / "steps"));
  if (has_steps) return absl::InvalidArgumentError("it has several steps");
  return absl::OkStatus();
}

absl::StatusOr<v1::Task> ReadTask(const fs::path& folder, HarborToml& toml) {
  if (!text::IsValidUtf8(folder.string())) return absl::InvalidArgumentError("its path is not UTF-8");
  const auto text = base::ReadFile((folder / "task.toml").string(), kLargestText);
  if (absl::IsNotFound(text.status())) return absl::InvalidArgumentError("it has no task.toml");
  INGOT_RETURN_IF_ERROR(text.status());
  INGOT_RETURN_IF_ERROR(ReadHarborToml(*text, toml));
  INGOT_RETURN_IF_ERROR(CheckFiles(folder));
  INGOT_ASSIGN_OR_RETURN(const std::string instruction, ReadInstruction(folder));
  INGOT_ASSIGN_OR_RETURN(const bool is_judged, Exists(folder / "tests" / "test.sh"));
  if (!is_judged) return absl::InvalidArgumentError("it has no tests/test.sh");
  INGOT_ASSIGN_OR_RETURN(const std::string image, ImageOf(folder, toml.docker_image));
  base::json::object payload{{"instruction", instruction},
                             {"task_dir", folder.string()},
                             {"tests_dir", (folder / "tests").string()},
                             {"image", image}};
  for (auto& [name, value] : toml.payload) payload[name] = std::move(value);
  v1::Task made;
  made.set_task_id(folder.filename().string());
  made.set_domain(toml.domain);
  made.set_payload_json(base::PrintJson(payload));
  return made;
}

void Add(const fs::path& folder, HarborFolder& read) {
  const std::string name = base::Printable(folder.filename().string());
  HarborToml toml;
  auto task = ReadTask(folder, toml);
  for (const std::string& note : toml.notes) read.notes.push_back({name, base::Printable(note)});
  if (task.ok()) return read.tasks.push_back(*std::move(task));
  read.refused.push_back({.name = name, .text = base::Printable(std::string(task.status().message()))});
}

// A folder that cannot be looked into may be one.
bool MayBeTask(const fs::path& folder) {
  for (const char* const file : {"task.toml", "instruction.md"}) {
    const auto exists = Exists(folder / file);
    if (!exists.ok() || *exists) return true;
  }
  return false;
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
  std::vector<fs::path> folders;
  const bool is_task = fs::exists(root / "task.toml", error);
  if (is_task) folders.push_back(root);
  for (fs::directory_iterator it(root, error), end; !is_task && !error && it != end; it.increment(error)) {
    if (MayBeTask(it->path())) folders.push_back(it->path());
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", error.message()));
  if (folders.empty() && MayBeTask(root)) folders.push_back(root);
  if (folders.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no folder in it has a task.toml, as Harbor's tasks do"));
  }
  std::sort(folders.begin(), folders.end());
  HarborFolder read;
  for (const fs::path& folder : folders) Add(folder, read);
  return read;
}

}  // namespace ingot::dataset
