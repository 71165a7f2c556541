#include "http/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ingot::http {

int32_t ConnectionsWithin(uint64_t files) {
  const uint64_t left = files > kOtherFiles ? files - kOtherFiles : 0;
  return static_cast<int32_t>(std::clamp<uint64_t>(std::max(left, files / 2), 1, kMaxConnections));
}

uint64_t HardFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_max;
}

absl::Status RaiseFileLimit(int64_t connections) {
  const rlim_t needed = static_cast<rlim_t>(connections + kOtherFiles);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError(absl::StrCat("cannot read the limit of open files: ", std::strerror(errno)));
  }
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return absl::OkStatus();
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed) {
    return absl::ResourceExhaustedError(
        absl::StrCat("max_connections is ", connections, ", which with ", kOtherFiles, " for other uses needs ", needed,
                     " open files, but this process may have only ", limit.rlim_max,
                     " (ulimit -Hn): raise that limit, or set http.max_connections to at most ",
                     std::max<int64_t>(1, static_cast<int64_t>(limit.rlim_max) - kOtherFiles)));
  }
  limit.rlim_cur = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the limit of open files cannot be raised to ", needed, ": ", std::strerror(errno)));
}

}  // namespace ingot::http
