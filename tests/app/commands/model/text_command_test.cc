#include "app/commands/model/text_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/tokenizer/tokenizer.h"

namespace ingot::app {
namespace {

class TextCommandTest : public testing::Test {
 protected:
  TextCommandTest() {
    args_.tokenizer_dir = testing::TempDir() + "/text_command_" + std::to_string(getpid());
    std::filesystem::create_directories(args_.tokenizer_dir);
    std::ofstream(args_.tokenizer_dir + "/tokenizer.json") << text::ByteTokenizerJson({"<|end|>"});
  }
  ~TextCommandTest() override { std::filesystem::remove_all(args_.tokenizer_dir); }

  int Run(const std::string& name, const std::string& input) {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream errors;
    const int code = RunTextCommand(name, args_, in, out, errors);
    out_ = out.str();
    errors_ = errors.str();
    return code;
  }

  TextArgs args_;
  std::string out_;
  std::string errors_;
};

TEST_F(TextCommandTest, EncodesAndDecodesLineByLine) {
  EXPECT_EQ(Run("encode", "\"ab\"\n\n\"<|end|>\\u00e9\"\n\"\""), 0);
  EXPECT_EQ(out_, "[97,98]\n[256,195,169]\n[]\n");
  EXPECT_EQ(Run("decode", "[97,256,195,169]\n[]\n[195]\n"), 0);
  EXPECT_EQ(out_, "\"a<|end|>é\"\n\"\"\n\"\xEF\xBF\xBD\"\n");
  args_.skip_special = true;
  EXPECT_EQ(Run("decode", "[97,256]"), 0);
  EXPECT_EQ(out_, "\"a\"\n");
}

TEST_F(TextCommandTest, ABadLineIsReportedWithItsNumberAndTheRestIsProcessed) {
  EXPECT_EQ(Run("encode", "\"a\"\n\n[1]\n{\n\"b\"\n"), 1);
  EXPECT_THAT(out_, testing::MatchesRegex("\\[97\\]\n\\{\"error\":\"[^\n]*string[^\n]*\",\"line\":3\\}\n"
                                          "\\{\"error\":\"[^\n]*\",\"line\":4\\}\n\\[98\\]\n"));
  EXPECT_EQ(Run("decode", "[97]\n[257]\n[-1]\n[\"x\"]\n[1.5]\n\"a\"\n[98]"), 1);
  EXPECT_THAT(out_, testing::StartsWith("\"a\"\n{\"error\":"));
  EXPECT_THAT(out_, testing::EndsWith("\"line\":6}\n\"b\"\n"));
}

// One line out for every line in; a fault of the line is named in it.
TEST_F(TextCommandTest, EveryInputLineGivesOneOutputLine) {
  const std::vector<std::string> lines = {"nul",
                                          "{",
                                          "[1",
                                          "\"\\ud800\"",
                                          "\"\xFF\"",
                                          "\"a\" \"b\"",
                                          "\"a",
                                          std::string("\0", 1),
                                          "\xEF\xBB\xBF\"a\"",
                                          std::string(5000, '['),
                                          "null",
                                          "true",
                                          "1e400",
                                          "{\"a\":1}",
                                          "[99999999]",
                                          "[18446744073709551615]",
                                          "[1e3]",
                                          "[1.0]",
                                          "[[1]]",
                                          "[true]"};
  std::string input;
  for (const std::string& line : lines) input += line + "\n";
  for (const char* name : {"encode", "decode"}) {
    EXPECT_EQ(Run(name, input + "\"last\"\r\n[97]"), 1);
    EXPECT_EQ(errors_, "");
    std::istringstream out(out_);
    std::string line;
    for (size_t number = 1; number <= lines.size(); ++number) {
      ASSERT_TRUE(std::getline(out, line)) << name << " " << number;
      EXPECT_THAT(line, testing::StartsWith("{\"error\":\"")) << lines[number - 1];
      EXPECT_THAT(line, testing::EndsWith("\"line\":" + std::to_string(number) + "}")) << lines[number - 1];
      EXPECT_THAT(line, testing::Not(testing::HasSubstr("line 1"))) << "of one line, the column alone says where";
    }
    int more = 0;
    while (std::getline(out, line)) ++more;
    EXPECT_EQ(more, 2);
  }
  EXPECT_EQ(Run("encode", "{"), 1);
  EXPECT_EQ(out_, "{\"error\":\"malformed JSON at column 2: incomplete JSON\",\"line\":1}\n");
}

TEST_F(TextCommandTest, AFailedStartSaysWhy) {
  EXPECT_EQ(Run("embed", ""), 2);
  EXPECT_THAT(errors_, testing::HasSubstr("embed"));
  args_.tokenizer_dir += "/nowhere";
  EXPECT_EQ(Run("encode", "\"a\""), 1);
  EXPECT_THAT(errors_, testing::HasSubstr("nowhere/tokenizer.json"));
  EXPECT_EQ(out_, "");
}

}  // namespace
}  // namespace ingot::app
