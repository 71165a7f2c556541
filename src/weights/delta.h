// The codec of lossless weight deltas. Encode(base, target) makes an EncodedDelta; Apply(base, delta) returns the
// target bit for bit, or an error. The codec knows no transport: transports carry an EncodedDelta as WeightChunks.
//
// Payload grammar (all integers little-endian):
//   UNCHANGED  empty
//   others     form, body, u64 checksum of (u32 tensor index, u32 coding, form, body)
// `form` is one byte: 0 = the body as it is, 1 = one zstd frame of it. Bodies:
//   FULL       the bytes
//   XOR        the XOR with the base, in planes (byte_planes.h), so that unchanged high bytes become long runs of zero
//   SPARSE     u64 count, then count varints: unchanged elements since the previous changed one, then the count
//              changed elements' new bytes, in planes
//   ULP        form 0; u8 n, then u32 bytes of each slice of 2^n words of the tensor, then these slices (ulp_slice.h);
//              a slice of 0 bytes has no change
// A changed BF16 tensor is sent as ULP, or FULL where that is smaller. Other dtypes are sent in the smallest of FULL,
// XOR and SPARSE. No payload is larger than its tensor's bytes + 9. The slices of a version are encoded on several
// threads, and its tensors decoded on several; the bytes do not depend on their number.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "proto/weights.pb.h"
#include "weights/snapshot.h"

namespace ingot::v1 {
class VersionManifest;  // proto/weight_store.proto
}

namespace ingot::weights {

struct CodecOptions {
  int zstd_level = 1;                             // -7 (fastest) to 19
  int64_t max_bytes = int64_t{1} << 38;           // raw size of a version that Apply and ChunkAssembler accept; > 0
  int threads = 1;                                // of Encode and Apply, including the caller's; >= 1
  std::shared_ptr<BufferPool> buffers = nullptr;  // memory of versions that Apply makes; null = allocate it

  absl::Status Validate() const;
};

struct EncodedDelta {
  v1::DeltaHeader header;
  std::vector<v1::TensorDelta> tensors;  // every tensor of the manifest, in its order; empty if stored elsewhere
  int64_t changed_elements = 0;          // density = changed / total; only the encoder knows both
  int64_t total_elements = 0;
  std::chrono::nanoseconds fetch{0};  // time in which its bytes arrived; 0 = it was made here
  // Not null = the payloads are elsewhere: each rank of the trainer has stored its shard, and the manifest is not
  // stored yet. `stored_anchor`: the same for a full copy, or null.
  std::shared_ptr<const v1::VersionManifest> stored = nullptr, stored_anchor = nullptr;
  int64_t wire_bytes() const;  // of header and payloads
};

// Gives a tensor's entry another index: a rank numbers its own tensors.
void Renumber(v1::TensorDelta& tensor, int32_t index);

// A delta from `base`, or a full copy if base is null or its tensors have other names, dtypes or shapes. Reads of BF16
// tensors only the words that target.changes() marks, if these are changes of `base`.
absl::StatusOr<EncodedDelta> Encode(const Snapshot* base, const Snapshot& target, bool retain,
                                    const CodecOptions& options = {});

// A full copy for an engine to hold in addition to its live version, until its release.
absl::StatusOr<EncodedDelta> EncodeBeside(const Snapshot& target, const CodecOptions& options = {});

// The full copy in place of a delta whose payloads are elsewhere: it has no payloads either.
EncodedDelta NameFull(const EncodedDelta& delta, bool retain);

// FAILED_PRECONDITION: `base` is not the base of the delta; a null base takes full copies only. DATA_LOSS: a payload is
// damaged or a checksum differs. INVALID_ARGUMENT: the message is not a delta, or its target exceeds max_bytes.
absl::StatusOr<std::shared_ptr<const Snapshot>> Apply(const std::shared_ptr<const Snapshot>& base,
                                                      const EncodedDelta& delta, const CodecOptions& options = {});

// True if the delta needs no base.
inline bool IsFullCopy(const v1::DeltaHeader& header) { return header.base_checksum() == 0; }

// The share of elements by which `target` differs from `base`: 1 if base is null or its tensors have other names,
// dtypes or shapes. Reads as Encode.
double Density(const Snapshot* base, const Snapshot& target);

// The correct value of DeltaHeader.checksum.
uint64_t HeaderChecksum(const v1::DeltaHeader& header);

// Cuts a delta into messages of at most `max_bytes` (> 0) payload each; `emit` returns false to stop early.
void ToChunks(const EncodedDelta& delta, size_t max_bytes, const std::function<bool(const v1::WeightChunk&)>& emit);

// A ChunkAssembler reassembles the chunks of ToChunks: Add every chunk, then Finish. INVALID_ARGUMENT: a wrong
// order, a missing chunk, or more bytes than the manifest allows. DATA_LOSS: the header fails its checksum. It holds at
// most the bytes that the manifest allows, and trusts no chunk: chunks come from the network. Not thread safe; after an
// error it stays unusable.
class ChunkAssembler {
 public:
  explicit ChunkAssembler(CodecOptions options = {}) : options_(options) {}
  absl::Status Add(v1::WeightChunk chunk);
  absl::StatusOr<EncodedDelta> Finish();

 private:
  absl::Status AddHeader(v1::DeltaHeader header);
  absl::Status AddTensor(v1::TensorDelta tensor);

  const CodecOptions options_;
  EncodedDelta delta_;
  std::vector<int64_t> sizes_;
  bool has_header_ = false;
  bool failed_ = false;
};

}  // namespace ingot::weights
