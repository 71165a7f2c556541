#include "sandbox/image/image_limits.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <limits>

namespace ingot::sandbox {
namespace {

constexpr int64_t kMinReserve = int64_t{1} << 30, kMaxReserve = int64_t{20} << 30;
constexpr int64_t kReservedPart = 20;

}  // namespace

int64_t MaxUnpacked(const ImageLimits& limits, int64_t archive_bytes) {
  const bool is_huge = archive_bytes > std::numeric_limits<int64_t>::max() / std::max<int64_t>(1, limits.ratio);
  return is_huge ? archive_bytes : std::max(limits.free_bytes, limits.ratio * archive_bytes);
}

absl::Status CheckReserve(const ImageLimits& limits, const std::string& folder) {
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return absl::OkStatus();
  const auto bytes = [&info](uint64_t blocks) { return static_cast<int64_t>(blocks * info.f_frsize); };
  const int64_t usual = std::clamp(bytes(info.f_blocks) / kReservedPart, kMinReserve, kMaxReserve);
  const int64_t reserve = limits.reserve_bytes >= 0 ? limits.reserve_bytes : usual;
  const int64_t left = bytes(info.f_bavail);
  if (left >= reserve) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the file system of ", folder, " has ", left, " bytes left, but unpacking images must leave ", reserve,
      " free: free some disk space there, or choose another store (agents.image_store, --store)"));
}

}  // namespace ingot::sandbox
