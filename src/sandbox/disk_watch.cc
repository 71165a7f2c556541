#include "sandbox/disk_watch.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>

namespace ingot::sandbox {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kLeastFreeBytes = 1 << 20;

}  // namespace

bool IsFull(const std::string& folder) {
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) return false;
  // File systems without a limit of blocks or of files say 0 of 0.
  const bool has_blocks = info.f_blocks > 0, has_files = info.f_files > 0;
  return (has_blocks && uint64_t{info.f_bavail} * info.f_frsize < kLeastFreeBytes) || (has_files && info.f_favail == 0);
}

std::optional<Ending> DiskWatch::Fault(SteadyClock::time_point now) {
  if (now < next_) return std::nullopt;
  const auto fault = FaultAtEnd();
  const auto took = SteadyClock::now() - now;
  next_ = SteadyClock::now() + std::max<SteadyClock::duration>(std::chrono::seconds(1), 5 * took);
  return fault;
}

std::optional<Ending> DiskWatch::FaultAtEnd() const {
  if (ExceedsLimits()) return Ending::kDiskFull;
  return IsFull(folder_) ? std::optional(Ending::kNoSpace) : std::nullopt;
}

bool DiskWatch::ExceedsLimits() const {
  if (limits_.bytes <= 0 && limits_.files <= 0) return false;
  int64_t bytes = 0, files = 0;
  std::error_code error;
  // Folders that come and go meanwhile are no error.
  for (fs::recursive_directory_iterator it(folder_, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error)) {
    struct stat info;
    if (lstat(it->path().c_str(), &info) != 0) continue;
    bytes += int64_t{info.st_blocks} * 512;
    ++files;
    if ((limits_.bytes > 0 && bytes > limits_.bytes) || (limits_.files > 0 && files > limits_.files)) return true;
  }
  return false;
}

}  // namespace ingot::sandbox
