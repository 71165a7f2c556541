#include "weights/tensor_checksum.h"

#include <string>

#include "weights/delta_payload.h"

namespace ingot::weights {

uint64_t CombineSlices(std::span<const uint64_t> digests) {
  if (digests.size() == 1) return digests[0];
  std::string bytes;
  bytes.reserve(digests.size() * sizeof(uint64_t));
  for (const uint64_t digest : digests) AppendInt(digest, sizeof(digest), bytes);
  return base::Checksum64(bytes);
}

uint64_t TensorChecksum(std::span<const std::byte> bytes) {
  std::vector<uint64_t> digests(static_cast<size_t>(SlicesOf(std::ssize(bytes))));
  for (uint64_t& digest : digests) {
    const size_t size = std::min(static_cast<size_t>(kSliceBytes), bytes.size());
    digest = base::Checksum64(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return CombineSlices(digests);
}

void StreamingTensorChecksum::Update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (in_slice_ == kSliceBytes) Close();
    const size_t size = std::min(static_cast<size_t>(kSliceBytes - in_slice_), bytes.size());
    if (in_slice_ == 0 && size == static_cast<size_t>(kSliceBytes)) {
      digests_.push_back(base::Checksum64(bytes.first(size)));
    } else {
      slice_->Update(bytes.first(size));
      in_slice_ += static_cast<int64_t>(size);
    }
    bytes = bytes.subspan(size);
  }
}

void StreamingTensorChecksum::Close() {
  digests_.push_back(slice_->Digest());
  slice_.emplace();
  in_slice_ = 0;
}

uint64_t StreamingTensorChecksum::Finish() {
  if (in_slice_ > 0 || digests_.empty()) Close();
  return CombineSlices(digests_);
}

}  // namespace ingot::weights
