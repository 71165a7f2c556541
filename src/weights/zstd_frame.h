// Compresses and decompresses zstd frames, reusing its contexts across the tensors in a delta. Not thread safe.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace ingot::weights {

class ZstdFrame {
 public:
  // Appends the compressed bytes to `out` if there are fewer than `limit`. Otherwise returns false and leaves `out`
  // unchanged.
  bool Compress(std::span<const std::byte> bytes, int level, size_t limit, std::string& out);

  // Fills `out`. Returns DATA_LOSS if the frame is damaged or its content has a different size.
  absl::Status Decompress(std::string_view frame, std::span<std::byte> out);

  // Returns the content size from the frame header, or DATA_LOSS if the header has none or one above `limit`.
  absl::StatusOr<size_t> ContentSize(std::string_view frame, size_t limit);

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> compress_;
  std::unique_ptr<ZSTD_DCtx, Free> decompress_;
};

}  // namespace ingot::weights
