// A process's /metrics over real sockets.
#include "app/record/metrics_endpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/metrics.h"
#include "http/wire.h"

namespace ingot::app {
namespace {

constexpr char kKey[] = "an-admin-key-of-some-length";

http::Options At(const std::string& host, int port = 0) {
  http::Options options;
  options.host = host;
  options.port = port;
  return options;
}

std::string OneLine() { return "steps_total 3\n"; }

http::Response Ask(http::Wire wire, const std::string& method, const std::string& target, const std::string& key = "") {
  wire.Send(http::Request(method, target, "", key));
  return http::Read(wire, method == "HEAD");
}

TEST(MetricsEndpoint, ServesTheMetricsOfItsProcessOnASocketOfThisUsers) {
  std::string folder = ::testing::TempDir() + "/metrics_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/m.sock";
  base::Metrics metrics;
  const auto endpoint = MetricsEndpoint::OnSocket(path, [&] { return metrics.RenderText(); }).value();
  metrics.GetCounter("steps_total", "steps taken").Increment(3);
  struct stat what{};
  ASSERT_EQ(stat(path.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 07777, 0600u);
  for (const char* target : {"/metrics", "/metrics?x=1"}) {
    const http::Response response = Ask(http::Wire(path), "GET", target);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_NE(response.body.find("\nsteps_total 3\n"), std::string::npos) << response.body;
  }
  EXPECT_EQ(Ask(http::Wire(path), "HEAD", "/metrics").status, 200);
  EXPECT_EQ(Ask(http::Wire(path), "GET", "/").status, 404);
  EXPECT_EQ(Ask(http::Wire(path), "GET", "/waits").status, 404);
  EXPECT_EQ(Ask(http::Wire(path), "POST", "/metrics").headers.at("allow"), "GET, HEAD");
  std::filesystem::remove_all(folder);
}

TEST(MetricsEndpoint, SaysOnItsSocketForWhomItsProcessWaits) {
  std::string folder = ::testing::TempDir() + "/metrics_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/m.sock";
  const auto endpoint = MetricsEndpoint::OnSocket(path, OneLine, [] { return "datapool\n\n"; }).value();
  const http::Response response = Ask(http::Wire(path), "GET", "/waits");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "datapool\n\n");
  EXPECT_EQ(Ask(http::Wire(path), "GET", "/metrics").body, OneLine());
  std::filesystem::remove_all(folder);
}

TEST(MetricsEndpoint, AsksForTheKeyAtAnAddress) {
  const auto endpoint = MetricsEndpoint::AtAddress(At("localhost"), kKey, OneLine).value();
  const int port = endpoint->port();
  EXPECT_EQ(Ask(http::Wire(port), "GET", "/waits", kKey).status, 404);
  EXPECT_EQ(Ask(http::Wire(port), "GET", "/metrics", kKey).body, OneLine());
  for (const char* wrong : {"", "an-admin-key-of-some-lengtH", "x"}) {
    const http::Response rejected = Ask(http::Wire(port), "GET", "/metrics", wrong);
    EXPECT_EQ(rejected.status, 401) << wrong;
    EXPECT_EQ(rejected.body.find("steps_total"), std::string::npos);
    EXPECT_NE(rejected.body.find("gateway.admin_key_file"), std::string::npos);
  }
}

TEST(MetricsEndpoint, NamesAPortInUseAndSendsNoKeyOverAnOpenNetwork) {
  const auto first = MetricsEndpoint::AtAddress(At("127.0.0.1"), kKey, OneLine).value();
  const absl::Status taken = MetricsEndpoint::AtAddress(At("127.0.0.1", first->port()), kKey, OneLine).status();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_NE(taken.message().find(std::to_string(first->port())), absl::string_view::npos) << taken;
  EXPECT_TRUE(absl::IsFailedPrecondition(MetricsEndpoint::AtAddress(At("0.0.0.0"), kKey, OneLine).status()));
}

}  // namespace
}  // namespace ingot::app
