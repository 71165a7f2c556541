#include "standin/runtime/fatbin.h"

#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "standin/runtime/settings.h"

namespace ingot::standin {
namespace {

struct Header {
  uint32_t mark;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of all entries
};
constexpr uint32_t kMark = 0xba55ed50;

struct EntryHeader {
  uint16_t kind;
  uint16_t unknown;
  uint32_t header_bytes;
  uint64_t bytes;  // after the header, with padding
  uint32_t compressed_bytes;
  uint32_t unknown_2;
  uint16_t minor;
  uint16_t major;
  uint32_t architecture;
  uint32_t name_offset;
  uint32_t name_bytes;
  uint64_t flags;
  uint64_t unknown_3;
  uint64_t plain_bytes;
};
constexpr uint16_t kPtx = 1;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000;

template <typename T>
T ReadAt(std::span<const std::byte> bytes, size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) Die("a fat binary ends inside of a header");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<std::string> DecodeZstd(std::span<const std::byte> data, size_t bytes) {
  std::string plain(bytes, '\0');
  const size_t written = ZSTD_decompress(plain.data(), plain.size(), data.data(), data.size());
  if (ZSTD_isError(written) != 0 || written != bytes) return std::nullopt;
  return plain;
}

std::string Plain(const EntryHeader& entry, std::span<const std::byte> data) {
  std::optional<std::string> text;
  if ((entry.flags & (kLz4 | kZstd)) == 0) {
    text.emplace(reinterpret_cast<const char*>(data.data()), data.size());
  } else if (entry.compressed_bytes <= data.size()) {
    const auto packed = data.first(entry.compressed_bytes);
    text = (entry.flags & kLz4) != 0 ? DecodeLz4(packed, entry.plain_bytes) : DecodeZstd(packed, entry.plain_bytes);
  }
  if (!text.has_value())
    Die("cannot decompress the PTX of a fat binary (flags %#llx)", static_cast<unsigned long long>(entry.flags));
  text->resize(std::strlen(text->c_str()));  // padded with zeros
  return *std::move(text);
}

}  // namespace

std::span<const std::byte> FatbinAt(const void* data) {
  Header header;
  std::memcpy(&header, data, sizeof(header));
  if (header.mark != kMark) return {};
  return {static_cast<const std::byte*>(data), header.header_bytes + header.bytes};
}

std::optional<std::string> FindPtx(std::span<const std::byte> fatbin, int capability) {
  std::optional<std::pair<EntryHeader, std::span<const std::byte>>> best;
  for (size_t at = ReadAt<Header>(fatbin, 0).header_bytes; at < fatbin.size();) {
    const auto entry = ReadAt<EntryHeader>(fatbin, at);
    const size_t begin = at + entry.header_bytes;
    if (entry.header_bytes < sizeof(entry) || begin > fatbin.size() || fatbin.size() - begin < entry.bytes) {
      Die("a fat binary's entry leaves the file");
    }
    const bool fits = entry.kind == kPtx && entry.architecture <= static_cast<uint32_t>(capability);
    if (fits && (!best.has_value() || entry.architecture > best->first.architecture)) {
      best.emplace(entry, fatbin.subspan(begin, entry.bytes));
    }
    at = begin + entry.bytes;
  }
  if (!best.has_value()) return std::nullopt;
  return Plain(best->first, best->second);
}

}  // namespace ingot::standin
