#include "dataset/harbor.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/json.h"
#include "base/printable.h"
#include "dataset/harbor_toml.h"
#include "dataset/task_folder.h"
#include "text/unicode/unicode.h"

namespace ingot::dataset {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestInstruction = 16 << 20;  // in bytes
constexpr int64_t kLargestToml = 1 << 20;

absl::StatusOr<std::string> ReadInstruction(const TaskFolder& files) {
  auto text = files.Read("instruction.md", kLargestInstruction);
  if (absl::IsNotFound(text.status())) return absl::InvalidArgumentError("it has no instruction.md");
  INGOT_RETURN_IF_ERROR(text.status());
  if (!text::IsValidUtf8(*text)) return absl::InvalidArgumentError("its instruction.md is not UTF-8");
  if (absl::StripAsciiWhitespace(*text).empty()) return absl::InvalidArgumentError("its instruction.md is empty");
  return text;
}

absl::StatusOr<std::string> ImageOf(const TaskFolder& files, const std::string& docker_image) {
  if (!docker_image.empty()) return "docker://" + docker_image;
  INGOT_ASSIGN_OR_RETURN(const bool builds, files.HasFile("environment/Dockerfile"));
  if (!builds) return absl::InvalidArgumentError("it has neither environment.docker_image nor environment/Dockerfile");
  INGOT_ASSIGN_OR_RETURN(const std::string folder, files.PathOf("environment"));
  return "dockerfile:" + folder;
}

// Returns INVALID_ARGUMENT if the files point outside the folder, block a reader, or need features that sandboxes lack.
absl::Status CheckFiles(const TaskFolder& files) {
  for (const char* const folder : {"tests", "solution"})
    INGOT_RETURN_IF_ERROR(files.CheckFolder(folder, Links::kInside));
  // A build resolves links inside the folder, but these files are read before that.
  INGOT_RETURN_IF_ERROR(files.CheckFolder("environment", Links::kAny));
  for (const char* const file : {"Dockerfile", "Containerfile", ".dockerignore", ".containerignore"}) {
    INGOT_RETURN_IF_ERROR(files.HasFile(absl::StrCat("environment/", file)).status());
  }
  for (const char* const file : {"docker-compose.yaml", "docker-compose.yml", "compose.yaml"}) {
    INGOT_ASSIGN_OR_RETURN(const bool composes, files.Has(absl::StrCat("environment/", file)));
    if (composes) return absl::InvalidArgumentError("it needs multiple containers (compose)");
  }
  INGOT_ASSIGN_OR_RETURN(const bool has_steps, files.Has("steps"));
  if (has_steps) return absl::InvalidArgumentError("it has multiple steps");
  return absl::OkStatus();
}

absl::StatusOr<v1::Task> ReadTask(const fs::path& folder, HarborToml& toml) {
  if (!text::IsValidUtf8(folder.string())) return absl::InvalidArgumentError("its path is not UTF-8");
  INGOT_ASSIGN_OR_RETURN(const TaskFolder files, TaskFolder::Open(folder.string()));
  const auto text = files.Read("task.toml", kLargestToml);
  if (absl::IsNotFound(text.status())) return absl::InvalidArgumentError("it has no task.toml");
  INGOT_RETURN_IF_ERROR(text.status());
  INGOT_RETURN_IF_ERROR(ReadHarborToml(*text, toml));
  INGOT_RETURN_IF_ERROR(CheckFiles(files));
  INGOT_ASSIGN_OR_RETURN(const std::string instruction, ReadInstruction(files));
  INGOT_ASSIGN_OR_RETURN(const bool is_judged, files.HasFile("tests/test.sh"));
  if (!is_judged) return absl::InvalidArgumentError("it has no tests/test.sh");
  INGOT_ASSIGN_OR_RETURN(const std::string tests, files.PathOf("tests"));
  INGOT_ASSIGN_OR_RETURN(const std::string image, ImageOf(files, toml.docker_image));
  base::json::object payload{
      {"instruction", instruction}, {"task_dir", folder.string()}, {"tests_dir", tests}, {"image", image}};
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
  read.rejected.push_back({.name = name, .text = base::Printable(std::string(task.status().message()))});
}

// Returns whether a folder may be a task. An unreadable folder may be one. A link counts as a file.
bool MayBeTask(const fs::path& folder) {
  for (const char* const file : {"task.toml", "instruction.md"}) {
    std::error_code error;
    const fs::file_status found = fs::symlink_status(folder / file, error);
    const bool is_missing = found.type() == fs::file_type::not_found || error == std::errc::not_a_directory;
    if (!is_missing) return true;
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
  const bool is_task = fs::exists(fs::symlink_status(root / "task.toml", error));
  if (is_task) folders.push_back(root);
  for (fs::directory_iterator it(root, error), end; !is_task && !error && it != end; it.increment(error)) {
    if (MayBeTask(it->path())) folders.push_back(it->path());
  }
  if (error) return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", error.message()));
  if (folders.empty() && MayBeTask(root)) folders.push_back(root);
  if (folders.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": none of its folders has a task.toml, which every Harbor task needs"));
  }
  std::sort(folders.begin(), folders.end());
  HarborFolder read;
  for (const fs::path& folder : folders) Add(folder, read);
  return read;
}

}  // namespace ingot::dataset
