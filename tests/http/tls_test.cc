// TLS with certificates made by the test, against a client of OpenSSL.
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "http/echo_handler.h"
#include "http/tls_files.h"

namespace ingot::http::tls_test {
namespace {

// A blocking TLS client that trusts one certificate.
class TlsWire {
 public:
  TlsWire(int port, const std::string& trusted, int version = 0)
      : wire_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_load_verify_locations(context_.get(), trusted.c_str(), nullptr);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    if (version != 0) SSL_CTX_set_max_proto_version(context_.get(), version);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), wire_.fd());
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  bool connected() const { return connected_; }
  bool Send(const std::string& bytes) {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  }
  // Reads up to `mark`, or to the end.
  std::string ReadTo(const std::string& mark) {
    std::string all;
    while (all.find(mark) == std::string::npos && More(all)) {
    }
    return all;
  }
  // A reply with a Content-Length.
  std::string ReadReply() {
    std::string all = ReadTo("\r\n\r\n");
    const size_t length = all.find("Content-Length: "), body = all.find("\r\n\r\n") + 4;
    if (length == std::string::npos) return "no length: " + all;
    while (all.size() < body + std::stoul(all.substr(length + 16, 12)) && More(all)) {
    }
    return all;
  }
  bool ended_properly() const { return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }
  void Close(bool say_so) {
    if (say_so) SSL_shutdown(ssl_.get());
    wire_.Close();
  }

 private:
  bool More(std::string& all) {
    char bytes[4096];
    const int got = SSL_read(ssl_.get(), bytes, sizeof(bytes));
    if (got > 0) all.append(bytes, got);
    return got > 0;
  }

  Wire wire_;
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
  bool connected_ = false;
};

TEST(Tls, ServesWhatPlainTextServes) {
  const TlsFiles files;
  EchoSite site;
  site.options.tls_certificate = files("a.pem");
  site.options.tls_key = files("a.key");
  EXPECT_TRUE(site.server().url().starts_with("https://127.0.0.1:"));
  for (const int version : {0, TLS1_2_VERSION}) {
    TlsWire wire(site.server().port(), files("a.pem"), version);
    ASSERT_TRUE(wire.connected());
    for (const bool stream : {false, true, false}) {
      ASSERT_TRUE(wire.Send(Request("POST", stream ? "/stream" : "/echo", std::string(100'000, 'h'))));
      const std::string answer = stream ? wire.ReadTo("h\r\n0\r\n\r\n") : wire.ReadReply();
      EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK")) << answer;
    }
    ASSERT_TRUE(wire.Send(Request("GET", "/echo", "") + Request("GET", "/echo", "", "", "Connection: close\r\n")));
    EXPECT_NE(wire.ReadTo("never").find("Connection: close"), std::string::npos);
    EXPECT_TRUE(wire.ended_properly());
  }
}

TEST(Tls, RejectsOldVersionsPlainTextAndSilence) {
  const TlsFiles files;
  EchoSite site;
  site.options.tls_certificate = files("a.pem");
  site.options.tls_key = files("a.key");
  site.options.request_timeout_s = 0.6;
  EXPECT_FALSE(TlsWire(site.server().port(), files("a.pem"), TLS1_1_VERSION).connected());
  EXPECT_FALSE(TlsWire(site.server().port(), files("b.pem")).connected());
  Wire plain(site.server().port());
  plain.Send(Request("GET", "/echo", ""));
  EXPECT_EQ(plain.Rest().find("HTTP"), std::string::npos);
  Wire silent(site.server().port());
  EXPECT_EQ(silent.Rest(), "");
  TlsWire slow(site.server().port(), files("a.pem"));
  slow.Send("GET /ec");
  EXPECT_NE(slow.ReadTo("never").find("408"), std::string::npos);
}

TEST(Tls, ReportsTheHandlerThatTheClientWentAway) {
  const TlsFiles files;
  for (const bool say_so : {false, true}) {
    for (const bool stream : {false, true}) {
      EchoSite site;
      site.options.tls_certificate = files("a.pem");
      site.options.tls_key = files("a.key");
      TlsWire wire(site.server().port(), files("a.pem"));
      wire.Send(Request("POST", stream ? "/hold/stream" : "/hold", std::string(100'000, 'h')));
      site.handler.WaitForHeld(1);
      wire.Close(say_so);
      EXPECT_EQ(site.handler.WaitForClosed(1)[0], Side::kClient);
    }
  }
}

TEST(Tls, AConnectionBeyondTheLimitIsAnswered) {
  const TlsFiles files;
  EchoSite site;
  site.options.tls_certificate = files("a.pem");
  site.options.tls_key = files("a.key");
  site.options.max_connections = 1;
  TlsWire first(site.server().port(), files("a.pem"));
  first.Send(Request("GET", "/hold", ""));
  site.handler.WaitForHeld(1);
  TlsWire second(site.server().port(), files("a.pem"));
  EXPECT_TRUE(second.ReadReply().starts_with("HTTP/1.1 503"));
}

TEST(Tls, FilesThatDoNotServeAreNamed) {
  const TlsFiles files;
  EchoSite site;
  const struct {
    const char *certificate, *key, *named;
  } cases[] = {{"a.pem", "none", "none': No such file"},     {"none", "a.key", "none': No such file"},
               {"text", "a.key", "text' is not a PEM cer"},  {"a.pem", "text", "text' is not a PEM private key"},
               {"a.pem", "b.key", "b.key' does not match"},  {"a.pem", "a.pem", "a.pem' is not a PEM private key"},
               {"a.pem", "a.locked", "without a passphrase"}};
  for (const auto& test : cases) {
    Options options;
    options.port = 0;
    options.tls_certificate = files(test.certificate);
    options.tls_key = files(test.key);
    const absl::Status status = Server::Listen(options, site.handler).status();
    EXPECT_NE(status.message().find(test.named), absl::string_view::npos) << status;
  }
  Options options;
  options.tls_certificate = files("a.pem");
  EXPECT_EQ(Server::Listen(options, site.handler).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ingot::http::tls_test
