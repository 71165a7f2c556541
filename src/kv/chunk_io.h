// Reads and verifies a chunk's bytes, whether they come from a file, from memory, or from another engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kv/chunk.h"

namespace ingot::kv {

// Returns whether the planes have the root's sizes.
template <typename Planes>
bool HaveSizes(const Planes& planes, std::span<const int64_t> plane_bytes) {
  if (planes.size() != plane_bytes.size()) return false;
  for (size_t i = 0; i < planes.size(); ++i) {
    int64_t sum = 0;
    for (const auto& piece : planes[i]) sum += std::ssize(piece);
    if (sum != plane_bytes[i]) return false;
  }
  return true;
}
// Returns INVALID_ARGUMENT unless the planes have the root's sizes.
template <typename Planes>
absl::Status CheckSizes(const Planes& planes, const Root& root) {
  if (HaveSizes(planes, root.plane_bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError("the sizes of the planes do not match the root's layout");
}

// Returns the checksum of each plane.
std::vector<uint64_t> ChecksumsOf(const PlanesToWrite& planes);

// Fills `bytes` with the file's bytes from `offset` on.
using ReadBytes = std::function<absl::Status(std::span<std::byte> bytes, int64_t offset)>;

// Reads a chunk's header and planes with ascending offsets (FileLayout) and verifies them. `place` names the source in
// error messages. After an error, `planes` may have any bytes. Returns the errors of `read`, and DATA_LOSS if the header
// is not this chunk's or a checksum differs. REQUIRES: the planes have the root's sizes.
absl::Status ReadChunk(const Root& root, const Chunk& chunk, const PlanesToRead& planes, std::string_view place,
                       const ReadBytes& read);

}  // namespace ingot::kv
