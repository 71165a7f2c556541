// A Snapshot is the weights of one version as plain bytes. Checksums, deltas and transfers work on it. Knows no torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/weights.pb.h"
#include "weights/buffer_pool.h"
#include "weights/change_mask.h"

namespace ingot::weights {

struct EncodedDelta;
struct CodecOptions;

// A TensorView names the bytes of one tensor: row-major, little-endian, dtype as in safetensors (F32, BF16, F16).
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<std::byte[]> owner = nullptr;  // of bytes that no longer change; null = the view owns none
  uint64_t checksum = 0;                         // TensorChecksum of owned bytes
};

struct CopyOptions {
  int threads = 1;                                   // for the copy, including the caller's; >= 1
  BufferPool* buffers = nullptr;                     // memory of the tensors; null = allocate it
  std::shared_ptr<const Changes> changes = nullptr;  // of the tensors, from an earlier version; null = unknown
};

// Immutable, and shared by pointer: a reader keeps its version alive. It owns its bytes, 64-byte aligned per tensor,
// the tensors ordered by name. A version that a delta made shares the buffers of unchanged tensors with its base.
// Thread safe.
class Snapshot {
 public:
  // Sorts the tensors by name, shares tensors with an owner, copies the others and computes their checksums.
  // INVALID_ARGUMENT on duplicate names, unknown dtypes or sizes that do not match shapes.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Copy(int64_t version, const std::vector<TensorView>& tensors,
                                                              const CopyOptions& options = {});

  // The tensors of `base` and more, as another version. Shares the buffers of `base` and copies the rest.
  // INVALID_ARGUMENT as Copy, and for a name that `base` has.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Extend(const std::shared_ptr<const Snapshot>& base,
                                                                int64_t version, const std::vector<TensorView>& more);

  // Takes buffers that a decoder filled, and verifies every checksum of `manifest`: DATA_LOSS names the first tensor
  // that differs. REQUIRES: each buffer is from AllocateBuffer and holds at least its tensor's bytes.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Adopt(v1::Manifest manifest,
                                                               std::vector<std::shared_ptr<std::byte[]>> buffers);

  // A version of which this process has only the manifest. `delta`, also stored elsewhere, leads to it.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Elsewhere(std::shared_ptr<const EncodedDelta> delta);

  // Whether the weights are in this process. bytes() and view() require it.
  bool here() const { return elsewhere_ == nullptr; }
  const EncodedDelta& elsewhere() const { return *elsewhere_; }  // REQUIRES: they are not

  const v1::Manifest& manifest() const { return manifest_; }
  int64_t version() const { return manifest_.version(); }
  uint64_t checksum() const { return manifest_.checksum(); }
  int64_t total_bytes() const { return total_bytes_; }
  size_t size() const { return sizes_.size(); }
  std::span<const std::byte> bytes(size_t tensor) const;
  TensorView view(size_t tensor) const;  // with its owner
  // The words by which it may differ from an earlier version; null = unknown.
  const Changes* changes() const { return changes_.get(); }

 private:
  friend absl::StatusOr<std::shared_ptr<const Snapshot>> Apply(const std::shared_ptr<const Snapshot>& base,
                                                               const EncodedDelta& delta, const CodecOptions& options);

  // The tensors of `delta`, verified. `sizes`: TensorSizes of its manifest.
  static absl::StatusOr<std::vector<std::shared_ptr<std::byte[]>>> Decode(const Snapshot* base,
                                                                          const EncodedDelta& delta,
                                                                          const std::vector<int64_t>& sizes,
                                                                          const CodecOptions& options);

  Snapshot(v1::Manifest manifest, std::vector<std::shared_ptr<std::byte[]>> buffers, std::vector<int64_t> sizes);

  v1::Manifest manifest_;
  std::vector<std::shared_ptr<std::byte[]>> buffers_;
  std::vector<int64_t> sizes_;
  int64_t total_bytes_ = 0;
  std::shared_ptr<const Changes> changes_;
  std::shared_ptr<const EncodedDelta> elsewhere_;  // null = the weights are here
};

// The size in bytes of one element. INVALID_ARGUMENT: the dtype is not supported.
absl::StatusOr<int64_t> DtypeBytes(const std::string& dtype);

// The bytes of every tensor. INVALID_ARGUMENT unless names are unique and ordered, dtypes known, shapes non-negative
// and the sum at most `max_bytes`. Safe for a manifest from the network: nothing else is read.
absl::StatusOr<std::vector<int64_t>> TensorSizes(const v1::Manifest& manifest, int64_t max_bytes);

// The correct value of Manifest.checksum; never 0, which means "no base" in a delta.
uint64_t ManifestChecksum(const v1::Manifest& manifest);

// DATA_LOSS: the checksum of the tensor's bytes differs from its manifest's.
absl::Status CheckTensor(const v1::TensorInfo& declared, uint64_t checksum);

}  // namespace ingot::weights
