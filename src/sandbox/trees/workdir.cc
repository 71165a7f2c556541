#include "sandbox/trees/workdir.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "base/open_file.h"
#include "base/random.h"
#include "sandbox/trees/copy_tree.h"
#include "sandbox/trees/remove_tree.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLive = "live-";

// Returns "live-<pid>-<start of this process>-". The start distinguishes processes with the same pid, because a
// restarted process in a container often has its predecessor's pid.
const std::string& OwnPrefix() {
  static const std::string* const prefix =
      new std::string(absl::StrCat(base::View(kLive), getpid(), "-", base::Clock::Real().UnixNanos(), "-"));
  return *prefix;
}

bool RemoveOrWarn(const std::string& path) {
  const absl::Status removed = RemoveTree(path);
  if (!removed.ok())
    INGOT_LOG(warn, "the work folder {} was only partly removed: {}", path, std::string(removed.message()));
  return removed.ok();
}

// Returns INVALID_ARGUMENT unless `relative` names a file below its base folder.
absl::Status CheckRelative(const std::string& relative) {
  const fs::path path(relative);
  bool leaves = path.empty() || path.is_absolute() || relative.find('\0') != std::string::npos;
  for (const fs::path& part : path) leaves = leaves || part == "..";
  if (!leaves && path.filename() != "." && !path.filename().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", relative, "' is not inside the work folder: use a relative path without '..'"));
}

// Opens the parent folder of `relative` below `base`. Missing folders are created and passed to `maker`; null = missing
// folders are an error.
absl::StatusOr<Fd> OpenParent(const Fd& base, const fs::path& relative,
                              const std::function<absl::Status(int fd)>& maker) {
  Fd folder(fcntl(base.get(), F_DUPFD_CLOEXEC, 3));
  for (const fs::path& part : relative.parent_path()) {
    if (part == "." || part.empty()) continue;
    const bool made = maker != nullptr && mkdirat(folder.get(), part.c_str(), 0755) == 0;
    Fd next = base::OpenBeneath(folder.get(), part.string(), O_PATH | O_DIRECTORY | O_CLOEXEC, base::PathLinks::kNone);
    if (!next.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open the folder of ", relative.string()));
    if (made) INGOT_RETURN_IF_ERROR(maker(next.get()));
    folder = std::move(next);
  }
  return folder;
}

absl::Status WriteAll(int fd, std::string_view content, const std::string& name) {
  while (!content.empty()) {
    const ssize_t wrote = write(fd, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return ErrnoStatus(errno, absl::StrCat("cannot write ", name));
    content.remove_prefix(wrote);
  }
  return absl::OkStatus();
}

// Removes a folder's entries.
absl::Status Empty(const Fd& folder, const std::string& name) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(openat(folder.get(), ".", base::kOpenFolder)), closedir);
  if (entries == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot read ", name));
  while (const dirent* const entry = readdir(entries.get())) {
    const std::string each = entry->d_name;
    if (each == "." || each == "..") continue;
    INGOT_RETURN_IF_ERROR(base::Annotate(RemoveTree(folder.get(), each), absl::StrCat("cannot empty ", name)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkDir> WorkDir::Create(const std::string& root, std::optional<uid_t> owner) {
  static std::atomic<uint64_t> next{0};
  std::error_code error;
  fs::create_directories(root, error);
  const fs::path absolute = fs::absolute(root, error);
  const std::string path = (absolute / absl::StrCat(OwnPrefix(), next++)).string();
  if (mkdir(path.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("cannot create a work folder in ", root));
  WorkDir folder(path, owner);
  // Only its owner may traverse it.
  if (owner.has_value() && (chown(path.c_str(), geteuid(), *owner) != 0 || chmod(path.c_str(), 0710) != 0)) {
    return ErrnoStatus(errno, absl::StrCat("cannot give ", path, " to uid ", *owner));
  }
  for (const std::string& part : {folder.home(), folder.work(), folder.tmp()}) {
    INGOT_RETURN_IF_ERROR(folder.MakeFolder(part));
  }
  return folder;
}

absl::Status WorkDir::MakeFolder(const std::string& path) const {
  if (mkdir(path.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("cannot make ", path));
  if (!owner_.has_value() || lchown(path.c_str(), *owner_, *owner_) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot give ", path, " to uid ", *owner_));
}

absl::Status WorkDir::GiveToOwner(int fd, const std::string& name) const {
  if (!owner_.has_value() || fchownat(fd, "", *owner_, *owner_, AT_EMPTY_PATH) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot give ", name, " to uid ", *owner_));
}

WorkDir::~WorkDir() { Remove(); }
WorkDir::WorkDir(WorkDir&& other) noexcept
    : path_(std::exchange(other.path_, "")), work_view_(other.work_view_), owner_(other.owner_) {}
WorkDir& WorkDir::operator=(WorkDir&& other) noexcept {
  if (this != &other) {
    Remove();
    path_ = std::exchange(other.path_, "");
    work_view_ = other.work_view_;
    owner_ = other.owner_;
  }
  return *this;
}

void WorkDir::Remove() {
  if (!path_.empty()) RemoveOrWarn(path_);
  path_.clear();
}

absl::StatusOr<Fd> WorkDir::Open() const {
  Fd folder(open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path_));
  return folder;
}

absl::StatusOr<Fd> WorkDir::OpenWork() const {
  const std::string path = work_view_.empty() ? work() : work_view_;
  Fd folder(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  return folder;
}

absl::StatusOr<std::string> WorkDir::ReadBelow(const Fd& base, const std::string& relative, int64_t limit_bytes) const {
  INGOT_RETURN_IF_ERROR(CheckRelative(relative));
  const fs::path path(relative);
  INGOT_ASSIGN_OR_RETURN(const Fd folder, OpenParent(base, path, nullptr));
  const Fd file = base::OpenBeneath(folder.get(), path.filename().string(), O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                                    base::PathLinks::kNone);
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("cannot read ", relative));
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(relative, " is not a regular file"));
  }
  if (owner_.has_value() && info.st_uid != *owner_) {
    return absl::InvalidArgumentError(
        absl::StrCat(relative, " belongs to uid ", info.st_uid, ", not to the agent, which may have linked to it"));
  }
  std::string content;
  char buffer[16384];
  while (true) {
    const ssize_t got = read(file.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", relative));
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
    if (static_cast<int64_t>(content.size()) > limit_bytes) {
      return absl::OutOfRangeError(absl::StrCat(relative, " is longer than ", limit_bytes, " bytes"));
    }
  }
}

absl::Status WorkDir::WriteFile(const std::string& relative, std::string_view content) const {
  INGOT_RETURN_IF_ERROR(CheckRelative(relative));
  const fs::path path(relative);
  INGOT_ASSIGN_OR_RETURN(const Fd work, OpenWork());
  INGOT_ASSIGN_OR_RETURN(const Fd folder, OpenParent(work, path, [&](int fd) { return GiveToOwner(fd, relative); }));
  const std::string name = path.filename().string();
  unlinkat(folder.get(), name.c_str(), 0);
  const mode_t mode = content.starts_with("#!") ? 0755 : 0644;
  const Fd file(openat(folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("cannot write ", relative));
  INGOT_RETURN_IF_ERROR(GiveToOwner(file.get(), relative));
  return WriteAll(file.get(), content, relative);
}

absl::StatusOr<std::string> WorkDir::ReadFile(const std::string& relative, int64_t limit_bytes) const {
  INGOT_ASSIGN_OR_RETURN(const Fd work, OpenWork());
  return ReadBelow(work, relative, limit_bytes);
}

absl::StatusOr<std::string> WorkDir::ReadFileOf(const std::string& folder, const std::string& relative,
                                                int64_t limit_bytes) const {
  INGOT_ASSIGN_OR_RETURN(const Fd around, Open());
  const Fd base = base::OpenBeneath(around.get(), folder, O_PATH | O_DIRECTORY | O_CLOEXEC, base::PathLinks::kNone);
  if (!base.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path_, "/", folder));
  return ReadBelow(base, relative, limit_bytes);
}

void WorkDir::SetView(int work) { work_view_ = absl::StrCat("/proc/self/fd/", work, "/."); }

absl::Status WorkDir::Fill(const std::string& name, const std::string& source) const {
  INGOT_ASSIGN_OR_RETURN(const Fd around, Open());
  const Fd folder = base::OpenBeneath(around.get(), name, base::kOpenFolder, base::PathLinks::kNone);
  if (!folder.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path_, "/", name));
  const Fd files(open(source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!files.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", source));
  INGOT_RETURN_IF_ERROR(Empty(folder, name));
  const absl::Status copied = CopyTree(files.get(), ".", folder.get(), {.gives_to = owner_, .opens = true});
  // The files are not from the sandbox, so DATA_LOSS would wrongly blame the sandbox.
  return base::Annotate(absl::IsDataLoss(copied) ? absl::UnavailableError(copied.message()) : copied, source);
}

absl::Status WorkDir::ClearFolder(const std::string& folder, const std::string& inner) const {
  const std::string path = absl::StrCat(path_, "/", folder);
  const Fd outer(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!outer.valid() || fstat(outer.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  if (info.st_uid != owner_.value_or(geteuid()))
    return absl::FailedPreconditionError(absl::StrCat(path, " belongs to uid ", info.st_uid, ", not to its sandbox"));
  if (fchmod(outer.get(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("cannot close ", path));
  INGOT_RETURN_IF_ERROR(Empty(outer, path));
  if (mkdirat(outer.get(), inner.c_str(), 0700) != 0)
    return ErrnoStatus(errno, absl::StrCat("cannot make ", path, "/", inner));
  const Fd made(openat(outer.get(), inner.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", path, "/", inner));
  return GiveToOwner(made.get(), absl::StrCat(path, "/", inner));
}

absl::Status WorkDir::WriteNextToWork(const std::string& name, std::string_view content) const {
  const std::string path = absl::StrCat(path_, "/", name);
  unlink(path.c_str());
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("cannot write ", path));
  return WriteAll(file.get(), content, name);
}

absl::StatusOr<std::string> WorkDir::AddFolder(const std::string& name) const {
  std::string path = absl::StrCat(path_, "/", name, "-", base::RandomHex(8));
  INGOT_RETURN_IF_ERROR(MakeFolder(path));
  return path;
}

absl::StatusOr<std::string> WorkDir::Detach(const std::string& name) {
  std::string safe;
  for (const char c : name) safe += (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') ? c : '_';
  std::string kept = (fs::path(path_).parent_path() / absl::StrCat("kept-", safe)).string();
  std::error_code error;
  if (owner_.has_value() && (chown(path_.c_str(), geteuid(), getegid()) != 0 || chmod(path_.c_str(), 0700) != 0)) {
    return ErrnoStatus(errno, absl::StrCat("cannot close ", path_, " to uid ", *owner_));
  }
  if (fs::exists(kept, error)) RemoveOrWarn(kept);
  fs::rename(path_, kept, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot keep ", path_, " as ", kept, ": ", error.message()));
  }
  path_.clear();
  return kept;
}

int RemoveStale(const std::string& root) {
  int removed = 0;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kLive)) continue;
    int pid = 0;
    const char* const digits = name.data() + kLive.size();
    if (std::from_chars(digits, name.data() + name.size(), pid).ec != std::errc() || pid <= 0) continue;
    const bool stale = pid == getpid() ? !name.starts_with(OwnPrefix()) : kill(pid, 0) != 0 && errno == ESRCH;
    if (stale && RemoveOrWarn(it->path().string())) ++removed;
  }
  return removed;
}

}  // namespace ingot::sandbox
