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

}  // namespace

std::string SegmentKey(const v1::Segment& segment) {
  std::string bytes;
  bytes.reserve(32 + 4 * segment.token_ids_size() + 4 * segment.logprobs_size() + 13 * segment.versions_size());
  AppendLittleEndian(static_cast<uint32_t>(segment.source()), bytes);
  AppendLittleEndian(static_cast<uint64_t>(segment.token_ids_size()), bytes);
  for (const int32_t id : segment.token_ids()) AppendLittleEndian(static_cast<uint32_t>(id), bytes);
  AppendLittleEndian(static_cast<uint64_t>(segment.logprobs_size()), bytes);
  for (const float logprob : segment.logprobs()) AppendLittleEndian(std::bit_cast<uint32_t>(logprob), bytes);
  AppendLittleEndian(static_cast<uint64_t>(segment.versions_size()), bytes);
  for (const v1::VersionRun& run : segment.versions()) {
    AppendLittleEndian(static_cast<uint64_t>(run.version()), bytes);
    AppendLittleEndian(static_cast<uint32_t>(run.count()), bytes);
    bytes += run.kv_mixed() ? '\1' : '\0';
  }
  return base::ContentKey(bytes);
}

}  // namespace ingot::tree
