// The files of layers as one tar archive (POSIX pax), in which the layers are merged as an overlay shows them.
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

// Takes the next bytes of an archive. An error ends the archive and becomes its error.
using ByteSink = std::function<absl::Status(std::string_view bytes)>;

// A folder of the archive: `name`, merged from `layers`, the top one first.
struct TarPart {
  std::string name;
  std::vector<std::string> layers;
  // True: deleted files of a folder below the layers are written as marks, as in OCI layers (".wh.NAME").
  bool marks_deleted = false;
};

struct TarLimits {
  int64_t file_bytes = 0;            // of all files, holes included; 0 = no limit
  int64_t name_bytes = 128ll << 20;  // of memory for the names in one folder and those above it
  // Files of other users are left out: an agent may have linked to one that it cannot read. Empty = none are.
  std::optional<uid_t> only_of = std::nullopt;
};

// Writes folders, files and links with their modes and times, owned by root. Left out are: sockets, pipes and devices;
// files that Ingot may not read; setuid and setgid, which would take effect when root unpacks; other attributes; and,
// if deleted files are marked, files whose name is such a mark. A hard link becomes a separate file. All paths go
// through descriptors (base/open_file.h): layers that change meanwhile spoil the archive, and never lead out of them.
// Errors: the sink's, RESOURCE_EXHAUSTED for a limit, and UNAVAILABLE for a layer that cannot be read.
absl::Status WriteTar(const std::vector<TarPart>& parts, const TarLimits& limits, const ByteSink& sink);

}  // namespace ingot::sandbox
