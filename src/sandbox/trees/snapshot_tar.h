// Writes the files in layers as one tar archive (POSIX pax). The layers are merged as an overlay would show them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ingot::sandbox {

// Receives the next bytes of an archive. If it returns an error, WriteTar stops and returns that error.
using ByteSink = std::function<absl::Status(std::string_view bytes)>;

// The folder `name` in the archive, merged from `layers`, which are ordered from top to bottom.
struct TarPart {
  std::string name;
  std::vector<std::string> layers;
  // True = files that the layers delete from a lower folder are written as whiteouts, as in OCI layers (".wh.NAME").
  bool marks_deleted = false;
};

struct TarLimits {
  int64_t file_bytes = 0;            // total size of all files, including holes; 0 = no limit
  int64_t name_bytes = 128ll << 20;  // memory limit for the names in one folder and its parents
  // Skips files that this user does not own, because an agent may have linked to a file that it cannot read. nullopt =
  // skips nothing.
  std::optional<uid_t> only_of = std::nullopt;
};

// Writes folders, files, and links with their modes and times, owned by root. Skips sockets, pipes, devices, files that
// Ingot may not read, extended attributes, and setuid and setgid bits, which would take effect if root unpacks the
// archive. With `marks_deleted`, also skips files that are named like whiteouts. A hard link becomes a separate file.
// All paths are accessed through descriptors (base/open_file.h). If the layers change during the call, the archive may
// be corrupt, but it never contains files from outside the layers. Returns the sink's errors, RESOURCE_EXHAUSTED if a
// limit is exceeded, and UNAVAILABLE if a layer cannot be read.
absl::Status WriteTar(const std::vector<TarPart>& parts, const TarLimits& limits, const ByteSink& sink);

}  // namespace ingot::sandbox
