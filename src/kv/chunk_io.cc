#include "kv/chunk_io.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace ingot::kv {
namespace {

absl::Status WrongBytes(std::string_view place, std::string_view what) {
  return absl::DataLossError(absl::StrCat(base::View(place), ": ", base::View(what)));
}

}  // namespace

std::vector<uint64_t> ChecksumsOf(const PlanesToWrite& planes) {
  std::vector<uint64_t> checksums;
  for (const auto& plane : planes) {
    base::StreamingChecksum checksum;
    for (const std::span<const std::byte> piece : plane) checksum.Update(piece);
    checksums.push_back(checksum.Digest());
  }
  return checksums;
}

absl::Status ReadChunk(const Root& root, const Chunk& chunk, const PlanesToRead& planes, std::string_view place,
                       const ReadBytes& read) {
  const FileLayout layout = LayoutOf(chunk, root.plane_bytes);
  std::string header(static_cast<size_t>(layout.header_bytes), '\0');
  INGOT_RETURN_IF_ERROR(read(std::as_writable_bytes(std::span(header)), 0));
  std::vector<uint64_t> checksums;
  if (!ReadHeader(header, chunk, root.plane_bytes, checksums)) {
    return WrongBytes(place, "the header belongs to another chunk");
  }
  for (size_t i = 0; i < planes.size(); ++i) {
    base::StreamingChecksum checksum;
    int64_t at = layout.offsets[i];
    for (const std::span<std::byte> piece : planes[i]) {
      INGOT_RETURN_IF_ERROR(read(piece, at));
      checksum.Update(piece);
      at += std::ssize(piece);
    }
    if (checksum.Digest() != checksums[i]) return WrongBytes(place, "a checksum differs");
  }
  return absl::OkStatus();
}

}  // namespace ingot::kv
