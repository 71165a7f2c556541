#include "weights/zstd_frame.h"

namespace ingot::weights {

bool ZstdFrame::Compress(std::span<const std::byte> bytes, int level, size_t limit, std::string& out) {
  if (compress_ == nullptr) compress_.reset(ZSTD_createCCtx());
  if (compress_ == nullptr) return false;
  const size_t before = out.size();
  // With a buffer as large as the limit, zstd stops early on a frame that does not fit.
  out.resize(before + limit);
  const size_t size = ZSTD_compressCCtx(compress_.get(), out.data() + before, limit, bytes.data(), bytes.size(), level);
  const bool fits = !ZSTD_isError(size) && size < limit;
  out.resize(fits ? before + size : before);
  return fits;
}

absl::Status ZstdFrame::Decompress(std::string_view frame, std::span<std::byte> out) {
  if (decompress_ == nullptr) decompress_.reset(ZSTD_createDCtx());
  if (decompress_ == nullptr) return absl::ResourceExhaustedError("cannot allocate memory for a zstd context");
  const size_t size = ZSTD_decompressDCtx(decompress_.get(), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) {
    return absl::DataLossError(absl::StrCat("compressed payload is damaged: ", ZSTD_getErrorName(size)));
  }
  if (size != out.size()) {
    return absl::DataLossError(absl::StrCat("compressed payload holds ", size, " bytes instead of ", out.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ZstdFrame::ContentSize(std::string_view frame, size_t limit) {
  const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) {
    return absl::DataLossError("compressed payload does not declare its size");
  }
  if (size > limit) {
    return absl::DataLossError(absl::StrCat("compressed payload declares ", size, " bytes, more than ", limit));
  }
  return static_cast<size_t>(size);
}

}  // namespace ingot::weights
