#include "app/checks/port_check.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace ingot::app {
namespace {

using ::testing::HasSubstr;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int BindTo(const base::Fd& socket, int port) {
  const sockaddr_in address = Loopback(port);
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

// A socket to which the system may give this port alone where it asks for any (Linux 6.3).
base::Fd AsksForAnyOf(int port) {
  constexpr int kPortRange = 51;  // IP_LOCAL_PORT_RANGE
  base::Fd one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(one.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const uint32_t range = static_cast<uint32_t>(port) << 16 | static_cast<uint32_t>(port);
  return setsockopt(one.get(), IPPROTO_IP, kPortRange, &range, sizeof(range)) == 0 ? std::move(one) : base::Fd();
}

TEST(HoldPort, KeepsItForAServerThatStartsLater) {
  absl::StatusOr<HeldPort> held = HoldPort("key", "127.0.0.1", 0);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_GT(held->port, 0);
  {
    const base::Fd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    ASSERT_EQ(BindTo(server, held->port), 0);
    ASSERT_EQ(listen(server.get(), 1), 0);
    const absl::Status taken = CheckPort("cluster.trainer_port", "127.0.0.1", held->port);
    EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
    EXPECT_THAT(std::string(taken.message()), HasSubstr("cluster.trainer_port: cannot listen on 127.0.0.1"));
  }
  // Also before the server starts and after it ended, the port goes to nobody who asks for any.
  const base::Fd listener = AsksForAnyOf(held->port), client = AsksForAnyOf(held->port);
  if (!listener.valid()) GTEST_SKIP() << "the kernel has no port range of a socket";
  EXPECT_EQ(BindTo(listener, 0), EADDRINUSE);
  const sockaddr_in nobody = Loopback(1);
  EXPECT_NE(connect(client.get(), reinterpret_cast<const sockaddr*>(&nobody), sizeof(nobody)), 0);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  held->holder = base::Fd();
  EXPECT_EQ(BindTo(listener, 0), 0);
}

TEST(HoldPort, NamesTheKeyOfAHostThatIsUnknown) {
  const absl::Status unknown = CheckPort("http.port", "nowhere.invalid", 1);
  EXPECT_TRUE(absl::IsInvalidArgument(unknown)) << unknown;
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("http.port: 'nowhere.invalid'"));
}

}  // namespace
}  // namespace ingot::app
