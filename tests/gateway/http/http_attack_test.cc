// Clients of the gateway that read slowly, or are many: each is bounded, and its calls are recorded.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cpu_time.h"
#include "gateway/site.h"
#include "http/limits.h"

namespace ingot::gateway {
namespace {

using base::json::object;

TEST(HttpAttack, ASlowReaderOfAStreamIsGivenUpAndWhatItHadIsRecorded) {
  Site site([](const auto&) {
    Script script = Say(std::string(200'000, 'x'));
    script.chunk = 1000;
    return script;
  });
  site.http.write_timeout_s = 0.1;
  const auto episode = site.Open();
  object body = Body({Msg("user", "hi")});
  body["stream"] = body["logprobs"] = true;  // more than sockets buffer
  Wire wire(site.server().port());
  wire.ShrinkReceiveBuffer();
  wire.Send(Request("POST", "/v1/chat/completions", base::PrintJson(body), episode.api_key()));
  while (site.pool.calls().empty()) std::this_thread::yield();
  while (site.server().connections() != 0) std::this_thread::yield();
}

int64_t Resident() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  long total = 0, resident = 0;
  if (file != nullptr && std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

// Holds `count` streams that wait for a first token, and prints the memory that each takes.
void HoldIdleStreams(size_t count, int64_t max_bytes_each) {
  ASSERT_TRUE(http::RaiseFileLimit(static_cast<int64_t>(3 * count)).ok());  // both ends are in this process
  Site site([](const auto&) {
    Script script = Say("", true);
    return script;
  });
  site.engine->hold_without_thread = true;
  site.options.max_active_calls = site.http.max_connections = static_cast<int32_t>(count);
  site.with_admission = false;
  site.server();
  const int64_t before = Resident();
  std::vector<std::unique_ptr<Wire>> wires;
  for (size_t i = 0; i < count; ++i) {
    wires.push_back(std::make_unique<Wire>(site.server().port()));
    ASSERT_TRUE(wires.back()->connected());
    ASSERT_TRUE(wires.back()->Send(Request("POST", "/v1/chat/completions", Hello(true), "key")));
  }
  site.engine->WaitForRequests(count);
  const int64_t each = (Resident() - before) / static_cast<int64_t>(count);
  testing::Test::RecordProperty("bytes_per_idle_stream", std::to_string(each));
  std::printf("%zu idle streams: %lld bytes each, both ends of the sockets in this process\n", count,
              static_cast<long long>(each));
  if (kSlowdown == 1) {  // a sanitizer keeps memory of its own
    EXPECT_LT(each, max_bytes_each);
  }
  EXPECT_EQ(site.server().connections(), static_cast<int>(count));
  // All connections are in use: the next one is refused.
  Wire more(site.server().port());
  EXPECT_EQ(Read(more).status, 503);
  site.engine->Release();
  for (auto& wire : wires) {
    const Response response = Read(*wire);
    ASSERT_EQ(response.status, 200);
    ASSERT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  }
}

TEST(HttpAttack, ManyIdleStreamsAreHeldAndEnd) { HoldIdleStreams(1000, 100'000); }

// The error names the configuration's keys.
TEST(HttpOptions, PlainTextStaysOnThisMachineUnlessSaidOtherwise) {
  Site site([](const auto&) { return Say("hello"); });
  http::Options options;
  options.port = 0;
  options.host = "0.0.0.0";
  const absl::Status status = HttpServer::Start(options, site.gateway()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("gateway.tls.certificate"), absl::string_view::npos) << status;
}

// Agents of other machines reach no 0.0.0.0.
TEST(HttpOptions, AServerOnEveryAddressIsKnownByItsMachines) {
  Site site([](const auto&) { return Say("hello"); });
  site.http.host = "0.0.0.0";
  site.http.allow_plaintext = true;
  const auto server = HttpServer::Start(site.http, site.gateway(), "10.0.0.5").value();
  EXPECT_EQ(server->base_url(), absl::StrCat("http://10.0.0.5:", server->port()));
  EXPECT_TRUE(site.Open().base_url().starts_with(server->base_url() + "/s/")) << site.Open().base_url();
  site.http.host = "127.0.0.1";
  const auto local = HttpServer::Start(site.http, site.gateway(), "10.0.0.5").value();
  EXPECT_EQ(local->base_url(), local->url()) << "its one address";
}

}  // namespace
}  // namespace ingot::gateway
