#include "app/cluster/load_balancer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "base/listening_socket.h"

namespace ingot::app {
namespace {

int Connected(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

// The longest wait of the socket for bytes, or for room.
void SetWait(int socket, std::chrono::milliseconds wait) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait);
  const timeval limit{.tv_sec = seconds.count(), .tv_usec = std::chrono::microseconds(wait - seconds).count()};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    EXPECT_EQ(::setsockopt(socket, SOL_SOCKET, option, &limit, sizeof(limit)), 0);
  }
}

// Sends a line, and returns the answer up to its end; "" = the connection was closed.
std::string Ask(int socket, const std::string& line) {
  if (::send(socket, line.data(), line.size(), MSG_NOSIGNAL) < 0) return "";
  std::string answer;
  char byte = 0;
  while (::recv(socket, &byte, 1, 0) == 1 && byte != '\n') answer += byte;
  return answer;
}

// Answers each line of each connection with its name and that line.
class NamedServer {
 public:
  explicit NamedServer(std::string name) : name_(std::move(name)) {
    accepting_ = std::thread([this] { Accept(); });
  }
  ~NamedServer() {
    socket_.Shut();
    accepting_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  const std::string& place() const { return socket_.place(); }

 private:
  void Accept() {
    for (int client = 0; (client = socket_.Accept()) >= 0;) {
      threads_.emplace_back([this, client] {
        std::string line;
        for (char byte = 0; ::recv(client, &byte, 1, 0) == 1;) {
          line += byte;
          if (byte != '\n') continue;
          const std::string answer = name_ + " " + std::exchange(line, "");
          ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
        }
        ::close(client);
      });
    }
  }

  const std::string name_;
  const base::testing::ListeningSocket socket_;
  std::thread accepting_;
  std::vector<std::thread> threads_;
};

TEST(LoadBalancer, ForwardsConnectionsToTheGatewaysInTurn) {
  NamedServer a("a"), b("b");
  const auto load_balancer = LoadBalancer::Listen("127.0.0.1", 0).value();
  const int early = Connected(load_balancer->port());  // waits for the first gateway
  load_balancer->SetGateways({a.place(), b.place()});
  const std::string first = Ask(early, "one\n");
  const int late = Connected(load_balancer->port());
  const std::string second = Ask(late, "two\n");
  EXPECT_EQ(first + ", " + second, first[0] == 'a' ? "a one, b two" : "b one, a two");
  EXPECT_EQ(Ask(early, "three\n"), first.substr(0, 2) + "three") << "a connection stays where it is";
  ::close(early);
  ::close(late);
}

TEST(LoadBalancer, ClosesTheConnectionsToAGatewayThatIsGone) {
  NamedServer a("a"), b("b");
  const auto load_balancer = LoadBalancer::Listen("127.0.0.1", 0).value();
  load_balancer->SetGateways({a.place()});
  const int client = Connected(load_balancer->port());
  EXPECT_EQ(Ask(client, "one\n"), "a one");
  load_balancer->SetGateways({b.place()});
  char byte = 0;
  EXPECT_LE(::recv(client, &byte, 1, 0), 0);
  ::close(client);
  const int again = Connected(load_balancer->port());
  EXPECT_EQ(Ask(again, "two\n"), "b two");
  ::close(again);
}

TEST(LoadBalancer, PassesOverAGatewayThatTakesNoConnection) {
  NamedServer b("b");
  const auto load_balancer = LoadBalancer::Listen("127.0.0.1", 0).value();
  load_balancer->SetGateways({"127.0.0.1:1", b.place()});
  for (int i = 0; i < 4; ++i) {
    const int client = Connected(load_balancer->port());
    EXPECT_EQ(Ask(client, "one\n"), "b one");
    ::close(client);
  }
}

TEST(LoadBalancer, ClosesAClientThatStaysAfterItsGateway) {
  const base::testing::ListeningSocket gateway;
  const auto load_balancer =
      LoadBalancer::Listen("127.0.0.1", 0, {.client_timeout = std::chrono::milliseconds(50)}).value();
  load_balancer->SetGateways({gateway.place()});
  const int client = Connected(load_balancer->port());
  const int accepted = gateway.Accept();
  SetWait(accepted, std::chrono::seconds(20));
  ::shutdown(accepted, SHUT_WR);
  char byte = 0;
  EXPECT_EQ(::recv(client, &byte, 1, 0), 0);
  EXPECT_EQ(::recv(accepted, &byte, 1, 0), 0) << "the client has not closed its side";
  ::close(accepted);
  ::close(client);
}

TEST(LoadBalancer, AClientThatHasClosedItsSideGetsItsAnswer) {
  const base::testing::ListeningSocket gateway;
  const auto load_balancer =
      LoadBalancer::Listen("127.0.0.1", 0, {.client_timeout = std::chrono::milliseconds(50)}).value();
  load_balancer->SetGateways({gateway.place()});
  const int client = Connected(load_balancer->port());
  const int accepted = gateway.Accept();
  ::shutdown(client, SHUT_WR);
  char byte = 0;
  EXPECT_EQ(::recv(accepted, &byte, 1, 0), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // longer than the timeout
  EXPECT_EQ(::send(accepted, "a\n", 2, MSG_NOSIGNAL), 2);
  EXPECT_EQ(::recv(client, &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'a');
  ::close(accepted);
  ::close(client);
}

TEST(LoadBalancer, ClosesAClientThatTakesNoBytes) {
  const base::testing::ListeningSocket gateway;
  const auto load_balancer =
      LoadBalancer::Listen("127.0.0.1", 0, {.client_timeout = std::chrono::milliseconds(50)}).value();
  load_balancer->SetGateways({gateway.place()});
  const int client = Connected(load_balancer->port());
  const int accepted = gateway.Accept();
  SetWait(accepted, std::chrono::seconds(20));
  const std::string bytes(64 << 10, 'x');
  while (::send(accepted, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
  EXPECT_NE(errno, EAGAIN) << "the gateway waits for ever";
  ::close(accepted);
  ::close(client);
}

TEST(LoadBalancer, BeyondItsConnectionsClientsWait) {
  NamedServer a("a");
  const auto load_balancer = LoadBalancer::Listen("127.0.0.1", 0, {.max_connections = 1}).value();
  load_balancer->SetGateways({a.place()});
  const int first = Connected(load_balancer->port());
  EXPECT_EQ(Ask(first, "one\n"), "a one");
  const int second = Connected(load_balancer->port());
  SetWait(second, std::chrono::milliseconds(300));
  EXPECT_EQ(Ask(second, "two\n"), "");
  ::close(first);
  SetWait(second, std::chrono::seconds(20));
  EXPECT_EQ(Ask(second, ""), "a two");
  ::close(second);
}

TEST(LoadBalancer, APortThatIsTakenIsAnError) {
  const auto load_balancer = LoadBalancer::Listen("127.0.0.1", 0).value();
  const absl::Status taken = LoadBalancer::Listen("127.0.0.1", load_balancer->port()).status();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_TRUE(absl::IsInvalidArgument(LoadBalancer::Listen("a name", 0).status()));
}

TEST(LoadBalancer, SeveralGatewaysNeedOneUnlessTheirOwnerHasAnother) {
  RunConfig config;
  config.tasks = "tasks.jsonl";
  EXPECT_FALSE(NeedsLoadBalancer(config));
  config.cluster.gateways = 2;
  EXPECT_TRUE(NeedsLoadBalancer(config));
  EXPECT_EQ(LoadBalancerUrl(config, "10.0.0.5", 80), "http://127.0.0.1:80");
  config.http.host = "0.0.0.0";
  config.http.tls_certificate = "front.pem";
  EXPECT_EQ(LoadBalancerUrl(config, "10.0.0.5", 80), "https://10.0.0.5:80");
  config.gateway.public_url = "https://agents.example";
  EXPECT_FALSE(NeedsLoadBalancer(config));
}

}  // namespace
}  // namespace ingot::app
