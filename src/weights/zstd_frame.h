// zstd behind one small class: contexts are reused over the tensors of a delta. Not thread safe.
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
  // Appends the compressed bytes to `out` if they are fewer than `limit`; otherwise leaves it as it was, false.
  bool Compress(std::span<const std::byte> bytes, int level, size_t limit, std::string& out);

  // Fills `out` exactly; DATA_LOSS if the frame is damaged or holds more or less than that.
  absl::Status Decompress(std::string_view frame, std::span<std::byte> out);

  // What the frame says it holds; DATA_LOSS if it does not say, or more than `limit`.
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
