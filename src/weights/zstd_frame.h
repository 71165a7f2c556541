// A ZstdFrame compresses and decompresses zstd frames, and reuses its contexts over the tensors of a delta. Not thread
// safe.
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
  // Appends the compressed bytes to `out` if they are fewer than `limit`. False = they are not; `out` is unchanged.
  bool Compress(std::span<const std::byte> bytes, int level, size_t limit, std::string& out);

  // Fills `out`. DATA_LOSS: the frame is damaged, or its content has a different size.
  absl::Status Decompress(std::string_view frame, std::span<std::byte> out);

  // The content size in the frame's header. DATA_LOSS: the header names none, or more than `limit`.
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
