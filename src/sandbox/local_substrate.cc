#include "sandbox/local_substrate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "sandbox/reach.h"
#include "sandbox/trees/workdir.h"

namespace ingot::sandbox {

namespace fs = std::filesystem;

namespace {

// Creates the folder if it is missing. Another user may already have put a folder or a link with that name there, for
// example below /tmp. Returns FAILED_PRECONDITION if another user could replace its contents.
absl::Status MakeOwnFolder(const char* key, const std::string& path, mode_t mode) {
  const auto reject = [&](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat(key, " ", path, " ", why));
  };
  const std::string clean = path.substr(0, path.find_last_not_of('/') + 1);
  std::error_code error;
  fs::create_directories(fs::path(clean).parent_path(), error);
  if (mkdir(clean.c_str(), mode) != 0 && errno != EEXIST)
    return reject(absl::StrCat("cannot be created: ", strerror(errno)));
  const Fd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat named, info;
  if (!folder.valid() || lstat(clean.c_str(), &named) != 0 || fstat(folder.get(), &info) != 0)
    return reject(absl::StrCat("cannot be opened: ", strerror(errno)));
  for (const uid_t owner : {named.st_uid, info.st_uid}) {
    if (owner == geteuid() || owner == 0) continue;
    return reject(absl::StrCat("belongs to uid ", owner, ", who could change agents' files: choose another folder"));
  }
  const bool is_open = (info.st_mode & S_IWOTH) != 0 || ((info.st_mode & S_IWGRP) != 0 && info.st_gid != getegid());
  if (!is_open || (info.st_mode & S_ISVTX) != 0) return absl::OkStatus();
  return reject(absl::StrCat("is writable by other users, who could change agents' files: `chmod go-w ", path, "`"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalSubstrate>> LocalSubstrate::Make(const SubstrateOptions& options, uint32_t rejected,
                                                                     Measure left_out) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  INGOT_RETURN_IF_ERROR(CheckNotHidden(options));
  INGOT_RETURN_IF_ERROR(MakeOwnFolder("agents.work_root", options.work_root, 0700));
  if (!options.images.empty()) INGOT_RETURN_IF_ERROR(MakeOwnFolder("agents.image_store", options.images, 0755));
  if (const int removed = RemoveStale(options.work_root); removed > 0) {
    INGOT_LOG(info, "removed {} work folders that an earlier run left in {}", removed, options.work_root);
  }
  std::unique_ptr<LocalSubstrate> substrate(new LocalSubstrate(options));
  substrate->ground_.left_out = left_out;
  substrate->ground_.work_root = Canonical(options.work_root);
  std::ifstream users("/etc/passwd");
  for (std::string line; std::getline(users, line);) absl::StrAppend(&substrate->ground_.known_users, line, "\n");
  INGOT_RETURN_IF_ERROR(substrate->Probe(rejected));
  if (options.pool > 0) {
    substrate->pool_ = std::make_unique<SandboxPool>(
        static_cast<size_t>(options.pool),
        [&ground = substrate->ground_](const SandboxOptions& needed) { return LocalSandbox::Make(ground, needed); });
  }
  return substrate;
}

absl::StatusOr<std::unique_ptr<Sandbox>> LocalSubstrate::Prepare(const SandboxOptions& options) {
  if (pool_ != nullptr && SandboxPool::Holds(options)) {
    if (std::unique_ptr<Sandbox> sandbox = pool_->Acquire(options)) return sandbox;
  }
  return LocalSandbox::Make(ground_, options);
}

}  // namespace ingot::sandbox
