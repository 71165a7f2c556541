// A server on a socket file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "http/echo_handler.h"
#include "http/server.h"

namespace ingot::http::unix_socket_test {
namespace {

class UnixSocket : public ::testing::Test {
 protected:
  UnixSocket() {
    std::string name = ::testing::TempDir() + "/sockets_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~UnixSocket() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& path) {
    Options options;
    options.unix_socket = path;
    auto server = Server::Listen(options, handler_);
    if (server.ok()) (*server)->Serve();
    return server;
  }

  std::string folder_;
  EchoHandler handler_;
};

TEST_F(UnixSocket, AnswersThisUserAndIsGoneAtTheEnd) {
  const std::string path = folder_ + "/a.sock";
  {
    const mode_t before = umask(0);
    const auto server = Listen(path);
    umask(before);
    ASSERT_TRUE(server.ok()) << server.status();
    struct stat what{};
    ASSERT_EQ(stat(path.c_str(), &what), 0);
    EXPECT_EQ(what.st_mode, S_IFSOCK | 0600);
    EXPECT_EQ((*server)->url(), "unix:" + path);
    EXPECT_EQ((*server)->port(), 0);
    Wire wire(path);
    ASSERT_TRUE(wire.connected());
    wire.Send(Request("POST", "/echo", "hello"));
    EXPECT_EQ(Read(wire).body, "hello");
    wire.Send(Request("POST", "/stream", std::string(100'000, 'x')));
    EXPECT_EQ(Read(wire).body.size(), 100'000u);
    wire.Close();
    Wire half(path);  // closes its sending side, and still gets its answer
    half.Send(Request("POST", "/echo", "there?"));
    half.HalfClose();
    EXPECT_EQ(Read(half).body, "there?");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(UnixSocket, ReplacesWhatAKilledProcessLeftAndNothingElse) {
  const std::string path = folder_ + "/a.sock";
  const pid_t child = fork();
  if (child == 0) {
    const auto server = Listen(path);
    if (server.ok()) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(std::filesystem::exists(path));
  const auto server = Listen(path);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto second = Listen(path);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), testing::HasSubstr(path));
  EXPECT_TRUE(Wire(path).connected()) << "the first one still listens";

  std::ofstream(folder_ + "/file") << "precious";
  EXPECT_THAT(std::string(Listen(folder_ + "/file").status().message()), testing::HasSubstr("not a socket"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/file"));
  EXPECT_TRUE(absl::IsUnavailable(Listen(folder_ + "/missing/a.sock").status()));
}

TEST_F(UnixSocket, TakesAPathThatIsTooLongForAnAddress) {
  const std::string deep = folder_ + "/" + std::string(120, 'd');
  std::filesystem::create_directory(deep);
  const auto server = Listen(deep + "/a.sock");
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(deep);
  Wire wire(std::string("a.sock"));
  wire.Send(Request("POST", "/echo", "hello"));
  EXPECT_EQ(Read(wire).body, "hello");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace ingot::http::unix_socket_test
