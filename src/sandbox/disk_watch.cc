#include "sandbox/disk_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

namespace ingot::sandbox {

namespace fs = std::filesystem;

bool DiskWatch::IsExceeded(SteadyClock::time_point now) {
  if (!watches() || now < next_) return false;
  const bool exceeded = Count();
  const auto took = SteadyClock::now() - now;
  next_ = SteadyClock::now() + std::max<SteadyClock::duration>(std::chrono::seconds(1), 5 * took);
  return exceeded;
}

bool DiskWatch::Count() {
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
