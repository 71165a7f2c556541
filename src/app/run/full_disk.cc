#include "app/run/full_disk.h"

#include <sys/statvfs.h>
#include <unistd.h>

namespace ingot::app {
namespace {

std::string Size(uint64_t bytes) {
  if (bytes < 1 << 20) return absl::StrCat(bytes >> 10, " KiB");
  return absl::StrCat(bytes >> 20, " MiB");
}

}  // namespace

std::string DescribeFullDisk(const std::string& folder, int64_t needed) {
  struct statvfs disk{};
  if (statvfs(folder.c_str(), &disk) != 0) return "";
  // Part of the disk may be reserved for root.
  const uint64_t blocks = getuid() == 0 ? disk.f_bfree : disk.f_bavail, free = blocks * disk.f_frsize;
  if (disk.f_files > 0 && disk.f_favail == 0) return absl::StrCat("the disk of ", folder, " cannot hold another file");
  if (free >= static_cast<uint64_t>(needed)) return "";
  return absl::StrCat("the disk of ", folder, " is full: ", Size(free), " of ", Size(disk.f_blocks * disk.f_frsize),
                      " are free, and ", Size(static_cast<uint64_t>(needed)), " are needed");
}

absl::Status NameFullDisk(absl::Status status, const std::string& folder, int64_t needed) {
  if (!absl::IsResourceExhausted(status) && !absl::IsUnavailable(status)) return status;
  const std::string full = DescribeFullDisk(folder, needed);
  return full.empty() ? status : base::Annotate(status, full);
}

}  // namespace ingot::app
