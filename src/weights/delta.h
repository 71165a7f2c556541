// Encodes and applies lossless weight deltas. Encode(base, target) returns an EncodedDelta. Apply(base, delta) returns
// the target bit for bit, or an error. The codec is independent of the transports, which send an EncodedDelta as
// WeightChunks.
//
// Payload grammar (all integers are little-endian):
//   UNCHANGED  empty
//   others     form, body, u64 checksum of (u32 tensor index, u32 coding, form, body)
// `form` is one byte: 0 = the raw body, 1 = one zstd frame of it. Bodies:
//   FULL       the bytes
//   XOR        the XOR with the base, in planes (byte_planes.h), so unchanged high bytes become long runs of zeros
//   SPARSE     u64 count, then count varints: unchanged elements since the previous changed one, then the count
//              changed elements' new bytes, in planes
//   ULP        form 0; u8 n, then the u32 size in bytes of each slice of 2^n words of the tensor, then the slices
//              (ulp_slice.h); a slice of 0 bytes has no changes
//
// A changed BF16 tensor is sent as ULP, or as FULL if that is smaller. Other dtypes are sent in the smallest of FULL,
// XOR, and SPARSE. A payload is at most 9 bytes larger than its tensor. Several threads encode a version's slices and
// decode its tensors. The bytes do not depend on the number of threads.
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
  static constexpr int kMinLevel = -7, kMaxLevel = 19;

  int zstd_level = 1;                             // kMinLevel (fastest) to kMaxLevel
  int64_t max_bytes = int64_t{1} << 38;           // maximum raw size of a version in Apply and ChunkAssembler; > 0
  int threads = 1;                                // for Encode and Apply, including the calling thread; >= 1
  std::shared_ptr<BufferPool> buffers = nullptr;  // memory for versions that Apply creates; null = allocate it

  absl::Status Validate() const;
};

struct EncodedDelta {
  v1::DeltaHeader header;
  std::vector<v1::TensorDelta> tensors;  // every tensor in the manifest, in manifest order; empty if stored elsewhere
  int64_t changed_elements = 0;          // for the density, changed / total, which only the encoder can compute
  int64_t total_elements = 0;
  std::chrono::nanoseconds fetch{0};  // time spent receiving the bytes; 0 = encoded in this process
  // Not null = the payloads are stored elsewhere: each trainer rank has stored its shard, but the manifest is not
  // stored yet. `stored_anchor` is the same, but for a full copy; it may be null.
  std::shared_ptr<const v1::VersionManifest> stored = nullptr, stored_anchor = nullptr;
  int64_t wire_bytes() const;  // size of the header and payloads
};

// Changes the index in a tensor's entry, because a rank numbers only its own tensors.
void Renumber(v1::TensorDelta& tensor, int32_t index);

// Returns a delta from `base`, or a full copy if base is null or its tensors have other names, dtypes, or shapes. For
// BF16 tensors, reads only the words marked in target.changes(), if those are changes from `base`.
absl::StatusOr<EncodedDelta> Encode(const Snapshot* base, const Snapshot& target, bool retain,
                                    const CodecOptions& options = {});

// Returns a full copy that an engine keeps in addition to its live version until Release.
absl::StatusOr<EncodedDelta> EncodeHeld(const Snapshot& target, const CodecOptions& options = {});

// Returns the full copy that corresponds to a delta with payloads stored elsewhere. It also has no payloads.
EncodedDelta NameFull(const EncodedDelta& delta, bool retain);

// Returns FAILED_PRECONDITION if `base` is not the delta's base (null accepts only full copies), DATA_LOSS if a payload
// is damaged or a checksum differs, and INVALID_ARGUMENT if the message is not a delta or its target exceeds max_bytes.
absl::StatusOr<std::shared_ptr<const Snapshot>> Apply(const std::shared_ptr<const Snapshot>& base,
                                                      const EncodedDelta& delta, const CodecOptions& options = {});

// Returns whether the delta needs no base.
inline bool IsFullCopy(const v1::DeltaHeader& header) { return header.base_checksum() == 0; }

// Returns the share of elements where `target` differs from `base`, or 1 if base is null or its tensors have other
// names, dtypes, or shapes. Reads the same words as Encode.
double Density(const Snapshot* base, const Snapshot& target);

// Returns the correct value of DeltaHeader.checksum.
uint64_t HeaderChecksum(const v1::DeltaHeader& header);

// Splits a delta into messages with at most `max_bytes` (> 0) of payload each. `emit` returns false to stop early.
void ToChunks(const EncodedDelta& delta, size_t max_bytes, const std::function<bool(const v1::WeightChunk&)>& emit);

// Reassembles the chunks from ToChunks: call Add for every chunk, then Finish. Returns INVALID_ARGUMENT for chunks in
// the wrong order, a missing chunk, or more bytes than the manifest allows, and DATA_LOSS if the header's checksum is
// wrong. Holds at most the bytes that the manifest allows. Does not trust the chunks, because they come from the
// network. Not thread safe. Unusable after an error.
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
