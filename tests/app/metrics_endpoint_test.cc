// A role's /metrics over a real socket.
#include "app/metrics_endpoint.h"

#include <gtest/gtest.h>

#include "http/wire.h"

namespace ingot::app {
namespace {

http::Response Ask(int port, const std::string& method, const std::string& target, bool head = false) {
  http::Wire wire(port);
  wire.Send(http::Request(method, target, ""));
  return http::Read(wire, head);
}

TEST(MetricsEndpoint, ServesTheMetricsOfItsProcess) {
  base::Metrics metrics;
  const auto endpoint = MetricsEndpoint::Start("localhost", 0, metrics).value();
  metrics.GetCounter("steps_total", "steps taken").Increment(3);
  for (const char* target : {"/metrics", "/metrics?x=1"}) {
    const http::Response response = Ask(endpoint->port(), "GET", target);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_NE(response.body.find("\nsteps_total 3\n"), std::string::npos) << response.body;
  }
  EXPECT_EQ(Ask(endpoint->port(), "HEAD", "/metrics", true).status, 200);
  EXPECT_EQ(Ask(endpoint->port(), "GET", "/").status, 404);
  EXPECT_EQ(Ask(endpoint->port(), "POST", "/metrics").headers.at("allow"), "GET, HEAD");
}

TEST(MetricsEndpoint, NamesAPortInUse) {
  base::Metrics metrics;
  const auto first = MetricsEndpoint::Start("127.0.0.1", 0, metrics).value();
  const absl::Status status = MetricsEndpoint::Start("127.0.0.1", first->port(), metrics).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find(std::to_string(first->port())), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace ingot::app
