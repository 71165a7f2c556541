// Defines disk limits for unpacking and building images. Images are untrusted: a layer of a few KiB may unpack to
// terabytes. Three limits apply and are checked while the tools run:
//
//   disk      size of the scratch folder during an unpack or build
//   ratio     unpacked size relative to the archive; sizes up to `free_bytes` are always allowed
//   reserve   space that must stay free on the store's file system, regardless of what uses it
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sandbox/disk_watch.h"

namespace ingot::sandbox {

struct ImageLimits {
  DiskLimits disk = {.bytes = int64_t{64} << 30, .files = 4'000'000};
  int64_t ratio = 200;  // zeros compress by a factor of 1,000; programs and data by less than 20
  int64_t free_bytes = int64_t{1} << 30;
  // -1 = 5% of the file system, at least 1 GiB and at most 20 GiB.
  int64_t reserve_bytes = -1;
};

// Returns the maximum unpacked size for an archive of this size.
int64_t MaxUnpacked(const ImageLimits& limits, int64_t archive_bytes);

// Returns RESOURCE_EXHAUSTED if the file system of `folder` has less free space than the reserve. Returns OK if the
// file system does not report sizes.
absl::Status CheckReserve(const ImageLimits& limits, const std::string& folder);

}  // namespace ingot::sandbox
