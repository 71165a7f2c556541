// A server over a handler that echoes. Real sockets on 127.0.0.1, written and read by hand.
#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "http/echo_handler.h"

namespace ingot::http {
namespace {

std::string Head(const std::string& target, const std::string& fields) {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

TEST(HttpServer, AnswersAsTheHandlerSays) {
  EchoSite site;
  const Response response = site.Ask("POST", "/echo", "hello");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "hello");
  EXPECT_EQ(response.headers.at("content-type"), "text/plain");
  EXPECT_EQ(response.headers.at("server"), "ingot");
  EXPECT_THAT(response.headers.at("date"), testing::MatchesRegex("[A-Z].., .. [A-Z].. 20.. ..:..:.. GMT"));
  EXPECT_EQ(site.Ask("GET", "/nothing", "").status, 404);
  Wire wire(site.server().port());
  wire.Send(Request("HEAD", "/echo", ""));
  EXPECT_EQ(Read(wire, true).status, 200);
  wire.Send(Request("POST", "/echo", "still in step"));
  EXPECT_EQ(Read(wire).body, "still in step");
}

// A listening socket of 127.0.0.1, as a room hands it in.
struct ListeningSocket {
  ListeningSocket() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd, 16), 0);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
  int fd;
  int port;
};

TEST(HttpServer, AcceptsOnASocketThatIsHandedInUntilItIsGivenBack) {
  EchoSite site;
  const ListeningSocket socket;
  auto listener = site.server().AcceptOn(socket.fd);
  ASSERT_TRUE(listener.ok()) << listener.status();
  Wire inside(socket.port), own(site.server().port());
  for (Wire* const wire : {&inside, &own}) {
    wire->Send(Request("POST", "/echo", "hello"));
    EXPECT_EQ(Read(*wire).body, "hello");
  }
  listener->reset();
  inside.Send(Request("POST", "/echo", "the connection stays"));
  EXPECT_EQ(Read(inside).body, "the connection stays");
  const int plain = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(site.server().AcceptOn(plain).status().code(), absl::StatusCode::kInvalidArgument) << "it does not listen";
}

TEST(HttpServer, StopsWhileSocketsAreHandedIn) {
  EchoSite site;
  const ListeningSocket socket;
  const auto listener = site.server().AcceptOn(socket.fd);
  ASSERT_TRUE(listener.ok()) << listener.status();
  site.server().Stop();
}

TEST(HttpServer, StreamsAsChunks) {
  EchoSite site;
  const std::string body(12'345, 'x');
  const Response response = site.Ask("POST", "/stream", body);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(response.body, body);
  EXPECT_EQ(site.handler.sends(), 13u);
}

TEST(HttpServer, AnswersHeadOfAStreamWithItsHeadAlone) {
  EchoSite site;
  Wire wire(site.server().port());
  for (const size_t bytes : {10, 2500}) {  // of one piece, and of several
    wire.Send(Request("HEAD", "/stream", std::string(bytes, 'x')));
    const Response head = Read(wire, true);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.headers.at("transfer-encoding"), "chunked");
    wire.Send(Request("POST", "/echo", "still in step"));
    const Response next = Read(wire);
    ASSERT_EQ(next.status, 200) << "bytes of the stream's body were sent";
    EXPECT_EQ(next.body, "still in step");
  }
  EXPECT_EQ(site.handler.WaitForClosed(1), std::vector<Side>{Side::kClient});  // the stream of several pieces
  Wire old(site.server().port());
  old.Send("HEAD /stream HTTP/1.0\r\nContent-Length: 1\r\n\r\nx");
  EXPECT_EQ(Read(old, true).status, 200);
  EXPECT_EQ(old.Rest(), "");
}

TEST(HttpServer, RejectsByTheHeadAndDoesNotReadTheBody) {
  EchoSite site;
  Wire announced(site.server().port());
  announced.Send(Head("/refused", "Content-Length: 5000\r\n"));
  const Response rejected = Read(announced);
  EXPECT_EQ(rejected.status, 403);
  EXPECT_EQ(rejected.headers.at("connection"), "close");
  Wire expecting(site.server().port());
  expecting.Send(Head("/refused", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
  EXPECT_EQ(Read(expecting).status, 403);
  Wire empty(site.server().port());  // no body is left unread, so the connection stays
  for (int i = 0; i < 2; ++i) {
    empty.Send(Request("POST", "/refused", ""));
    EXPECT_EQ(Read(empty).status, 403);
  }
}

TEST(HttpServer, HoldsBodiesToTheHandlersLimit) {
  EchoSite site;
  EXPECT_EQ(site.Ask("POST", "/small", "0123456789").body, "0123456789");
  const Response declared = site.Ask("POST", "/small", "0123456789a");
  EXPECT_EQ(declared.status, 413);
  EXPECT_NE(declared.body.find("10 bytes"), std::string::npos) << declared.body;
  for (const bool fits : {true, false}) {
    Wire chunked(site.server().port());
    chunked.Send(Head("/small", "Transfer-Encoding: chunked\r\n") + "5\r\n01234\r\n" +
                 (fits ? "5\r\n56789\r\n" : "6\r\n56789a\r\n") + "0\r\n\r\n");
    EXPECT_EQ(Read(chunked).status, fits ? 200 : 413);
  }
}

TEST(HttpServer, AsksForNoMoreThanTheClientTakes) {
  EchoSite site;
  site.options.write_timeout_s = 0.2;
  const std::string body(8'000'000, 'x');
  Wire wire(site.server().port());
  wire.ShrinkReceiveBuffer();
  wire.Send(Request("POST", "/stream", body));
  EXPECT_EQ(site.handler.WaitForClosed(1)[0], Side::kClient);
  EXPECT_LT(site.handler.sends(), body.size() / 1000);
  site.WaitForNoConnections();
}

TEST(HttpServer, KeepsASilentStreamAliveWithItsFiller) {
  EchoSite site;
  site.options.keepalive_s = 0.01;
  Wire wire(site.server().port());
  wire.Send(Request("POST", "/hold/stream", "end\n"));
  std::string line;
  while (line != ":\n") line = wire.Line();
  site.handler.Release();
  wire.Send(Request("POST", "/echo", "next", "", "Connection: close\r\n"));
  EXPECT_NE(wire.Rest().find("end\n"), std::string::npos);
}

TEST(HttpServer, KeepsConnectionsAliveAndTakesPipelinedRequests) {
  EchoSite site;
  Wire wire(site.server().port());
  for (const char* target : {"/echo", "/stream", "/echo"}) {
    wire.Send(Request("POST", target, "x"));
    EXPECT_EQ(Read(wire).body, "x");
  }
  wire.Send(Request("POST", "/echo", "1") + Request("POST", "/stream", "2") +
            Request("POST", "/echo", "3", "", "Connection: close\r\n"));
  for (const char* body : {"1", "2", "3"}) EXPECT_EQ(Read(wire).body, body);
  EXPECT_EQ(wire.Rest(), "");
}

TEST(HttpServer, Http11NeedsItsHost) {
  EchoSite site;
  const auto status = [&](const std::string& head) {
    Wire wire(site.server().port());
    wire.Send(head + "\r\n");
    return Read(wire).status;
  };
  EXPECT_EQ(status("GET /echo HTTP/1.1\r\nHost: localhost\r\n"), 200);
  EXPECT_EQ(status("GET /echo HTTP/1.1\r\n"), 400);
  EXPECT_EQ(status("GET /echo HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n"), 400);
  EXPECT_EQ(status("GET /echo HTTP/1.0\r\n"), 200);
}

TEST(HttpServer, RejectsBodiesThatAreTooLarge) {
  EchoSite site;
  site.options.max_body_bytes = 1000;
  const Response declared = site.Ask("POST", "/echo", std::string(5'000'000, 'x'));
  EXPECT_EQ(declared.status, 413);
  EXPECT_NE(declared.body.find("1000 bytes"), std::string::npos);
  Wire chunked(site.server().port());
  chunked.Send(Head("/echo", "Transfer-Encoding: chunked\r\n"));
  for (int i = 0; i < 3; ++i) chunked.Send("1f4\r\n" + std::string(500, 'x') + "\r\n");
  EXPECT_EQ(Read(chunked).status, 413);
  Wire expecting(site.server().port());
  expecting.Send(Head("/echo", "Expect: 100-continue\r\nContent-Length: 5000\r\n"));
  EXPECT_EQ(Read(expecting).status, 413);
}

// The rest of a refused body is read and dropped: a reset would overtake the answer.
TEST(HttpServer, LetsAClientSendTheRestOfARejectedBody) {
  EchoSite site;
  site.options.max_body_bytes = 1000;
  Wire wire(site.server().port());
  EXPECT_TRUE(wire.Send(Request("POST", "/echo", std::string(20'000'000, 'x'))));
  EXPECT_EQ(Read(wire).status, 413);
  EXPECT_EQ(wire.Rest(), "");
}

TEST(HttpServer, AnswersExpectContinue) {
  EchoSite site;
  Wire wire(site.server().port());
  wire.Send(Head("/echo", "Expect: 100-continue\r\nContent-Length: 5\r\n"));
  EXPECT_EQ(Read(wire).status, 100);
  wire.Send("hello");
  EXPECT_EQ(Read(wire).status, 200);
}

TEST(HttpServer, RejectsWhatIsNotHttp) {
  EchoSite site;
  site.options.max_header_bytes = 1024;
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls hello\r\n\r\n"), std::string("hello\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"), std::string("POST /echo HTTP/1.1\r\nContent-Length: ten\r\n\r\n")}) {
    Wire wire(site.server().port());
    wire.Send(bytes);
    EXPECT_EQ(Read(wire).status, 400) << bytes;
  }
  Wire wire(site.server().port());
  wire.Send("GET /echo HTTP/1.1\r\nX: " + std::string(4000, 'x') + "\r\n\r\n");
  EXPECT_EQ(Read(wire).status, 431);
}

TEST(HttpServer, GivesUpOnASlowClient) {
  EchoSite site;
  site.options.request_timeout_s = 0.05;
  Wire wire(site.server().port());
  wire.Send(Head("/echo", "Content-Length: 100\r\n") + "{");
  EXPECT_EQ(Read(wire).status, 408);
  EXPECT_EQ(wire.Rest(), "");
}

TEST(HttpServer, ClosesASilentConnection) {
  EchoSite site;
  site.options.idle_timeout_s = 0.05;
  Wire wire(site.server().port());
  EXPECT_EQ(wire.Rest(), "");
}

TEST(HttpServer, ReportsTheHandlerThatTheClientWentAway) {
  for (const bool half_first : {false, true}) {
    for (const bool stream : {false, true}) {
      EchoSite site;
      Wire wire(site.server().port());
      wire.Send(Request("POST", stream ? "/hold/stream" : "/hold", "x"));
      site.handler.WaitForHeld(1);
      if (half_first) {
        wire.HalfClose();
        const std::string probe = stream ? ":\n" : "HTTP/1.1 102 Processing";
        bool probed = false;
        for (int i = 0; i < 200 && !probed; ++i) probed = wire.Line() == probe;
        EXPECT_TRUE(probed);
        wire.Reset();
      } else {
        wire.Close();
      }
      EXPECT_EQ(site.handler.WaitForClosed(1)[0], Side::kClient);
    }
  }
}

TEST(HttpServer, AnswersAClientThatClosedItsSendingSide) {
  for (const bool stream : {false, true}) {
    EchoSite site;
    Wire wire(site.server().port());
    wire.Send(Request("POST", stream ? "/hold/stream" : "/hold", "the end"));
    wire.HalfClose();
    site.handler.WaitForHeld(1);
    site.handler.Release();
    Response response = Read(wire);
    while (response.status == 102) response = Read(wire);
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.body.ends_with("the end"));
    EXPECT_EQ(wire.Rest(), "");
  }
}

TEST(HttpServer, KnowsAtOnceWhetherAClientHasGone) {
  EchoSite site;
  size_t held = 0;
  for (const bool half : {true, false}) {
    Wire wire(site.server().port());
    wire.Send(Request("POST", "/hold", "the end"));
    site.handler.WaitForHeld(++held);
    const std::function<bool()> gone = site.handler.client_gone();
    EXPECT_FALSE(gone());
    half ? wire.HalfClose() : wire.Close();
    EXPECT_EQ(gone(), !half) << "a client that closed only its sending side still reads";
    wire.Close();
    EXPECT_TRUE(gone());
    site.WaitForNoConnections();
    Wire next(site.server().port());
    next.Send(Request("POST", "/hold", "the end"));
    site.handler.WaitForHeld(++held);
    EXPECT_TRUE(gone()) << "the number of its socket is another's by now";
  }
}

TEST(HttpServer, SpeaksHttp10) {
  EchoSite site;
  for (const char* target : {"/echo", "/stream"}) {
    Wire wire(site.server().port());
    wire.Send(absl::StrCat("POST ", target, " HTTP/1.0\r\nContent-Length: 3\r\n\r\nhel"));
    const std::string all = wire.Rest();
    EXPECT_NE(all.find("hel"), std::string::npos);
    EXPECT_EQ(all.find("chunked"), std::string::npos);
  }
}

TEST(HttpServer, NamesTheAddressItCannotListenOn) {
  EchoSite site;
  Options options;
  options.port = site.server().port();
  const absl::Status status = Server::Listen(options, site.handler).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find(absl::StrCat("127.0.0.1:", options.port)), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("in use"), absl::string_view::npos) << status;
  options.host = "not an address";
  EXPECT_EQ(Server::Listen(options, site.handler).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HttpServer, MayEndBeforeItServes) {
  EchoHandler handler;
  Options options;
  options.port = 0;
  const auto server = Server::Listen(options, handler);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_GT((*server)->port(), 0);
}

TEST(HttpServer, TurnsAwayMoreConnectionsThanItsLimit) {
  EchoSite site;
  site.options.max_connections = 1;
  Wire first(site.server().port());
  first.Send(Request("GET", "/hold", ""));
  site.handler.WaitForHeld(1);
  Wire second(site.server().port());
  EXPECT_EQ(Read(second).status, 503);
}

// A server that closes while its client still sends makes the client's system drop the answer.
TEST(HttpServer, AConnectionBeyondTheLimitIsAnsweredWhileItSends) {
  EchoSite site;
  site.options.max_connections = 1;
  Wire first(site.server().port());
  first.Send(Request("GET", "/hold", ""));
  site.handler.WaitForHeld(1);
  Wire second(site.server().port());
  const Response rejected = Read(second);
  EXPECT_EQ(rejected.status, 503);
  EXPECT_TRUE(rejected.headers.contains("retry-after"));
  EXPECT_EQ(rejected.headers.at("connection"), "close");
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(second.Send(Request("POST", "/echo", "hello"))) << "reset after " << i;
    Wire other(site.server().port());  // meanwhile the first bytes have arrived
    EXPECT_EQ(Read(other).status, 503);
  }
  EXPECT_EQ(second.Rest(), "");
  site.handler.Release();
  EXPECT_EQ(Read(first).status, 200);
}

TEST(HttpServer, AConnectionThatHasJustComeIsNotResetForTheNextOne) {
  EchoSite site;
  site.options.max_connections = 2;
  Wire first(site.server().port());
  first.Send(Request("GET", "/hold", ""));
  site.handler.WaitForHeld(1);
  Wire second(site.server().port());
  EXPECT_EQ(Read(*std::make_unique<Wire>(site.server().port())).status, 503);
  second.Send(Request("POST", "/echo", "hello"));
  EXPECT_EQ(Read(second).body, "hello");
}

TEST(HttpServer, RejectionsBeyondTheLimitAreBounded) {
  EchoSite site;
  site.options.max_connections = 1;
  Wire first(site.server().port());
  first.Send(Request("GET", "/hold", ""));
  site.handler.WaitForHeld(1);
  std::vector<std::unique_ptr<Wire>> more;
  for (int i = 0; i < 100; ++i) {
    more.push_back(std::make_unique<Wire>(site.server().port()));
    EXPECT_EQ(Read(*more.back()).status, 503) << i;
    EXPECT_LE(site.server().connections(), 1 + 64);
  }
  const auto begun = std::chrono::steady_clock::now();
  site.handler.Release();
  site.server().Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1)) << "it waits for those it refuses";
}

TEST(HttpServer, AnIdleConnectionMakesRoomForANewOne) {
  EchoSite site;
  site.options.max_connections = 1;
  Wire first(site.server().port());
  first.Send(Request("GET", "/echo", ""));
  EXPECT_EQ(Read(first).status, 200);
  EXPECT_EQ(site.Ask("GET", "/echo", "").status, 200);
  EXPECT_EQ(first.Rest(), "");
}

TEST(HttpServer, ASocketThatIsHandedInHasItsShareAlone) {
  EchoSite site;
  site.options.max_connections = 64;
  const ListeningSocket socket;
  const auto room = site.server().AcceptOn(socket.fd);
  ASSERT_TRUE(room.ok()) << room.status();
  std::vector<std::unique_ptr<Wire>> held;
  for (size_t i = 1; i <= 16; ++i) {
    held.push_back(std::make_unique<Wire>(socket.port));
    held.back()->Send(Request("POST", "/hold", "x"));
    site.handler.WaitForHeld(i);
  }
  Wire next(socket.port);
  next.Send(Request("POST", "/echo", "hello"));
  EXPECT_EQ(Read(next).status, 503);
  EXPECT_EQ(site.Ask("POST", "/echo", "hello").status, 200) << "the server has places";
}

TEST(HttpServer, SlowHeadsOfOneSourceKeepNobodyElseOut) {
  EchoSite site;
  site.options.max_connections = 8;
  const ListeningSocket socket;
  const auto room = site.server().AcceptOn(socket.fd);
  ASSERT_TRUE(room.ok()) << room.status();
  for (const int port : {socket.port, site.server().port()}) {
    std::vector<std::unique_ptr<Wire>> slow;
    for (int i = 0; i < 30; ++i) {
      slow.push_back(std::make_unique<Wire>(port));
      slow.back()->Send("GET /echo HTTP/1.1\r\nHost: local");
      EXPECT_EQ(site.Ask("POST", "/echo", "hello").status, 200) << i;
    }
  }
}

// Answers each request with a reply that counts when it is not read.
class UnreadHandler final : public Handler {
 public:
  Opening Head(RequestHead) override {
    return {.exchange = MakeExchange([this](const std::string&) {
              Reply reply{.body = "x"};
              reply.unread = [this] { ++unread; };
              return reply;
            })};
  }
  std::atomic<int> unread{0};
};

TEST(HttpServer, SaysThatAnAnswerWasNotRead) {
  UnreadHandler handler;
  Options options;
  options.port = 0;
  const auto server = Server::Listen(options, handler).value();
  server->Serve();
  const auto wait_for_none = [&] {
    while (server->connections() != 0) std::this_thread::yield();
  };
  const auto answered = [&] {
    auto wire = std::make_unique<Wire>(server->port());
    wire->Send(Request("GET", "/", ""));
    char byte;
    EXPECT_EQ(recv(wire->fd(), &byte, 1, MSG_PEEK), 1) << "the answer came";
    return wire;
  };
  auto reads = answered();
  EXPECT_EQ(Read(*reads).status, 200);
  reads->Send(Request("GET", "/", ""));
  EXPECT_EQ(Read(*reads).status, 200);
  reads->Close();
  wait_for_none();
  EXPECT_EQ(handler.unread, 0);
  answered()->Reset();
  wait_for_none();
  EXPECT_EQ(handler.unread, 1);
  answered()->Close();  // with unread bytes, so it is a reset
  wait_for_none();
  EXPECT_EQ(handler.unread, 2);
}

TEST(HttpServer, RejectsPagesOfOtherSites) {
  EchoSite site;
  const auto status = [&](const std::string& fields, const std::string& body) {
    Wire wire(site.server().port());
    wire.Send("POST /echo HTTP/1.1\r\n" + fields + absl::StrCat("Content-Length: ", body.size(), "\r\n\r\n", body));
    return Read(wire).status;
  };
  const std::string own = absl::StrCat("127.0.0.1:", site.server().port());
  EXPECT_EQ(status("Host: " + own + "\r\n", "x"), 200);
  EXPECT_EQ(status("Host: " + own + "\r\nOrigin: http://" + own + "\r\n", "x"), 200);
  EXPECT_EQ(status("Host: evil.example\r\n", "x"), 403);
  EXPECT_EQ(status("Host: evil.example\r\nOrigin: http://evil.example\r\n", ""), 403);
  EXPECT_EQ(status("Host: " + own + "\r\nOrigin: https://evil.example\r\n", "x"), 403);
  EXPECT_EQ(status("Host: " + own + "\r\nOrigin: null\r\n", "x"), 403);
}

TEST(HttpServer, LetsRequestsInFlightFinishWhenItStops) {
  EchoSite site;
  site.options.shutdown_grace_s = 20;
  Wire busy(site.server().port()), idle(site.server().port());
  idle.Send(Request("GET", "/echo", ""));
  EXPECT_EQ(Read(idle).status, 200);
  busy.Send(Request("POST", "/hold", "x"));
  site.handler.WaitForHeld(1);
  std::thread stopper([&] { site.server().Stop(); });
  EXPECT_EQ(idle.Rest(), "");  // closed at once
  EXPECT_FALSE(Wire(site.server().port()).connected());
  site.handler.Release();
  EXPECT_EQ(Read(busy).status, 200);
  stopper.join();
}

TEST(HttpServer, EndsExchangesThatOutlastTheGrace) {
  EchoSite site;
  site.options.shutdown_grace_s = 0;
  Wire wire(site.server().port());
  wire.Send(Request("POST", "/hold", "x"));
  site.handler.WaitForHeld(1);
  site.server().Stop();
  EXPECT_EQ(wire.Rest(), "");
  EXPECT_EQ(site.handler.WaitForClosed(1)[0], Side::kServer);
}

TEST(HttpServer, RunsItsJobsUntilItStops) {
  EchoSite site;
  base::Mutex mu;
  base::CondVar changed;
  int runs = 0;
  site.server().Every(std::chrono::milliseconds(1), [&] {
    base::MutexLock lock(mu);
    ++runs;
    changed.SignalAll();
  });
  {
    base::MutexLock lock(mu);
    while (runs < 3) changed.Wait(mu);
  }
  site.server().Stop();
  const int at_stop = runs;  // no thread is left that counts
  EXPECT_GE(at_stop, 3);
}

TEST(HttpServer, ServesManyClientsOnSeveralLoops) {
  EchoSite site;
  site.options.io_threads = 3;
  site.server();
  constexpr int kClients = 12, kRequests = 50;
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      Wire wire(site.server().port());
      for (int i = 0; i < kRequests; ++i) {
        const std::string body = absl::StrCat(client, "/", i, std::string(2000, 'x'));
        wire.Send(Request("POST", i % 2 == 0 ? "/echo" : "/stream", body));
        good += Read(wire).body == body;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, kClients * kRequests);
}

}  // namespace
}  // namespace ingot::http
