#include "tree/segment_key.h"

#include <bit>
#include <cstdint>

#include "base/checksum.h"

namespace ingot::tree {
namespace {

template <typename Unsigned>
void AppendLittleEndian(Unsigned value, std::string& out) {
  for (size_t byte = 0; byte < sizeof(Unsigned); ++byte) out += static_cast<char>((value >> (8 * byte)) & 0xFF);
}

// Applies AppendLittleEndian to each value. On a little-endian machine, appends the whole array at once.
template <typename Value>
void AppendAll(const google::protobuf::RepeatedField<Value>& values, std::string& out) {
  static_assert(sizeof(Value) == sizeof(uint32_t));
  if constexpr (std::endian::native == std::endian::little) {
    out.append(reinterpret_cast<const char*>(values.data()), sizeof(Value) * static_cast<size_t>(values.size()));
  } else {
    for (const Value value : values) AppendLittleEndian(std::bit_cast<uint32_t>(value), out);
  }
}

}  // namespace

std::string SegmentKey(const v1::Segment& segment) {
  std::string bytes;
  bytes.reserve(32 + 4 * segment.token_ids_size() + 4 * segment.logprobs_size() + 13 * segment.versions_size());
  AppendLittleEndian(static_cast<uint32_t>(segment.source()), bytes);
  AppendLittleEndian(static_cast<uint64_t>(segment.token_ids_size()), bytes);
  AppendAll(segment.token_ids(), bytes);
  AppendLittleEndian(static_cast<uint64_t>(segment.logprobs_size()), bytes);
  AppendAll(segment.logprobs(), bytes);
  AppendLittleEndian(static_cast<uint64_t>(segment.versions_size()), bytes);
  for (const v1::VersionRun& run : segment.versions()) {
    AppendLittleEndian(static_cast<uint64_t>(run.version()), bytes);
    AppendLittleEndian(static_cast<uint32_t>(run.count()), bytes);
    bytes += run.kv_mixed() ? '\1' : '\0';
  }
  if (!segment.placeholders().empty()) {  // otherwise the key is the same as before placeholders existed
    AppendLittleEndian(static_cast<uint64_t>(segment.placeholders_size()), bytes);
    for (const v1::Placeholders& run : segment.placeholders()) {
      AppendLittleEndian(static_cast<uint32_t>(run.first()), bytes);
      AppendLittleEndian(static_cast<uint32_t>(run.count()), bytes);
      AppendLittleEndian(static_cast<uint64_t>(run.content().size()), bytes);
      bytes += run.content();
    }
  }
  return base::ContentKey(bytes);
}

}  // namespace ingot::tree
