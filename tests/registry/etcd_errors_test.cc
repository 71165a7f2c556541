// One clear error, within a deadline, for each way in which an etcd can be the wrong one.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/waits.h"
#include "etcd_cluster.h"
#include "proto/etcd.grpc.pb.h"
#include "registry/grpc_etcd.h"

namespace ingot::registry {
namespace {

using std::chrono::milliseconds;
using testing::EtcdCluster;

class EtcdErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::HasEtcd()) GTEST_SKIP() << testing::kNoEtcd;
  }
};

bool Mentions(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

TEST(EtcdOptions, RejectsEndpointsAndCredentialsThatCannotBe) {
  EtcdOptions options;
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));
  for (const char* bad : {"", "host", "host:", ":2379", "http://host:2379/", "host:port"}) {
    options.endpoints = {bad};
    EXPECT_TRUE(absl::IsInvalidArgument(ConnectEtcd(options).status())) << bad;
  }
  options.endpoints = {"[::1]:2379", "host:2379"};
  EXPECT_TRUE(options.Validate().ok());
  options.user = "me";
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));
  options.password = "secret";
  options.certificate = options.key = "PEM";
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));
  options.ca = "PEM";
  EXPECT_TRUE(options.Validate().ok());
}

TEST(EtcdUnreachable, IsAnErrorWithinTheDeadline) {
  EtcdOptions options;
  options.endpoints = {absl::StrCat("127.0.0.1:", testing::FreePort()), "nowhere.invalid:2379"};
  options.deadline = milliseconds(1500);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status rejected = ConnectEtcd(options).status();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(8000));
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  for (const std::string& endpoint : options.endpoints) EXPECT_TRUE(Mentions(rejected, endpoint)) << rejected;
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// gRPC's words and those of each caller would name it again and again.
TEST(EtcdUnreachable, NamesASingleEndpointOnceInTheErrorAndInTheWait) {
  EtcdOptions options;
  options.endpoints = {absl::StrCat("127.0.0.1:", testing::FreePort())};
  std::string waits;
  std::thread looking([&waits] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(50);
    while (!waits.ends_with("refused)") && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(5));
      for (const std::string& wait : base::Waits::OfProcess().Longer(milliseconds(0), base::WaitKind::kFault))
        waits = wait;
    }
  });
  options.deadline = milliseconds(1000);
  const std::string rejected(ConnectEtcd(options).status().message());
  looking.join();
  EXPECT_EQ(CountOf(rejected, options.endpoints[0]), 1U) << rejected;
  EXPECT_EQ(waits,
            absl::StrCat("etcd at ", options.endpoints[0], " (Failed to connect to remote host: Connection refused)"));
}

TEST(EtcdUnreachable, AnotherServerIsNotTakenForOne) {
  etcdserverpb::Auth::Service other;  // a gRPC server without etcd's other services
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&other);
  const auto server = builder.BuildAndStart();
  EtcdOptions options;
  options.endpoints = {absl::StrCat("127.0.0.1:", port)};
  options.deadline = milliseconds(3000);
  const absl::Status rejected = ConnectEtcd(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
  EXPECT_TRUE(Mentions(rejected, "not etcd v3")) << rejected;
}

TEST_F(EtcdErrors, MembersOfTwoClustersAreRejected) {
  EtcdCluster one(1), two(1);
  ASSERT_TRUE(one.AwaitReady() && two.AwaitReady());
  EtcdOptions options = one.options();
  options.endpoints.push_back(two.endpoints()[0]);
  const absl::Status rejected = ConnectEtcd(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
  EXPECT_TRUE(Mentions(rejected, one.endpoints()[0]) && Mentions(rejected, two.endpoints()[0])) << rejected;
}

TEST_F(EtcdErrors, AClusterThatWasReplacedIsRejected) {
  EtcdCluster cluster(1);
  ASSERT_TRUE(cluster.AwaitReady());
  const auto registry = ConnectEtcd(cluster.options());
  ASSERT_TRUE((*registry)->Put("a", "1", {}).ok());
  cluster.Kill(0);
  cluster.Replace();
  ASSERT_TRUE(cluster.AwaitReady());
  const absl::Status rejected = (*registry)->Put("a", "1", {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
}

TEST_F(EtcdErrors, CredentialsAreAskedForAndChecked) {
  EtcdCluster cluster(1);
  ASSERT_TRUE(cluster.AwaitReady());
  EtcdOptions options = cluster.options();
  options.deadline = milliseconds(3000);
  options.user = "ingot";
  options.password = "right";
  const absl::Status early = ConnectEtcd(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;
  EXPECT_TRUE(Mentions(early, "'ingot'")) << early;

  for (const char* command : {"user add root:root", "user add ingot:right", "user add guest:guest", "role add run",
                              "role grant-permission run --prefix=true readwrite ingot", "user grant-role ingot run",
                              "user grant-role root root", "auth enable"}) {
    cluster.Control(command);
  }
  const auto registry = ConnectEtcd(options);
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_TRUE((*registry)->Put("ingot/a", "1", {}).ok());
  const auto lease = (*registry)->Grant(std::chrono::seconds(5), nullptr);
  EXPECT_TRUE(lease.ok()) << lease.status();
  const absl::Status elsewhere = (*registry)->Put("other", "1", {}).status();
  EXPECT_TRUE(absl::IsPermissionDenied(elsewhere)) << elsewhere;
  EXPECT_TRUE(Mentions(elsewhere, "'ingot'")) << elsewhere;

  options.password = "wrong";
  const absl::Status rejected = ConnectEtcd(options).status();
  EXPECT_TRUE(absl::IsUnauthenticated(rejected)) << rejected;
  EXPECT_TRUE(Mentions(rejected, "'ingot'")) << rejected;
  options.user = options.password = "guest";
  EXPECT_TRUE(absl::IsPermissionDenied(ConnectEtcd(options).status()));
  options.user = options.password = "";
  const absl::Status unnamed = ConnectEtcd(options).status();
  EXPECT_TRUE(absl::IsUnauthenticated(unnamed)) << unnamed;
}

std::string Content(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

TEST_F(EtcdErrors, TlsIsSpokenWithTrustedMembersAlone) {
  if (std::system("command -v openssl >/dev/null") != 0) GTEST_SKIP() << "no openssl command here";
  std::string pattern = std::filesystem::temp_directory_path().string() + "/ingot-etcd-tls-XXXXXX";
  const std::string folder = ::mkdtemp(pattern.data());
  for (const char* name : {"/server", "/stranger"}) {
    const std::string make = absl::StrCat(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=etcd -addext "
        "subjectAltName=IP:127.0.0.1 -keyout ",
        folder, name, ".key -out ", folder, name, ".pem 2>/dev/null");
    ASSERT_EQ(std::system(make.c_str()), 0);
  }
  {
    EtcdCluster cluster(1, {"--cert-file", folder + "/server.pem", "--key-file", folder + "/server.key"}, "https");
    EtcdOptions options = cluster.options();
    options.ca = Content(folder + "/server.pem");
    ASSERT_TRUE(EtcdCluster::AwaitReady(options));
    options.deadline = milliseconds(1500);
    options.ca = Content(folder + "/stranger.pem");
    const absl::Status rejected = ConnectEtcd(options).status();
    EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
    options.ca = "";
    EXPECT_TRUE(absl::IsUnavailable(ConnectEtcd(options).status()));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ingot::registry
