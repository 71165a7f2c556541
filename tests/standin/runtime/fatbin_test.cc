#include "standin/runtime/fatbin.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace ingot::standin {
namespace {

struct Entry {
  int kind, architecture;
  uint64_t flags;
  std::string data;
  size_t plain_bytes;
};

void Append(std::string& file, const void* bytes, size_t count) { file.append(static_cast<const char*>(bytes), count); }

std::string Fatbin(const std::vector<Entry>& entries) {
  std::string body;
  for (const Entry& e : entries) {
    char header[80] = {};
    const auto put = [&](size_t at, auto value) { std::memcpy(header + at, &value, sizeof(value)); };
    const size_t padded = (e.data.size() + 7) / 8 * 8;
    put(0, static_cast<uint16_t>(e.kind));
    put(4, uint32_t{80});
    put(8, uint64_t{padded});
    put(16, static_cast<uint32_t>(e.data.size()));
    put(28, static_cast<uint32_t>(e.architecture));
    put(40, e.flags);
    put(56, uint64_t{e.plain_bytes});
    Append(body, header, sizeof(header));
    body += e.data + std::string(padded - e.data.size(), '\0');
  }
  char header[16] = {};
  const uint32_t mark = 0xba55ed50, sizes = 16u << 16 | 1;
  const uint64_t bytes = body.size();
  std::memcpy(header, &mark, 4);
  std::memcpy(header + 4, &sizes, 4);
  std::memcpy(header + 8, &bytes, 8);
  return std::string(header, sizeof(header)) + body;
}

std::optional<std::string> Find(const std::string& file, int capability) {
  return FindPtx(FatbinAt(file.data()), capability);
}

std::string Zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

constexpr int kPtx = 1, kMachineCode = 2;

TEST(FatbinTest, TakesTheNewestPtxThatTheDeviceRuns) {
  const std::string file = Fatbin({{kMachineCode, 80, 0x11,
                                    "\x7f"
                                    "ELF",
                                    0},
                                   {kPtx, 70, 0x11, "seventy", 0},
                                   {kPtx, 80, 0x11, "eighty", 0},
                                   {kPtx, 90, 0x11, "ninety", 0}});
  EXPECT_EQ(Find(file, 80), "eighty");
  EXPECT_EQ(Find(file, 86), "eighty");
  EXPECT_EQ(Find(file, 90), "ninety");
  EXPECT_EQ(Find(file, 60), std::nullopt);
}

TEST(FatbinTest, DecompressesZstandard) {
  const std::string text = std::string(5000, 'a') + std::string(1, '\0');
  EXPECT_EQ(Find(Fatbin({{kPtx, 80, 0x8011, Zstd(text), text.size()}}), 80), std::string(5000, 'a'));
}

// token 0x35: three literals "abc", then a match of 5 + 4 = 9 at distance 3; token 0x10: the last literal.
const std::string kLz4 = std::string(
                             "\x35"
                             "abc\x03",
                             5) +
                         std::string("\0\x10z", 3);

TEST(FatbinTest, DecompressesLz4) { EXPECT_EQ(Find(Fatbin({{kPtx, 80, 0x2011, kLz4, 13}}), 80), "abcabcabcabcz"); }

std::optional<std::string> Lz4(const std::string& block, size_t bytes) {
  return DecodeLz4({reinterpret_cast<const std::byte*>(block.data()), block.size()}, bytes);
}

TEST(Lz4Test, ReadsLongLengths) {
  // 15 + 255 + 1 literals, then a match of 15 + 3 + 4 at distance 1.
  const std::string block = "\xff\xff\x01" + std::string(271, 'x') + std::string("\x01\0\x03\x10y", 5);
  EXPECT_EQ(Lz4(block, 271 + 22 + 1), std::string(293, 'x') + "y");
}

TEST(Lz4Test, RefusesDamage) {
  for (size_t cut = 1; cut < kLz4.size(); ++cut) EXPECT_EQ(Lz4(kLz4.substr(0, cut), 13), std::nullopt) << cut;
  EXPECT_EQ(Lz4(kLz4, 12), std::nullopt);
  EXPECT_EQ(Lz4(kLz4, 14), std::nullopt);
  std::string far = kLz4;
  far[4] = '\x04';  // a distance past the beginning
  EXPECT_EQ(Lz4(far, 13), std::nullopt);
}

TEST(FatbinTest, EndsTheProcessForADamagedFile) {
  std::string file = Fatbin({{kPtx, 80, 0x8011, "not zstd", 100}});
  EXPECT_DEATH((void)Find(file, 80), "cannot decompress");
  file = Fatbin({{kPtx, 80, 0x11, "text", 0}});
  file[16 + 8] = '\x7f';  // the entry's length
  EXPECT_DEATH((void)Find(file, 80), "leaves the file");
}

}  // namespace
}  // namespace ingot::standin
