// Clients that are slow, large, or no clients at all: each is bounded and, where it reads, answered.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "http/echo_handler.h"
#include "http/limits.h"

namespace ingot::http::attack_test {
namespace {

constexpr char kHello[] = R"({"messages":[{"role":"user","content":"hi"}]})";

std::string Chunked(const std::string& body, size_t piece) {
  std::string out;
  for (size_t at = 0; at < body.size(); at += piece) {
    const std::string part = body.substr(at, piece);
    absl::StrAppend(&out, absl::Hex(part.size()), "\r\n", part, "\r\n");
  }
  return out + "0\r\n\r\n";
}

constexpr char kChunkedHead[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(HttpAttack, LargeBodiesAreReadOrRejected) {
  EchoSite site;
  site.options.max_body_bytes = site.options.max_buffered_bytes = 8 << 20;
  const std::string fits(7 << 20, 'x');
  const Response declared = site.Ask("POST", "/echo", fits);
  EXPECT_EQ(declared.status, 200);
  EXPECT_EQ(declared.body, fits);
  Wire wire(site.server().port());
  wire.Send(kChunkedHead + Chunked(fits, 100'000));
  EXPECT_EQ(Read(wire).body, fits);
  const std::string too_large = fits + fits;
  EXPECT_EQ(site.Ask("POST", "/echo", too_large).status, 413);
  Wire more(site.server().port());
  more.Send(kChunkedHead + Chunked(too_large, 100'000));
  EXPECT_EQ(Read(more).status, 413);
}

TEST(HttpAttack, BodiesOfAllConnectionsTogetherAreBounded) {
  EchoSite site;
  site.options.max_body_bytes = 1000;
  site.options.max_buffered_bytes = 1500;
  const std::string large(950, 'x');
  Wire first(site.server().port());
  first.Send(Request("POST", "/hold", large));
  site.handler.WaitForHeld(1);
  // While the first is being answered there is no room for another, but for a small one.
  const Response rejected = site.Ask("POST", "/echo", large);
  EXPECT_EQ(rejected.status, 503);
  EXPECT_EQ(rejected.json().at("error").at("code").as_string(), "overloaded");
  EXPECT_TRUE(rejected.headers.contains("retry-after"));
  Wire small(site.server().port());
  small.Send(Request("POST", "/hold", kHello));
  site.handler.WaitForHeld(2);
  // An announced body takes no room.
  Wire announced(site.server().port());
  announced.Send("POST /echo HTTP/1.1\r\nContent-Length: 990\r\n\r\n");
  site.handler.Release();
  EXPECT_EQ(Read(first).status, 200);
  EXPECT_EQ(Read(small).status, 200);
  EXPECT_EQ(site.Ask("POST", "/echo", large).status, 200);
}

TEST(HttpAttack, RequestsInPiecesOfOneByteAreRead) {
  EchoSite site;
  const std::string whole = Request("POST", "/echo", kHello);
  const std::string chunked = kChunkedHead + Chunked(kHello, 1);
  Wire wire(site.server().port());
  for (const std::string& request : {whole, chunked}) {
    for (const char byte : request) ASSERT_TRUE(wire.Send(std::string(1, byte)));
    EXPECT_EQ(Read(wire).status, 200);
  }
}

TEST(HttpAttack, RequestsThatAreCutOffAreAnswered) {
  EchoSite site;
  const std::string requests[] = {Request("POST", "/echo", kHello, "key"), kChunkedHead + Chunked(kHello, 10)};
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
  EchoSite site;
  site.options.request_timeout_s = 0.05;
  for (const char* part : {"GET /ec", "GET /echo HTTP/1.1\r\nX: ", "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\n1",
                           "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12"}) {
    Wire wire(site.server().port());
    wire.Send(part);
    const Response response = Read(wire);
    EXPECT_EQ(response.status, 408) << part;
    EXPECT_EQ(response.headers.at("connection"), "close");
    EXPECT_EQ(wire.Rest(), "");
  }
}

TEST(HttpAttack, ChunkHeadersAndTrailersAreBounded) {
  EchoSite site;
  site.options.max_header_bytes = 2000;
  const std::string long_text(1'000'000, 'x');
  for (const std::string& body :
       {"5;" + long_text, "5;a=\"" + long_text, "0\r\nX: " + long_text, long_text, "0" + std::string(100'000, '0')}) {
    Wire wire(site.server().port());
    wire.Send(kChunkedHead + body);
    const int status = Read(wire).status;
    EXPECT_TRUE(status == 400 || status == 431) << status << body.substr(0, 10);
    EXPECT_EQ(wire.Rest(), "");
  }
}

TEST(HttpAttack, AmbiguousLengthsAreRejected) {
  EchoSite site;
  for (const char* fields :
       {"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Content-Length: -1\r\n", "Content-Length: 5, 6\r\n",
        "Content-Length: 99999999999999999999\r\n", "Content-Length: 0x5\r\n"}) {
    Wire wire(site.server().port());
    wire.Send(
        absl::StrCat("POST /echo HTTP/1.1\r\nHost: localhost\r\n", fields, "\r\n0\r\n\r\nGET /echo HTTP/1.1\r\n\r\n"));
    const int status = Read(wire).status;
    EXPECT_TRUE(status == 400 || status == 413) << fields << status;
    EXPECT_EQ(wire.Rest().find("HTTP/1.1 200"), std::string::npos) << fields;  // the smuggled request
  }
}

TEST(HttpAttack, PipelinedRequestsAreAnsweredInOrderAndOneAtATime) {
  EchoSite site;
  constexpr int kRequests = 500;
  std::string all;
  for (int i = 0; i < kRequests; ++i) {
    all += Request("GET", i % 2 == 0 ? "/echo" : "/nothing", "");
    if (i % 50 == 0) all += Request("POST", i % 100 == 0 ? "/stream" : "/echo", kHello);
  }
  Wire wire(site.server().port());
  std::thread sender([&] {
    wire.Send(all);
    wire.HalfClose();
  });
  const auto next = [&wire] {  // without interim responses
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
  EchoSite site;
  const std::string body = kHello;
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-Continue\r\n";
  Wire together(site.server().port());  // a client that does not wait is not invited
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

TEST(HttpAttack, BytesAtRandomAreAnsweredOrDropped) {
  EchoSite site;
  site.options.request_timeout_s = 5;
  const std::string seeds[] = {Request("POST", "/echo", kHello), kChunkedHead + Chunked(kHello, 30),
                               Request("GET", "/echo", "", "", "Expect: 100-continue\r\n")};
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
  EXPECT_EQ(site.Ask("GET", "/echo", "").status, 200);
  site.WaitForNoConnections();
}

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

TEST(SystemLimits, AServerThatNamesNoNumberKeepsToTheHardLimit) {
  EXPECT_EQ(ConnectionsWithin(UINT64_MAX), kMaxConnections);
  EXPECT_EQ(ConnectionsWithin(1 << 20), kMaxConnections);
  EXPECT_EQ(ConnectionsWithin(4096), 4096 - kOtherFiles);
  EXPECT_EQ(ConnectionsWithin(600), 300) << "half, where the other half does for files that are no connections";
  EXPECT_EQ(ConnectionsWithin(1), 1);
}

TEST(SystemLimits, ListeningAdaptsToTheHardLimitUnlessTheNumberIsNamed) {
  // In a process of its own: a hard limit cannot be raised again.
  const auto listens = [](int max_connections, rlim_t files) {
    rlimit limit{files / 4, files};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(3);
    EchoHandler handler;
    Options options;
    options.port = 0;
    options.max_connections = max_connections;
    const absl::Status status = Server::Listen(options, handler).status();
    getrlimit(RLIMIT_NOFILE, &limit);
    if (status.ok()) _exit(limit.rlim_cur == files ? 0 : 4);
    _exit(absl::IsResourceExhausted(status) ? 1 : 2);
  };
  for (const rlim_t files : {4096, 400}) {
    EXPECT_EXIT(listens(0, files), testing::ExitedWithCode(0), "") << files;
    EXPECT_EXIT(listens(10240, files), testing::ExitedWithCode(1), "") << files;
  }
}

TEST(HttpOptions, PlainTextStaysOnThisMachineUnlessSaidOtherwise) {
  EchoSite site;
  Options options;
  options.port = 0;
  for (const char* host : {"0.0.0.0", "::"}) {
    options.host = host;
    const absl::Status status = Server::Listen(options, site.handler).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(status.message().find("tls_certificate"), absl::string_view::npos) << status;
  }
  for (const char* host : {"127.0.0.1", "127.0.0.2"}) {
    options.host = host;
    EXPECT_TRUE(Server::Listen(options, site.handler).ok()) << host;
  }
  options.host = "0.0.0.0";
  options.allow_plaintext = true;
  EXPECT_TRUE(Server::Listen(options, site.handler).ok());
  options.max_buffered_bytes = 1;
  EXPECT_EQ(Server::Listen(options, site.handler).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ingot::http::attack_test
