#include "sandbox/uid_range.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ingot::sandbox {
namespace {

constexpr int64_t kSize = 65536;

}  // namespace

absl::StatusOr<std::unique_ptr<UidRange>> UidRange::Open(int64_t base, const std::string& lock_file) {
  Fd locks(open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat info;
  if (!locks.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", lock_file, ", which has the uid locks"));
  if (fstat(locks.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(lock_file, " is not owned by this user: remove it"));
  }
  return std::unique_ptr<UidRange>(new UidRange(base, std::move(locks)));
}

absl::StatusOr<int64_t> UidRange::Acquire() {
  base::MutexLock lock(mu_);
  if (!free_.empty()) {
    const int64_t uid = free_.back();
    free_.pop_back();
    return uid;
  }
  for (; next_ < base_ + kSize; ++next_) {
    struct flock byte = {};
    byte.l_type = F_WRLCK;
    byte.l_whence = SEEK_SET;
    byte.l_start = next_;
    byte.l_len = 1;
    // The lock belongs to the open file rather than the process, so it also excludes a second range in this process.
    if (fcntl(locks_.get(), F_OFD_SETLK, &byte) == 0) return next_++;
    if (errno != EAGAIN && errno != EACCES) return ErrnoStatus(errno, "cannot lock a uid for a sandbox");
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("all uids from ", base_, " to ", base_ + kSize - 1, " are in use by sandboxes"));
}

void UidRange::Give(int64_t uid) {
  base::MutexLock lock(mu_);
  free_.push_back(uid);
}

}  // namespace ingot::sandbox
