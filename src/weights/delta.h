// Lossless weight deltas. Encode(base, target) -> EncodedDelta; Apply(base, delta) gives the target bit for bit or an
// error, never something in between. The codec knows no transport: transports carry EncodedDelta as WeightChunks.
//
// Payload grammar (all integers little-endian; zstd frames unless said otherwise):
//   FULL       zstd(bytes) or bytes, told apart by one leading byte: 0 raw, 1 zstd
//   UNCHANGED  empty
//   XOR        1 byte as above, then the XOR with the base, element bytes grouped by their position in the element
//              (all first bytes, then all second bytes, ...), so that unchanged high bytes become long runs of zero
//   SPARSE     1 byte as above, then u64 count, count x varint gap to the previous changed element, count x element
//   bytes
// Per tensor the smallest is sent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "proto/weights.pb.h"
#include "weights/snapshot.h"

namespace ingot::weights {

struct EncodedDelta {
  v1::DeltaHeader header;
  std::vector<v1::TensorDelta> tensors;  // every tensor of the manifest, in its order
  int64_t changed_elements = 0;          // of all elements; density = changed / total
  int64_t total_elements = 0;
  int64_t wire_bytes() const;  // header and payloads
};

// A delta from `base`, or a full copy if base is null or its tensors have other names, dtypes or shapes.
absl::StatusOr<EncodedDelta> Encode(const Snapshot* base, const Snapshot& target, bool retain);

// FAILED_PRECONDITION: `base` is not the version the delta was made from (null base only takes full copies).
// DATA_LOSS: a payload is damaged or a checksum differs. INVALID_ARGUMENT: not a delta.
absl::StatusOr<std::shared_ptr<const Snapshot>> Apply(const std::shared_ptr<const Snapshot>& base,
                                                      const EncodedDelta& delta);

// Cuts a delta into messages of at most `max_bytes` payload each; `emit` returns false to stop early.
void ToChunks(const EncodedDelta& delta, size_t max_bytes, const std::function<bool(const v1::WeightChunk&)>& emit);

// The other way round: feed every chunk, then Finish. INVALID_ARGUMENT on a wrong order or a missing part.
class ChunkAssembler {
 public:
  absl::Status Add(v1::WeightChunk chunk);
  absl::StatusOr<EncodedDelta> Finish();

 private:
  EncodedDelta delta_;
  bool has_header_ = false;
};

}  // namespace ingot::weights
