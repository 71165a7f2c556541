#include "base/checksum.h"

#include <gtest/gtest.h>

namespace ingot::base {
namespace {

TEST(ChecksumTest, StreamingEqualsWhole) {
  StreamingChecksum streaming;
  streaming.Update("abc");
  streaming.Update("");
  streaming.Update("defgh");
  EXPECT_EQ(streaming.Digest(), Checksum64("abcdefgh"));
}

TEST(ChecksumTest, StreamingContentKeyEqualsTheKeyOfEachPrefix) {
  const std::string text(5000, 'x');
  StreamingContentKey streaming;
  EXPECT_EQ(streaming.Digest(), ContentKey128(""));
  size_t given = 0;
  for (const size_t piece : {3u, 0u, 200u, 37u, 1000u, 3000u}) {
    streaming.Update(std::string_view(text).substr(given, piece));
    given += piece;
    EXPECT_EQ(streaming.Digest(), ContentKey128(std::string_view(text).substr(0, given)));
  }
}

TEST(ChecksumTest, ContentKeyIsSixteenBytesAndStable) {
  EXPECT_EQ(ContentKey("abc").size(), 16u);
  EXPECT_EQ(Hex(ContentKey("")), "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing, from its specification
}

TEST(ChecksumTest, HexIsLowerCaseBigEndian) { EXPECT_EQ(Hex(uint64_t{0x0123456789abcdef}), "0123456789abcdef"); }

}  // namespace
}  // namespace ingot::base
