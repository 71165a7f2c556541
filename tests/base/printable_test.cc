#include "base/printable.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/hostile_text.h"
#include "base/log.h"

namespace ingot::base {
namespace {

TEST(Printable, EscapesWhatSteersATerminalAndLeavesOtherText) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain text, 100% \\n", "plain text, 100% \\n"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"\x1b[31m\x7f", "\\x1b[31m\\x7f"},
      {std::string("\0", 1), "\\x00"},
      {"\xC2\x9B"
       "1m",
       "\\u009b1m"},
      {"\xE2\x80\xAE"
       "abc",
       "\\u202eabc"},
      {"\xEF\xBB\xBF", "\\ufeff"},
      {"\xF3\xA0\x80\x81", "\\U000e0001"},
      {"\xFFz\xC3", "\\xffz\\xc3"},
      {"\xC3\xA4\xE4\xBD\xA0\xF0\x9F\x98\x80", "\xC3\xA4\xE4\xBD\xA0\xF0\x9F\x98\x80"},  // letters, an emoji
      {"\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB"},  // joined emoji
  };
  for (const auto& [text, printed] : cases) {
    EXPECT_EQ(Printable(text), printed);
    EXPECT_EQ(IsPrintable(text), text == printed) << printed;
  }
}

TEST(Printable, HasForms) {
  EXPECT_EQ(Printable("\xC3\xA4\n", {.ascii = true}), "\\xc3\\xa4\\n");
  EXPECT_EQ(Printable("\xE2\x80\xAE", {.ascii = true}), "\\xe2\\x80\\xae");
  EXPECT_EQ(Printable("\"a\\b\"", {.quoted = true}), "\\\"a\\\\b\\\"");
  EXPECT_EQ(Printable("abc", {.max_bytes = 2}), "ab");
  EXPECT_EQ(Printable("a\xC3\xA4", {.max_bytes = 2}), "a");  // no half character
  EXPECT_EQ(Printable("a\n", {.max_bytes = 2}), "a");        // no half escape
  EXPECT_EQ(Printable("a", {.max_bytes = 0}), "");
  EXPECT_EQ(PrintableLines("a\nb\r\n\x1b"), "a\n    | b\\r\n    | \\x1b");
  EXPECT_EQ(PrintableLines("a\n"), "a");
  EXPECT_EQ(PrintableLines(""), "");
}

TEST(Printable, ErrorsShowNoMoreThanTheBeginningOfAText) {
  EXPECT_EQ(Shown("a\nb"), "a\\nb");
  EXPECT_EQ(Shown(std::string(200, 'x')), std::string(200, 'x'));
  EXPECT_EQ(Shown(std::string(70'000, 'x')), std::string(200, 'x') + ".. (70000 bytes)");
  EXPECT_EQ(Shown(std::string(101, '\n')).substr(196), "\\n\\n.. (101 bytes)") << "escapes are whole";
  EXPECT_EQ(Shown("x" + std::string(100, '\xC3') + std::string(100, '\xA4')).find(".. (201 bytes)"), 197u);
}

TEST(Printable, AMessageKeepsItsBeginningAndItsEnd) {
  EXPECT_EQ(CutMessage(std::string(1000, 'x')), std::string(1000, 'x'));
  const std::string cut = CutMessage("task 7: '" + std::string(70'000, 'x') + "' is no date: write one");
  EXPECT_LE(cut.size(), kMaxMessage);
  EXPECT_TRUE(cut.starts_with("task 7: 'xx"));
  EXPECT_NE(cut.find(" .. (70032 bytes) .. "), std::string::npos) << cut;
  EXPECT_TRUE(cut.ends_with("xx' is no date: write one"));
  std::string wide;
  for (int i = 0; i < 20'000; ++i) wide += "\xE4\xBD\xA0";
  EXPECT_TRUE(IsPrintable(CutMessage(wide))) << "it is cut between characters";
  EXPECT_TRUE(IsPrintable(CutMessage("x" + wide)));
}

TEST(Printable, IsPrintableWhateverCame) {
  std::mt19937 random(7);
  std::vector<std::string> texts = HostileTexts();
  const std::vector<std::string> pieces = {
      "a",    "\n",   "\x1b", "\xC2", "\x9B", "\xE2", "\x80", "\xAE",
      "\xF0", "\x9F", "\x98", "\xED", "\xA0", "\\",   "\"",   std::string(1, '\0')};
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += pieces[random() % pieces.size()];
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    for (const bool ascii : {false, true}) {
      const std::string printed = Printable(text, {.ascii = ascii});
      EXPECT_TRUE(IsPrintable(printed));
      EXPECT_EQ(Printable(printed, {.ascii = ascii}), printed);
      const size_t most = random() % 20;
      const std::string cut = Printable(text, {.max_bytes = most, .ascii = ascii});
      EXPECT_LE(cut.size(), most);
      EXPECT_TRUE(IsPrintable(cut));
      EXPECT_TRUE(printed.starts_with(cut));
    }
    EXPECT_EQ(IsPrintable(text), Printable(text) == text);
  }
}

TEST(Log, NoTextPassesForALineOfItsOwn) {
  std::string folder = ::testing::TempDir() + "/log_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto before = spdlog::default_logger();
  InitLogging("role", "info", folder + "/role.log");
  for (const std::string& text : HostileTexts()) INGOT_LOG(info, "the episode failed: {}", text);
  INGOT_LOG(info, "the episode failed: {}", std::string(70'000, 'x'));
  spdlog::set_default_logger(before);
  std::ifstream file(folder + "/role.log", std::ios::binary);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) {
    EXPECT_TRUE(IsPrintable(line)) << line;
    EXPECT_LE(line.size(), 11'000u);
    if (line.starts_with("    | ")) continue;
    ++lines;
    EXPECT_NE(line.find(" I role: the episode failed: "), std::string::npos) << line;
  }
  EXPECT_EQ(lines, HostileTexts().size() + 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ingot::base
