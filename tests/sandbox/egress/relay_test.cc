#include "sandbox/egress/relay.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <vector>

namespace ingot::sandbox {
namespace {

constexpr int kMax = static_cast<int>(Relay::kMaxConnections);

struct Listener {
  Listener() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd.get(), 2 * kMax), 0);
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  Fd fd;
  int port = 0;
};

Fd ConnectTo(int port) {
  Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return client;
}

// Accepts `count` connections, or fewer if none comes for `timeout_ms`.
std::vector<Fd> AcceptFrom(const Fd& listener, int count, int timeout_ms) {
  std::vector<Fd> accepted;
  for (pollfd ready{listener.get(), POLLIN, 0}; std::ssize(accepted) < count && poll(&ready, 1, timeout_ms) > 0;) {
    accepted.emplace_back(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  return accepted;
}

// One sandbox's connections never take all of the gateway's.
TEST(RelayTest, ASandboxHasSoManyConnectionsAtATime) {
  const auto relay = Relay::Start().value();
  const Listener gateway;
  Listener greedy, modest;
  const int greedy_port = greedy.port, modest_port = modest.port;
  const std::string url = "http://127.0.0.1:" + std::to_string(gateway.port);
  const auto serves = relay->Serve(std::move(greedy.fd), url), serves_other = relay->Serve(std::move(modest.fd), url);
  ASSERT_TRUE(serves.ok() && serves_other.ok());
  std::vector<Fd> clients;
  for (int i = 0; i < kMax + 3; ++i) clients.push_back(ConnectTo(greedy_port));
  std::vector<Fd> served = AcceptFrom(gateway.fd, kMax, 10'000);
  ASSERT_EQ(served.size(), Relay::kMaxConnections);
  EXPECT_TRUE(AcceptFrom(gateway.fd, 1, 200).empty()) << "the others wait in the sandbox's backlog";

  const Fd other = ConnectTo(modest_port);
  EXPECT_EQ(AcceptFrom(gateway.fd, 1, 10'000).size(), 1u) << "another sandbox is served";

  served.clear();
  clients.erase(clients.begin(), clients.begin() + kMax);
  EXPECT_EQ(AcceptFrom(gateway.fd, 3, 10'000).size(), 3u) << "those that ended made way for those that waited";
}

}  // namespace
}  // namespace ingot::sandbox
