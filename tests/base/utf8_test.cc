#include "base/utf8.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <string_view>

namespace ingot::base {
namespace {

TEST(CutText, EndsAfterAWholeCharacter) {
  const std::string text = "a\xC3\xA4\xE4\xBD\xA0\xF0\x9F\x98\x80";  // characters of 1, 2, 3 and 4 bytes
  const size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t most = 0; most < std::size(ends); ++most) {
    const std::string cut = CutText(text, most);
    EXPECT_EQ(cut, text.substr(0, ends[most])) << most;
    EXPECT_TRUE(IsValidUtf8(cut)) << most;
  }
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
// Characters at the borders of each length, and around the surrogates.
constexpr uint32_t kBorders[] = {0x00, 0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF};

TEST(Utf8Test, CharactersComeBackAsTheyWereWritten) {
  std::string all;
  for (const uint32_t c : kBorders) {
    std::string text;
    AppendUtf8(c, text);
    all += text;
    EXPECT_TRUE(IsValidUtf8(text)) << c;
    EXPECT_EQ(ToUtf8(text), text);
    EXPECT_EQ(FirstCharacter(text + "\x80").value, c);
    EXPECT_EQ(FirstCharacter(text).size, text.size());
    EXPECT_EQ(DecodeAt(text, 0).value, c);
    EXPECT_EQ(DecodeAt(text, 0).size, text.size());
    for (size_t size = 1; size < text.size(); ++size) {
      EXPECT_EQ(FirstCharacter(text.substr(0, size)).size, 0) << c;
      EXPECT_FALSE(IsValidUtf8(text.substr(0, size))) << c;
      EXPECT_EQ(ToUtf8(text.substr(0, size)), kReplacement) << c;
      EXPECT_EQ(StartOf(text, size), 0);
    }
  }
  EXPECT_EQ(CountCharacters(all), std::size(kBorders));
  EXPECT_TRUE(IsValidUtf8(all));
  size_t at = 0;
  for (const uint32_t c : kBorders) EXPECT_EQ(NextCharacter(all, at), c);
  EXPECT_EQ(at, all.size());
  for (size_t i = std::size(kBorders); i-- > 0;) EXPECT_EQ(PreviousCharacter(all, at), kBorders[i]);
  EXPECT_EQ(at, 0);
}

TEST(Utf8Test, OtherBytesBeginNoCharacter) {
  const std::string_view none[] = {
      "\x80",
      "\xBF",
      "\xC0\x80",
      "\xC1\xBF",
      "\xE0\x9F\xBF",
      "\xED\xA0\x80",
      "\xED\xBF\xBF",
      "\xF0\x8F\xBF\xBF",
      "\xF4\x90\x80\x80",
      "\xF5\x80\x80\x80",
      "\xF8\x88\x80\x80\x80",
      "\xFF",
      "\xC3(",
      "\xE2\x82(",
      "\xF0\x9F\x98(",
  };
  for (const std::string_view bytes : none) {
    EXPECT_EQ(FirstCharacter(bytes).size, 0) << bytes;
    // Behind enough plain text that the test of whole words ends within it, too.
    EXPECT_FALSE(IsValidUtf8("12345678" + std::string(bytes))) << bytes;
    size_t at = 0;
    EXPECT_EQ(NextCharacter(bytes, at), 0xFFFD) << bytes;
    EXPECT_EQ(at, 1);
    EXPECT_TRUE(IsValidUtf8(ToUtf8(bytes)));
    EXPECT_EQ(ToUtf8(bytes).substr(0, 3), kReplacement);
  }
  EXPECT_EQ(FirstCharacter("").size, 0);
}

TEST(Utf8Test, CountsEveryCharacterOfALongText) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "a\xC3\xA4\xE4\xBD\xA0\xF0\x9F\x98\x80";
  EXPECT_EQ(CountCharacters(text), 12000);
  EXPECT_EQ(CountCharacters(std::string_view(text).substr(1, 5)), 2);
  EXPECT_EQ(CountCharacters(""), 0);
}

TEST(StartOf, IsTheBeginningOfTheCharacter) {
  const std::string text = "a\xC3\xA4\xE4\xBD\xA0";
  const size_t starts[] = {0, 1, 1, 3, 3, 3, 6, 6};
  for (size_t at = 0; at < std::size(starts); ++at) EXPECT_EQ(StartOf(text, at), starts[at]) << at;
  EXPECT_EQ(StartOf("", std::string::npos), 0);
}

TEST(Utf8StreamTest, CharactersComeWholeAndBadBytesBecomeReplacements) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("a\xE2\x82"), "a");
  EXPECT_EQ(stream.Push("\xAC"), "\xE2\x82\xAC");
  EXPECT_EQ(stream.Push("\xF0\x9F"), "");
  EXPECT_EQ(stream.Push("x"), "\xEF\xBF\xBDx");  // one for both bytes, which cannot be completed
  EXPECT_EQ(stream.Push("\xC3"), "");
  EXPECT_EQ(stream.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(Utf8StreamTest, ReplacesAsPythonsDecoderDoes) {
  const std::string r = "\xEF\xBF\xBD";
  // Expected: bytes.decode('utf-8', 'replace') of Python 3.11.
  EXPECT_EQ(ToUtf8("\x80"), r);
  EXPECT_EQ(ToUtf8("\xC0\x80"), r + r);                  // overlong
  EXPECT_EQ(ToUtf8("\xE0\x80\x80"), r + r + r);          // overlong
  EXPECT_EQ(ToUtf8("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(ToUtf8("\xF4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(ToUtf8("\xF0\x9F\x98"), r);                  // truncated
  EXPECT_EQ(ToUtf8("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF");
}

TEST(Utf8StreamTest, PiecesGiveTheSameTextAsTheWhole) {
  std::mt19937 rng(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (int k = rng() % 12; k > 0; --k) {
      const char* const samples[] = {"a", "é", "€", "😀", "\xE2", "\x9F", "\xF0\x9F", "\xFF", "\xED\xA0"};
      bytes += samples[rng() % std::size(samples)];
    }
    Utf8Stream stream;
    std::string pieces;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + rng() % 3;
      pieces += stream.Push(std::string_view(bytes).substr(at, size));
      at += size;
    }
    pieces += stream.Flush();
    EXPECT_EQ(pieces, ToUtf8(bytes));
    EXPECT_EQ(ToUtf8(pieces), pieces);  // valid UTF-8
  }
}

}  // namespace
}  // namespace ingot::base
