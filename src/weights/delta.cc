#include "weights/delta.h"

#include <algorithm>

#include "base/checksum.h"
#include "proto/weight_store.pb.h"
#include "weights/delta_payload.h"

namespace ingot::weights {

void AppendInt(uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ReadInt(std::string_view bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

uint64_t PayloadChecksum(const v1::TensorDelta& delta, std::string_view form_and_body) {
  std::string place;
  AppendInt(static_cast<uint32_t>(delta.tensor()), 4, place);
  AppendInt(static_cast<uint32_t>(delta.coding()), 4, place);
  base::StreamingChecksum sum;
  sum.Update(place);
  sum.Update(form_and_body);
  return sum.Digest();
}

bool SameLayout(const v1::Manifest& a, const v1::Manifest& b) {
  if (a.tensors_size() != b.tensors_size()) return false;
  for (int i = 0; i < a.tensors_size(); ++i) {
    const v1::TensorInfo& x = a.tensors(i);
    const v1::TensorInfo& y = b.tensors(i);
    if (x.name() != y.name() || x.dtype() != y.dtype() || x.role() != y.role() || x.shape_size() != y.shape_size() ||
        !std::equal(x.shape().begin(), x.shape().end(), y.shape().begin())) {
      return false;
    }
  }
  return true;
}

absl::Status CodecOptions::Validate() const {
  if (zstd_level < kMinLevel || zstd_level > kMaxLevel) {
    return absl::InvalidArgumentError(
        absl::StrCat("zstd_level is ", zstd_level, ": must be ", kMinLevel, " to ", kMaxLevel));
  }
  if (max_bytes <= 0) return absl::InvalidArgumentError(absl::StrCat("max_bytes is ", max_bytes, ": must be > 0"));
  if (threads < 1) return absl::InvalidArgumentError(absl::StrCat("threads is ", threads, ": must be >= 1"));
  return absl::OkStatus();
}

uint64_t HeaderChecksum(const v1::DeltaHeader& header) {
  std::string fields;
  AppendInt(header.target().version(), 8, fields);
  AppendInt(header.target().checksum(), 8, fields);
  AppendInt(header.base_version(), 8, fields);
  AppendInt(header.base_checksum(), 8, fields);
  AppendInt(header.retain() ? 1 : 0, 1, fields);
  AppendInt(header.raw_bytes(), 8, fields);
  AppendInt(header.beside() ? 1 : 0, 1, fields);
  return base::Checksum64(fields);
}

void Renumber(v1::TensorDelta& tensor, int32_t index) {
  tensor.set_tensor(index);
  std::string& payload = *tensor.mutable_payload();
  if (payload.empty()) return;
  payload.resize(payload.size() - sizeof(uint64_t));
  AppendInt(PayloadChecksum(tensor, payload), sizeof(uint64_t), payload);
}

int64_t EncodedDelta::wire_bytes() const {
  int64_t bytes = static_cast<int64_t>(header.ByteSizeLong());
  if (stored != nullptr) {
    for (const v1::WeightShard& shard : stored->shards()) bytes += shard.bytes();
  }
  for (const v1::TensorDelta& tensor : tensors) bytes += static_cast<int64_t>(tensor.payload().size());
  return bytes;
}

}  // namespace ingot::weights
