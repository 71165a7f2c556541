#include "app/run/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/printable.h"

namespace ingot::app {

namespace fs = std::filesystem;

namespace {

// Folders inside the run's folder, with reserved names. A replaced run moves from one to the next, so after a crash it
// is complete or, once its removal has started, completely gone:
//
//   RUN/* --entry by entry--> replacing/ --renamed--> replaced/ --renamed, the start succeeded--> removed/ --> gone
//   RUN/* <--entry by entry-- replacing/ <--renamed-- replaced/     the start failed, or its process died
//
// While a job that replaces the run is being submitted, no process holds the folder, and replaced/ is named submitted/.
// The job's nodes do not touch it, because they only run if the job was accepted.
//
//   replaced/ <--renamed--> submitted/ --renamed, the job was accepted or started--> removed/ --> gone
constexpr char kReplacing[] = ".ingot-replacing";  // part of the old run; the remaining files are next to it
constexpr char kReplaced[] = ".ingot-replaced";    // the old run; the new start's files are next to it
constexpr char kSubmitted[] = ".ingot-submitted";  // same as kReplaced, but for a start by a job
constexpr char kRemoved[] = ".ingot-removed";

constexpr char kLock[] = "lock";               // held by the process that drives the run
constexpr char kLaunchLock[] = "launch.lock";  // held by the launcher that submits a job

constexpr base::Format kRunFormat = {"run folder", 1};
constexpr char kFormatFile[] = "format";  // contains the format number

constexpr char kFailedLogs[] = "logs/failed-start";  // logs from the last failed start, which contain the reason

constexpr std::chrono::milliseconds kGlance(1000);  // maximum time that IsHeld holds a lock, on a busy machine

bool Holds(const std::string& path, const std::string& name) {
  std::error_code none;
  const fs::path entry = fs::path(path) / name;
  return fs::exists(entry, none) && !fs::is_empty(entry, none);
}

// Returns whether a run has left a checkpoint, a stage's checkpoint, or a row in the record. One of these exists before
// any agent records an episode in the pool.
bool HasBegun(const std::string& path) {
  return Holds(path, "checkpoints") || Holds(path, "stages") || Holds(path, "metrics.jsonl") ||
         Holds(path, "warm_start/metrics.jsonl");
}

absl::Status Failed(const char* what, const fs::path& path, const std::error_code& error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " '", path.string(), "': ", error.message()));
}

absl::Status Rename(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? Failed("rename", from, error) : absl::OkStatus();
}

absl::Status Remove(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? Failed("remove", path, error) : absl::OkStatus();
}

// Returns everything in `folder` except its locks and the folder `but`.
absl::StatusOr<std::vector<fs::path>> Entries(const fs::path& folder, const char* but) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path name = entry->path().filename();
    if (name != kLock && name != kLaunchLock && name != but) entries.push_back(entry->path());
  }
  if (error) return Failed("list", folder, error);
  return entries;
}

absl::Status SetAside(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path / kReplacing, error);
  if (error) return Failed("create", path / kReplacing, error);
  INGOT_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, Entries(path, kReplacing));
  for (const fs::path& entry : entries) INGOT_RETURN_IF_ERROR(Rename(entry, path / kReplacing / entry.filename()));
  INGOT_RETURN_IF_ERROR(base::SyncDir((path / kReplacing).string()));
  INGOT_RETURN_IF_ERROR(Rename(path / kReplacing, path / kReplaced));
  return base::SyncDir(path.string());
}

bool Exists(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none);
}

// Moves the logs of a failed start to those of the run that it did not replace.
absl::Status KeepLogs(const fs::path& path) {
  if (!Holds(path.string(), "logs")) return absl::OkStatus();
  const fs::path kept = path / kReplaced / kFailedLogs;
  INGOT_RETURN_IF_ERROR(Remove(kept));
  std::error_code error;
  fs::create_directories(kept.parent_path(), error);
  return error ? Failed("create", kept.parent_path(), error) : Rename(path / "logs", kept);
}

// Removes the failed start's files except its logs, and restores the old run.
absl::Status PutBack(const fs::path& path) {
  if (Exists(path / kSubmitted)) INGOT_RETURN_IF_ERROR(Rename(path / kSubmitted, path / kReplaced));
  if (Exists(path / kReplaced)) {
    INGOT_RETURN_IF_ERROR(KeepLogs(path));
    INGOT_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, Entries(path, kReplaced));
    for (const fs::path& entry : entries) INGOT_RETURN_IF_ERROR(Remove(entry));
    INGOT_RETURN_IF_ERROR(Rename(path / kReplaced, path / kReplacing));
  }
  INGOT_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, Entries(path / kReplacing, ""));
  for (const fs::path& entry : entries) {
    // Another node's agent may have created its logs folder in the meantime.
    INGOT_RETURN_IF_ERROR(Remove(path / entry.filename()));
    INGOT_RETURN_IF_ERROR(Rename(entry, path / entry.filename()));
  }
  INGOT_RETURN_IF_ERROR(Remove(path / kReplacing));
  return base::SyncDir(path.string());
}

// Repairs a folder whose process died while replacing the run.
absl::Status Mend(const fs::path& path) {
  const bool submitted = Exists(path / kSubmitted);
  if (!submitted && !Exists(path / kReplaced) && !Exists(path / kReplacing)) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(PutBack(path));
  std::fprintf(stderr, "%s: a start %s before it replaced the run; the old run is back in place\n",
               base::Printable(path.string()).c_str(), submitted ? "by a job ended" : "ended or died");
  return absl::OkStatus();
}

// Acquires one of the locks in the run's folder and returns its file descriptor. `remedy` is advice for when another
// process holds the lock. Waits long enough for IsHeld to release it.
absl::StatusOr<int> Lock(const std::string& path, const char* file, const char* remedy) {
  const int fd = open(absl::StrCat(path, "/", file).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::UnavailableError(absl::StrCat("cannot open '", path, "/", file, "': ", std::strerror(errno)));
  }
  const auto end = std::chrono::steady_clock::now() + kGlance;
  do {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (std::chrono::steady_clock::now() < end);
  close(fd);
  return absl::FailedPreconditionError(absl::StrCat("the run '", path, "' is ", remedy));
}

absl::StatusOr<int> LockRun(const std::string& path) {
  return Lock(path, kLock, "in use by another process; stop it, or choose another run.name");
}

// Creates and returns ROOT/NAME.
absl::StatusOr<std::string> MakeFolder(const std::string& root, const std::string& name) {
  INGOT_RETURN_IF_ERROR(CheckRunName(name));
  const std::string path = absl::StrCat(root, "/", name);
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return path;
  return absl::UnavailableError(absl::StrCat("cannot create the run folder '", path, "': ", error.message()));
}

// Returns the number of steps in a record. An evaluation's row has the version as its step.
int64_t RecordedSteps(const fs::path& record) {
  int64_t steps = 0;
  std::ifstream file(record);
  for (std::string text; std::getline(file, text);) {
    const auto line = base::ParseJson(text);
    if (!line.ok() || base::Find(*line, "eval/version") != nullptr) continue;
    const base::json::value* step = base::Find(*line, "step");
    if (step != nullptr && step->is_int64()) steps = std::max(steps, step->get_int64() + 1);
  }
  return steps;
}

// Returns "runs/first (4 steps, of 2026-11-27 03:01)".
std::string DescribeRun(const fs::path& path) {
  const fs::path record = path / "metrics.jsonl";
  struct stat info = {};
  if (stat(record.c_str(), &info) != 0) stat((path / "config.yaml").c_str(), &info);
  std::tm time = {};
  localtime_r(&info.st_mtime, &time);
  char date[32] = "";
  std::strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &time);
  const int64_t steps = RecordedSteps(record);
  const std::string length = steps == 0 ? "" : absl::StrCat(steps, steps == 1 ? " step, " : " steps, ");
  return absl::StrCat(base::Printable(path.string()), " (", length, "of ", date, ")");
}

}  // namespace

absl::Status CheckRunName(const std::string& name) {
  const bool plain = !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
  if (plain) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("run.name '", name, "' must be a plain folder name"));
}

absl::Status CheckRunFormat(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kFormatFile);
  const absl::StatusOr<std::string> text = base::ReadFile(file);
  int64_t found = base::kFirstFormat;  // the format if the folder does not have the file
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  if (text.ok() && !absl::SimpleAtoi(*text, &found)) {
    return absl::DataLossError(absl::StrCat("'", file, "' does not hold a number: write ", kRunFormat.number,
                                            " there if this version made the run"));
  }
  return base::CheckFormat(kRunFormat, found, absl::StrCat("the run '", path, "'"),
                           "use the version of ingot that made it, or choose another run.name");
}

absl::StatusOr<LaunchLock> LaunchLock::Acquire(const std::string& root, const std::string& name) {
  INGOT_ASSIGN_OR_RETURN(const std::string path, MakeFolder(root, name));
  INGOT_ASSIGN_OR_RETURN(
      const int fd, Lock(path, kLaunchLock, "being submitted by another process; wait, or choose another run.name"));
  return LaunchLock(fd);
}

LaunchLock::~LaunchLock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<RunDir> RunDir::Open(const std::string& root, const std::string& name, IfExists if_exists) {
  return OpenAs(root, name, if_exists, Opener::kHere);
}

absl::StatusOr<RunDir> RunDir::OpenForJob(const std::string& root, const std::string& name, IfExists if_exists) {
  return OpenAs(root, name, if_exists, Opener::kLauncher);
}

absl::StatusOr<RunDir> RunDir::OpenInJob(const std::string& root, const std::string& name) {
  return OpenAs(root, name, IfExists::kResume, Opener::kNode);
}

absl::StatusOr<RunDir> RunDir::OpenAs(const std::string& root, const std::string& name, IfExists if_exists,
                                      Opener opener) {
  INGOT_ASSIGN_OR_RETURN(const std::string path, MakeFolder(root, name));
  INGOT_ASSIGN_OR_RETURN(const int fd, LockRun(path));
  if (opener == Opener::kHere && Exists(fs::path(path) / kSubmitted)) {
    close(fd);
    return absl::FailedPreconditionError(absl::StrCat(
        "a submitted job may replace the run '", path, "'; the old run is kept in ", path, "/", kSubmitted,
        ": run `ingot launch` with the job's cluster.launcher, which puts the run back if there is no job"));
  }
  RunDir dir(path, fd, false);
  // A node does not touch a run that waits for its job or that is being removed, because its launcher may be working on
  // it.
  const bool is_node = opener == Opener::kNode;
  if (!is_node) INGOT_RETURN_IF_ERROR(Remove(fs::path(path) / kRemoved));
  if (!is_node || !Exists(fs::path(path) / kSubmitted)) INGOT_RETURN_IF_ERROR(Mend(path));
  const bool configured = fs::exists(path + "/config.yaml");
  // An evaluation (evaluate.cc) exists once it is configured, and a collection (collect.cc) once its agents run. A run
  // without its configuration also exists: the file is written before the run starts, so it must have been lost.
  dir.existed_ = HasBegun(path) || (configured && (Holds(path, "evaluation.json") || Holds(path, "collection.json")));
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
    if (dir.existed_) std::fprintf(stderr, "replacing %s\n", DescribeRun(path).c_str());
    INGOT_RETURN_IF_ERROR(SetAside(path));
    dir.existed_ = false;
  }
  // A node's folder may have been prepared by its launcher on another machine.
  if (dir.existed_ || is_node) INGOT_RETURN_IF_ERROR(CheckRunFormat(path));
  INGOT_RETURN_IF_ERROR(dir.MakeFolders());
  if (!dir.existed_) INGOT_RETURN_IF_ERROR(dir.WriteFormat());
  return dir;
}

absl::StatusOr<RunDir> RunDir::Attach(const std::string& root, const std::string& name) {
  RunDir dir(absl::StrCat(root, "/", name), -1, true);
  INGOT_RETURN_IF_ERROR(CheckRunFormat(dir.path()));
  INGOT_RETURN_IF_ERROR(dir.MakeFolders());
  return dir;
}

absl::StatusOr<bool> RunDir::IsHeld(const std::string& root, const std::string& name) {
  const std::string path = absl::StrCat(root, "/", name);
  const int fd = open((path + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::NotFoundError(absl::StrCat("there is no run folder '", path, "'"));
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);  // releases the shared lock
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

absl::Status RunDir::WriteFormat() const { return WriteFile(kFormatFile, absl::StrCat(kRunFormat.number, "\n")); }

RunDir::RunDir(RunDir&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      existed_(other.existed_),
      puts_back_(other.puts_back_) {}

RunDir::~RunDir() {
  if (lock_fd_ < 0) return;
  if (replaces()) EndReplacement();
  close(lock_fd_);
}

void RunDir::EndReplacement() const {
  const std::string shown = base::Printable(path_);
  if (!puts_back_ || Exists(fs::path(path_) / kSubmitted)) {
    std::fprintf(
        stderr,
        "%s: no new run has begun, and other nodes may write here. The old run is kept in %s: end those nodes, "
        "and the next start puts it back\n",
        shown.c_str(), base::Printable(replaced()).c_str());
    return;
  }
  const std::string logs = Holds(path_, "logs") ? absl::StrCat("; logs of the start: ", shown, "/", kFailedLogs) : "";
  if (const absl::Status back = PutBack(path_); !back.ok()) {
    std::fprintf(stderr, "ingot: %s: the old run is in its folder %s: %s; the next start puts it back\n", shown.c_str(),
                 kReplaced, std::string(back.message()).c_str());
    return;
  }
  std::fprintf(stderr, "%s is as it was: no new run has begun%s\n", shown.c_str(), logs.c_str());
}

std::string RunDir::replaced() const {
  for (const char* kept : {kSubmitted, kReplaced, kReplacing}) {
    if (Exists(fs::path(path_) / kept)) return absl::StrCat(path_, "/", kept);
  }
  return "";
}

absl::Status RunDir::DropReplaced() const {
  const fs::path path = path_;
  for (const char* kept : {kReplaced, kSubmitted}) {
    std::error_code error;
    fs::rename(path / kept, path / kRemoved, error);
    if (error == std::errc::no_such_file_or_directory) continue;  // nothing was kept, or another process was first
    if (error) return Failed("rename", path / kept, error);
    INGOT_RETURN_IF_ERROR(base::SyncDir(path_));
    INGOT_RETURN_IF_ERROR(Remove(path / kRemoved));
  }
  return absl::OkStatus();
}

absl::Status RunDir::HandOver() {
  const fs::path path = path_;
  if (Exists(path / kReplaced)) {
    INGOT_RETURN_IF_ERROR(Rename(path / kReplaced, path / kSubmitted));
    INGOT_RETURN_IF_ERROR(base::SyncDir(path_));
  }
  close(std::exchange(lock_fd_, -1));
  return absl::OkStatus();
}

absl::Status RunDir::TakeBack() {
  INGOT_ASSIGN_OR_RETURN(lock_fd_, LockRun(path_));
  const fs::path path = path_;
  return Exists(path / kSubmitted) ? Rename(path / kSubmitted, path / kReplaced) : absl::OkStatus();
}

absl::Status RunDir::DropStages() const {
  std::error_code error;
  fs::remove_all(stages(), error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot remove '", stages(), "': ", error.message()));
  return absl::OkStatus();
}

absl::Status RunDir::WriteFile(const std::string& name, const std::string& text) const {
  return base::ReplaceFile(absl::StrCat(path_, "/", name), text);
}

}  // namespace ingot::app
