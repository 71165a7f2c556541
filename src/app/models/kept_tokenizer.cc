#include "app/models/kept_tokenizer.h"

#include <filesystem>
#include <map>
#include <system_error>

#include "base/file.h"
#include "base/json.h"
#include "base/written_files.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "/tokenizer";
constexpr char kDraft[] = "/tokenizer.new";
constexpr char kAside[] = "/tokenizer.old";
constexpr char kSource[] = "source.json";
constexpr char kModelPath[] = "model_path";

absl::Status Failed(const char* what, const fs::path& path, const std::error_code& error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " '", path.string(), "': ", error.message()));
}

// Returns TextParts::files, the configurations that name end-of-turn tokens, and the source of these files.
absl::StatusOr<std::map<std::string, std::string>> FilesOf(const std::string& model_path, const TextParts& text) {
  std::map<std::string, std::string> files = text.files;
  std::string source;
  if (!model_path.empty()) {
    std::error_code error;
    source = fs::absolute(model_path, error).lexically_normal().string();
    for (const char* name : {"config.json", "generation_config.json"}) {
      absl::StatusOr<std::string> contents = base::ReadFile(absl::StrCat(model_path, "/", name));
      if (absl::IsNotFound(contents.status())) continue;
      INGOT_RETURN_IF_ERROR(contents.status());
      files.emplace(name, *std::move(contents));
    }
  }
  files[kSource] = base::PrintJson(base::json::object{{kModelPath, source}}) + "\n";
  return files;
}

absl::Status WriteFolder(const fs::path& folder, const std::map<std::string, std::string>& files) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) return Failed("remove", folder, error);
  for (const auto& [name, contents] : files) {
    const fs::path path = folder / name;
    fs::create_directories(path.parent_path(), error);
    if (error) return Failed("create", path.parent_path(), error);
    INGOT_RETURN_IF_ERROR(base::WriteFileDurably(path.string(), contents));
    INGOT_RETURN_IF_ERROR(base::SyncDir(path.parent_path().string()));
  }
  return base::WriteChecksums(folder.string());
}

}  // namespace

absl::Status KeepTokenizer(const std::string& run_dir, const std::string& model_path, const TextParts& text) {
  INGOT_ASSIGN_OR_RETURN(const auto files, FilesOf(model_path, text));
  const std::string draft = run_dir + kDraft, aside = run_dir + kAside;
  INGOT_RETURN_IF_ERROR(WriteFolder(draft, files));
  INGOT_RETURN_IF_ERROR(base::ReplaceFolder(draft, run_dir + kFolder, aside));
  std::error_code ignored;  // leftovers are removed at the next start
  fs::remove_all(draft, ignored);
  fs::remove_all(aside, ignored);
  return absl::OkStatus();
}

bool HasKeptTokenizer(const std::string& run_dir) {
  std::error_code none;
  return fs::exists(absl::StrCat(run_dir, kFolder, "/", kSource), none);
}

absl::StatusOr<TextParts> KeptTextParts(const std::string& run_dir) {
  if (!HasKeptTokenizer(run_dir)) return absl::NotFoundError(absl::StrCat(run_dir, " keeps no tokenizer"));
  return LoadTextParts(run_dir + kFolder, /*chat_format=*/"");
}

std::string KeptModelPath(const std::string& run_dir, const std::string& model_path) {
  if (model_path.empty()) return model_path;
  const auto text = base::ReadFile(absl::StrCat(run_dir, kFolder, "/", kSource));
  const auto source = text.ok() ? base::ParseJson(*text) : text.status();
  const base::json::value* const kept = source.ok() ? base::Find(*source, kModelPath) : nullptr;
  if (kept == nullptr || !kept->is_string()) return model_path;
  const std::string path(kept->get_string());
  std::error_code none;
  return fs::exists(path, none) ? path : model_path;
}

}  // namespace ingot::app
