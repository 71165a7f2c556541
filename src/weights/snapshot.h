// A Snapshot contains one version's weights as plain bytes, for checksums, deltas, and transfers. Independent of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// Changed elements of a tensor, which replace those of an earlier version.
struct TensorPatch {
  std::span<const uint64_t> marks;    // bit i % 64 of entry i / 64 is set if element i changed
  std::span<const std::byte> values;  // the marked elements, in order
};

// A TensorView refers to one tensor's bytes: row-major, little-endian, with a dtype as in safetensors (F32, BF16, F16).
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<std::byte[]> owner = nullptr;  // set if the bytes no longer change; null = the view does not own them
  uint64_t checksum = 0;                         // TensorChecksum of owned bytes
  v1::TensorRole role = v1::TENSOR_POLICY;
  // The copy has these elements instead of those in `bytes`. REQUIRES: no owner. nullopt = the copy equals `bytes`.
  std::optional<TensorPatch> patch = std::nullopt;
};

struct CopyOptions {
  int threads = 1;                                   // threads for the copy, including the calling thread; >= 1
  BufferPool* buffers = nullptr;                     // memory for the tensors; null = allocate it
  std::shared_ptr<const Changes> changes = nullptr;  // changes since an earlier version; null = unknown
};

// Immutable and shared by pointer, so a reader keeps its version alive. Owns its bytes, with each tensor 64-byte
// aligned. Tensors are sorted by name. A version decoded from a delta shares unchanged tensors' buffers with its base.
// Thread safe.
class Snapshot {
 public:
  // Sorts the tensors by name. Shares tensors that have an owner. Copies the others and computes their checksums.
  // Returns INVALID_ARGUMENT for duplicate names, unknown dtypes, sizes that do not match shapes, or a patch with another
  // number of entries or values than its tensor and marks.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Copy(int64_t version, const std::vector<TensorView>& tensors,
                                                              const CopyOptions& options = {});

  // Returns the tensors of `base` and more as another version. Shares the buffers of `base` and copies the rest.
  // Returns the same errors as Copy, and INVALID_ARGUMENT for a name that `base` already has.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Extend(const std::shared_ptr<const Snapshot>& base,
                                                                int64_t version, const std::vector<TensorView>& more);

  // Takes buffers filled by a decoder and verifies every checksum in `manifest`. Returns DATA_LOSS, naming the first
  // tensor that differs. REQUIRES: each buffer is from AllocateBuffer and is at least as large as its tensor.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Adopt(v1::Manifest manifest,
                                                               std::vector<std::shared_ptr<std::byte[]>> buffers);

  // Returns a version for which this process has only the manifest. Its weights are the result of applying `delta`,
  // which is also stored elsewhere.
  static absl::StatusOr<std::shared_ptr<const Snapshot>> Elsewhere(std::shared_ptr<const EncodedDelta> delta);

  // Returns whether the weights are in this process. bytes() and view() require this.
  bool here() const { return elsewhere_ == nullptr; }
  const EncodedDelta& elsewhere() const { return *elsewhere_; }  // REQUIRES: !here()

  const v1::Manifest& manifest() const { return manifest_; }
  int64_t version() const { return manifest_.version(); }
  uint64_t checksum() const { return manifest_.checksum(); }
  // Equals checksum() if there is no draft head.
  uint64_t policy_checksum() const { return manifest_.policy_checksum(); }
  int64_t total_bytes() const { return total_bytes_; }
  size_t size() const { return sizes_.size(); }
  std::span<const std::byte> bytes(size_t tensor) const;
  TensorView view(size_t tensor) const;  // includes its owner
  // Returns the words that may differ from an earlier version. Null = unknown.
  const Changes* changes() const { return changes_.get(); }

 private:
  friend absl::StatusOr<std::shared_ptr<const Snapshot>> Apply(const std::shared_ptr<const Snapshot>& base,
                                                               const EncodedDelta& delta, const CodecOptions& options);

  // Returns the verified tensors in `delta`. `sizes` are the TensorSizes of its manifest.
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

// Returns the size of one element in bytes. Returns INVALID_ARGUMENT if the dtype is not supported.
absl::StatusOr<int64_t> DtypeBytes(const std::string& dtype);

// Returns the size of every tensor in bytes. Returns INVALID_ARGUMENT unless names are unique and sorted, dtypes are
// known, shapes are non-negative, and the sum is at most `max_bytes`. Safe to call on a manifest from the network,
// because it reads nothing else.
absl::StatusOr<std::vector<int64_t>> TensorSizes(const v1::Manifest& manifest, int64_t max_bytes);

// Returns the correct value of Manifest.checksum. Never 0, which means "no base" in a delta.
uint64_t ManifestChecksum(const v1::Manifest& manifest);
// Returns the correct value of Manifest.policy_checksum. Snapshots set it.
uint64_t PolicyChecksum(const v1::Manifest& manifest);

// Returns DATA_LOSS if the checksum of the tensor's bytes differs from the manifest's.
absl::Status CheckTensor(const v1::TensorInfo& declared, uint64_t checksum);

}  // namespace ingot::weights
