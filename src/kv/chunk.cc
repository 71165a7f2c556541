#include "kv/chunk.h"

#include <bit>
#include <cstring>

#include "base/json.h"

namespace ingot::kv {
namespace {

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

constexpr std::string_view kMagic = "INGOTKV1";
constexpr int64_t kPage = 4096;
constexpr size_t kChecked = 24;      // the checksum covers the header from here on
constexpr int64_t kFixedBytes = 88;  // before the ids
constexpr int64_t kPlaneEntryBytes = 24;

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

int64_t HeaderBytes(const Chunk& chunk, size_t planes) {
  return kFixedBytes + 4 * std::ssize(chunk.ids) + kPlaneEntryBytes * static_cast<int64_t>(planes);
}

int64_t RoundUp(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

std::string Root::Text() const {
  namespace json = base::json;
  return base::PrintJson(json::object{{"format", 1},
                                      {"policy_checksum", base::Hex(policy_checksum)},
                                      {"model", model},
                                      {"numerics", numerics},
                                      {"dtype", dtype},
                                      {"chunk_tokens", chunk_tokens},
                                      {"block_tokens", block_tokens},
                                      {"plane_bytes", json::array(plane_bytes.begin(), plane_bytes.end())}});
}

std::vector<Chunk> ChainOf(const base::Key128& root, std::span<const int32_t> ids, int32_t chunk_tokens) {
  std::vector<Chunk> chain;
  base::Key128 parent = root;
  const auto count = static_cast<size_t>(chunk_tokens);
  for (size_t at = 0; at + count <= ids.size(); at += count) {
    const std::span<const int32_t> own = ids.subspan(at, count);
    std::string hashed(base::KeyBytes(parent));
    hashed.append(reinterpret_cast<const char*>(own.data()), own.size_bytes());
    const base::Key128 key = base::ContentKey128(hashed);
    chain.push_back({root, parent, key, static_cast<int64_t>(at), {own.begin(), own.end()}});
    parent = key;
  }
  return chain;
}

FileLayout LayoutOf(const Chunk& chunk, std::span<const int64_t> plane_bytes) {
  FileLayout layout{.header_bytes = HeaderBytes(chunk, plane_bytes.size()), .offsets = {}, .file_bytes = 0};
  layout.file_bytes = layout.header_bytes;
  for (const int64_t bytes : plane_bytes) {
    layout.offsets.push_back(RoundUp(layout.file_bytes));
    layout.file_bytes = layout.offsets.back() + bytes;
  }
  return layout;
}

std::string EncodeHeader(const Chunk& chunk, std::span<const int64_t> plane_bytes,
                         std::span<const uint64_t> plane_checksums) {
  const FileLayout layout = LayoutOf(chunk, plane_bytes);
  std::string checked;
  for (const base::Key128* key : {&chunk.root, &chunk.parent, &chunk.key}) checked += base::KeyBytes(*key);
  Put<int64_t>(checked, chunk.first);
  Put<uint32_t>(checked, static_cast<uint32_t>(chunk.ids.size()));
  Put<uint32_t>(checked, static_cast<uint32_t>(plane_bytes.size()));
  checked.append(reinterpret_cast<const char*>(chunk.ids.data()), chunk.ids.size() * sizeof(int32_t));
  for (size_t i = 0; i < plane_bytes.size(); ++i) {
    Put<uint64_t>(checked, static_cast<uint64_t>(layout.offsets[i]));
    Put<uint64_t>(checked, static_cast<uint64_t>(plane_bytes[i]));
    Put<uint64_t>(checked, plane_checksums[i]);
  }
  std::string header(kMagic);
  Put<uint32_t>(header, static_cast<uint32_t>(layout.header_bytes));
  Put<uint32_t>(header, 0);
  Put<uint64_t>(header, base::Checksum64(checked));
  return header + checked;
}

bool ReadHeader(std::string_view header, const Chunk& chunk, std::span<const int64_t> plane_bytes,
                std::vector<uint64_t>& plane_checksums) {
  if (static_cast<int64_t>(header.size()) != HeaderBytes(chunk, plane_bytes.size())) return false;
  plane_checksums.clear();
  for (size_t i = plane_bytes.size(); i > 0; --i) {
    uint64_t checksum = 0;
    std::memcpy(&checksum, header.data() + header.size() - (i - 1) * kPlaneEntryBytes - sizeof(checksum),
                sizeof(checksum));
    plane_checksums.push_back(checksum);
  }
  // Everything else is known, so a header is correct only if it equals what a writer would have written.
  static_assert(kChecked == kMagic.size() + 16);
  return header == EncodeHeader(chunk, plane_bytes, plane_checksums);
}

}  // namespace ingot::kv
