// The way out of a build's sandbox: the list of hosts, heads of requests, and the proxy over real sockets.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "sandbox/egress/egress_head.h"
#include "sandbox/egress/egress_list.h"
#include "sandbox/egress/egress_proxy.h"
#include "sandbox/loopback_server.h"

namespace ingot::sandbox {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

sockaddr_storage Address(const std::string& text) {
  sockaddr_storage storage{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    storage.ss_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
    storage.ss_family = AF_INET6;
  }
  return storage;
}

AddressKind Kind(const std::string& text) {
  const sockaddr_storage address = Address(text);
  return KindOf(reinterpret_cast<const sockaddr&>(address));
}

TEST(EgressListTest, AnEntryIsANameAllBelowOneOrAnAddress) {
  const auto list = EgressList::Parse({"PyPI.org:443", "*.pythonhosted.org:443", "[fd00::7]:5000", "10.0.0.7:80"});
  ASSERT_TRUE(list.ok()) << list.status();
  using Match = EgressList::Match;
  const auto find = [&](const std::string& host) { return list->Find(*ParseHostPort(host)); };
  EXPECT_EQ(find("pypi.org:443"), Match::kName);
  EXPECT_EQ(find("PYPI.ORG.:443"), Match::kName) << "the root's dot says nothing";
  EXPECT_EQ(find("pypi.org:80"), Match::kNone);
  EXPECT_EQ(find("evilpypi.org:443"), Match::kNone);
  EXPECT_EQ(find("pypi.org.evil:443"), Match::kNone);
  EXPECT_EQ(find("files.pythonhosted.org:443"), Match::kBelow);
  EXPECT_EQ(find("a.b.pythonhosted.org:443"), Match::kBelow);
  EXPECT_EQ(find("pythonhosted.org:443"), Match::kNone);
  EXPECT_EQ(find("evilpythonhosted.org:443"), Match::kNone);
  EXPECT_EQ(find("[fd00::7]:5000"), Match::kName);
  EXPECT_EQ(find("10.0.0.7:80"), Match::kName);
}

TEST(EgressListTest, WrongEntriesAreNamed) {
  for (const char* const wrong :
       {"pypi.org", "pypi.org:", ":443", "pypi.org:0", "pypi.org:65536", "pypi.org:+4", "*:443", "*.:443", "a b:1",
        "[::1:1", "[::g]:1", "http://pypi.org:443", "a/b:1", ".org:1", "a:1:2"}) {
    const auto list = EgressList::Parse({"right:1", wrong});
    ASSERT_FALSE(list.ok()) << wrong;
    EXPECT_THAT(std::string(list.status().message()), HasSubstr(absl::StrCat("'", wrong, "'")));
  }
}

TEST(EgressListTest, AddressesAreOfThreeKinds) {
  for (const char* const text :
       {"8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808", "::ffff:8.8.8.8"})
    EXPECT_EQ(Kind(text), AddressKind::kPublic) << text;
  for (const char* const text :
       {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1", "fd00::1", "fec0::1",
        "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::1"})
    EXPECT_EQ(Kind(text), AddressKind::kPrivate) << text;
  for (const char* const text :
       {"127.0.0.1", "127.255.0.1", "0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "::", "::1",
        "fe80::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "::7f00:1",
        "2002:7f00:1::1", "2001::1", "4000::1"})
    EXPECT_EQ(Kind(text), AddressKind::kLocal) << text;
}

TEST(EgressListTest, ANameLeadsIntoTheOwnersNetworkOnlyIfItIsListedAndToThisMachineNever) {
  using Match = EgressList::Match;
  const auto may = [](Match match, const std::string& host, const std::string& address) {
    const sockaddr_storage storage = Address(address);
    return EgressList::MayReach(match, {host, 443}, reinterpret_cast<const sockaddr&>(storage));
  };
  EXPECT_TRUE(may(Match::kBelow, "a.example", "8.8.8.8"));
  EXPECT_FALSE(may(Match::kBelow, "a.example", "10.0.0.7"));
  EXPECT_TRUE(may(Match::kName, "mirror.example", "10.0.0.7"));
  EXPECT_FALSE(may(Match::kName, "mirror.example", "127.0.0.1"));
  EXPECT_FALSE(may(Match::kName, "mirror.example", "169.254.169.254"));
  EXPECT_TRUE(may(Match::kName, "127.0.0.1", "127.0.0.1"));
  EXPECT_TRUE(may(Match::kName, "localhost", "127.0.0.1"));
  EXPECT_FALSE(may(Match::kBelow, "a.localhost", "127.0.0.1"));
}

TEST(EgressHeadTest, ARequestIsATunnelOrOneThatIsPassedOn) {
  const auto tunnel = ParseEgressHead("CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\n");
  ASSERT_TRUE(tunnel.ok()) << tunnel.status();
  EXPECT_TRUE(tunnel->is_tunnel);
  EXPECT_EQ(Text(tunnel->host), "pypi.org:443");
  const auto get = ParseEgressHead(
      "GET http://Deb.Example/a?b=c HTTP/1.1\r\nHost: other\r\nProxy-Authorization: x\r\nConnection: keep-alive\r\n"
      "Range: bytes=0-1\r\n\r\n");
  ASSERT_TRUE(get.ok()) << get.status();
  EXPECT_EQ(Text(get->host), "deb.example:80");
  EXPECT_EQ(get->head, "GET /a?b=c HTTP/1.1\r\nHost: deb.example\r\nRange: bytes=0-1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(ParseEgressHead("HEAD http://[::1]:8080?q HTTP/1.0\r\n\r\n")->head,
            "HEAD /?q HTTP/1.0\r\nHost: [::1]:8080\r\nConnection: close\r\n\r\n");
}

TEST(EgressHeadTest, OtherHeadsAreRejected) {
  for (const char* const wrong :
       {"\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET http:///x HTTP/1.1\r\n\r\n", "GET http://a@b/ HTTP/1.1\r\n\r\n",
        "GET https://a/ HTTP/1.1\r\n\r\n", "GET http://a/ HTTP/2\r\n\r\n", "GET  http://a/ HTTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nno colon\r\n\r\n", "GET http://a/ HTTP/1.1\r\n folded: x\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n", "GET http://a/ HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "CONNECT a HTTP/1.1\r\n\r\n",
        "CONNECT http://a:1 HTTP/1.1\r\n\r\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseEgressHead(wrong).status())) << wrong;
  }
  EXPECT_TRUE(absl::IsUnimplemented(ParseEgressHead("POST http://a/ HTTP/1.1\r\n\r\n").status()));
}

class EgressProxyTest : public testing::Test {
 protected:
  void Start(const std::vector<std::string>& hosts) {
    Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(listener.get(), 100), 0);
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    at_ = address;
    auto proxy = EgressProxy::Start(std::move(listener), *EgressList::Parse(hosts));
    ASSERT_TRUE(proxy.ok()) << proxy.status();
    proxy_ = *std::move(proxy);
  }
  Fd Connect() const {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&at_), sizeof(at_)), 0);
    return fd;
  }
  static void Send(const Fd& fd, const std::string& text) {
    EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // All that comes until the end; or until `until` is there.
  static std::string Receive(const Fd& fd, const std::string& until = "") {
    std::string text;
    char buffer[4096];
    while (until.empty() || text.find(until) == std::string::npos) {
      const ssize_t got = recv(fd.get(), buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }
  std::string Ask(const std::string& request) const {
    const Fd fd = Connect();
    Send(fd, request);
    return Receive(fd);
  }

  sockaddr_in at_{};
  std::unique_ptr<EgressProxy> proxy_;
};

TEST_F(EgressProxyTest, ListedHostsAreReachedByRequestAndByTunnel) {
  const LoopbackServer server("the package");
  Start({server.host()});
  EXPECT_THAT(Ask(absl::StrCat("GET http://", server.host(), "/p HTTP/1.1\r\nHost: x\r\nAccept: y\r\n\r\n")),
              testing::AllOf(StartsWith("HTTP/1.1 200 OK"), testing::EndsWith("the package")));
  EXPECT_EQ(server.last_head(),
            absl::StrCat("GET /p HTTP/1.1\r\nHost: ", server.host(), "\r\nAccept: y\r\nConnection: close\r\n\r\n"));
  const Fd fd = Connect();
  Send(fd, absl::StrCat("CONNECT ", server.host(), " HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(Receive(fd, "\r\n\r\n"), "HTTP/1.1 200 Connection established\r\n\r\n");
  Send(fd, "GET /through HTTP/1.1\r\n\r\n");
  EXPECT_THAT(Receive(fd), testing::EndsWith("the package"));
  EXPECT_EQ(server.last_head(), "GET /through HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(proxy_->Rejected().empty());
}

TEST_F(EgressProxyTest, OtherHostsAreRejectedByNameAndNeverConnectedTo) {
  const LoopbackServer server("a secret");
  // 127.1 is a name to the list, and an address to the system's lookup.
  Start({"pypi.org:443", absl::StrCat("127.1:", server.port())});
  EXPECT_THAT(
      Ask(absl::StrCat("GET http://", server.host(), "/ HTTP/1.1\r\n\r\n")),
      testing::AllOf(StartsWith("HTTP/1.1 403"), HasSubstr(server.host()), HasSubstr("agents.image_build_hosts")));
  EXPECT_THAT(Ask(absl::StrCat("CONNECT ", server.host(), " HTTP/1.1\r\n\r\n")), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Ask(absl::StrCat("CONNECT 127.1:", server.port(), " HTTP/1.1\r\n\r\n")),
              testing::AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("this machine")));
  EXPECT_THAT(Ask("POST http://pypi.org:443/ HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Ask("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_EQ(server.connections(), 0);
  EXPECT_THAT(proxy_->Rejected(),
              ElementsAre(server.host(),
                          testing::AllOf(StartsWith(absl::StrCat("127.1:", server.port())), HasSubstr("machine"))));
}

TEST_F(EgressProxyTest, AListedHostThatDoesNotAnswerIsNamed) {
  int port = 0;
  {
    const LoopbackServer gone("x");
    port = gone.port();
  }
  Start({absl::StrCat("127.0.0.1:", port)});
  EXPECT_THAT(Ask(absl::StrCat("CONNECT 127.0.0.1:", port, " HTTP/1.1\r\n\r\n")), StartsWith("HTTP/1.1 502"));
  EXPECT_THAT(proxy_->Unreached(),
              ElementsAre(absl::StrCat("127.0.0.1:", port, " (cannot connect: Connection refused)")));
  EXPECT_TRUE(proxy_->Rejected().empty());
}

TEST_F(EgressProxyTest, AHeadThatIsTooLongClosesTheConnection) {
  const LoopbackServer server("x");
  Start({server.host()});
  const std::string field = absl::StrCat("A: ", std::string(4000, 'x'), "\r\n");
  std::string fields;
  const auto ask = [&] { return absl::StrCat("GET http://", server.host(), "/ HTTP/1.1\r\n", fields, "\r\n"); };
  for (int i = 0; i < 3; ++i) fields += field;
  EXPECT_THAT(Ask(ask()), StartsWith("HTTP/1.1 200")) << "12 KB";
  // Much larger than the limit of 16 KiB, so no single read contains both the allowed part and the end. The request is
  // complete, so it would be answered if there were no limit.
  for (int i = 0; i < 40; ++i) fields += field;
  const std::string head = ask();
  const Fd fd = Connect();
  send(fd.get(), head.data(), head.size(), MSG_NOSIGNAL);  // the proxy may close before it has read everything
  EXPECT_EQ(Receive(fd), "");
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(EgressProxyTest, MoreClientsThanConnectionsAreServedOneAfterAnother) {
  const LoopbackServer server("x");
  Start({server.host()});
  std::vector<Fd> silent;
  for (int i = 0; i < 64; ++i) silent.push_back(Connect());  // each takes a connection, and sends no head
  const Fd late = Connect();
  Send(late, absl::StrCat("GET http://", server.host(), "/ HTTP/1.1\r\n\r\n"));
  // The second pause after this point begins after the late client has connected, so the proxy left it in the queue.
  // Without the limit there would be no pause.
  const int64_t before = proxy_->pauses();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (proxy_->pauses() < before + 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_GE(proxy_->pauses(), before + 2) << "no client has to wait for a connection";
  pollfd answered{late.get(), POLLIN, 0};
  EXPECT_EQ(poll(&answered, 1, 0), 0) << "it waits until one of the others ends";
  EXPECT_EQ(server.connections(), 0);
  silent.clear();
  EXPECT_THAT(Receive(late), StartsWith("HTTP/1.1 200"));
}

TEST_F(EgressProxyTest, ItsEndEndsTunnels) {
  const LoopbackServer server("x");
  Start({server.host()});
  const Fd tunnel = Connect(), silent = Connect();
  Send(tunnel, absl::StrCat("CONNECT ", server.host(), " HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(Receive(tunnel, "\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  proxy_.reset();
  EXPECT_EQ(Receive(tunnel), "");
  EXPECT_EQ(Receive(silent), "");
}

}  // namespace
}  // namespace ingot::sandbox
