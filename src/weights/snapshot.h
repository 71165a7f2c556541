// The weights of one version as plain bytes: what is checksummed, encoded, sent, checked and held. Knows no torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/weights.pb.h"

namespace ingot::weights {

struct EncodedDelta;
struct CodecOptions;

// One tensor's bytes: row-major, little-endian, dtype named as in safetensors (F32, BF16, F16). Does not own them.
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// An immutable version. Owns its bytes (64-byte aligned per tensor); tensors are ordered by name. Shared by pointer:
// readers keep the version they took until they drop it. Versions made from one another by a delta share the buffers of
// tensors that did not change. Thread safe.
class Snapshot {
 public:
  // Copies the tensors, sorts them by name and computes all checksums. INVALID_ARGUMENT on duplicate names, unknown
  // dtypes or sizes that do not match shapes.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Copy(int64_t version, const std::vector<TensorView>& tensors);

  // Takes buffers that a decoder filled, and verifies every checksum of `manifest` against them: DATA_LOSS names the
  // first tensor that differs. Each buffer holds at least its tensor's bytes; use AllocateBuffer.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Adopt(v1::Manifest manifest,
                                                               std::vector<std::shared_ptr<std::byte[]>> buffers);

  const v1::Manifest& manifest() const { return manifest_; }
  int64_t version() const { return manifest_.version(); }
  uint64_t checksum() const { return manifest_.checksum(); }
  int64_t total_bytes() const { return total_bytes_; }
  size_t size() const { return buffers_.size(); }
  std::span<const std::byte> bytes(size_t tensor) const;
  TensorView view(size_t tensor) const;

 private:
  friend absl::StatusOr<std::shared_ptr<const Snapshot>> Apply(const std::shared_ptr<const Snapshot>& base,
                                                               const EncodedDelta& delta, const CodecOptions& options);

  Snapshot(v1::Manifest manifest, std::vector<std::shared_ptr<std::byte[]>> buffers, std::vector<int64_t> sizes);

  v1::Manifest manifest_;
  std::vector<std::shared_ptr<std::byte[]>> buffers_;
  std::vector<int64_t> sizes_;
  int64_t total_bytes_ = 0;
};

// Size in bytes of one element; INVALID_ARGUMENT for a dtype the project does not use.
absl::StatusOr<int64_t> DtypeBytes(const std::string& dtype);

// Bytes of every tensor. INVALID_ARGUMENT unless names are unique and ordered, dtypes known, shapes non-negative and
// the whole at most `max_bytes`. Reads nothing but the manifest, so it may come from outside.
absl::StatusOr<std::vector<int64_t>> TensorSizes(const v1::Manifest& manifest, int64_t max_bytes);

// What Manifest.checksum must be; never 0, which stands for "no base" in deltas.
uint64_t ManifestChecksum(const v1::Manifest& manifest);

// 64-byte aligned, uninitialised, at least one byte. RESOURCE_EXHAUSTED if there is not that much memory.
absl::StatusOr<std::shared_ptr<std::byte[]>> AllocateBuffer(int64_t bytes);

}  // namespace ingot::weights
