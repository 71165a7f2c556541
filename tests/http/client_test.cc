// The client against servers that answer, stall, lie and refuse.
#include "http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "base/free_port.h"
#include "base/listening_socket.h"
#include "http/echo_handler.h"
#include "http/tls_files.h"
#include "http/unix_socket.h"

namespace ingot::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

// A server that takes connections one by one, reads the head of a request, and writes given bytes. It closes a connection
// after `stays`, or when its client does.
class RawServer {
 public:
  explicit RawServer(std::string bytes, seconds stays = seconds(0)) : bytes_(std::move(bytes)), stays_(stays) {}
  ~RawServer() { listening_.Shut(); }

  std::string url(const std::string& path = "/") const { return absl::StrCat("http://", listening_.place(), path); }
  const std::string& place() const { return listening_.place(); }
  int connections() const { return connections_; }
  // What the last client sent.
  std::string head() {
    base::MutexLock lock(mu_);
    return head_;
  }

 private:
  void Serve() {
    for (int taken = listening_.Accept(); taken >= 0; taken = listening_.Accept()) {
      const base::Fd client(taken);
      ++connections_;
      std::string head;
      char bytes[4096];
      for (ssize_t got = 1; got > 0 && head.find("\r\n\r\n") == std::string::npos;) {
        got = recv(client.get(), bytes, sizeof(bytes), 0);
        if (got > 0) head.append(bytes, got);
      }
      {
        base::MutexLock lock(mu_);
        head_ = head;
      }
      size_t at = 0;
      for (ssize_t sent = 1; sent > 0 && at < bytes_.size(); at += sent > 0 ? sent : 0) {
        sent = send(client.get(), bytes_.data() + at, bytes_.size() - at, MSG_NOSIGNAL);
      }
      const timeval timeout{.tv_sec = stays_.count(), .tv_usec = 0};
      setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
      while (stays_.count() > 0 && recv(client.get(), bytes, sizeof(bytes), 0) > 0) {
      }
    }
  }

  const base::testing::ListeningSocket listening_;
  const std::string bytes_;
  const seconds stays_;
  std::atomic<int> connections_ = 0;
  base::Mutex mu_;
  std::string head_ ABSL_GUARDED_BY(mu_);
  std::jthread thread_{[this] { Serve(); }};  // last: it ends before the rest goes
};

// A variable of the environment, for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* const name_;
};

std::string UrlOf(EchoSite& site, const std::string& path) { return site.server().url() + path; }

TEST(HttpClient, GivesStatusHeadersAndBody) {
  EchoSite site;
  Client client;
  const auto answer = client.Send({.url = UrlOf(site, "/echo"), .method = "POST", .body = "hello"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->headers.at("content-type"), "text/plain");
  EXPECT_EQ(answer->body, "hello");
  EXPECT_EQ(client.Send({.url = UrlOf(site, "/nothing")})->status, 404);
  EXPECT_EQ(site.server().connections(), 1) << "the connection stays open for the next request";
}

TEST(HttpClient, SendsWhatItIsGiven) {
  RawServer server("HTTP/1.1 204 No Content\r\n\r\n");
  const auto answer = Client().Send({.url = server.url("/a/../b?c=%20"),
                                     .method = "PUT",
                                     .headers = {{"X-One", "1"}, {"X-None", ""}, {"X-Blank", " "}},
                                     .body = "12345",
                                     .key = "k"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 204);
  const std::string head = server.head();
  EXPECT_TRUE(head.starts_with("PUT /a/../b?c=%20 HTTP/1.1\r\n")) << head;
  EXPECT_THAT(head, HasSubstr("\r\nHost: " + server.place() + "\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nAuthorization: Bearer k\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nX-One: 1\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nX-None:\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nX-Blank:\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("\r\nExpect:")));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Length: 5\r\n"));
}

TEST(HttpClient, AsksFirstOnlyWhereTheCallerWants) {
  const std::string large(2 << 20, 'x');
  for (const bool asks : {false, true}) {
    RawServer server("HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    const auto answer = Client().Send({.url = server.url(), .method = "PUT", .body = large, .asks_first = asks});
    EXPECT_EQ(server.head().find("Expect: 100-continue") != std::string::npos, asks);
    EXPECT_TRUE(!asks || answer.value().status == 412) << "the body is not sent";
  }
}

TEST(HttpClient, RejectsWhatIsNoUrl) {
  for (const char* url : {"", "ftp://h/", "file:///etc/passwd", "HTTP://h/", "http://", "http:/h", "http:///path",
                          "http://:80/", "http://a b/", "http://u@h/", "http://u:p@h/", "http://h/a b", "http://h:x/",
                          "http://h/\r\nX: 1", "http://h/\xE2\x80\xAE"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Client().Send({.url = url}).status())) << url;
  }
}

TEST(HttpClient, RejectsHeadersThatAreMoreThanOne) {
  RawServer server("HTTP/1.1 204 No Content\r\n\r\n");
  const auto rejected = [&](ClientRequest request) {
    request.url = server.url();
    const absl::Status status = Client().Send(request).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  for (const char* end : {"\r\n", "\n", "\r", "\x7f", "\x01"}) {
    const std::string value = absl::StrCat("a-secret", end, "X-Evil: 1");
    EXPECT_THAT(rejected({.headers = {{"X-One", value}}}), Not(HasSubstr("a-secret")));
    EXPECT_THAT(rejected({.key = value}), Not(HasSubstr("a-secret")));
    rejected({.headers = {{value, "1"}}});
  }
  rejected({.headers = {{"X-One", std::string("a\0b", 3)}}});
  rejected({.headers = {{"", "1"}}});
  rejected({.headers = {{"X-One: 1", "1"}}});
  rejected({.method = "GET / HTTP/1.1\r\nX-Evil:"});
  rejected({.method = ""});
  EXPECT_EQ(server.connections(), 0);
}

TEST(HttpClient, TakesNoMoreBytesThanItMay) {
  EchoSite site;
  const std::string body(5000, 'x');
  for (const char* path : {"/echo", "/stream"}) {
    ClientRequest request{.url = UrlOf(site, path), .method = "POST", .body = body, .max_answer_bytes = 5000};
    EXPECT_EQ(Client().Send(request)->body.size(), 5000u);
    request.max_answer_bytes = 4999;
    EXPECT_TRUE(absl::IsResourceExhausted(Client().Send(request).status()));
  }
  std::string heads = "HTTP/1.1 200 OK\r\n";
  while (heads.size() < 400'000) absl::StrAppend(&heads, "X-", heads.size(), ": ", std::string(1000, 'x'), "\r\n");
  RawServer hostile(heads);
  EXPECT_TRUE(absl::IsResourceExhausted(Client().Send({.url = hostile.url()}).status()));
}

TEST(HttpClient, StreamsBytesAsTheyCome) {
  EchoSite site;
  std::string got;
  int status = 0;
  ClientRequest request{.url = UrlOf(site, "/hold/stream"), .method = "POST", .body = "the rest"};
  request.on_head = [&](const Answer& head) { status = head.status; };
  request.on_bytes = [&](std::string_view bytes) {
    EXPECT_EQ(status, 200) << "the head comes first";
    got += bytes;
    if (got == "begun\n") site.handler.Release();
    return true;
  };
  const auto answer = Client().Send(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(got, "begun\nthe rest");
  EXPECT_EQ(answer->body, "");
  request.on_bytes = [](std::string_view) { return false; };
  EXPECT_TRUE(Client().Send(request).ok()) << "the caller has enough";
}

TEST(HttpClient, EndsInTimeInEveryPhase) {
  const RawServer silent("", seconds(20));
  const RawServer stalled("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", seconds(20));
  const RawServer half("HTTP/1.1 200 OK\r\nX-He", seconds(20));
  const auto begun = std::chrono::steady_clock::now();
  for (const RawServer* server : {&silent, &stalled, &half}) {
    const absl::Status late = Client().Send({.url = server->url(), .timeout = milliseconds(200)}).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  }
  // A TLS server that never begins to speak.
  const absl::Status shake =
      Client().Send({.url = "https" + silent.url().substr(4), .timeout = milliseconds(200)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(shake)) << shake;
  const absl::Status without_bytes = Client().Send({.url = stalled.url(), .stall_timeout = seconds(1)}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(without_bytes)) << without_bytes;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(15));
}

TEST(HttpClient, EndsWhenNobodyWaits) {
  EchoSite site;
  std::atomic<bool> cancelled = false;
  const std::jthread canceller([&] {
    site.handler.WaitForHeld(1);
    cancelled = true;
  });
  const auto answer =
      Client().Send({.url = UrlOf(site, "/hold"), .method = "POST", .cancelled = [&] { return cancelled.load(); }});
  EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
}

TEST(HttpClient, ReportsWhereNobodyAnswersOrTheAnswerIsCut) {
  std::string gone;
  {
    const RawServer cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    const RawServer other("SSH-2.0-OpenSSH_9.2\r\n"), worse("HTTP/no\r\n\r\n");
    gone = cut.url();
    EXPECT_TRUE(absl::IsUnavailable(Client().Send({.url = cut.url()}).status()));
    EXPECT_TRUE(absl::IsUnavailable(Client().Send({.url = other.url()}).status()));
    EXPECT_TRUE(absl::IsUnavailable(Client().Send({.url = worse.url()}).status()));
  }
  EXPECT_TRUE(absl::IsUnavailable(Client().Send({.url = gone}).status()));
  const int closed = base::testing::FreePort();
  const absl::Status refused = Client().Send({.url = absl::StrCat("http://127.0.0.1:", closed, "/")}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), ::testing::EndsWith(": Connection refused"));
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr(" after ")));
  const RawServer redirect("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(Client().Send({.url = redirect.url()})->status, 302) << "it is not followed";
}

TEST(HttpClient, TrustsNamedCertificatesAlone) {
  const TlsFiles files;
  EchoSite site;
  site.options.tls_certificate = files("a.pem");
  site.options.tls_key = files("a.key");
  const auto ask = [&](const std::string& ca) {
    return Client()
        .Send({.url = UrlOf(site, "/echo"), .method = "POST", .body = "x", .key = "a-secret-of-mine", .ca = ca})
        .status();
  };
  EXPECT_TRUE(ask(files("a.pem")).ok()) << ask(files("a.pem"));
  for (const std::string& ca : {std::string(), files("b.pem"), files("none")}) {
    const absl::Status rejected = ask(ca);
    EXPECT_TRUE(absl::IsPermissionDenied(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), Not(HasSubstr("a-secret-of-mine")));
  }
  const Variable trusted("SSL_CERT_FILE", files("a.pem"));
  EXPECT_TRUE(ask("").ok()) << ask("");
  EXPECT_TRUE(absl::IsPermissionDenied(ask(files("b.pem"))));
}

TEST(HttpClient, NoErrorHasTheKey) {
  // A server's own words reach an error only where they are no HTTP.
  const std::string key = "a-secret-of-mine";
  for (const char* words : {"HTTP/1.1 a-secret-of-mine\r\n\r\n", "HTTP/a-secret-of-mine\r\n\r\n", "a-secret-of-mine",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: a-secret-of-mine\r\n\r\na-secret-of-mine",
                            "HTTP/1.1 200 OK\r\nContent-Length: a-secret-of-mine\r\n\r\n",
                            "HTTP/1.1 200 OK\r\nContent-Encoding: a-secret-of-mine\r\nContent-Length: 9\r\n\r\nx"}) {
    const RawServer server(words);
    const auto answer = Client().Send({.url = server.url(), .key = key, .timeout = seconds(5)});
    EXPECT_THAT(std::string(answer.status().message()), Not(HasSubstr(key))) << words;
  }
  const absl::Status nowhere =
      Client().Send({.url = "http://a-secret-of-mine.invalid/", .key = key, .timeout = seconds(2)}).status();
  EXPECT_FALSE(nowhere.ok());
  EXPECT_THAT(std::string(nowhere.message()), Not(HasSubstr(key)));
}

TEST(HttpClient, AsksProxiesOfTheEnvironmentOnlyWhereTheCallerWants) {
  RawServer proxy("HTTP/1.1 203 Of The Proxy\r\nContent-Length: 0\r\n\r\n");
  EchoSite site;
  const Variable http("http_proxy", proxy.url()), all("ALL_PROXY", proxy.url());
  const std::string remote = "http://a-host.invalid/x";
  EXPECT_FALSE(Client().Send({.url = remote, .timeout = seconds(2)}).ok());
  EXPECT_EQ(proxy.connections(), 0);
  EXPECT_EQ(Client().Send({.url = remote, .uses_proxies = true})->status, 203);
  EXPECT_TRUE(proxy.head().starts_with("GET http://a-host.invalid/x HTTP/1.1")) << proxy.head();
  const std::string port = absl::StrCat(":", site.server().port(), "/echo");
  for (const char* host : {"http://127.0.0.1", "http://localhost", "http://LocalHost", "http://127.1"}) {
    EXPECT_EQ(Client().Send({.url = host + port, .uses_proxies = true})->status, 200) << host;
  }
  EXPECT_EQ(proxy.connections(), 1);
}

TEST(HttpClient, SpeaksOverSocketFiles) {
  std::string folder = ::testing::TempDir() + "/client_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string deep = folder + "/" + std::string(120, 'd');
  std::filesystem::create_directory(deep);
  const Variable proxy("http_proxy", "http://127.0.0.1:1");
  Client client;
  for (const std::string& path : {folder + "/a.sock", deep + "/a.sock"}) {
    EXPECT_TRUE(absl::IsUnavailable(client.Send({.url = "http://run/echo", .unix_socket = path}).status()));
    EchoSite site;
    site.options.unix_socket = path;
    site.server();
    const auto answer = client.Send(
        {.url = "http://run/echo", .method = "POST", .body = path, .unix_socket = path, .uses_proxies = true});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->body, path);
  }
  EXPECT_TRUE(absl::IsUnavailable(client.Send({.url = "http://run/", .unix_socket = folder + "/none/a"}).status()));
  std::filesystem::remove_all(folder);
}

TEST(HttpClient, TakesSocketsOfTheCaller) {
  EchoSite site;
  int made = 0;
  ClientRequest request{.url = UrlOf(site, "/echo"), .method = "POST", .body = "hello"};
  request.make_socket = [&]() -> absl::StatusOr<base::Fd> {
    ++made;
    return base::Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  };
  Client client;
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(client.Send(request)->body, "hello");
    EXPECT_EQ(made, i) << "no connection is shared";
  }
  request.make_socket = []() -> absl::StatusOr<base::Fd> { return absl::NotFoundError("no room"); };
  EXPECT_EQ(client.Send(request).status(), absl::NotFoundError("no room"));
}

TEST(HttpClient, ServesThreadsAtOnce) {
  EchoSite site;
  Client client;
  const std::string url = UrlOf(site, "/stream");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&client, &url, i] {
      const std::string body(20'000 + i, static_cast<char>('a' + i));
      for (int j = 0; j < 10; ++j) EXPECT_EQ(client.Send({.url = url, .method = "POST", .body = body})->body, body);
    });
  }
}

}  // namespace
}  // namespace ingot::http
