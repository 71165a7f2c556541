#include "text/unicode/unicode.h"

#include <gtest/gtest.h>

#include <random>

#include "text/text_samples.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {
namespace {

std::string Utf8(std::initializer_list<uint32_t> points) {
  std::string text;
  for (const uint32_t c : points) AppendUtf8(c, text);
  return text;
}

TEST(NormalizeTest, ComposesAndDecomposes) {
  EXPECT_EQ(Normalize(Utf8({'e', 0x301}), NormalForm::kNfc), "é");
  EXPECT_EQ(Normalize("é", NormalForm::kNfd), Utf8({'e', 0x301}));
  EXPECT_EQ(Normalize("ﬁ½²", NormalForm::kNfkc), "fi1⁄22");
  EXPECT_EQ(Normalize("ﬁ", NormalForm::kNfc), "ﬁ");
  EXPECT_EQ(Normalize(Utf8({0x1100, 0x1161, 0x11A8}), NormalForm::kNfc), "각");
  EXPECT_EQ(Normalize("각", NormalForm::kNfd), Utf8({0x1100, 0x1161, 0x11A8}));
  EXPECT_EQ(Normalize(Utf8({0x212B}), NormalForm::kNfc), "Å");                  // a singleton
  EXPECT_EQ(Normalize(Utf8({0x958}), NormalForm::kNfc), Utf8({0x915, 0x93C}));  // excluded from composition
  EXPECT_EQ(Normalize(Utf8({'a', 0x323, 0x302}), NormalForm::kNfc), Utf8({0x1EAD}));
  EXPECT_EQ(Normalize(Utf8({'a', 0x302, 0x323}), NormalForm::kNfc), Utf8({0x1EAD}));  // sorted by class first
  EXPECT_EQ(Normalize("", NormalForm::kNfc), "");
}

TEST(NormalizeTest, CharactersAfterUnicode9AreInert) {
  const std::string marks = Utf8({'a', 0x8CA, 0x323});  // U+08CA (Unicode 14) has class 230, U+0323 has 220
  EXPECT_EQ(Normalize(marks, NormalForm::kNfc), marks);
  EXPECT_EQ(Normalize(Utf8({0x11935, 0x11930}), NormalForm::kNfc), Utf8({0x11935, 0x11930}));  // composes since 13
  EXPECT_EQ(Normalize(Utf8({0x32FF}), NormalForm::kNfkc), Utf8({0x32FF}));                     // decomposes since 12.1
}

TEST(NormalizeTest, NormalisingInPiecesEqualsTheWhole) {
  std::mt19937 rng(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = RandomText(rng, 10);
    for (const auto form : {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
      const std::string normal = Normalize(text, form);
      EXPECT_TRUE(IsValidUtf8(normal));
      EXPECT_EQ(Normalize(normal, form), normal);
    }
    EXPECT_EQ(Normalize(Normalize(text, NormalForm::kNfd), NormalForm::kNfc), Normalize(text, NormalForm::kNfc));
    EXPECT_EQ(Normalize(Normalize(text, NormalForm::kNfc), NormalForm::kNfd), Normalize(text, NormalForm::kNfd));
  }
}

TEST(UnicodeTest, PropertiesHaveTheValuesOfUnicode16) {
  EXPECT_EQ(Unicode().CategoryOf('a'), Category::kLl);
  EXPECT_EQ(Unicode().CategoryOf(0x10D50), Category::kLu);
  EXPECT_EQ(Unicode().CategoryOf(0x1171E), Category::kMc);
  EXPECT_EQ(Unicode().CategoryOf(0x10FFFF), Category::kCn);
  EXPECT_EQ(Unicode().FlagsOf(0x3007), kNumber | kHan);
  EXPECT_EQ(Unicode().FlagsOf(0x85), kSpace);
  EXPECT_EQ(Unicode().FlagsOf(0xFEFF), 0);
  EXPECT_TRUE(IsWordCharacter(0x200D));
  EXPECT_TRUE(IsNumeric(0xBD));
  EXPECT_FALSE(IsPunctuation(0x2E4F));  // punctuation since Unicode 12
  EXPECT_TRUE(IsPunctuation('$'));
}

TEST(UnicodeTest, LowercaseIsPerCharacter) {
  std::string lower;
  for (const uint32_t c : {0x41u, 0x130u, 0x3A3u, 0x10D50u, 0xA7CBu, 0x1E9Eu}) AppendLowercase(c, lower);
  EXPECT_EQ(lower, "a" + Utf8({'i', 0x307, 0x3C3, 0x10D70, 0x264, 0xDF}));
}

TEST(UnicodeTest, ToUtf8LeavesValidTextAlone) {
  std::mt19937 rng(2);
  int valid = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = RandomText(rng, 4);
    for (int k = rng() % 3; k > 0 && !bytes.empty(); --k) bytes[rng() % bytes.size()] = static_cast<char>(rng());
    EXPECT_EQ(IsValidUtf8(bytes), ToUtf8(bytes) == bytes);
    valid += IsValidUtf8(bytes);
  }
  EXPECT_GT(valid, 1000);
  EXPECT_LT(valid, 19000);
}

}  // namespace
}  // namespace ingot::text
