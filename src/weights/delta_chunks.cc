#include <algorithm>
#include <string>
#include <utility>

#include "weights/delta.h"

namespace ingot::weights {

void ToChunks(const EncodedDelta& delta, size_t max_bytes, const std::function<bool(const v1::WeightChunk&)>& emit) {
  max_bytes = std::max<size_t>(max_bytes, 1);
  v1::WeightChunk chunk;
  *chunk.mutable_header() = delta.header;
  if (!emit(chunk)) return;
  for (const v1::TensorDelta& tensor : delta.tensors) {
    const std::string& payload = tensor.payload();
    v1::TensorDelta& first = *chunk.mutable_tensor();
    first.set_tensor(tensor.tensor());
    first.set_coding(tensor.coding());
    first.set_payload(payload.substr(0, max_bytes));
    if (!emit(chunk)) return;
    for (size_t sent = max_bytes; sent < payload.size(); sent += max_bytes) {
      chunk.set_continuation(payload.substr(sent, max_bytes));
      if (!emit(chunk)) return;
    }
  }
}

absl::Status ChunkAssembler::AddHeader(v1::DeltaHeader header) {
  if (has_header_) return absl::InvalidArgumentError("weight chunks: a second header");
  if (header.checksum() != HeaderChecksum(header)) {
    return absl::DataLossError("weight chunks: the header fails its checksum; send a full copy");
  }
  INGOT_ASSIGN_OR_RETURN(sizes_, TensorSizes(header.target(), options_.max_bytes));
  int64_t total = 0;
  for (const int64_t size : sizes_) total += size;
  if (header.raw_bytes() != total) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight chunks: the header has ", header.raw_bytes(), " bytes, but its manifest has ", total));
  }
  delta_.header = std::move(header);
  has_header_ = true;
  return absl::OkStatus();
}

absl::Status ChunkAssembler::AddTensor(v1::TensorDelta tensor) {
  const size_t index = delta_.tensors.size();
  if (!has_header_) return absl::InvalidArgumentError("weight chunks: a tensor before the header");
  if (index >= sizes_.size() || tensor.tensor() != static_cast<int32_t>(index)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight chunks: tensor ", tensor.tensor(), " instead of ", index, " of ", sizes_.size()));
  }
  delta_.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status ChunkAssembler::Add(v1::WeightChunk chunk) {
  if (failed_) return absl::FailedPreconditionError("weight chunks: an earlier chunk was rejected");
  absl::Status status;
  switch (chunk.part_case()) {
    case v1::WeightChunk::kHeader:
      status = AddHeader(std::move(*chunk.mutable_header()));
      break;
    case v1::WeightChunk::kTensor:
      status = AddTensor(std::move(*chunk.mutable_tensor()));
      break;
    case v1::WeightChunk::kContinuation:
      if (delta_.tensors.empty()) {
        status = absl::InvalidArgumentError("weight chunks: a continuation before any tensor");
      } else {
        // Checked before the append, so that the payload never exceeds its tensor's limit.
        const int64_t grown = delta_.tensors.back().payload().size() + chunk.continuation().size();
        if (grown <= sizes_[delta_.tensors.size() - 1] + 9) {
          delta_.tensors.back().mutable_payload()->append(chunk.continuation());
        } else {
          status = absl::InvalidArgumentError("weight chunks: a payload is larger than its tensor");
        }
      }
      break;
    default:
      status = absl::InvalidArgumentError("weight chunks: an empty chunk");
  }
  if (status.ok() && !delta_.tensors.empty() &&
      static_cast<int64_t>(delta_.tensors.back().payload().size()) > sizes_[delta_.tensors.size() - 1] + 9) {
    status = absl::InvalidArgumentError("weight chunks: a payload is larger than its tensor");
  }
  failed_ = !status.ok();
  return status;
}

absl::StatusOr<EncodedDelta> ChunkAssembler::Finish() {
  if (failed_) return absl::FailedPreconditionError("weight chunks: an earlier chunk was rejected");
  if (!has_header_) return absl::InvalidArgumentError("weight chunks: no header");
  if (delta_.tensors.size() != sizes_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight chunks: ended after ", delta_.tensors.size(), " of ", sizes_.size(), " tensors"));
  }
  failed_ = true;  // the delta has moved to the caller
  return std::move(delta_);
}

}  // namespace ingot::weights
