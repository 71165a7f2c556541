// Clients that are slow, large, many, or not clients at all: each is bounded and, where it can hear, answered.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cpu_time.h"
#include "gateway/system_limits.h"
#include "gateway/wire.h"

namespace ingot::gateway {
namespace {

using base::json::object;

std::string Hello(bool stream = false) {
  object body = Body({Msg("user", "hi")});
  if (stream) body["stream"] = true;
  return base::PrintJson(body);
}

std::string Chunked(const std::string& body, size_t piece) {
  std::string out;
  for (size_t at = 0; at < body.size(); at += piece) {
    const std::string part = body.substr(at, piece);
    absl::StrAppend(&out, absl::Hex(part.size()), "\r\n", part, "\r\n");
  }
  return out + "0\r\n\r\n";
}

std::string ChunkedHead(const std::string& key) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key +
         "\r\nTransfer-Encoding: chunked\r\n\r\n";
}

TEST(HttpAttack, LargeBodiesAreReadOrRefused) {
  Site site([](const auto&) { return Say("hello"); });
  site.http.max_body_bytes = site.http.max_buffered_bytes = 8 << 20;
  site.engine->context_length = 100 << 20;
  const auto episode = site.Open();
  const std::string text(7 << 20, 'x');
  const std::string fits = base::PrintJson(Body({Msg("user", text)}));
  const Response declared = site.Ask("POST", "/v1/chat/completions", fits, episode.api_key());
  EXPECT_EQ(declared.status, 200) << declared.body;
  EXPECT_GT(declared.json().at("usage").at("prompt_tokens").as_int64(), 7 << 20);
  Wire wire(site.server().port());
  wire.Send(ChunkedHead(episode.api_key()) + Chunked(fits, 100'000));
  EXPECT_EQ(Read(wire).status, 200);
  const std::string too_large = base::PrintJson(Body({Msg("user", text + text)}));
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", too_large, episode.api_key()).status, 413);
  Wire more(site.server().port());
  more.Send(ChunkedHead(episode.api_key()) + Chunked(too_large, 100'000));
  EXPECT_EQ(Read(more).status, 413);
}

TEST(HttpAttack, BodiesOfAllConnectionsTogetherAreBounded) {
  Site site([](const auto&) { return Say("hello", true); });
  site.http.max_body_bytes = 1000;
  site.http.max_buffered_bytes = 1500;
  const auto episode = site.Open();
  object body = Body({Msg("user", std::string(900, 'x'))});
  const std::string large = base::PrintJson(body);
  ASSERT_LT(large.size(), 1000u);
  Wire first(site.server().port());
  first.Send(Request("POST", "/v1/chat/completions", large, episode.api_key()));
  site.engine->WaitForHeld(1);
  // While the first is being answered there is no room for another, but for a small one.
  const Response refused = site.Ask("POST", "/v1/chat/completions", large, episode.api_key());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.json().at("error").at("code").as_string(), "overloaded");
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  Wire small(site.server().port());
  small.Send(Request("POST", "/v1/chat/completions", Hello(), episode.api_key()));
  site.engine->WaitForHeld(2);
  // What was only announced takes nothing.
  Wire announced(site.server().port());
  announced.Send("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 990\r\n\r\n");
  site.engine->Release();
  EXPECT_EQ(Read(first).status, 200);
  EXPECT_EQ(Read(small).status, 200);
  EXPECT_EQ(site.Ask("POST", "/v1/chat/completions", large, episode.api_key()).status, 200);
}

TEST(HttpAttack, RequestsInPiecesOfOneByteAreRead) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  const std::string whole = Request("POST", "/v1/chat/completions", Hello(), episode.api_key());
  const std::string chunked = ChunkedHead(episode.api_key()) + Chunked(Hello(), 1);
  Wire wire(site.server().port());
  for (const std::string& request : {whole, chunked}) {
    for (const char byte : request) ASSERT_TRUE(wire.Send(std::string(1, byte)));
    EXPECT_EQ(Read(wire).status, 200);
  }
}

TEST(HttpAttack, RequestsThatAreCutOffAreAnswered) {
  Site site([](const auto&) { return Say("hello"); });
  const std::string requests[] = {Request("POST", "/v1/chat/completions", Hello(), "key"),
                                  ChunkedHead("key") + Chunked(Hello(), 10)};
  for (const std::string& request : requests) {
    for (size_t size = 1; size < request.size(); size += 7) {
      Wire wire(site.server().port());
      wire.Send(request.substr(0, size));
      wire.HalfClose();
      const Response response = Read(wire);
      EXPECT_EQ(response.status, 400) << size;
      EXPECT_EQ(response.json().at("error").at("code").as_string(), "incomplete_request");
      EXPECT_EQ(wire.Rest(), "");
    }
  }
  Wire nothing(site.server().port());
  nothing.HalfClose();
  EXPECT_EQ(nothing.Rest(), "");
}

TEST(HttpAttack, SlowHeadersAndSlowBodiesAreGivenUp) {
  Site site([](const auto&) { return Say("hello"); });
  site.http.request_timeout_s = 0.05;
  for (const char* part :
       {"GET /heal", "GET /healthz HTTP/1.1\r\nX: ", "POST /v1/models HTTP/1.1\r\nContent-Length: 5\r\n\r\n1",
        "POST /v1/models HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12"}) {
    Wire wire(site.server().port());
    wire.Send(part);
    const Response response = Read(wire);
    EXPECT_EQ(response.status, 408) << part;
    EXPECT_EQ(response.headers.at("connection"), "close");
    EXPECT_EQ(wire.Rest(), "");
  }
}

TEST(HttpAttack, ChunkHeadersAndTrailersAreBounded) {
  Site site([](const auto&) { return Say("hello"); });
  site.http.max_header_bytes = 2000;
  const std::string long_text(1'000'000, 'x');
  for (const std::string& body :
       {"5;" + long_text, "5;a=\"" + long_text, "0\r\nX: " + long_text, long_text, "0" + std::string(100'000, '0')}) {
    Wire wire(site.server().port());
    wire.Send(ChunkedHead("key") + body);
    const int status = Read(wire).status;
    EXPECT_TRUE(status == 400 || status == 431) << status << body.substr(0, 10);
    EXPECT_EQ(wire.Rest(), "");
  }
}

TEST(HttpAttack, AmbiguousLengthsAreRefused) {
  Site site([](const auto&) { return Say("hello"); });
  for (const char* fields :
       {"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Content-Length: -1\r\n", "Content-Length: 5, 6\r\n",
        "Content-Length: 99999999999999999999\r\n", "Content-Length: 0x5\r\n"}) {
    Wire wire(site.server().port());
    wire.Send(
        absl::StrCat("POST /v1/models HTTP/1.1\r\nHost: x\r\n", fields, "\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n"));
    const int status = Read(wire).status;
    EXPECT_TRUE(status == 400 || status == 413) << fields << status;
    EXPECT_EQ(wire.Rest().find("\"ok\""), std::string::npos) << fields;  // what is smuggled behind is not served
  }
}

TEST(HttpAttack, PipelinedRequestsAreAnsweredInOrderAndOneAtATime) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  constexpr int kRequests = 500;
  std::string all;
  for (int i = 0; i < kRequests; ++i) {
    all += Request("GET", i % 2 == 0 ? "/v1/models" : "/nothing", "");
    if (i % 50 == 0) all += Request("POST", "/v1/chat/completions", Hello(i % 100 == 0), episode.api_key());
  }
  Wire wire(site.server().port());
  std::thread sender([&] {
    wire.Send(all);
    wire.HalfClose();
  });
  const auto next = [&wire] {  // without what is said in between
    Response response = Read(wire);
    while (response.status == 102) response = Read(wire);
    return response.status;
  };
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(next(), i % 2 == 0 ? 200 : 404);
    if (i % 50 == 0) {
      ASSERT_EQ(next(), 200);
    }
  }
  EXPECT_EQ(wire.Rest(), "");
  sender.join();
}

TEST(HttpAttack, ExpectContinueMeetsEveryCase) {
  Site site([](const auto&) { return Say("hello"); });
  const auto episode = site.Open();
  const std::string body = Hello();
  const std::string head =
      absl::StrCat("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nAuthorization: Bearer ",
                   episode.api_key(), "\r\n");
  Wire together(site.server().port());  // who does not wait is not told to go on
  together.Send(absl::StrCat(head, "Content-Length: ", body.size(), "\r\n\r\n", body));
  Response response = Read(together);
  if (response.status == 100) response = Read(together);
  EXPECT_EQ(response.status, 200);
  Wire chunked(site.server().port());
  chunked.Send(head + "Transfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(Read(chunked).status, 100);
  chunked.Send(Chunked(body, 20));
  EXPECT_EQ(Read(chunked).status, 200);
}

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

TEST(HttpAttack, BytesAtRandomAreAnsweredOrDropped) {
  Site site([](const auto&) { return Say("hello"); });
  site.http.request_timeout_s = 5;
  const auto episode = site.Open();
  const std::string seeds[] = {Request("POST", "/v1/chat/completions", Hello(true), episode.api_key()),
                               ChunkedHead(episode.api_key()) + Chunked(Hello(), 30),
                               Request("GET", "/v1/models", "", "", "Expect: 100-continue\r\n")};
  std::mt19937 random(17);
  for (int trial = 0; trial < 300; ++trial) {
    std::string bytes = seeds[random() % std::size(seeds)];
    for (int edits = random() % 5; edits >= 0; --edits) {
      const size_t at = random() % bytes.size();
      if (random() % 3 == 0) {
        bytes.erase(at, random() % 8);
      } else {
        bytes.insert(at, 1, random() % 2 == 0 ? static_cast<char>(random()) : "\r\n :;0\0,"[random() % 8]);
      }
    }
    Wire wire(site.server().port());
    wire.Send(bytes);
    wire.HalfClose();
    const std::string answer = wire.Rest();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.")) << answer;
  }
  EXPECT_EQ(site.Ask("GET", "/healthz", "").status, 200);
  while (site.server().connections() != 0) std::this_thread::yield();
}

int64_t Resident() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  long total = 0, resident = 0;
  if (file != nullptr && std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

// Holds `count` streams that wait for a first token, and says what they take.
void HoldIdleStreams(size_t count, int64_t max_bytes_each) {
  ASSERT_TRUE(RaiseFileLimit(static_cast<int64_t>(3 * count)).ok());  // both ends are in this process
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
  // Room is used up: one more is refused, by name.
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

TEST(SystemLimits, TooManyConnectionsAreNamedWithWhatToSet) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max == RLIM_INFINITY) GTEST_SKIP() << "this system has no limit of open files";
  const absl::Status status = RaiseFileLimit(static_cast<int64_t>(limit.rlim_max));
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_NE(status.message().find("http.max_connections"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find(std::to_string(limit.rlim_max - kOtherFiles)), absl::string_view::npos) << status;
  EXPECT_TRUE(RaiseFileLimit(1).ok());
}

TEST(HttpOptions, PlainTextStaysOnThisMachineUnlessSaidOtherwise) {
  Site site([](const auto&) { return Say("hello"); });
  HttpServerOptions options;
  options.port = 0;
  for (const char* host : {"0.0.0.0", "::"}) {
    options.host = host;
    const absl::Status status = HttpServer::Start(options, site.gateway()).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find("gateway.tls.certificate"), absl::string_view::npos) << status;
  }
  for (const char* host : {"127.0.0.1", "127.0.0.2"}) {
    options.host = host;
    EXPECT_TRUE(HttpServer::Start(options, site.gateway()).ok()) << host;
  }
  options.host = "0.0.0.0";
  options.allow_plaintext = true;
  EXPECT_TRUE(HttpServer::Start(options, site.gateway()).ok());
  options.max_buffered_bytes = 1;
  EXPECT_EQ(HttpServer::Start(options, site.gateway()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ingot::gateway
