// Limits of the disk that an image may take while it is unpacked or built. An image is a stranger's: a layer of a few
// KiB may declare terabytes. Three limits apply at once, and are checked while the tools run:
//
//   disk      what an unpacking or a build has in its scratch folder
//   ratio     an image unpacks to so many times its archive; less than `free_bytes` is always allowed
//   reserve   space that stays free in the store's file system, whatever filled the rest
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sandbox/disk_watch.h"

namespace ingot::sandbox {

struct ImageLimits {
  DiskLimits disk = {.bytes = int64_t{64} << 30, .files = 4'000'000};
  int64_t ratio = 200;  // compressors reach 1,000 on zeros; programs and data stay below 20
  int64_t free_bytes = int64_t{1} << 30;
  // -1 = a twentieth of the file system, at least 1 GiB and at most 20 GiB.
  int64_t reserve_bytes = -1;
};

// What an archive of so many bytes may unpack to.
int64_t MostUnpacked(const ImageLimits& limits, int64_t archive_bytes);

// RESOURCE_EXHAUSTED: the file system of `folder` has less space left than the reserve. No limit if it reports no
// sizes.
absl::Status CheckReserve(const ImageLimits& limits, const std::string& folder);

}  // namespace ingot::sandbox
