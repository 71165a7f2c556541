#include "app/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/file.h"

namespace ingot::app {

namespace fs = std::filesystem;

namespace {

// The name of config.yaml while its run is being removed.
constexpr char kReplaced[] = "replaced.yaml";

bool Holds(const std::string& path, const std::string& name) {
  std::error_code none;
  const fs::path entry = fs::path(path) / name;
  return fs::exists(entry, none) && !fs::is_empty(entry, none);
}

// Whether a run left anything: a checkpoint, a stage's checkpoint, a row of the record. One of these exists before any
// agent records an episode in the pool.
bool HasBegun(const std::string& path) {
  return Holds(path, "checkpoints") || Holds(path, "stages") || Holds(path, "metrics.jsonl") ||
         Holds(path, "warm_start/metrics.jsonl");
}

absl::Status RemoveReplaced(const std::string& path) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.path().filename() != "lock" && entry.path().filename() != kReplaced) entries.push_back(entry.path());
  }
  entries.push_back(fs::path(path) / kReplaced);  // last
  for (const fs::path& entry : entries) {
    if (!error) fs::remove_all(entry, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot remove '", entry.string(), "': ", error.message()));
  }
  return base::SyncDir(path);
}

}  // namespace

absl::StatusOr<RunDir> RunDir::Open(const std::string& root, const std::string& name, IfExists if_exists) {
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
    return absl::InvalidArgumentError(absl::StrCat("run.name '", name, "' must be a plain folder name"));
  }
  const std::string path = absl::StrCat(root, "/", name);
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot create the run folder '", path, "': ", error.message()));
  const int fd = open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot open '", path, "/lock': ", std::strerror(errno)));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("the run '", path, "' is in use by another process; stop it, or choose another run.name"));
  }
  const std::string config = path + "/config.yaml", replaced = path + "/" + kReplaced;
  const bool configured = fs::exists(config), begun = HasBegun(path);
  // An evaluation (evaluate.cc) exists once it is configured. A run exists without its configuration too, which is
  // written before the run begins, so that its file was lost.
  const bool being_removed = fs::exists(replaced);
  RunDir dir(path, fd, (begun && !being_removed) || (configured && Holds(path, "evaluation.json")));
  if (dir.existed_ && if_exists == IfExists::kFail) {
    return absl::AlreadyExistsError(absl::StrCat("the run '", path,
                                                 "' exists; continue it with --resume, choose another run.name, or set "
                                                 "run.if_exists to replace or resume"));
  }
  if (dir.existed_ && !configured && if_exists == IfExists::kReplace) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path,
        "' looks like a run whose config.yaml is gone, so it is not replaced: remove the folder, continue it "
        "with --resume, or choose another run.name"));
  }
  if (configured && if_exists == IfExists::kReplace) {
    fs::rename(config, replaced, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot rename '", config, "': ", error.message()));
    INGOT_RETURN_IF_ERROR(base::SyncDir(path));
    dir.existed_ = false;
  }
  // Of this process, or of one that died during the removal.
  if (fs::exists(replaced)) INGOT_RETURN_IF_ERROR(RemoveReplaced(path));
  INGOT_RETURN_IF_ERROR(dir.MakeFolders());
  return dir;
}

absl::StatusOr<RunDir> RunDir::Attach(const std::string& root, const std::string& name) {
  RunDir dir(absl::StrCat(root, "/", name), -1, true);
  INGOT_RETURN_IF_ERROR(dir.MakeFolders());
  return dir;
}

absl::StatusOr<bool> RunDir::IsHeld(const std::string& root, const std::string& name) {
  const std::string path = absl::StrCat(root, "/", name);
  const int fd = open((path + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::NotFoundError(absl::StrCat("there is no run folder '", path, "'"));
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);  // gives the shared lock back
  return held;
}

absl::Status RunDir::MakeFolders() const {
  for (const std::string& folder : {checkpoints(), logs(), sockets()}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error && folder == sockets()) fs::permissions(folder, fs::perms::owner_all, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot create '", folder, "': ", error.message()));
  }
  return absl::OkStatus();
}

RunDir::RunDir(RunDir&& other) noexcept
    : path_(std::move(other.path_)), lock_fd_(std::exchange(other.lock_fd_, -1)), existed_(other.existed_) {}

RunDir::~RunDir() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

absl::Status RunDir::DropStages() const {
  std::error_code error;
  fs::remove_all(stages(), error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot remove '", stages(), "': ", error.message()));
  return absl::OkStatus();
}

absl::Status RunDir::WriteFile(const std::string& name, const std::string& text) const {
  const std::string final_path = absl::StrCat(path_, "/", name);
  const std::string temporary = final_path + ".tmp";
  INGOT_RETURN_IF_ERROR(base::WriteFileDurably(temporary, text));
  std::error_code error;
  fs::rename(temporary, final_path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot write '", final_path, "': ", error.message()));
  return base::SyncDir(path_);
}

}  // namespace ingot::app
