#include "datapool/rocks/file_damage.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/tfevents.h"

namespace ingot::datapool {
namespace {

constexpr int64_t kBlock = 32768;
constexpr size_t kHeader = 7;
constexpr unsigned kReusedTypes = 5;  // types >= this mark records in logs that RocksDB reuses
constexpr int64_t kFooter = 53;
constexpr uint64_t kTableMagic = 0x88e241b785f4cff7;

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Returns a checksum in RocksDB's stored form.
uint32_t Masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

int64_t SizeOf(const std::string& path) {
  std::error_code gone;
  const auto size = std::filesystem::file_size(path, gone);
  return gone ? 0 : static_cast<int64_t>(size);
}

// Same as DamagedLog, but for the block at byte `start`.
std::string DamagedBlock(std::string_view block, int64_t start, bool last, bool checksums) {
  const auto sound = [&](size_t at, size_t length) {
    return Masked(base::Crc32c(block.substr(at + 6, 1 + length))) == LittleEndian(block.substr(at, 4));
  };
  for (size_t at = 0; at + kHeader <= block.size();) {
    const auto place = [&] { return absl::StrCat("the record at byte ", start + static_cast<int64_t>(at)); };
    const size_t length = LittleEndian(block.substr(at + 4, 2));
    const unsigned type = static_cast<unsigned char>(block[at + 6]);
    if (type >= kReusedTypes) return absl::StrCat(place(), " has type ", type, ", which belongs to recycled logs");
    if (type == 0 && length == 0) return "";  // preallocated space
    if (at + kHeader + length <= block.size()) {
      if (checksums && !sound(at, length)) return absl::StrCat(place(), " has a wrong checksum");
      at += kHeader + length;
      continue;
    }
    if (checksums && !last) return absl::StrCat(place(), " is longer than its block");
    for (size_t bit = 0; last && bit < 16; ++bit) {
      const size_t other = length ^ (size_t{1} << bit);
      if (at + kHeader + other > block.size() || !sound(at, other)) continue;
      return absl::StrCat(place(), " has ", other, " bytes, but its length field is ", length);
    }
    return "";
  }
  return "";
}

// Returns the last bytes of a table. Empty = the file does not end like a table.
std::string FooterOf(const std::string& path) {
  const int64_t size = SizeOf(path);
  if (size < kFooter) return "";
  std::string footer(kFooter, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.seekg(size - kFooter) || !file.read(footer.data(), kFooter)) return "";
  return LittleEndian(std::string_view(footer).substr(kFooter - 8)) == kTableMagic ? footer : "";
}

}  // namespace

std::string DamagedLog(const std::string& path, bool checksums) {
  const int64_t size = SizeOf(path);
  std::ifstream file(path, std::ios::binary);
  std::string block;
  for (int64_t start = 0; start < size; start += kBlock) {
    block.resize(static_cast<size_t>(std::min(kBlock, size - start)));
    if (!file.read(block.data(), static_cast<std::streamsize>(block.size()))) return "";
    const std::string damage = DamagedBlock(block, start, /*last=*/start + kBlock >= size, checksums);
    if (!damage.empty()) return damage;
  }
  return "";
}

bool EndsAsTable(const std::string& path) { return !FooterOf(path).empty(); }

std::string DamagedFooter(const std::string& path) {
  const std::string read = FooterOf(path);
  if (read.empty()) return "";
  const std::string_view footer = read;
  const uint64_t format = LittleEndian(footer.substr(kFooter - 12, 4)), checksum = LittleEndian(footer.substr(0, 1));
  if (format == kTableFormat && checksum == kTableChecksum) return "";
  return absl::StrCat("it has format ", format, " and checksum type ", checksum, ", but all tables have ", kTableFormat,
                      " and ", kTableChecksum);
}

}  // namespace ingot::datapool
