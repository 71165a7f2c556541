#include "base/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ingot::base {
namespace {

TEST(Secret, IsTheSameOnlyByteForByte) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_TRUE(SameSecret("", ""));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("xbc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("", "a"));
  EXPECT_FALSE(SameSecret(std::string("a\0b", 3), std::string("a\0c", 3)));
}

TEST(Secret, IsAWordThatFitsIntoAHeader) {
  EXPECT_TRUE(IsSecret("0123456789abcdef"));
  EXPECT_TRUE(IsSecret(std::string(4096, '~')));
  EXPECT_FALSE(IsSecret("0123456789abcde"));
  EXPECT_FALSE(IsSecret(std::string(4097, 'x')));
  EXPECT_FALSE(IsSecret("0123456789 abcdef"));
  EXPECT_FALSE(IsSecret("0123456789abcde\n"));
  EXPECT_FALSE(IsSecret("0123456789abcd\xC3\xA4"));
}

TEST(Secret, IsReadFromAFileOfItsOwnersAlone) {
  std::string folder = ::testing::TempDir() + "/secret_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/key";
  const auto read = [&](const std::string& text, mode_t mode = 0600) {
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return ReadSecret(path);
  };
  EXPECT_EQ(*read("  0123456789abcdef\n"), "0123456789abcdef");
  EXPECT_EQ(*read(std::string(4000, 'x'), 0400), std::string(4000, 'x'));
  for (const std::string& text :
       {std::string(), std::string("short"), std::string("two words of some length"), std::string(5000, 'x')}) {
    const absl::Status rejected = read(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), ::testing::HasSubstr(path));
    EXPECT_THAT(std::string(rejected.message()), ::testing::Not(::testing::HasSubstr("two words")));
  }
  for (const mode_t mode : {0640, 0604, 0666, 0610}) {
    EXPECT_THAT(std::string(read("0123456789abcdef", mode).status().message()),
                ::testing::HasSubstr("chmod 600 " + path));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecret(folder + "/missing").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecret(folder).status()));
  ASSERT_EQ(mkfifo((folder + "/fifo").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecret(folder + "/fifo").status()));
  std::filesystem::remove_all(folder);
}

TEST(Secret, IsTakenOutOfErrors) {
  EXPECT_EQ(WithoutKey(absl::InternalError("x a-secret y"), "a-secret").message(), "x [the key] y");
  EXPECT_EQ(WithoutKey(absl::InternalError("x"), "").message(), "x");
}

}  // namespace
}  // namespace ingot::base
