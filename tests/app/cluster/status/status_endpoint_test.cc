// The launcher's answer to `ingot status`, over a real socket file.
#include "app/cluster/status/status_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "app/cluster/status/socket_question.h"
#include "base/hostile_text.h"
#include "http/unix_socket.h"
#include "http/wire.h"

namespace ingot::app {
namespace {

using ::testing::HasSubstr;

class StatusOfLauncher : public ::testing::Test {
 protected:
  StatusOfLauncher() {
    std::string name = ::testing::TempDir() + "/status_XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/launch.sock";
  }
  ~StatusOfLauncher() override { std::filesystem::remove_all(folder_); }

  std::string folder_, path_;
};

TEST_F(StatusOfLauncher, HasALineForEachRoleAndSaysWhetherAllAnswer) {
  std::vector<RoleStatus> roles = {{"datapool", "127.0.0.1:1", "3 episodes"}, {"gateway", "127.0.0.1:2", "1 call"}};
  const auto endpoint = StatusEndpoint::Start(path_, [&] { return roles; }).value();
  struct stat what{};
  ASSERT_EQ(stat(path_.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 07777, 0600u);
  const auto all = AskLauncher(path_);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(all->all_answer);
  EXPECT_EQ(all->lines, "datapool   127.0.0.1:1            3 episodes\ngateway    127.0.0.1:2            1 call\n");
  roles[1].state = absl::UnavailableError("gone");
  const auto some = AskLauncher(path_);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_FALSE(some->all_answer);
  EXPECT_THAT(some->lines, HasSubstr("gateway    127.0.0.1:2            NOT REACHED: gone\n"));
  http::Wire wire(path_);
  wire.Send(http::Request("GET", "/token", ""));
  EXPECT_EQ(http::Read(wire).status, 404);
}

TEST_F(StatusOfLauncher, NamesUnresponsiveRolesBesideThoseThatItAsks) {
  const RoleStatus answers{"gateway", "127.0.0.1:2", "1 call"},
      late{"datapool", "127.0.0.1:1", absl::UnavailableError("late")};
  const std::vector<RoleStatus> unresponsive = {
      {"datapool", "-", absl::UnavailableError("no answer for 7 s: it is stopped")},
      {"gateway", "-", absl::UnavailableError("no answer for 5 s")},
      {"trainer", "-", absl::UnavailableError("no answer for 6 s")}};
  EXPECT_EQ(FormatRoles(WithUnresponsive({late, answers}, unresponsive)),
            "datapool   127.0.0.1:1            NOT REACHED: no answer for 7 s: it is stopped\n"
            "gateway    127.0.0.1:2            1 call\n"
            "trainer    -                      NOT REACHED: no answer for 6 s\n");
  const RoleStatus lost{"gateway", "-", absl::UnavailableError("not registered in a")};
  EXPECT_EQ(FormatRoles(WithUnresponsive({lost}, {{"gateway", "-", absl::UnavailableError("no answer for 5 s")}})),
            "gateway    -                      NOT REACHED: no answer for 5 s; not registered in a\n");
}

TEST_F(StatusOfLauncher, ShowsForWhomRolesWait) {
  const RoleStatus answers{"gateway", "127.0.0.1:2", "1 call", "the registry's word"},
      late{"datapool", "127.0.0.1:1", absl::UnavailableError("late")};
  EXPECT_EQ(
      FormatRoles(WithWaits({late, answers},
                            {{"gateway", {"datapool", ""}}, {"trainer", {"", "batch 3"}}, {"datapool", {"etcd", ""}}})),
      "datapool   127.0.0.1:1            NOT REACHED: late; waits for etcd\n"
      "gateway    127.0.0.1:2            1 call; waits for datapool\n"
      "trainer    -                      waits for batch 3\n");
  EXPECT_EQ(FormatRoles(WithWaits({answers}, {})),
            "gateway    127.0.0.1:2            1 call; waits for the registry's word\n");
}

TEST_F(StatusOfLauncher, ShowsWhatRolesCompute) {
  const ReportedWaits step{"", "", "step 4 for 35 s: gradient"};
  const std::vector<RoleStatus> roles =
      WithWaits({{"agents", "-", "runs"}, {"trainer", "-", "runs"}}, {{"trainer", step}});
  EXPECT_EQ(FormatRoles(roles),
            "agents     -                      runs\n"
            "trainer    -                      runs; step 4 for 35 s: gradient\n");
}

TEST_F(StatusOfLauncher, HasProcessIdsOnlyAsJson) {
  RoleStatus trainer{"trainer", "-", "runs"};
  trainer.pid = 4711;
  trainer.waits = "batch 3";
  const std::vector<RoleStatus> roles = {trainer, {"gateway", "127.0.0.1:2", absl::UnavailableError("late\n")}};
  EXPECT_THAT(FormatRoles(roles), Not(HasSubstr("4711")));
  const std::string json = R"([{"name":"trainer","address":"-","pid":4711,"state":"runs","waits":"batch 3"},)"
                           R"({"name":"gateway","address":"127.0.0.1:2","error":"late\\n"}])"
                           "\n";
  EXPECT_EQ(JsonOfRoles(roles), json);
  const auto endpoint = StatusEndpoint::Start(path_, [&] { return roles; });
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const absl::StatusOr<LaunchedStatus> status = AskLauncher(path_, /*json=*/true);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->lines, json);
  EXPECT_FALSE(status->all_answer);
}

TEST_F(StatusOfLauncher, NamesALauncherThatGivesNoAnswer) {
  const int listening = http::ListenUnix(path_).value();
  const absl::Status late = AskSocket(path_, "/status", "the launcher", std::chrono::milliseconds(20)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_THAT(std::string(late.message()),
              HasSubstr("the launcher at " + path_ + " does not respond within 20 ms: process "));
  // Nor does it take connections without an end.
  std::vector<int> connected;
  absl::StatusOr<int> last = http::ConnectUnix(path_);
  while (last.ok() && connected.size() < 1000) {
    connected.push_back(*last);
    last = http::ConnectUnix(path_);
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(last.status())) << last.status();
  for (const int fd : connected) close(fd);
  close(listening);
}

TEST_F(StatusOfLauncher, IsOneLineWhateverARoleSays) {
  for (const std::string& text : base::HostileTexts()) {
    const std::string lines = FormatRoles({{"gateway", "127.0.0.1:2", absl::UnavailableError(text)}});
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1);
  }
}

TEST_F(StatusOfLauncher, SaysThatThereIsNone) {
  const absl::Status none = AskLauncher(path_).status();
  EXPECT_TRUE(absl::IsUnavailable(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr(path_));
}

}  // namespace
}  // namespace ingot::app
