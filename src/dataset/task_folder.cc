#include "dataset/task_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

namespace ingot::dataset {
namespace {

constexpr int kDeepest = 100;  // maximum nesting depth; each level holds a file descriptor open
constexpr char kOnlyFiles[] = "a task may contain only files, folders, and links: remove it, or replace it with a file";

absl::Status NoFile(const std::string& name, const struct stat& info, const char* wanted) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", base::KindOfFile(info), ", not ", wanted));
}

}  // namespace

absl::StatusOr<TaskFolder> TaskFolder::Open(const std::string& path) {
  base::Fd folder(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) return TaskFolder(path, std::move(folder));
  const std::string why = absl::StrCat("cannot read ", path, ": ", std::strerror(errno));
  if (errno == ENOENT) return absl::NotFoundError(why);
  return errno == ENOTDIR ? absl::InvalidArgumentError(why) : absl::UnavailableError(why);
}

absl::Status TaskFolder::Failure(const std::string& name) const {
  if (errno == ENOENT || errno == ENOTDIR) return absl::NotFoundError(absl::StrCat("it has no ", name));
  if (errno == EXDEV) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     " leads out of the task's folder through a link: replace the link with the file or folder, or "
                     "with a relative link inside the folder"));
  }
  return absl::UnavailableError(absl::StrCat("cannot read ", path_, "/", name, ": ", std::strerror(errno)));
}

absl::StatusOr<std::string> TaskFolder::Read(const std::string& name, int64_t max_bytes) const {
  // Checked before opening, because opening a device or pipe may have side effects. The check after opening is
  // decisive.
  INGOT_ASSIGN_OR_RETURN(const bool is_there, HasFile(name));
  if (!is_there) return absl::NotFoundError(absl::StrCat("it has no ", name));
  const base::Fd file = base::OpenBeneath(folder_.get(), name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0) return Failure(name);
  if (!S_ISREG(info.st_mode)) return NoFile(name, info, "a file");
  return base::ReadOpenFile(file, absl::StrCat(path_, "/", name), max_bytes);
}

absl::StatusOr<bool> TaskFolder::HasFile(const std::string& name) const {
  const base::Fd file = base::OpenBeneath(folder_.get(), name, O_PATH);
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    const absl::Status failure = Failure(name);
    return absl::IsNotFound(failure) ? absl::StatusOr<bool>(false) : failure;
  }
  if (!S_ISREG(info.st_mode)) return NoFile(name, info, "a file");
  return true;
}

absl::StatusOr<bool> TaskFolder::Has(const std::string& name) const {
  if (base::OpenBeneath(folder_.get(), name, O_PATH | O_NOFOLLOW).valid()) return true;
  const absl::Status failure = Failure(name);
  return absl::IsNotFound(failure) ? absl::StatusOr<bool>(false) : failure;
}

absl::StatusOr<std::string> TaskFolder::PathOf(const std::string& name) const {
  const base::Fd folder = base::OpenBeneath(folder_.get(), name, O_PATH | O_DIRECTORY);
  if (!folder.valid()) return Failure(name);
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", folder.get()), error).string();
  if (error) return absl::UnavailableError(absl::StrCat("cannot read ", path_, "/", name, ": ", error.message()));
  return path;
}

absl::Status TaskFolder::CheckFolder(const std::string& name, Links links) const {
  base::Fd folder = base::OpenBeneath(folder_.get(), name, O_PATH);
  struct stat info;
  if (!folder.valid() || fstat(folder.get(), &info) != 0) {
    const absl::Status failure = Failure(name);
    return absl::IsNotFound(failure) ? absl::OkStatus() : failure;
  }
  if (!S_ISDIR(info.st_mode)) return NoFile(name, info, "a folder");
  return CheckEntries(std::move(folder), name, links, 1);
}

absl::Status TaskFolder::CheckEntries(base::Fd folder, const std::string& name, Links links, int depth) const {
  if (depth > kDeepest)
    return absl::InvalidArgumentError(absl::StrCat(name, " is nested in more than ", kDeepest, " folders"));
  base::Fd listed(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(listed.valid() ? fdopendir(listed.get()) : nullptr, closedir);
  if (entries == nullptr) return Failure(name);
  listed.Release();
  while (const dirent* const entry = readdir(entries.get())) {
    const std::string each = entry->d_name;
    if (each == "." || each == "..") continue;
    INGOT_RETURN_IF_ERROR(CheckEntry(folder.get(), each, absl::StrCat(name, "/", each), links, depth));
  }
  return absl::OkStatus();
}

absl::Status TaskFolder::CheckEntry(int folder, const std::string& entry, const std::string& name, Links links,
                                    int depth) const {
  struct stat info;
  if (fstatat(folder, entry.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return Failure(name);
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  if (S_ISDIR(info.st_mode)) {
    base::Fd next(openat(folder, entry.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return next.valid() ? CheckEntries(std::move(next), name, links, depth + 1) : Failure(name);
  }
  if (!S_ISLNK(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", base::KindOfFile(info), ": ", kOnlyFiles));
  }
  if (links == Links::kAny || base::OpenBeneath(folder_.get(), name, O_PATH).valid() || errno != EXDEV) {
    return absl::OkStatus();
  }
  return Failure(name);
}

}  // namespace ingot::dataset
