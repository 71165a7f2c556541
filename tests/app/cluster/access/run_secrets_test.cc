// The way of the run's token from the supervisor to a role.
#include "app/cluster/access/run_secrets.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/secret.h"

namespace ingot::app {
namespace {

using ::testing::HasSubstr;

// A descriptor that gives `text`, and is then at its end.
int Giving(const std::string& text) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_EQ(send(ends[1], text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  return ends[0];
}

TEST(RunSecrets, AreReadOnceAndNothingIsLeftOfThem) {
  const RunSecrets sent{"0123456789abcdef", "an-admin-key"};
  const int fd = Giving(sent.Text());
  const auto read = ReadRunSecrets(fd);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->token, sent.token);
  EXPECT_EQ(read->admin_key, sent.admin_key);
  struct stat what{}, null{};
  ASSERT_EQ(fstat(fd, &what), 0);
  ASSERT_EQ(stat("/dev/null", &null), 0);
  EXPECT_EQ(what.st_rdev, null.st_rdev) << "the descriptor is /dev/null now";
  EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
  close(fd);
}

TEST(RunSecrets, RanksHaveADigestOfTheToken) {
  const std::string secret = SecretOfRanks("0123456789abcdef");
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(secret, SecretOfRanks("0123456789abcdef"));
  EXPECT_NE(secret, SecretOfRanks("0123456789abcdeF"));
  EXPECT_EQ(secret.find("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(SecretOfRanks(""), "");
}

TEST(RunSecrets, MayBeATokenAlone) {
  const auto read = ReadRunSecrets(Giving("  0123456789abcdef\r\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->token, "0123456789abcdef");
  EXPECT_EQ(read->admin_key, "");
  EXPECT_EQ(ReadRunSecrets(Giving(RunSecrets{"0123456789abcdef", ""}.Text()))->admin_key, "");
}

TEST(RunSecrets, OtherInputIsRejectedWithoutShowingIt) {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("short\n"), std::string("two words of a token\n"),
        std::string("0123456789abcdef\nkey\nmore\n"), std::string("0123456789abcdef\ntwo words\n"),
        std::string(20'000, 'x'), std::string("0123456789abcde\x01\n")}) {
    const absl::Status rejected = ReadRunSecrets(Giving(text)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("--token-fd"));
    EXPECT_THAT(std::string(rejected.message()), ::testing::Not(HasSubstr("0123456789")));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ReadRunSecrets(12'345).status())) << "no such descriptor";
}

TEST(RunSecrets, AreMadeForEachStartUnlessAFileNamesTheToken) {
  RunConfig config;
  const RunSecrets first = MakeRunSecrets(config).value(), second = MakeRunSecrets(config).value();
  EXPECT_EQ(first.token.size(), 64u) << "256 bits in hexadecimal";
  EXPECT_NE(first.token, second.token);
  EXPECT_EQ(first.admin_key, "") << "nobody but visitors opens episodes";
  config.agents.recipes.emplace_back();
  EXPECT_TRUE(base::IsSecret(MakeRunSecrets(config)->admin_key));
  EXPECT_EQ(FindRunSecrets(config)->token, "");

  std::string folder = ::testing::TempDir() + "/token_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  config.cluster.token_file = folder + "/token";
  std::ofstream(config.cluster.token_file) << "0123456789abcdef\n";
  const absl::Status open = MakeRunSecrets(config).status();
  EXPECT_THAT(std::string(open.message()), ::testing::AllOf(HasSubstr("cluster.token_file"), HasSubstr("chmod 600")));
  chmod(config.cluster.token_file.c_str(), 0600);
  EXPECT_EQ(MakeRunSecrets(config)->token, "0123456789abcdef");
  EXPECT_EQ(FindRunSecrets(config)->token, "0123456789abcdef");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ingot::app
