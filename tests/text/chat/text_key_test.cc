#include "text/chat/text_key.h"

#include <gtest/gtest.h>

namespace ingot::text {
namespace {

TEST(TextKeyTest, NamesATextAndItsPrefixes) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i % 23);
  for (const size_t length : {size_t{0}, size_t{1}, size_t{300}, text.size()}) {
    const std::string_view prefix = std::string_view(text).substr(0, length);
    const KeyedText keyed = KeyText(text, TextKey(prefix));
    EXPECT_EQ(keyed.key, TextKey(text));
    EXPECT_EQ(keyed.prefix, prefix);
  }
}

TEST(TextKeyTest, OtherTextsAreNoPrefix) {
  const std::string text = "the text";
  for (const std::string& key : {std::string(), std::string("the"), TextKey("the test"), TextKey("thf"),
                                 TextKey("the text goes on"), TextKey(text) + "x"}) {
    const KeyedText keyed = KeyText(text, key);
    EXPECT_EQ(keyed.key, TextKey(text));
    EXPECT_EQ(keyed.prefix, std::nullopt);
  }
}

}  // namespace
}  // namespace ingot::text
