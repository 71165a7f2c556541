#include "base/utf8.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

namespace ingot::base {
namespace {

TEST(CutText, EndsBehindAWholeCharacter) {
  const std::string text = "a\xC3\xA4\xE4\xBD\xA0\xF0\x9F\x98\x80";  // characters of 1, 2, 3 and 4 bytes
  const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t most = 0; most < std::size(ends); ++most) {
    const std::string cut = CutText(text, most);
    EXPECT_EQ(cut, text.substr(0, ends[most])) << most;
    EXPECT_TRUE(IsValidUtf8(cut)) << most;
  }
}

}  // namespace
}  // namespace ingot::base
